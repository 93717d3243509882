// Sends the question, and shows sources and answer as they come. All text is set as text, so what a
// document or a model says is never read as HTML.
"use strict";

const session = crypto.randomUUID();
const chat = document.getElementById("chat");
const sources = document.getElementById("sources");
const form = document.getElementById("form");
const question = document.getElementById("question");
const send = document.getElementById("send");

function add(parent, tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
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

function show(found) {
  sources.replaceChildren();
  found.forEach((source, index) => {
    const card = add(sources, "article", "card");
    const page = source.page ? `, page ${source.page}` : "";
    add(card, "span", "score", source.score.toFixed(3));
    add(card, "span", "name", `[${index + 1}] ${source.file}${page}`);
    add(card, "span", "small", ` from character ${source.start}`);
    add(card, "pre", "result", source.text);
  });
  sources.scrollTop = 0;
}

async function ask(text) {
  add(chat, "p", "me", text);
  const answer = add(chat, "p", "model", "");
  const response = await fetch("/chat", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ question: text, session }),
  });
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  for await (const event of events(response)) {
    if (event.type === "sources") show(event.sources);
    else if (event.type === "text") answer.textContent += event.text;
    else if (event.type === "error") add(chat, "p", "failed", event.text);
    else add(chat, "p", "small", `${event.tokens} tokens`);
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
