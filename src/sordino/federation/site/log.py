"""The owner's log: one JSON line for each thing that happened, turned over by size."""

from __future__ import annotations

import json
import time
from logging import Formatter, LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from sordino.federation.site.config import Process


class _Line(Formatter):
    def format(self, record: LogRecord) -> str:
        return record.getMessage()


class SiteLog:
    """What was asked, by which run, and what became of it. For the owner alone: it may name reasons."""

    def __init__(self, path: Path, terms: Process) -> None:
        self._handler = RotatingFileHandler(
            path, maxBytes=terms.log_bytes, backupCount=terms.log_files, encoding="utf-8"
        )
        self._handler.setFormatter(_Line())
        path.chmod(0o600)

    def note(self, event: str, **facts: Any) -> None:
        """Writes one line."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}
        self._handler.emit(makeLogRecord({"msg": json.dumps(line, ensure_ascii=False)}))

    def close(self) -> None:
        """Gives the file back."""
        self._handler.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """All lines, those that were turned over first."""
    older = sorted(path.parent.glob(path.name + ".*"), key=lambda p: -int(p.suffix[1:]))
    lines: list[dict[str, Any]] = []
    for file in (*older, path):
        if file.exists():
            lines += [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return lines
