"""The executor over Ray keeps what every executor promises, on a cluster of several node processes."""

import dataclasses
import os
import signal
import threading
import time

import pytest
import torch
from tests import small

from sordino.core.errors import SordinoError
from sordino.core.streams import Streams
from sordino.engine import InProcess, executor_for, train
from sordino.engine.cluster import RayCluster


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    """Three nodes on this machine, one CPU each, which only this machine reaches."""
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }  # 0: loopback only
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**node)
    os.environ["RAY_ADDRESS"] = cluster.address
    yield
    del os.environ["RAY_ADDRESS"]
    cluster.shutdown()


def test_same_bits_on_three_nodes_and_after_kills():
    task, method, streams = small.cnn(), small.rounds(), Streams(7)
    reference = InProcess(task, method, streams)
    theta = train(task, method, reference, streams).theta
    executor = executor_for(task, method, streams, 3, "ray")
    assert isinstance(executor, RayCluster)
    ray, killed = executor._ray, []
    try:
        assert len([node for node in ray.nodes() if node["Alive"]]) == 3
        assert torch.equal(train(task, method, executor, streams).theta, theta)
        assert executor.scores(theta, auroc=True) == reference.scores(theta, auroc=True)

        def kill() -> None:
            for actor in executor._actors[:2]:
                victim = ray.get(actor.pid.remote())
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
                time.sleep(0.2)

        killer = threading.Thread(target=kill)
        killer.start()
        again = train(task, method, executor, streams).theta
        killer.join()
        assert torch.equal(again, theta)
        assert len(set(killed)) == 2
        assert ray.get(executor._actors[0].pid.remote()) not in killed
    finally:
        executor.close()


def test_an_error_in_a_client_is_told():
    class Broken(small.Still):
        def run(self, model, x, y, visit):
            raise ValueError("no such thing")

    task, streams = small.cnn(), Streams(7)
    executor = RayCluster(task, dataclasses.replace(small.rounds(), training=Broken()), streams, 1)
    try:
        with pytest.raises(SordinoError, match="ValueError: no such thing"):
            train(task, small.rounds(), executor, streams)
    finally:
        executor.close()
