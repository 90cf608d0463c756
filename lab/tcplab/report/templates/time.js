// Links that follow a trace: the variants of a condition over one axis of time, beside what the link offered.

const TIME_PANELS = [{ key: "mbit", title: "Goodput, Mbit/s (grey: offered by the link)" }, { key: "rtt", title: "Smoothed RTT, ms" }];

/** The bins of a variant: the sum of its connections' goodputs, and the mean of their round trips. */
const wayOver = (found, key) => {
  const lines = found.lines.map((line) => line[key]);
  const length = Math.max(0, ...lines.map((line) => line.length));
  return Array.from({ length }, (_, i) => {
    const known = lines.map((line) => line[i]).filter((v) => v !== null && v !== undefined);
    const sum = known.reduce((a, b) => a + b, 0);
    return known.length ? (key === "mbit" ? sum : sum / known.length) : null;
  });
};

/** `variants` are [name, series]; colours follow `order`, which all figures share. */
const drawVariants = (target, title, variants, order) => {
  const colours = listOf("--lines");
  const times = (found, n) => Array.from({ length: n }, (_, i) => found.t0 + i * found.dt);
  const [, first] = variants[0];
  const offered = first.queues.find((queue) => queue.offered.length);
  const traces = offered ? [{
    x: times(first, offered.offered.length), y: offered.offered, name: "offered by the link", mode: "lines", fill: "tozeroy", showlegend: false,
    line: { width: 0 }, fillcolor: styleOf("--grid"), hovertemplate: "%{y:.4~g}<extra>offered</extra>",
  }] : [];
  for (const [name, found] of variants) TIME_PANELS.forEach((panel, p) => {
    const y = wayOver(found, panel.key);
    traces.push({
      x: times(found, y.length), y, name, legendgroup: name, showlegend: p === 0, yaxis: p ? "y2" : "y", mode: "lines", connectgaps: false,
      line: { width: 1.6, color: colours[order.indexOf(name) % colours.length] }, hovertemplate: `%{y:.4~g}<extra>${name}</extra>`,
    });
  });
  const panelTitle = (text, y) => ({ text, xref: "paper", yref: "paper", x: 0, y, xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 12, color: styleOf("--soft") } });
  return Plotly.newPlot(target, traces, {
    ...plotStyle(), height: 440, margin: { l: 56, r: 12, t: 44, b: 74 }, title: { text: title, font: { size: 14 }, x: 0 }, hovermode: "x unified",
    legend: { orientation: "h", y: -0.16, x: 0 },
    xaxis: { ...axisStyle(), anchor: "y2", title: { text: "seconds from the start of the traffic" } },
    yaxis: { ...axisStyle(), domain: [0.55, 0.96], rangemode: "tozero", nticks: 5 },
    yaxis2: { ...axisStyle(), domain: [0, 0.42], rangemode: "tozero", nticks: 5 },
    annotations: [panelTitle(TIME_PANELS[0].title, 0.965), panelTitle(TIME_PANELS[1].title, 0.425)],
  }, plotConfig);
};

/** A figure for each condition; of each variant the repetition whose goodput is the median. */
const drawTimeSection = async () => {
  const drawn = model.over_time ? points.filter((p) => packed[p.typical]) : [];
  if (!drawn.length) return;
  byId("time").hidden = byId("to-time").hidden = false;
  const { across, rest } = waysAndConditions();
  const part = (p, wanted) => named(Object.fromEntries(wanted.map((a) => [a, p.labels[a]]))) || "all";
  const variant = (p) => (across.length === 1 ? String(p.labels[across[0]]) : part(p, across));
  const order = [...new Set(drawn.map(variant))];
  const groups = new Map();
  for (const p of drawn) groups.set(part(p, rest), [...(groups.get(part(p, rest)) ?? []), [variant(p), await unpack(packed[p.typical])]]);
  const targets = [...groups].map(() => element("div", { class: "plot" }));
  byId("time-figures").replaceChildren(...targets);
  [...groups].forEach(([title, variants], i) => drawVariants(targets[i], title === "all" ? "" : title, variants, order));
};
