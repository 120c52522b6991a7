"""Characters predicted from the few before them: fixed n-grams, and one linear layer over them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.core.errors import UsageError
from sordino.models.front import FEATURE_NORM, Fronted

LONGEST = 3
BUCKETS = 4096
"""The buckets of a kind of n-grams that are more than twice as many; they share them."""
SPREAD, PRIME = 1_000_003, 2**31 - 1
"""Two primes that scatter n-grams over their buckets."""


class Ngrams(nn.Module):
    """Token ids (examples, length) to the buckets (examples, 3) of the last one, two and three of them.

    A fixed numbering: n-grams of one kind have a range of their own, one bucket each where there is room.
    """

    def __init__(self, tokens: int, length: int) -> None:
        super().__init__()
        self.num_embeddings = tokens  # as nn.Embedding says which inputs it takes
        self.kinds = min(LONGEST, length)
        counts = [tokens**n for n in range(1, self.kinds + 1)]
        self.sizes = [count if count <= 2 * BUCKETS else BUCKETS for count in counts]

    def forward(self, x: Tensor) -> Tensor:
        """The buckets, int64."""
        number = torch.zeros_like(x[:, -1])
        found: list[Tensor] = []
        start = 0
        for n, size in enumerate(self.sizes, start=1):
            number = number * self.num_embeddings + x[:, -n]
            spread = number if self.num_embeddings**n <= size else number * SPREAD % PRIME
            found.append(start + spread % size)
            start += size
        return torch.stack(found, dim=1)


class BucketSum(nn.Module):
    """A linear layer without bias over features that are 0 but for one in each kind: it adds up rows."""

    def __init__(self, buckets: int, kinds: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(buckets, classes) * 0.01)
        self.scale = FEATURE_NORM / kinds**0.5

    def forward(self, buckets: Tensor) -> Tensor:
        """The scores; each example's features have length `FEATURE_NORM`."""
        return functional.embedding(buckets, self.weight).sum(dim=1) * self.scale


def ngrams(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """A linear layer on the last character, two and three: 846,080 parameters for 80 characters.

    Nothing before that layer is trained, and nothing in it comes from data.
    """
    if len(input_shape) != 1:
        raise UsageError(f"inputs of shape {tuple(input_shape)} are not texts; choose a model for images")
    front = Ngrams(classes, input_shape[0])
    return Fronted(front, BucketSum(sum(front.sizes), front.kinds, classes))
