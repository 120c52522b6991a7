"""All methods by name."""

from __future__ import annotations

from sordino.core.errors import unknown
from sordino.methods.base import MethodOptions
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.fedavg import FedAvg

METHODS: dict[str, type[MethodOptions]] = {options.name: options for options in (FedAvg, DpFedAvg)}


def method_named(name: str) -> type[MethodOptions]:
    """The options class of a method; an unknown name is refused with the nearest known one."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
