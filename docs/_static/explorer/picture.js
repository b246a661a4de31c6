// Sliders and charts that the explorer and the tour share.
"use strict";

const picture = (() => {
  const POINTS = 121;

  const grid = (low, high, n = POINTS) => Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
  const logGrid = (low, high, n = POINTS) => grid(Math.log(low), Math.log(high), n).map(Math.exp);
  const degrees = (radians) => (radians * 180) / Math.PI;

  function short(x) {
    if (!Number.isFinite(x)) return "none";
    if (x === 0) return "0";
    return Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? String(Number(x.toPrecision(4))) : x.toExponential(1);
  }

  // Position of a slider, from 0 to 1 on a logarithmic scale, else its value.
  function toSlider(x, { low, high, log }) {
    return log ? Math.log(x / low) / Math.log(high / low) : x;
  }

  function fromSlider(raw, { low, high, log, whole }) {
    const x = log ? low * (high / low) ** raw : raw;
    return whole ? Math.round(x) : Number(x.toPrecision(3));
  }

  function ticks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const all = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) all.push(k * step);
    return all;
  }

  // An axis: from values to pixels, with its ticks. Logarithmic axes have ticks at powers of ten.
  function axis(values, log, count, pad) {
    const real = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
    const scale = log ? Math.log10 : (v) => v;
    let [low, high] = [scale(Math.min(...real)), scale(Math.max(...real))];
    if (high - low < 1e-12) [low, high] = [low - 0.5, high + 0.5];
    [low, high] = [low - pad * (high - low), high + pad * (high - low)];
    const powers = ticks(low, high, count).filter((v) => !log || Number.isInteger(v));
    const label = (v) => {
      if (log) return v >= -3 && v <= 5 ? String(Number((10 ** v).toPrecision(2))) : `1e${v}`;
      return Math.abs(v) < 1e-3 && v !== 0 ? v.toExponential(0) : String(Number(v.toPrecision(4)));
    };
    return { at: (v) => (scale(v) - low) / (high - low), ticks: powers.map((v) => [(v - low) / (high - low), label(v)]) };
  }

  // One chart: curves [{x, y, colour, dash}], vertical lines [{x, dash}], points [{x, y, colour}], a shaded span.
  function chart(svg, { curves, lines = [], points = [], span = null, xlabel, ylabel, xlog = false, ylog = false }) {
    const [W, H, L, R, T, B] = [460, 300, 62, 14, 12, 44];
    const x = axis(curves.flatMap((c) => c.x), xlog, 6, 0);
    const y = axis([...curves, { y: points.map((p) => p.y) }].flatMap((c) => c.y), ylog, 5, 0.05);
    const X = (v) => L + x.at(v) * (W - L - R);
    const Y = (v) => H - B - y.at(v) * (H - T - B);
    const parts = [];
    if (span) parts.push(`<rect x="${X(span[0])}" y="${T}" width="${X(span[1]) - X(span[0])}" height="${H - T - B}" class="span"/>`);
    for (const [at, label] of x.ticks) {
      const place = L + at * (W - L - R);
      parts.push(`<line x1="${place}" x2="${place}" y1="${T}" y2="${H - B}" class="grid"/><text x="${place}" y="${H - B + 16}" text-anchor="middle">${label}</text>`);
    }
    for (const [at, label] of y.ticks) {
      const place = H - B - at * (H - T - B);
      parts.push(`<line x1="${L}" x2="${W - R}" y1="${place}" y2="${place}" class="grid"/><text x="${L - 6}" y="${place + 4}" text-anchor="end">${label}</text>`);
    }
    for (const line of lines) if (Number.isFinite(line.x)) parts.push(`<line x1="${X(line.x)}" x2="${X(line.x)}" y1="${T}" y2="${H - B}" class="mark" stroke-dasharray="${line.dash || ""}"/>`);
    for (const curve of curves) {
      const seen = (v) => Number.isFinite(v) && (!ylog || v > 0);
      const d = curve.x.map((v, i) => (seen(curve.y[i]) ? `${i && seen(curve.y[i - 1]) ? "L" : "M"}${X(v).toFixed(2)} ${Y(curve.y[i]).toFixed(2)}` : "")).join("");
      parts.push(`<path d="${d}" fill="none" style="stroke:${curve.colour}" stroke-width="2" stroke-dasharray="${curve.dash || ""}"/>`);
    }
    for (const point of points) if (Number.isFinite(point.y)) parts.push(`<circle cx="${X(point.x)}" cy="${Y(point.y)}" r="5" style="fill:${point.colour}"/>`);
    parts.push(`<text x="${(L + W - R) / 2}" y="${H - 6}" text-anchor="middle">${xlabel}</text>`);
    parts.push(`<text transform="translate(14 ${(T + H - B) / 2}) rotate(-90)" text-anchor="middle">${ylabel}</text>`);
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.innerHTML = parts.join("");
  }

  return { grid, logGrid, degrees, short, toSlider, fromSlider, chart };
})();
