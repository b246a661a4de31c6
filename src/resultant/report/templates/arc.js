// Two classes on the arc between their directions: exact scores, boundaries and the certificate.
class Arc {
  constructor(explorer, side) {
    Object.assign(this, { explorer, side, ...side.arcs });
    this.suffix = side.name ? `-${side.name.toLowerCase()}` : "";
    this.form = document.querySelector(`form.pair[data-group="${CSS.escape(explorer.group)}"]`);
    this.pair = this.closest();
    const { elements } = this.form, { names } = explorer;
    for (const [i, name] of ["first", "second"].entries()) {
      elements[name].addEventListener("change", () => {
        const c = this.classes.findIndex((k) => names[k] === elements[name].value);
        const { value } = elements[name];
        this.choose(c >= 0 && c !== this.pair[1 - i] ? this.pair.with(i, c) : this.pair);
        if (c < 0) elements.sentence.value = `“${value}” is not one of the ${this.classes.length} classes to choose from. ${elements.sentence.value}`;
      });
    }
    elements.swap.addEventListener("click", () => this.choose([this.pair[1], this.pair[0]]));
    this.form.addEventListener("submit", (e) => e.preventDefault());
  }

  // Cosine of two different classes, from those above the diagonal.
  between(i, j) {
    const [a, b] = i < j ? [i, j] : [j, i], K = this.classes.length;
    return this.cosine[a * (2 * K - a - 1) / 2 + b - a - 1];
  }

  // The pair of classes with the smallest angle.
  closest() {
    const K = this.classes.length;
    let best = [0, Math.min(1, K - 1)];
    for (let i = 0; i < K; i++)
      for (let j = 0; j < i; j++) if (this.between(i, j) > this.between(...best)) best = [j, i];
    return best;
  }

  // The followed class and its nearest neighbour.
  near(c) {
    const i = this.classes.indexOf(c), others = [...this.classes.keys()].filter((j) => j !== i);
    if (i < 0 || !others.length) return;
    this.choose([i, others.reduce((a, b) => this.between(i, b) > this.between(i, a) ? b : a)]);
  }

  compare(first, second) {
    const pair = [first, second].map((c) => this.classes.indexOf(c));
    if (pair.every((i) => i >= 0)) this.choose(pair);
  }

  choose(pair) {
    this.pair = pair;
    this.update(this.explorer.settings);
    figures.refresh();
  }

  // phi(x) - phi(0) by a cubic between the nodes of the table, with exact slopes at the nodes.
  potential(x) {
    const u = Math.asinh(x / this.scale) / this.step, i = Math.min(Math.floor(u), this.phi.length - 2);
    const f = u - i, e = 1 - f;
    const rise = (k) => this.slope[k] * this.step * this.scale * Math.cosh(this.step * k);
    return (1 + 2 * f) * e * e * this.phi[i] + f * e * e * rise(i)
      + f * f * (3 - 2 * f) * this.phi[i + 1] - f * f * e * rise(i + 1);
  }

  exact(k, rho, tau) {
    const kappa = this.kappa[k], t = 1 / tau;
    return this.potential(Math.sqrt(Math.max(0, kappa * kappa + 2 * kappa * t * rho + t * t)))
      - this.potential(kappa);
  }

  // As class_scores: native, temperature, preserve, angular, cosine.
  score(k, rho, { rule, tau, beta, gamma }) {
    const g = this.resultant[k] / tau, mean = this.mean / tau, target = mean + beta * (g - mean);
    const offset = gamma * this.prior[k];
    if (rule === 4) return mean * rho + offset;
    if (rule === 0) return this.exact(k, rho, tau) + offset;
    if (rule === 3) return this.exact(k, rho, tau) + (target - g) * rho + offset;
    if (!(target > 0) || !(g > 0)) return NaN;
    const star = this.resultant[k] / target;
    const moved = rule === 2 ? this.exact(k, 0, tau) - this.exact(k, 0, star) : 0;
    return this.exact(k, rho, star) + moved + offset;
  }

  // Angles at which the lead changes, from the first class.
  roots(lead, theta) {
    const found = [], steps = 400;
    for (let i = 0; i < steps; i++) {
      let a = theta * i / steps, b = theta * (i + 1) / steps;
      const start = lead(a) > 0;
      if (start === lead(b) > 0) continue;
      for (let n = 0; n < 60; n++) {
        const middle = (a + b) / 2;
        if (lead(middle) > 0 === start) a = middle; else b = middle;
      }
      found.push((a + b) / 2);
    }
    return found;
  }

  update(at) {
    const [i, j] = this.pair, K = this.classes.length, { names } = this.explorer;
    if (K < 2) return;
    const theta = Math.acos(Math.max(-1, Math.min(1, this.between(i, j))));
    const degrees = (x) => 180 * x / Math.PI, native = { ...at, rule: 0 };
    const angles = Array.from({ length: 201 }, (_, n) => theta * n / 200), x = angles.map(degrees);
    const chart = (mark) => `${this.explorer.group}-arc${this.suffix}-${mark}`;
    const first = (t, s) => this.score(i, Math.cos(t), s);
    const second = (t, s) => this.score(j, Math.cos(theta - t), s);
    const lines = { before: native, after: at }, cross = {};
    let low = Infinity, high = -Infinity;
    for (const [when, s] of Object.entries(lines)) {
      for (const [who, line] of [["first", first], ["second", second]]) {
        const y = angles.map((t) => line(t, s));
        for (const v of y) if (v < low) low = v; else if (v > high) high = v;
        figures.set(chart(`${who}-${when}`), { x, y });
      }
      cross[when] = this.roots((t) => first(t, s) - second(t, s), theta);
    }
    for (const [when, roots] of Object.entries(cross)) {
      const upright = { x: roots.flatMap((r) => [degrees(r), degrees(r), NaN]), y: roots.flatMap(() => [low, high, NaN]) };
      figures.set(chart(`boundary-${when}`), upright);
    }
    const sure = this.certify(i, j, theta, at, angles, x);
    const fields = this.form.elements;
    const called = [i, j].map((k) => names[this.classes[k]]);
    if (this.explorer.pairs[0] === this || !fields.first.value) [fields.first.value, fields.second.value] = called;
    this.result = {
      theta: degrees(theta), before: cross.before.map(degrees), after: cross.after.map(degrees), sure,
    };
    this.say(called, at);
  }

  // Margin and residual range of the certificate along the arc; the part that is certified.
  certify(i, j, theta, { tau, gamma }, angles, x) {
    const mean = this.mean / tau, chart = (mark) => `${this.explorer.group}-arc-certificate${this.suffix}-${mark}`;
    const rest = (k, rho) => this.exact(k, rho, tau) - this.resultant[k] / tau * rho;
    const margin = [], residual = [];
    for (const t of angles) {
      const a = Math.cos(t), b = Math.cos(theta - t);
      margin.push(Math.abs(mean * (a - b) + gamma * (this.prior[i] - this.prior[j])));
      residual.push(Math.abs(rest(i, a) - rest(j, b)));
    }
    figures.set(chart("margin"), { x, y: margin });
    figures.set(chart("residual"), { x, y: residual });
    return margin.filter((m, n) => m > residual[n]).length / margin.length;
  }

  say(called, at) {
    const { theta, before, after, sure } = this.result, rule = this.explorer.data.rules[at.rule];
    const where = (roots) => roots.length === 1 ? `has its boundary ${roots[0].toFixed(2)}° from ${called[0]}`
      : roots.length ? "has several boundaries" : "gives all of the arc to one class";
    let text = `${called[0]} and ${called[1]} are ${theta.toFixed(2)}° apart. Native ${where(before)}`;
    if (at.rule !== 0) text += `; ${rule} ${where(after)}`;
    if (at.rule !== 0 && before.length === 1 && after.length === 1) {
      const shift = after[0] - before[0];
      text += Math.abs(shift) < 0.005 ? ", the same place" : `, ${Math.abs(shift).toFixed(2)}° closer to ${shift < 0 ? called[0] : called[1]}`;
    }
    text += `. Pure Angular at β = 0 and cosine are certain to agree on ${percent(sure)} of the arc.`;
    const output = this.form.elements.sentence, several = this.explorer.pairs.length > 1;
    if (!several) { output.value = text; return; }
    this.text = `${this.side.name}: ${text}`;
    output.value = this.explorer.pairs.map((arc) => arc.text ?? "").join(" ");
  }
}

// Opens the figures, then the sliders.
const explorers = {};
(async () => {
  await figures.read();
  for (const [group, data] of Object.entries(figures.explorers)) explorers[group] = new Explorer(group, data);
  figures.listeners.push((what, group, value) => {
    const explorer = explorers[group];
    if (!explorer) return;
    if (what === "drawn") explorer.update();
    if (what === "class" && value !== explorer.followed) explorer.follow(value);
    if (what === "pair") for (const arc of explorer.pairs) arc.compare(...value);
  });
  await figures.open();
  document.body.dataset.ready = "true";
  await figures.prepare();
  document.body.dataset.ready = "all";
})();
