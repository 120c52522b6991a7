"""Finished runs side by side: what differs between them, the mean and spread over seeds, and ε beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core.errors import UsageError, unknown
from sordino.experiment import toml
from sordino.experiment.folder import RunFolder
from sordino.experiment.result import flat
from sordino.experiment.tables import TextTable

NOT_IN_EPSILON = (
    "Each ε is that of one run. Choosing among runs by their accuracy is tuning on private data, which is not in "
    "ε, and runs on the same data add up."
)
NOT_TELLING = ("seed", "name", "evaluate_every", "device")
"""Keys in which runs of one kind may differ."""
LONGEST = 40
"""Letters of a value in a table."""
LARGE = 1e6
"""Figures from here on are written by their order of magnitude."""


@dataclass(frozen=True)
class Run:
    """A finished run: its keys (dotted, as in its recipe) and its summary."""

    path: Path
    keys: dict[str, Any]
    summary: dict[str, Any]

    @classmethod
    def read(cls, folder: RunFolder) -> Run:
        """From a run's folder."""
        recipe = folder.file("recipe.toml")
        keys = flat(toml.read(recipe)) if recipe.is_file() else {}
        return cls(folder.path, keys, folder.read_json("summary.json"))


@dataclass(frozen=True)
class Figure:
    """Mean of some runs' figures and their spread: the sample standard deviation, None for one run."""

    mean: float
    spread: float | None
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """The figure of these values."""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), spread, len(values))

    def text(self, scale: float = 1.0, digits: int = 1) -> str:
        """`93.1 ± 0.4`; `diverged` if a run's figure is none."""
        if math.isnan(self.mean):
            return "diverged"
        form = f".{digits}f" if abs(scale * self.mean) < LARGE else ".1e"
        mean = f"{scale * self.mean:{form}}"
        return mean if self.spread is None else f"{mean} ± {scale * self.spread:{form}}"


@dataclass(frozen=True)
class Kind:
    """Runs that differ in their seeds alone (or that `--by` puts together)."""

    labels: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def accuracy(self) -> Figure:
        """Test accuracy after the last round."""
        return Figure.of([run.summary["accuracy"] for run in self.runs])

    @property
    def private(self) -> bool:
        """Whether the runs guarantee something to somebody."""
        return any(
            epsilon is not None for run in self.runs for epsilon in run.summary["epsilon_by_group"].values()
        )

    def epsilon(self, group: str) -> float | None:
        """The largest ε that any of the runs charged in a budget group; None: no guarantee."""
        return worst_epsilon([run.summary for run in self.runs], group)

    def cost(self, group: str) -> str:
        """`epsilon` as text; a dash where no run has such a group."""
        there = any(group in run.summary["epsilon_by_group"] for run in self.runs)
        return epsilon_text(self.epsilon(group)) if there else "–"

    @property
    def delta(self) -> float:
        """The largest δ of the runs."""
        return max(run.summary["delta"] for run in self.runs)


def worst_epsilon(summaries: Sequence[dict[str, Any]], group: str) -> float | None:
    """The largest ε charged in a group; None where one of the runs guarantees nothing."""
    found = [s["epsilon_by_group"][group] for s in summaries if group in s["epsilon_by_group"]]
    return None if None in found or not found else max(found)


def epsilon_text(epsilon: float | None) -> str:
    """An ε in a table; ∞ where nothing is guaranteed."""
    return "∞" if epsilon is None else f"{epsilon:.2f}"


@dataclass(frozen=True)
class Comparison:
    """Kinds of runs, best first unless they come in an order of their own."""

    keys: tuple[str, ...]
    groups: tuple[str, ...]
    kinds: tuple[Kind, ...]
    unfinished: int = 0
    repeated: int = 0

    @property
    def best(self) -> Kind:
        """The highest mean accuracy among the private kinds, or among all if none is private."""
        candidates = [kind for kind in self.kinds if kind.private] or list(self.kinds)
        return max(candidates, key=lambda kind: kind.accuracy.mean)

    def table(self) -> TextTable:
        """The comparison as text: accuracy in percent with its ε beside it."""
        header = (
            *map(self._short, self.keys),
            "accuracy %",
            *(f"ε {name}" for name in self.groups),
            "δ",
            "runs",
        )
        rows = tuple(
            (
                *kind.labels,
                kind.accuracy.text(100),
                *(kind.cost(group) for group in self.groups),
                f"{kind.delta:.2g}" if kind.private else "–",
                str(len(kind.runs)),
            )
            for kind in self.kinds
        )
        best = frozenset([self.kinds.index(self.best)]) if len(self.kinds) > 1 else frozenset[int]()
        return TextTable(header, rows, len(self.keys), best, self.notes())

    def _short(self, key: str) -> str:
        """The last word of a key, where that tells it apart."""
        last = key.rpartition(".")[2]
        return (
            last
            if last != "name" and [other.rpartition(".")[2] for other in self.keys].count(last) == 1
            else key
        )

    def notes(self) -> tuple[str, ...]:
        """What the reader of the table must know."""
        against = {run.summary["against"] for kind in self.kinds for run in kind.runs if kind.private}
        found = [f"ε holds against {' or '.join(sorted(against))}." if against else "Nothing is guaranteed."]
        if any(kind.accuracy.spread is not None for kind in self.kinds):
            found.append("Mean ± sample standard deviation over the runs, ε the largest among them.")
        if len(self.kinds) > 1:
            private = any(kind.private for kind in self.kinds)
            found.append(f"Marked: the best{' of those that guarantee something' if private else ''}.")
        if self.unfinished:
            found.append(f"Left out: {self.unfinished} runs that are not finished.")
        if self.repeated:
            found.append(f"Left out: {self.repeated} runs that repeat another one, seed and all.")
        return (*found, NOT_IN_EPSILON)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "keys": list(self.keys),
            "kinds": [
                {
                    **dict(zip(self.keys, kind.labels, strict=True)),
                    "runs": [str(run.path) for run in kind.runs],
                    "accuracy": kind.accuracy.mean,
                    "spread": kind.accuracy.spread,
                    "epsilon_by_group": {group: kind.epsilon(group) for group in self.groups},
                    "delta": kind.delta if kind.private else None,
                    "against": sorted({run.summary["against"] for run in kind.runs}) if kind.private else [],
                    "best": kind is self.best,
                }
                for kind in self.kinds
            ],
            "unfinished": self.unfinished,
            "repeated": self.repeated,
            "notes": list(self.notes()),
        }


def compare(paths: Sequence[Path], by: Sequence[str] = ()) -> Comparison:
    """Compares runs, or all runs in folders. Those that differ in seed and name alone are one kind; with `by`
    those that agree in these keys are."""
    folders = run_folders(paths)
    finished = [Run.read(folder) for folder in folders if folder.finished]
    if not finished:
        raise UsageError(f"{', '.join(map(str, paths))}: none of {len(folders)} runs is finished yet")
    runs = list({json.dumps(_same(run)): run for run in reversed(finished)}.values())[::-1]
    keys, kinds = kinds_of(runs, by)
    groups = dict.fromkeys(group for run in runs for group in run.summary["epsilon_by_group"])
    return Comparison(
        keys,
        tuple(groups),
        kinds,
        len(folders) - len(finished),
        len(finished) - len(runs),
    )


def kinds_of(runs: Sequence[Run], by: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[Kind, ...]]:
    """The keys that tell runs apart, and the runs in kinds, labelled by these keys' values.

    Runs that differ in seed and name alone are one kind; with `by` those that agree in these keys are.
    """
    known = dict.fromkeys(key for run in runs for key in run.keys)
    for key in by:
        if key not in known:
            raise unknown("key", key, known)
    kinds: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        kinds.setdefault(_values(run, by or [key for key in known if key not in NOT_TELLING]), []).append(run)
    firsts = [held[0] for held in kinds.values()]
    keys = tuple(by) or _telling(firsts, [key for key in known if key not in NOT_TELLING])
    if not keys:
        keys = ("method.name",) if "method.name" in known else ()
    labels = [tuple(_label(held[0].keys.get(key)) for key in keys) for held in kinds.values()]
    return keys, tuple(Kind(label, tuple(held)) for label, held in zip(labels, kinds.values(), strict=True))


def _same(run: Run) -> dict[str, Any]:
    """What makes two runs one and the same: the keys that matter, the seed, and the model that came out."""
    keys = {key: value for key, value in run.keys.items() if key == "seed" or key not in NOT_TELLING}
    return {**keys, "model": run.summary["model_sha256"]}


def run_folders(paths: Sequence[Path]) -> list[RunFolder]:
    """The runs at these paths: each is a run's folder, or a folder of such at any depth."""
    found: dict[Path, RunFolder] = {}
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder; give folders of runs, or a folder that holds some")
        inside = [path] if RunFolder(path).started else sorted(p.parent for p in path.rglob("run.json"))
        if not inside:
            raise UsageError(f"{path} holds no run (no run.json anywhere in it)")
        found.update((one.resolve(), RunFolder(one)) for one in inside)
    return list(found.values())


def _values(run: Run, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(json.dumps(run.keys.get(key), ensure_ascii=False) for key in keys)


def _label(value: Any) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _telling(runs: Sequence[Run], known: Sequence[str]) -> tuple[str, ...]:
    """Few keys that tell the runs apart: first those that all have, then the others, each only if it helps."""
    chosen: list[str] = []

    def told(keys: Sequence[str]) -> int:
        return len({_values(run, keys) for run in runs})

    def everywhere(key: str) -> bool:
        return all(key in run.keys for run in runs)

    def listed(key: str) -> bool:
        return any(isinstance(run.keys.get(key), list) for run in runs)

    for key in sorted(known, key=lambda key: (listed(key), not everywhere(key))):
        if told([*chosen, key]) > told(chosen):
            chosen.append(key)
    return tuple(chosen)
