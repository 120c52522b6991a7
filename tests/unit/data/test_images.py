"""Pictures in folders of classes."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sordino.core.errors import UsageError
from sordino.data import load

RED, BLUE = (200, 10, 0), (0, 10, 200)


def picture(path: Path, colour=RED, size=(6, 4), mode="RGB", **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, colour) if mode == "RGB" else Image.new(mode, size, 7)
    image.save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    for number in range(10):
        picture(tmp_path / "pets" / "cat" / f"{number}.png")
        picture(tmp_path / "pets" / "dog" / f"{number}.bmp", BLUE)
    (tmp_path / "pets" / "dog" / ".hidden").write_text("nothing")
    return tmp_path / "pets"


def test_the_folder_is_the_class(folder):
    data = load("images", path=folder)
    assert data.class_names == ("cat", "dog")
    assert (len(data.train), len(data.test)) == (16, 4)
    assert data.train.input_shape == (3, 4, 6)
    cats = data.train.take(np.flatnonzero(data.train.y.numpy() == 0)).inputs()
    np.testing.assert_allclose(cats[0, :, 0, 0] * 255, RED)


def test_grey_one_size_and_declared_classes(folder):
    data = load("images", path=folder, channels=1, size=[8, 8], classes=["dog", "cat", "bird"], test=folder)
    assert data.train.input_shape == (1, 8, 8)
    assert (data.train.classes, len(data.test)) == (3, 20)
    assert int(data.train.y[0]) == 1


def test_clients_are_the_upper_folders(tmp_path):
    for client, label in (("ann", "cat"), ("ann", "dog"), ("bob", "dog")):
        picture(tmp_path / client / label / "1.png")
    data = load("images", path=tmp_path, clients=True, test=tmp_path)
    assert data.owner_names == ("ann", "bob")
    assert data.owner.tolist() == [0, 0, 1]
    assert data.train.y.tolist() == [0, 1, 1]


def test_a_picture_that_lies_on_its_side_is_turned(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(tmp_path / "a" / "1.jpg", size=(6, 4), exif=exif)
    picture(tmp_path / "a" / "2.jpg", size=(4, 6))
    assert load("images", path=tmp_path, test=tmp_path).train.input_shape == (3, 6, 4)


def broken_jpeg(folder):
    path = picture(folder / "cat" / "broken.jpg", size=(64, 64))
    path.write_bytes(path.read_bytes()[:400])


@pytest.mark.parametrize(
    ("spoil", "options", "said"),
    [
        (lambda f: (f / "cat" / "notes.txt").write_text("x"), {}, "notes.txt is no picture"),
        (lambda f: picture(f / "cat" / "big.png", size=(9, 9)), {}, r"declare size = \[height, width\]"),
        (lambda f: picture(f / "cat" / "deep.png", mode="I;16"), {}, "more than 8 bits"),
        (broken_jpeg, {"size": [4, 6]}, "broken.jpg is truncated or corrupt"),
        (lambda f: None, {"classes": ["cats", "dog"]}, "cat.*did you mean 'cats'"),
        (lambda f: None, {"channels": 2}, "channels = 2 must be 1"),
        (lambda f: None, {"size": [28]}, r"must be \[height, width\]"),
        (lambda f: None, {"clients": True}, "no picture"),
    ],
)
def test_what_is_wrong_is_named(folder, spoil, options, said):
    spoil(folder)
    with pytest.raises(UsageError, match=said):
        load("images", path=folder, **options)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        load("images", path=tmp_path / "nowhere")
