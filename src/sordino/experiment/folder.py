"""One folder a run: everything that says what was run, what came out and what it cost.

recipe.toml          the recipe with every default written out
run.json             run id, seed, versions
plan.json            what was fixed before training, and what it costs
metrics.jsonl        one line a round; what is under `unpaid` is for your eyes only
checkpoint.safetensors
.lock                keeps a second process out
parameters.safetensors, spend.csv, statement.txt, statement.json, fairness.json, summary.json    at the end
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sordino.core.errors import SordinoError, UsageError
from sordino.core.files import sync_folder, writable, write_bytes, write_json, write_text
from sordino.engine import State

Line = dict[str, Any]


class RunFolder:
    """The files of one run. Each is whole or absent, whatever kills the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log: Any = None
        self._lock: Any = None

    @classmethod
    def vacant(cls, path: Path) -> RunFolder:
        """The folder of a run to come; one that already holds something is refused."""
        writable(path)
        if path.exists() and any(path.iterdir()):
            held = f", or --resume {path} to go on with that run" if cls(path).started else ""
            raise UsageError(f"{path} already holds something; give another --out{held}")
        return cls(path)

    def start(self, files: Mapping[str, str]) -> None:
        """Makes the folder with its first files, run.json the last of them: it says that the run exists."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.claim()
        if self.started:
            raise UsageError(
                f"{self.path} already holds something: another process was quicker; give another --out"
            )
        for name, text in files.items():
            self.write_text(name, text)

    def claim(self) -> None:
        """Keeps other processes from working on this run, until the `with` or this process ends."""
        self._lock = self.file(".lock").open("w")
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SordinoError(
                f"{self.path}: another process works on this run; wait until it is done, or stop it first"
            ) from error

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """The folder of a run that was started before."""
        folder = cls(path)
        if not folder.started:
            raise UsageError(f"{path} is not the folder of a run (it has no run.json)")
        return folder

    def file(self, name: str) -> Path:
        """The path of one of the run's files."""
        return self.path / name

    def read_json(self, name: str) -> Any:
        """One of the run's JSON files."""
        try:
            return json.loads(self.file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.path} holds a run that cannot be read: {name}: {error}; restore that file, or remove the run"
            ) from error

    def write_text(self, name: str, text: str) -> None:
        """Replaces a file, atomically."""
        write_text(self.file(name), text)

    def write_json(self, name: str, value: Any) -> None:
        """Replaces a file, atomically."""
        write_json(self.file(name), value)

    @property
    def started(self) -> bool:
        """Whether the run exists: it may have charged the ledger."""
        return self.file("run.json").is_file()

    @property
    def finished(self) -> bool:
        """Whether the run reached its last round and wrote its summary."""
        return self.file("summary.json").is_file()

    def checkpoint(self, device: str) -> State | None:
        """The last checkpoint, if there is one."""
        path = self.file("checkpoint.safetensors")
        return State.read(path, device) if path.is_file() else None

    def save(self, state: State) -> None:
        """Makes the lines so far durable, then the checkpoint that they belong to."""
        if self._log is not None:
            self._log.flush()
            os.fsync(self._log.fileno())
        state.save(self.file("checkpoint.safetensors"))

    def lines(self) -> list[Line]:
        """The rounds' records; a last line that a crash cut short is left out."""
        path = self.file("metrics.jsonl")
        if not path.is_file():
            return []
        found: list[Line] = []
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(text))
            except json.JSONDecodeError:
                break
        return found

    def rewind(self, rounds: int) -> None:
        """Keeps the lines of the first `rounds` rounds: the others are about to be played again."""
        kept = [line for line in self.lines() if line["round"] <= rounds]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_bytes(self.file("metrics.jsonl"), text.encode())

    def append(self, line: Line) -> None:
        """Adds a round's record."""
        if self._log is None:
            self._log = self.file("metrics.jsonl").open("a", encoding="utf-8")
            sync_folder(self.path)
        self._log.write(json.dumps(line, allow_nan=False) + "\n")
        self._log.flush()

    def close(self) -> None:
        """Closes the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the log, and lets other processes work on the run."""
        self.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
