"""Where the public data sets are published, in one table. Nothing is ever downloaded without being asked.

The addresses and MD5 sums are those that the sets' authors and their common mirrors publish. MD5 finds
damage, not an attacker. Authors move their pages: `downloads` takes another address with the same files.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """One file to download: its address, its published MD5, and the members wanted if it is an archive."""

    url: str
    md5: str
    members: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name under which it is stored."""
        return self.url.rpartition("/")[2]


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_EMNIST = "https://biometrics.nist.gov/cs_links/EMNIST/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_SVHN = "http://ufldl.stanford.edu/housenumbers/"

ADDRESSES: dict[str, tuple[Download, ...]] = {
    "mnist": (
        Download(_MNIST + "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        Download(_MNIST + "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        Download(_MNIST + "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        Download(_MNIST + "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        Download(_QMNIST + "qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4"),
    ),
    "fmnist": (
        Download(_FASHION + "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        Download(_FASHION + "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        Download(_FASHION + "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        Download(_FASHION + "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    "emnist": (
        Download(
            _EMNIST + "gzip.zip",
            "58c8d27c78d21e728a6bc7b3cc06412e",
            tuple(
                f"emnist-digits-{part}-{kind}-ubyte.gz"
                for part in ("train", "test")
                for kind in ("images-idx3", "labels-idx1")
            ),
        ),
    ),
    "cifar10": (
        Download(
            _CIFAR + "cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"),
        ),
    ),
    "svhn": (
        Download(_SVHN + "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        Download(_SVHN + "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ),
}
"""The downloads of each data set. `shakespeare` has no public file in its form."""
