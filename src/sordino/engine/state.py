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


@dataclass(frozen=True, eq=False)
class State:
    """Everything that the next round depends on, besides the method and the seed.

    `round` rounds are done; `scales` holds, for each sum, the current clip norm over the planned one.
    """

    round: int
    theta: Tensor
    optimiser: dict[str, Tensor]
    scales: dict[int, float] = field(default_factory=dict[int, float])

    def save(self, path: Path) -> None:
        """Writes a checkpoint, atomically and durably."""
        tensors = {"theta": self.theta, **{f"optimiser.{name}": t for name, t in self.optimiser.items()}}
        held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        scales = {str(index): scale.hex() for index, scale in self.scales.items()}
        write_bytes(path, save(held, {"round": str(self.round), "scales": json.dumps(scales)}))

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
        optimiser = {
            name.removeprefix("optimiser."): tensor.to(device)
            for name, tensor in tensors.items()
            if name.startswith("optimiser.")
        }
        scales = {int(index): float.fromhex(scale) for index, scale in json.loads(notes["scales"]).items()}
        return cls(int(notes["round"]), tensors["theta"].to(device), optimiser, scales)
