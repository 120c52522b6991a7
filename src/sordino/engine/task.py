"""What is to be learnt: data, who holds which of it, and a model."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from sordino.core.errors import UsageError
from sordino.core.vectors import Layout
from sordino.data import DataSet, Partition
from sordino.models import check
from sordino.training.working import WorkingModel


@dataclass(frozen=True, eq=False)
class Task:
    """A data set dealt to clients, and the model that they train together.

    `module` is a template: its parameters are where every run starts, and it is never changed. Refuses a model
    that mixes examples or clients behind the back of the privatizers (batch statistics, training buffers).
    """

    data: DataSet
    partition: Partition
    module: nn.Module
    device: str = "cpu"

    def __post_init__(self) -> None:
        check(self.module, self.data.train.input_shape)
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"device = '{self.device}' cannot be used here; 'cpu' always can") from error

    @cached_property
    def layout(self) -> Layout:
        """Where each parameter lies in the flat vector."""
        return Layout.of(self.module)

    @property
    def clients(self) -> int:
        """How many clients hold data."""
        return self.partition.clients

    @property
    def sizes(self) -> np.ndarray:
        """The declared number of examples of each client."""
        return self.partition.sizes

    @property
    def unit_counts(self) -> np.ndarray:
        """The declared number of units of each client: of different values in the data's unit column."""
        return np.array([len(torch.unique(self.units(client))) for client in range(self.clients)])

    def initial(self) -> Tensor:
        """The parameters that every run starts from, as a new flat vector."""
        return self.layout.flatten(dict(self.module.named_parameters())).to(self.device)

    def working_model(self) -> WorkingModel:
        """A copy of the model for one process to train in."""
        return WorkingModel.of(copy.deepcopy(self.module), self.device)

    def examples(self, client: int) -> tuple[Tensor, Tensor]:
        """One client's inputs and labels, as the model reads them."""
        held = self.data.train.take(self.partition.indices(client))
        return held.inputs().to(self.device), held.y.to(self.device)

    def units(self, client: int) -> Tensor:
        """The unit (a patient) of each of one client's examples, as the data's unit column says."""
        if self.data.unit is None:
            raise UsageError(
                f"data set '{self.data.name}' has no column that names units; name it (table: unit = 'patient'), or "
                "protect single records (budgets.unit = 'record')"
            )
        return torch.from_numpy(self.data.unit[self.partition.indices(client)])
