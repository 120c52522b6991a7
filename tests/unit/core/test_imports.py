import sys
from pathlib import Path

import pytest

from sordino.core.errors import UsageError
from sordino.core.imports import imported


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a user; installed as if by a console script, which does not search it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    return tmp_path


def test_a_module_in_the_working_folder_is_found(here: Path):
    (here / "own_module_a.py").write_text("def f(): return 3\n")
    assert imported("model", "own_module_a:f")() == 3


def test_it_does_not_shadow_what_is_installed(here: Path):
    (here / "numpy.py").write_text("raise RuntimeError\n")
    assert imported("model", "numpy:ndarray").__module__ == "numpy"


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ("x = 1\n", "own_module_b:y", "AttributeError: module 'own_module_b' has no attribute 'y'"),
        ("def f(:\n", "own_module_c:f", "SyntaxError"),
        ("1 / 0\n", "own_module_d:f", "ZeroDivisionError"),
        ("", "absent_module:f", "ModuleNotFoundError"),
        ("", ":f", "ValueError"),
    ],
)
def test_what_goes_wrong_is_one_line(here: Path, content: str, path: str, message: str):
    (here / f"{path.partition(':')[0] or 'none'}.py").write_text(content) if content else None
    with pytest.raises(UsageError, match=f"model '{path}' cannot be imported: {message}") as caught:
        imported("model", path)
    assert "\n" not in str(caught.value)
