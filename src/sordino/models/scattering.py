"""Scattering features of images: fixed wavelets, no data, and a linear head.

Wavelets, moduli and averages (Bruna, Mallat 2013; two scales, eight angles) separate classes so well that a
linear head suffices, and under noise that is what counts (Tramèr, Boneh 2021). Each channel is normalised
over the positions of its own image, so no statistic of the data is needed.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sordino.models.front import FEATURE_NORM, Fronted, scaled_to
from sordino.models.inputs import image

ANGLES = 8
SLANT = 4 / ANGLES
WIDTH = 0.8
FREQUENCY = 3 * math.pi / 4
"""The usual Morlet wavelets: an envelope of `WIDTH`·2^j pixels, `FREQUENCY`/2^j radians a pixel."""

AT_ONCE = 32
"""Images whose planes fit the processor's cache."""


class Scattering(nn.Module):
    """Images (examples, channels, height, width) to features of one length, from no data at all.

    Scales: 2, or 1 if a side is under 16 pixels. Outputs per channel of the image and position of a grid of 4 (or
    2) pixels: the average, 8 moduli for each scale, and 64 moduli of moduli if there are two scales.
    """

    filters: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.scales = 2 if min(height, width) >= 16 else 1
        self.stride = 2**self.scales
        sides = [self.stride * math.ceil(side / self.stride) + 2 * self.stride for side in (height, width)]
        self.grid = [side // self.stride - 2 for side in sides]
        below, right = (s - side - self.stride for s, side in zip(sides, (height, width), strict=True))
        self.padding = (self.stride, right, self.stride, below)
        bank = [[_morlet(sides, scale, angle) for angle in range(ANGLES)] for scale in range(self.scales)]
        self.register_buffer("filters", torch.tensor(np.array(bank), dtype=torch.float32), persistent=False)
        for name, side, cells in zip(("rows", "columns"), sides, self.grid, strict=True):
            averages = torch.tensor(_averages(side, cells, self.stride), dtype=torch.float32)
            self.register_buffer(name, averages, persistent=False)
        self.channels = channels * (1 + ANGLES * self.scales + (ANGLES**2 if self.scales == 2 else 0))

    @property
    def size(self) -> int:
        """How many features an image has."""
        return self.channels * math.prod(self.grid)

    def forward(self, x: Tensor) -> Tensor:
        """The features, each channel of an image normalised over its positions."""
        raw = torch.cat([self._raw(part) for part in x.split(AT_ONCE)])
        return scaled_to(FEATURE_NORM, functional.group_norm(raw, self.channels))

    def _raw(self, x: Tensor) -> Tensor:
        """The averages of a few images, (examples, channels, rows, columns)."""
        planes = functional.pad(x, self.padding, mode="reflect").flatten(0, 1)
        spectrum = torch.fft.fft2(planes)[:, None]
        moduli = torch.fft.ifft2(spectrum * self.filters[0]).abs()
        found = [self._average(planes[:, None]), self._average(moduli)]
        if self.scales == 2:
            found.append(self._average(_halved(spectrum * self.filters[1])))
            second = torch.fft.fft2(moduli)[:, :, None] * self.filters[1]
            found.append(self._average(_halved(second).flatten(1, 2)))
        return torch.cat(found, dim=1).reshape(len(x), self.channels, *self.grid)

    def _average(self, planes: Tensor) -> Tensor:
        """Gaussian averages on the grid, from planes of full or half resolution."""
        step = self.rows.shape[1] // planes.shape[-2]
        return (self.rows[:, ::step] * step) @ planes @ (self.columns[:, ::step] * step).T


def _halved(spectrum: Tensor) -> Tensor:
    """The modulus of every other pixel of what has this spectrum, which is folded rather than cut."""
    height, width = (side // 2 for side in spectrum.shape[-2:])
    above = spectrum[..., :height, :] + spectrum[..., height:, :]
    folded = (above[..., :width] + above[..., width:]) / 4
    return torch.fft.ifft2(folded).abs()


def _morlet(sides: list[int], scale: int, angle: int) -> NDArray[np.float64]:
    """The spectrum (real, by symmetry) of a periodic Morlet wavelet with zero mean."""
    theta = (ANGLES / 2 - 1 - angle) * math.pi / ANGLES
    width, frequency = WIDTH * 2**scale, FREQUENCY / 2**scale
    envelope = np.zeros(sides)
    wave = np.zeros(sides, dtype=np.complex128)
    for shift in np.ndindex(5, 5):
        y, x = (np.arange(side) + (s - 2) * side for side, s in zip(sides, shift, strict=True))
        along = y[:, None] * math.cos(theta) + x * math.sin(theta)
        across = x * math.cos(theta) - y[:, None] * math.sin(theta)
        bump = np.exp(-(along**2 + (SLANT * across) ** 2) / (2 * width**2))
        envelope += bump
        wave += bump * np.exp(1j * frequency * along)
    wave -= envelope * (wave.sum() / envelope.sum())
    return np.fft.fft2(wave * SLANT / (2 * math.pi * width**2)).real


def _averages(side: int, cells: int, stride: int) -> NDArray[np.float64]:
    """(cells, side): the weights of a Gaussian window around each position of the grid, inside the padding."""
    centres = stride * (1 + np.arange(cells))
    width = WIDTH * stride / 2
    window = np.exp(-((np.arange(side) - centres[:, None]) ** 2) / (2 * width**2))
    return window / (width * math.sqrt(2 * math.pi))


def scattering(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """A linear head on fixed scattering features of images: 39,690 parameters on 28 × 28.

    Nothing before the head is trained, and nothing in it comes from data.
    """
    front = Scattering(*image(input_shape))
    return Fronted(front, nn.Linear(front.size, classes, bias=False))
