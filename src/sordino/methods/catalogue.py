"""All methods by name."""

from __future__ import annotations

import dataclasses
import inspect
from typing import cast

from sordino.core.errors import UsageError, unknown
from sordino.core.imports import imported
from sordino.methods.base import MethodOptions
from sordino.methods.ce_fedavg import CeFedAvg
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.fedavg import FedAvg
from sordino.methods.fedfair import FedFair
from sordino.methods.fedfdp import FedFdp
from sordino.methods.gdpfed import GdpFed
from sordino.methods.gdpfed_op import GdpFedOp
from sordino.methods.gdpfed_plus import GdpFedPlus
from sordino.methods.house import House
from sordino.methods.house_record import HouseRecord
from sordino.methods.idp_fedavg import IdpFedAvg
from sordino.methods.model_clip_fedavg import ModelClipFedAvg
from sordino.methods.pfa import Pfa
from sordino.methods.record_dp_fedavg import RecordDpFedAvg
from sordino.methods.time_adaptive import TimeAdaptive

METHODS: dict[str, type[MethodOptions]] = {
    options.name: options
    for options in (
        FedAvg,
        DpFedAvg,
        GdpFed,
        GdpFedOp,
        GdpFedPlus,
        House,
        HouseRecord,
        IdpFedAvg,
        Pfa,
        TimeAdaptive,
        RecordDpFedAvg,
        FedFdp,
        FedFair,
        ModelClipFedAvg,
        CeFedAvg,
    )
}


def method_named(name: str) -> type[MethodOptions]:
    """The options class of a method: a name of the catalogue, or the import path `package.module:Class` of a frozen
    dataclass of your own. An unknown name is refused with the nearest known one."""
    if ":" in name:
        return _own(name)
    if name not in METHODS:
        raise unknown("method", name, [*METHODS, "package.module:Class"])
    return METHODS[name]


def name_of(method: MethodOptions) -> str:
    """What `method_named` finds a method by."""
    kind = type(method)
    return method.name if METHODS.get(method.name) is kind else f"{kind.__module__}:{kind.__qualname__}"


def _own(path: str) -> type[MethodOptions]:
    kind = imported("method", path)
    lacks = [part for part in ("name", "summary", "compose") if not hasattr(kind, part)]
    if not (inspect.isclass(kind) and dataclasses.is_dataclass(kind)) or lacks:
        raise UsageError(
            f"method '{path}' must be a frozen dataclass with a name, a summary, a field privacy and "
            f"compose(population, streams)" + (f"; it lacks {', '.join(lacks)}" if lacks else "")
        )
    if "privacy" not in {field.name for field in dataclasses.fields(kind)}:
        raise UsageError(f"method '{path}' lacks the field privacy: Terms = field(default_factory=Terms)")
    return cast("type[MethodOptions]", kind)
