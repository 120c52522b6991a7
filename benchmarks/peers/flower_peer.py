"""Flower 1.41, its simulation on Ray: FedAvg in its server-side fixed clipping, one actor for each core.

python flower_peer.py ROUNDS cnn|logistic
"""

from __future__ import annotations

import os
import sys

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

import torch
import work
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional

ROUNDS, NAME = int(sys.argv[1]), sys.argv[2]
CORES, WARM_UP = 2, 1

server_app, client_app = ServerApp(), ClientApp()
held: dict[str, object] = {}


def hands() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """An actor's model and data, loaded once and kept: a client pays for nothing but its own work."""
    if not held:
        torch.set_num_threads(1)
        images, labels = work.data()
        held.update(model=work.model(NAME), x=torch.from_numpy(images), y=torch.from_numpy(labels))
    return held["model"], held["x"], held["y"]


@client_app.train()
def train(message: Message, context: Context) -> Message:
    model, x, y = hands()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    start = work.EACH * int(context.node_config["partition-id"])
    inputs, labels = x[start : start + work.EACH], y[start : start + work.EACH]
    optimiser = torch.optim.SGD(model.parameters(), work.RATE)
    for _ in range(work.STEPS):
        optimiser.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": work.EACH}),
    }
    return Message(content=RecordDict(content), reply_to=message)


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    clock = work.Clock(WARM_UP)

    def tick(round_: int, arrays: ArrayRecord) -> None:
        if round_ == 0:  # before the first round
            clock.marks.clear()
        clock.tick()

    inner = FedAvg(
        fraction_train=work.COHORT / work.CLIENTS,
        fraction_evaluate=0.0,
        min_train_nodes=work.COHORT,
        min_available_nodes=work.CLIENTS,
    )
    strategy = DifferentialPrivacyServerSideFixedClipping(inner, work.NOISE, work.CLIP, work.COHORT)
    initial = ArrayRecord(work.model(NAME).state_dict())
    strategy.start(grid=grid, initial_arrays=initial, num_rounds=ROUNDS + WARM_UP, evaluate_fn=tick)
    work.report(clock.seconds())


if __name__ == "__main__":
    run_simulation(
        server_app,
        client_app,
        num_supernodes=work.CLIENTS,
        backend_config={
            "init_args": {"num_cpus": CORES, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
