from collections.abc import Sequence
from pathlib import Path

import pytest

from sordino.core.errors import UsageError
from sordino.core.options import check_options, option_names


def maker(
    shape: tuple[int, ...],
    width: int,
    rate: float = 0.1,
    names: Sequence[str] | None = None,
    to: Path | str = "",
) -> None:
    """Takes options."""


class Made:
    """A class as a maker."""

    def __init__(self, width: int, names: Sequence[str] = ()) -> None:
        self.width = width


def test_names_leave_out_what_the_caller_gives():
    assert option_names(maker, ("shape",)) == ("width", "rate", "names", "to")


@pytest.mark.parametrize(
    "options",
    [
        {"width": 3},
        {"width": 3, "rate": 1, "names": ["a"], "to": "x"},
        {"width": 3, "names": None, "to": Path("x")},
    ],
)
def test_right_options_pass(options: dict[str, object]):
    check_options("it", maker, options, ("shape",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widht": 3}, "unknown option of it: 'widht'; did you mean 'width'"),
        ({"shape": (3,), "width": 3}, "unknown option of it: 'shape'"),
        ({}, "it needs width; its options: width, rate, names, to"),
        ({"width": "3"}, "it: width = '3': input should be a valid integer"),
        ({"width": True}, "it: width = True"),
        ({"width": 3, "rate": "fast"}, "it: rate = 'fast'"),
        ({"width": 3, "names": [1]}, "it: names = "),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        check_options("it", maker, options, ("shape",))
    assert "\n" not in str(caught.value)


def test_classes_and_unresolvable_types():
    check_options("it", Made, {"width": 3}, ())
    with pytest.raises(UsageError, match="width = 'a'"):
        check_options("it", Made, {"width": "a"}, ())

    def theirs(width: "Unresolvable") -> None:  # noqa: F821
        """Names a type that is nowhere."""

    check_options("it", theirs, {"width": "anything"}, ())
