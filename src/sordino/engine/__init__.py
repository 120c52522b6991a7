"""The way of a round: executors that map clients and reduce sums, the pure round, the loop around it."""

from sordino.engine.choice import check_executor, executor_for
from sordino.engine.cluster import RayCluster
from sordino.engine.evaluation import Scores, evaluate
from sordino.engine.exact import NetworkExact
from sordino.engine.executors import Executor, InProcess
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
    "NetworkExact",
    "RayCluster",
    "Scores",
    "State",
    "Task",
    "WorkerPool",
    "check_executor",
    "evaluate",
    "executor_for",
    "train",
]
