"""The agent's own memory: runs, releases, and the answers that a repeat gets again, encrypted.

Each run has a key of its own in a file beside the database; wiping a run destroys the key and the rows.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sordino.core.errors import SordinoError, UsageError
from sordino.core.files import sha256, sync_folder, write_bytes

VERSION = 1
Status = Literal["pending", "approved", "denied", "open", "finished"]
_SCHEMA = """
CREATE TABLE info (version INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL);
CREATE TABLE run (
    run TEXT PRIMARY KEY, digest TEXT NOT NULL, terms BLOB NOT NULL, status TEXT NOT NULL, turns TEXT
);
CREATE TABLE said (
    run TEXT NOT NULL, round INTEGER NOT NULL, attempt INTEGER NOT NULL, stage TEXT NOT NULL,
    digest TEXT NOT NULL, answer BLOB, state BLOB,
    PRIMARY KEY (run, round, attempt, stage)
);
"""

MIGRATIONS: dict[int, tuple[str, ...]] = {}
"""From each older version, the statements that bring the tables to the next one."""

_WHERE = "run = ? AND round = ? AND attempt = ? AND stage = ?"


@dataclass(frozen=True)
class RunRow:
    """One run as the site knows it: the digest of its terms, the message itself, how far it is, and in how many
    of its releases each unit takes part (JSON; None: in all)."""

    run: str
    digest: str
    terms: bytes
    status: Status
    turns: str | None = None


@dataclass(frozen=True)
class Key:
    """What an answer is an answer to. A round of secure aggregation has several stages, and releases in `mask`."""

    run: str
    round: int
    attempt: int
    stage: str = "release"

    @property
    def values(self) -> tuple[str, int, int, str]:
        """As the database asks for it."""
        return self.run, self.round, self.attempt, self.stage


class Vault:
    """Durable: what a call wrote is on disk when it returns. One process at a time (the agent holds a lock)."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._keys = folder / "keys"
        self._keys.mkdir(mode=0o700, exist_ok=True)
        path = folder / "answers.db"
        path.touch(mode=0o600)
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "secure_delete = ON"):
            self._database.execute(f"PRAGMA {pragma}")
        with self._writing():
            self._prepare(path)

    def close(self) -> None:
        """Gives the file back."""
        self._database.close()

    def _prepare(self, path: Path) -> None:
        """Creates the tables, or brings older ones up to date; refuses those of a later Sordino."""
        if not self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'info'").fetchone():
            for statement in _SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute("INSERT INTO info VALUES (?, 'running', '')", (VERSION,))
        version = self._database.execute("SELECT version FROM info").fetchone()[0]
        if version > VERSION:
            raise SordinoError(
                f"{path} has version {version}, this Sordino knows {VERSION}; use a newer Sordino"
            )
        for step in range(version, VERSION):
            for statement in MIGRATIONS[step]:
                self._database.execute(statement)
        self._database.execute("UPDATE info SET version = ?", (VERSION,))

    # The owner's switch

    def state(self) -> tuple[str, str]:
        """`running`, `paused` or `killed`, and the owner's word on it."""
        return self._database.execute("SELECT state, why FROM info").fetchone()

    def switch(self, state: Literal["running", "paused", "killed"], why: str = "") -> None:
        """What the owner wants; the agent reads it before every answer."""
        self._database.execute("UPDATE info SET state = ?, why = ?", (state, why))

    # Runs

    def run(self, name: str) -> RunRow | None:
        """A run by name."""
        found = self._database.execute("SELECT * FROM run WHERE run = ?", (name,)).fetchone()
        return None if found is None else RunRow(*found)

    def runs(self) -> list[RunRow]:
        """All runs, in order of arrival."""
        return [RunRow(*row) for row in self._database.execute("SELECT * FROM run ORDER BY rowid")]

    def note(self, row: RunRow) -> None:
        """Enters a run, or changes its status."""
        self._database.execute(
            "INSERT INTO run VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE "
            "SET status = excluded.status, turns = excluded.turns",
            (row.run, row.digest, row.terms, row.status, row.turns),
        )

    def strike(self, run: str) -> None:
        """Forgets a run that was never opened, because nobody could pay for it."""
        self._database.execute("DELETE FROM run WHERE run = ? AND status = 'approved'", (run,))

    def waiting(self) -> int:
        """How many runs wait for the owner."""
        return self._database.execute("SELECT COUNT(*) FROM run WHERE status = 'pending'").fetchone()[0]

    def decide(self, run: str, decision: Literal["approved", "denied"]) -> None:
        """The owner's word on a run that waits. Refuses a run that does not."""
        row = self.run(run)
        if row is None or row.status != "pending":
            waiting = ", ".join(row.run for row in self.runs() if row.status == "pending")
            raise UsageError(f"run '{run}' does not wait for approval; waiting: {waiting or 'none'}")
        self.note(replace(row, status=decision))

    # What was said

    def turn(self, key: Key) -> int:
        """How many releases of the run were begun before this one; before a new one, how many there were."""
        row = self._database.execute(f"SELECT rowid FROM said WHERE {_WHERE}", key.values).fetchone()
        before = f"AND rowid < {row[0]}" if row else ""
        count = "SELECT COUNT(*) FROM said WHERE run = ? AND stage IN ('release', 'mask')"
        return self._database.execute(f"{count} {before}", (key.run,)).fetchone()[0]

    def releases(self, run: str) -> int:
        """How many releases of a run were begun."""
        return self.turn(Key(run, -1, -1))

    def begun(self, key: Key) -> str | None:
        """The digest of the instruction under this key; None if there was none."""
        found = self._database.execute(f"SELECT digest FROM said WHERE {_WHERE}", key.values).fetchone()
        return None if found is None else found[0]

    def begin(self, key: Key, digest: str) -> None:
        """Notes an instruction before anything is charged for it."""
        self._database.execute("INSERT INTO said VALUES (?, ?, ?, ?, ?, NULL, NULL)", (*key.values, digest))

    def forget(self, key: Key) -> None:
        """Strikes out an instruction that was refused and released nothing, so that a right one can follow."""
        self._database.execute(f"DELETE FROM said WHERE {_WHERE} AND answer IS NULL", key.values)

    def keep(self, key: Key, answer: bytes, state: bytes | None = None) -> None:
        """Stores an answer before it leaves, and the secrets that the next stage of the round needs."""
        sealed = (self._seal(key, answer), None if state is None else self._seal(key, state))
        with self._writing():
            if state is not None:
                self._database.execute(
                    "UPDATE said SET state = NULL WHERE run = ? AND round = ? AND attempt = ?", key.values[:3]
                )
            self._database.execute(
                f"UPDATE said SET answer = ?, state = ? WHERE {_WHERE}", (*sealed, *key.values)
            )

    def kept(self, key: Key) -> bytes | None:
        """The stored answer; None if the process died before there was one."""
        found = self._database.execute(f"SELECT answer FROM said WHERE {_WHERE}", key.values).fetchone()
        return None if found is None or found[0] is None else self._unseal(key, found[0])

    def secrets(self, key: Key) -> bytes | None:
        """The secrets of the round, as its last stage left them."""
        found = self._database.execute(
            "SELECT stage, state FROM said WHERE run = ? AND round = ? AND attempt = ? AND state IS NOT NULL",
            key.values[:3],
        ).fetchone()
        return None if found is None else self._unseal(replace(key, stage=found[0]), found[1])

    def wipe(self, run: str) -> None:
        """Destroys the answers of a run and their key. The releases stay noted, so that none happens again."""
        self._database.execute("UPDATE said SET answer = NULL, state = NULL WHERE run = ?", (run,))
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        path = self._key_path(run)
        if path.exists():
            path.write_bytes(os.urandom(path.stat().st_size))
            path.unlink()
            sync_folder(self._keys)

    def _seal(self, key: Key, data: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + ChaCha20Poly1305(self._key(key.run)).encrypt(nonce, data, repr(key).encode())

    def _unseal(self, key: Key, data: bytes) -> bytes:
        try:
            return ChaCha20Poly1305(self._key(key.run)).decrypt(data[:12], data[12:], repr(key).encode())
        except InvalidTag as error:
            raise SordinoError(f"what was stored of run '{key.run}' cannot be opened") from error

    def _key(self, run: str) -> bytes:
        path = self._key_path(run)
        if not path.exists():
            write_bytes(path, ChaCha20Poly1305.generate_key())
            path.chmod(0o600)
        return path.read_bytes()

    def _key_path(self, run: str) -> Path:
        return self._keys / sha256(run.encode())[:32]

    @contextmanager
    def _writing(self) -> Generator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
