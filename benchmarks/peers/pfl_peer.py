"""pfl 0.6: federated averaging with a central Gaussian mechanism, no metrics.

python pfl_peer.py ROUNDS cnn|logistic                                              one process, its threads
python -m torch.distributed.run --nproc-per-node=2 pfl_peer.py ROUNDS cnn|logistic    two processes of one thread
"""

from __future__ import annotations

import os
import sys

import numpy as np
import torch
import work
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from torch.nn import functional


class Tick(TrainingProcessCallback):
    """Marks the end of every round."""

    def __init__(self) -> None:
        self.clock = work.Clock()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.clock.tick()
        return False, Metrics()


def with_loss(module):
    """What pfl wants of a module: its loss and its metrics."""

    def loss(x, y, eval=False):
        return functional.cross_entropy(module(x), y)

    module.loss = loss
    module.metrics = lambda x, y: {}
    return module


def main() -> None:
    rounds, name = int(sys.argv[1]), sys.argv[2]
    np.random.seed(0)
    images, labels = work.data()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)

    def user(client: int) -> PyTorchTensorDataset:
        rows = slice(work.EACH * client, work.EACH * (client + 1))
        return PyTorchTensorDataset((x[rows], y[rows]))

    users = FederatedDataset(user, lambda: int(np.random.randint(work.CLIENTS)))
    module = with_loss(work.model(name))
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    noise = CentrallyAppliedPrivacyMechanism(GaussianMechanism(work.CLIP, work.NOISE))
    tick = Tick()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds + 2,
            evaluation_frequency=10**9,
            train_cohort_size=work.COHORT,
            val_cohort_size=None,
        ),
        SimulatedBackend(users, None, [noise]),
        model,
        NNTrainHyperParams(
            local_num_epochs=work.STEPS, local_learning_rate=work.RATE, local_batch_size=work.EACH
        ),
        NNEvalHyperParams(local_batch_size=work.EACH),
        callbacks=[tick],
        send_metrics_to_platform=False,
    )
    if os.environ.get("RANK", "0") == "0":
        work.report(tick.clock.seconds())


if __name__ == "__main__":
    main()
