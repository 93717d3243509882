// What makes a page pleasant that works without it: it renews itself, shows details of messages in
// place, and long texts whole. The server renders everything; this only swaps in what has changed.

const EVERY_MS = 30_000;
const TIMEOUT_MS = 20_000;
const PAUSED = "pywrapai-paused";

// The server's own page is parsed, never run: scripts of a parsed document stay inert.
// `createScript` is for the charts' data blocks alone, which are JSON.
const asIs = { createHTML: (text) => text, createScript: (text) => text };
const policy = window.trustedTypes?.createPolicy("pywrapai-refresh", asIs) ?? asIs;

class SignedOut extends Error {}

async function load(address) {
  const response = await ask(address, "text/html");
  return new DOMParser().parseFromString(policy.createHTML(await response.text()), "text/html");
}

async function ask(address, accept) {
  const response = await reach(address, accept);
  if (response.redirected && /\/login$/.test(new URL(response.url).pathname)) throw new SignedOut();
  if (response.ok) return response;
  throw new Error(`the server answered with status ${response.status}`);
}

async function reach(address, accept) {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(address, { headers: { Accept: accept }, cache: "no-store", signal });
  } catch (error) {
    throw new Error(error.name === "TimeoutError" ? "the server took too long" : "the server does not answer");
  }
}

// Patching: nodes stay where they are and only differences are written, so that focus, selection,
// scroll positions and what the reader has opened are kept.

function patch(page) {
  const old = live(document);
  const fresh = live(page);
  const same = old.size === fresh.size && [...old.keys()].every((id) => fresh.has(id));
  if (same) for (const [id, node] of old) morph(node, fresh.get(id));
  else for (const id of ["content", "refreshed-at"]) morphIfThere(document.getElementById(id), page.getElementById(id));
  document.dispatchEvent(new Event("pywrapai:patched"));
}

const live = (page) => new Map([...page.querySelectorAll("[data-live][id]")].map((node) => [node.id, node]));

function morphIfThere(old, fresh) {
  if (old && fresh) morph(old, fresh);
}

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName) {
    old.replaceWith(taken(fresh));
  } else if (old.nodeName === "SCRIPT") {
    copyData(old, fresh);
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
  } else if (!belongsToReader(old, fresh)) {
    morphAttributes(old, fresh);
    morphChildren(old, fresh);
  }
}

function taken(fresh) {
  const node = document.importNode(fresh, true);
  const blocks = scriptsOf(fresh);
  scriptsOf(node).forEach((block, index) => copyData(block, blocks[index]));
  return node;
}

const scriptsOf = (node) => (node.nodeName === "SCRIPT" ? [node] : [...(node.querySelectorAll?.("script") ?? [])]);

function copyData(block, fresh) {
  if (fresh.type === "application/json") block.textContent = policy.createScript(fresh.textContent);
  else block.remove();
}

// A canvas is drawn by charts.js; a text that was shown whole stays so while it is the same text.
function belongsToReader(old, fresh) {
  if (old.nodeName === "CANVAS") return true;
  const whole = old.dataset.held;
  return whole !== undefined && whole === fresh.querySelector("[data-show-all]")?.getAttribute("href");
}

function morphAttributes(old, fresh) {
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
}

const keyOf = (node) => node.dataset?.key ?? (node.id || undefined);

function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].map((node) => [keyOf(node), node]));
  keyed.delete(undefined);
  let here = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const match = key === undefined ? alike(here, next) : keyed.get(key);
    keyed.delete(key);
    if (!match) {
      old.insertBefore(taken(next), here);
      continue;
    }
    if (match === here) here = here.nextSibling;
    else old.insertBefore(match, here);
    morph(match, next);
  }
  while (here) {
    const gone = here;
    here = here.nextSibling;
    gone.remove();
  }
}

const alike = (node, other) => (node && keyOf(node) === undefined && node.nodeName === other.nodeName ? node : null);

// Refreshing

const bar = document.getElementById("refresh");
const pause = document.getElementById("refresh-pause");
const problem = document.getElementById("refresh-problem");

let timer = 0;
let paused = recall() === "1";
let refreshedAt = Date.now();
let turn = 0; // what came later wins over an answer that was slower

function recall() {
  try {
    return sessionStorage.getItem(PAUSED);
  } catch {
    return null; // storage is blocked: the pause lasts as long as the page
  }
}

function remember() {
  try {
    sessionStorage.setItem(PAUSED, paused ? "1" : "0");
  } catch {
    // as above
  }
}

function say(text) {
  problem.hidden = !text;
  if (problem.textContent !== text) problem.textContent = text;
}

async function show(address) {
  const mine = ++turn;
  const page = await load(address);
  if (mine !== turn) return false;
  patch(page);
  refreshedAt = Date.now();
  say("");
  return true;
}

async function refresh() {
  clearTimeout(timer);
  try {
    await show(location.href);
  } catch (error) {
    if (error instanceof SignedOut) return say("You are signed out. Load the page again to sign in.");
    say(`The last refresh failed: ${error.message}. The page shows what was known before, and tries again in ${EVERY_MS / 1000} s.`);
  }
  schedule(EVERY_MS);
}

function schedule(wait) {
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(refresh, wait);
}

function showPause() {
  pause.textContent = paused ? "Resume" : "Pause";
  pause.title = paused ? "Renew this page every 30 seconds again" : "Stop renewing this page every 30 seconds";
}

function resume() {
  const age = Date.now() - refreshedAt;
  if (age >= EVERY_MS && !paused && !document.hidden) refresh();
  else schedule(Math.max(0, EVERY_MS - age));
}

if (bar) {
  bar.hidden = false;
  showPause();
  pause.addEventListener("click", () => {
    paused = !paused;
    remember();
    showPause();
    resume();
  });
  document.addEventListener("visibilitychange", resume);
  schedule(EVERY_MS);
}

// Details of a message, beside the conversation

const narrow = matchMedia("(max-width: 1000px)");
const here = () => location.pathname + location.search;
let shown = here();

async function showDetail(address) {
  if (!(await show(address))) return;
  shown = here();
  const detail = document.getElementById("detail");
  if (!detail) return;
  detail.scrollTop = 0;
  if (narrow.matches && new URLSearchParams(location.search).has("message")) detail.scrollIntoView();
  detail.focus({ preventScroll: true });
}

function wantsNewTab(event) {
  return event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
}

async function followDetail(event, link) {
  event.preventDefault();
  const address = new URL(link.href);
  document.getElementById("detail")?.setAttribute("aria-busy", "true"); // a patch takes it away
  try {
    history.pushState(null, "", address.pathname + address.search);
    await showDetail(location.href);
  } catch {
    location.assign(link.href);
  }
}

window.addEventListener("popstate", () => {
  if (here() === shown) return; // a jump within the page
  showDetail(location.href).catch(() => location.reload());
});

// Long texts, whole

async function showAll(event, link) {
  event.preventDefault();
  const box = link.closest(".long");
  const text = box.querySelector("pre");
  link.textContent = "Loading…";
  try {
    text.textContent = await (await ask(link.href, "text/plain")).text();
  } catch {
    location.assign(link.href);
    return;
  }
  box.dataset.held = link.getAttribute("href");
  box.classList.add("held");
  link.closest(".more").remove();
  text.tabIndex = 0;
  text.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-show-all], a[data-detail]");
  if (!link || wantsNewTab(event)) return;
  if (link.hasAttribute("data-show-all")) showAll(event, link);
  else if (bar) followDetail(event, link);
});

// Date fields and their like close with Escape or a click elsewhere.

document.addEventListener("click", (event) => {
  for (const pop of document.querySelectorAll("details.pop[open]")) {
    if (!pop.contains(event.target)) pop.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  const pop = event.key === "Escape" && event.target.closest?.("details.pop[open]");
  if (!pop) return;
  pop.open = false;
  pop.querySelector("summary").focus();
});
