"""The agent's own memory across versions of Sordino."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from sordino.core.errors import SordinoError
from sordino.federation.site import vault
from sordino.federation.site.vault import Key, RunRow, Vault

KEY = Key("run-1", 0, 0)


@pytest.fixture
def written(tmp_path):
    """The folder of an agent that released once."""
    with closing(Vault(tmp_path)) as held:
        held.note(RunRow("run-1", "digest", b"terms", "open"))
        held.begin(KEY, "instruction")
        held.keep(KEY, b"answer")
    return tmp_path


def test_an_upgrade_migrates_and_keeps_every_answer(written, monkeypatch):
    monkeypatch.setattr(vault, "VERSION", 3)
    steps = {1: ("ALTER TABLE run ADD COLUMN came TEXT",), 2: ("CREATE INDEX runs ON said (run)",)}
    monkeypatch.setattr(vault, "MIGRATIONS", steps)
    for _ in range(2):
        with closing(Vault(written)) as held:
            assert held.kept(KEY) == b"answer"
            assert held.releases("run-1") == 1
    with closing(sqlite3.connect(written / "answers.db")) as database:
        assert database.execute("SELECT version FROM info").fetchone() == (3,)
        assert database.execute("SELECT came FROM run").fetchone() == (None,)


def test_a_migration_that_fails_changes_nothing(written, monkeypatch):
    monkeypatch.setattr(vault, "VERSION", 3)
    monkeypatch.setattr(vault, "MIGRATIONS", {1: ("ALTER TABLE run ADD COLUMN came TEXT",), 2: ("NONSENSE",)})
    with pytest.raises(sqlite3.OperationalError):
        Vault(written)
    with closing(sqlite3.connect(written / "answers.db")) as database:
        assert database.execute("SELECT version FROM info").fetchone() == (1,)
        assert "came" not in str(database.execute("SELECT sql FROM sqlite_master").fetchall())


def test_what_a_later_sordino_wrote_is_refused_and_left_alone(written):
    with closing(sqlite3.connect(written / "answers.db")) as database:
        database.execute("UPDATE info SET version = 9")
        database.commit()
    with pytest.raises(SordinoError, match="has version 9, this Sordino knows 1; use a newer Sordino"):
        Vault(written)
    with closing(sqlite3.connect(written / "answers.db")) as database:
        assert database.execute("SELECT version FROM info").fetchone() == (9,)


def test_every_older_version_has_its_step():
    assert set(vault.MIGRATIONS) == set(range(1, vault.VERSION))
