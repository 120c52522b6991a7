"""The single pass against a loop over single examples with plain autograd, in float64 and float32."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from sordino.core.errors import UsageError
from sordino.core.vectors import Layout
from sordino.training.per_example import Clipper, Clipping


def cross_entropy(outputs, targets):
    if isinstance(outputs, tuple):
        outputs = outputs[0]
    if outputs.dim() > 2:
        outputs = outputs.flatten(1)
    return functional.cross_entropy(outputs, targets % outputs.shape[1], reduction="none")


def gradients_by_loop(module, loss, inputs, targets):
    """(examples, parameters) in the order of Layout, one example at a time."""
    layout = Layout.of(module)
    rows = []
    for j in range(len(inputs)):
        value = loss(module(inputs[j : j + 1]), targets[j : j + 1])[0]
        parameters = [p for p in module.parameters() if p.requires_grad]
        each = torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)
        row = torch.empty(layout.size, dtype=each[0].dtype)
        for view, gradient in zip(layout.views(row), each, strict=True):
            view.copy_(gradient)
        rows.append(row)
    return torch.stack(rows)


class Reused(nn.Module):
    """One linear layer used three times, on one position and on several."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        once = torch.tanh(self.layer(x))
        twice = torch.tanh(self.layer(once))
        return self.layer(torch.stack([once, twice], 1)).sum(1)


class Tied(nn.Module):
    """A table that embeds and decodes."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.decode = nn.Linear(6, 11, bias=False)
        self.decode.weight = self.table.weight

    def forward(self, x):
        return self.decode(torch.tanh(self.table(x)).mean(1))


class Functional(nn.Module):
    """Parameters used through functions instead of layers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))
        self.shift = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return functional.linear(x, self.weight, self.shift)


class Final(nn.Module):
    """A recurrent layer's last output, all outputs or final states, and a decoder."""

    def __init__(self, layer, width, use="last"):
        super().__init__()
        self.layer, self.use, self.decode = layer, use, nn.Linear(width, 3)

    def forward(self, x):
        outputs, state = self.layer(x)
        if self.use == "state":
            states = state if isinstance(state, tuple) else (state,)
            return self.decode(sum(s.sum(0) for s in states))
        return self.decode(outputs[:, -1] if self.use == "last" else outputs.tanh().mean(1))


def conv(*args, **kwargs):
    return lambda: nn.Sequential(
        nn.Conv2d(*args, **kwargs), nn.Tanh(), nn.Conv2d(args[1], 3, 2), nn.Flatten()
    )


COVERED = {
    "linear": (lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 4)), (7,)),
    "linear without bias": (lambda: nn.Linear(7, 4, bias=False), (7,)),
    "linear on positions": (lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Flatten()), (3, 5)),
    "wide linear on positions": (lambda: nn.Sequential(nn.Linear(40, 50), nn.Tanh(), nn.Flatten()), (3, 40)),
    "linear on two dimensions": (lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Flatten()), (3, 2, 5)),
    "conv": (conv(2, 4, 3), (2, 8, 9)),
    "conv one channel": (conv(1, 4, 5, padding=2), (1, 8, 9)),
    "conv many channels": (conv(6, 4, 3, padding=1), (6, 8, 9)),
    "conv stride": (conv(5, 4, 3, stride=(2, 1), padding=(0, 2)), (5, 9, 8)),
    "conv few channels, stride and dilation": (conv(2, 4, 3, stride=(2, 1), dilation=(1, 2)), (2, 9, 9)),
    "conv dilation": (conv(5, 4, 3, dilation=(2, 1), padding=2), (5, 9, 8)),
    "conv groups": (conv(6, 4, 3, groups=2, bias=False), (6, 8, 8)),
    "conv depthwise": (conv(6, 12, 3, groups=6, padding=1), (6, 8, 8)),
    "conv same": (conv(3, 4, 3, padding="same", dilation=2), (3, 8, 8)),
    "conv valid": (conv(3, 4, 3, padding="valid"), (3, 8, 8)),
    "conv reflect": (conv(3, 4, 3, padding=1, padding_mode="reflect"), (3, 8, 8)),
    "conv few positions": (lambda: nn.Sequential(nn.Conv2d(30, 40, 3), nn.Tanh(), nn.Flatten()), (30, 4, 4)),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(6, 4, 3, stride=2, padding=1, dilation=2), nn.Tanh(), nn.Flatten()),
        (6, 11),
    ),
    "conv1d groups": (lambda: nn.Sequential(nn.Conv1d(6, 4, 3, groups=2), nn.Tanh(), nn.Flatten()), (6, 11)),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 3, 2, padding=1), nn.Tanh(), nn.Flatten()), (2, 3, 4, 3)),
    "group norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6), nn.Tanh(), nn.Flatten()),
        (2, 6, 6),
    ),
    "layer norm": (lambda: nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh(), nn.Flatten()), (3, 5)),
    "layer norm over two": (lambda: nn.Sequential(nn.LayerNorm((3, 5)), nn.Tanh(), nn.Flatten()), (4, 3, 5)),
    "rms norm": (lambda: nn.Sequential(nn.Linear(5, 6), nn.RMSNorm(6), nn.Tanh(), nn.Flatten()), (3, 5)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(11, 4, padding_idx=2), nn.Flatten()), "words"),
    "reused layer": (lambda: Reused(5), (5,)),
    "reused wide layer": (lambda: Reused(30), (30,)),
    "tied table": (Tied, "words"),
    "functions": (Functional, (5,)),
    "inplace": (
        lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU(inplace=True), nn.Linear(9, 4), nn.Tanh()),
        (7,),
    ),
    "lstm": (lambda: Final(nn.LSTM(4, 5, batch_first=True), 5), (6, 4)),
    "lstm, wide": (lambda: Final(nn.LSTM(4, 20, batch_first=True), 20, "all"), (6, 4)),
    "lstm, two layers, both ways": (
        lambda: Final(nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), 10, "all"),
        (6, 4),
    ),
    "lstm state": (lambda: Final(nn.LSTM(4, 5, 2, batch_first=True, bias=False), 5, "state"), (6, 4)),
    "gru": (lambda: Final(nn.GRU(4, 5, batch_first=True), 5), (6, 4)),
    "gru, two layers, both ways": (
        lambda: Final(nn.GRU(4, 5, 2, batch_first=True, bidirectional=True, bias=False), 10, "all"),
        (6, 4),
    ),
    "gru state": (lambda: Final(nn.GRU(4, 5, 2, batch_first=True), 5, "state"), (6, 4)),
}


def batch(shape, size=7, dtype=torch.float64):
    draw = torch.Generator().manual_seed(1)
    targets = torch.randint(3, (size,), generator=draw)
    if shape == "words":
        return torch.randint(11, (size, 6), generator=draw), targets
    inputs = torch.randn((size, *shape), generator=draw, dtype=dtype)
    inputs *= torch.linspace(0.2, 3, size, dtype=dtype).view(-1, *[1] * len(shape))  # norms that differ
    return inputs, targets


def made(maker, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return maker().to(dtype)


def clipped_by_hand(gradients, clip):
    norms = gradients.norm(dim=1)
    return (gradients * (clip / norms).clamp(max=1)[:, None]).sum(0), norms


@pytest.mark.parametrize("name", COVERED)
def test_single_pass_equals_the_loop(name):
    maker, shape = COVERED[name]
    module = made(maker)
    inputs, targets = batch(shape)
    gradients = gradients_by_loop(module, cross_entropy, inputs, targets)
    clip = float(gradients.norm(dim=1).median())  # half of the examples are clipped
    clipper = Clipper(module, cross_entropy, Clipping(clip))
    found = clipper.sum(inputs, targets)
    assert clipper.method == "single pass"
    expected, norms = clipped_by_hand(gradients, clip)
    torch.testing.assert_close(found.vector, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(found.norms, norms, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.losses, cross_entropy(module(inputs), targets).detach())


@pytest.mark.parametrize("name", COVERED)
def test_single_precision_is_exact_to_1e_6(name):
    maker, shape = COVERED[name]
    module = made(maker)
    inputs, targets = batch(shape)
    gradients = gradients_by_loop(module, cross_entropy, inputs, targets)
    clip = float(gradients.norm(dim=1).median())
    expected, _ = clipped_by_hand(gradients, clip)
    if inputs.is_floating_point():
        inputs = inputs.float()
    found = Clipper(module.float(), cross_entropy, Clipping(clip)).sum(inputs, targets)
    assert (found.vector.double() - expected).norm() <= 1e-6 * expected.norm()


@pytest.mark.parametrize(
    "name", ["linear", "wide linear on positions", "conv many channels", "embedding", "lstm, wide"]
)
@pytest.mark.parametrize("physical", [None, 1, 3])
def test_units_are_clipped_together(name, physical):
    maker, shape = COVERED[name]
    module = made(maker)
    inputs, targets = batch(shape, 9)
    units = torch.tensor([40, -3, 40, 8, 8, 40, 40, -3, 5])
    gradients = gradients_by_loop(module, cross_entropy, inputs, targets)
    together = torch.stack([gradients[units == unit].sum(0) for unit in (-3, 5, 8, 40)])
    clip = float(together.norm(dim=1).median())
    expected, norms = clipped_by_hand(together, clip)
    found = Clipper(module, cross_entropy, Clipping(clip), physical).sum(inputs, targets, units)
    torch.testing.assert_close(found.vector, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(found.norms, norms, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.losses, cross_entropy(module(inputs), targets).detach())


@pytest.mark.parametrize("physical", [1, 2, 5, 9, 100])
def test_physical_batches_do_not_change_the_sum(physical):
    module = made(COVERED["conv"][0])
    inputs, targets = batch(COVERED["conv"][1], 9)
    whole = Clipper(module, cross_entropy, Clipping(0.1)).sum(inputs, targets)
    parts = Clipper(module, cross_entropy, Clipping(0.1), physical).sum(inputs, targets)
    torch.testing.assert_close(parts.vector, whole.vector, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(parts.norms, whole.norms)


def test_an_empty_batch_gives_zeros():
    module = made(COVERED["linear"][0])
    found = Clipper(module, cross_entropy, Clipping(1.0)).sum(
        torch.empty(0, 7), torch.empty(0, dtype=torch.long)
    )
    assert found.vector.shape == (Layout.of(module).size,)
    assert not found.vector.any()
    assert len(found.norms) == len(found.losses) == 0


def test_the_module_is_left_alone():
    module = made(COVERED["conv"][0])
    before = {name: value.clone() for name, value in module.state_dict().items()}
    inputs, targets = batch(COVERED["conv"][1])
    kept = inputs.clone()
    state = torch.random.get_rng_state()
    Clipper(module, cross_entropy, Clipping(1.0)).sum(inputs, targets)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert torch.equal(inputs, kept)
    assert torch.equal(torch.random.get_rng_state(), state)


# Modules that the single pass cannot take


class OwnParameter(nn.Module):
    """A parameter in a plain sum."""

    def __init__(self):
        super().__init__()
        self.position, self.out = nn.Parameter(torch.randn(3, 5)), nn.Linear(15, 4)

    def forward(self, x):
        return self.out((x + self.position).flatten(1))


class PositionTable(nn.Module):
    """A table of positions whose look-up has no dimension of examples: as long as the sequence."""

    def __init__(self):
        super().__init__()
        self.place, self.out = nn.Embedding(3, 5), nn.Linear(15, 4)

    def forward(self, x):
        return self.out((x + self.place(torch.arange(x.shape[1]))).flatten(1))


class StepsFirst(nn.Module):
    """A linear layer that sees steps where the examples should be."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(5, 5), nn.Linear(15, 4)

    def forward(self, x):
        return self.out(torch.tanh(self.inner(x.transpose(0, 1))).transpose(0, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.out = nn.MultiheadAttention(5, 1, batch_first=True), nn.Linear(15, 4)

    def forward(self, x):
        return self.out(self.attend(x, x, x)[0].flatten(1))


def weight_normed():
    return nn.Sequential(nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(15, 4)))


def uncovered_convolution():
    return nn.Sequential(nn.ConvTranspose1d(3, 2, 2), nn.Flatten(), nn.Linear(12, 4))


@pytest.mark.parametrize(
    "maker", [OwnParameter, PositionTable, StepsFirst, Attention, weight_normed, uncovered_convolution]
)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_other_modules_fall_back_with_one_warning(maker, size):
    module = made(maker)
    inputs, targets = batch((3, 5), size)
    units = torch.arange(size) // 2
    gradients = gradients_by_loop(module, cross_entropy, inputs, targets)
    clip = float(gradients.norm(dim=1).median())
    clipper = Clipper(module, cross_entropy, Clipping(clip))
    with pytest.warns(UserWarning, match="one example at a time"):
        found = clipper.sum(inputs, targets)
    assert clipper.method == "one example at a time"
    expected, norms = clipped_by_hand(gradients, clip)
    torch.testing.assert_close(found.vector, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(found.norms, norms)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = clipper.sum(inputs, targets, units)
    summed = torch.stack([gradients[units == unit].sum(0) for unit in units.unique()])
    torch.testing.assert_close(together.vector, clipped_by_hand(summed, clip)[0], rtol=1e-9, atol=1e-10)


class Mixing(nn.Module):
    """Centres over the batch, as a hand-made batch norm would."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(5, 5), nn.Linear(5, 4)

    def forward(self, x):
        hidden = self.inner(x)
        return self.out(torch.tanh(hidden - 0.5 * hidden.mean(0)))


def test_a_module_that_mixes_examples_is_found_out():
    module = made(Mixing)
    inputs, targets = batch((5,))
    with pytest.warns(UserWarning, match="mix examples"):
        found = Clipper(module, cross_entropy, Clipping(0.1)).sum(inputs, targets)
    expected, _ = clipped_by_hand(gradients_by_loop(module, cross_entropy, inputs, targets), 0.1)
    torch.testing.assert_close(found.vector, expected)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(5), nn.SyncBatchNorm(5)])
def test_batch_norm_is_refused(layer):
    with pytest.raises(UsageError, match=r"layer '1' mixes .* GroupNorm"):
        Clipper(nn.Sequential(nn.Linear(5, 5), layer), cross_entropy, Clipping(1.0))


def test_a_batch_without_gradients_decides_nothing():
    module = made(lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 4, bias=False)))
    inputs, targets = batch((7,))
    clipper = Clipper(module, lambda o, t: 0 * cross_entropy(o, t), Clipping(1.0))
    assert not clipper.sum(inputs, targets).vector.any()
    assert clipper.method is None


def test_dropout_keeps_the_single_pass():
    module = made(lambda: nn.Sequential(nn.Linear(7, 30), nn.Dropout(0.5), nn.Linear(30, 4))).train()
    clipper = Clipper(module, cross_entropy, Clipping(1.0))
    clipper.sum(*batch((7,)))
    assert clipper.method == "single pass"


def test_frozen_and_unused_parameters():
    module = made(lambda: nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 4)))
    module[0].weight.requires_grad_(False)
    module.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
    inputs, targets = batch((7,))
    found = Clipper(module, cross_entropy, Clipping(0.5)).sum(inputs, targets)
    expected, _ = clipped_by_hand(gradients_by_loop(module, cross_entropy, inputs, targets), 0.5)
    torch.testing.assert_close(found.vector, expected)
    assert len(found.vector) == 3 + 9 + 40


@pytest.mark.parametrize("shape", [(), (7, 1), (5,)])
def test_a_loss_that_is_not_one_number_an_example_is_refused(shape):
    module = made(COVERED["linear"][0])
    with pytest.raises(UsageError, match="reduction='none'"):
        Clipper(module, lambda o, t: o.sum() * torch.ones(shape), Clipping(1.0)).sum(*batch((7,)))


def test_lengths_must_agree():
    module = made(COVERED["linear"][0])
    inputs, targets = batch((7,))
    with pytest.raises(UsageError, match="one length"):
        Clipper(module, cross_entropy, Clipping(1.0)).sum(inputs, targets[:3])
