"""Recurrent networks over characters."""

from __future__ import annotations

import torch
from torch import nn

from sordino.core.errors import UsageError


class CharacterLSTM(nn.Module):
    """Token ids (examples, length) to scores of the next token: embedding, LSTM layers, a linear layer."""

    def __init__(self, tokens: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores after the last token."""
        states, _ = self.lstm(self.embedding(x))
        return self.output(states[:, -1])


def lstm(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """LEAF's model for Shakespeare: embedding of 8, two layers of 256; 819,920 parameters."""
    return _over_tokens(input_shape, classes, hidden=256, layers=2)


def lstm_small(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """One layer of 64 after an embedding of 8; 24,784 parameters."""
    return _over_tokens(input_shape, classes, hidden=64, layers=1)


def _over_tokens(input_shape: tuple[int, ...], classes: int, hidden: int, layers: int) -> nn.Module:
    if len(input_shape) != 1:
        raise UsageError(f"inputs of shape {tuple(input_shape)} are not texts; choose a model for images")
    return CharacterLSTM(classes, 8, hidden, layers)
