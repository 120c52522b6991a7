"""Loaders on small files of the published formats; and that a damaged file loads nothing."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.data import made

from sordino.core.errors import UsageError
from sordino.data import Examples, catalogue, load
from sordino.data.sources.shakespeare import ALPHABET


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SORDINO_DATA", str(tmp_path))
    return tmp_path


def test_digits_are_whole_and_the_split_is_fixed():
    data = load("digits")
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.train.input_shape == (1, 8, 8)
    assert data.train.inputs().min() == 0
    assert data.train.inputs().max() == 1
    shares = np.bincount(data.test.y) / (np.bincount(data.test.y) + np.bincount(data.train.y))
    assert np.abs(shares - 0.2).max() < 0.004
    again = load("digits")
    assert torch.equal(again.test.x, data.test.x)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("name", ["mnist", "fmnist"])
def test_idx_sets(folder: Path, name: str, suffix: str):
    made.mnist(folder / name, suffix=suffix)
    data = load(name)
    np.testing.assert_array_equal(data.train.x[:, 0], made.images(20, (28, 28)))
    assert data.train.y.tolist() == [*range(10), *range(10)]
    assert len(data.test) == 10
    np.testing.assert_allclose(data.test.inputs(), data.test.x / 255.0, rtol=1e-6)


def test_a_folder_given_is_used_itself_or_its_subfolder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    made.mnist(tmp_path / "here")
    assert len(load("mnist", tmp_path / "here").train) == 20
    made.mnist(tmp_path / "there" / "mnist")
    assert len(load("mnist", str(tmp_path / "there")).train) == 20


def test_emnist_is_turned_upright(folder: Path):
    made.mnist(folder / "emnist" / "gzip", ("emnist-digits-train", "emnist-digits-test"))
    data = load("emnist")
    np.testing.assert_array_equal(data.train.x[:, 0], made.images(20, (28, 28)).transpose(0, 2, 1))
    assert data.train.classes == 10


def test_emnist_letters_count_from_one(folder: Path):
    made.mnist(folder / "emnist", ("emnist-letters-train", "emnist-letters-test"), first=1)
    data = load("emnist", split="letters")
    assert data.train.classes == 26
    assert data.train.y[:3].tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match="unknown split of emnist 'letter'; did you mean 'letters'"):
        load("emnist", split="letter")


def writers(folder: Path, first_column: np.ndarray) -> None:
    rows = np.zeros((20, 8), dtype=np.int32)
    rows[:, 0] = first_column
    rows[:, 2] = np.repeat([2047, 31, 500, 77], 5)
    made.write(folder / "mnist" / "qmnist-train-labels-idx2-int", made.idx(rows), ".gz")


def test_mnist_by_writer(folder: Path):
    made.mnist(folder / "mnist")
    writers(folder, np.arange(20) % 10)
    data = load("mnist", writers=True)
    assert data.owner_names == ("writer 31", "writer 77", "writer 500", "writer 2047")
    assert data.owner is not None
    assert data.owner.tolist() == [3] * 5 + [0] * 5 + [2] * 5 + [1] * 5
    assert load("mnist").owner is None


def test_writers_of_other_images_are_refused(folder: Path):
    made.mnist(folder / "mnist")
    writers(folder, np.zeros(20))
    with pytest.raises(UsageError, match="its first column is not their labels"):
        load("mnist", writers=True)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize(
    ("make", "place"),
    [(made.cifar_binary, "."), (made.cifar_python, "."), (made.cifar_python, "cifar-10-batches-py")],
)
def test_cifar10_in_both_versions(folder: Path, make: object, place: str, suffix: str):
    make(folder / "cifar10" / place, suffix)
    data = load("cifar10")
    assert (len(data.train), len(data.test)) == (50, 10)
    first, labels = made.cifar_records(10, seed=0)
    # a record holds the red plane, row by row, then the green one, then the blue one
    np.testing.assert_array_equal(data.train.x[0, 0, 0], first[0, :32])
    np.testing.assert_array_equal(data.train.x[0, 2, 31], first[0, -32:])
    np.testing.assert_array_equal(data.train.y[:10], labels)
    np.testing.assert_array_equal(data.test.x.reshape(10, -1), made.cifar_records(10, seed=5)[0])


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("pwned"),)


@pytest.mark.parametrize("payload", [Evil(), {b"data": Evil()}, {b"data": 1}, [1], {b"labels": [1]}])
def test_a_pickle_that_is_no_batch_runs_nothing(
    folder: Path, payload: object, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    made.cifar_python(folder / "cifar10")
    (folder / "cifar10" / "data_batch_2").write_bytes(pickle.dumps(payload))
    with pytest.raises(UsageError, match=r"data_batch_2 is truncated or corrupt"):
        load("cifar10")
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_svhn(folder: Path, suffix: str):
    made.svhn(folder / "svhn", suffix)
    data = load("svhn")
    assert data.train.y[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    np.testing.assert_array_equal(data.train.x[3], made.images(20, (32, 32, 3))[3].transpose(2, 0, 1))
    assert data.train.input_shape == (3, 32, 32)


def test_svhn_labels_out_of_range(folder: Path):
    for wrong in (0, 11):
        made.svhn(folder / "svhn", labels=np.full(20, wrong))
        with pytest.raises(UsageError, match=r"train_32x32\.mat: label 1\d is out of range"):
            load("svhn")


def test_shakespeare_windows_predict_the_next_character_of_their_role(folder: Path):
    texts = {"HAMLET": "To be, or not to be: that is", "OPHELIA": "Good my lord, how", "GHOST": "Mark"}
    made.roles(folder / "shakespeare", texts)
    data = load("shakespeare", length=5, test_fraction=0.25, test_every=1)
    assert data.owner_names == ("HAMLET", "OPHELIA")  # the ghost says too little
    assert data.owner is not None

    def windows(part: Examples) -> list[str]:
        joined = torch.cat([part.inputs(), part.y[:, None]], dim=1)
        return ["".join(ALPHABET[token] for token in row) for row in joined.tolist()]

    wanted = [
        (text[i : i + 6], role)
        for role, (_, text) in enumerate(texts.items())
        for i in range(len(text) * 3 // 4 + (len(text) * 3 % 4 > 0) - 5)
    ]
    assert list(zip(windows(data.train), data.owner.tolist(), strict=True)) == wanted
    cut = 21
    assert windows(data.test)[:2] == [texts["HAMLET"][cut : cut + 6], texts["HAMLET"][cut + 1 : cut + 7]]
    assert len(data.test) == 2
    assert len(load("shakespeare", length=5, test_fraction=0.25, test_every=2).test) == 1


def test_shakespeare_refuses_unknown_characters_and_other_json(folder: Path):
    made.roles(folder / "shakespeare", {"HAMLET": "Tö be"})
    with pytest.raises(UsageError, match="the character 'ö' is not among the 80"):
        load("shakespeare", length=2)
    for content in (b"[]", b"{}", b'{"A": {"lines": 1}}', b'{"A": {"text": 1}}', b"{"):
        made.write(folder / "shakespeare" / "moby_roles.json", content, ".xz")
        with pytest.raises(UsageError, match="truncated or corrupt"):
            load("shakespeare")


def test_the_alphabet_has_eighty_characters():
    assert len(ALPHABET) == len(set(ALPHABET)) == 80


FORMATS = {
    "mnist": (made.mnist, "train-images-idx3-ubyte.gz"),
    "fmnist": (made.mnist, "t10k-labels-idx1-ubyte.gz"),
    "cifar10": (lambda folder: made.cifar_binary(folder, ".xz"), "data_batch_3.bin.xz"),
    "svhn": (made.svhn, "test_32x32.mat"),
    "shakespeare": (lambda folder: made.roles(folder, {"A": "a" * 600}), "moby_roles.json.xz"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_truncated_or_corrupt_file_is_named(folder: Path, name: str):
    make, file = FORMATS[name]
    make(folder / name)
    load(name)
    path = folder / name / file
    whole = path.read_bytes()
    noise = np.random.default_rng(0).integers(0, 256, len(whole), dtype=np.uint8).tobytes()
    for content in (whole[: len(whole) // 2], whole[:-1], b"", noise):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="is truncated or corrupt") as caught:
            load(name)
        assert file in str(caught.value)
        assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(UsageError, match=f"{name}: no "):
        load(name)


@pytest.mark.parametrize(
    "array",
    [
        made.images(20, (28,)),  # two dimensions
        made.images(21, (28, 28)),  # one image too many
    ],
)
def test_an_idx_file_of_another_shape_is_refused(folder: Path, array: np.ndarray):
    made.mnist(folder / "mnist")
    made.write(folder / "mnist" / "train-images-idx3-ubyte", made.idx(array), ".gz")
    with pytest.raises(UsageError, match="truncated or corrupt"):
        load("mnist")


def test_uncompressed_damage_is_found(folder: Path):
    made.mnist(folder / "mnist", suffix="")
    path = folder / "mnist" / "train-labels-idx1-ubyte"
    whole = path.read_bytes()
    for content in (whole[:-1], whole + b"\0", whole[:3], whole[:6], b"\1" + whole[1:]):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="train-labels-idx1-ubyte is truncated or corrupt"):
            load("mnist")
    path.write_bytes(whole[:-1] + b"\x0a")
    with pytest.raises(UsageError, match="label 10 is out of range; with 10 classes it must lie in 0 to 9"):
        load("mnist")


def test_no_folder_a_wrong_folder_and_wrong_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    with pytest.raises(UsageError, match="SORDINO_DATA"):
        load("mnist")
    with pytest.raises(UsageError, match="is not a folder"):
        load("mnist", tmp_path / "absent")
    with pytest.raises(UsageError, match="unknown data set 'fmnits'; did you mean 'fmnist'"):
        load("fmnits")
    with pytest.raises(
        UsageError, match="unknown option of data set 'digits': 'shfit'; did you mean 'shift'"
    ):
        load("digits", shfit=1.0)
    with pytest.raises(
        UsageError, match="data set 'mnist': writers = 'yes': input should be a valid boolean"
    ):
        load("mnist", tmp_path, writers="yes")


def test_a_function_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "their_data.py").write_text(
        "from sordino.data import load\n"
        "def digits(shift: float = 0.0): return load('digits', shift=shift)\n"
        "def nothing(): return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert float(load("their_data:digits", shift=1.0).train.inputs().max()) == 0
    with pytest.raises(UsageError, match="must return a DataSet"):
        load("their_data:nothing")
    with pytest.raises(UsageError, match="cannot be imported"):
        load("their_data:absent")
    with pytest.raises(UsageError, match="cannot be imported"):
        load("no_such_module_here:digits")


def test_every_source_says_what_it_is(folder: Path):
    for source in catalogue().values():
        assert source.about
        assert source.found() is None
    made.svhn(folder / "svhn")
    assert catalogue()["svhn"].found() == folder / "svhn"
