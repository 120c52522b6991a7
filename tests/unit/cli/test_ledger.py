"""`sordino ledger`, as somebody types it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sordino.accounting.ledger import Cost, Ledger, Reservation
from sordino.cli.ledger import app
from sordino.core.errors import SordinoError

POPULATION = "id,epsilon,delta\nada,4,1e-6\nbob,2,1e-6\ncy,inf,1e-6\n"


def call(*words: Any) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, SordinoError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def call_json(*words: Any) -> Any:
    return json.loads(call(*words, "--json"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with three clients and one finished run."""
    (tmp_path / "population.csv").write_text(POPULATION)
    place = tmp_path / "ledger.db"
    assert call_json("enrol", place, "w", tmp_path / "population.csv")["joined"] == 3
    book = Ledger.open(place)
    book.reserve(Reservation("r", "w", [Cost([0.5, 0.25], 1e-8, [0, 1], event={"z": 2})], 3))
    book.record_round("r", 0)
    book.finish("r", 1)
    book.close()
    return place


def refused(code: int, message: str, *words: Any) -> None:
    with pytest.raises(SordinoError, match=message) as caught:
        call(*words)
    assert caught.value.exit_code == code
    assert "\n" not in str(caught.value)


def test_show(place: Path):
    found = call_json("show", place)
    (window,) = found["windows"]
    assert (window["clients"], window["least_left"], window["most_left"], window["spent_out"]) == (
        3,
        1.75,
        "inf",
        0,
    )
    (run,) = found["runs"]
    assert (run["run"], run["charged"], run["released"], run["finished"]) == ("r", 2, 1, True)
    assert found["head"] == run["head"]
    assert call_json("show", place, "--window", "w")["windows"] == found["windows"]
    text = call("show", place)
    assert found["head"] in text
    assert "1.75" in text
    refused(1, "no window 'v'", "show", place, "--window", "v")


def test_client(place: Path):
    found = call_json("client", place, "w", "ada")
    assert (found["epsilon"], found["spent_epsilon"], found["left_epsilon"]) == (4.0, 0.5, 3.5)
    assert [line["kind"] for line in found["lines"]] == ["enrol", "reserve"]
    assert found["lines"][1]["event"] == {"z": 2}
    assert "3.5" in call("client", place, "w", "ada")
    refused(2, "'eve' is not in window 'w'", "client", place, "w", "eve")


def test_export(place: Path):
    rows = list(csv.DictReader(io.StringIO(call("export", place, "--window", "w"))))
    assert [row["client"] for row in rows] == ["ada", "bob", "cy"]
    assert [float(row["left_epsilon"]) for row in rows] == [3.5, 1.75, float("inf")]
    assert call_json("export", place, "--window", "w")[2]["epsilon"] == "inf"
    lines = list(csv.DictReader(io.StringIO(call("export", place, "--lines"))))
    assert [line["kind"] for line in lines] == ["enrol", "reserve", "round", "finish"]
    assert call_json("export", place, "--lines")[-1]["hash"] == call_json("show", place)["head"]
    refused(2, "give one", "export", place)
    refused(2, "give one", "export", place, "--lines", "--window", "w")


def test_verify(place: Path):
    head = call_json("show", place)["head"]
    assert call_json("verify", place, "--head", head)["ok"] is True
    assert "4 lines" in call("verify", place)
    refused(1, "lacks the line abc", "verify", place, "--head", "abc")
    book = Ledger.open(place)
    with book.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ledger_line SET time = '' WHERE seq = 2")
    book.close()
    refused(1, "line 2 was changed", "verify", place)
    done = CliRunner().invoke(app, ["verify", str(place), "--json"])
    assert json.loads(done.output)["ok"] is False


def test_enrol_with_an_open_account(tmp_path: Path):
    (tmp_path / "p.csv").write_text(POPULATION)
    words = (
        "enrol",
        tmp_path / "l.db",
        "w",
        tmp_path / "p.csv",
        "--open-orders",
        "32,16,64",
        "--open-share",
        "0.5",
    )
    call(*words, "--unit", "client", "--relation", "zero-out")
    assert call_json(*words, "--relation", "zero-out")["joined"] == 0
    found = call_json("client", tmp_path / "l.db", "w", "ada")
    assert found["open_32"] == 0.0
    assert found["limit_32"] > found["limit_16"] > 0
    assert call_json("show", tmp_path / "l.db")["windows"][0]["relation"] == "zero-out"
    refused(2, "open-orders", "enrol", tmp_path / "l.db", "v", tmp_path / "p.csv", "--open-orders", "32,x")
    refused(2, "must be among", *words[:4], "--open-orders", "32,16,64", "--open-primary", "8")


def test_set_budget_and_erase(place: Path):
    call("set-budget", place, "w", "bob", "ada", "--epsilon", "3", "--delta", "1e-6")
    assert call_json("client", place, "w", "bob")["epsilon"] == 3.0
    refused(
        1, "more than the new budget", "set-budget", place, "w", "ada", "--epsilon", "0.4", "--delta", "1e-6"
    )
    call("erase", place, "w", "ada")
    rows = call_json("export", place, "--window", "w")
    assert (rows[0]["client"], rows[0]["erased"], rows[0]["spent_epsilon"]) == (None, True, 0.5)
    assert call_json("show", place)["windows"][0]["erased"] == 1
    refused(1, r"'ada'.* was erased", "client", place, "w", "ada")


def test_backup_restore_reconcile(place: Path, tmp_path: Path):
    head = call_json("backup", place, tmp_path / "copy.db")["head"]
    book = Ledger.open(place)
    book.reserve(Reservation("lost", "w", [Cost(1.0, 1e-8, [0])], 3))
    newest = book.finish("lost", 3)
    book.close()
    assert call_json("restore", tmp_path / "copy.db", tmp_path / "new.db")["head"] == head
    assert "closed: it was restored" in call("show", tmp_path / "new.db")
    refused(1, "book the runs that were lost", "reconcile", tmp_path / "new.db", "--head", newest)
    lost = [{"run": "lost", "window": "w", "rounds": 3, "epsilon": 1.0, "delta": 1e-8, "clients": ["ada"]}]
    (tmp_path / "lost.json").write_text(json.dumps(lost))
    call("reconcile", tmp_path / "new.db", "--head", newest, "--lost", tmp_path / "lost.json")
    assert call_json("client", tmp_path / "new.db", "w", "ada")["spent_epsilon"] == 1.5
    (tmp_path / "lost.json").write_text("{}")
    refused(
        2, "cannot be read as a list", "reconcile", place, "--head", "x", "--lost", tmp_path / "lost.json"
    )


def test_a_wrong_place_is_not_made(tmp_path: Path):
    for command in ("show", "verify", "export", "backup"):
        more = {"export": ("--lines",), "backup": (tmp_path / "x.db",)}.get(command, ())
        refused(1, "there is no ledger at", command, tmp_path / "none.db", *more)
    assert list(tmp_path.iterdir()) == []
