// Joins the model with the page: maps, metric chooser, dialog, theme.

const model = JSON.parse(document.getElementById("model").textContent);
const packed = JSON.parse(document.getElementById("series").textContent);
const byId = (id) => document.getElementById(id);
const { axes, layout, metrics, points } = model;
const PLAIN = { title: "", unit: "", better: "neither", digits: 3, definition: "", price: null, scale: { low: 0, high: 1, least: 0, most: 1, by_magnitude: false, alike: true, floor: 0 } };

const named = (labels, skip = []) => Object.entries(labels).filter(([a]) => !skip.includes(a)).map(([a, v]) => `${a.replace(/_/g, " ")} ${v}`).join(" · ");
const pointOf = (id) => points.find((p) => p.cells.some((c) => c.id === id));
const where = (labels) => points.filter((p) => Object.entries(labels).every(([a, v]) => p.labels[a] === v));

/** All combinations of the axes that make separate maps. */
const facets = () => layout.facets.reduce((all, axis) => all.flatMap((f) => axes[axis].map((v) => ({ ...f, [axis]: v }))), [{}])
  .filter((f) => where(f).length);

/** A cell of a map: what a point says of one metric. */
const cellButton = (point, name, scale, short) => {
  if (!point) return element("span", { class: "cell none", "aria-label": "not measured" }, "·");
  const metric = metrics[name] ?? PLAIN, known = point.m[name];
  const open = () => openPoint(point, point.typical ?? point.cells[0]?.id);
  if (!point.ok) {
    const what = point.rejected ? "rejected" : "failed";
    return element("button", { class: "cell broken", type: "button", tabindex: -1, onclick: open, "data-cell": point.cells[0]?.id, "aria-label": `${named(point.labels)}: ${what}` }, what);
  }
  if (!known) return element("button", { class: "cell none", type: "button", tabindex: -1, onclick: open, "data-cell": point.typical, "aria-label": `${named(point.labels)}: no figure` }, "–");
  const [median, low, high, coverage, count, twoModes] = known;
  const price = priceOf(point, metric);
  const spoken = `${named(point.labels)}: ${metric.title} ${shown(median, metric.digits)} ${metric.unit}` + (count > 1 ? `, from ${shown(low, metric.digits)} to ${shown(high, metric.digits)} over ${count} repetitions (${Math.round(coverage * 100)} %)` : "") + (twoModes ? ", two modes" : "") + (point.rejected ? `, ${point.rejected} rejected` : "") + (price ? `, ${price} retransmitted` : "");
  const digits = short ? Math.min(metric.digits, 2) : metric.digits;
  const button = element("button", { class: "cell", type: "button", tabindex: -1, onclick: open, "data-cell": point.typical, "aria-label": spoken, title: spoken },
    shown(median, digits), count > 1 ? element("small", {}, `${shown(low, digits)}–${shown(high, digits)}`) : null,
    price ? element("small", { class: "price" }, `↻ ${price}`) : null,
    twoModes || point.rejected ? element("span", { class: "mark", "aria-hidden": "true" }, (twoModes ? "⁞" : "") + (point.rejected ? "×" : "")) : null);
  const colour = paint(scale.share(median), scale.ramp);
  button.style.cssText = `--fill:${colour.fill};--ink-on:${colour.ink}`;
  return button;
};

/** The point of a row and a column; of a pairwise campaign that ran one order only, the other
    order's, with the metric of the other flow. */
const find = (inside, row, column, name) => {
  const at = (r, c) => inside.find((p) => p.labels[layout.rows] === r && p.labels[layout.columns] === c);
  const own = at(row, column);
  if (own || !axes[layout.rows].includes(column)) return [own, name];
  const [base, group] = name.split(".");
  const other = { [layout.rows]: layout.columns, [layout.columns]: layout.rows }[group];
  return [at(column, row), other ? `${base}.${other}` : name];
};

const matrixMap = (facet, name) => {
  const inside = where(facet);
  const scale = scaleFor((metrics[name] ?? PLAIN).scale, metrics[name] ?? PLAIN);
  // A value without any figure of this metric (Jain's index of a solo run) is no row or column.
  const used = (axis) => axes[axis].filter((v) => inside.some((p) => [p.labels[axis], p.labels[layout.rows], p.labels[layout.columns]].includes(v) && (p.m[name] || !p.ok)));
  const [rows, columns] = [used(layout.rows), used(layout.columns)];
  const head = element("tr", {}, element("th", { class: "corner" }, `${layout.rows.replace(/_/g, " ")} ↓  ${layout.columns.replace(/_/g, " ")} →`), ...columns.map((c) => element("th", { scope: "col" }, String(c))));
  const body = rows.map((r) => element("tr", {}, element("th", { scope: "row" }, String(r)), ...columns.map((c) =>
    element("td", {}, cellButton(...find(inside, r, c, name), scale, columns.length > 7)))));
  return [head, body, legend(scale, metrics[name] ?? PLAIN)];
};

/** One axis only: its values down, the metrics that matter across. */
const listMap = () => {
  const across = layout.across.length ? layout.across : Object.keys(metrics).slice(0, 8);
  const unitOf = (n) => (metrics[n].unit ? `, ${metrics[n].unit}` : "");
  const head = element("tr", {}, element("th", { class: "corner" }, layout.rows ?? ""), ...across.map((n) => element("th", { scope: "col", title: metrics[n].definition }, metrics[n].title + unitOf(n))));
  const scales = across.map((n) => scaleFor(metrics[n].scale, metrics[n]));
  const body = points.map((p) => element("tr", {}, element("th", { scope: "row" }, String(layout.rows ? p.labels[layout.rows] : model.campaign)),
    ...across.map((n, i) => element("td", {}, cellButton(p, n, scales[i], false)))));
  return [head, body, element("p", { class: "legend" }, "colours within each column")];
};

const drawMaps = () => {
  const name = byId("metric").value || layout.metric;
  const single = !layout.columns;
  byId("metric").closest("label").hidden = single;
  byId("metric-note").textContent = single || !metrics[name] ? "↻: segments retransmitted. Select a cell to see its time series." : `${metrics[name].title}: ${metrics[name].definition}.${metrics[name].price ? " ↻: segments retransmitted for it." : ""} Select a cell to see its time series.`;
  byId("maps").replaceChildren(...(single ? [{}] : facets()).map((facet) => {
    const [head, body, below] = single ? listMap() : matrixMap(facet, name);
    const made = element("table", { class: "heat" }, Object.keys(facet).length ? element("caption", {}, named(facet)) : null, element("thead", {}, head), element("tbody", {}, ...body));
    made.classList.toggle("roomy", head.cells.length <= 8);
    rove(made);
    return element("div", { class: "facet" }, element("div", { class: "scroll" }, made), below);
  }));
};

const repetitionNote = () => {
  const counts = points.filter((p) => p.ok).map((p) => p.ok);
  if (!counts.length) return "No cell was measured.";
  const least = Math.min(...counts);
  const marks = "⁞ marks two modes, × a rejected repetition, hatching a cell without a good one.";
  if (least >= 6) return `Small figures: distribution-free 95 % interval of the median. ${marks}`;
  if (Math.max(...counts) === 1) return `One repetition: no interval can be given; six are needed for 95 %. ${marks}`;
  return `Small figures: range of the median's interval. With ${least} repetitions, the fewest here, it covers the median with less than 95 %; six are needed. ${marks}`;
};

let opened = null;

const openPoint = async (point, id) => {
  const cell = point.cells.find((c) => c.id === id) ?? point.cells[0];
  opened = { point, id: cell.id };
  byId("detail-where").textContent = model.campaign;
  byId("detail-title").textContent = named(point.labels);
  byId("detail-repetitions").replaceChildren(...(point.cells.length < 2 ? [] : point.cells.map((c) => element("button", {
    class: `plain ${c.status === "ok" ? "" : "bad"}`, type: "button", "aria-pressed": String(c.id === cell.id), onclick: () => openPoint(point, c.id),
  }, `repetition ${c.repetition}${c.status === "ok" ? "" : `, ${c.status}`}${c.id === point.typical ? " (median)" : ""}`))));
  const facts = [cell.status === "ok" ? "" : cell.status.toUpperCase() + (cell.error ? `: ${cell.error}` : ""), cell.kernel && `Linux ${cell.kernel}`, `seed ${cell.seed ?? "–"}`,
    cell.virtual_s && `${shown(cell.virtual_s, 1)} s ${model.virtual_time ? "virtual" : "of traffic"}`, cell.wall_s && `${shown(cell.wall_s, 1)} s wall`, `cells/${cell.id}`];
  byId("detail-status").textContent = facts.filter(Boolean).join(" · ");
  byId("detail-metrics").replaceChildren(Object.keys(point.m).length ? metricTable(point, metrics) : "");
  const plot = element("div", { class: "plot" });
  byId("detail-more").replaceChildren(Object.keys(cell.calibration).length ? checkTable(cell) : "",
    point.tuner ? element("div", {}, element("h4", {}, `Table of ${point.tuner.name}`), tunerTable(point.tuner)) : "",
    cell.commands.length ? element("details", {}, element("summary", {}, "Commands that made the path"), element("pre", {}, cell.commands.join("\n"))) : "",
    Object.keys(point.arms).length ? element("p", { class: "note" }, `Chosen: ${Object.entries(point.arms).map(([a, n]) => `${a} ${n}×`).join(", ")}`) : "",
    point.fct_by_size.length ? element("div", {}, element("h4", {}, "Completion by size"), table(["Size", "Connections", "Slowdown p50", "p95", "p99"],
      point.fct_by_size.map((b) => [b.bin, b.count, ...[50, 95, 99].map((p) => shown(b[`fct_slowdown_p${p}`], 2))]))) : "", plot);
  if (!byId("detail").open) { byId("detail").showModal(); byId("detail-title").focus(); }
  history.replaceState(null, "", `#cell=${encodeURIComponent(cell.id)}`);
  if (point.fct.length) await drawCompletion(plot, [["completion time", point.fct]], "Completion times", point.fct_axis);
  await drawCellSeries(cell);
};

const drawCellSeries = async (cell) => {
  const target = byId("detail-series");
  Plotly.purge(target);
  target.replaceChildren();
  if (!packed[cell.id]) {
    byId("detail-series-note").textContent = cell.status === "failed" ? "" : "No time series are kept in this page for this cell; its directory has the samples.";
    return;
  }
  const found = await unpack(packed[cell.id]);
  if (opened?.id !== cell.id) return;
  await drawSeries(target, found);
  byId("detail-series-note").textContent = `Averages over ${shown(found.dt * 1000, 0)} ms. Drag to enlarge, double-click to go back.`;
};

/** Curves compare algorithms and tuners, if those were swept; figures are the other axes. */
const waysAndConditions = () => {
  const variants = ["tuner", "variant", "cc"].filter((a) => axes[a]?.length > 1);
  const across = variants.length ? variants : [layout.columns ?? layout.rows].filter(Boolean);
  return { across, rest: Object.keys(axes).filter((a) => !across.includes(a)) };
};

const drawCompletionSection = () => {
  if (!points.some((p) => p.fct.length)) return;
  byId("fct").hidden = byId("to-fct").hidden = false;
  const { across, rest } = waysAndConditions();
  const part = (p, wanted) => named(Object.fromEntries(wanted.map((a) => [a, p.labels[a]])));
  const groups = new Map();
  const measured = points.filter((p) => p.fct.length);
  measured.forEach((p) => groups.set(part(p, rest), [...(groups.get(part(p, rest)) ?? []), [part(p, across) || "all", p.fct]]));
  const order = [...new Set(measured.map((p) => part(p, across) || "all"))];
  const targets = [...groups].map(() => element("div", { class: "plot" }));
  byId("fct-figures").replaceChildren(...targets);
  [...groups].forEach(([title, lines], i) => drawCompletion(targets[i], lines, title, model.fct_axis, order));
};

const drawTuners = () => {
  const tuned = points.filter((p) => p.tuner);
  if (!tuned.length) return;
  byId("tuners").hidden = byId("to-tuners").hidden = false;
  byId("tuner-tables").replaceChildren(...tuned.map((p) => {
    const total = Object.values(p.arms).reduce((a, b) => a + b, 0);
    const [most, times] = Object.entries(p.arms).sort((a, b) => b[1] - a[1])[0] ?? ["–", 0];
    const gain = p.m.goodput_to_cubic ? `, ${shown(p.m.goodput_to_cubic[0], 2)}× cubic` : "";
    const price = p.m.retransmit_ratio ? `, ${shown(100 * p.m.retransmit_ratio[0], 2)} % retransmitted` : "";
    const regret = p.m.regret ? `, regret ${shown(p.m.regret[0], 3)}` : "";
    return element("article", {}, element("h3", {}, named(p.labels)),
      element("p", { class: "note" }, total ? `${most} for ${times} of ${total} connections${gain}${regret}${price}` : `no connection's choice was recorded${gain}${regret}${price}`), tunerTable(p.tuner));
  }));
};

const drawAll = () => {
  drawMaps();
  document.querySelectorAll("[data-matrix]").forEach((holder) => {
    const found = JSON.parse(byId(`matrix-${holder.dataset.matrix}`).textContent);
    holder.replaceChildren(...trio(found, metrics[found.metric] ?? PLAIN));
  });
  drawCompletionSection();
  drawTimeSection();
  if (byId("detail").open && opened) openPoint(opened.point, opened.id);
};

const remembered = { get: () => { try { return localStorage.getItem("tcplab-theme"); } catch { return null; } }, set: (v) => { try { localStorage.setItem("tcplab-theme", v); } catch { /* a page from a file may have no storage */ } } };
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = remembered.get() ?? "auto";
const applyTheme = () => {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  document.documentElement.style.colorScheme = document.documentElement.dataset.theme;
  byId("theme").querySelector("span").textContent = theme;
  drawAll();
};
byId("theme").addEventListener("click", () => { theme = { auto: "light", light: "dark", dark: "auto" }[theme]; remembered.set(theme); applyTheme(); });
dark.addEventListener("change", applyTheme);

Object.entries(metrics).forEach(([name, m]) => byId("metric").append(element("option", { value: name, selected: name === layout.metric }, m.unit ? `${m.title}, ${m.unit}` : m.title)));
byId("metric").addEventListener("change", drawMaps);
byId("repetition-note").textContent = repetitionNote();
byId("detail-close").addEventListener("click", () => byId("detail").close());
byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });
byId("detail").addEventListener("close", () => { opened = null; Plotly.purge(byId("detail-series")); history.replaceState(null, "", location.pathname + location.search); });
document.querySelectorAll("[data-open]").forEach((b) => b.addEventListener("click", () => openPoint(pointOf(b.dataset.open), b.dataset.open)));
byId("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(byId("command").textContent); byId("copy").textContent = "Copied"; }
  catch { getSelection().selectAllChildren(byId("command")); }
});
applyTheme();
drawTuners();
const wanted = decodeURIComponent(location.hash.replace(/^#cell=/, ""));
if (location.hash.startsWith("#cell=") && pointOf(wanted)) openPoint(pointOf(wanted), wanted);
