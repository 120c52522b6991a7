"""The models that a name or an import path can mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sordino.core.errors import UsageError, unknown
from sordino.core.imports import imported
from sordino.core.options import check_options
from sordino.models.cnn import cnn, cnn_3_layer, cnn_512_32
from sordino.models.deep import alexnet, mobilenet_v2, resnet_18
from sordino.models.ngrams import ngrams
from sordino.models.scattering import scattering
from sordino.models.small import logistic, mlp
from sordino.models.text import lstm, lstm_small

_GIVEN = ("input_shape", "classes")


def models() -> dict[str, Callable[..., nn.Module]]:
    """All named models; each is a function of the input shape, the number of classes and its options."""
    return {
        "logistic": logistic,
        "mlp": mlp,
        "cnn": cnn,
        "cnn-3-layer": cnn_3_layer,
        "cnn-512-32": cnn_512_32,
        "alexnet": alexnet,
        "mobilenet-v2": mobilenet_v2,
        "resnet-18": resnet_18,
        "scattering": scattering,
        "lstm": lstm,
        "lstm-small": lstm_small,
        "ngrams": ngrams,
    }


def build(name: str, input_shape: tuple[int, ...], classes: int, seed: int, **options: Any) -> nn.Module:
    """The model called `name`, initialised from `seed` alone; PyTorch's global generator stays as it was.

    `name` is one of `models()`, or the import path `package.module:function` of a function (or class) that
    returns an nn.Module; it is given `input_shape` and `classes` if it has parameters of these names.
    `options` are its other parameters; an unknown one is refused.
    """
    maker = models().get(name) or _imported(name)
    check_options(f"model '{name}'", maker, options, _GIVEN)
    shape = {"input_shape": input_shape, "classes": classes}
    taken = {key: value for key, value in shape.items() if key in inspect.signature(maker).parameters}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            made = maker(**taken, **options)
        except UsageError:
            raise
        except Exception as error:  # a wrong size, or anything in a user's own function
            said = "".join(f" with {key} = {value!r}" for key, value in options.items())
            raise UsageError(
                f"model '{name}' cannot be made{said}: {type(error).__name__}: {error}"
            ) from error
        return _module(name, made)


def _imported(path: str) -> Callable[..., Any]:
    if ":" not in path:
        raise unknown("model", path, [*models(), "package.module:function"])
    return imported("model", path)


def _module(name: str, made: Any) -> nn.Module:
    if not isinstance(made, nn.Module):
        raise UsageError(f"model '{name}' is a {type(made).__name__}; the function must return an nn.Module")
    return made
