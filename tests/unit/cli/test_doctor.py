"""The doctor finds what is wrong, says what to do, and tells what a run needs from what is optional."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from sordino.accounting.ledger import Ledger
from sordino.cli import doctor
from sordino.cli.main import main


def test_it_looks_at_everything_and_this_machine_can_run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sordino", "doctor", "--json"])
    main()
    said = json.loads(capsys.readouterr().out)
    assert said["well"] is True
    about = {finding["about"] for finding in said["findings"]}
    assert {"Python", "torch", "dp-accounting", "CPU", "shared memory", "data", "folder"} <= about
    assert {"flower", "ray", "Chromium", "port 9092", "postgres"} <= about
    for finding in said["findings"]:
        assert finding["todo"] or finding["state"] == "ok", finding
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(sys, "argv", ["sordino", "doctor"])
    main()
    assert "Sordino can run here." in capsys.readouterr().out


def test_a_missing_package_and_an_old_one_are_wrong(monkeypatch, capsys):
    monkeypatch.setattr(
        doctor, "requires", lambda name: ["torch>=999", "nothing-like-it>=1", "x; extra == 'y'"]
    )
    torch, nothing = doctor.packages()
    assert (torch.state, torch.todo) == ("wrong", "pip install 'torch>=999'")
    assert (nothing.state, nothing.found) == ("wrong", "is not installed")
    monkeypatch.setattr(sys, "argv", ["sordino", "doctor"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "WRONG" in capsys.readouterr().out


def test_versions_of_python_that_it_takes():
    assert doctor.python((3, 11)).state == doctor.python((3, 13)).state == "ok"
    assert doctor.python((3, 10)).state == doctor.python((3, 14)).state == "wrong"


def test_data_folders_and_shared_memory(tmp_path):
    assert doctor.data(tmp_path / "absent").state == "wrong"
    empty = doctor.data(tmp_path)
    assert empty.state == "optional"
    assert "fmnist" in empty.todo
    assert "sordino data fetch" in empty.todo
    assert "--workers 1" in doctor.shared_memory(tmp_path / "absent").todo


def test_a_folder_that_cannot_be_written(tmp_path):
    assert doctor.folder(tmp_path).state == "ok"
    assert doctor.folder(tmp_path / "absent").state == "wrong"


def test_a_ledger_is_opened_and_verified(tmp_path):
    Ledger.open(str(tmp_path / "ledger.db")).close()
    assert doctor.opened(str(tmp_path / "ledger.db")).state == "ok"
    Path(tmp_path / "broken.db").write_text("this is no database, whatever its name says")
    assert doctor.opened(str(tmp_path / "broken.db")).state == "wrong"


def test_a_port_that_is_taken(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(doctor, "PORTS", {taken.getsockname()[1]: "a test"})
        (found,) = doctor.ports()
    assert found.state == "optional"
    assert "a test" in found.todo
    (found,) = doctor.ports()
    assert found.state == "ok"
