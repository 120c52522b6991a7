"""A figure as SVG that stands in a page: the page's colours and type, light and dark."""

from __future__ import annotations

import io
import re

from matplotlib.figure import Figure

from sordino.experiment.style import VARIABLES


def inline(figure: Figure, key: str, alt: str) -> str:
    """A figure as SVG to stand in a page: its colours are the page's, its names unique, its text is text."""
    figure.patch.set_visible(False)
    text = _svg(figure)
    figure.patch.set_visible(True)
    for light, name in VARIABLES.items():
        text = text.replace(light, f"var(--{name})")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px var(--sans)", text)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{key}-", text)
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"\s*\n\s*", "\n", body)
    return f'<svg role="img" aria-label="{alt}" {box[0]} xmlns:xlink="http://www.w3.org/1999/xlink">{body}'


def _svg(figure: Figure) -> str:
    engine = figure.get_layout_engine()
    if engine is not None:  # once: a figure that is saved with an engine is laid out and drawn twice
        engine.execute(figure)
        figure.set_layout_engine("none")
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
