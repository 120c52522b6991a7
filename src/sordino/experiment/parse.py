"""From tables of a recipe to frozen values, with errors that name key, value, remedy and the nearest name.

The dataclasses of the library are the schema: a recipe's keys are their fields, and nothing else.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sordino.core.errors import UsageError, did_you_mean

Table = dict[str, Any]
T = TypeVar("T")


def build(cls: type[T], table: Table, where: str) -> T:
    """An instance of the dataclass `cls` from a table; `where` is the table's name in messages."""
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, cls)) if field.init]
    values: Table = {}
    for key, value in table.items():
        if key not in names:
            raise UsageError(f"unknown key {_path(where, key)}{did_you_mean(key, names)}")
        values[key] = convert(hints[key], value, _path(where, key))
    missing = [
        field.name
        for field in dataclasses.fields(typing.cast(Any, cls))
        if field.init
        and field.name not in values
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise UsageError(f"{_path(where, missing[0])} is missing; it has no default")
    return cls(**values)


def convert(hint: Any, value: Any, where: str) -> Any:
    """`value` as the type `hint`, strictly: no text for a number, no number for a switch."""
    for option in _options(hint):
        if dataclasses.is_dataclass(option) and isinstance(value, dict):
            return build(typing.cast(Any, option), value, where)
    if isinstance(value, float) and math.isnan(value):
        raise UsageError(f"{where} = nan is not a number; give a finite value")
    try:
        return TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{_inside(first['loc'])}{first['msg'][0].lower()}{first['msg'][1:]}"
        known = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else []
        hint_at = did_you_mean(str(value), [str(name) for name in known]) if known else ""
        raise UsageError(f"{where} = {value!r}: {problem}{hint_at}") from error


def _inside(place: tuple[int | str, ...]) -> str:
    """Which part of a list or table is wrong: `entry 2, epsilon: `."""
    said = [f"entry {part + 1}" if isinstance(part, int) else part for part in place]
    return f"{', '.join(said)}: " if said else ""


def plain(value: Any) -> Any:
    """The inverse of `build`: dataclasses as tables of plain values, without what is None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {name: held for name, held in fields.items() if held is not None}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    return str(value) if isinstance(value, str) else value


def _options(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
