"""Errors that say what was wrong, where, and what would be right.

Every error that a user can cause is a `SordinoError` with a message of one line; the command line prints
that line and exits with `exit_code`. Anything else that escapes is a defect of Sordino.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Generator, Iterable
from contextlib import contextmanager


class SordinoError(Exception):
    """Something that Sordino could not do. Exit code 1."""

    exit_code = 1


class UsageError(SordinoError):
    """A wrong input: the message names the field, the value and the remedy. Exit code 2."""

    exit_code = 2


def why(error: OSError) -> str:
    """What the operating system refused, in words, with a remedy where there is a usual one."""
    remedy = REMEDIES.get(error.errno or 0, "")
    place = f"{error.filename}: " if error.filename else ""
    said = error.strerror or str(error)
    return f"{place}{said[:1].lower()}{said[1:]}{remedy}"


REMEDIES = {
    errno.ENOSPC: "; make room",
    errno.EDQUOT: "; make room",
    errno.EACCES: "; give another place, or change its rights",
    errno.EROFS: "; give another place",
    errno.EMFILE: "; raise the limit with ulimit -n",
    errno.ENOMEM: "; close something, or use fewer --workers",
}


class BudgetError(SordinoError):
    """A charge that somebody's budget does not allow. Nothing was charged and nothing was released."""


class LedgerError(SordinoError):
    """The ledger cannot be read, written or trusted. Nothing was released."""


@contextmanager
def said_of(what: object) -> Generator[None, None, None]:
    """Puts the name of what an error is about, such as a file, before the messages of errors raised inside."""
    try:
        yield
    except SordinoError as error:
        message = str(error)
        raise type(error)(message if message.startswith(str(what)) else f"{what}: {message}") from error


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`; did you mean 'clip_norm'?` for the nearest known name, or the known names if none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""


def unknown(what: str, wrong: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not in a closed list: `unknown method 'fedavgg'; did you mean 'fedavg'?`"""
    return UsageError(f"unknown {what} '{wrong}'{did_you_mean(wrong, known)}")
