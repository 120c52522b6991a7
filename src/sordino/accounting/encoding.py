"""Events as JSON and as text: what the ledger stores and a statement says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dp_accounting as dpa

from sordino.accounting import events
from sordino.core.errors import UsageError, unknown

Json = dict[str, Any]


def event_to_json(event: events.DpEvent) -> list[Json]:
    """`event` as run lengths: one small dictionary for each different release, with its `count`."""
    return [{**_part_to_json(part), "count": count} for part, count in events.runs(event)]


def event_from_json(parts: list[Json]) -> events.DpEvent:
    """The inverse of `event_to_json`. Unknown kinds and missing fields are refused."""
    return events.from_runs((_part_from_json(part), int(part.get("count", 1))) for part in parts)


def describe(event: events.DpEvent) -> str:
    """One line for people: `50 × Gaussian(z = 1) on a Poisson sample (q = 0.02)`."""
    parts = [f"{count} × {_part_text(part)}" for part, count in events.runs(event)]
    return " + ".join(parts) if parts else "nothing released"


def _part_to_json(part: events.DpEvent) -> Json:
    match part:
        case dpa.GaussianDpEvent():
            return {"kind": "gaussian", "z": part.noise_multiplier}
        case dpa.PoissonSampledDpEvent():
            return {**_part_to_json(part.event), "q": part.sampling_probability}
        case dpa.dp_event.TruncatedSubsampledGaussianDpEvent():
            return {
                "kind": "capped-gaussian",
                "q": part.sampling_probability,
                "z": part.noise_multiplier,
                "clients": part.dataset_size,
                "cap": part.truncated_batch_size,
            }
        case dpa.SampledWithoutReplacementDpEvent(event=dpa.GaussianDpEvent() as inner):
            return {
                "kind": "exactly-gaussian",
                "drawn": part.sample_size,
                "clients": part.source_dataset_size,
                "z": inner.noise_multiplier,
            }
        case events.SkellamDpEvent():
            return {"kind": "skellam", "variance": part.variance, "l2": part.l2, "l1": part.l1}
        case dpa.NonPrivateDpEvent():
            return {"kind": "non-private"}
        case _:
            raise UsageError(
                f"{type(part).__name__} is not an event of Sordino; see sordino.accounting.events"
            )


_BUILDERS: dict[str, Callable[[Json], events.DpEvent]] = {
    "gaussian": lambda j: events.sampled_gaussian(j.get("q", 1.0), j["z"]),
    "capped-gaussian": lambda j: events.capped_sampled_gaussian(j["q"], j["z"], j["clients"], j["cap"]),
    "exactly-gaussian": lambda j: events.exactly(j["drawn"], j["clients"], j["z"]),
    "skellam": lambda j: events.skellam(j["variance"], l2=j["l2"], l1=j["l1"], sampling_rate=j.get("q", 1.0)),
    "non-private": lambda _: dpa.NonPrivateDpEvent(),
}


def _part_from_json(part: Json) -> events.DpEvent:
    kind = str(part.get("kind"))
    if kind not in _BUILDERS:
        raise unknown("kind of event", kind, _BUILDERS)
    try:
        return _BUILDERS[kind](part)
    except KeyError as missing:
        raise UsageError(f"event '{kind}' lacks its field {missing}") from None


def _part_text(part: events.DpEvent) -> str:
    match part:
        case dpa.GaussianDpEvent():
            return f"Gaussian(z = {part.noise_multiplier:g})"
        case dpa.PoissonSampledDpEvent():
            return f"{_part_text(part.event)} on a Poisson sample (q = {part.sampling_probability:g})"
        case dpa.dp_event.TruncatedSubsampledGaussianDpEvent():
            return (
                f"Gaussian(z = {part.noise_multiplier:g}) on a Poisson sample "
                f"(q = {part.sampling_probability:g}, "
                f"at most {part.truncated_batch_size} of {part.dataset_size})"
            )
        case dpa.SampledWithoutReplacementDpEvent(event=dpa.GaussianDpEvent() as inner):
            return (
                f"Gaussian(z = {inner.noise_multiplier:g}) on exactly {part.sample_size} "
                f"of {part.source_dataset_size}"
            )
        case events.SkellamDpEvent():
            return f"Skellam(variance = {part.variance:g}, l2 = {part.l2:g}, l1 = {part.l1:g})"
        case dpa.NonPrivateDpEvent():
            return "release without privacy"
        case _:
            raise UsageError(
                f"{type(part).__name__} is not an event of Sordino; see sordino.accounting.events"
            )
