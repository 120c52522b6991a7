"""One round, as a function: draw, train, clip, sum, noise, weigh, step.

It depends on (state, method, seed) alone. The caller has charged the round before it calls.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.core.streams import Streams
from sordino.engine.chunks import SQUARED, Order, Partial, add_up, cut
from sordino.engine.executors import Executor
from sordino.engine.network import Network
from sordino.engine.shares import shares_of, top_up_bytes
from sordino.engine.state import State
from sordino.methods import Method
from sordino.planning import NoisySum, Phase
from sordino.privatizers import Bands
from sordino.privatizers.integer import EXACT


@dataclass(frozen=True)
class Played:
    """What one round did: released facts, unpaid diagnostics, and where the time went.

    `unpaid` holds functions of private data that nobody paid for (norms, losses) and the realised cohort,
    which is private too: for the researcher's own record, never for outsiders.
    """

    clip_norm: float | None
    void: bool
    unpaid: dict[str, float]
    seconds: dict[str, float]


@dataclass
class _Clock:
    """Seconds by part of the round."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def play(
    state: State, method: Method, executor: Executor, streams: Streams, network: Network | None = None
) -> tuple[State, Played]:
    """The state after one more round, and what happened in it; without a network everyone answers at once."""
    clock, round_ = _Clock(), state.round
    phase = method.plan.phase(round_)
    cohorts = _taking_part(draw_cohorts(method, phase, round_, streams), method, state, streams)
    told: dict[str, float] = {}
    if network is not None:
        cohorts, told = _answering(cohorts, network, round_, streams)
    clock.lap("sampling")
    chunks = cut(cohorts, _most_in_a_chunk(phase))
    owner = {stratum: index for index, noisy in enumerate(phase.sums) for stratum in noisy.strata}
    scales = tuple(state.scales.get(owner[stratum], 1.0) for stratum in range(len(phase.laws)))
    order = Order(round_, state.theta, state.last, scales, state.public)
    tally = _Tally(len(phase.sums), state.theta)
    for chunk, partial in zip(chunks, executor.partials(order, chunks), strict=True):
        clock.lap("clients")
        tally.add(owner[chunk.stratum], partial)
        clock.lap("reduction")
    void = phase.void([len(cohort) for cohort in cohorts]) or tally.lacks_shares(
        phase, method.plan.terms.colluders
    )
    after = replace(state, round=round_ + 1)
    if not void:
        released, new_scales, noise = _release(state, phase, tally, streams)
        clock.lap("noise")
        after = _step(after, method, phase, released, tally)
        after = replace(after, scales=new_scales, noise=noise)
        clock.lap("server")
    return after, Played(_clip_norm(phase, state), void, {**tally.unpaid(), **told}, clock.seconds)


def _most_in_a_chunk(phase: Phase) -> int | None:
    """Of how many clients single precision holds a sum of whole numbers exactly."""
    sums = [noisy.integer for noisy in phase.sums if noisy.integer is not None]
    return min((max(1, EXACT // integer.largest) for integer in sums), default=None)


def _release(
    state: State, phase: Phase, tally: _Tally, streams: Streams
) -> tuple[list[Tensor], dict[int, float], dict[int, tuple[Tensor, ...]]]:
    """The noisy sums, in the order of the plan, and for the next round the clip scales and the earlier noise."""
    released: list[Tensor] = []
    new_scales, new_noise = dict(state.scales), dict(state.noise)
    for index, noisy in enumerate(phase.sums):
        scale = state.scales.get(index, 1.0)
        total = _with_shares(noisy, index, tally, state, streams).to(state.theta.dtype)
        if noisy.bands is None:
            draw = streams.generator("noise", state.round, index)
            released.append(noisy.chain(noisy.strata[0]).on_sum(total, draw, scale))
        else:
            new_noise[index] = correlated(noisy, noisy.bands, index, state, streams)
            released.append(total.add_(new_noise[index][0]))
        if noisy.quantile is not None:
            draw = streams.generator("bits", state.round, index)
            new_scales[index] = _next_scale(noisy, scale, tally.bits[index], draw)
    return released, new_scales, new_noise


def correlated(
    noisy: NoisySum, bands: Bands, index: int, state: State, streams: Streams
) -> tuple[Tensor, ...]:
    """This round's noise on a sum and that of the rounds before, newest first, as far as the next round needs them.

    A state that was read from disk has none: all rounds' noise is then drawn again.
    """
    earlier = state.noise.get(index, ())
    for round_ in range(state.round if earlier else 0, state.round + 1):
        draw = streams.generator("noise", round_, index)
        fresh = noisy.chain(noisy.strata[0]).on_sum(torch.zeros_like(state.theta), draw)
        earlier = (bands.noise(fresh, earlier), *earlier[: len(bands) - 2])
    return earlier


def _with_shares(noisy: NoisySum, index: int, tally: _Tally, state: State, streams: Streams) -> Tensor:
    """A sum; one of whole numbers with all its shares of noise, as the numbers that it stands for."""
    mechanism, total = noisy.integer, tally.vectors[index]
    if mechanism is None:
        return total
    integers = total.cpu().numpy().astype(np.int64)
    held = tally.shares[index]
    if held is None:
        integers += shares_of(mechanism, list(range(mechanism.shares)), streams, state.round, index)
    else:
        missing = mechanism.shares - held
        integers += mechanism.noise(missing, top_up_bytes(streams, state.round, index))
    return torch.from_numpy(mechanism.decode(mechanism.words(integers))).to(total.device)


def _step(state: State, method: Method, phase: Phase, released: list[Tensor], tally: _Tally) -> State:
    """What the server does with what was released."""
    weights = [noisy.weight for noisy in phase.sums]
    aggregate, combined = method.aggregation.combine(released, weights, state.theta, state.aggregation)
    theta, optimiser = method.optimiser.update(state.theta, aggregate, state.optimiser)
    public = state.public
    if method.bulletin is not None:
        public = method.bulletin.update(public, tally.released)
    return replace(
        state, theta=theta, last=aggregate, optimiser=optimiser, aggregation=combined, public=public
    )


def draw_cohorts(method: Method, phase: Phase, round_: int, streams: Streams) -> list[NDArray[np.int64]]:
    """Who is drawn in a round: for each stratum the positions of its drawn clients."""
    return [
        stratum.members[law.draw(streams.generator("cohort", round_, index), round_)]
        for index, (stratum, law) in enumerate(zip(method.plan.strata, phase.laws, strict=True))
    ]


def _answering(
    cohorts: list[NDArray[np.int64]], network: Network, round_: int, streams: Streams
) -> tuple[list[NDArray[np.int64]], dict[str, float]]:
    """Those of the cohorts whose replies arrive, and what became of the others: private, like the cohort."""
    answers = [network.answers(cohort, round_, m, streams) for m, cohort in enumerate(cohorts)]
    told = {
        "invited": float(sum(len(cohort) for cohort in cohorts)),
        "dropped": float(sum(answer.dropped for answer in answers)),
        "late": float(sum(answer.late for answer in answers)),
        "simulated_seconds": max(answer.seconds for answer in answers),
    }
    return [answer.clients for answer in answers], told


def _taking_part(
    drawn: list[NDArray[np.int64]], method: Method, state: State, streams: Streams
) -> list[NDArray[np.int64]]:
    """Those of the drawn clients whom the method lets take part."""
    if method.choosing is None:
        return drawn
    return [
        method.choosing.choose(cohort, state.public, streams.generator("choice", state.round, index))
        for index, cohort in enumerate(drawn)
    ]


class _Tally:
    """The sums of a round: partial sums added in their fixed order, vectors in double precision."""

    def __init__(self, sums: int, like: Tensor) -> None:
        self.vectors = [torch.zeros_like(like, dtype=torch.float64) for _ in range(sums)]
        self.bits = [0.0] * sums
        self.shares: list[int | None] = [None] * sums
        self.clients = 0
        self.released: dict[str, float] = {}
        self.diagnostics: dict[str, float] = {}

    def add(self, index: int, partial: Partial) -> None:
        """Adds a partial to one of the sums."""
        self.vectors[index].add_(partial.vector)
        self.bits[index] += partial.bits
        if partial.shares is not None:
            self.shares[index] = (self.shares[index] or 0) + partial.shares
        self.clients += partial.clients
        add_up(self.released, partial.released)
        add_up(self.diagnostics, partial.diagnostics)

    def lacks_shares(self, phase: Phase, colluders: int) -> bool:
        """Whether fewer sites than the threshold answered: the noise would be less than was accounted."""
        return any(
            noisy.integer is not None and held is not None and held < noisy.integer.honest + colluders
            for noisy, held in zip(phase.sums, self.shares, strict=True)
        )

    def unpaid(self) -> dict[str, float]:
        """The realised cohort, and over it the means of the clients' diagnostics, and standard deviations."""
        means = {name: value / max(self.clients, 1) for name, value in sorted(self.diagnostics.items())}
        spreads = {
            f"{name.removesuffix(SQUARED)}_spread": math.sqrt(
                max(0.0, square - means[name.removesuffix(SQUARED)] ** 2)
            )
            for name, square in means.items()
            if name.endswith(SQUARED)
        }
        plain = {name: mean for name, mean in means.items() if not name.endswith(SQUARED)}
        return {"cohort": float(self.clients), **plain, **spreads}


def _next_scale(noisy: NoisySum, scale: float, bits: float, draw: np.random.Generator) -> float:
    quantile = noisy.quantile
    assert quantile is not None
    noisy_bits = bits + quantile.bit_noise * noisy.surplus * float(draw.standard_normal())
    return quantile.next_scale(scale, noisy_bits, 1.0 / noisy.weight.value)


def _clip_norm(phase: Phase, state: State) -> float | None:
    """The round's largest clip norm (public: it was planned, or released by the rounds before)."""
    norms = [max(noisy.clip_norms) * state.scales.get(i, 1.0) for i, noisy in enumerate(phase.sums)]
    return max(norms) if max(norms) < float("inf") else None
