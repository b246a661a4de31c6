// Sliders: numbers of a grid of rule, temperature, beta and prior, interpolated between its points.
const percent = (v) => Number.isNaN(v) ? "–" : `${(100 * v).toFixed(2)}\u00a0%`;
// A number that rounds to zero has no minus.
const signed = (v, digits) => `${v > -0.5 * 10 ** -digits ? "+" : "−"}${Math.abs(v).toFixed(digits)}`;
const points = (v) => Number.isNaN(v) ? "–" : signed(100 * v, 2);
const plain = (v) => Number.isNaN(v) ? "–" : v.toFixed(3);

class Side {
  constructor(data, { measures, offered }) {
    Object.assign(this, data, { offered });
    for (const name of Object.keys(measures)) this[name] = known(this[name]);
    this.logs = this.taus.map(Math.log);
  }

  // Corners of the cell of the grid, with their weights; corners of weight zero are left out.
  corners({ rule, tau, beta, gamma }) {
    const [T, B, G] = [this.taus, this.betas, this.gammas].map((nodes) => nodes.length);
    const place = (nodes, x) => {
      let i = 0;
      while (i < nodes.length - 2 && x >= nodes[i + 1]) i++;
      const f = nodes.length < 2 ? 0 : (x - nodes[i]) / (nodes[i + 1] - nodes[i]);
      const near = Math.abs(f - Math.round(f)) < 1e-9 ? Math.round(f) : f;
      return [[i, 1 - near], [i + 1, near]].filter(([, w]) => w !== 0);
    };
    const found = [];
    for (const [t, v] of place(this.logs, Math.log(tau)))
      for (const [b, w] of place(this.betas, beta))
        for (const [g, u] of place(this.gammas, gamma))
          found.push([((this.offered.indexOf(rule) * T + t) * B + b) * G + g, v * w * u]);
    return found;
  }

  at(name, settings) {
    return this.corners(settings).reduce((sum, [i, w]) => sum + w * this[name][i], 0);
  }

  // Accuracies of the classes, NaN for a class without held-out rows on this page.
  classes(settings) {
    const corners = this.corners(settings);
    return this.queries.map((n, c) => {
      if (!n) return NaN;
      let hits = 0;
      for (const [i, w] of corners) hits += this.correct[c][i] < 0 ? NaN : w * this.correct[c][i];
      return hits / n;
    });
  }
}

class Explorer {
  constructor(group, data) {
    Object.assign(this, { group, data, followed: null, classes: figures.classes[group] });
    this.names = this.classes.name;
    this.sides = data.sides.map((side) => new Side(side, data));
    this.form = document.querySelector(`form.explore[data-group="${CSS.escape(group)}"]`);
    this.table = document.querySelector(`[data-settings="${CSS.escape(group)}"]`);
    this.live = document.querySelector(`[data-live="${CSS.escape(group)}"]`);
    this.card = document.querySelector(`[data-followed="${CSS.escape(group)}"]`);
    this.pairs = this.sides.filter((side) => side.arcs).map((side) => new Arc(this, side));
    const names = document.getElementById(`${group}-names`);
    names.append(...this.names.map((value) => Object.assign(document.createElement("option"), { value })));
    this.prepare();
    this.reset();
    this.agree();
  }

  prepare() {
    const { elements } = this.form, [side] = this.sides;
    const span = (input, nodes, step) => {
      Object.assign(input, { min: nodes[0], max: nodes.at(-1), step });
      input.disabled = nodes.length < 2;
    };
    span(elements.beta, side.betas, 0.01);
    span(elements.gamma, side.gammas, 0.01);
    // Equal steps of the logarithm; the points of the grid are among them.
    span(elements.tau, [0, side.taus.length - 1], 0.05);
    elements.tau.disabled = side.taus.length < 2;
    this.form.addEventListener("input", (e) => { if (e.target.name !== "follow") this.update(); });
    this.form.addEventListener("submit", (e) => e.preventDefault());
    elements.reset.addEventListener("click", () => this.reset());
    const search = elements.follow;
    search.addEventListener("change", () => this.search(search.value));
    search.addEventListener("input", () => {
      if (this.names.includes(search.value) || !search.value) this.search(search.value);
    });
    search.addEventListener("keydown", (e) => {
      if (e.key === "Enter") this.search(search.value, true);
    });
  }

  reset() {
    const { elements } = this.form, { start } = this.data, [side] = this.sides;
    elements.rule.value = start.rule;
    elements.beta.value = start.beta;
    elements.gamma.value = start.gamma;
    const nearest = side.logs.map((l) => Math.abs(l - Math.log(start.tau)));
    elements.tau.value = nearest.indexOf(Math.min(...nearest));
    this.update();
  }

  get settings() {
    const { elements } = this.form, { logs } = this.sides[0];
    const rule = Number(elements.rule.value), position = Number(elements.tau.value);
    const i = Math.min(Math.floor(position), Math.max(0, logs.length - 2)), f = position - i;
    const tau = Math.exp(f ? (1 - f) * logs[i] + f * logs[i + 1] : logs[i]);
    return { rule, tau, beta: Number(elements.beta.value), gamma: Number(elements.gamma.value) };
  }

  search(text, first = false) {
    const { names } = this, wanted = text.trim().toLowerCase();
    if (!wanted) return this.follow(null);
    let c = names.findIndex((name) => name.toLowerCase() === wanted);
    if (c < 0 && first) c = names.findIndex((name) => name.toLowerCase().includes(wanted));
    if (c >= 0) this.follow(c);
  }

  follow(c) {
    this.followed = c;
    figures.follow(this.group, c);
    this.form.elements.follow.value = c === null ? "" : this.names[c];
    if (c !== null) this.pairs[0]?.near(c);
    this.agree();
    this.tell();
  }

  // Both sides of a comparison show the two classes of the first side.
  agree() {
    const [first, ...others] = this.pairs;
    for (const arc of others) arc.compare(...first.pair.map((k) => first.classes[k]));
  }

  update() {
    const at = this.settings, native = { ...at, rule: 0 }, { elements } = this.form;
    const fixed = !this.data.edited[at.rule];
    elements.beta.disabled = fixed || this.sides[0].betas.length < 2;
    const text = { beta: fixed ? "unused" : at.beta.toFixed(2), tau: at.tau.toPrecision(3), gamma: at.gamma.toFixed(2) };
    for (const [name, value] of Object.entries(text)) {
      elements[`${name}-value`].value = value;
      elements[name].setAttribute("aria-valuetext", value);
    }
    const rule = this.data.rules[at.rule], meaning = this.form.querySelector(".meaning");
    Object.assign(meaning, { hash: this.data.terms[rule], ariaLabel: `Meaning of ${rule}` });
    this.now = this.sides.map((side) => side.classes(at));
    this.before = this.sides.map((side) => side.classes(native));
    this.write(at, native);
    this.draw(at, native);
    for (const arc of this.pairs) arc.update(at);
    if (this.followed !== null) figures.follow(this.group, this.followed);
    this.tell();
    figures.refresh();
  }

  // A text, linked to the glossary if it is a term.
  explained(text) {
    const slug = this.data.terms[text];
    return slug ? Object.assign(document.createElement("a"), { className: "term", href: `#${slug}`, textContent: text }) : text;
  }

  // The table of numbers, and one sentence for those who listen.
  write(at, native) {
    const rule = this.data.rules[at.rule], several = this.sides.length > 1;
    const heads = several ? ["A", "B", "B − A"] : at.rule === 0 ? [rule] : ["Native", rule, "change"];
    const row = (parent, cells, kind) => {
      const tr = document.createElement("tr");
      cells.forEach((text, i) => {
        const cell = document.createElement(i && kind === "td" ? "td" : "th");
        cell.append(this.explained(text));
        cell.scope = kind === "td" ? "row" : "col";
        if (i) cell.className = "n";
        tr.append(cell);
      });
      parent.append(tr);
    };
    this.table.tHead.replaceChildren();
    this.table.tBodies[0].replaceChildren();
    row(this.table.tHead, ["", ...heads], "th");
    for (const [name, words] of Object.entries(this.data.measures)) {
      const show = name === "nll" ? plain : percent;
      const [first, second = first] = this.sides;
      const old = first.at(name, several ? at : native), now = second.at(name, at);
      // Without a fitted scale of each rule, differences of probabilities mean nothing.
      const change = name === "nll" || name === "ece" ? "–" : points(now - old);
      const cells = [show(old), show(now), change];
      row(this.table.tBodies[0], [words, ...cells.slice(0, heads.length)], "td");
    }
    const [now] = this.now, [before] = this.before;
    const up = now.filter((v, c) => v > before[c] + 1e-12).length;
    const down = now.filter((v, c) => v < before[c] - 1e-12).length;
    const accuracy = this.sides.map((side) => `${several ? `${side.name} ` : ""}${percent(side.at("accuracy", at))}`);
    const change = points(this.sides[0].at("accuracy", at) - this.sides[0].at("accuracy", native));
    const undefined_ = Number.isNaN(this.sides[0].at("accuracy", at));
    this.live.textContent = undefined_
      ? `${rule} is undefined here: a class would need a negative temperature.`
      : `${rule}: accuracy ${accuracy.join(", ")}` + (several ? "." : at.rule === 0
        ? ". The figure of the changes of the classes is left out: Native is what others are compared with. Choose another rule to see it."
        : `, ${change} points from Native; ${up} classes rise and ${down} fall.`);
    const classes = document.getElementById(`plot-${this.group}-classes`);
    classes.closest("figure").hidden = !several && at.rule === 0;
    const grid = classes.closest(".figures"), shown = [...grid.children].filter((e) => !e.hidden).length;
    grid.classList.toggle("even", shown % 3 === 1);
  }

  draw(at, native) {
    const name = (chart, mark) => `${this.group}-${chart}-${mark}`;
    const axes = { "along-beta": ["beta", "betas"], "along-temperature": ["tau", "taus"], "along-prior": ["gamma", "gammas"] };
    for (const [chart, [axis, nodes]] of Object.entries(axes)) {
      if (!figures.source(name(chart, "now"))) continue;
      const now = { x: [], y: [] };
      // As in Python: Pure Angular shows what beta would do to a rule without beta.
      const without = axis === "beta" && !this.data.edited[at.rule];
      const moved = without ? { ...at, rule: 3 } : at;
      this.sides.forEach((side, i) => {
        for (const [role, settings] of [["native", native], ["rule", moved]]) {
          const y = side[nodes].map((x) => 100 * side.at("accuracy", { ...settings, [axis]: x }));
          figures.set(name(chart, `${i}-${role}`), { x: [...side[nodes]], y });
        }
        now.x.push(without ? Number(at.rule === 0) : at[axis]);
        now.y.push(100 * side.at("accuracy", at));
      });
      figures.set(name(chart, "now"), now);
    }
    this.sides.forEach((side, i) => {
      for (const [role, settings] of [["native", native], ["rule", at]]) {
        figures.set(name("groups", `${i}-${role}`), { y: this.data.groups.map((g) => 100 * side.at(g, settings)) });
      }
    });
    // The last mark of the figure of the classes.
    const mark = (axis) => `${name("classes", this.sides.length > 1 ? 0 : 2)}-${axis}`;
    const x = mark("x"), y = mark("y"), scaled = (values) => values.map((v) => 100 * v);
    const text = (values) => values.map((v) => Number.isNaN(v) ? "–" : (100 * v).toFixed(2));
    const change = this.now[0].map((v, c) => 100 * (v - this.before[0][c]));
    const columns = this.sides.length > 1
      ? { [x]: scaled(this.now[0]), [y]: scaled(this.now[1]), "A (%)": text(this.now[0]), "B (%)": text(this.now[1]) }
      : { [y]: change, "Native (%)": text(this.before[0]), "this rule (%)": text(this.now[0]), "change (points)": change.map((v) => points(v / 100)) };
    figures.set(`${this.group}-class`, columns);
  }

  // A sentence about the class that is followed.
  tell() {
    const c = this.followed, { classes } = this, count = classes["training rows"]?.[c];
    if (c === null) return this.card.replaceChildren();
    const kind = classes.group?.[c] ? ` (${classes.group[c]})` : "";
    const rows = count === undefined ? "" : count === null ? ": not among the classes of this page; results.json has its numbers" : `: ${count.toLocaleString("en")} training rows${kind}`;
    const parts = [`${this.names[c]}${rows}`];
    this.sides.forEach((side, i) => {
      const label = side.name ? `${side.name}: ` : "";
      const gain = classes[side.name ? `gain in ${side.name}` : "gain"]?.[c];
      if (Number.isFinite(gain)) parts.push(`${label}gain ${gain.toFixed(2)}`);
      if (!Number.isNaN(this.now[i][c])) parts.push(`${label}accuracy ${percent(this.before[i][c])} with Native, ${percent(this.now[i][c])} at these settings`);
    });
    this.card.replaceChildren(`${parts.join("; ")}. `);
    const stop = document.createElement("button");
    stop.type = "button";
    stop.textContent = "Stop following";
    stop.addEventListener("click", () => this.follow(null));
    this.card.append(stop);
  }
}
