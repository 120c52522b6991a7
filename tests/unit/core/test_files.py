"""Files are whole or absent."""

import json
import os
import signal
import subprocess
import sys

import pytest

from sordino.core.files import write_bytes, write_json


def test_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    write_json(path, {"x": 2})
    assert json.loads(path.read_text()) == {"x": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", float("nan"))


@pytest.mark.parametrize("seed", range(3))
def test_kill_leaves_old_or_new(tmp_path, seed):
    path = tmp_path / "big"
    write_bytes(path, b"0" * 1_000_000)
    code = (
        "import sys; from pathlib import Path; from sordino.core.files import write_bytes\n"
        "print('ready', flush=True)\n"
        f"while True:\n  [write_bytes(Path({str(path)!r}), c * 1_000_000) for c in (b'1', b'2')]"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        child.wait(timeout=0.05 + 0.03 * seed)
    except subprocess.TimeoutExpired:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    content = path.read_bytes()
    assert len(content) == 1_000_000
    assert len(set(content)) == 1
