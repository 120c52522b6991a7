"""The way of a round: executors that map clients and reduce sums, the pure round, the loop around it."""

from sordino.engine.evaluation import Scores, evaluate
from sordino.engine.executors import Executor, InProcess, executor_for
from sordino.engine.loop import Hooks, train
from sordino.engine.network import Network
from sordino.engine.pool import WorkerPool
from sordino.engine.state import State
from sordino.engine.task import Task

__all__ = [
    "Executor",
    "Hooks",
    "InProcess",
    "Network",
    "Scores",
    "State",
    "Task",
    "WorkerPool",
    "evaluate",
    "executor_for",
    "train",
]
