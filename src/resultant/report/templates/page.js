"use strict";
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// A click on a heading sorts its column, a second click reverses the order; empty cells stay last.
for (const table of $$("table.sortable")) {
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

// The button above the snippet; where the clipboard is not allowed, the text is selected instead.
for (const button of $$("button.copy")) {
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copy);
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      done = "Selected: press Ctrl+C";
    }
    button.textContent = done;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// A link into a folded section opens it.
const unfold = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();

// Everything is unfolded on paper.
let folded = [];
addEventListener("beforeprint", () => {
  folded = $$("details:is(.section, .snippet):not([open])");
  for (const e of folded) e.open = true;
});
addEventListener("afterprint", () => { for (const e of folded) e.open = false; });

// The definition of a term appears while the mouse or the focus is on it; Escape closes it.
const card = document.getElementById("card");
let owner = null, leaving = 0;
const hide = () => {
  card.hidden = true;
  owner?.removeAttribute("aria-describedby");
  owner = null;
};
const show = (link) => {
  const entry = document.getElementById(link.dataset.term ?? link.hash.slice(1));
  if (!entry) return;
  clearTimeout(leaving);
  owner?.removeAttribute("aria-describedby");
  const name = document.createElement("strong");
  name.textContent = entry.querySelector("dt").textContent;
  card.replaceChildren(name, ...entry.querySelector("dd").cloneNode(true).childNodes);
  card.hidden = false;
  const box = link.getBoundingClientRect(), size = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - size.width - 8));
  const below = box.bottom + size.height + 12 < innerHeight || box.top < size.height + 12;
  card.style.left = `${left + scrollX}px`;
  card.style.top = `${(below ? box.bottom + 6 : box.top - size.height - 6) + scrollY}px`;
  owner = link.closest("button") ?? link;
  owner.setAttribute("aria-describedby", "card");
};
const later = () => { leaving = setTimeout(hide, 250); };
// A heading that sorts shows its first term when it has the focus.
const term = ({ target }) => !(target instanceof Element) ? null
  : target.closest(".term") ?? (target.matches("th button") ? target.querySelector(".term") : null);
addEventListener("mouseover", (e) => { const link = term(e); if (link) show(link); });
addEventListener("mouseout", (e) => { if (term(e)) later(); });
addEventListener("focusin", (e) => { const link = term(e); if (link) show(link); });
addEventListener("focusout", (e) => { if (term(e)) later(); });
card.addEventListener("mouseenter", () => clearTimeout(leaving));
card.addEventListener("mouseleave", later);
addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });
