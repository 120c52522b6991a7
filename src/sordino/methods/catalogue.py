"""All methods by name."""

from __future__ import annotations

from sordino.core.errors import unknown
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
    """The options class of a method; an unknown name is refused with the nearest known one."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
