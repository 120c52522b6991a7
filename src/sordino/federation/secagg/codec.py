"""One encoding for each value: frozen dataclasses of whole numbers, texts, bytes, and tuples, as bytes.

No choice is left (fixed-width numbers, lengths before contents, fields in order), so equal values have equal
bytes, a hash of them names the value, and decoding refuses every other sequence of bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sordino.federation.secagg.reasons import Reason, Refused

MAGIC = b"SDSA"
VERSION = 1

T = TypeVar("T")


def encode(value: Any) -> bytes:
    """The bytes of a dataclass: magic, version, the name of its type, and its fields."""
    parts = [MAGIC, bytes([VERSION])]
    _put(parts, str, type(value).__name__)
    _put(parts, type(value), value)
    return b"".join(parts)


def decode(kind: type[T], data: bytes) -> T:
    """The value of type `kind` that `data` encodes; refuses everything that `encode` does not produce."""
    if kind_of(data) != kind.__name__:
        raise Refused(Reason.MALFORMED, f"a {kind_of(data)} where a {kind.__name__} was expected")
    view = _View(data, len(MAGIC) + 1)
    view.take(str)
    value = view.take(kind)
    if view.at != len(data):
        raise Refused(Reason.MALFORMED, f"{len(data) - view.at} bytes too many")
    return value


def kind_of(data: bytes) -> str:
    """The name of the type whose value `data` encodes; refuses other formats and versions by name."""
    if data[: len(MAGIC)] != MAGIC or len(data) <= len(MAGIC):
        raise Refused(Reason.MALFORMED, "not a message of secure aggregation")
    if data[len(MAGIC)] != VERSION:
        raise Refused(Reason.VERSION, f"version {data[len(MAGIC)]}, this is version {VERSION}")
    return _View(data, len(MAGIC) + 1).take(str)


def digest(value: Any) -> bytes:
    """SHA-256 of the value's bytes."""
    return hashlib.sha256(encode(value)).digest()


@lru_cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(kind))


def _put(parts: list[bytes], kind: Any, value: Any) -> None:
    if get_origin(kind) is tuple:
        parts.append(len(value).to_bytes(8, "big"))
        for item in value:
            _put(parts, get_args(kind)[0], item)
    elif dataclasses.is_dataclass(kind):
        for name, inner in _fields(kind):  # type: ignore[arg-type]
            _put(parts, inner, getattr(value, name))
    elif kind is bytes or kind is str:
        data: bytes = value.encode() if kind is str else value
        parts.extend((len(data).to_bytes(8, "big"), data))
    else:
        parts.append(int(value).to_bytes(1 if kind is bool else 8, "big"))


class _View:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, kind: Any) -> Any:
        if get_origin(kind) is tuple:
            return tuple(self.take(get_args(kind)[0]) for _ in range(self._length()))
        if dataclasses.is_dataclass(kind):
            return kind(*(self.take(inner) for _, inner in _fields(kind)))  # type: ignore[arg-type, operator]
        if kind is bytes:
            return self._bytes(self._length())
        if kind is str:
            return self._text()
        if kind is bool:
            flag = self._bytes(1)[0]
            if flag > 1:
                raise Refused(Reason.MALFORMED, f"{flag} is neither yes nor no")
            return bool(flag)
        return int.from_bytes(self._bytes(8), "big")

    def _length(self) -> int:
        length = int.from_bytes(self._bytes(8), "big")
        if length > len(self.data) - self.at:
            raise Refused(Reason.MALFORMED, "a length goes beyond the end")
        return length

    def _bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise Refused(Reason.MALFORMED, "the message ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def _text(self) -> str:
        try:
            return self._bytes(self._length()).decode()
        except UnicodeDecodeError as error:
            raise Refused(Reason.MALFORMED, "a text is not UTF-8") from error
