// The dashboard page: reads the JSON routes and shows them. Text that a model or a user wrote
// enters the document through textContent and attributes alone, never as markup.

const REFRESH_MS = 30_000;
const TIMEOUT_MS = 20_000;
const PAGE_SIZE = 50;
const TOKEN_KEY = "pywrapai-monitor-token";
const TZ = document.documentElement.dataset.tz;
const PROTECTED = document.documentElement.dataset.protected === "true";

const $ = (id) => document.getElementById(id);

const grouped = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 2 });

// Integers past 2**53 come as strings, which BigInt reads exactly.
const count = (value) => grouped.format(typeof value === "string" ? BigInt(value) : value ?? 0);
const shortCount = (value) => (Math.abs(Number(value)) < 1e6 ? count(value) : compact.format(value));
const many = (number, one, more = `${one}s`) => `${count(number)} ${Number(number) === 1 ? one : more}`;

function dollars(value, digits) {
  return new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", ...digits }).format(value);
}

function money(value) {
  if (!value) return "$0.00";
  if (Math.abs(value) >= 1) return dollars(value);
  if (Math.abs(value) >= 0.0001) return dollars(value, { minimumFractionDigits: 2, maximumFractionDigits: 4 });
  return dollars(value, { maximumSignificantDigits: 3 });
}

// Six digits line up in a column and still tell the price of a short call.
function preciseMoney(value) {
  if (value && Math.abs(value) < 0.000001) return dollars(value, { maximumSignificantDigits: 2 });
  return dollars(value ?? 0, { minimumFractionDigits: 6, maximumFractionDigits: 6 });
}

function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_995) return `${(ms / 1000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

const dayParts = { day: "numeric", month: "short", timeZone: TZ };
const clockParts = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: TZ };
const clock = new Intl.DateTimeFormat("en-GB", clockParts);
const moment = new Intl.DateTimeFormat("en-GB", { ...dayParts, ...clockParts });
const momentWithYear = new Intl.DateTimeFormat("en-GB", { year: "numeric", ...dayParts, ...clockParts });
const yearOf = new Intl.DateTimeFormat("en", { year: "numeric", timeZone: TZ });

function when(iso) {
  const date = new Date(iso ?? NaN);
  if (Number.isNaN(date.getTime())) return { text: iso ?? "–" };
  const thisYear = yearOf.format(date) === yearOf.format(new Date());
  return { text: (thisYear ? moment : momentWithYear).format(date).replace(",", ""), time: iso };
}

const sessionAddress = (user, session) =>
  `#/sessions/${encodeURIComponent(user)}/${encodeURIComponent(session)}`;

function route(hash) {
  const parts = hash.replace(/^#?\/?/, "").split("/");
  if (parts.length === 1 && parts[0] === "") return { view: "overview" };
  try {
    const [place, user, session] = parts.map(decodeURIComponent);
    if (place === "sessions" && parts.length === 3 && user && session) return { view: "session", user, session };
  } catch {
    // a broken percent escape is an address that we do not know
  }
  return { view: "unknown" };
}

class TokenNeeded extends Error {}

let token = recall();

function recall() {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null; // storage is blocked: the token lives in memory alone
  }
}

function remember(value) {
  token = value;
  try {
    if (value === null) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, value);
  } catch {
    // as above
  }
}

// A header holds bytes: the token goes as UTF-8, one character a byte.
const authorization = () =>
  token === null ? {} : { Authorization: `Bearer ${String.fromCharCode(...new TextEncoder().encode(token))}` };

async function read(path, parameters, signal) {
  if (PROTECTED && token === null) throw new TokenNeeded();
  const query = parameters ? `?${new URLSearchParams(parameters)}` : "";
  const response = await ask(`api/${path}${query}`, signal);
  if (response.status === 401) throw new TokenNeeded();
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  throw new Error(answer?.error ?? `the server's answer could not be read (status ${response.status})`);
}

async function ask(url, signal) {
  try {
    return await fetch(url, { headers: authorization(), signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]) });
  } catch (error) {
    if (signal.aborted) throw error;
    if (error.name === "TimeoutError") throw new Error("the server took too long to answer");
    throw new Error("the server does not answer; is it still running?");
  }
}

// A column: its label, its class, and the cell of a row as { text, href, time, title, detail, tone }.
const column = (label, kind, cell) => ({ label, kind, cell });
const plain = (text) => ({ text });

const sessionLink = (row) => ({ text: row.session_id, href: sessionAddress(row.user_id, row.session_id) });
const errorsCell = (row) => ({ text: count(row.errors), tone: Number(row.errors) ? "error" : "faint" });
const sessionCostCell = (row) => ({
  text: preciseMoney(row.cost_usd),
  detail: Number(row.unpriced_calls) ? `${count(row.unpriced_calls)} without a price` : undefined,
});

const sessionColumns = [
  column("Session", "lead", sessionLink),
  column("User", "text", (row) => plain(row.user_id)),
  column("Calls", "number", (row) => plain(count(row.calls))),
  column("Errors", "number", errorsCell),
  column("Turns", "number", (row) => plain(count(row.turns))),
  column("Tokens", "number", (row) => plain(count(row.total_tokens))),
  column("Cost", "number", sessionCostCell),
  column(`Last call (${TZ})`, "when", (row) => when(row.last_at)),
];

const unpriced = (row) => row.priced === false || row.priced === 0;

function costCell(row) {
  if (unpriced(row)) return { text: "no price", tone: "interrupted", title: "No price is known for this model" };
  return { text: preciseMoney(row.cost_usd), detail: row.cached ? "from cache" : undefined };
}

function statusCell(row) {
  const reason = [row.error_type, row.error_message].filter(Boolean).join(": ");
  const detail = reason.length > 200 ? `${reason.slice(0, 200)}…` : reason;
  return { text: row.status, tone: row.status === "ok" ? "faint" : row.status, detail };
}

const recordColumns = [
  column(`Time (${TZ})`, "when lead", (row) => when(row.created_at)),
  column("Model", "text", (row) => ({
    text: row.model, title: row.provider, detail: row.kind === "embedding" ? "embedding" : undefined,
  })),
  column("Status", "text", statusCell),
  column("Tokens in", "number", (row) => plain(count(row.input_tokens))),
  column("Tokens out", "number", (row) => plain(count(row.output_tokens))),
  column("Cost", "number", costCell),
  column("Duration", "number", (row) => plain(duration(row.duration_ms))),
  column("First token", "number", (row) => plain(duration(row.ttft_ms))),
];

const sessionAndUser = column("Session", "text", (row) => ({ ...sessionLink(row), detail: row.user_id }));
const recentColumns = [recordColumns[0], sessionAndUser, ...recordColumns.slice(1, -1)];

function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// The narrow layout changes what tables display as, and browsers then forget that they are
// tables; the roles say it again.
function withRole(node, role) {
  node.setAttribute("role", role);
  return node;
}

function head(columns) {
  const cells = columns.map(({ label, kind }) =>
    withRole(element("th", { scope: "col", className: kind, textContent: label }), "columnheader"));
  return withRole(element("thead", {}, withRole(element("tr", {}, ...cells), "row")), "rowgroup");
}

function content({ text, href, time, title, detail, tone }) {
  const tag = href ? "a" : time ? "time" : "span";
  const main = element(tag, { textContent: text, className: tone ?? "", title: title ?? "" });
  if (href) main.setAttribute("href", href);
  if (time) main.dateTime = time;
  return detail ? [main, element("span", { className: "detail", textContent: detail })] : [main];
}

// What each node was last built from: a refresh touches only what changed, so that a reader's
// selection, focus and place stay.
const shown = new WeakMap();

function fill(node, value, build) {
  const signature = JSON.stringify(value);
  if (shown.get(node) === signature) return;
  shown.set(node, signature);
  node.replaceChildren(...build(value));
}

function newRow(columns, key) {
  const cells = columns.map(({ label, kind }) => {
    const cell = withRole(element("td", { className: kind }), "cell");
    cell.dataset.label = label;
    return cell;
  });
  const row = withRole(element("tr", {}, ...cells), "row");
  row.dataset.key = key;
  return row;
}

function showTable(table, columns, rows, keyOf) {
  if (!table.tBodies.length) {
    withRole(table, "table").replaceChildren(head(columns), withRole(element("tbody"), "rowgroup"));
  }
  const body = table.tBodies[0];
  const focused = document.activeElement;
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  let next = body.firstElementChild;
  for (const row of rows) {
    const key = keyOf(row);
    const node = old.get(key) ?? newRow(columns, key);
    old.delete(key);
    columns.forEach(({ cell }, index) => fill(node.cells[index], cell(row), content));
    if (node === next) next = next.nextElementSibling;
    else body.insertBefore(node, next);
  }
  for (const node of old.values()) node.remove();
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function showPaged(table, columns, rows, keyOf, more) {
  const wanted = Number(table.dataset.wanted ?? PAGE_SIZE);
  showTable(table, columns, rows.slice(0, wanted), keyOf);
  more.hidden = rows.length <= wanted;
  more.onclick = () => {
    table.dataset.wanted = wanted + PAGE_SIZE;
    showPaged(table, columns, rows, keyOf, more);
  };
}

const sessionKey = (row) => JSON.stringify([row.user_id, row.session_id]);
const recordKey = (row) => String(row.id);

const exactly = (value) => ({ total: shortCount(value), title: count(value) });

const cards = (all, today) => [
  { label: "Calls", ...exactly(all.calls), today: shortCount(today.calls) },
  { label: "Cost", total: money(all.cost_usd), title: "", today: money(today.cost_usd) },
  { label: "Errors", ...exactly(all.errors), today: shortCount(today.errors), bad: Number(all.errors) > 0 },
  { label: "Tokens", ...exactly(all.total_tokens), today: shortCount(today.total_tokens) },
  { label: "Users", ...exactly(all.users), today: shortCount(today.users) },
  { label: "Sessions", ...exactly(all.sessions), today: shortCount(today.sessions) },
];

const card = ({ label, total, title, today, bad }) =>
  element("div", {},
    element("dt", { textContent: label }),
    element("dd", { className: bad ? "total error" : "total", textContent: total, title }),
    element("dd", { className: "today", textContent: `${today} today` }));

function unpricedNote(calls) {
  return Number(calls) ? `${many(calls, "call has", "calls have")} no known price, so the true cost is higher.` : "";
}

async function overviewView(_, signal) {
  const [overview, today, sessions, recent] = await Promise.all([
    read("overview", null, signal),
    read("today", null, signal),
    read("sessions", null, signal),
    read("recent-queries", { limit: 20 }, signal),
  ]);
  const empty = recent.length === 0 && sessions.length === 0;
  $("empty").hidden = !empty;
  $("numbers").hidden = empty;
  fill($("cards"), cards(overview, today), (values) => values.map(card));
  $("unpriced").textContent = unpricedNote(overview.unpriced_calls);
  $("unpriced").hidden = !$("unpriced").textContent;
  showPaged($("sessions"), sessionColumns, sessions, sessionKey, $("more-sessions"));
  showTable($("recent"), recentColumns, recent, recordKey);
}

function summary(user, records) {
  const sum = (field) => records.reduce((total, row) => total + Number(row[field] ?? 0), 0);
  const calls = records.filter((row) => row.kind !== "embedding");
  const errors = calls.filter((row) => row.status === "error").length;
  return [
    `User ${user}`,
    many(calls.length, "call"),
    errors ? many(errors, "error") : "",
    `${count(sum("input_tokens") + sum("output_tokens"))} tokens`,
    money(sum("cost_usd")),
    unpricedNote(records.filter(unpriced).length).replace(/\.$/, ""),
  ].filter(Boolean).join(" · ");
}

async function sessionView({ user, session }, signal) {
  const records = await read("token-records", { user_id: user, session_id: session }, signal);
  $("session-summary").textContent = records.length ? summary(user, records) : `User ${user}`;
  $("records").hidden = records.length === 0;
  $("no-records").hidden = records.length > 0;
  showPaged($("records"), recordColumns, records, recordKey, $("more-records"));
}

const views = {
  overview: overviewView,
  session: sessionView,
  unknown: async () => {
    throw new Error("this page has no such address; follow PyWrapAI Monitor above to the overview");
  },
};

let here = route(location.hash);
let overviewScroll = 0;
let running = new AbortController();
let timer = 0;
let refreshedAt = 0;

function show(id) {
  for (const each of ["overview", "session", "login"]) $(each).hidden = each !== id;
}

function problem(text) {
  $("problem").hidden = !text;
  if ($("problem-text").textContent !== text) $("problem-text").textContent = text;
}

function askForToken() {
  if (token !== null) $("login-text").textContent = "That token was not accepted. Check it and try again.";
  remember(null);
  problem("");
  show("login");
  $("token").focus();
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;

async function refresh() {
  clearTimeout(timer);
  running.abort();
  const { signal } = (running = new AbortController());
  try {
    await views[here.view](here, signal);
    if (signal.aborted) return;
    refreshed();
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof TokenNeeded) return askForToken();
    if ($("login").hidden) show(here.view);
    problem(sentence(error.message));
  }
  schedule();
}

function refreshed() {
  refreshedAt = Date.now();
  problem("");
  if ($(here.view).hidden) show(here.view);
  $("freshness").textContent = `Updated ${clock.format(refreshedAt)} ${TZ} · refreshes every ${REFRESH_MS / 1000} s`;
}

function schedule() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, REFRESH_MS);
}

function reveal() {
  if (document.hidden) return clearTimeout(timer);
  if (!$("login").hidden) return undefined;
  return Date.now() - refreshedAt >= REFRESH_MS ? refresh() : schedule();
}

function prepareSession({ user, session }) {
  document.title = `${session} · PyWrapAI Monitor`;
  $("session-title").textContent = session;
  $("session-summary").textContent = `User ${user}`;
  $("no-records").hidden = true;
  $("more-records").hidden = true;
  delete $("records").dataset.wanted;
  $("records").replaceChildren();
}

async function go() {
  if (here.view === "overview") overviewScroll = window.scrollY;
  here = route(location.hash);
  document.title = "PyWrapAI Monitor";
  if (here.view === "session") prepareSession(here);
  show(here.view);
  await refresh();
  if (here.view === "unknown" || $(here.view).hidden) return;
  $(here.view).querySelector("h1").focus({ preventScroll: true });
  window.scrollTo(0, here.view === "overview" ? overviewScroll : 0);
}

$("retry").addEventListener("click", refresh);
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  remember($("token").value.trim());
  $("token").value = "";
  refresh();
});
history.scrollRestoration = "manual"; // the browser would restore before the rows are there
window.addEventListener("hashchange", go);
document.addEventListener("visibilitychange", reveal);

if (here.view === "session") prepareSession(here);
refresh();
