"""One HTML file: no network, no script, light and dark, and fit to print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

from sordino._version import __version__
from sordino.experiment.style import DARK, VARIABLES
from sordino.report import budgets, fairness, tables, training, words
from sordino.report.drawing import Drawing
from sordino.report.series import Series

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'"
"""Forbids the browser to load anything for this page, whatever may stand in it."""


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it; left out if there is nothing."""

    title: str
    parts: tuple[Drawing | str | None, ...]
    note: str = ""

    def html(self) -> str:
        """The section, or nothing."""
        drawings = [part for part in self.parts if isinstance(part, Drawing)]
        texts = "".join(part for part in self.parts if isinstance(part, str))
        if not drawings and not texts:
            return ""
        figures = f'<div class="figures">{"".join(d.html() for d in drawings)}</div>' if drawings else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f"<section><h2>{escape(self.title)}</h2>{note}{figures}{texts}</section>"


def sections(series: Sequence[Series]) -> list[Section]:
    """Everything below the statement, in its order."""
    return [
        Section("Result by run", (tables.runs(series),)),
        Section(
            "Accuracy and loss",
            (training.accuracy(series), training.loss(series), training.accuracy_by_epsilon(series)),
        ),
        Section(
            "Budgets",
            (budgets.budgets(series), budgets.noise_and_signal(series), tables.groups(series)),
        ),
        Section("Audit", (tables.audits(series),)),
        Section("Who takes part", (training.cohorts(series), *_selections(series))),
        Section("Updates", (training.norms(series), training.angles(series), training.clip_factors(series))),
        Section(
            "Fairness", (fairness.over_clients(series), fairness.by_group(series), fairness.table(series))
        ),
        Section("Time", (training.time(series), tables.parts_of_a_round(series))),
        Section("To do it again", (*_recipes(series), tables.provenance(series))),
    ]


def _selections(series: Sequence[Series]) -> Iterable[Drawing | None]:
    return [budgets.selection(one) for one in budgets.drawn_series(series)]


def _recipes(series: Sequence[Series]) -> Iterable[str]:
    for one in series:
        if one.first.recipe:
            yield (f"<details><summary>Recipe of {escape(one.label)}</summary>{tables.recipe(one)}</details>")


def page(series: Sequence[Series], parts: Sequence[Section], notes: Sequence[str]) -> str:
    """The whole file."""
    boxes = "".join(words.statement_box(one, folded=len(series) > 1) for one in series)
    noted = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    title = f"Sordino: {series[0].label}" + (f" and {len(series) - 1} more" if len(series) > 1 else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f"<style>{_variables()}{_style()}</style></head><body><main>"
        f'<header><p class="kind">Sordino report</p><h1>{_unbroken(words.result(series))}</h1>{noted}</header>'
        f'<section><h2>Privacy statement</h2><div class="boxes">{boxes}</div></section>'
        f"{''.join(part.html() for part in parts)}"
        f"<footer>Made by Sordino {__version__}. This file loads nothing from anywhere and holds no script.</footer>"
        "</main></body></html>\n"
    )


def _variables() -> str:
    """The colours of figures and text, for light and dark pages."""
    light = "".join(f"--{name}:{value};" for value, name in VARIABLES.items())
    dark = "".join(f"--{VARIABLES[value]}:{other};" for value, other in DARK.items())
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _unbroken(sentence: str) -> str:
    """The sentence, with its formulas kept on one line each."""
    return re.sub(r"(?<=[εδ]) ([≤=]) ", "\u00a0\\1\u00a0", escape(sentence))


MOST_COLUMNS = 16
"""Columns by which a table can be sorted."""


@cache
def _style() -> str:
    sheet = files("sordino.report").joinpath("page.css").read_text(encoding="utf-8")
    chosen = "".join(
        f".sortable:has(th:nth-child({at + 1}) :checked) tbody tr{{order:calc(var(--sign)*var(--r{at}))}}"
        for at in range(MOST_COLUMNS)
    )
    return f"{sheet}@supports (grid-template-columns: subgrid) and selector(:has(a)) {{{chosen}}}"
