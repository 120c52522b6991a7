import json
from pathlib import Path

import pytest
from tests.unit.data import made
from tests.unit.data.test_fetch import Server, put, server
from typer.testing import CliRunner

from sordino.cli.data import app
from sordino.core.errors import UsageError
from sordino.data.addresses import ADDRESSES

__all__ = ["server"]  # the fixture


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_list_says_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    made.svhn(tmp_path / "svhn")
    rows = {row["name"]: row for row in json.loads(run("list", "--data-dir", str(tmp_path), "--json"))}
    assert rows["svhn"]["folder"] == str(tmp_path / "svhn")
    assert rows["mnist"]["folder"] is None
    assert rows["mnist"]["options"] == ["writers", "shift", "scale"]
    assert rows["mnist"]["can_fetch"]
    assert not rows["shakespeare"]["can_fetch"]
    assert not rows["digits"]["needs_files"]
    assert "shakespeare" in run("list")


def test_check_says_what_is_in_a_set(tmp_path: Path):
    made.mnist(tmp_path)
    found = json.loads(run("check", "mnist", "--data-dir", str(tmp_path), "--json"))
    assert (found["train_examples"], found["test_examples"]) == (20, 10)
    assert found["train_class_counts"] == [2] * 10
    assert "train examples  20" in run("check", "mnist", "--data-dir", str(tmp_path))


def test_check_takes_options(tmp_path: Path):
    table = tmp_path / "a.csv"
    table.write_text("x,y,who\n" + "".join(f"{k},{k % 2},c{k % 3}\n" for k in range(30)))
    given = (
        "--set",
        f"path={table}",
        "--set",
        "label=y",
        "--set",
        "client=who",
        "--set",
        "test_fraction=0.4",
    )
    found = json.loads(run("check", "table", *given, "--json"))
    assert (found["train_examples"], found["test_examples"], found["owners"]) == (18, 12, 3)


def test_a_damaged_set_is_an_error(tmp_path: Path):
    made.mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    with pytest.raises(UsageError, match="truncated or corrupt"):
        run("check", "mnist", "--data-dir", str(tmp_path))


def test_fetch_downloads_into_the_folder_of_the_set(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    made.svhn(tmp_path / "origin")
    for part in ("train", "test"):
        content = (tmp_path / "origin" / f"{part}_32x32.mat").read_bytes()
        put(server, f"{part}_32x32.mat", content)
    table = tuple(put(server, d.file, server.files[d.file]) for d in ADDRESSES["svhn"])
    monkeypatch.setitem(ADDRESSES, "svhn", table)
    files = run("fetch", "svhn", "--data-dir", str(tmp_path), "--mirror", server.url("").rstrip("/"))
    assert files.split() == [str(tmp_path / "svhn" / d.file) for d in table]
    found = json.loads(run("check", "svhn", "--data-dir", str(tmp_path), "--json"))
    assert found["input_shape"] == [3, 32, 32]


def test_fetch_shows_progress_on_standard_error_unless_quiet(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(ADDRESSES, "svhn", (put(server, "train_32x32.mat", bytes(2_000_000)),))
    arguments = ["fetch", "svhn", "--data-dir", str(tmp_path), "--json"]
    loud = CliRunner().invoke(app, arguments)
    assert "train_32x32.mat: 2.0 of 2.0 MB" in loud.stderr
    assert json.loads(loud.stdout)["files"] == [str(tmp_path / "svhn" / "train_32x32.mat")]
    (tmp_path / "svhn" / "train_32x32.mat").unlink()
    assert CliRunner().invoke(app, [*arguments, "--quiet"]).stderr == ""


def test_nothing_else_ever_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a download that nobody asked for")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    run("list", "--data-dir", str(tmp_path))
    with pytest.raises(UsageError, match="sordino data fetch svhn"):
        run("check", "svhn", "--data-dir", str(tmp_path))
