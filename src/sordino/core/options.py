"""Options that arrive by name, from a recipe or a call, checked against the function that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from sordino.core.errors import UsageError, unknown


def option_names(function: Callable[..., Any], given: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters of `function` that a user may set: all but those that the caller gives."""
    return tuple(name for name in inspect.signature(function).parameters if name not in given)


def check_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any], given: tuple[str, ...]
) -> None:
    """Refuses options that `function` does not take, wrong types, and the lack of one that it needs."""
    names = option_names(function, given)
    for option in options:
        if option not in names:
            raise unknown(f"option of {what}:", option, names)
    parameters = inspect.signature(function).parameters
    for name in names:
        if parameters[name].default is inspect.Parameter.empty and name not in options:
            raise UsageError(f"{what} needs {name}; its options: {', '.join(names)}")
    hints = _hints(function)
    for option, value in options.items():
        if option in hints:
            _check_type(f"{what}: {option} = {value!r}", hints[option], value)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types that `function` declares; none where they cannot be resolved, as in some users' code."""
    target = function.__init__ if inspect.isclass(function) else function
    try:
        return get_type_hints(target)
    except (NameError, TypeError):
        return {}


def _check_type(where: str, hint: Any, value: Any) -> None:
    try:
        adapter = TypeAdapter[Any](hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        return
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise UsageError(f"{where}: {message[0].lower()}{message[1:]}") from error
