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
