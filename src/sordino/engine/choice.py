"""Which executor a run gets."""

from __future__ import annotations

import os

from sordino.core.errors import UsageError, unknown
from sordino.core.streams import Streams
from sordino.engine.cluster import RayCluster
from sordino.engine.exact import NetworkExact
from sordino.engine.executors import Executor, InProcess
from sordino.engine.pool import WorkerPool, can_fork
from sordino.engine.task import Task
from sordino.methods import Method
from sordino.planning import Noise, Terms

EXECUTORS = ("local", "network-exact", "ray")


def executor_for(task: Task, method: Method, streams: Streams, workers: int, name: str = "local") -> Executor:
    """The executor of that name; `local` works with that many processes, 0 meaning one for each core; so does
    `ray`, over the nodes of a cluster.

    The result is the same for any of them.
    """
    check_executor(name, method.plan.terms)
    if name == "network-exact":
        return NetworkExact(task, method, streams)
    if name == "ray":
        return RayCluster(task, method, streams, workers)
    wanted = workers or os.cpu_count() or 1
    if wanted == 1 or task.device != "cpu" or not can_fork():
        return InProcess(task, method, streams)
    return WorkerPool(task, method, streams, wanted)


def check_executor(name: str, terms: Terms) -> None:
    """Refuses an executor that cannot play a run under these terms."""
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    if name == "network-exact" and terms.noise is not Noise.SKELLAM:
        raise UsageError(
            "the executor network-exact adds whole numbers up, as secure aggregation does: give privacy.noise = "
            "'skellam' and privacy.sites with it"
        )
