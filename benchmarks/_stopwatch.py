"""Seconds spent inside some methods of classes, or functions of modules."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopwatch(
    clock: Callable[[], float] = time.perf_counter, **methods: tuple[Any, str]
) -> Generator[dict[str, float], None, None]:
    """Seconds by `clock` spent in some methods of classes or modules, by the names given to them."""
    spent, before = dict.fromkeys(methods, 0.0), {}

    def timed(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = clock()
            try:
                return inner(*arguments, **options)
            finally:
                spent[name] += clock() - start

        return call

    for name, (owner, method) in methods.items():
        before[name] = getattr(owner, method)
        setattr(owner, method, timed(name, before[name]))
    try:
        yield spent
    finally:
        for name, (owner, method) in methods.items():
            setattr(owner, method, before[name])
