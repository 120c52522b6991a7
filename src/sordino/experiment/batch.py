"""Many runs: each in a folder of its own, some at the same time, and all of them restartable.

A run that is finished is not done again, one that was stopped is resumed, and one that fails does not stop the others.
Each run charges its own cost; whoever picks among them picks with data that no ε pays for.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from sordino.core.errors import SordinoError, UsageError, said_of
from sordino.engine import State
from sordino.engine.loop import interruptible
from sordino.engine.pool import can_fork
from sordino.experiment.features import features_of, worth_it
from sordino.experiment.folder import Line, RunFolder
from sordino.experiment.live import Begun, Show, together
from sordino.experiment.loading import load_population, load_task
from sordino.experiment.recipe import Recipe
from sordino.experiment.run import InterruptedRun
from sordino.experiment.session import Means, resume_recipe, run_recipe, settled

TELL_SECONDS = 0.3
"""How far apart the reports of one run's progress are."""


@dataclass(frozen=True)
class Cell:
    """One run of many. It starts when the runs in the folders `after` are finished: it reads their records."""

    recipe: Recipe
    folder: Path
    after: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """What messages and progress call it."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether its folder holds a finished run."""
        return RunFolder(self.folder).finished


@dataclass(frozen=True)
class News:
    """What a running cell says of itself: the part of its rounds that is done, and a remark."""

    cell: Cell
    done: float
    note: str = ""


Watch = Callable[[News], None]


def unwatched(news: News) -> None:
    """The watch of somebody who does not want one."""
    del news


def check_cells(cells: Sequence[Cell], means: Means, *, resume: bool) -> None:
    """Refuses what cannot run, before anything does: folders that are taken, folders of other recipes, and
    data, partitions, models and budgets that cannot be had. Seeds aside, each recipe is tried once."""
    tried: list[Recipe] = []
    for cell in cells:
        folder = RunFolder(cell.folder)
        if not resume:
            RunFolder.vacant(cell.folder)
        elif folder.started:
            _same_recipe(cell, folder)
        alike = replace(cell.recipe, settings=replace(cell.recipe.settings, name="run", seed=0))
        if alike in tried or cell.finished:
            continue
        tried.append(alike)
        with said_of(cell.recipe.source):
            load_population(cell.recipe, load_task(cell.recipe, means.data_dir, means.shelf))


def _same_recipe(cell: Cell, folder: RunFolder) -> None:
    held = Recipe.read(folder.file("recipe.toml")).resolved()
    wanted = settled(cell.recipe).resolved()
    for key in held.keys() | wanted.keys():
        if held.get(key) != wanted.get(key):
            raise UsageError(
                f"{cell.folder} holds a run with another {key}; give another --out, or the recipe that it was "
                "started with"
            )


def run_cells(cells: Sequence[Cell], means: Means, watch: Watch = unwatched) -> None:
    """Runs what is not finished, at most `means.workers` (0: one for each core) at the same time.

    Where fewer runs are left than workers, each gets several; `means.progress` is opened by each run. The results
    are the same for any number. After Ctrl-C the running ones save themselves and nothing else is started.
    Raises an error at the end if any failed; the others are finished then.
    """
    workers = means.workers or os.cpu_count() or 1
    batch = _Batch([cell for cell in cells if not cell.finished], replace(means, workers=workers), watch)
    for cell in cells:
        if cell.finished:
            watch(News(cell, 1.0, "finished before"))
    with interruptible() as interrupted:
        look_ahead(batch.waiting, batch.means, watch, interrupted)
        if workers > 1 and can_fork():
            batch.together(interrupted)
        else:
            batch.in_turn(interrupted)
        stopped = interrupted() or batch.stopped
    left = sum(not cell.finished for cell in cells)
    if batch.failures:
        first, why = batch.failures[0]
        raise SordinoError(
            f"{len(batch.failures)} of {len(cells)} runs failed, the first of them {first.name}: {why} "
            f"({len(cells) - left} are finished; the same command with --resume does the others)"
        )
    if stopped and left:
        raise InterruptedRun(
            f"stopped with {len(cells) - left} of {len(cells)} runs finished; the same command with --resume "
            "does the others"
        )


def look_ahead(cells: Sequence[Cell], means: Means, watch: Watch, stopped: Callable[[], bool]) -> None:
    """Computes the features of fixed front ends that several cells share, once and before they start."""
    fronts = [(cell.recipe.data, cell.recipe.model) for cell in cells]
    for index, cell in enumerate(cells):
        if fronts.index(fronts[index]) < index or fronts.count(fronts[index]) == 1 or stopped():
            continue
        task = load_task(cell.recipe, means.data_dir, means.shelf)
        if worth_it(task):
            features = features_of(task, means.workers, partial(_told, watch, cell), stopped)
            if features is not None:
                means.shelf.put(cell.recipe, means.data_dir, features)


def _told(watch: Watch, cell: Cell, part: float) -> None:
    watch(News(cell, 0.0, f"features for all runs {100 * part:.0f} %"))


@dataclass(eq=False)
class _Child:
    """A process that works on a cell."""

    cell: Cell
    process: BaseProcess


@dataclass(eq=False)
class _Batch:
    """The runs that are to be done, and what became of them."""

    waiting: list[Cell]
    means: Means
    watch: Watch
    failures: list[tuple[Cell, str]] = field(default_factory=list[tuple[Cell, str]])
    stopped: bool = False

    def in_turn(self, interrupted: Callable[[], bool]) -> None:
        """One after the other, in this process."""
        while not interrupted() and (cell := self._next(running=False)) is not None:
            try:
                _carry_out(cell, self.means, self.watch)
            except InterruptedRun:  # the run that was asked to stop heard it, not this
                self.stopped = True
                return
            except SordinoError as error:
                self.failures.append((cell, str(error)))
            else:
                self.watch(News(cell, 1.0))

    def together(self, interrupted: Callable[[], bool]) -> None:
        """Several at the same time, each in a process of its own, forked so that all share the loaded data."""
        children: dict[Any, _Child] = {}
        told = False
        try:
            while True:
                if not interrupted():
                    self._start(children)
                elif not told:
                    told = True
                    for child in children.values():
                        child.process.terminate()
                if not children:
                    return
                for pipe in wait(list(children), timeout=0.2):
                    if not self._heard(pipe, children[pipe], told):
                        children.pop(pipe).process.join()
        finally:
            for child in children.values():
                child.process.terminate()
                child.process.join()

    def _start(self, children: dict[Any, _Child]) -> None:
        """Fills up the workers; the last cells get several workers each."""
        context = multiprocessing.get_context("fork")
        while len(children) < self.means.workers:
            share = max(1, self.means.workers // max(1, len(children) + len(self.waiting)))
            cell = self._next(running=bool(children))
            if cell is None:
                return
            here, there = context.Pipe(duplex=False)
            work = (cell, replace(self.means, workers=share), there)
            child = _Child(cell, context.Process(target=_work, args=work))
            child.process.start()
            there.close()
            children[here] = child

    def _heard(self, pipe: Any, child: _Child, told: bool) -> bool:
        """Takes one message of a child, which may have been told to stop; False if it was the last."""
        try:
            news = pipe.recv()
        except EOFError:
            child.process.join()
            if not told:
                code = child.process.exitcode
                self.failures.append((child.cell, f"its process died (exit code {code})"))
            return False
        if isinstance(news, BaseException):
            if not isinstance(news, InterruptedRun):
                self.failures.append((child.cell, str(news)))
            return False
        self.watch(News(child.cell, *news))
        return news[0] < 1

    def _next(self, *, running: bool) -> Cell | None:
        """The next cell whose predecessors are finished. If none is, and nothing runs that could change it,
        the rest has failed."""
        for cell in self.waiting:
            if all(RunFolder(path).finished for path in cell.after):
                self.waiting.remove(cell)
                return cell
        if not running:
            self.failures += [(cell, "a run that it builds on is not there") for cell in self.waiting]
            self.waiting = []
        return None


def _work(cell: Cell, means: Means, pipe: Connection) -> None:
    """A process's life: one cell. Out of reach of the terminal's Ctrl-C: its parent tells it to stop."""
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)  # the parent's threads are not in a fork, and waiting for them would never end
    try:
        _carry_out(cell, means, lambda news: pipe.send((min(news.done, 0.999), news.note)))
        pipe.send((1.0, ""))
    except SordinoError as error:
        pipe.send(error)
    except Exception as error:
        pipe.send(SordinoError(f"{type(error).__name__}: {error}"))


def _carry_out(cell: Cell, means: Means, watch: Watch) -> None:
    """Runs a cell, or goes on with it."""

    @contextmanager
    def progress(begun: Begun) -> Generator[Show, None, None]:
        last = 0.0

        def show(state: State, line: Line) -> None:
            nonlocal last
            if time.monotonic() - last >= TELL_SECONDS:
                last = time.monotonic()
                accuracy = line.get("accuracy")
                note = "" if accuracy is None else f"accuracy {100 * accuracy:.1f} %"
                watch(News(cell, state.round / begun.rounds, note))

        yield show

    told = replace(means, progress=together(progress, means.progress))
    if RunFolder(cell.folder).started:
        resume_recipe(cell.folder, told)
    else:
        run_recipe(cell.recipe, cell.folder, told)


def plain_name(text: str) -> str:
    """A text as a part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "_", text).strip("_")[:60] or "_"
