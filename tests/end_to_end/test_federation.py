"""Flower's programs, which the tests of a real federation need (`SORDINO_FLOWER`, or beside this Python).

`make test` builds an environment for them.
"""

from __future__ import annotations

import pytest

from sordino.core.errors import UsageError
from sordino.federation.flower.programs import environment, flower


def _missing() -> str:
    try:
        return "" if flower() else "never"
    except UsageError as error:
        return str(error)


MISSING = _missing()


@pytest.mark.skipif(bool(MISSING), reason=MISSING or "Flower is here")
def test_flower_sends_nothing_home(tmp_path):
    around = environment(tmp_path)
    assert around["FLWR_TELEMETRY_ENABLED"] == "0"
    assert around["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert not any(name.startswith("PYTHON") for name in around)
