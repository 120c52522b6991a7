"""What a run carries from round to round, and its form on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sordino.core.errors import SordinoError
from sordino.core.files import write_bytes
from sordino.methods import Method

PARTS = ("optimiser", "aggregation")
"""The fields of a state that hold tensors by name."""


@dataclass(frozen=True, eq=False)
class State:
    """Everything that the next round depends on, besides the method and the seed.

    `round` rounds are done; `last` is the last aggregate (zeros before there is one); `scales` holds, for each
    sum, the current clip norm over the planned one; `public` is what the method's bulletin tells everyone.
    `noise` holds, for each sum whose noise is correlated over rounds, that of the last rounds, newest first. It is
    secret and never written: it follows from the seed, and is played again when a run is resumed.
    """

    round: int
    theta: Tensor
    last: Tensor
    optimiser: dict[str, Tensor]
    aggregation: dict[str, Tensor]
    scales: dict[int, float] = field(default_factory=dict[int, float])
    public: dict[str, float] = field(default_factory=dict[str, float])
    noise: dict[int, tuple[Tensor, ...]] = field(default_factory=dict[int, tuple[Tensor, ...]])

    @classmethod
    def first(cls, theta: Tensor, method: Method) -> State:
        """The state before the first round."""
        return cls(
            round=0,
            theta=theta,
            last=torch.zeros_like(theta),
            optimiser=method.optimiser.init(theta),
            aggregation=method.aggregation.init(theta),
            public=method.bulletin.init() if method.bulletin is not None else {},
        )

    def released(self, method: Method) -> Tensor:
        """The parameters of the model that the run would end with now."""
        return method.optimiser.released(self.theta, self.optimiser)

    def save(self, path: Path) -> None:
        """Writes a checkpoint, atomically and durably."""
        tensors = {"theta": self.theta, "last": self.last}
        for part in PARTS:
            tensors |= {f"{part}.{name}": tensor for name, tensor in getattr(self, part).items()}
        held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        scales = {str(index): scale.hex() for index, scale in self.scales.items()}
        public = {name: value.hex() for name, value in self.public.items()}
        notes = {"round": str(self.round), "scales": json.dumps(scales), "public": json.dumps(public)}
        write_bytes(path, save(held, notes))

    @classmethod
    def read(cls, path: Path, device: str | torch.device = "cpu") -> State:
        """Reads a checkpoint; refuses a damaged one."""
        try:
            data = path.read_bytes()
            tensors = load(data)
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        except (OSError, SafetensorError) as error:
            raise SordinoError(f"{path}: not a readable checkpoint ({error})") from error
        notes = header["__metadata__"]
        parts = {
            part: {
                name.removeprefix(f"{part}."): tensor.to(device)
                for name, tensor in tensors.items()
                if name.startswith(f"{part}.")
            }
            for part in PARTS
        }
        return cls(
            round=int(notes["round"]),
            theta=tensors["theta"].to(device),
            last=tensors["last"].to(device),
            scales={int(index): float.fromhex(scale) for index, scale in json.loads(notes["scales"]).items()},
            public={name: float.fromhex(value) for name, value in json.loads(notes["public"]).items()},
            optimiser=parts["optimiser"],
            aggregation=parts["aggregation"],
        )
