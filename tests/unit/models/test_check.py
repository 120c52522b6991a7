import pytest
import torch
from torch import nn

from sordino.core.errors import UsageError
from sordino.models import build, check


def images(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), *layers, nn.Flatten(), nn.LazyLinear(3))


def made(*layers: nn.Module) -> nn.Module:
    module = images(*layers)
    module(torch.zeros(2, 1, 8, 8))
    return module


class Centred(nn.Module):
    """Subtracts the mean of the batch without being a batch norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        return x


SPECTRAL = nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 64, 3))


def test_what_is_private_passes():
    for layer in (
        nn.GroupNorm(2, 4),
        nn.InstanceNorm2d(4),
        nn.LayerNorm((4, 6, 6)),
        nn.Dropout(0.5),
        nn.Identity(),
    ):
        check(made(layer), (1, 8, 8))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (made(nn.BatchNorm2d(4)), "1 is BatchNorm2d: it mixes the examples of a client; use GroupNorm"),
        (made(nn.BatchNorm2d(4, affine=False, track_running_stats=False)), "1 is BatchNorm2d"),
        (made(nn.InstanceNorm2d(4, track_running_stats=True)), "1 is InstanceNorm2d whose statistics"),
        (images(), "3.weight has no shape yet|2.weight has no shape yet"),
        (made().double(), "0.weight is torch.float64; call .float()"),
        (made().requires_grad_(False), "0.weight does not require grad"),
        (nn.Flatten(), "it has no parameters"),
        (made(Centred()), "depends on the rest of its batch"),
        (made(Counting()), "buffer 1.seen changes in training"),
        (made(SPECTRAL), "buffer 1.parametrizations"),
        (nn.Sequential(nn.Flatten(), nn.Linear(9, 2)), r"it does not take inputs of shape \(1, 8, 8\)"),
        (nn.Conv2d(1, 4, 3), "give an output of shape"),
    ],
)
def test_what_is_not_is_named_with_its_fix(module: nn.Module, message: str):
    with pytest.raises(UsageError, match=message) as caught:
        check(module, (1, 8, 8))
    assert "\n" not in str(caught.value)


def test_integer_and_tied_parameters():
    module = made()
    module.count = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    module.twin = module[0]
    with pytest.raises(UsageError, match=r"count is torch\.int64") as caught:
        check(module)
    assert "twin.weight is tied to 0.weight" in str(caught.value)


def test_all_faults_are_in_one_error():
    with pytest.raises(UsageError) as caught:
        check(made(nn.BatchNorm2d(4), nn.Sequential(nn.BatchNorm2d(4))))
    assert "1 is BatchNorm2d" in str(caught.value)
    assert "2.0 is BatchNorm2d" in str(caught.value)


def test_the_module_and_the_global_generator_stay_as_they_were():
    module = made(Counting()).eval()
    seen = module[1].seen.clone()
    state = torch.get_rng_state()
    with pytest.raises(UsageError):
        check(module, (1, 8, 8))
    assert torch.equal(module[1].seen, seen)
    assert not module.training
    assert torch.equal(torch.get_rng_state(), state)


def test_named_models_pass():
    check(build("cnn", (1, 28, 28), 10, seed=0), (1, 28, 28))
