"""The report of one run or of many: what was reached, at what price, for whom, in one file to hand on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sordino.core.files import write_text
from sordino.experiment.style import house_style
from sordino.report.drawing import Drawing
from sordino.report.page import page, sections
from sordino.report.records import find
from sordino.report.series import grouped

__all__ = ["write_report"]

LEFT_OUT = (
    "Public: what no budget paid for is left out. That is realised cohorts, norms, clip factors, losses of clients "
    "and times, and the seeds, with which the noise could be taken off."
)
NO_SCORES = (
    "Accuracy and loss are left out, too: they were measured on rows that nobody declared to be public, such as a part "
    "of the clients' own file. Name public rows with [data] test, or DataSet(public_test=True), to show them."
)


def write_report(
    runs: Sequence[Path | str],
    out: Path | str,
    *,
    public: bool | None = None,
    figures: Path | str | None = None,
) -> Path:
    """Writes one self-contained HTML file about the runs in folders; returns its path.

    `runs` are folders of runs, or folders that hold some. Runs that differ only in their seed share a line and a
    band. A `public` report uses nothing that no budget paid for; None makes it public if any run was on somebody's
    own data. With a folder for `figures` each is saved there, too, as SVG and PDF. Refuses runs that are not
    finished, where there are no others.
    """
    found = find([Path(run) for run in runs])
    hide = not all(record.rows.public for record in found.records) if public is None else public
    records = [record.public() for record in found.records] if hide else found.records
    notes = [LEFT_OUT] if hide else []
    if hide and not all(record.rows.public_test for record in found.records):
        notes.append(NO_SCORES)
    if found.unfinished:
        notes.append(
            f"Not finished, and not in this report: {', '.join(path.name for path in found.unfinished)}."
        )
    with house_style():
        series = grouped(records)
        parts = sections(series)
        text = page(series, parts, notes)
        if figures is not None:
            for part in parts:
                for drawing in part.parts:
                    if isinstance(drawing, Drawing):
                        drawing.save(Path(figures))
    write_text(Path(out), text)
    return Path(out)
