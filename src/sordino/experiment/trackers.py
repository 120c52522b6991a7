"""Experiment trackers: the figures of a run's record, sent to TensorBoard or MLflow while it goes on."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from sordino.core.errors import UsageError, unknown
from sordino.core.files import locked
from sordino.engine import State
from sordino.experiment import toml
from sordino.experiment.folder import Line
from sordino.experiment.live import Begun, Progress, Show
from sordino.experiment.result import flat

Figures = dict[str, float]


class Tracker(Protocol):
    """Takes the figures of one run, round by round."""

    def log(self, round_: int, figures: Figures) -> None:
        """Notes the figures of a round; rounds count from 1, and a round may come again after a resumption."""
        ...

    def close(self, failed: bool) -> None:
        """Writes what is left; `failed` says that the run did not come to its end."""
        ...


class TensorBoard:
    """Event files in the run's own folder, below `tensorboard/`; none for `parameters`, which are in its recipe."""

    def __init__(self, begun: Begun, parameters: dict[str, Any]) -> None:
        _need("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        folder = begun.folder or Path("runs") / begun.name
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def log(self, round_: int, figures: Figures) -> None:
        """One scalar a figure, dots as folders."""
        for name, value in figures.items():
            self._writer.add_scalar(name.replace(".", "/"), value, round_)
        self._writer.flush()

    def close(self, failed: bool) -> None:
        """Ends the file."""
        self._writer.close()


class MLflow:
    """A run in MLflow's store: where MLFLOW_TRACKING_URI says, else the database `mlflow.db` in the working folder.

    Its parameters are the recipe's keys.
    """

    def __init__(self, begun: Begun, parameters: dict[str, Any]) -> None:
        _need("mlflow", "mlflow")
        os.environ.setdefault(
            "MLFLOW_DISABLE_TELEMETRY", "true"
        )  # a run's figures go where they were sent, only
        os.environ.setdefault("MLFLOW_DISABLE_PYTHON_VERSION_WARNING", "true")
        import mlflow

        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        place = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{Path('mlflow.db').resolve()}")
        with locked(
            Path(tempfile.gettempdir()) / f"sordino-mlflow-{os.getuid()}"
        ):  # a sweep's runs make one store
            self._client: Any = mlflow.MlflowClient(tracking_uri=place)
            held = self._client.get_experiment_by_name("sordino")
            number = held.experiment_id if held else self._client.create_experiment("sordino")
        self._run: str = self._client.create_run(number, run_name=begun.name).info.run_id
        for key, value in parameters.items():
            self._client.log_param(self._run, key, str(value)[:500])

    def log(self, round_: int, figures: Figures) -> None:
        """One metric a figure, all of them at once."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_plain(name), value, now, round_) for name, value in figures.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, failed: bool) -> None:
        """Ends the run in the store."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


TRACKERS: dict[str, Callable[[Begun, dict[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}
"""The trackers by name."""


def tracked(name: str) -> Progress:
    """The tracker called `name` as a display.

    On somebody's own data it is sent what anybody may see; on built-in data sets all figures of the record. With
    them go ε spent so far, by group.
    """
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    _need(name, name)

    @contextmanager
    def display(begun: Begun) -> Generator[Show, None, None]:
        recipe = _recipe(begun.folder)
        hidden = not begun.rows.public
        parameters = {k: v for k, v in flat(recipe).items() if not hidden or k not in ("seed", "ledger.url")}
        tracker = TRACKERS[name](begun, parameters)
        shown = begun.rows.metrics if hidden else None

        def show(state: State, line: Line) -> None:
            tracker.log(state.round, figures_of(line, begun.spent(state.round), shown))

        try:
            yield show
        except BaseException:
            tracker.close(failed=True)
            raise
        tracker.close(failed=False)

    return display


def figures_of(line: Line, spent: dict[str, float], shown: tuple[str, ...] | None) -> Figures:
    """The numbers of a round's record, only those in `shown` if that is given, and ε by group."""
    found = {
        name: float(value)
        for name, value in flat(line).items()
        if name != "round" and isinstance(value, int | float) and (shown is None or name in shown)
    }
    return {**found, **{f"epsilon.{group}": value for group, value in spent.items()}}


def _recipe(folder: Path | None) -> dict[str, Any]:
    path = folder / "recipe.toml" if folder is not None else None
    return toml.read(path) if path is not None and path.is_file() else {}


def _need(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise UsageError(f"--tracker {extra} needs {package}: pip install 'sordino[{extra}]'")


def _plain(name: str) -> str:
    """MLflow takes letters, digits and a few signs."""
    return "".join(letter if letter.isalnum() or letter in "_-./ " else "_" for letter in name)
