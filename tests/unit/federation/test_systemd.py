"""The unit examples are units: known sections, one command that exists, and users that differ."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from sordino.cli.main import app

UNITS = sorted((Path(__file__).parents[3] / "docs" / "how-to" / "systemd").glob("*.service"))


def read(path):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(path.read_text())
    return parser


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_well_formed_and_starts_a_command_of_ours(path):
    unit = read(path)
    assert unit.sections() == ["Unit", "Service", "Install"]
    program, group, name, *rest = shlex.split(unit["Service"]["ExecStart"])[:4]
    assert (Path(program).name, group) == ("sordino", "federation")
    command = get_command(app).commands["federation"].commands[name]
    options = {option for parameter in command.params for option in parameter.opts}
    given = [word for word in shlex.split(unit["Service"]["ExecStart"]) if word.startswith("--")]
    assert set(given) <= options
    assert "--insecure" not in given
    assert unit["Service"]["Restart"] == "always"
    assert rest or name


def test_agent_and_supernode_are_different_users():
    users = {path.stem: read(path)["Service"]["User"] for path in UNITS}
    assert len(users) == 3
    assert len(set(users.values())) == 3
