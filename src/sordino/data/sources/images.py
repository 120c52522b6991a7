"""A user's own pictures, in a folder for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError

from sordino.core.checks import count
from sordino.core.errors import UsageError, unknown
from sordino.core.streams import Streams
from sordino.data.examples import Constants, DataSet, Examples, Scaling
from sordino.data.files import damaged
from sordino.data.split import stratified

_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True)
class _Found:
    """One picture: its file, its class and, if there are any, its client."""

    file: Path
    label: str
    client: str


def load_images(
    path: Path | str,
    *,
    classes: Sequence[str] | None = None,
    clients: bool = False,
    size: Sequence[int] | None = None,
    channels: int = 3,
    test: Path | str | None = None,
    test_fraction: float = 0.2,
    shift: Constants = 0.0,
    scale: Constants = 1.0,
) -> DataSet:
    """The pictures in `path/CLASS/…`, or with `clients` in `path/CLIENT/CLASS/…`, whatever format they have.

    The names of the folders are the classes; `classes` declares them, else they are those that there are. Pictures
    are turned upright, brought to `channels` (1 or 3) and, where `size` = [height, width] is given, to that size;
    without it all must have one size. The test set is the folder `test` of the same layout, whose pictures
    count as public, or `test_fraction` of every class. Refuses files that are no pictures, and pictures of more than
    8 bits.
    """
    root = Path(path)
    if channels not in _MODES:
        raise UsageError(f"channels = {channels} must be 1 (grey) or 3 (colour)")
    if size is not None and (len(size) != 2 or any(count("size", side) < 1 for side in size)):
        raise UsageError(f"size = {list(size)} must be [height, width]")
    found = _pictures(root, clients)
    known = tuple(classes) if classes is not None else tuple(sorted({picture.label for picture in found}))
    scaling = Scaling.declared(255, shift, scale)
    shape = None if size is None else (int(size[0]), int(size[1]))
    whole = _examples(found, known, shape, channels, scaling)
    names, owner = np.unique([picture.client for picture in found], return_inverse=True)
    owners, owner_names = (owner.astype(np.int64), tuple(map(str, names))) if clients else (None, ())
    if test is not None:
        inside = (int(whole.x.shape[2]), int(whole.x.shape[3]))
        held_out = _examples(_pictures(Path(test), clients), known, inside, channels, scaling)
        return DataSet(root.name, whole, held_out, owners, owner_names, class_names=known, public_test=True)
    kept, aside = stratified(whole.y.numpy(), test_fraction, Streams(0).generator("images test split"))
    owners = None if owners is None else owners[kept]
    return DataSet(root.name, whole.take(kept), whole.take(aside), owners, owner_names, class_names=known)


def _examples(
    found: list[_Found],
    known: tuple[str, ...],
    size: tuple[int, int] | None,
    channels: int,
    scaling: Scaling,
) -> Examples:
    code = {name: number for number, name in enumerate(known)}
    pixels: list[np.ndarray] = []
    for picture in found:
        if picture.label not in code:
            raise UsageError(f"{picture.file.parent}: {unknown('class', picture.label, known)}")
        pixels.append(_pixels(picture.file, size, channels))
        if pixels[-1].shape != pixels[0].shape:
            (_, h, w), (_, height, width) = pixels[-1].shape, pixels[0].shape
            raise UsageError(
                f"{picture.file} has {h} × {w} pixels, {found[0].file} has {height} × {width}; "
                "declare size = [height, width]"
            )
    y = torch.tensor([code[picture.label] for picture in found], dtype=torch.int64)
    return Examples(torch.from_numpy(np.stack(pixels)), y, len(known), scaling)


def _pixels(file: Path, size: tuple[int, int] | None, channels: int) -> np.ndarray:
    """One picture as bytes, channels first."""
    try:
        with Image.open(file) as opened:
            if opened.mode not in _EIGHT_BITS:
                raise UsageError(
                    f"{file} has pixels of more than 8 bits ({opened.mode}); convert it, or use an NPZ"
                )
            image = ImageOps.exif_transpose(opened).convert(_MODES[channels])
    except UnidentifiedImageError as error:
        raise UsageError(f"{file} is no picture; move it out of the folder of its class") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise damaged(file, " ".join(str(error).split())) from error
    if size is not None and (image.height, image.width) != size:
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    pixels = np.array(image, dtype=np.uint8).reshape(image.height, image.width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _pictures(root: Path, clients: bool) -> list[_Found]:
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder; images lie in one folder for each class")
    found = [
        _Found(file, folder.name, home.name if clients else "")
        for home in (_subfolders(root) if clients else [root])
        for folder in _subfolders(home)
        for file in sorted(folder.iterdir())
        if not file.name.startswith(".")
    ]
    if not found:
        raise UsageError(
            f"{root} holds no pictures in folders of {'clients, then classes' if clients else 'classes'}"
        )
    return found


def _subfolders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
