"""What a module must be before it can be trained privately."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from sordino.core.errors import UsageError
from sordino.models.ngrams import Ngrams

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_PROBE = 4


def check(module: nn.Module, input_shape: tuple[int, ...] | None = None) -> None:
    """Refuses a module whose training would mix examples or keep state outside of its parameters.

    Every parameter must be trained, float32 and its own. With `input_shape`, made-up inputs are run through
    it as well: an example's output may not depend on the rest of the batch, and no buffer may change. One
    error says all that is wrong, each with the layer and the fix. The module is left as it was.
    """
    wrong = [*_layers(module), *_parameters(module)]
    if not wrong and input_shape is not None:
        wrong = [*_behaviour(module, input_shape)]
    if wrong:
        raise UsageError("this model cannot be trained privately: " + "; ".join(wrong))


def _layers(module: nn.Module) -> Iterator[str]:
    for name, layer in module.named_modules():
        what = f"{name or 'the module'} is {type(layer).__name__}"
        if isinstance(layer, _BATCH_NORMS):
            yield f"{what}: it mixes the examples of a client; use GroupNorm"
        elif isinstance(layer, _INSTANCE_NORMS) and layer.track_running_stats:
            yield f"{what} whose statistics get no noise; set track_running_stats=False"


def _parameters(module: nn.Module) -> Iterator[str]:
    first: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if isinstance(parameter, UninitializedParameter):
            yield f"{name} has no shape yet; run one batch through the module, or name its input size"
            continue
        if not parameter.is_floating_point():
            yield f"{name} is {parameter.dtype}, not float; make it a constant buffer"
        elif parameter.dtype != torch.float32:
            yield f"{name} is {parameter.dtype}; call .float()"
        elif not parameter.requires_grad:
            yield f"{name} does not require grad; make it a constant buffer, or set requires_grad = True"
        owner = first.setdefault(parameter.data_ptr(), name)
        if owner != name and parameter.numel():
            yield f"{name} is tied to {owner}; give each a tensor of its own"
    if not first:
        yield "it has no parameters"


def _behaviour(module: nn.Module, input_shape: tuple[int, ...]) -> Iterator[str]:
    """What a run of two batches that agree in their first example shows."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    training = module.training
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            probes = [_made_up(module, input_shape, seed) for seed in (1, 2)]
            probes[1][0] = probes[0][0]
            outputs: list[torch.Tensor] = []
            for probe in probes:
                torch.default_generator.manual_seed(0)  # the same dropout for both
                outputs.append(module.train()(probe))
        changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, before[name])]
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        yield f"it does not take inputs of shape {input_shape}: {' '.join(str(error).split())}"
        return
    finally:
        module.train(training)
        for name, buffer in module.named_buffers():
            buffer.copy_(before[name])
    if outputs[0].dim() != 2 or len(outputs[0]) != _PROBE:
        yield f"{_PROBE} examples give an output of shape {tuple(outputs[0].shape)}, not (examples, classes)"
    elif not torch.allclose(outputs[0][0], outputs[1][0], rtol=1e-4, atol=1e-5):
        yield "the output of an example depends on the rest of its batch; compute each example by itself"
    for name in changed:
        yield f"buffer {name} changes in training and gets no noise; make it constant or a parameter"


def _made_up(module: nn.Module, input_shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    leaves = (layer for layer in module.modules() if not list(layer.children()))
    first = next((layer for layer in leaves if not isinstance(layer, nn.Identity)), None)
    if isinstance(first, nn.Embedding | Ngrams):
        return torch.randint(first.num_embeddings, (_PROBE, *input_shape), generator=generator)
    return torch.rand((_PROBE, *input_shape), generator=generator)
