from __future__ import annotations

import pytest
from tests.end_to_end.test_federation import MISSING


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    missed = sum(MISSING in str(report.longrepr) for report in skipped)
    if MISSING and missed:
        terminalreporter.section("FLOWER DID NOT RUN", red=True, bold=True)
        terminalreporter.line(f"{missed} tests of a real federation: {MISSING}")
