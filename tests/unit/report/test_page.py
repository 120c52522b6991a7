"""The report in a browser: it loads nothing, complains of nothing, and can be read, light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordino.report import write_report

FIGURES = {
    "accuracy", "loss", "epsilon", "budgets", "noise", "cohort", "selection-0", "norms", "angles", "clip-factors",
    "fairness-clients", "fairness-groups", "time",
}  # fmt: skip

CONTRAST = """(() => {
  const rgb = (text) => { const c = text.match(/[\\d.]+/g).map(Number); return c.length < 4 ? [...c, 1] : c; };
  const light = ([r, g, b]) => {
    const f = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const c = rgb(getComputedStyle(node).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || ["SCRIPT", "STYLE"].includes(node.tagName) || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const [a, b] = [rgb(node.namespaceURI.endsWith("svg") ? style.fill : style.color), behind(node)].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, node.textContent.trim().slice(0, 40)]);
  }
  return found;
})()"""

OVERLAPS = """[...document.querySelectorAll("figure svg")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3).map(([two]) => `${one} | ${two}`));
})"""


@pytest.fixture(scope="module", name="page")
def _page(runs: Path) -> Path:
    return write_report([runs], runs / "report.html")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read(browser, page, dark, width):
    browser.open(page, dark=dark, width=width)
    assert browser.requests() == []
    assert browser.complaints() == []
    shown = browser.run('[...document.querySelectorAll("figure")].map(f => f.id)')
    assert {name.removeprefix("figure-") for name in shown} == FIGURES
    empty = 'figure svg:not([aria-label]), figure svg[aria-label=""]'
    assert browser.run(f"document.querySelectorAll('{empty}').length") == 0
    contrast = browser.run(CONTRAST)
    assert len(contrast) > 150
    assert min(contrast)[0] >= 4.5, min(contrast)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(22, 25, 29)" if dark else "rgb(255, 255, 255)"
    )
    assert browser.run("document.documentElement.scrollWidth") <= width  # wide tables scroll by themselves
    assert browser.run(OVERLAPS) == []


def test_what_must_not_happen_is_seen(browser, page, tmp_path):
    """The checks above, on a page that fails each of them."""
    text = page.read_text(encoding="utf-8")
    policy = text[text.index("<meta http-equiv") : text.index('<meta name="color-scheme"')]
    bad = '<p style="color:#999">pale</p><img src="http://127.0.0.1:9/x.png"><script>console.error("no")</script>'
    (tmp_path / "bad.html").write_text(text.replace(policy, "").replace("<header>", bad + "<header>"))
    browser.open(tmp_path / "bad.html")
    assert browser.requests() == ["http://127.0.0.1:9/x.png"]
    assert len(browser.complaints()) >= 1
    assert min(browser.run(CONTRAST))[0] < 4.5


def test_the_policy_of_the_page_stops_requests(browser, page, tmp_path):
    text = page.read_text(encoding="utf-8")
    bad = '<img src="http://127.0.0.1:9/x.png">'
    (tmp_path / "bad.html").write_text(text.replace("<header>", bad + "<header>"))
    browser.open(tmp_path / "bad.html")
    assert any("Content Security Policy" in complaint for complaint in browser.complaints())


SHOWN = """[...document.querySelector("table.sortable tbody").rows]
    .map((row) => [row.getBoundingClientRect().top, row.cells[%d].textContent])
    .sort((a, b) => a[0] - b[0]).map(([, text]) => text)"""
"""The texts of a column from top to bottom, as they are seen."""


def test_tables_sort_without_a_script(browser, page):
    assert "<script" not in page.read_text(encoding="utf-8")
    browser.open(page)
    heading = 'document.querySelector("table.sortable th:nth-child(%d) label").click()'
    as_it_stands = browser.run(SHOWN % 4)
    accuracies = [float(text.split()[0]) for text in as_it_stands]
    assert accuracies == sorted(accuracies, reverse=True)
    assert len(set(accuracies)) == 3
    browser.run(heading % 5)
    assert browser.run(SHOWN % 4) == as_it_stands[::-1]
    browser.run(heading % 1)
    names = browser.run(SHOWN % 0)
    assert names == sorted(names) == ["individual", "non-private", "strictest"]
    browser.run('document.querySelector("table.sortable .controls [type=checkbox]").click()')
    assert browser.run(SHOWN % 0) == names[::-1]
    browser.run('document.querySelector("table.sortable .controls [type=radio]").click()')
    assert browser.run(SHOWN % 4) == as_it_stands
    roles = browser.run(
        '[...document.querySelectorAll("table.sortable *")].map((e) => e.getAttribute("role"))'
    )
    assert {"rowgroup", "row", "columnheader", "cell"} <= set(roles)  # a grid would take them from a table


def test_each_table_sorts_by_itself_and_by_keys(browser, page):
    browser.open(page)
    names = browser.run(
        '[...document.querySelectorAll("table.sortable")].map((t) => t.querySelector("input").name)'
    )
    assert len(names) == len(set(names)) > 3
    before = browser.run(SHOWN % 4)
    browser.run(
        'document.querySelectorAll("table.sortable")[1].querySelector("th:nth-child(2) label").click()'
    )
    assert browser.run(SHOWN % 4) == before
    browser.run('document.querySelector("table.sortable th:nth-child(4) input").focus()')
    for key in ("ArrowRight", "ArrowRight"):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=39)
    chosen = 'document.querySelector("table.sortable input:checked").ariaLabel'
    assert browser.run(chosen) == "sort by loss"


def test_it_prints(browser, page, tmp_path):
    browser.open(page, dark=True, media="print")
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    ink_on_paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ink_on_paper == "rgb(255, 255, 255)"
