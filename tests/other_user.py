"""Flower as another user of this machine: what a SuperNode that is not the agent's user needs."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from sordino.federation.flower.programs import flower

ROOT = os.geteuid() == 0
"""Only root can start processes of other users."""


def another() -> pwd.struct_passwd:
    """A user who owns nothing."""
    return pwd.getpwnam("nobody")


def flower_for(user: pwd.struct_passwd, folder: Path) -> Path:
    """Flower's programs where `user` can run them: where they are, or linked into `folder` if that is out of reach."""
    at = flower()
    asked = [str(at / "python"), "-c", "import flwr"]
    try:
        subprocess.run(asked, user=user.pw_uid, group=user.pw_gid, extra_groups=[], check=True, cwd="/")
        return at
    except (OSError, subprocess.CalledProcessError):
        pass
    code = "import sys, sysconfig as s; print(sys.base_prefix, '%d.%d' % sys.version_info[:2], s.get_path('purelib'))"
    said = subprocess.run([str(at / "python"), "-c", code], check=True, capture_output=True, text=True)
    prefix, version, packages = said.stdout.split()
    base, home, name = folder / "base", folder / "flower", f"python{version}"
    without = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "ensurepip", "config-*")
    _link(Path(prefix, "lib", name), base / "lib" / name, without)
    for library in Path(prefix, "lib").glob("libpython*"):
        _same(str(library.resolve()), str(base / "lib" / library.name))
    (base / "bin").mkdir()
    _same(str(Path(prefix, "bin", name).resolve()), str(base / "bin" / name))
    _link(Path(packages), home / "lib" / name / "site-packages", None)
    (home / "bin").mkdir()
    (home / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\n")
    (home / "bin" / "python").symlink_to(base / "bin" / name)
    for program in at.glob("fl*w*r*"):
        _, _, body = program.read_text().partition("\n")
        (home / "bin" / program.name).write_text(f"#!{home / 'bin' / 'python'}\n{body}")
        (home / "bin" / program.name).chmod(0o755)
    return home / "bin"


def _link(source: Path, target: Path, without) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, copy_function=_same, ignore=without)


def _same(source: str, target: str) -> None:
    """The same file under another name; a copy where the file system does not have that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
