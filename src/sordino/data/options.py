"""Options that arrive by name, checked against the function that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sordino.core.errors import UsageError, unknown


def option_names(function: Callable[..., Any], hidden: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters of `function` that a user may set: all but `hidden`."""
    return tuple(name for name in inspect.signature(function).parameters if name not in hidden)


def check_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any], hidden: tuple[str, ...]
) -> None:
    """Refuses options that `function` does not have, and their absence where it has no default."""
    names = option_names(function, hidden)
    for option in options:
        if option not in names:
            raise unknown(f"option of {what}:", option, names)
    for name in names:
        parameter = inspect.signature(function).parameters[name]
        if parameter.default is inspect.Parameter.empty and name not in options:
            raise UsageError(f"{what} needs {name}; its options are {', '.join(names)}")
