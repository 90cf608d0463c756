"use strict";
// Texts come from networks and from other users of the host. They become text nodes, never markup; plots and
// tables of the report arrive as parsed documents, whose texts the daemon has escaped.
const TURN_MS = 2000, REPORT_MS = 15000, STORY_MS = 5000, PATIENCE_MS = 8000;
const $ = (id) => document.getElementById(id);

function make(tag, options = {}, ...children) {
  const { text, ...attributes } = options;
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Numbers as `tcpilot paths` writes them.
function mbit(rate) {
  if (rate === null || rate === undefined) return "–";
  const value = rate * 8 / 1e6;
  return value.toFixed(value < 0.0995 ? 3 : value < 9.95 ? 2 : value < 99.5 ? 1 : 0);
}
const range = (low, high, form) => low === null || high === null ? "" : `${form(low)} to ${form(high)}`;
const percent = (part) => part === null ? "–" : `${(100 * part).toFixed(Math.abs(part) < 0.0995 ? 1 : 0)} %`;
const signed = (part) => (part > 0 ? "+" : "") + percent(part);
const ms = (us) => us === null ? "–" : `${(us / 1000).toFixed(us < 9950 ? 2 : us < 99500 ? 1 : 0)} ms`;
const count = (number) => number.toLocaleString("en-GB");
const bytes = (number) => {
  const at = number < 1e6 ? 1 : number < 1e9 ? 2 : number < 1e12 ? 3 : 4;
  return `${(number / 1000 ** at).toFixed(1)} ${["", "kB", "MB", "GB", "TB"][at]}`;
};
function span(s) {
  s = Math.round(s);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
const clock = (unix_s) => new Date(unix_s * 1000).toISOString().slice(5, 16).replace("T", " ");

async function get(address) {
  const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// A document parsed by the browser: its scripts do not run.
function getDocument(address) {
  return new Promise((done, failed) => {
    const asked = new XMLHttpRequest();
    asked.open("GET", address);
    asked.responseType = "document";
    asked.timeout = PATIENCE_MS;
    asked.onload = () => asked.status === 200 && asked.response ? done(asked.response) : failed(new Error("no answer"));
    asked.onerror = asked.ontimeout = () => failed(new Error("no answer"));
    asked.send();
  });
}

// The five lines, and each problem.
const told = {};
const TITLES = { state: "State", wrong: "Wrong", helps: "Helps", gains: "Gains", alone: "Left alone" };
for (const [word, title] of Object.entries(TITLES)) {
  $("lines").append(make("dt", { text: title }), make("dd", { class: word, text: "…" }));
}

function drawStatus(status) {
  for (const [word, text] of status.lines) {
    const line = $("lines").querySelector("." + CSS.escape(word));
    if (!line) continue;
    const [first, ...rest] = word === "helps" ? text.split(" · ") : [text];
    if (told[word] !== text) line.replaceChildren(first, ...rest.map((text) => make("small", { text })));
    told[word] = text;
    line.classList.toggle("bad", word === "wrong" && text !== "nothing");
  }
  const all = [...status.algorithms_missing, ...status.degraded];
  $("problems").hidden = all.length < 2;
  $("problems").replaceChildren(...all.map((text) => make("li", { text })));
  drawHost(status);
}

function drawHost(status) {
  const { traffic, learning } = status;
  const entries = [
    ["Version", `${status.version}, up ${span(status.uptime_s)}`],
    ["Kernel", status.kernel],
    ["Steered cgroup", status.cgroup],
    ["Algorithms", status.algorithms.join(", ")],
    ["Learner", status.learner],
    ["After heavy loss", status.rescue ?? "no other algorithm"],
    ["Connections open now", count(status.live_flows)],
    ["Connections ended", `${count(status.closed)}, judged by ${count(status.charged)}`],
    ["Rescued, moved", `${count(status.rescues)}, ${count(status.moves)}`],
    ["Paths known", `${count(status.paths)} of at most ${count(status.paths_max)}`],
    ["Steerable traffic", traffic === null ? "not known yet"
      : `${traffic.share === null ? "share not known" : percent(traffic.share)}, ${bytes(traffic.steered_bytes)} of ${
        bytes(traffic.sent_bytes + traffic.received_bytes)}`],
    ["Exploring has cost", learning === null ? "not known now" : `as much as ${learning.explored.toFixed(1)} connections`],
    ["Memory of the daemon", bytes(status.resident_bytes)],
    ["State file", status.state],
  ];
  const list = $("host");
  entries.forEach(([name, text], at) => {
    if (!list.children[at]) list.append(make("div", {}, make("dt", { text: name }), make("dd")));
    write(list.children[at].lastChild, text);
  });
  const found = (learning?.changes ?? []).map((one) => make("li", {
    text: `${span(one.age_s)} ago: ${one.level} ${one.prefix}${one.policy === "default" ? "" : ` [${one.policy}]`}`,
  }));
  $("changes").replaceChildren(...(found.length ? found : [make("li", { class: "dim", text: "none" })]));
}

// The table of addresses.
const COLUMNS = [
  { key: "path", title: "Address" },
  { key: "algorithm", title: "Algorithm" },
  { key: "rate", title: "With", unit: "Mbit/s" },
  { key: "rate_without", title: "Without", unit: "Mbit/s" },
  { key: "effect", title: "Gain" },
  { key: "loss_ratio", title: "Loss" },
  { key: "srtt_us", title: "RTT" },
  { key: "connections", title: "Connections" },
];
const order = { key: "connections", down: true };
const rows = new Map();
let addresses = [], more = 0, opened = null;

for (const column of COLUMNS) {
  column.name = column.unit ? `${column.title}, ${column.unit}` : column.title;
  const head = make("th", { scope: "col" }, make("button", { type: "button", text: column.name }));
  head.firstChild.addEventListener("click", () => {
    const isText = column.key === "path" || column.key === "algorithm";
    order.down = order.key === column.key ? !order.down : !isText;
    order.key = column.key;
    drawTable();
  });
  column.head = head;
  $("paths").tHead.rows[0].append(head);
}

function rateCell(className) {
  const bar = make("span", { class: "bar " + className, "aria-hidden": "true" }, make("i"));
  return [make("span"), make("small"), bar];
}

function makeRow(name) {
  const button = make("button", { type: "button", class: "open", text: name, "aria-expanded": "false" });
  button.addEventListener("click", () => open(opened === name ? null : name));
  const cell = (at, ...children) => make("td", { "data-name": COLUMNS[at].name }, ...children);
  const cells = [
    make("th", { scope: "row" }, button), cell(1), cell(2, ...rateCell("with")), cell(3, ...rateCell("without")),
    cell(4, make("span"), make("small")), cell(5), cell(6), cell(7),
  ];
  const row = { line: make("tr", {}, ...cells), cells, button };
  rows.set(name, row);
  return row;
}

function drawRate(cell, mean, low, high, most) {
  const [value, interval, bar] = cell.children;
  write(value, mbit(mean));
  write(interval, range(low, high, mbit));
  bar.hidden = mean === null;
  bar.firstChild.style.width = most > 0 ? `${100 * mean / most}%` : "0";
}

function drawRow(view) {
  const { cells, line } = rows.get(view.path) ?? makeRow(view.path);
  const most = Math.max(view.rate ?? 0, view.rate_without ?? 0);
  write(cells[1], view.algorithm);
  drawRate(cells[2], view.rate, view.rate_low, view.rate_high, most);
  drawRate(cells[3], view.rate_without, view.rate_without_low, view.rate_without_high, most);
  const [gain, sure] = cells[4].children;
  write(gain, view.effect === null ? "–" : signed(view.effect));
  write(sure, view.effect === null ? "is the default"
    : `${range(view.effect_low, view.effect_high, signed)}, ${view.sure ? "sure" : "not sure yet"}`);
  gain.className = view.sure ? "sure" : "";
  write(cells[5], percent(view.loss_ratio));
  write(cells[6], ms(view.srtt_us));
  write(cells[7], count(view.connections));
  return line;
}

function compare(a, b) {
  const [left, right] = [a[order.key], b[order.key]];
  if (left === null || right === null) return (left === null) - (right === null);
  const by = typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right;
  return (order.down ? -by : by) || a.path.localeCompare(b.path, "en", { numeric: true });
}

function drawTable() {
  for (const column of COLUMNS) {
    const way = order.key !== column.key ? "none" : order.down ? "descending" : "ascending";
    column.head.setAttribute("aria-sort", way);
  }
  const words = $("search").value.toLowerCase().trim();
  const isFound = (view) => `${view.path} ${view.algorithm}`.toLowerCase().includes(words);
  const shown = addresses.filter(isFound).sort(compare);
  const lines = [];
  for (const view of shown) {
    lines.push(drawRow(view));
    if (view.path === opened) lines.push(story.line);
  }
  const body = $("paths").tBodies[0];
  lines.forEach((line, at) => {
    if (body.children[at] !== line) body.insertBefore(line, body.children[at] ?? null);
  });
  while (body.children.length > lines.length) body.lastChild.remove();
  const known = new Set(addresses.map((view) => view.path));
  for (const name of rows.keys()) if (!known.has(name)) rows.delete(name);
  const others = more ? `; ${count(more)} more paths with fewer connections are not listed` : "";
  write($("count"), addresses.length ? `${count(shown.length)} of ${count(addresses.length)} addresses${others}`
    : "no path has been seen yet");
}
$("search").addEventListener("input", drawTable);

// The story of an address.
const story = { line: make("tr", { class: "story" }), box: make("div"), at: 0 };
story.line.append(make("td", { colspan: COLUMNS.length }, story.box));

function open(name) {
  if (opened !== null) rows.get(opened)?.button.setAttribute("aria-expanded", "false");
  opened = name;
  history.replaceState(null, "", name === null ? "#" : "#" + encodeURIComponent(name));
  story.box.replaceChildren(make("p", { class: "dim", text: "Asking for its story." }));
  if (name !== null) {
    rows.get(name)?.button.setAttribute("aria-expanded", "true");
    tell();
  }
  drawTable();
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || opened === null || event.target === $("search")) return;
  const button = rows.get(opened)?.button;
  open(null);
  button?.focus();
});

async function tell() {
  const name = opened;
  story.at = Date.now();
  if (name === null || !addresses.some((view) => view.path === name)) return;
  try {
    const query = "?name=" + encodeURIComponent(name);
    const found = await get("/data/path" + query);
    const plot = await getDocument("/data/path.svg" + query);
    if (opened === name) drawStory(found, document.importNode(plot.documentElement, true));
  } catch (error) {
    story.at = Date.now() - STORY_MS + 1000; // soon again
    if (opened === name && !story.box.querySelector("svg")) {
      story.box.replaceChildren(make("p", { class: "dim", text: `No story yet: ${error.message}` }));
    }
  }
}

function drawStory(found, plot) {
  const parts = [make("ul", {}, ...found.sentences.map((text) => make("li", { text })))];
  if (found.stopped) parts.unshift(make("p", { class: "worse", text: found.stopped }));
  const key = [["k1", "with steering"], ["k2", "with the kernel's default"], ["k3", "a connection"]];
  parts.push(
    make("h3", { text: "Goodput over time, Mbit/s" }),
    make("p", { class: "dim", text: "Expected rates with their intervals, and the last connections (UTC)." }),
    make("div", { class: "plot" }, plot),
    make("p", { class: "key" }, ...key.map(([of, text]) => make("span", {}, make("i", { class: of }), text))),
  );
  const list = (title, items, without) => parts.push(make("h3", { text: title }),
    items.length ? make("ul", { class: "rows" }, ...items) : make("p", { class: "dim", text: without }));
  const line = (...texts) => make("li", {}, ...texts.map((text) => make("span", { text })));
  const decisions = found.paths.flatMap((one) => one.decisions).sort((a, b) => a.age_s - b.age_s);
  list("Last decisions", decisions.map((made) => line(
    `${span(made.age_s)} ago`, made.algorithm ?? "default", made.goodput === null ? "–" : `${mbit(made.goodput)} Mbit/s`,
    made.loss_ratio === null ? "" : `${percent(made.loss_ratio)} lost`,
    `${made.side}, ${made.end}: ${made.because}${made.dry_run ? " (dry run: not set)" : ""}`,
  )), "None in the daemon's memory.");
  list("Changes", changes(found).map(([when, text]) => line(when, "", "", "", text)), "None since the page began to look.");
  list(`Open connections: ${count(found.flows_all)}`, found.flows.map((flow) => line(
    flow.age_s === null ? "" : span(flow.age_s), flow.algorithm,
    flow.delivery_rate === null ? "–" : `${mbit(flow.delivery_rate)} Mbit/s`, `RTT ${ms(flow.srtt_us)}`,
    `${flow.local} to ${flow.remote}, ${flow.why}`,
  )), "None.");
  story.box.replaceChildren(...parts);
}

// Detected changes of the path, and changes of the preferred algorithm.
function changes(found) {
  const all = found.paths.filter((one) => one.path.changed_age_s !== null)
    .map((one) => [`${span(one.path.changed_age_s)} ago`, "the path changed, and older measures count less"]);
  const points = found.history;
  for (let at = points.length - 1; at > 0 && all.length < 8; at--) {
    const [before, after] = [points[at - 1].algorithm, points[at].algorithm];
    if (before !== after) all.push([clock(points[at].at_unix_s), `most connections get ${after} instead of ${before}`]);
  }
  return all;
}

// The effect, as the report shows it.
let reportAt = 0;
async function drawEffect() {
  reportAt = Date.now();
  try {
    const report = await getDocument("/report");
    const parts = ["measures", "goodput-over-time"].map((id) => report.getElementById(id)).filter((part) => part);
    const unknown = report.querySelector("main > p");
    const shown = parts.length ? parts : unknown ? [unknown] : [];
    $("effect").replaceChildren(...shown.map((part) => document.importNode(part, true)));
  } catch {
    reportAt = Date.now() - REPORT_MS + TURN_MS; // the next turn shows whether the daemon answers
  }
}

// Turns.
let answered = 0;
async function turn() {
  try {
    const [status, paths] = await Promise.all([get("/data/status"), get("/data/paths")]);
    answered = Date.now();
    drawStatus(status);
    [addresses, more] = [paths.addresses, paths.paths_more];
    drawTable();
    document.body.classList.remove("stale");
    write($("state"), "live");
    if (Date.now() - reportAt >= REPORT_MS) await drawEffect();
    $("content").hidden = false;
    if (opened !== null && Date.now() - story.at >= STORY_MS) await tell();
  } catch (error) {
    document.body.classList.add("stale");
    const why = error instanceof TypeError ? "tcpilot cannot be reached" : error.name === "TimeoutError"
      ? "tcpilot does not answer" : error.message;
    write($("state"), `stale: ${why}`);
  }
  drawWhen();
}

function drawWhen() {
  const age_s = Math.round((Date.now() - answered) / 1000);
  write($("when"), answered === 0 ? "" : document.body.classList.contains("stale") ? `as of ${span(age_s)} ago`
    : new Date(answered).toLocaleTimeString("en-GB"));
}

async function run() {
  if (!document.hidden) await turn();
  setTimeout(run, TURN_MS);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
// Content appears as a whole, so nothing jumps while the first answers come in.
$("content").hidden = true;
drawTable();
run().then(() => {
  const name = decodeURIComponent(location.hash.slice(1));
  if (name && addresses.some((view) => view.path === name)) open(name);
});
