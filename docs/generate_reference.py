"""The reference pages that are read off the code: commands, recipe keys, the Python API.

MkDocs calls `on_files` while it builds, so these pages cannot be out of date; they are not kept in the repository.
`python docs/generate_reference.py FOLDER` writes them as files.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from typer.testing import CliRunner

import sordino
from sordino.cli.main import app
from sordino.core.options import option_names
from sordino.data import catalogue, partitions
from sordino.engine import Network
from sordino.experiment.populations import Budgets
from sordino.experiment.recipe import OPTIMISERS, SECTIONS, Recipe, Settings
from sordino.methods import METHODS
from sordino.models import models
from sordino.training import DpSgdOptions, LocalSgd

PACKAGES = (
    "budgets",
    "accounting",
    "accounting.ledger",
    "data",
    "models",
    "sampling",
    "training",
    "privatizers",
    "aggregation",
    "planning",
    "methods",
    "engine",
    "federation.secagg",
    "report",
)
"""Packages whose public names are documented beside those of `sordino` itself, in the order of a round."""

WIDTH = 96


def pages() -> dict[str, str]:
    """Each generated page by its path below docs/."""
    return {
        "reference/commands.md": commands(),
        "reference/recipe.md": recipe(),
        "reference/python.md": python(),
    }


def on_files(files: Files, config: Any) -> Files:
    """MkDocs hook: adds the generated pages to the site."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


# Commands


def commands() -> str:
    """Every command with its own help."""
    intro = (
        "# Commands\n\nExit code 0: done; 1: failed or stopped; 2: wrong use. An error is one line on standard "
        "error that says what was wrong and what would be right.\n"
    )
    return "\n".join([intro, *(_command(words) for words in command_names())])


def command_names() -> list[tuple[str, ...]]:
    """The words after `sordino` of every command."""
    names = [(_name(command),) for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        names += [(str(group.name), _name(command)) for command in group.typer_instance.registered_commands]
    return names


def _name(command: Any) -> str:
    return command.name or command.callback.__name__.replace("_", "-")


def _command(words: tuple[str, ...]) -> str:
    answer = CliRunner(env={"COLUMNS": str(WIDTH)}).invoke(
        app, [*words, "--help"], prog_name="sordino", terminal_width=WIDTH, max_content_width=WIDTH
    )
    assert answer.exit_code == 0, answer.output
    return f"## sordino {' '.join(words)}\n\n```text\n{answer.output.strip()}\n```\n"


# Recipe keys


def recipe() -> str:
    """Every section of a recipe with its keys."""
    written: dict[str, Callable[[], str]] = {
        "data": lambda: _entries("data", "name", {k: s.loader for k, s in catalogue().items()}, ("folder",)),
        "clients": lambda: _entries("clients", "partition", partitions(), ("data", "streams")),
        "budgets": lambda: _table("budgets", Budgets),
        "model": lambda: _entries("model", "name", models(), ("input_shape", "classes")),
        "method": _methods,
        "training": _trainings,
        "server": _optimisers,
    }
    for kind in METHODS.values():
        for field in dataclasses.fields(typing.cast(Any, kind)):
            if field.name in SECTIONS and field.name not in written:
                hint = typing.get_type_hints(kind)[field.name]
                written[field.name] = lambda name=field.name, hint=hint: _table(name, hint)
    written.setdefault("ledger", lambda: _table("ledger", sordino.LedgerTerms))
    written.setdefault("network", lambda: _table("network", Network))
    missing = [section for section in SECTIONS if section not in written]
    assert not missing, f"the recipe reference does not know the sections {missing}"
    top = (
        "# Recipe keys\n\nA recipe is a TOML file. A key that is not listed here is an error, and so is a value "
        "of another type. `[data]` and `[method]` are required.\n\n## At the top\n\n" + _keys(Settings)
    )
    return "\n".join([top, *(f"## [{section}]\n\n{written[section]()}" for section in SECTIONS)])


def _trainings() -> str:
    """The keys of both kinds of local training, each with the methods that take it."""
    parts: list[str] = []
    for options in (LocalSgd, DpSgdOptions):
        takers = [
            name for name, kind in METHODS.items() if typing.get_type_hints(kind).get("training") is options
        ]
        named = ", ".join(f"`{name}`" for name in takers)
        parts.append(f"### {named}\n\n{_table('training', options)}")
    return "\n".join(parts)


def _entries(section: str, key: str, makers: dict[str, Callable[..., Any]], given: tuple[str, ...]) -> str:
    plainest = Recipe.of({"data": {"name": "digits"}, "method": {"name": "fedavg"}})
    default = "" if section == "data" else f" (default `{getattr(plainest, section).name}`)"
    path = "" if section == "clients" else ", or `package.module:function`"
    lines = [f"`{key}`{default} is one of these{path}; its options stand beside it."]
    lines += ["", f"| {key} | options |", "| --- | --- |"]
    for name, maker in makers.items():
        options = [f"`{option}`" for option in option_names(maker, given)]
        lines.append(f"| `{name}` | {', '.join(options) or '–'} |")
    return "\n".join([*lines, ""])


def _methods() -> str:
    return "\n".join(f"### {name}\n\n{_table('method', kind)}" for name, kind in METHODS.items())


_AVERAGE = """Any of them takes `average`, a number in [0, 1): the model that is evaluated and kept is then the
exponential average of the iterates with this decay, while clients go on training from the last one.
"""


def _optimisers() -> str:
    known = ", ".join(f'`"{name}"`' for name in OPTIMISERS)
    parts = [f"`optimiser` is one of {known}; the first is the default.\n", _AVERAGE]
    parts += [f"### optimiser = {name}\n\n{_table('server', kind)}" for name, kind in OPTIMISERS.items()]
    return "\n".join(parts)


def _table(section: str, cls: Any) -> str:
    """A dataclass as its docstring, its keys, and the tables that stand inside it."""
    parts = [_prose(cls), _keys(cls)]
    for path, inner in _inner(section, cls):
        parts.append(f"**`{path}`**: {_prose(inner)}\n{_keys(inner)}")
    return "\n".join(parts)


def _keys(cls: Any) -> str:
    hints = typing.get_type_hints(cls)
    lines = ["| key | value | default |", "| --- | --- | --- |"]
    lines += [
        f"| `{field.name}` | {_said(hints[field.name])} | {_default(field)} |"
        for field in dataclasses.fields(cls)
        if field.init and field.name not in SECTIONS
    ]
    return "\n".join([*lines, ""])


def _default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    if value is None or value == ():
        return "–"
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value}"


def _said(hint: Any) -> str:
    """A type in the words of somebody who writes TOML."""
    words = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
    if hint in words:
        return words[hint]
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(f'`"{value}"`' for value in typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_said(option) for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        return f"list: {_said(typing.get_args(hint)[0])}"
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return " or ".join(f'`"{member.value}"`' for member in hint)
    if dataclasses.is_dataclass(hint):
        return "table, below"
    raise TypeError(f"no words for the type {hint}")


def _inner(path: str, cls: Any) -> Iterator[tuple[str, Any]]:
    """The dataclasses that stand in the fields of `cls`, by the path of their key; not those with a section."""
    for name, hint in typing.get_type_hints(cls).items():
        if name not in SECTIONS:
            for option in (hint, *typing.get_args(hint)):
                if dataclasses.is_dataclass(option):
                    yield f"{path}.{name}", option
                    yield from _inner(f"{path}.{name}", option)


# Python


def python() -> str:
    """Every public name: signature, docstring, methods."""
    parts = [
        "# Python API\n\nThe names of `import sordino as sd` first, then what else the packages offer.\n",
        "## sordino\n",
    ]
    seen: set[int] = set()
    for name in sordino.__all__:
        if not name.startswith("_"):
            parts.append(_entry(f"sd.{name}", getattr(sordino, name)))
            seen.add(id(getattr(sordino, name)))
    for package, names in public_names():
        fresh = [(name, value) for name, value in names if id(value) not in seen]
        seen.update(id(value) for _, value in fresh)
        if fresh:
            about = _escaped(inspect.getdoc(importlib.import_module(package)) or "")
            parts.append(f"## {package}\n\n{about}\n")
            parts += [_entry(name, value) for name, value in fresh]
    return "\n".join(parts)


def public_names() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Each package of PACKAGES with its public names."""
    for short in PACKAGES:
        module = importlib.import_module(f"sordino.{short}")
        yield f"sordino.{short}", [(name, getattr(module, name)) for name in module.__all__]


def _entry(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return _class(name, value)
    if callable(value):
        return f"### {name}\n\n```python\n{_signature(name, value)}\n```\n\n{_prose(value)}\n"
    return f"### {name}\n\n`{_short(value)}`\n"


def _class(name: str, cls: type) -> str:
    if issubclass(cls, enum.Enum):
        members = ", ".join(f"`{member.name}` = `{member.value!r}`" for member in cls)
        return f"### {name}\n\n{_prose(cls)}\n\nMembers: {members}.\n"
    made = not getattr(cls, "_is_protocol", False) and not issubclass(cls, Exception)
    signature = f"```python\n{_signature(name, cls)}\n```\n\n" if made else ""
    lines = [f"### {name}\n\n{signature}{_prose(cls)}\n"]
    fields = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    for method, held in vars(cls).items():
        if not method.startswith("_") and method not in fields and (entry := _member(method, held, cls)):
            lines.append(entry)
    return "\n".join(lines)


def _member(name: str, held: Any, cls: type) -> str:
    if isinstance(held, property | cached_property):
        return f"**`{name}`**: {_prose(held)}\n"
    if isinstance(held, classmethod | staticmethod) or inspect.isfunction(held):
        first = 1 if inspect.isfunction(held) else 0
        return f"**`{_signature(name, getattr(cls, name), first, one_line=True)}`**: {_prose(held)}\n"
    return ""


def _signature(name: str, value: Any, first: int = 0, *, one_line: bool = False) -> str:
    """The call as it is written in code, from its parameter `first` on; one a line where it is long."""
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())[first:]
    record = inspect.isclass(value) and dataclasses.is_dataclass(value)
    factories = {field.name: field.default_factory for field in dataclasses.fields(value)} if record else {}
    texts: list[str] = []
    star = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            texts.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        texts.append(_parameter(parameter, factories))
    returned = signature.return_annotation
    tail = "" if inspect.isclass(value) or returned is signature.empty else f" -> {_annotation(returned)}"
    line = f"{name}({', '.join(texts)}){tail}"
    if len(line) <= WIDTH or one_line:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){tail}"


def _parameter(parameter: inspect.Parameter, factories: dict[str, Any]) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    factory = factories.get(parameter.name, dataclasses.MISSING)
    default = parameter.default if factory is dataclasses.MISSING else factory()
    return f"{text} = {_short(default)}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _short(value: Any) -> str:
    """A value as one would write it: enums by their value, dataclasses without their defaults."""
    if isinstance(value, enum.Enum):
        return repr(value.value)
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: …" for key in value) + "}"
    if not dataclasses.is_dataclass(value) or inspect.isclass(value):
        return repr(value)
    given = [
        f"{field.name}={_short(held)}"
        for field in dataclasses.fields(value)
        if (held := getattr(value, field.name)) != field.default
        and (field.default_factory is dataclasses.MISSING or held != field.default_factory())
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def _prose(value: Any) -> str:
    text = inspect.getdoc(value)
    assert text, f"{value} has no docstring"
    return _escaped(text) + "\n"


def _escaped(text: str) -> str:
    """Angle brackets outside of code would be taken for HTML."""
    parts = text.split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


if __name__ == "__main__":
    for path, text in pages().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
