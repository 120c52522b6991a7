"""Every named model is what the papers say, private, deterministic, and works with flat parameter vectors."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sordino.core.errors import UsageError
from sordino.models import build, check, models

GREY, COLOUR, SMALL, TEXT = (1, 28, 28), (3, 32, 32), (1, 8, 8), (80,)
QUICK = ("logistic", "mlp", "cnn", "cnn-3-layer", "cnn-512-32", "scattering", "lstm-small", "ngrams")

PARAMETERS = [
    ("logistic", GREY, 7_850),
    ("mlp", GREY, 159_010),  # 002, Table 3: 159K
    ("cnn", GREY, 18_378),
    ("cnn-3-layer", COLOUR, 75_562),
    ("cnn-512-32", GREY, 833_322),
    ("alexnet", GREY, 3_290_570),  # 3.3M
    ("mobilenet-v2", COLOUR, 2_296_922),  # 2.3M
    ("resnet-18", GREY, 11_172_810),  # 11.1M
    ("scattering", GREY, 39_690),
    ("lstm", TEXT, 819_920),
    ("lstm-small", TEXT, 24_784),
    ("ngrams", TEXT, 846_080),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors lose more by threads than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def shape_of(name: str) -> tuple[int, ...]:
    return TEXT if name in ("lstm", "lstm-small", "ngrams") else SMALL


def inputs(shape: tuple[int, ...], count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if shape == TEXT:
        return torch.randint(80, (count, *shape), generator=generator)
    return torch.rand(count, *shape, generator=generator)


def classes_of(shape: tuple[int, ...]) -> int:
    return 80 if shape == TEXT else 10


def gradients(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(module(x).logsumexp(1).sum(), list(module.parameters())))


@pytest.mark.parametrize(("name", "shape", "count"), PARAMETERS)
def test_parameters_and_output(name: str, shape: tuple[int, ...], count: int):
    module = build(name, shape, classes_of(shape), seed=0)
    assert sum(p.numel() for p in module.parameters()) == count
    check(module, shape)
    assert module(inputs(shape)).shape == (3, classes_of(shape))


def test_every_model_is_counted():
    assert {name for name, _, _ in PARAMETERS} == set(models())


@pytest.mark.parametrize("name", models())
def test_the_seed_decides_and_the_global_generator_is_left_alone(name: str):
    shape = shape_of(name)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = torch.nn.utils.parameters_to_vector(build(name, shape, 10, seed=3).parameters())
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    assert torch.equal(
        first, torch.nn.utils.parameters_to_vector(build(name, shape, 10, seed=3).parameters())
    )
    assert not torch.equal(
        first, torch.nn.utils.parameters_to_vector(build(name, shape, 10, seed=4).parameters())
    )


@pytest.mark.parametrize("name", models())
def test_every_parameter_takes_part_and_flat_views_change_nothing(name: str):
    """The training loop points parameters at views of one vector, convolutions in channels_last."""
    shape = shape_of(name)
    module = build(name, shape, classes_of(shape), seed=0)
    x = inputs(shape)
    wanted = gradients(module, x)
    assert all(gradient.abs().sum() > 0 for gradient in wanted)
    parameters = list(module.parameters())
    flat = torch.empty(sum(p.numel() for p in parameters))
    start = 0
    for parameter in parameters:
        piece = flat[start : start + parameter.numel()]
        start += parameter.numel()
        if parameter.dim() == 4:
            out, inner, height, width = parameter.shape
            view = piece.view(out, height, width, inner).permute(0, 3, 1, 2)
        else:
            view = piece.view(parameter.shape)
        view.copy_(parameter.data)
        parameter.data = view
    for ours, plain in zip(gradients(module, x), wanted, strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-3, atol=1e-4)
    output = module(x)
    flat.mul_(0.5)
    assert not torch.allclose(module(x), output)  # the views are what the module computes with


@pytest.mark.parametrize("name", [name for name in models() if shape_of(name) != TEXT])
def test_images_of_every_size_that_the_data_has(name: str):
    for shape in (SMALL, GREY, COLOUR):
        if name in QUICK or shape == SMALL:
            assert build(name, shape, 7, seed=0)(inputs(shape, 2)).shape == (2, 7)


@pytest.mark.parametrize("name", QUICK)
def test_a_few_steps_learn(name: str):
    shape = shape_of(name)
    classes = classes_of(shape)
    module = build(name, shape, classes, seed=0)
    x = inputs(shape, 8)
    y = torch.arange(8) % classes
    losses = []
    for _ in range(100):
        loss = nn.functional.cross_entropy(module(x), y)
        losses.append(loss.item())
        slopes = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, slope in zip(module.parameters(), slopes, strict=True):
                parameter -= 0.3 * slope
    assert losses[-1] < 0.8 * losses[0]


def test_options():
    assert sum(p.numel() for p in build("mlp", GREY, 10, 0, hidden=10).parameters()) == 7_960
    with pytest.raises(UsageError, match="unknown option of model 'mlp': 'hiden'; did you mean 'hidden'"):
        build("mlp", GREY, 10, 0, hiden=10)
    with pytest.raises(UsageError, match="model 'mlp': hidden = 'ten'"):
        build("mlp", GREY, 10, 0, hidden="ten")


def test_shapes_that_a_model_cannot_take():
    with pytest.raises(UsageError, match=r"\(80,\) are not images"):
        build("cnn", TEXT, 10, 0)
    with pytest.raises(UsageError, match="not images of 8 × 8 or more"):
        build("resnet-18", (1, 4, 4), 10, 0)
    with pytest.raises(UsageError, match="are not texts"):
        build("lstm", GREY, 10, 0)


def test_an_own_module_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "their_models.py").write_text(
        "from torch import nn\n"
        "def sized(input_shape, classes, width: int = 3):\n"
        "    return nn.Sequential(nn.Linear(input_shape[1], width), nn.Linear(width, classes))\n"
        "class Fixed(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(64, 10))\n"
        "def number(): return 3\n"
        "def needy(depth): return nn.Linear(depth, 1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert build("their_models:sized", (1, 8), 5, 0, width=4)(torch.zeros(2, 8)).shape == (2, 5)
    first, second = (build("their_models:Fixed", SMALL, 10, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first[1].weight.detach(), second[1].weight.detach())
    for path, message in (
        ("their_models:number", "must return an nn.Module"),
        ("their_models:needy", "model 'their_models:needy' needs depth"),
        ("their_models:absent", "cannot be imported"),
        ("no_such_module_here:f", "cannot be imported"),
        ("restnet-18", "unknown model 'restnet-18'; did you mean 'resnet-18'"),
    ):
        with pytest.raises(UsageError, match=message):
            build(path, SMALL, 10, 0)
