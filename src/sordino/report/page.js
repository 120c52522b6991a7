// Sorting by a click on a heading. Without scripts the tables stand as they are.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    if (body.rows[0]?.cells[column]?.classList.contains("n")) heading.classList.add("n");
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const of = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const order = (a, b) => (isNaN(of(a)) || isNaN(of(b)) ? of(a).localeCompare(of(b)) : of(a) - of(b));
      body.append(...[...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b))));
    });
  });
}
