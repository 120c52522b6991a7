"""The documentation does what it says: every code block runs, every test and file that it names is there.

Blocks of a page run in order, in one folder and one Python session:

- `python`: run. `sh`: run line by line; `sordino …` in this process, anything else in a shell.
- with `title="name"` a block is a file and is written; `toml` without a title must be a part of a recipe.
- `text title="output"`: what the block before it printed, numbers to 3 %, hashes and dates aside.
- after `<!-- not run: why -->` a block is left out; after `<!-- exit N -->` its last line must end with N.
- `console` shows a session with something that is not here (a server, a network), and is left out.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from sordino.cli.main import main
from sordino.experiment.recipe import Recipe

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
REAL_DATA = ("docs/reference/data.md",)
FENCE = re.compile(
    r"^(?:<!-- (?P<marker>[^>]*?) -->\n)?^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
MASKED = re.compile(r"[0-9a-f]{16,}|\d{8}-\d{6}(-\d+)?|\d{4}-\d\d-\d\dT[\d:.+]+")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    title: str | None
    marker: str
    text: str

    @property
    def left_out(self) -> bool:
        return self.marker.startswith("not run: ")

    @property
    def exit_code(self) -> int:
        return int(self.marker.removeprefix("exit ")) if self.marker.startswith("exit ") else 0


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m["language"], m["title"], m["marker"] or "", m["text"]) for m in FENCE.finditer(text)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def parameters() -> list:
    marks = {page: [pytest.mark.data] for page in REAL_DATA}
    return [
        pytest.param(page, id=name(page), marks=marks.get(name(page), ()))
        for page in PAGES
        if any(block.language in ("python", "sh", "toml") and not block.left_out for block in blocks(page))
    ]


@pytest.mark.parametrize("page", parameters())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Session(name(page)).play(blocks(page))


class Session:
    """A reader who types in what a page says."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names: dict = {"__name__": page}
        self.printed = ""

    def play(self, found: list[Block]) -> None:
        for block in found:
            if block.left_out:
                continue
            if block.title == "output":
                assert_alike(self.printed, block.text)
            elif block.title is not None:
                Path(block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                self.python(block.text)
            elif block.language == "sh":
                self.shell(block)
            elif block.language == "toml":
                part_of_a_recipe(block.text)

    def python(self, text: str) -> None:
        """As if `python` had been started in the page's folder."""
        out = io.StringIO()
        sys.path.insert(0, str(Path.cwd()))
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(text, self.page, "exec"), self.names)
        finally:
            sys.path.remove(str(Path.cwd()))
        self.printed = out.getvalue()

    def shell(self, block: Block) -> None:
        lines = [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
        self.printed = ""
        for place, line in enumerate(lines, 1):
            code, out, errors = sordino(line) if line.startswith("sordino ") else shell(line)
            expected = block.exit_code if place == len(lines) else 0
            assert code == expected, f"{line}: exit code {code}\n{out}{errors}"
            self.printed += out if code == 0 else errors


def sordino(line: str) -> tuple[int, str, str]:
    """Exit code and output of a `sordino` command, in this process."""
    words = [
        re.sub(r"^['\"]|['\"]$", "", word)
        for word in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", comment_free(line))
    ]
    out, errors = io.StringIO(), io.StringIO()
    target = None
    if ">" in words:
        target, words = Path(words[-1]), words[: words.index(">")]
    before, sys.argv = sys.argv, words
    code: int | str | None = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = before
    if target is not None:
        target.write_text(out.getvalue(), encoding="utf-8")
    return int(code or 0), "" if target is not None else out.getvalue(), errors.getvalue()


def comment_free(line: str) -> str:
    return re.sub(r"\s+#.*$", "", line)


def shell(line: str) -> tuple[int, str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
    )
    return done.returncode, done.stdout, done.stderr


def part_of_a_recipe(text: str) -> None:
    """The sections are checked as a run would; those that the page leaves out are filled in."""
    table = tomllib.loads(text)
    table.setdefault("data", {"name": "digits"})
    table.setdefault("method", {"name": "dp-fedavg"})
    Recipe.of(table)


def assert_alike(printed: str, shown: str) -> None:
    """Equal but for line breaks, for hashes and dates, and for the last digits of numbers."""
    got, want = (" ".join(MASKED.sub("*", text).split()) for text in (printed, shown))
    assert NUMBER.sub("#", got) == NUMBER.sub("#", want), f"printed:\n{printed}\nthe page says:\n{shown}"
    for one, other in zip(NUMBER.findall(got), NUMBER.findall(want), strict=True):
        values = [float(number) for number in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=0.03), f"printed {one}, the page says {other}"


def test_alike_sees_what_differs():
    assert_alike("accuracy  93.9 %\nhead 0123456789abcdef0", "accuracy 93.6 % head aaaaaaaaaaaaaaaaaaa")
    for printed, shown in (("accuracy 93.9 %", "accuracy 88.0 %"), ("run a", "run b"), ("1 2", "1")):
        with pytest.raises(AssertionError):
            assert_alike(printed, shown)


def test_a_failing_block_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for language, text in (
        ("python", "assert 0"),
        ("sh", "sordino run --sed 1"),
        ("sh", "exit 3"),
        ("toml", "[method]\nname = 'dp-fedavg'\nclip_nrm = 1.0"),
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011
            Session("made").play([Block(language, None, "", text)])
        Session("made").play([Block(language, None, "not run: seen to fail", text)])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_test_that_is_named_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    for file, function in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / file).is_file(), file
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        defined = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert not function or function in defined, f"{file}::{function}"
    for file in re.findall(r"`(src/[\w/.]+\.py)`", text):
        assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_of_pages_outside_the_site_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_site_needs_no_network(tmp_path):
    """Built without warnings, and no page loads anything from elsewhere."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(https?:)?//", text)
        loaded += re.findall(
            r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)[^>]*href=\"?(https?:)?//", text
        )
        assert not loaded, page.name


def test_every_public_name_is_in_the_reference():
    """The generator refuses a public name without a docstring."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    import sordino

    text = generator.python()
    for public in sordino.__all__:
        assert public == "__version__" or f"### sd.{public}\n" in text, public
    recipe = generator.recipe()
    assert "`clip_norm`" in recipe
    assert "`share`" in recipe
    assert "## sordino ledger verify" in generator.commands()
