// The page: charts, tables that sort, code to copy, folds on paper.
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// A click on a heading sorts its column, a second click reverses the order; empty cells stay last.
for (const table of $$("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, i) => head.firstElementChild.addEventListener("click", () => {
    const order = head.ariaSort === "descending" ? 1 : -1;
    heads.forEach((other) => { other.ariaSort = null; });
    head.ariaSort = order > 0 ? "ascending" : "descending";
    const compare = (a, b) => {
      const [x, y] = [a, b].map((row) => row.cells[i].dataset.key);
      if (x === "" || y === "") return (x === "") - (y === "");
      return order * (head.classList.contains("n") ? Number(x) - Number(y) : x.localeCompare(y, "en", { numeric: true }));
    };
    body.append(...[...body.rows].sort(compare));
  }));
}

// Selected and copied; where copying is not allowed, the selection remains.
for (const button of $$("button.copy")) {
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// A link into a fold opens it.
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  target?.scrollIntoView?.();
}
addEventListener("hashchange", unfold);

// Paper has everything unfolded.
let folded = [];
addEventListener("beforeprint", () => {
  folded = $$("details:not([open])");
  for (const e of folded) e.open = true;
});
addEventListener("afterprint", () => { for (const e of folded) e.open = false; });

// The map: colours, and zoom by double click, by the keys + and -, or by buttons.
function prepareMap(form) {
  const figure = form.closest("figure"), svg = figure.querySelector("svg.chart");
  const classes = svg.chart.marks[0].legend ?? [];
  form.addEventListener("change", () => {
    const [mark] = svg.chart.marks, by = form.elements.colour.value;
    mark.colour = mark.colours[by];
    mark.legend = by === "error" ? [["right", "#8A8A8A", "circle"], ["wrong", "#D55E00", "circle"]] : classes;
    figure.querySelector(".legend").innerHTML = chart.legend([mark]);
    chart.draw(svg, svg.chart);
  });
  const zoom = (factor) => {
    const { left, top, width, height } = svg.getBoundingClientRect();
    const [x, y] = svg.targets[svg.target] ?? [svg.drawnWidth / 2, height / 2];
    chart.zoom(svg, factor, left + (x * width) / svg.drawnWidth, top + (y * width) / svg.drawnWidth);
  };
  svg.addEventListener("dblclick", (event) => chart.zoom(svg, 2, event.clientX, event.clientY));
  svg.addEventListener("keydown", ({ key }) => { if (key in KEYS) zoom(KEYS[key]); });
  for (const button of $$("button", form)) button.addEventListener("click", () => zoom(Number(button.value)));
}
const KEYS = { "+": 2, "-": 0.5, 0: 0 };

// A class that is searched is ringed in all charts of its feature set, and marked in its tables.
function prepareSearch(form, names) {
  const panel = form.closest(".set");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const wanted = form.elements.name.value.trim().toLowerCase();
    let c = names.findIndex((name) => name.toLowerCase() === wanted);
    if (c < 0 && wanted) c = names.findIndex((name) => name.toLowerCase().startsWith(wanted));
    form.querySelector("output").value = wanted && c < 0 ? "no such class" : c < 0 ? "" : `ringed: ${names[c]}`;
    for (const svg of $$("svg[data-chart]", panel)) chart.draw(svg, { ...svg.chart, followed: c });
    for (const row of $$("tbody tr", panel)) row.classList.toggle("followed", row.cells[0].textContent === names[c]);
  });
}

async function main() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  for (const svg of $$("svg[data-chart]")) {
    const { charts, names } = data[svg.dataset.tab], spec = charts[svg.dataset.chart];
    chart.draw(svg, { ...spec, names });
    svg.parentElement.querySelector(".legend").innerHTML = chart.legend(spec.marks);
  }
  for (const form of $$("form[data-map]")) prepareMap(form);
  for (const form of $$("form[data-search]")) prepareSearch(form, data[form.dataset.search].names);
  for (const form of $$("form.explorer")) new Explorer(form, data[form.dataset.tab].explorer);
  unfold();
  document.body.dataset.ready = "yes";
}
main();
