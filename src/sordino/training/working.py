"""A model that trains inside one flat vector."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sordino.core.vectors import Layout
from sordino.models import Fronted

KEPT = 250_000_000
"""Numbers in features that are kept: one gigabyte."""


@dataclass
class WorkingModel:
    """A module whose parameters are views of `vector`, with what a lean training loop needs at hand.

    One for each process: clients take turns in it, each starting with `load(theta)`.
    """

    module: nn.Module
    layout: Layout
    vector: Tensor
    parameters: list[nn.Parameter]
    kept: dict[bytes, Tensor] = field(default_factory=dict[bytes, Tensor])
    room: int = KEPT

    @classmethod
    def of(cls, module: nn.Module, device: torch.device | str = "cpu") -> WorkingModel:
        """Binds a copy-free working vector to `module`, which is used up: it lives in the vector from now on."""
        layout = Layout.of(module)
        module.to(device)
        vector = layout.flatten(dict(module.named_parameters())).to(device)
        return cls(module, layout, vector, layout.bind(module, vector))

    def load(self, theta: Tensor) -> None:
        """Sets all parameters."""
        self.vector.copy_(theta)

    def __call__(self, x: Tensor) -> Tensor:
        """The module's outputs, with images handed over channels-last."""
        return self.module(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x)

    def features(self, x: Tensor) -> Tensor:
        """What the module's fixed front end, if it has one, makes of inputs: once for all local steps.

        The features of inputs that were seen before are kept, `KEPT` numbers of them: clients come back.
        """
        if not isinstance(self.module, Fronted) or isinstance(self.module.front, nn.Identity):
            return x
        key = hashlib.blake2b(x.cpu().numpy().tobytes()).digest()
        if key in self.kept:
            return self.kept[key]
        found = self.module.features(x)
        if self.room >= found.numel():
            self.room -= found.numel()
            self.kept[key] = found
        return found

    @property
    def head(self) -> nn.Module:
        """What is trained: the module, or all of it that comes after a fixed front end."""
        return self.module.head if isinstance(self.module, Fronted) else self.module

    def trained(self, features: Tensor) -> Tensor:
        """The outputs, from what `features` gave."""
        return self.head(features) if isinstance(self.module, Fronted) else self(features)
