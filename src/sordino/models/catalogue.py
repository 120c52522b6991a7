"""The models that a name or an import path can mean."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import torch
from torch import nn

from sordino.core.errors import UsageError, unknown
from sordino.models.cnn import cnn, cnn_3_layer, cnn_512_32
from sordino.models.deep import alexnet, mobilenet_v2, resnet_18
from sordino.models.small import logistic, mlp
from sordino.models.text import lstm, lstm_small

Maker = Callable[[tuple[int, ...], int], nn.Module]


def models() -> dict[str, Maker]:
    """All named models; each is a function of the input shape and the number of classes."""
    return {
        "logistic": logistic,
        "mlp": mlp,
        "cnn": cnn,
        "cnn-3-layer": cnn_3_layer,
        "cnn-512-32": cnn_512_32,
        "alexnet": alexnet,
        "mobilenet-v2": mobilenet_v2,
        "resnet-18": resnet_18,
        "lstm": lstm,
        "lstm-small": lstm_small,
    }


def build(name: str, input_shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """The model called `name`, initialised from `seed` alone; PyTorch's global generator stays as it was.

    `name` is one of `models()`, or the import path `package.module:function` of a function (or class) that
    returns an nn.Module; it is given `input_shape` and `classes` if it has parameters of these names.
    """
    maker = models().get(name) or _imported(name)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return maker(input_shape, classes)


def _imported(path: str) -> Maker:
    module_name, colon, attribute = path.partition(":")
    if not colon:
        raise unknown("model", path, [*models(), "package.module:function"])
    try:
        maker = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"model '{path}' cannot be imported: {error}") from error

    def make(input_shape: tuple[int, ...], classes: int) -> nn.Module:
        given = {"input_shape": input_shape, "classes": classes}
        wanted = {key: value for key, value in given.items() if key in inspect.signature(maker).parameters}
        try:
            module = maker(**wanted)
        except TypeError as error:
            raise UsageError(
                f"model '{path}' could not be made: {error}; its parameters may be input_shape "
                "and classes, all others need a default"
            ) from error
        if not isinstance(module, nn.Module):
            raise UsageError(f"model '{path}' made a {type(module).__name__}; it must make an nn.Module")
        return module

    return make
