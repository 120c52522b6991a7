from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from tests.end_to_end.hostile.lab import HostileLab, Rogue


@pytest.fixture(scope="session")
def lab():
    """One federation for all of these tests: it takes half a minute to start."""
    folder = Path(tempfile.mkdtemp(prefix="sordino-", dir="/tmp"))
    try:
        with HostileLab(folder) as lab:
            lab.begin()
            yield lab
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def rogue(lab):
    """The operator's own app, at both ends."""
    rogue = Rogue(lab)
    yield rogue
    rogue.close()
