"""What a report says in words: the result in a sentence, and the privacy statement as a box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from sordino.accounting.guarantee import Guarantee
from sordino.accounting.statement import rounded_up
from sordino.report.series import Series
from sordino.report.tables import spread


def result(series: Sequence[Series]) -> str:
    """The result: the best private series, and what it would be without privacy, if that was run."""
    private = [one for one in series if one.private]
    best = max(private or series, key=_accuracy)
    rounds = int(best.first.summary["rounds"])
    reached = f"{best.label} reaches {_reached(best)} after {rounds} round{'s' * (rounds != 1)}"
    if not private:
        return f"{reached}, and guarantees nothing."
    worst = best.first.statement.worst()
    sentence = (
        f"{reached}, at ε ≤ {rounded_up(worst.epsilon)} and δ = {worst.delta:.2g} {_against(worst.against)}"
    )
    others = [one for one in private if one is not best and len(one.values("accuracy"))]
    if others:
        other = max(others, key=_accuracy)
        epsilon = rounded_up(other.first.statement.worst().epsilon)
        sentence += f"; {other.label} reaches {_reached(other)} at ε ≤ {epsilon}"
    bare = [one for one in series if not one.private and len(one.values("accuracy"))]
    if bare:
        sentence += (
            f"; without privacy it is {_reached(max(bare, key=_accuracy)).removesuffix(' test accuracy')}"
        )
    return sentence + "."


def _accuracy(one: Series) -> float:
    values = one.values("accuracy")
    return float(values.mean()) if len(values) else -math.inf


def _reached(one: Series) -> str:
    values = one.values("accuracy")
    if not len(values):
        return "its last round"
    seeds = f" (mean of {len(values)} seeds)" if len(values) > 1 else ""
    return f"{spread(100 * values, '.1f', ' %')[0]} test accuracy{seeds}"


def _against(against: str) -> str:
    return "against outsiders" if against == "outsiders" else "against the server"


def statement_box(one: Series, folded: bool) -> str:
    """The statement of a series: both figures, large, and the whole paragraph below them."""
    statement = one.first.statement
    figures = "".join(
        f"<div><dt>{who}</dt><dd>{_figure(statement.of(against))}</dd></div>"
        for against, who in (("outsiders", "against outsiders"), ("server", "against the server"))
    )
    text = escape(statement.text())
    body = (
        f"<details><summary>The whole statement</summary><p>{text}</p></details>"
        if folded
        else f"<p>{text}</p>"
    )
    heads = f"<h3>{escape(one.label)}</h3>" if folded else ""
    return f'<section class="statement">{heads}<dl>{figures}</dl>{body}</section>'


def _figure(found: Sequence[Guarantee]) -> str:
    """The largest ε against one adversary, with everything that makes it a guarantee."""
    worst = max(found, key=lambda figure: figure.epsilon)
    if math.isinf(worst.epsilon):
        return f"<strong>no guarantee</strong><small>{escape(worst.note or 'nothing is guaranteed')}</small>"
    terms = f"per {worst.unit}, {worst.relation}, {worst.accountant.upper()}, {worst.trust}"
    return f"<strong>ε ≤ {rounded_up(worst.epsilon)}, δ = {worst.delta:.2g}</strong><small>{escape(terms)}</small>"
