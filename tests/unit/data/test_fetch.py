"""Downloads from a server on this machine that can be slow, cut short, wrong, or without ranges."""

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sordino.core.errors import SordinoError, UsageError
from sordino.data.addresses import ADDRESSES, Download
from sordino.data.catalogue import catalogue
from sordino.data.fetch import downloads, fetch

CONTENT = np.random.default_rng(0).integers(0, 256, 1_500_000, dtype=np.uint8).tobytes()


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; `cut` bytes into an answer it hangs up; `ranges` says whether it knows the header."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        wanted = self.headers.get("Range")
        self.server.asked.append((name, wanted))
        if name not in self.server.files:
            self.send_error(404)
            return
        body = self.server.files[name]
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        if start and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        stop = len(body) if self.server.cut is None else start + self.server.cut
        self.wfile.write(body[start:stop])

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def put(server: Server, name: str, content: bytes, members: tuple[str, ...] = ()) -> Download:
    server.files[name] = content
    return Download(server.url(name), md5(content), members)


def test_a_file_arrives_whole_with_progress(server: Server, tmp_path: Path):
    seen: list[tuple[str, int, int | None]] = []
    files = fetch([put(server, "a.gz", CONTENT)], tmp_path / "new", lambda *step: seen.append(step))
    assert files == [tmp_path / "new" / "a.gz"]
    assert files[0].read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.gz"]
    assert seen[-1] == ("a.gz", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert len(seen) > 3


def test_what_is_there_is_not_asked_for_again(server: Server, tmp_path: Path):
    wanted = [put(server, "a.gz", CONTENT)]
    fetch(wanted, tmp_path)
    fetch(wanted, tmp_path)
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on(server: Server, tmp_path: Path, ranges: bool):
    wanted = [put(server, "a.gz", CONTENT)]
    server.ranges = ranges
    server.cut = 900_000
    with pytest.raises(SordinoError, match=r"the download stopped .* run the same command to go on"):
        fetch(wanted, tmp_path)
    assert not (tmp_path / "a.gz").exists()
    assert (tmp_path / "a.gz.part").stat().st_size == 900_000
    server.cut = None
    fetch(wanted, tmp_path)
    assert server.asked[1] == ("a.gz", "bytes=900000-")
    assert (tmp_path / "a.gz").read_bytes() == CONTENT
    assert not (tmp_path / "a.gz.part").exists()


def test_a_part_that_is_already_whole_is_taken(server: Server, tmp_path: Path):
    wanted = [put(server, "a.gz", CONTENT)]
    (tmp_path / "a.gz.part").write_bytes(CONTENT)
    assert fetch(wanted, tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"", b"something else", CONTENT + b"and more"])
def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path, part: bytes):
    good = put(server, "a.gz", CONTENT)
    if part:
        (tmp_path / "a.gz.part").write_bytes(part)
    else:
        server.files["a.gz"] = CONTENT[:-1] + b"x"
    with pytest.raises(SordinoError, match=f"published is {good.md5}; it was deleted"):
        fetch([good], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_refusing_and_an_absent_server(server: Server, tmp_path: Path):
    with pytest.raises(SordinoError, match=r"none\.gz: the server answered 404"):
        fetch([Download(server.url("none.gz"), "0" * 32)], tmp_path)
    free = Server()
    address = free.url("a.gz")
    free.server_close()
    with pytest.raises(SordinoError, match="the download stopped"):
        fetch([Download(address, "0" * 32)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


@pytest.mark.parametrize(("pack", "name"), [(zipped, "set.zip"), (tarred, "set.tar.gz")])
def test_an_archive_gives_its_wanted_members(server: Server, tmp_path: Path, pack: object, name: str):
    packed = pack({"inner/one": CONTENT, "../../two": b"2", "inner/unwanted": b"3"})
    wanted = [put(server, name, packed, ("one", "two"))]
    folder = tmp_path / "deep" / "down"
    assert [path.name for path in fetch(wanted, folder)] == ["one", "two"]
    assert (folder / "one").read_bytes() == CONTENT
    # nothing lands outside of the folder, nothing else inside
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["one", "two"]
    fetch(wanted, folder)
    assert len(server.asked) == 1


def test_a_damaged_or_incomplete_archive_is_refused(server: Server, tmp_path: Path):
    for content, message in ((b"no zip", "corrupt"), (zipped({"two": b"2"}), "it holds no one")):
        with pytest.raises(UsageError, match=message):
            fetch([put(server, "set.zip", content, ("one",))], tmp_path)
        assert not (tmp_path / "one").exists()
        (tmp_path / "set.zip").unlink()


def test_the_table_of_addresses():
    for name, wanted in ADDRESSES.items():
        assert name in catalogue()
        for download in wanted:
            assert download.url.startswith(("https://", "http://"))
            assert len(download.md5) == 32
            int(download.md5, 16)
    assert [d.url for d in downloads("svhn", "http://there/x/")] == [
        "http://there/x/train_32x32.mat",
        "http://there/x/test_32x32.mat",
    ]
    assert downloads("svhn", "http://there/x")[0].md5 == ADDRESSES["svhn"][0].md5


def test_sets_without_an_address_are_named():
    with pytest.raises(UsageError, match="'shakespeare' has no public address; with one: cifar10, emnist"):
        downloads("shakespeare")
    with pytest.raises(UsageError, match="must be an http"):
        downloads("mnist", "file:///etc")
