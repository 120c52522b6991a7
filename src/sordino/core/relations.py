"""Which two data sets a guarantee makes hard to tell apart."""

from __future__ import annotations

from enum import StrEnum


class Relation(StrEnum):
    """The neighbouring relation of a guarantee. An ε without its relation is not a guarantee.

    ADD_REMOVE: one unit is present or absent; a sum clipped at C moves by at most C. The default.
    REPLACE_ONE: one unit has other data; the sum moves by at most 2C.
    ZERO_OUT: a unit known to take part sends 0 instead; the relation against someone who sees who was
    drawn, so sampling amplifies nothing.
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"
