// The dialog of one point: its repetitions, time series, figures, calibration, tuner's table.

const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

const plotStyle = () => ({
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: styleOf("--ink") },
  hoverlabel: { bgcolor: styleOf("--card"), bordercolor: styleOf("--rule"), font: { color: styleOf("--ink") } },
});
const axisStyle = () => ({ gridcolor: styleOf("--grid"), linecolor: styleOf("--rule"), zeroline: false, automargin: true });
const plotConfig = { responsive: true, displayModeBar: false };

const PANELS = [
  { key: "mbit", title: "Goodput, Mbit/s" }, { key: "sent", title: "Left the queue, Mbit/s" }, { key: "cwnd", title: "Congestion window, packets" },
  { key: "rtt", title: "Smoothed RTT, ms" }, { key: "kb", title: "Backlog, kB" },
];

/** What a panel draws: lines of the connections, or of the queue. */
const linesOf = (found, key) => (key === "kb" || key === "sent" ? found.queues : found.lines).filter((l) => l[key].length);

/** Panels over one axis of time; without samples of connections only what the queue tells. */
const drawSeries = (target, found) => {
  const colours = listOf("--lines");
  const several = found.queues.length > 1;
  const panels = PANELS.filter((p) => linesOf(found, p.key).length && (p.key !== "sent" || !found.lines.length));
  const times = (n) => Array.from({ length: n }, (_, i) => found.t0 + i * found.dt);
  const axis = (p) => (p ? `y${p + 1}` : "y");
  const traces = panels.flatMap((panel, p) => linesOf(found, panel.key).map((line, i) => ({
    x: times(line[panel.key].length), y: line[panel.key], name: line.name, legendgroup: line.name,
    showlegend: p === 0, yaxis: axis(p), mode: "lines", connectgaps: false,
    line: { width: 1.6, color: panel.key === "kb" && !several ? styleOf("--soft") : colours[i % colours.length] },
    hovertemplate: `%{y:.4~g}<extra>${line.name}</extra>`,
  })));
  const goodput = panels.findIndex((p) => p.key === "mbit");
  found.queues.filter((queue) => queue.offered.length && goodput >= 0).forEach((queue) => traces.unshift({
    x: times(queue.offered.length), y: queue.offered, name: "offered by the link", yaxis: axis(goodput), mode: "lines", fill: "tozeroy", line: { width: 0 },
    fillcolor: styleOf("--grid"), hovertemplate: "%{y:.4~g}<extra>offered</extra>",
  }));
  found.queues.forEach((queue, i) => {
    const at = queue.drops.map((n, j) => [n, found.t0 + j * found.dt]).filter(([n]) => n > 0);
    if (at.length) traces.push({
      x: at.map(([, t]) => t), y: at.map(() => 0), customdata: at.map(([n]) => n), yaxis: axis(panels.findIndex((p) => p.key === "kb")), mode: "markers", name: several ? `drops on ${queue.name}` : "drops",
      marker: { symbol: "line-ns-open", size: 8, color: several ? colours[i] : styleOf("--bad") }, showlegend: true, hovertemplate: "%{customdata} dropped<extra></extra>",
    });
  });
  const end = found.t0 + found.dt * Math.max(...traces.map((t) => t.x.length));
  const height = 150 * panels.length + 30, share = 1 / panels.length, title = 22 / (height - 74);
  const layout = {
    ...plotStyle(), height, margin: { l: 52, r: 12, t: 34, b: 40 }, hovermode: "x unified",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { ...axisStyle(), anchor: axis(panels.length - 1), range: [0, end], title: { text: "seconds from the start of the traffic" } }, annotations: [],
  };
  panels.forEach((panel, p) => {
    const top = 1 - p * share;
    layout[`yaxis${p ? p + 1 : ""}`] = { ...axisStyle(), domain: [Math.max(top - share + title * 0.6, 0), top - title], rangemode: "tozero", nticks: 4 };
    layout.annotations.push({ text: panel.title, xref: "paper", yref: "paper", x: 0, y: top - title, xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 12, color: styleOf("--soft") } });
  });
  return Plotly.newPlot(target, traces, layout, plotConfig);
};

/** Distributions of completion times; `lines` are [name, quantiles in ms], `axis` their ends and marks. */
const drawCompletion = (target, lines, title, axis, order = lines.map(([name]) => name)) => {
  const colours = listOf("--lines");
  const traces = lines.map(([name, ms]) => ({
    x: ms, y: ms.map((_, q) => q / (ms.length - 1)), name, mode: "lines", line: { width: 2, shape: "hv", color: colours[Math.max(order.indexOf(name), 0) % colours.length] },
    hovertemplate: `%{y:.0%} within %{x:.4~g} ms<extra>${name}</extra>`,
  }));
  return Plotly.newPlot(target, traces, {
    ...plotStyle(), height: 340, margin: { l: 64, r: 12, t: title ? 40 : 12, b: 44 }, title: title ? { text: title, font: { size: 14 }, x: 0 } : undefined,
    showlegend: order.length > 1, legend: { orientation: "h", y: -0.24 },
    xaxis: { ...axisStyle(), type: "log", range: axis.ends.map(Math.log10), tickvals: axis.ticks, ticktext: axis.ticks.map((v) => v.toLocaleString("en", { maximumSignificantDigits: 6 }).replace(/,/g, "\u202f")), tickangle: 0, title: { text: "completion time, ms" } },
    yaxis: { ...axisStyle(), range: [0, 1.02], tickformat: ".0%", title: { text: "share of connections" } },
  }, plotConfig);
};

const svg = (tag, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

/** Every repetition as a dot over its interval: two modes are seen, not averaged away. */
const strip = ([median, low, high, , , , values]) => {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const x = (v) => (most > least ? 8 + (124 * (v - least)) / (most - least) : 70);
  const made = svg("svg", { class: "strip", width: 140, height: 18, role: "img", "aria-label": `${values.length} repetitions from ${shown(least)} to ${shown(most)}` });
  made.append(svg("line", { class: "interval", x1: x(low), x2: x(high), y1: 9, y2: 9 }));
  made.append(svg("line", { class: "median", x1: x(median), x2: x(median), y1: 2, y2: 16 }));
  values.forEach((v) => made.append(svg("circle", { cx: x(v), cy: 9, r: 3 })));
  return made;
};

const table = (head, rows) => element("div", { class: "scroll" }, element("table", { class: "list" },
  element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col" }, h)))),
  element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((v) => element("td", /^[−\d]/.test(v) ? { class: "num" } : {}, v instanceof Node ? v : String(v ?? "–"))))))));

const metricTable = (point, metrics) => table(["Metric", "Median", "Interval", "Repetitions"],
  Object.keys(metrics).filter((n) => point.m[n]).map((name) => {
    const m = metrics[name], known = point.m[name];
    const several = known[4] > 1;
    const interval = several ? `${shown(known[1], m.digits)} to ${shown(known[2], m.digits)}` : "one value";
    const label = element("span", { title: m.definition }, m.title);
    if (known[5]) label.append(" ", element("span", { class: "badge warn", title: "one gap of more than 0.6 of the range" }, "two modes"));
    const price = priceOf(point, m);
    return [label, `${shown(known[0], m.digits)} ${m.unit}${price ? `, ↻ ${price}` : ""}`, interval, several ? strip(known) : ""];
  }));

/** What a tuner had learned of each path and algorithm, with units. */
const tunerTable = (tuner) => table(
  ["path", "algorithm", "cost, 10⁻⁶", "chosen", "greedy", "min RTT, µs", "max rate, Mbit/s"],
  tuner.table.map((r) => [r.key, r.arm, r.cost, r.count, r.greedy, r.min_rtt_us, r.max_delivery_rate === null || r.max_delivery_rate === undefined ? "–" : shown(r.max_delivery_rate * 8e-6, 2)]
    .map((v) => (typeof v === "number" ? shown(v, 0) : v))));

const checkTable = (cell) => table(["Calibration", "Expected", "Measured", ""],
  Object.entries(cell.calibration).map(([name, [expected, measured, ok]]) => [name, expected, measured,
    element("span", { class: `badge ${ok ? "good" : "bad"}` }, ok ? "passed" : "failed")]));
