"""Whether the files of an agent are its own: code that the operator sends runs on the same machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sordino.core.errors import UsageError
from sordino.federation.site.config import SiteConfig


def check_exposure(config: SiteConfig, caller: int) -> None:
    """Refuses data, policy, keys or ledger that others than the agent's user could read or put their own in place of.

    `caller` is the user of the SuperNode, who may own none of it either.
    """
    for path in _files(config):
        if not path.exists():
            continue
        found = path.stat()
        if found.st_mode & 0o077:
            raise UsageError(f"{path} can be read by others: chmod go= {path}")
        _owned(path, found.st_uid, caller)
        above = path.parent.stat()
        if above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX:
            raise UsageError(f"others can replace what is in {path.parent}: chmod go-w {path.parent}")
        _owned(path.parent, above.st_uid, caller)


def _owned(path: Path, owner: int, caller: int) -> None:
    if owner == caller != os.geteuid():
        raise UsageError(f"{path} belongs to the SuperNode's user, who runs the operator's code; chown it")


def _files(config: SiteConfig) -> list[Path]:
    """Everything that the agent reads or keeps, but for what is public."""
    named = [config.data.options.get("path"), config.data.options.get("test"), config.budget.file]
    given = [config.home / name for name in named if isinstance(name, str) and name]
    own = [config.folder, config.identity, config.ledger, config.folder / "answers.db", config.peers]
    return [*given, *own, *sorted(config.home.glob("*.toml"))]
