"""Downloads of public data sets: only when asked, resumed where they stopped, checked before they count."""

from __future__ import annotations

import hashlib
import http.client
import os
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sordino.core.errors import SordinoError, UsageError
from sordino.core.files import sync_folder
from sordino.data.addresses import ADDRESSES, Download
from sordino.data.files import damaged

Show = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are here, and the bytes in all if the server says so."""

_CHUNK = 1 << 18
_TIMEOUT = 30


def no_progress(file: str, done: int, total: int | None) -> None:
    """Shows nothing."""


def downloads(name: str, mirror: str | None = None) -> tuple[Download, ...]:
    """What to download for `name`; `mirror` is another web folder that holds files of the same names."""
    if name not in ADDRESSES:
        raise UsageError(f"data set '{name}' has no public address; with one: {', '.join(sorted(ADDRESSES))}")
    if mirror is None:
        return ADDRESSES[name]
    if not mirror.startswith(("http://", "https://")):
        raise UsageError(f"mirror = {mirror} must be an http:// or https:// address")
    return tuple(Download(f"{mirror.rstrip('/')}/{d.file}", d.md5, d.members) for d in ADDRESSES[name])


def fetch(wanted: Sequence[Download], folder: Path, show: Show = no_progress) -> list[Path]:
    """Downloads what is not in `folder` yet and returns the files that a loader reads.

    A file appears under its name only whole and with the published checksum. An interrupted download stays
    as `.part` and is resumed by the next call; one with a wrong checksum is deleted and refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [path for download in wanted for path in _one(download, folder, show)]


def _one(download: Download, folder: Path, show: Show) -> list[Path]:
    files = [folder / member for member in download.members] or [folder / download.file]
    if all(file.is_file() for file in files):
        return files
    archive = folder / download.file
    if not archive.is_file():
        part = folder / f"{download.file}.part"
        _transfer(download.url, part, show)
        _verify(download, part)
        part.replace(archive)
        sync_folder(folder)
    if download.members:
        _unpack(archive, download.members)
    return files


def _transfer(url: str, part: Path, show: Show) -> None:
    """Appends what is missing to `part`."""
    here = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "sordino"})
    if here:
        request.add_header("Range", f"bytes={here}-")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
            _receive(answer, part, here if resumed else 0, show)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is missing; the checksum tells whether that is true
        raise SordinoError(f"{url}: the server answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise SordinoError(f"{url}: the download stopped ({error}); run the same command to go on") from error


def _receive(answer: http.client.HTTPResponse, part: Path, start: int, show: Show) -> None:
    length = answer.headers.get("Content-Length")
    total = start + int(length) if length else None
    done = start
    with part.open("ab" if start else "wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            show(part.stem, done, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done < total:
        raise http.client.IncompleteRead(b"", total - done)


def _verify(download: Download, part: Path) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != download.md5:
        part.unlink()
        raise SordinoError(
            f"{download.url}: its MD5 is {found}, published is {download.md5}; it was deleted. Try again, "
            "or another mirror"
        )


def _unpack(archive: Path, members: Sequence[str]) -> None:
    """Writes the wanted members, whole, beside their archive, and removes the archive."""
    try:
        for member, stream in _streams(archive, set(members)):
            temporary = archive.with_name(f"{member}.part")
            with temporary.open("wb") as file:
                while chunk := stream(_CHUNK):
                    file.write(chunk)
            temporary.replace(archive.with_name(member))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise damaged(archive, str(error)) from error
    absent = [member for member in members if not archive.with_name(member).is_file()]
    if absent:
        raise damaged(archive, f"it holds no {absent[0]}")
    archive.unlink()


def _streams(archive: Path, members: set[str]) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """The file name and a reader of each wanted member, whatever folder it has inside the archive."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for path in packed.namelist():
                if (name := Path(path).name) in members:
                    with packed.open(path) as file:
                        yield name, file.read
    else:
        with tarfile.open(archive) as packed:
            for entry in packed:
                file = packed.extractfile(entry) if Path(entry.name).name in members else None
                if file is not None:
                    yield Path(entry.name).name, file.read
