"""Users' own functions, named by an import path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError


def imported(what: str, path: str) -> Any:
    """The thing that `package.module:name` names; the working folder is searched after what is installed.

    Whatever goes wrong while the module loads is one error that names `what` and the path.
    """
    module, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # a user's module can raise anything
        raise UsageError(f"{what} '{path}' cannot be imported: {type(error).__name__}: {error}") from error
