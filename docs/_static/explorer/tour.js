// The tour of the theory: one movable picture per theorem, in <form class="tour" data-picture="NAME">.
"use strict";

const tour = (() => {
  const { grid, logGrid, degrees } = chart;
  const radians = (x) => (x * Math.PI) / 180;
  const [FIRST, SECOND, THIRD, GREY] = ["var(--explorer-first)", "var(--explorer-second)", "var(--explorer-third)", "currentColor"];
  const RHO = grid(-1, 1);
  const largest = (values) => Math.max(...values.map(Math.abs));

  // Sliders: label, range and start.
  const slider = (label, low, high, start, more = {}) => ({ label, low, high, start, step: "any", ...more });
  const log = (label, low, high, start, more = {}) => slider(label, low, high, start, { log: true, ...more });
  const dimension = (start, high = 4096) => log("dimension p", 8, high, start, { whole: true });
  const tau = (start) => log("temperature τ", 0.05, 2, start);
  const lambda = (label, start) => log(label, 0.2, 8, start);
  const CONCENTRATION = "concentration κ / ν";
  const nuOf = (p) => p / 2 - 1;
  const curve = (label, x, y, colour, dash = "") => ({ type: "line", label, x, y, colour, dash });

  // Each picture: its sliders, and what to draw and to show at their positions.
  const PICTURES = {
    gain: {
      sliders: { p: dimension(64), lambda: lambda(CONCENTRATION, 1.5), tau: tau(0.2) },
      draw({ p, lambda, tau }) {
        const kappa = nuOf(p) * lambda;
        const g = vmf.resultant(kappa, p) / tau;
        const zero = vmf.score(0, kappa, tau, p);
        const exact = RHO.map((rho) => vmf.score(rho, kappa, tau, p));
        const remainder = largest(exact.map((q, i) => q - zero - g * RHO[i]));
        return {
          curves: [curve("exact score", RHO, exact, FIRST), curve("intercept and gain alone", RHO, RHO.map((rho) => zero + g * rho), SECOND, "6 4")],
          xlabel: "cosine", ylabel: "score",
          results: { gain: ["gain g", g], remainder: ["largest remainder", remainder], scaled: ["ν times it", nuOf(p) * remainder] },
        };
      },
    },
    bregman: {
      sliders: { p: dimension(32), lambda: lambda(CONCENTRATION, 1), tau: tau(0.2) },
      draw({ p, lambda, tau }) {
        const kappa = nuOf(p) * lambda;
        const g = vmf.resultant(kappa, p) / tau;
        const exact = RHO.map((rho) => vmf.score(rho, kappa, tau, p));
        const distance = exact.map((q, i) => q - g * RHO[i]);
        return {
          curves: [curve("exact score", RHO, exact, FIRST), curve("linear part", RHO, RHO.map((rho) => g * rho), SECOND, "6 4"), curve("divergence, never negative", RHO, distance, THIRD)],
          xlabel: "cosine", ylabel: "score",
          results: { least: ["least divergence", Math.min(...distance)], most: ["largest divergence", Math.max(...distance)] },
        };
      },
    },
    fixed: {
      sliders: { p: log("dimension p", 3, 64, 8, { whole: true }), tau: tau(0.5), rho: slider("cosine ρ", -0.95, 0.95, 0.6), kappa: log("concentration κ", 30, 3000, 300) },
      draw({ p, tau, rho, kappa }) {
        const error = (k, order) => Math.abs(vmf.fixedExpansion(rho, k, tau, p, order) - vmf.score(rho, k, tau, p));
        const x = logGrid(30, 3000, 61);
        const colours = [FIRST, SECOND, THIRD];
        return {
          curves: colours.map((colour, order) => curve(["tρ alone", "with Q1", "with Q1 and Q2"][order], x, x.map((k) => error(k, order)), colour)),
          lines: [{ x: kappa, dash: "2 4" }], xlog: true, ylog: true, xlabel: "concentration", ylabel: "error of the expansion",
          results: { zero: ["error of tρ", error(kappa, 0)], one: ["with Q1", error(kappa, 1)], two: ["with Q1 and Q2", error(kappa, 2)] },
        };
      },
    },
    joint: {
      sliders: { p: dimension(128, 2048), lambda: lambda(CONCENTRATION, 1), tau: tau(0.5), rho: slider("cosine ρ", -0.95, 0.95, 0.5) },
      draw({ p, lambda, tau, rho }) {
        const error = (p, order) => Math.abs(vmf.expansion(rho, nuOf(p) * lambda, tau, p, order) - vmf.score(rho, nuOf(p) * lambda, tau, p));
        const x = logGrid(8, 2048, 49);
        const colours = [FIRST, SECOND, THIRD];
        return {
          curves: colours.map((colour, order) => curve(["B0", "B0 and B1", "B0, B1 and B2"][order], x, x.map((p) => error(p, order)), colour)),
          lines: [{ x: p, dash: "2 4" }], xlog: true, ylog: true, xlabel: "dimension", ylabel: "error of the expansion",
          results: { zero: ["error of B0", error(p, 0)], one: ["with B1", error(p, 1)], two: ["with B1 and B2", error(p, 2)] },
        };
      },
    },
    boundary: {
      sliders: { p: dimension(128, 2048), kappa1: log("concentration 1", 5, 1000, 40), kappa2: log("concentration 2", 5, 1000, 300), tau: tau(0.1), angle: slider("angle, degrees", 20, 150, 80, { step: 1 }), beta: slider("β", 0, 1, 0, { step: 0.05 }) },
      draw({ p, kappa1, kappa2, tau, angle, beta }) {
        const at = (realization, beta) => degrees(vmf.boundary(vmf.realize([kappa1, kappa2], tau, p, realization, beta), radians(angle)));
        const x = grid(0, 1, 21);
        const names = { angular: "Pure Angular", preserve: "intercept-preserving", temperature: "direct temperature" };
        const colours = [FIRST, SECOND, THIRD];
        return {
          curves: [...Object.keys(names).map((name, i) => curve(names[name], x, x.map((beta) => at(name, beta)), colours[i])), curve("the middle", [0, 1], [angle / 2, angle / 2], GREY, "2 4")],
          lines: [{ x: beta, dash: "2 4" }], xlabel: "β, the share of the difference that is kept", ylabel: "boundary, degrees from class 1",
          results: Object.fromEntries(Object.keys(names).map((name) => [name, [names[name], at(name, beta)]])),
        };
      },
    },
    transition: {
      sliders: { p: dimension(64, 1024), lambdaH: lambda("λ of class h", 3), lambdaT: lambda("λ of class t", 1), angle: slider("angle, degrees", 20, 150, 60, { step: 1 }), delta: slider("offset δ", -0.6, 0.6, 0) },
      draw({ p, lambdaH, lambdaT, angle, delta }) {
        const r = [lambdaH, lambdaT].map((x) => x / (1 + Math.hypot(1, x)));
        const c = Math.cos(radians(angle));
        const W = Math.sqrt((r[0] - r[1]) ** 2 + 2 * r[0] * r[1] * (1 - c));
        const beta = [(r[0] - r[1] * c) / W, (r[0] * c - r[1]) / W];
        const margin = r[1] * (r[1] - r[0] * c);
        const wrongH = (d, n) => 1 - vmf.projectionTail(-d / W, beta[0], nuOf(p) * lambdaH, p, n);
        const wrongT = (d, n) => vmf.projectionTail(-d / W, beta[1], nuOf(p) * lambdaT, p, n);
        const x = grid(-0.6, 0.6, 41);
        return {
          curves: [curve("error of class h", x, x.map((d) => wrongH(d, 100)), FIRST), curve("error of class t", x, x.map((d) => wrongT(d, 100)), SECOND), curve("its limit", [-0.6, margin, margin, 0.6].map((v) => Math.max(-0.6, Math.min(0.6, v))), [0, 0, 1, 1], GREY, "2 4")],
          lines: [{ x: delta, dash: "2 4" }], xlabel: "offset δ", ylabel: "error",
          results: { margin: ["typical margin of class t", margin - delta], h: ["error of class h", wrongH(delta)], t: ["error of class t", wrongT(delta)] },
        };
      },
    },
    certificate: {
      sliders: { p: dimension(128, 2048), kappa1: log("concentration 1", 5, 1000, 40), kappa2: log("concentration 2", 5, 1000, 300), tau: tau(0.1), angle: slider("angle, degrees", 20, 150, 80, { step: 1 }) },
      draw({ p, kappa1, kappa2, tau, angle }) {
        const kappas = [kappa1, kappa2];
        const u = grid(0, radians(angle));
        const cells = u.map((x) => vmf.certificate(kappas, tau, p, radians(angle), x));
        const free = u.filter((_, i) => cells[i].margin <= cells[i].range).map(degrees);
        const boundary = degrees(vmf.boundary(vmf.realize(kappas, tau, p, "angular", 0), radians(angle)));
        const x = u.map(degrees);
        return {
          curves: [curve("margin of the cosine rule", x, cells.map((c) => c.margin), FIRST), curve("range of the residual", x, cells.map((c) => c.range), SECOND)],
          lines: [{ x: boundary, dash: "2 4" }], span: free.length ? [free[0], free[free.length - 1]] : null, xlabel: "degrees from class 1", ylabel: "score",
          results: { certified: ["certified part of the arc, %", (100 * cells.filter((c) => c.margin > c.range).length) / cells.length], boundary: ["boundary of Pure Angular, degrees", boundary], middle: ["boundary of the cosine rule, degrees", angle / 2] },
        };
      },
    },
    stability: {
      sliders: { p: dimension(128, 2048), kappa1: log("concentration 1", 5, 1000, 60), kappa2: log("concentration 2", 5, 1000, 200), tau: tau(0.2), angle: slider("angle, degrees", 20, 150, 80, { step: 1 }), u: slider("query, share of the arc", 0.02, 0.98, 0.4) },
      draw({ p, kappa1, kappa2, tau, angle, u }) {
        const at = (x) => vmf.stability([kappa1, kappa2], tau, p, radians(angle), x * radians(angle));
        const x = grid(0.02, 0.98, 61);
        const all = x.map(at);
        const here = at(u);
        return {
          curves: [curve("difference of the losses", x, all.map((v) => v.loss), FIRST), curve("its bound", x, all.map((v) => v.lossBound), FIRST, "6 4"), curve("difference of the gradients", x, all.map((v) => v.gradient), SECOND), curve("its bound", x, all.map((v) => v.gradientBound), SECOND, "6 4")],
          lines: [{ x: u, dash: "2 4" }], ylog: true, xlabel: "query, share of the arc", ylabel: "difference",
          results: { loss: ["difference of the losses", here.loss], lossBound: ["its bound", here.lossBound], gradient: ["difference of the gradients", here.gradient], gradientBound: ["its bound", here.gradientBound] },
        };
      },
    },
    propagation: {
      sliders: { p: dimension(64, 2048), lambda1: lambda("λ of class 1", 0.5), lambda2: lambda("λ of class 2", 2), tau: tau(0.25), rho1: slider("cosine to class 1", -0.95, 0.95, 0.6), rho2: slider("cosine to class 2", -0.95, 0.95, 0.3) },
      draw({ p, lambda1, lambda2, tau, rho1, rho2 }) {
        const pairs = [[rho1, lambda1], [rho2, lambda2]];
        const first = (a, b) => 1 / (1 + Math.exp(b - a));
        const of = (p) => {
          const nu = nuOf(p);
          const [l, B1, B2] = [0, 1, 2].map((k) => pairs.map(([rho, lambda]) => vmf.jointTerms(rho, nu * lambda, tau, p)[k]));
          const P = first(l[0], l[1]);
          const d = (B) => (1 - P) * (B[0] - B[1]);
          const V = P * (1 - P) * (B1[0] - B1[1]) ** 2;
          const exact = first(...pairs.map(([rho, lambda]) => vmf.score(rho, nu * lambda, tau, p)));
          const second = d(B2) + (d(B1) ** 2 - V) / 2;
          return { exact, orders: [P, P * (1 + d(B1) / nu), P * (1 + d(B1) / nu + second / nu ** 2)], alone: P * (1 + d(B1) / nu + d(B2) / nu ** 2) };
        };
        const x = logGrid(8, 2048, 49);
        const all = x.map(of);
        const here = of(p);
        const error = (pick) => all.map((v) => Math.abs(pick(v) - v.exact));
        return {
          curves: [curve("leading order", x, error((v) => v.orders[0]), FIRST), curve("first order", x, error((v) => v.orders[1]), SECOND), curve("second order", x, error((v) => v.orders[2]), THIRD), curve("second order without coupling", x, error((v) => v.alone), THIRD, "6 4")],
          lines: [{ x: p, dash: "2 4" }], xlog: true, ylog: true, xlabel: "dimension", ylabel: "error of the probability",
          results: { exact: ["probability of class 1", here.exact], second: ["second order", here.orders[2]], alone: ["without coupling", here.alone] },
        };
      },
    },
    ratio: {
      sliders: { nu: log("order ν", 1.2, 60, 4) },
      draw({ nu }) {
        const x = logGrid(nu / 30, 30 * nu, 241);
        const error = x.map((v) => Math.abs(vmf.ratio(nu, v) - vmf.ratioApproximation(nu, v)));
        const most = Math.max(...error);
        return {
          curves: [curve("error of three terms", x, error.map((e) => Math.max(e, 1e-14)), FIRST), curve("the bound 1/ν³", [x[0], x[240]], [nu ** -3, nu ** -3], SECOND, "6 4")],
          xlog: true, ylog: true, xlabel: "argument x", ylabel: "error of the Bessel ratio",
          results: { bound: ["bound", nu ** -3], most: ["largest error", most], share: ["share of the bound", most * nu ** 3] },
        };
      },
    },
    crossfit: {
      sliders: { p: dimension(128, 2048), lambda1: lambda("λ of class 1", 0.5), lambda2: lambda("λ of class 2", 4), tau: tau(0.2), n: log("samples per class", 2, 1000, 10, { whole: true }) },
      draw({ p, lambda1, lambda2, tau, n }) {
        const kappas = [lambda1, lambda2].map((x) => nuOf(p) * x);
        const A = kappas.map((kappa) => vmf.resultant(kappa, p));
        const reference = (A[0] + A[1]) / 2;
        const of = (c, length) => RHO.map((rho) => vmf.score(rho, kappas[c], (tau * length) / reference, p));
        const line = RHO.map((rho) => (reference / tau) * rho);
        const equal = [0, 1].map((c) => of(c, A[c]));
        const native = [0, 1].map((c) => RHO.map((rho) => vmf.score(rho, kappas[c], tau, p)));
        const long = A.map((a) => Math.sqrt(a ** 2 + (1 - a ** 2) / n));
        const distance = largest([0, 1].flatMap((c) => equal[c].map((q, i) => q - line[i])));
        return {
          curves: [curve("class 1 before", RHO, native[0], FIRST, "2 4"), curve("class 1 after", RHO, equal[0], FIRST), curve("class 2 before", RHO, native[1], SECOND, "2 4"), curve("class 2 after", RHO, equal[1], SECOND), curve("the common line", RHO, line, GREY, "6 4")],
          xlabel: "cosine", ylabel: "score",
          results: { distance: ["largest distance from the line", distance], scaled: ["ν times it", nuOf(p) * distance], biased: ["gain of class 1 if the bias of few samples stays", ((reference / tau) * A[0]) / long[0]], gain: ["gain without the bias", reference / tau] },
        };
      },
    },
  };

  function build(form) {
    const { sliders, draw } = PICTURES[form.dataset.picture];
    const inputs = Object.entries(sliders).map(([name, s]) => {
      const range = s.log ? 'min="0" max="1" step="any"' : `min="${s.low}" max="${s.high}" step="${s.step}"`;
      return `<label>${s.label}<input type="range" name="${name}" ${range}><output></output></label>`;
    });
    form.innerHTML = `<div class="controls">${inputs.join("")}</div><div class="charts"><figure><svg class="chart" role="img"></svg><figcaption></figcaption></figure><div><table class="docutils"><tbody></tbody></table><button type="reset">Start again</button></div></div>`;
    const show = () => {
      const s = {};
      for (const name of Object.keys(sliders)) {
        s[name] = chart.fromSlider(Number(form[name].value), sliders[name]);
        form[name].nextElementSibling.textContent = String(s[name]);
      }
      const { results, curves, lines = [], span = null, xlabel, ylabel, xlog, ylog } = draw(s);
      const svg = form.querySelector("svg");
      svg.setAttribute("aria-label", `${ylabel} over ${xlabel}`);
      const levels = lines.map(({ x, dash }) => ({ type: "level", at: x, upright: true, dash }));
      const marks = [...(span ? [{ type: "span", from: span[0], to: span[1] }] : []), ...levels, ...curves];
      chart.draw(svg, { x: { label: xlabel, log: xlog }, y: { label: ylabel, log: ylog }, marks });
      form.querySelector("figcaption").innerHTML = chart.legend(curves);
      form.querySelector("tbody").innerHTML = Object.values(results).map(([label, x]) => `<tr><th scope="row">${label}</th><td>${chart.short(x)}</td></tr>`).join("");
      const values = Object.fromEntries(Object.entries(results).map(([name, [, x]]) => [name, x]));
      form.dataset.result = JSON.stringify({ settings: s, results: values });
    };
    const start = () => {
      for (const [name, s] of Object.entries(sliders)) form[name].value = chart.toSlider(s.start, s);
      show();
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", show);
    form.addEventListener("reset", () => setTimeout(start));
    start();
  }

  addEventListener("DOMContentLoaded", () => document.querySelectorAll("form.tour").forEach(build));
  return PICTURES;
})();
