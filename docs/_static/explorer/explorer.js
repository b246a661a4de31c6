// The explorer: reads the controls, computes with vmf.js, draws three charts by chart.js.
"use strict";

addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("explorer");
  if (!root) return;
  const control = (name) => root.querySelector(`[name=${name}]`);
  const COLOURS = ["var(--explorer-first)", "var(--explorer-second)"];
  const NAMES = ["class 1", "class 2"];
  const { grid, degrees, short } = chart;

  // Concentration, temperature and dimension move on a logarithmic scale.
  const scale = (low, high, more) => ({ low, high, log: true, ...more });
  const SCALES = { p: scale(3, 4096, { whole: true }), kappa1: scale(1, 5000), kappa2: scale(1, 5000), tau: scale(0.02, 1) };

  function value(name) {
    const raw = Number(control(name).value);
    return name in SCALES ? chart.fromSlider(raw, SCALES[name]) : raw;
  }

  function settings() {
    const all = { realization: control("realization").value };
    for (const name of ["p", "kappa1", "kappa2", "tau", "beta", "angle"]) all[name] = value(name);
    return all;
  }

  function set(name, x) {
    control(name).value = name in SCALES ? chart.toSlider(x, SCALES[name]) : x;
  }

  const line = (x, y, colour, dash = "") => ({ type: "line", x, y, colour, dash });
  function show(name, xlabel, ylabel, marks) {
    chart.draw(root.querySelector(`svg[data-chart=${name}]`), { x: { label: xlabel }, y: { label: ylabel }, marks });
  }

  function draw() {
    const s = settings();
    const kappas = [s.kappa1, s.kappa2];
    const angle = (s.angle * Math.PI) / 180;
    const native = vmf.realize(kappas, s.tau, s.p, "native", 1);
    const edited = vmf.realize(kappas, s.tau, s.p, s.realization, s.beta);
    const u = grid(0, angle);
    const rho = grid(-1, 1);
    const along = (rule, c) => u.map((x) => rule.score(Math.cos(c ? angle - x : x)));
    const before = vmf.boundary(native, angle);
    const after = vmf.boundary(edited, angle);

    const curves = (rules, dash) => rules.map((rule, c) => line(u.map(degrees), along(rule, c), COLOURS[c], dash));
    const upright = (radians, dash) => ({ type: "level", at: degrees(radians), upright: true, dash });
    const cells = u.map((x) => vmf.certificate(kappas, s.tau, s.p, angle, x));
    const free = u.filter((_, i) => cells[i].margin <= cells[i].range).map(degrees);
    const span = free.length ? [{ type: "span", from: free[0], to: free[free.length - 1] }] : [];
    const boundaries = [upright(before, "dotted"), upright(after)];
    show("scores", "degrees from class 1", "score", [...span, ...curves(native, "dotted"), ...curves(edited), ...boundaries]);

    const slopes = (rules, dash) => rules.map((rule, c) => line(rho, rho.map(rule.slope), COLOURS[c], dash));
    show("slopes", "cosine", "slope of the score", [...slopes(native, "dotted"), ...slopes(edited)]);

    const error = (kappa) => rho.map((r) => vmf.expansion(r, kappa, s.tau, s.p) - vmf.score(r, kappa, s.tau, s.p));
    show("errors", "cosine", "expansion − exact", kappas.map((kappa, c) => line(rho, error(kappa), COLOURS[c])));

    const certified = cells.filter((c) => c.margin > c.range).length / cells.length;
    const result = {
      gain1: native[0].gain, gain2: native[1].gain, edited1: edited[0].gain, edited2: edited[1].gain,
      before: degrees(before), after: degrees(after), shift: degrees(after - before), certified: 100 * certified,
    };
    for (const [name, x] of Object.entries(result)) root.querySelector(`[data-result=${name}]`).textContent = short(x);
    for (const name of Object.keys(SCALES).concat("beta", "angle")) control(name).nextElementSibling.textContent = String(s[name]);
    const status = Number.isFinite(after)
      ? `The boundary is at ${short(result.after)} degrees from ${NAMES[0]}; it was at ${short(result.before)}.`
      : "One class has the higher score on the whole arc: there is no boundary between them.";
    root.querySelector("[data-status]").textContent = status;
    root.dataset.result = JSON.stringify({ settings: s, ...result });
  }

  root.addEventListener("input", draw);
  root.addEventListener("reset", () => setTimeout(start));

  function start() {
    for (const [name, x] of Object.entries({ p: 128, kappa1: 40, kappa2: 300, tau: 0.1, beta: 0, angle: 80 })) set(name, x);
    draw();
  }
  start();
});
