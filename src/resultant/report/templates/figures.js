// The figures: drawn by Bokeh in the colours of the page, those of folded sections while nothing else happens.
const NUMBER = "0,0.[0000]";
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const known = (values) => values.map((v) => v ?? NaN);

const figures = {
  sections: {}, classes: {}, drawn: {}, listeners: [],

  // The numbers of the page are compressed JSON.
  async read() {
    const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
    const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    Object.assign(this, await new Response(text).json());
  },

  async open() {
    for (const section of $$("details.section")) {
      section.addEventListener("toggle", () => this.draw(section));
    }
    for (const fold of $$("details.numbers")) fold.addEventListener("toggle", () => this.list(fold));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    addEventListener("beforeprint", () => this.print());
    addEventListener("afterprint", () => this.unprint());
    await Promise.all($$("details.section[open]").map((section) => this.draw(section)));
  },

  // Paper has the figures of folded sections too, and cannot wait for them.
  async prepare() {
    for (const section of $$("details.section:not([open])")) {
      await new Promise((next) => (globalThis.requestIdleCallback ?? setTimeout)(next));
      await this.draw(section);
    }
  },

  async draw(section) {
    const charts = this.sections[section.id], group = section.dataset.group;
    if (!charts) return;
    const own = this.drawn[section.id] ?? this.make(section, charts, group);
    await own.done;
    if (section.open) for (const [from, to] of own.moves.splice(0)) to.append(...from.childNodes);
  },

  make(section, charts, group) {
    const own = { sources: {}, rings: [], plots: [], places: [], moves: [], tables: {}, group };
    this.drawn[section.id] = own;
    const drawn = new Bokeh.Document();
    for (const chart of charts) {
      own.plots.push(new Plot(chart, group, own).figure);
      drawn.add_root(own.plots.at(-1));
      own.places.push(document.getElementById(`plot-${chart.name}`));
    }
    this.paint();
    // Before they are drawn, so that no figure is empty.
    this.tell("drawn", group, null);
    // A folded section has no width: its figures are drawn beyond the window.
    if (!section.open) own.moves = own.places.map((to) => [document.getElementById("beyond").appendChild(document.createElement("div")), to]);
    const into = section.open ? own.places : own.moves.map(([from]) => from);
    own.done = Bokeh.embed.add_document_standalone(drawn, section, into);
    return own;
  },

  // A canvas does not follow the width of paper: figures are printed as vector graphics in light colours.
  print() {
    document.documentElement.classList.add("paper");
    this.paint();
    for (const { plots, places } of Object.values(this.drawn)) {
      plots.forEach((plot, i) => {
        const view = Bokeh.index.find_one(plot);
        if (!view) return;
        const { width, height } = view.bbox;
        places[i].insertAdjacentHTML("beforeend", view.export("svg").ctx.get_serialized_svg(true));
        places[i].lastElementChild.setAttribute("viewBox", `0 0 ${width} ${height}`);
      });
    }
  },

  unprint() {
    for (const svg of $$(".plot > svg")) svg.remove();
    document.documentElement.classList.remove("paper");
    this.paint();
  },

  // Sections that were never unfolded have no sources.
  all(name) {
    return Object.values(this.drawn).map((own) => own.sources[name]).filter((source) => source);
  },

  source(name) { return this.all(name)[0] ?? null; },

  // Changes columns of a source.
  set(name, data) {
    for (const source of this.all(name)) source.setv({ data: { ...source.data, ...data } });
  },

  // A canvas does not inherit the colours of the page.
  paint() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ink = colour("--text"), soft = colour("--soft"), grid = colour("--grid");
    for (const plot of Object.values(this.drawn).flatMap((own) => own.plots)) {
      for (const axis of [...plot.below, ...plot.left]) {
        axis.setv({
          axis_line_color: soft, major_tick_line_color: soft, minor_tick_line_color: null,
          major_label_text_color: soft, axis_label_text_color: ink,
        });
      }
      for (const part of plot.center) if (part.type === "Grid") part.setv({ grid_line_color: grid });
      for (const mark of plot.renderers) {
        if (mark.name === "followed") mark.glyph.setv({ text_color: { value: ink } });
      }
    }
  },

  tell(what, group, value) { for (const hear of this.listeners) hear(what, group, value); },

  // Rings a class in every figure; null for none.
  follow(group, c) {
    const wanted = c === null ? [] : [c];
    for (const own of Object.values(this.drawn).filter((o) => o.group === group)) {
      const { selected } = own.sources[`${group}-class`] ?? {};
      if (selected && selected.indices.join() !== wanted.join()) selected.setv({ indices: wanted });
      for (const { ring, kind, x, y, source } of own.rings) {
        const data = { x: [], y: [], name: [] }, from = source.data;
        const rows = c === null ? [] : kind === "class" ? [c]
          : [...from.first.keys()].filter((i) => from.first[i] === c || from.second[i] === c);
        for (const i of rows) {
          data.x.push(from[x][i]);
          data.y.push(from[y][i]);
          data.name.push(kind === "class" ? from.name[i] : "");
        }
        ring.setv({ data });
      }
    }
    const name = c === null ? null : this.classes[group].name[c];
    for (const row of $$(`details[data-group="${CSS.escape(group)}"] table.sortable tbody tr`)) {
      row.classList.toggle("followed-row", row.cells[0].textContent === name);
    }
  },

  refresh() { for (const fold of $$("details.numbers[open]")) this.list(fold); },

  // The numbers of a figure as tables.
  list(fold) {
    const own = Object.values(this.drawn).find((o) => o.tables[fold.dataset.plot]);
    if (!fold.open || !own) return;
    const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
    const shown = (v) => typeof v !== "number" ? String(v ?? "–")
      : Number.isNaN(v) ? "–" : String(Number(v.toPrecision(5)));
    const tables = own.tables[fold.dataset.plot].map(({ title, source, columns, factors }) => {
      const { data } = source, table = document.createElement("table");
      table.append(cell("caption", title));
      const head = table.createTHead().insertRow(), body = table.createTBody();
      for (const [heading] of columns) head.append(Object.assign(cell("th", heading), { scope: "col" }));
      const all = data[columns[0][1]].length, rows = Math.min(all, 1000);
      if (all > rows) table.caption.append(`: the first ${rows.toLocaleString("en")} of ${all.toLocaleString("en")}`);
      for (let i = 0; i < rows; i++) {
        const row = body.insertRow();
        columns.forEach(([, column], j) => {
          const value = data[column][i], factor = j === 0 ? factors[Math.round(value)] : undefined;
          row.append(cell("td", factor ?? shown(value)));
          if (typeof value === "number" && factor === undefined) row.lastChild.className = "n";
        });
      }
      return table;
    });
    fold.querySelector(".scroll").replaceChildren(...tables);
  },
};

// One figure of Bokeh from the axes and marks of a chart.
class Plot {
  constructor(chart, group, own) {
    Object.assign(this, { chart, group, own });
    own.tables[chart.name] = [];
    const { x, y } = chart;
    const range = ({ ends }) => ends ? new Bokeh.Range1d({ start: ends[0], end: ends[1] }) : undefined;
    const options = {
      height: 300, sizing_mode: "stretch_width", tools: [], toolbar_location: null,
      x_axis_type: this.logarithmic(x, "x") ? "log" : "linear",
      y_axis_type: this.logarithmic(y, "y") ? "log" : "linear",
      x_axis_label: x.label, y_axis_label: y.label,
      background_fill_color: null, border_fill_color: null, outline_line_color: null,
    };
    if (x.ends) options.x_range = range(x);
    if (y.ends) options.y_range = range(y);
    this.figure = new Bokeh.Plotting.Figure(options);
    const text = {
      axis_label_text_font_style: "normal", axis_label_text_font_size: "13px", axis_label_text_font: FONT,
      major_label_text_font_size: "12px", major_label_text_font: FONT,
    };
    for (const axis of [...this.figure.below, ...this.figure.left]) axis.setv(text);
    for (const [axis, { ticks }] of [[this.figure.below[0], x], [this.figure.left[0], y]]) {
      if (!ticks.length) continue;
      const ticker = new Bokeh.FixedTicker({ ticks: ticks.map(([at]) => at) });
      axis.setv({ ticker, major_label_overrides: new Map(ticks) });
      const grid = this.figure.center.find((part) => part.type === "Grid" && part.dimension === (axis === this.figure.left[0] ? 1 : 0));
      grid.setv(x.factors.length && grid.dimension === 0 ? { visible: false } : { ticker });
    }
    if (chart.diagonal) {
      const look = { line_color: "#8a8a8a", line_dash: "dotted" };
      this.figure.add_layout(new Bokeh.Slope({ gradient: 1, y_intercept: 0, ...look }));
    }
    chart.marks.forEach((mark, i) => this[mark.type](mark, i));
  }

  // A logarithmic axis needs a positive value.
  logarithmic(axis, column) {
    return axis.log && this.chart.marks.some((m) => Array.isArray(m[column]) && m[column].some((v) => v > 0));
  }

  source(name, data) {
    const source = new Bokeh.ColumnDataSource({ data });
    this.own.sources[name] = source;
    return source;
  }

  hover(renderer, tooltips) {
    // Where thousands of classes lie on each other, a list of all would fill the window.
    this.figure.add_tools(new Bokeh.HoverTool({ renderers: [renderer], tooltips, point_policy: "snap_to_data", limit: 3 }));
  }

  numbers(x = "x", y = "y") {
    const shown = [[this.chart.x.label, x], [this.chart.y.label, y]].filter(([label]) => label);
    return shown.map(([label, column]) => [label, `@{${column}}{${NUMBER}}`]);
  }

  table(title, source, columns) {
    const factors = this.chart.x.factors;
    this.own.tables[this.chart.name].push({ title: title || this.chart.title, source, columns, factors });
  }

  level({ at, upright, colour, dash }) {
    const look = { line_color: colour, line_dash: dash, line_width: 1 };
    this.figure.add_layout(new Bokeh.Span({ location: at, dimension: upright ? "height" : "width", ...look }));
  }

  line(mark, i) {
    const { x, y } = this.chart, field = { x: { field: "x" }, y: { field: "y" } };
    const source = this.source(`${this.chart.name}-${mark.name || i}`, { x: known(mark.x), y: known(mark.y) });
    const look = { line_color: mark.colour, line_dash: mark.dash, line_width: mark.width };
    let drawn = this.figure.line({ ...field, source, ...look });
    if (mark.marks) {
      drawn = this.figure.scatter({ ...field, source, size: 6, line_color: mark.colour, fill_color: mark.colour });
    }
    this.hover(drawn, mark.label ? [["", mark.label], ...this.numbers()] : this.numbers());
    if (mark.label) this.table(mark.label, source, [[x.label || "x", "x"], [y.label || "y", "y"]]);
  }

  bars(mark, i) {
    const { x, y } = this.chart;
    const source = this.source(`${this.chart.name}-${mark.name || i}`, { x: known(mark.x), y: known(mark.y) });
    const field = { x: { field: "x" }, top: { field: "y" }, bottom: 0, width: mark.width };
    const drawn = this.figure.vbar({ ...field, source, fill_color: mark.colour, line_color: null });
    this.hover(drawn, [[y.label, `@y{${NUMBER}}`]]);
    this.table(mark.label, source, [[x.label || "group", "x"], [y.label, "y"]]);
  }

  points(mark, i) {
    const { name, x: { label: across }, y: { label: up } } = this.chart;
    const classes = figures.classes[this.group];
    let x = "x", y = "y", source, columns = [], shown = [];
    if (mark.kind === "class" && classes) {
      source = this.own.sources[`${this.group}-class`] ?? this.source(`${this.group}-class`, Object.fromEntries(
        Object.entries(classes).map(([heading, values]) => [heading, known(values)])));
      [x, y] = [`${name}-${i}-x`, `${name}-${i}-y`];
      const spread = (values) => {
        const every = new Array(classes.name.length).fill(NaN);
        values.forEach((v, k) => { every[mark.members?.[k] ?? k] = v ?? NaN; });
        return every;
      };
      Object.assign(source.data, { [x]: spread(mark.x), [y]: spread(mark.y) });
      columns = [["class", "name"]];
      shown = [["class", "@name"], ...Object.keys(classes).filter((h) => h !== "name").map((h) =>
        [h, typeof classes[h].find((v) => v !== null) === "string" ? `@{${h}}` : `@{${h}}{${NUMBER}}`])];
    } else {
      const data = { x: known(mark.x), y: known(mark.y) };
      if (mark.kind === "pair" && classes && mark.members) {
        data.first = mark.members.map(([a]) => a);
        data.second = mark.members.map(([, b]) => b);
        data.name = mark.members.map(([a, b]) => `${classes.name[a]} / ${classes.name[b]}`);
        columns = [["classes", "name"]];
        shown = [["classes", "@name"]];
      }
      source = this.source(`${name}-${mark.name || i}`, data);
    }
    const look = { colour: mark.colour, shape: mark.shape };
    for (const [key, value] of Object.entries(look)) {
      if (!Array.isArray(value)) continue;
      source.data[key] = value;
      look[key] = { field: key };
    }
    const drawn = this.figure.scatter({
      x: { field: x }, y: { field: y }, source, size: mark.size, marker: look.shape,
      line_color: look.colour, fill_color: mark.hollow ? null : look.colour, fill_alpha: 0.85,
      nonselection_fill_alpha: 0.3, nonselection_line_alpha: 0.3,
    });
    // Hollow points repeat a class; axes that are columns of the class are shown once.
    const own = Object.keys(classes ?? {});
    const rest = this.numbers(x, y).filter(([label]) => mark.kind !== "class" || !own.some((h) => label.startsWith(h)));
    if (!(mark.hollow && mark.kind)) this.hover(drawn, [...shown, ...rest]);
    this.table(mark.label, source, [...columns, [across, x], [up, y]]);
    if (columns.length && !mark.hollow) this.touch(mark.kind, drawn, source, x, y);
  }

  // A click follows a class or compares a pair; the followed class has a ring and its name.
  touch(kind, renderer, source, x, y) {
    const { selected } = source, { group } = this;
    this.figure.add_tools(new Bokeh.TapTool({ renderers: [renderer] }));
    if (kind === "pair" || !this.own.heard) {
      if (kind === "class") this.own.heard = true;
      selected.on_change(selected.properties.indices, () => {
        const [i] = selected.indices;
        if (kind === "class") figures.tell("class", group, i ?? null);
        else if (i !== undefined) figures.tell("pair", group, [source.data.first[i], source.data.second[i]]);
      });
    }
    const ring = this.source(`${this.chart.name}-followed`, { x: [], y: [], name: [] });
    const field = { x: { field: "x" }, y: { field: "y" }, source: ring };
    this.figure.scatter({ ...field, size: 17, fill_color: null, line_color: "#d55e00", line_width: 2.5 });
    const look = { text: { field: "name" }, x_offset: 11, y_offset: -9, text_font_size: "13px", text_font_style: "bold", text_font: FONT };
    this.figure.text({ ...field, ...look }).setv({ name: "followed" });
    this.own.rings.push({ ring, kind, x, y, source });
  }
}
