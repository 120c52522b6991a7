"""Features of a fixed front end, once for all of many runs, and held in memory that they share."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch import nn

from sordino.core.errors import SordinoError
from sordino.data import DataSet, Examples
from sordino.engine import Task
from sordino.engine.pool import can_fork, shared
from sordino.models import Fronted

BLOCK = 500
"""Examples that a process takes at a time."""
SHARE = 0.5
"""Of the memory that is free: more is not taken."""

Tell = Callable[[float], None]
"""Hears which part of the features is done."""


def worth_it(task: Task) -> bool:
    """Whether the model's front end computes (one that only looks something up is as quick as a copy), and all
    its features have room in memory."""
    if not isinstance(task.module, Fronted) or not can_fork():
        return False
    found = _found(task.module.front, task.data.test, slice(0, 1))
    numbers = found.numel() * (len(task.data.train) + len(task.data.test))
    return found.is_floating_point() and 4 * numbers <= SHARE * free_memory()


def features_of(task: Task, workers: int, tell: Tell, stopped: Callable[[], bool]) -> DataSet | None:
    """The task's data set with features in place of inputs, by so many processes; None if it was stopped.

    Bit for bit what a client would compute: no feature depends on the other examples of a batch.
    """
    assert isinstance(task.module, Fronted)
    parts = [task.data.train, task.data.test]
    width = _found(task.module.front, parts[1], slice(0, 1)).shape[1]
    spaces = [shared(len(part) * width).reshape(len(part), width) for part in parts]
    blocks = [
        (part, space, slice(start, start + BLOCK))
        for part, space in zip(parts, spaces, strict=True)
        for start in range(0, len(part), BLOCK)
    ]
    if not _filled(task.module.front, blocks, workers, tell, stopped):
        return None
    train, test = (Examples(s, part.y, part.classes) for s, part in zip(spaces, parts, strict=True))
    return replace(task.data, train=train, test=test)


def on_features(task: Task, features: DataSet) -> Task:
    """The same task with nothing left to compute before the head."""
    assert isinstance(task.module, Fronted)
    return replace(task, data=features, module=Fronted(nn.Identity(), task.module.head))


def free_memory() -> int:
    """Bytes that a new process could have, as Linux tells; none elsewhere."""
    try:
        known = dict(line.split(":") for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        return 1024 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return 0


Block = tuple[Examples, torch.Tensor, slice]


def _filled(
    front: nn.Module, blocks: Sequence[Block], workers: int, tell: Tell, stopped: Callable[[], bool]
) -> bool:
    """Whether all blocks were filled: not if somebody stopped it."""
    done = shared(workers)
    context = multiprocessing.get_context("fork")

    def work(worker: int) -> None:
        os.setpgrp()  # out of reach of the terminal's Ctrl-C
        torch.set_num_threads(1)
        for examples, space, rows in blocks[worker::workers]:
            space[rows] = _found(front, examples, rows)
            done[worker] += 1

    processes: list[BaseProcess] = [
        context.Process(target=work, args=(w,), daemon=True) for w in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        while any(process.is_alive() for process in processes):
            if stopped():
                return False
            tell(float(done.sum()) / len(blocks))
            time.sleep(0.05)
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if int(done.sum()) < len(blocks):
        codes = [process.exitcode for process in processes]
        raise SordinoError(
            f"a process that computed features died (exit codes {codes}): is there enough memory?"
        )
    return True


def _found(front: nn.Module, examples: Examples, rows: slice) -> torch.Tensor:
    with torch.no_grad():
        return front(examples.take(rows).inputs())
