"""The real sets: what their publishers say about them, and the papers' partitions of them."""

import hashlib
import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from sordino.core.streams import Streams
from sordino.data import deal, load, manifest
from sordino.data.addresses import ADDRESSES
from sordino.data.files import find, read
from sordino.data.sources.shakespeare import ALPHABET

pytestmark = pytest.mark.data

MNIST_CLASSES = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_MD5 = {  # of the decompressed files
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def test_fashion_mnist():
    data = load("fmnist")
    assert np.bincount(data.train.y).tolist() == [6000] * 10
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    assert data.train.x.shape == (60_000, 1, 28, 28)


def test_mnist():
    data = load("mnist")
    assert np.bincount(data.train.y).tolist() == MNIST_CLASSES
    assert len(data.test) == 10_000
    for file, md5 in MNIST_MD5.items():
        assert hashlib.md5(read(find("mnist", (file,))), usedforsecurity=False).hexdigest() == md5


def test_mnist_by_writer():
    data = load("mnist", writers=True)
    partition = deal("natural", data, Streams(0))
    assert partition.clients == len(data.owner_names) == 539
    assert (partition.sizes.min(), partition.sizes.max()) == (19, 131)
    assert partition.sizes.sum() == 60_000


def test_the_published_checksum_of_the_writers():
    path = find("mnist", ("qmnist-train-labels-idx2-int",))
    published = {d.file: d.md5 for d in ADDRESSES["mnist"]}[path.name]
    assert hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() == published


def test_cifar10():
    data = load("cifar10")
    assert np.bincount(data.train.y).tolist() == [5000] * 10
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    # colour planes are planes: neighbours in a row agree better than pixels 1,024 bytes apart
    x = data.test.x[:2000].float()
    along_row = (x[:, :, :, 1:] - x[:, :, :, :-1]).abs().mean()
    between_planes = (x[:, 0] - x[:, 2]).abs().mean()
    assert along_row < 0.7 * between_planes


def test_shakespeare():
    data = load("shakespeare", test_every=1)
    path = Path(os.environ["SORDINO_DATA"]) / "shakespeare" / "moby_roles.json.xz"
    texts = {role: entry["text"] for role, entry in json.loads(lzma.decompress(path.read_bytes())).items()}
    assert len(texts) == 1146
    assert sum(len(text) - 80 for text in texts.values()) == 4_205_883
    cuts = {role: len(text) - int(0.2 * len(text)) for role, text in texts.items()}
    assert len(data.train) == sum(max(0, cut - 80) for cut in cuts.values())
    assert len(data.test) == sum(max(0, len(texts[role]) - cut - 80) for role, cut in cuts.items())
    assert data.owner is not None
    partition = deal("natural", data, Streams(0))
    for client in (0, 500, partition.clients - 1):
        held = data.train.take(partition.indices(client))
        text = texts[data.owner_names[client]]
        for row, y in zip(held.inputs()[[0, -1]], held.y[[0, -1]], strict=True):
            assert "".join(ALPHABET[t] for t in row) + ALPHABET[y] in text
    # 004 has 714 roles
    assert deal("natural", data, Streams(0), clients=714, least=64).sizes.min() >= 64


def test_partitions_of_the_papers():
    data = load("fmnist")
    flat = deal("iid", data, Streams(0), clients=6000)
    assert set(flat.sizes.tolist()) == {10}
    mixed = manifest(
        deal("similarity", data, Streams(0), clients=100, similarity=30.0, sizes=[0.5, 1.5]), data
    )
    assert mixed["examples"] == 60_000
    assert 2.7 < mixed["size_most"] / mixed["size_least"] < 3.02  # U(0.5, 1.5)
    counts = manifest(
        deal("class-counts", data, Streams(0), clients=1920, counts=[230, 230] + [5] * 8, size=31), data
    )
    assert counts["size_least"] == counts["size_most"] == 31
    assert counts["class_counts"] == pytest.approx([5952] * 10, abs=75)


def test_a_million_clients_deal_as_fast_as_ten_thousand():
    data = load("fmnist")
    few, many = (deal("lazy", data, Streams(0), clients=n, size=10) for n in (10_000, 1_000_000))
    assert torch.equal(data.train.take(few.indices(77)).inputs(), data.train.take(many.indices(77)).inputs())
    assert many.sizes.strides == (0,)
