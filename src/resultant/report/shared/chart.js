// Charts as SVG, shared by the report and the site. A chart is { x, y, marks }: two axes
// { label, log, ends, names } and marks of the types in MARKS below. The card under the pointer, or
// the arrow keys, show the values.
"use strict";

const chart = (() => {
  const POINTS = 121;
  const grid = (low, high, n = POINTS) => Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
  const logGrid = (low, high, n = POINTS) => grid(Math.log(low), Math.log(high), n).map(Math.exp);
  const degrees = (radians) => (radians * 180) / Math.PI;
  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const at = (value, i) => (Array.isArray(value) ? value[i] : value);
  const finite = (v) => typeof v === "number" && Number.isFinite(v);

  function short(x) {
    if (!finite(x)) return "none";
    if (x === 0) return "0";
    const text = Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? String(Number(x.toPrecision(4))) : x.toExponential(1);
    return text.replaceAll("-", "−");
  }

  // Position of a slider, from 0 to 1 on a logarithmic scale, else its value.
  const toSlider = (x, { low, high, log }) => (log ? Math.log(x / low) / Math.log(high / low) : x);

  function fromSlider(raw, { low, high, log, whole }) {
    const x = log ? low * (high / low) ** raw : raw;
    return whole ? Math.round(x) : Number(x.toPrecision(3));
  }

  function ticks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= 0.75 * raw);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => (first + k) * step);
  }

  // Between two positive numbers: powers of ten, with more digits where there are few powers.
  function logTicks(low, high) {
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const step = Math.max(1, Math.ceil((last - first) / 6));
    const powers = Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, k) => 10 ** (first + k * step));
    const inside = (digits) => powers.flatMap((v) => digits.map((d) => d * v)).filter((v) => v >= low * 0.999 && v <= high * 1.001);
    const all = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]].map(inside);
    return all.find((own) => own.length > 2) ?? all.at(-1);
  }

  // An axis with `at`, from a value to 0..1, and its ticks [place, label].
  function scale({ log = false, ends = null, names = null }, values, count, pad) {
    if (names) {
      const place = (v) => (v + 0.5) / names.length;
      return { at: place, ticks: names.map((name, i) => [place(i), name]) };
    }
    let [least, most] = [Infinity, -Infinity];
    for (const v of values) if (finite(v) && (!log || v > 0)) [least, most] = [Math.min(least, v), Math.max(most, v)];
    if (least > most) [least, most] = log ? [0.1, 1] : [0, 1];
    if (ends) [least, most] = ends;
    const own = log ? Math.log10 : (v) => v;
    let [low, high] = [own(least), own(most)];
    if (high - low < 1e-12) [low, high] = [low - 0.5, high + 0.5];
    if (!ends) [low, high] = [low - pad * (high - low), high + pad * (high - low)];
    const all = log ? logTicks(10 ** low, 10 ** high) : ticks(low, high, count);
    const place = (v) => (own(v) - low) / (high - low);
    return { at: place, ends: [low, high], ticks: all.map((v) => [place(v), Math.abs(v) < 1e-12 ? "0" : short(v)]) };
  }

  const SHAPES = {
    circle: (x, y, r) => `<circle cx="${x}" cy="${y}" r="${r}"`,
    square: (x, y, r) => `<rect x="${x - r}" y="${y - r}" width="${2 * r}" height="${2 * r}"`,
    triangle: (x, y, r) => `<path d="M${x} ${y - r}L${x + r} ${y + r}H${x - r}Z"`,
  };
  const DASHES = { solid: "", dashed: "6 4", dotted: "2 4" };
  const dashes = (dash) => DASHES[dash] ?? dash ?? "";

  // Each type returns SVG; `c` has X and Y, from values to pixels, the inner box, and `card`, which
  // notes what the card says at a place.
  const MARKS = {
    line({ x, y, colour, dash, width = 2, marks = false, label = "" }, c) {
      const seen = (i) => finite(c.X(x[i])) && finite(c.Y(y[i]));
      const d = x.map((v, i) => (seen(i) ? `${i && seen(i - 1) ? "L" : "M"}${c.X(v).toFixed(2)} ${c.Y(y[i]).toFixed(2)}` : "")).join("");
      const drawn = [`<path class="curve" d="${d}" fill="none" style="stroke:${colour}" stroke-width="${width}" stroke-dasharray="${dashes(dash)}"/>`];
      x.forEach((v, i) => {
        if (!seen(i)) return;
        if (marks) drawn.push(`<circle cx="${c.X(v)}" cy="${c.Y(y[i])}" r="3" style="fill:${colour}"/>`);
        c.card(c.X(v), c.Y(y[i]), c.values(label, v, y[i]));
      });
      return drawn.join("");
    },
    points({ x, y, colour, shape = "circle", hollow = false, size = 7, label = "", text = [], low = null, high = null, classes = [] }, c) {
      const drawn = [];
      x.forEach((v, i) => {
        const [px, py] = [c.X(v), c.Y(y[i])];
        if (!(px >= c.left - 1 && px <= c.right + 1 && py >= c.top - 1 && py <= c.bottom + 1)) return;
        const ink = at(colour, i);
        if (low) drawn.push(`<path d="M${c.X(low[i])} ${py}H${c.X(high[i])}" style="stroke:${ink}" stroke-width="2" fill="none"/>`);
        const fill = hollow ? `fill:none;stroke:${ink}` : `fill:${ink};fill-opacity:.8`;
        drawn.push(`${SHAPES[at(shape, i)](Number(px.toFixed(1)), Number(py.toFixed(1)), size / 2)} style="${fill}"/>`);
        const own = [classes[i] ?? []].flat();
        if (own.includes(c.followed)) drawn.push(`<circle cx="${px}" cy="${py}" r="9" class="ring"/>`);
        c.card(px, py, text[i] ?? c.values([own.map((k) => c.names[k]).join(" and "), label], v, y[i]));
      });
      return drawn.join("");
    },
    bars({ x, y, width, colour, label = "" }, c) {
      return x.map((v, i) => {
        if (!finite(y[i])) return "";
        const [left, right, top, base] = [c.X(v - width / 2), c.X(v + width / 2), c.Y(y[i]), c.Y(0)];
        c.card((left + right) / 2, top, c.values(label, v, y[i]));
        return `<rect x="${left}" y="${Math.min(top, base)}" width="${right - left}" height="${Math.abs(base - top)}" style="fill:${colour}"/>`;
      }).join("");
    },
    level({ at, upright = false, colour = "currentColor", dash = "" }, c) {
      const d = upright ? `M${c.X(at)} ${c.top}V${c.bottom}` : `M${c.left} ${c.Y(at)}H${c.right}`;
      return finite(upright ? c.X(at) : c.Y(at)) ? `<path d="${d}" class="level" style="stroke:${colour}" stroke-dasharray="${dashes(dash)}"/>` : "";
    },
    span({ from, to }, c) {
      return `<rect x="${c.X(from)}" y="${c.top}" width="${c.X(to) - c.X(from)}" height="${c.bottom - c.top}" class="span"/>`;
    },
    // Cells of a matrix: columns x, rows y, shares between 0 and 1 in eight shades.
    cells({ x, y, share, colour, text = [], inside = [] }, c) {
      const [w, h] = [c.X(1) - c.X(0), Math.abs(c.Y(1) - c.Y(0))];
      const shades = Array.from({ length: 8 }, () => []);
      x.forEach((v, i) => {
        const [left, top] = [c.X(v) - w / 2, c.Y(y[i]) - h / 2];
        shades[Math.min(7, Math.floor(8 * Math.sqrt(share[i])))].push(`M${left.toFixed(1)} ${top.toFixed(1)}h${w.toFixed(2)}v${h.toFixed(2)}h-${w.toFixed(2)}z`);
        c.card(left + w / 2, top + h / 2, text[i]);
      });
      const counts = inside.map((t, i) => `<text x="${c.X(x[i])}" y="${c.Y(y[i]) + 4}" text-anchor="middle"${share[i] > 0.4 ? ' style="fill:#fff"' : ""}>${escape(t)}</text>`);
      return shades.map((d, k) => `<path d="${d.join("")}" style="fill:${at(colour, 0)}" fill-opacity="${(k + 1) / 8}"/>`).join("") + counts.join("");
    },
  };

  // Values of a mark on one axis, which set its ends.
  function extent(mark, axis) {
    if (mark.type === "span") return axis === "x" ? [mark.from, mark.to] : [];
    if (mark.type === "level") return axis === (mark.upright ? "x" : "y") ? [mark.at] : [];
    if (mark.type === "bars") return axis === "y" ? [0, ...mark.y] : mark.x.flatMap((v) => [v - mark.width, v + mark.width]);
    return axis === "x" && mark.low ? [...mark.low, ...mark.high] : mark[axis];
  }

  function draw(svg, spec) {
    svg.chart = spec;
    observer.observe(svg);
    if (!svg.targets) listen(svg);
    const W = Math.round(svg.clientWidth) || svg.drawnWidth || 460;
    svg.drawnWidth = W;
    const { x: across, y: up, marks, square = false, followed = -1, names = [] } = spec;
    const all = (axis) => marks.flatMap((m) => extent(m, axis));
    const x = scale(across, all("x"), Math.max(3, Math.round(W / 80)), 0.02);
    const y = scale(up, all("y"), 5, 0.05);
    const most = up.names ? Math.max(0.4 * W, Math.min(190, 0.55 * W)) : W;
    const letters = Math.floor((most - 26) / 6.6);
    const cut = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);
    const labels = (ticks, n) => ticks.map(([place, text]) => [place, cut(text, n)]);
    // Names below a matrix stand upright; where they would overlap the cards alone have them.
    const hidden = square && (W - 120) / y.ticks.length < 13;
    const upright = square && !hidden ? labels(x.ticks, Math.min(letters, 16)) : [];
    const yTicks = hidden ? [] : labels(y.ticks, square ? Math.min(letters, 16) : letters);
    const reach = (ticks) => 6.6 * Math.max(0, ...ticks.map(([, t]) => t.length));
    const L = 14 + (up.label ? 16 : 0) + reach(yTicks);
    const [R, T, B] = [16, 10, (across.label ? 44 : 26) + (reach(upright) && reach(upright) - 10)];
    const H = square ? W - L - R + T + B : up.names ? up.names.length * 24 + T + B : Math.max(290, Math.min(480, 0.42 * W));
    const [right, bottom] = [W - R, H - B];
    const targets = [];
    const context = {
      left: L, right, top: T, bottom, followed, names,
      X: (v) => (v === null ? NaN : L + x.at(v) * (right - L)),
      Y: (v) => (v === null ? NaN : up.names ? T + y.at(v) * (bottom - T) : bottom - y.at(v) * (bottom - T)),
      card: (px, py, text) => targets.push([px, py, text]),
      values(label, v, w) {
        const one = (axis, value) => `${axis.label ? `${axis.label}: ` : ""}${axis.names?.[Math.round(value)] ?? short(value)}`;
        return [label, one(across, v), one(up, w)].flat().filter((t) => t).join("\n");
      },
    };
    const parts = [];
    const room = Math.max(4, Math.floor((right - L) / Math.max(1, x.ticks.length) / 6.6));
    for (const [place, label] of square ? [] : labels(x.ticks, across.names ? room : 99)) {
      const px = L + place * (right - L);
      parts.push(`${across.names ? "" : `<path d="M${px} ${T}V${bottom}" class="grid"/>`}<text x="${px}" y="${bottom + 16}" text-anchor="middle">${escape(label)}</text>`);
    }
    for (const [place, label] of upright) parts.push(`<text transform="translate(${L + place * (right - L) + 4} ${bottom + 6}) rotate(-90)" text-anchor="end">${escape(label)}</text>`);
    for (const [place, label] of yTicks) {
      const py = up.names ? T + place * (bottom - T) : bottom - place * (bottom - T);
      parts.push(`${square ? "" : `<path d="M${L} ${py}H${right}" class="grid"/>`}<text x="${L - 6}" y="${py + 4}" text-anchor="end">${escape(label)}</text>`);
    }
    if (square) parts.push(`<rect x="${L}" y="${T}" width="${right - L}" height="${bottom - T}" class="grid" fill="none"/>`);
    for (const mark of marks) parts.push(MARKS[mark.type](mark, context));
    if (across.label) parts.push(`<text x="${(L + right) / 2}" y="${H - 6}" text-anchor="middle">${escape(across.label)}</text>`);
    if (up.label) parts.push(`<text transform="translate(12 ${(T + bottom) / 2}) rotate(-90)" text-anchor="middle">${escape(up.label)}</text>`);
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.innerHTML = parts.join("");
    Object.assign(svg, { targets, target: -1, inner: context, ends: { x: x.ends, y: y.ends } });
  }

  // Zooms into the values around a place of the window; a factor of 0 shows all values again.
  function zoom(svg, factor, clientX, clientY) {
    const { chart: spec, inner, drawnWidth } = svg, box = svg.getBoundingClientRect();
    const ratio = box.width / drawnWidth;
    const part = { x: ((clientX - box.left) / ratio - inner.left) / (inner.right - inner.left), y: (inner.bottom - (clientY - box.top) / ratio) / (inner.bottom - inner.top) };
    for (const axis of ["x", "y"]) {
      const [low, high] = spec[axis].ends ?? svg.ends[axis], middle = low + part[axis] * (high - low);
      spec[axis] = { ...spec[axis], ends: factor ? [low, high].map((v) => middle + (v - middle) / factor) : null };
    }
    draw(svg, spec);
  }

  // Charts follow the width of the page; a folded chart is drawn again when it is shown.
  const observer = new ResizeObserver((entries) => {
    for (const { target: svg } of entries) {
      const width = Math.round(svg.clientWidth);
      if (width && width !== svg.drawnWidth) draw(svg, svg.chart);
    }
  });

  // The card: nearest value to the pointer, or the next one by the arrow keys.
  const card = Object.assign(document.createElement("div"), { className: "chart-card", hidden: true });
  card.setAttribute("role", "status");

  function show(svg, i) {
    svg.target = i;
    card.hidden = i < 0;
    if (i < 0) return;
    const [px, py, text] = svg.targets[i];
    if (!card.isConnected) document.body.append(card);
    card.textContent = text;
    const box = svg.getBoundingClientRect(), ratio = box.width / svg.drawnWidth;
    const [left, top] = [box.left + px * ratio, box.top + py * ratio];
    card.style.left = `${Math.max(4, Math.min(left + 12, innerWidth - card.offsetWidth - 8))}px`;
    card.style.top = `${top + 14 + card.offsetHeight > innerHeight ? top - 14 - card.offsetHeight : top + 14}px`;
  }

  function listen(svg) {
    svg.tabIndex = 0;
    const nearest = (event) => {
      const box = svg.getBoundingClientRect(), ratio = box.width / svg.drawnWidth;
      const [px, py] = [(event.clientX - box.left) / ratio, (event.clientY - box.top) / ratio];
      let [best, found] = [24 ** 2, -1];
      svg.targets.forEach(([x, y], i) => {
        const distance = (x - px) ** 2 + (y - py) ** 2;
        if (distance <= best) [best, found] = [distance, i];
      });
      show(svg, found);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    svg.addEventListener("pointerleave", () => show(svg, -1));
    svg.addEventListener("blur", () => show(svg, -1));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") show(svg, -1);
      if (!step || !svg.targets.length) return;
      event.preventDefault();
      show(svg, Math.max(0, Math.min(svg.targets.length - 1, svg.target + step)));
    });
  }

  // Entries of the marks that have a label; points in several colours name them in `legend`.
  function legend(marks) {
    const entries = marks.flatMap((m) => m.legend ?? (m.label && m.type !== "level" ? [[m.label, m.colour, m.type === "line" ? "line" : m.hollow ? "ring" : m.type, m.dash]] : []));
    const key = ([label, colour, kind, dash]) => {
      const fill = `style="fill:${colour}"`;
      const drawn = kind === "line" ? `<path d="M0 6H24" style="stroke:${colour}" stroke-width="2.5" stroke-dasharray="${dashes(dash)}"/>`
        : kind === "bars" ? `<rect x="6" y="1" width="12" height="10" ${fill}/>`
          : kind === "ring" ? `<circle cx="12" cy="6" r="4" fill="none" style="stroke:${colour}"/>` : `${SHAPES[SHAPES[kind] ? kind : "circle"](12, 6, 4)} ${fill}/>`;
      return `<span class="entry"><svg class="key" viewBox="0 0 24 12" aria-hidden="true">${drawn}</svg>${escape(label)}</span>`;
    };
    return entries.length > 1 ? entries.map(key).join(" ") : "";
  }

  return { draw, zoom, legend, grid, logGrid, degrees, short, escape, toSlider, fromSlider };
})();
