// Sliders of the vMF classifier: scores of a sample of test rows by vmf.js, and two charts.
class Explorer {
  // Exact scores at these many cosines per class; between them a cubic through scores and slopes.
  static NODES = 17;
  static COLOURS = { all: "#0072B2", head: "#56B4E9", medium: "#009E73", tail: "#D55E00" };

  constructor(form, data) {
    Object.assign(this, { form, data });
    data.cosine = data.cosine.map((rho) => rho.map((v) => v / 1e7));
    const { start } = data, count = new Map();
    for (const y of data.label) count.set(y, (count.get(y) ?? 0) + 1);
    // Weights of rows in which classes count alike.
    this.alike = data.label.map((y) => 1 / count.get(y));
    this.tau = { low: Math.min(0.01, start.temperature), high: Math.max(1, start.temperature), log: true };
    // The sliders reach the settings that they start with.
    for (const input of [form.elements.beta, form.elements.prior]) {
      input.min = Math.min(input.min, start[input.name]);
      input.max = Math.max(input.max, start[input.name]);
    }
    this.ends = data.cosine.map((rho) => [rho.reduce((a, b) => Math.min(a, b)), rho.reduce((a, b) => Math.max(a, b))]);
    form.closest("section").querySelector("[name=rows]").value = this.sample;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.update());
    form.addEventListener("reset", () => setTimeout(() => this.reset()));
    this.reset();
  }

  // The rows, and why their numbers are not those of the tables.
  get sample() {
    const { label, evaluated, width, kappa } = this.data, classes = kappa[0].length;
    const text = (v) => v.toLocaleString("en"), part = label.length < evaluated;
    if (!part && width === classes) return `all ${text(evaluated)} test rows of the tables`;
    const rows = part ? `a sample of ${text(label.length)} of the ${text(evaluated)} test rows` : "the test rows";
    return `${rows}${width < classes ? `, each with its ${text(width)} nearest of ${text(classes)} classes` : ""}; the tables have all`;
  }

  reset() {
    const { elements } = this.form, { start } = this.data;
    for (const name of ["realization", "beta", "prior", "metric"]) elements[name].value = start[name];
    elements.temperature.value = chart.toSlider(start.temperature, this.tau);
    this.begin = elements.temperature.value;
    this.update();
  }

  get settings() {
    const { elements } = this.form;
    const [beta, prior, metric] = ["beta", "prior", "metric"].map((name) => Number(elements[name].value));
    const { value } = elements.temperature;
    // A slider that was not moved has the temperature of the method, with all its digits.
    const temperature = value === this.begin ? this.data.start.temperature : chart.fromSlider(Number(value), this.tau);
    return { realization: elements.realization.value, beta, temperature, prior, metric };
  }

  // Scores as functions of the cosine, one per class.
  rules({ realization, beta, temperature, metric }) {
    const { kappa, resultant, dim } = this.data;
    return vmf.realize(kappa[metric], temperature, dim, realization, beta, resultant[metric]);
  }

  // Scores [n * width] of all rows and their candidates.
  scores(settings) {
    const { data } = this, { candidates } = data, { metric, prior } = settings, N = Explorer.NODES;
    const [low, high] = this.ends[metric], step = (high - low) / (N - 1) || 1;
    const tables = this.rules(settings).map((rule) => chart.grid(low, high, N).map((rho) => [rule.score(rho), step * rule.slope(rho)]));
    return Float64Array.from(data.cosine[metric], (rho, i) => {
      const c = candidates[i], place = Math.min((rho - low) / step, N - 1.000001);
      const k = Math.floor(place), t = place - k, s = 1 - t;
      const [[f, d], [g, e]] = [tables[c][k], tables[c][k + 1]];
      return s * s * ((1 + 2 * t) * f + t * d) + t * t * ((1 + 2 * s) * g - s * e) + prior * data.log_prior[c];
    });
  }

  // Right predictions, confidences and losses of the rows.
  evaluate(settings) {
    const { width, label, start, candidates } = this.data;
    const scores = this.scores(settings);
    return label.map((y, row) => {
      let [best, own] = [0, NaN];
      const at = row * width;
      for (let k = 0; k < width; k++) {
        if (scores[at + k] > scores[at + best] || Number.isNaN(scores[at + best])) best = k;
        if (candidates[at + k] === y) own = k;
      }
      let sum = 0;
      const top = scores[at + best], scale = start.scale ?? 1;
      for (let k = 0; k < width; k++) sum += Math.exp(scale * (scores[at + k] - top));
      const right = candidates[at + best] === y;
      return { right: Number.isNaN(top) ? NaN : Number(right), confidence: 1 / sum, loss: Math.min(Math.log(sum) - scale * (scores[at + own] - top), -Math.log(Number.EPSILON)) };
    });
  }

  // Weighted mean of a quantity over some rows.
  mean(rows, pick, weight, kept = [...rows.keys()]) {
    return kept.reduce((sum, i) => sum + weight[i] * pick(rows[i]), 0) / kept.reduce((sum, i) => sum + weight[i], 0);
  }

  // By the metric, and the mean accuracy of the classes of each group.
  accuracies(rows) {
    const { label, weight, group, group_names: names } = this.data, right = (r) => r.right;
    const groups = (group === null ? [] : names).map((name, g) => {
      const kept = [...rows.keys()].filter((i) => group[label[i]] === g);
      return [name, this.mean(rows, right, this.alike, kept)];
    });
    return Object.fromEntries([["all", this.mean(rows, right, weight)], ...groups.filter(([, v]) => !Number.isNaN(v))]);
  }

  bins(rows) {
    const bins = Array.from({ length: 15 }, () => [0, 0, 0, 0]);
    rows.forEach(({ confidence, right }, i) => {
      const w = this.data.equal[i], bin = bins[Math.max(0, Math.min(14, Math.ceil(15 * confidence) - 1))];
      [w, w * confidence, w * right, 1].forEach((v, k) => { bin[k] += v; });
    });
    return bins.filter(([w]) => w > 0);
  }

  update() {
    const s = this.settings, { elements } = this.form, { data } = this;
    const fixed = s.realization === "native" || s.realization === "cosine";
    elements.beta.disabled = fixed;
    const shrinkage = data.shrinkage[s.metric];
    const text = { beta: fixed ? "unused" : s.beta.toFixed(2), temperature: String(s.temperature), prior: s.prior.toFixed(2).replace("-", "−"), metric: shrinkage === null ? "off" : String(shrinkage) };
    for (const [name, value] of Object.entries(text)) {
      elements[name].nextElementSibling.value = value;
      elements[name].setAttribute("aria-valuetext", value);
    }
    const rows = this.evaluate(s), accuracies = this.accuracies(rows), bins = this.bins(rows);
    const loss = this.mean(rows, (r) => r.loss, data.equal);
    const error = bins.reduce((sum, [, c, a]) => sum + Math.abs(c - a), 0);
    const percent = (v) => `${(100 * v).toFixed(1)}\u00a0%`;
    const parts = Object.entries(accuracies).map(([name, v]) => `${name === "all" ? data.metric : name} ${percent(v)}`);
    this.form.querySelector(".status").textContent = Number.isNaN(accuracies.all)
      ? "Undefined: a class would need a negative temperature. Move β towards 1."
      : `${parts.join(", ")}; log-loss ${loss.toFixed(3)}, calibration error ${percent(error)}.`;
    this.form.dataset.result = JSON.stringify({ settings: s, ...accuracies, loss, error });
    const drawn = bins.filter((bin) => bin[3] >= 5);
    const [x, y] = [1, 2].map((k) => drawn.map((bin) => bin[k] / bin[0]));
    this.show("calibration", { label: "confidence", ends: [0, 1] }, { label: "accuracy", ends: [0, 1] }, [
      { type: "line", x: [0, 1], y: [0, 1], colour: "#8a8a8a", dash: "dotted" }, { type: "line", x, y, colour: "#0072B2", marks: true },
    ]);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.along(s, accuracies), 60);
  }

  show(name, x, y, marks) {
    const svg = this.form.querySelector(`svg[data-live=${name}]`);
    chart.draw(svg, { x, y, marks });
    svg.nextElementSibling.innerHTML = chart.legend(marks);
  }

  // What beta would do; native and cosine have no beta, and show angular.
  along(s, now) {
    const fixed = s.realization === "native" || s.realization === "cosine";
    const betas = chart.grid(0, 2, 9);
    const moved = betas.map((beta) => this.accuracies(this.evaluate({ ...s, realization: fixed ? "angular" : s.realization, beta })));
    const at = { native: 1, cosine: 0 }[s.realization] ?? s.beta;
    const marks = Object.keys(now).flatMap((name) => [
      { type: "line", label: name, x: betas, y: moved.map((a) => 100 * a[name]), colour: Explorer.COLOURS[name] ?? "#8a8a8a", width: name === "all" ? 3 : 1.5 },
      { type: "points", x: [at], y: [100 * now[name]], colour: Explorer.COLOURS[name] ?? "#8a8a8a", size: 10 },
    ]);
    this.show("along", { label: `β${fixed ? " of angular" : ""}` }, { label: `${this.data.metric} (%)` }, marks);
  }
}
