// Heat maps as tables: readable without the script's colours, by keyboard and by screen reader.
"use strict";

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
};

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const listOf = (name) => styleOf(name).split(/\s+/);

/** For people: as many decimals as the metric has, fewer for great numbers, thousands apart. */
const shown = (value, digits = 3) => {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const decimals = size >= 1000 ? 0 : size >= 100 ? Math.min(digits, 1) : digits;
  return value.toLocaleString("en", {
    minimumFractionDigits: decimals, maximumFractionDigits: decimals,
  }).replace(/,/g, "\u202f").replace(/^-(?=0\.?0*$)/, "").replace("-", "−");
};

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** A colour of the ramp and the ink that is readable on it; `share` from 0 to 1. */
const paint = (share, ramp) => {
  const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const [a, b] = [rgb(ramp[low]), rgb(ramp[low + 1])];
  const mixed = a.map((v, i) => Math.round(v + (b[i] - v) * (at - low)));
  const linear = mixed.map((v) => (v / 255) ** 2.2);
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return { fill: `rgb(${mixed})`, ink: luminance > 0.2 ? "#14181b" : "#ffffff" };
};

/** Where a value lies on a ramp, 0 worst (or least) to 1; the ends come with the model. */
const scaleFor = (ends, metric) => {
  const flip = metric.better === "less";
  const place = ends.by_magnitude ? Math.log : (v) => v;
  const span = place(ends.high) - place(ends.low);
  return {
    ...ends,
    ramp: listOf(metric.better === "neither" ? "--plain-ramp" : "--ramp"),
    share: (v) => {
      if (ends.alike || span <= 0) return 0.5;
      const share = (place(v) - place(ends.low)) / span;
      return flip ? 1 - share : share;
    },
  };
};

const legend = (scale, metric) => {
  const unit = metric.unit ? ` ${metric.unit}` : "";
  const [least, most] = [scale.least, scale.most].map((v) => shown(v, metric.digits) + unit);
  if (scale.alike) return element("p", { class: "legend" }, least === most ? least : `${least} to ${most}: no difference of more than ${scale.floor}${unit}, so one colour`);
  const ramp = metric.better === "less" ? [...scale.ramp].reverse() : scale.ramp;
  const bar = element("i", { "aria-hidden": "true" });
  bar.style.background = `linear-gradient(90deg, ${ramp.join(", ")})`;
  const better = { more: "more is better", less: "less is better", neither: "" }[metric.better];
  return element("p", { class: "legend" },
    shown(scale.low, metric.digits) + unit, bar, shown(scale.high, metric.digits) + unit,
    element("span", {}, [better, scale.by_magnitude ? "colours by order of magnitude" : ""].filter(Boolean).join("; ")));
};

/** The share of segments that were retransmitted for a goodput; empty for any other metric. */
const priceOf = (point, metric) => {
  const known = metric.price && point.m[metric.price];
  return known ? `${shown(100 * known[0], 2)} %` : "";
};

/** One tab stop per table; arrows move within it, Home and End along the row. */
const rove = (table) => {
  const grid = [...table.tBodies[0].rows].map((r) => [...r.querySelectorAll("td")].map((d) => d.querySelector("button.cell")));
  const first = grid.flat().find(Boolean);
  if (first) first.tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -99], End: [0, 99] }[event.key];
    const row = grid.findIndex((r) => r.includes(document.activeElement));
    if (!step || row < 0) return;
    event.preventDefault();
    const column = grid[row].indexOf(document.activeElement);
    const clamp = (v, n) => Math.min(Math.max(v, 0), n - 1);
    let [r, c] = [clamp(row + step[0], grid.length), clamp(column + step[1], grid[row].length)];
    while (!grid[r][c] && grid[r + step[0]] && c + Math.sign(step[1]) in grid[r]) { r += step[0]; c += Math.sign(step[1]); }
    const next = grid[r][c];
    if (!next) return;
    document.activeElement.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
};

/** A small map without buttons, for tables side by side. */
const still = (title, found, grid, scale, metric) => {
  const head = element("tr", {}, element("td"), ...found.columns.map((c) => element("th", { scope: "col" }, element("span", {}, String(c)))));
  const rows = found.rows.map((name, r) => element("tr", {}, element("th", { scope: "row" }, String(name)),
    ...grid[r].map((value, c) => {
      if (value === null) return element("td", {}, element("span", { class: "cell static none", "aria-label": "not measured" }, "·"));
      const colour = paint(scale.share(value), scale.ramp);
      const text = value.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
      const cell = element("span", { class: "cell static", title: `${name}, ${found.columns[c]}: ${text}` }, text);
      cell.style.cssText = `--fill:${colour.fill};--ink-on:${colour.ink}`;
      return element("td", {}, cell);
    })));
  return element("div", {}, element("table", { class: `heat${found.columns.length > 9 ? " dense" : ""}` }, element("caption", {}, title),
    element("thead", {}, head), element("tbody", {}, ...rows)), legend(scale, metric));
};

const trio = (found, metric) => {
  const scale = scaleFor(found.scale, metric);
  const widest = Math.max(0.05, ...found.gap.flat().map((v) => Math.abs(v ?? 0)));
  const gaps = { low: -widest, high: widest, by_magnitude: false, alike: false, ramp: listOf("--gap-ramp"), share: (v) => (v + widest) / (2 * widest) };
  return [
    still("Published", found, found.published, scale, metric),
    still("Ours", found, found.ours, scale, metric),
    still("Ours minus published", found, found.gap, gaps, { ...metric, better: "neither", digits: 2 }),
  ];
};
