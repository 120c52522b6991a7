"""TOML, read with one-line errors and written plainly."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError, said_of

Table = dict[str, Any]


def read(path: Path) -> Table:
    """A TOML file; one that is absent, empty or not TOML is refused with its place."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text; a recipe is a TOML file") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: is not TOML: {error}") from error
    if not table:
        raise UsageError(f"{path}: is empty; a recipe needs at least [data] and [method]")
    return table


def override(table: Table, setting: str) -> None:
    """Applies `key.path=value` in place; the value is TOML, or else taken as text."""
    path, separator, text = setting.partition("=")
    if not separator or not path.strip():
        raise UsageError(f"--set {setting}: give key=value, such as method.rounds=20")
    with said_of(f"--set {setting}"):
        put(table, path.strip(), value_of(text))


def value_of(text: str) -> Any:
    """What somebody typed: a TOML value, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def put(table: Table, path: str, value: Any) -> None:
    """Sets `key.path` in place; tables on the way are made."""
    *parents, last = path.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise UsageError(f"'{parent}' is a value, not a table")
        table = inner
    table[last] = value


def write(table: Table) -> str:
    """A table of scalars, lists and tables as TOML that `read` turns back into the same table."""
    lines: list[str] = []
    _write(table, (), lines)
    return "\n".join(lines).strip() + "\n"


def _write(table: Table, path: tuple[str, ...], lines: list[str]) -> None:
    scalars = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (scalars or not table):
        lines.extend(["", f"[{'.'.join(_key(part) for part in path)}]"])
    lines.extend(f"{_key(key)} = {said(value)}" for key, value in scalars.items())
    for key, value in table.items():
        if isinstance(value, dict):
            _write(value, (*path, key), lines)


def _key(name: str) -> str:
    plain = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if plain else _text(name)


def _text(value: str) -> str:
    """A basic string: as in JSON, but for the one control character that JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def said(value: Any) -> str:
    """One value as TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(said(item) for item in value)}]"
        case dict():
            return f"{{ {', '.join(f'{_key(k)} = {said(v)}' for k, v in value.items())} }}"
        case _:
            raise UsageError(f"{value!r} cannot stand in a recipe; use text, numbers, lists and tables")
