"use strict";
// A click on a heading sorts its column, a second click reverses the order; empty cells stay last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, i) => head.firstElementChild.addEventListener("click", () => {
    const order = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order > 0 ? "ascending" : "descending");
    const key = (row) => row.cells[i].dataset.key;
    const numeric = (row) => row.cells[i].classList.contains("n");
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      const by = numeric(a) && numeric(b) ? Number(x) - Number(y)
        : x.localeCompare(y, "en", { numeric: true });
      return order * by;
    };
    body.append(...[...body.rows].sort(compare));
  }));
}
