"""Every test that takes `place` runs twice: on SQLite, and on a PostgreSQL server of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests import postgres

from sordino.accounting.ledger import Ledger

_numbers = count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str | None]:
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes addresses of ledgers that do not exist yet."""
    if request.param == "sqlite":
        yield lambda: str(tmp_path / f"ledger{next(_numbers)}.db")
        return
    url = request.getfixturevalue("postgres_url")
    if url is None:
        pytest.skip("PostgreSQL is not available: " + "; ".join(postgres.PROBLEMS))
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    made: list[str] = []

    def make() -> str:
        made.append(f"ledger{next(_numbers)}")
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {made[-1]}")
        return f"{url}&options=-csearch_path%3D{made[-1]}"

    yield make
    with admin.connect() as connection:
        for name in made:
            connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")
    admin.dispose()


@pytest.fixture
def place(places: Callable[[], str]) -> str:
    return places()


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    opened = Ledger.open(place)
    yield opened
    opened.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    missed = sum("PostgreSQL is not available" in str(report.longrepr) for report in skipped)
    if missed:
        terminalreporter.section("PostgreSQL DID NOT RUN", red=True, bold=True)
        terminalreporter.line(f"{missed} ledger tests did not run on PostgreSQL: pip install pgserver")
