// The explorer: reads the controls, computes with vmf.js, draws three charts as SVG.
"use strict";

addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("explorer");
  if (!root) return;
  const control = (name) => root.querySelector(`[name=${name}]`);
  const COLOURS = ["var(--explorer-first)", "var(--explorer-second)"];
  const NAMES = ["class 1", "class 2"];
  const POINTS = 121;

  // Concentration, temperature and dimension move on a logarithmic scale.
  const LOG = { p: [3, 4096], kappa1: [1, 5000], kappa2: [1, 5000], tau: [0.02, 1] };

  function value(name) {
    const raw = Number(control(name).value);
    if (!(name in LOG)) return raw;
    const [low, high] = LOG[name];
    const x = low * (high / low) ** raw;
    return name === "p" ? Math.round(x) : Number(x.toPrecision(3));
  }

  function settings() {
    const all = { realization: control("realization").value };
    for (const name of ["p", "kappa1", "kappa2", "tau", "beta", "angle"]) all[name] = value(name);
    return all;
  }

  function set(name, x) {
    const input = control(name);
    if (name in LOG) {
      const [low, high] = LOG[name];
      input.value = Math.log(x / low) / Math.log(high / low);
    } else input.value = x;
  }

  const degrees = (radians) => (radians * 180) / Math.PI;
  const grid = (low, high) => Array.from({ length: POINTS }, (_, i) => low + ((high - low) * i) / (POINTS - 1));
  const short = (x) => (Number.isFinite(x) ? (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e4 ? x.toPrecision(4) : x === 0 ? "0" : x.toExponential(1)) : "none");

  // One chart: curves [{x, y, colour, dash, label}], vertical lines [{x, dash, label}], a shaded span.
  function chart(name, curves, lines, xlabel, ylabel, span) {
    const svg = root.querySelector(`svg[data-chart=${name}]`);
    const [W, H, L, R, T, B] = [460, 300, 62, 12, 12, 44];
    const xs = curves.flatMap((c) => c.x);
    const ys = curves.flatMap((c) => c.y).filter(Number.isFinite);
    const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
    if (y1 - y0 < 1e-12) [y0, y1] = [y0 - 0.5, y1 + 0.5];
    const pad = (y1 - y0) * 0.05;
    [y0, y1] = [y0 - pad, y1 + pad];
    const X = (x) => L + ((x - x0) / (x1 - x0)) * (W - L - R);
    const Y = (y) => H - B - ((y - y0) / (y1 - y0)) * (H - T - B);
    const parts = [];
    if (span) parts.push(`<rect x="${X(span[0])}" y="${T}" width="${X(span[1]) - X(span[0])}" height="${H - T - B}" class="span"/>`);
    for (const tick of ticks(x0, x1, 6)) parts.push(`<line x1="${X(tick)}" x2="${X(tick)}" y1="${T}" y2="${H - B}" class="grid"/><text x="${X(tick)}" y="${H - B + 16}" text-anchor="middle">${Number(tick.toPrecision(6))}</text>`);
    for (const tick of ticks(y0, y1, 5)) parts.push(`<line x1="${L}" x2="${W - R}" y1="${Y(tick)}" y2="${Y(tick)}" class="grid"/><text x="${L - 6}" y="${Y(tick) + 4}" text-anchor="end">${Math.abs(tick) < 1e-3 && tick !== 0 ? tick.toExponential(0) : Number(tick.toPrecision(4))}</text>`);
    for (const line of lines) if (Number.isFinite(line.x)) parts.push(`<line x1="${X(line.x)}" x2="${X(line.x)}" y1="${T}" y2="${H - B}" class="mark" stroke-dasharray="${line.dash}"/>`);
    for (const curve of curves) {
      const d = curve.x.map((x, i) => `${i ? "L" : "M"}${X(x).toFixed(2)} ${Y(curve.y[i]).toFixed(2)}`).join("");
      parts.push(`<path d="${d}" fill="none" style="stroke:${curve.colour}" stroke-width="2" stroke-dasharray="${curve.dash || ""}"/>`);
    }
    parts.push(`<text x="${(L + W - R) / 2}" y="${H - 6}" text-anchor="middle">${xlabel}</text>`);
    parts.push(`<text transform="translate(14 ${(T + H - B) / 2}) rotate(-90)" text-anchor="middle">${ylabel}</text>`);
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.innerHTML = parts.join("");
  }

  function ticks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const all = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) all.push(k * step);
    return all;
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

    const curves = (rules, dash) => rules.map((rule, c) => ({ x: u.map(degrees), y: along(rule, c), colour: COLOURS[c], dash }));
    const lines = [{ x: degrees(before), dash: "2 4" }, { x: degrees(after), dash: "" }];
    const cells = u.map((x) => vmf.certificate(kappas, s.tau, s.p, angle, x));
    const free = u.filter((_, i) => cells[i].margin <= cells[i].range).map(degrees);
    const span = free.length ? [free[0], free[free.length - 1]] : null;
    chart("scores", [...curves(native, "2 4"), ...curves(edited, "")], lines, "degrees from class 1", "score", span);

    const slopes = (rules, dash) => rules.map((rule, c) => ({ x: rho, y: rho.map(rule.slope), colour: COLOURS[c], dash }));
    chart("slopes", [...slopes(native, "2 4"), ...slopes(edited, "")], [], "cosine", "slope of the score");

    const errors = kappas.map((kappa, c) => ({ x: rho, y: rho.map((r) => vmf.expansion(r, kappa, s.tau, s.p) - vmf.score(r, kappa, s.tau, s.p)), colour: COLOURS[c] }));
    chart("errors", errors, [], "cosine", "expansion less exact");

    const certified = cells.filter((c) => c.margin > c.range).length / cells.length;
    const result = {
      gain1: native[0].gain, gain2: native[1].gain, edited1: edited[0].gain, edited2: edited[1].gain,
      before: degrees(before), after: degrees(after), shift: degrees(after - before), certified: 100 * certified,
    };
    for (const [name, x] of Object.entries(result)) root.querySelector(`[data-result=${name}]`).textContent = short(x);
    for (const name of Object.keys(LOG).concat("beta", "angle")) control(name).nextElementSibling.textContent = String(s[name]);
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
