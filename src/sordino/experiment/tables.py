"""A table of text, in the forms in which people want it."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

TEX = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "±": r"$\pm$", "∞": r"$\infty$", "–": "--", "−": "$-$",
}  # fmt: skip


@dataclass(frozen=True)
class TextTable:
    """A header, rows, and remarks below. The first `labels` columns are names and the others figures; rows in
    `best` are marked: bold, and on a terminal with a star."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    best: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """A table of GitHub's Markdown; best rows are bold."""
        rule = ["---"] * self.labels + ["---:"] * (len(self.header) - self.labels)
        lines = [self.header, tuple(rule)]
        for place, row in enumerate(self.rows):
            marked = place in self.best
            lines.append(
                tuple(f"**{cell}**" if marked and cell else cell.replace("|", r"\|") for cell in row)
            )
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([table, *self.notes]) + "\n"

    def csv(self) -> str:
        """Comma-separated values, without marks and remarks."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()

    def latex(self) -> str:
        """A booktabs table; best rows are bold, remarks are comments."""
        columns = "l" * self.labels + "r" * (len(self.header) - self.labels)
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", self._tex(self.header), r"\midrule"]
        for place, row in enumerate(self.rows):
            lines.append(self._tex(row, bold=place in self.best))
        lines += [r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def _tex(self, row: tuple[str, ...], *, bold: bool = False) -> str:
        cells = ["".join(TEX.get(sign, sign) for sign in cell) for cell in row]
        return " & ".join(rf"\textbf{{{cell}}}" if bold and cell else cell for cell in cells) + r" \\"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
        for place, name in enumerate(self.header):
            label = place < self.labels
            words = " ".join([name, *(row[place] for row in self.rows)]).split()
            least = max(map(len, words), default=0)
            table.add_column(name, justify="left" if label else "right", min_width=least)
        for place, (first, *rest) in enumerate(self.rows):
            best = place in self.best
            table.add_row(f"* {first}" if best else first, *rest, style="bold" if best else None)
        yield table
        yield from self.notes
