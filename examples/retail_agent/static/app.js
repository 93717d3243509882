// Sends the question, and shows what comes back event by event. All text is set as text, so what a
// model or a tool says is never read as HTML.
"use strict";

const session = crypto.randomUUID();
const chat = document.getElementById("chat");
const log = document.getElementById("log");
const form = document.getElementById("form");
const question = document.getElementById("question");
const send = document.getElementById("send");

function add(parent, tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  parent.scrollTop = parent.scrollHeight;
  return element;
}

// The `data:` lines of a stream of server-sent events, each parsed. EventSource cannot POST.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) yield JSON.parse(block.replace(/^data: /, ""));
  }
}

// A row on a line, where a tool returned JSON.
function pretty(text) {
  const rows = (value) => value.map((row) => JSON.stringify(row)).join("\n");
  const told = (value) => (Array.isArray(value) ? "\n" + rows(value) : JSON.stringify(value));
  try {
    const value = JSON.parse(text);
    if (Array.isArray(value)) return rows(value);
    return Object.entries(value).map(([name, part]) => `${name}: ${told(part)}`).join("\n");
  } catch {
    return text;
  }
}

function startCall(event) {
  log.querySelector(".empty")?.remove();
  const entry = add(log, "article", "call running");
  entry.started = performance.now();
  add(entry, "code", "name", `${event.name}(${JSON.stringify(event.arguments)})`);
  add(entry, "span", "state", "running …");
  return entry;
}

function endCall(entry, event) {
  const seconds = (performance.now() - entry.started) / 1000;
  entry.className = event.failed ? "call failed" : "call done";
  entry.querySelector(".state").textContent =
    `${event.failed ? "failed" : "done"}, ${seconds.toFixed(2)} s`;
  add(entry, "pre", "result", pretty(event.text));
  log.scrollTop = log.scrollHeight;
}

async function ask(text) {
  add(chat, "p", "me", text);
  const answer = add(chat, "p", "model", "");
  const calls = new Map();
  const response = await fetch("/chat", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ question: text, session }),
  });
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  for await (const event of events(response)) {
    if (event.type === "text") answer.textContent += event.text;
    else if (event.type === "call") calls.set(event.id, startCall(event));
    else if (event.type === "result") endCall(calls.get(event.id), event);
    else if (event.type === "error") add(chat, "p", "failed", event.text);
    else add(chat, "p", "small", `${event.turns} turns, ${event.tokens} tokens`);
    chat.scrollTop = chat.scrollHeight;
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (!text || send.disabled) return;
  question.value = "";
  send.disabled = true;
  try {
    await ask(text);
  } catch (error) {
    add(chat, "p", "failed", error.message);
  }
  send.disabled = false;
  question.focus();
});
