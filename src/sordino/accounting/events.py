"""What a mechanism releases, as values that the accountants read.

Every event is a `dp_accounting.DpEvent`. The object that adds the noise builds the event from its own
fields, with the functions of this module, so that σ, q and T are written once. The noise multiplier z is the
noise's standard deviation on the *sum*, divided by the clip norm C.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import attr
import dp_accounting as dpa

from sordino.core import checks
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

DpEvent = dpa.DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SkellamDpEvent(dpa.DpEvent):
    """Symmetric Skellam noise of one variance on every coordinate of an integer sum.

    `l2` and `l1` bound by how much one unit moves the sum. Not an event of dp-accounting: only our RDP
    accountant knows it.
    """

    variance: float
    l2: float
    l1: float


def gaussian(noise_multiplier: float) -> DpEvent:
    """One Gaussian release that everyone eligible takes part in. z = 0 is no privacy, z = ∞ no release."""
    z = _noise(noise_multiplier)
    if z == 0:
        return dpa.NonPrivateDpEvent()
    return dpa.NoOpDpEvent() if math.isinf(z) else dpa.GaussianDpEvent(z)


def sampled_gaussian(sampling_rate: float, noise_multiplier: float) -> DpEvent:
    """One Gaussian release over a Poisson sample: each unit takes part independently with probability q.

    Only against parties who do not see who was drawn. q = 1 is the plain Gaussian, q = 0 no release.
    """
    q = _rate(sampling_rate)
    event = gaussian(noise_multiplier)
    if q == 0:
        return dpa.NoOpDpEvent()
    if q == 1 or not isinstance(event, dpa.GaussianDpEvent):
        return event
    return dpa.PoissonSampledDpEvent(q, event)


def capped_sampled_gaussian(sampling_rate: float, noise_multiplier: float, clients: int, cap: int) -> DpEvent:
    """A Poisson sample of `clients` of which at most `cap`, a uniformly random subset, take part.

    `clients` is a public upper bound of the eligible set; ε depends strongly on it.
    """
    q, z = _rate(sampling_rate), _noise(noise_multiplier)
    clients, cap = checks.count("clients", clients), checks.count("cap", cap)
    if cap >= clients or q == 0 or z == 0 or math.isinf(z):
        return sampled_gaussian(q, z)
    return dpa.dp_event.TruncatedSubsampledGaussianDpEvent(
        dataset_size=clients, sampling_probability=q, truncated_batch_size=cap, noise_multiplier=z
    )


def exactly(drawn: int, clients: int, noise_multiplier: float) -> DpEvent:
    """One Gaussian release over exactly `drawn` of `clients`, drawn uniformly without replacement.

    Drawing one client displaces another, so the sum moves by 2C: the accountants charge what a Poisson sample
    at z/2 costs, under add-remove and under replace-one.
    """
    clients, drawn = checks.count("clients", clients), checks.count("drawn", drawn)
    if drawn > clients:
        raise UsageError(f"drawn = {drawn} is more than clients = {clients}; draw at most {clients}")
    event = gaussian(noise_multiplier)
    if not isinstance(event, dpa.GaussianDpEvent):
        return event
    return dpa.SampledWithoutReplacementDpEvent(source_dataset_size=clients, sample_size=drawn, event=event)


def skellam(variance: float, *, l2: float, l1: float, sampling_rate: float = 1.0) -> DpEvent:
    """One release of an integer sum with Skellam noise of `variance`, over a Poisson sample if q < 1."""
    q = _rate(sampling_rate)
    event = SkellamDpEvent(
        checks.positive("variance", variance), checks.positive("l2", l2), checks.positive("l1", l1)
    )
    if q == 0:
        return dpa.NoOpDpEvent()
    return event if q == 1 else dpa.PoissonSampledDpEvent(q, event)


def repeated(event: DpEvent, count: int) -> DpEvent:
    """`count` releases of the same event, each free to depend on those before it."""
    return from_runs((part, inner * checks.count("count", count, least=0)) for part, inner in runs(event))


def composed(*events: DpEvent) -> DpEvent:
    """All of `events`, each free to depend on those before it. Equal events are counted, not listed."""
    return from_runs(run for event in events for run in runs(event))


def runs(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """The single releases that `event` is made of, each once, with how often it happens."""
    counts: dict[DpEvent, int] = {}
    for part, count in _flat(event, 1):
        if count and not isinstance(part, dpa.NoOpDpEvent):
            counts[part] = counts.get(part, 0) + count
    return list(counts.items())


def from_runs(parts: Iterable[tuple[DpEvent, int]]) -> DpEvent:
    """The event made of single releases and their counts: the inverse of `runs`."""
    counts: dict[DpEvent, int] = {}
    for part, count in parts:
        if count:
            counts[part] = counts.get(part, 0) + count
    events = [part if count == 1 else dpa.SelfComposedDpEvent(part, count) for part, count in counts.items()]
    if not events:
        return dpa.NoOpDpEvent()
    return events[0] if len(events) == 1 else dpa.ComposedDpEvent(events)


def charged(part: DpEvent, relation: Relation) -> DpEvent:
    """What one release of `runs` costs under `relation`, as an event that the accountants know.

    Exactly-r becomes a Poisson sample at z/2. Under zero-out every sampled event is refused.
    """
    if relation is Relation.ZERO_OUT and isinstance(part, _SAMPLED):
        raise UsageError(
            "sampling amplifies nothing under zero-out, whose adversary sees who was drawn; "
            "use sampling_rate = 1 and the rounds in which the unit takes part"
        )
    if isinstance(part, dpa.SampledWithoutReplacementDpEvent) and isinstance(part.event, dpa.GaussianDpEvent):
        return sampled_gaussian(part.sample_size / part.source_dataset_size, part.event.noise_multiplier / 2)
    return part


_SAMPLED = (
    dpa.PoissonSampledDpEvent,
    dpa.SampledWithoutReplacementDpEvent,
    dpa.dp_event.TruncatedSubsampledGaussianDpEvent,
)


def _flat(event: DpEvent, count: int) -> Iterable[tuple[DpEvent, int]]:
    if isinstance(event, dpa.SelfComposedDpEvent):
        yield from _flat(event.event, count * int(event.count))
    elif isinstance(event, dpa.ComposedDpEvent):
        for part in event.events:
            yield from _flat(part, count)
    else:
        yield event, count


def _rate(value: float) -> float:
    q = checks.not_negative("sampling_rate", float(value))
    return checks.probability("sampling_rate", q) if q else 0.0


def _noise(value: float) -> float:
    z = float(value)
    return z if z == math.inf else checks.not_negative("noise_multiplier", z)
