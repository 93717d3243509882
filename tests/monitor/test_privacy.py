from __future__ import annotations

import asyncio
import json
import re
import threading
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai import LLM, LLMResponse, ServerError, TokenUsage, ToolCall, ToolResult
from pywrapai.testing import StubProvider
from pywrapai_graph import AgentConfig, Chunk, GraphLLM, ScoredChunk, ToolRegistry, tool
from pywrapai_graph.rag.retriever import BaseRetriever
from pywrapai_monitor import MonitoredGraph, SQLiteStore
from pywrapai_monitor.agent import MonitoredAgent
from pywrapai_monitor.db.base import Entry, Feedback, MessageRecord, TokenRecord, ToolStep
from pywrapai_monitor.privacy import MASK_FAILED, Privacy
from tests.monitor.notebook import Notebook, tracked_of

SECRET = "s3cr3t"
NUMBER = 4111111111111111


def hide(text: str) -> str:
    return re.sub(r"s3cr3t|4111111111111111", "***", text)


def boom(text: str) -> str:
    raise ValueError(f"cannot mask {text!r}")


def entry_of(value: str, number: int = NUMBER) -> Entry:
    """An entry with this in every place where a text can be."""
    who = {"user_id": "u", "session_id": "s"}
    call = {"id": "c1", "name": "f", "arguments": {value: [value, {"n": number}]}}
    result = {"tool_call_id": "c1", "name": "f", "content": value, "is_error": False}
    chunk = {"id": value, "doc_id": value, "text": value, "score": 0.4111111111111111,
             "metadata": {value: value, "n": number}}  # fmt: skip
    user = MessageRecord(
        **who, role="user", content=value, rag_context=[chunk], system_prompt=value, call_id="m1"
    )
    return Entry(
        token=TokenRecord(
            **who,
            model="m",
            error_type="ServerError",
            error_message=value,
            partial=value,
            tags=(value, "plain"),
            metadata={value: value, "n": number, "deep": [{"x": value}]},
            prompt_name="p",
            request_id="r1",
            call_id="m1",
            input_tokens=NUMBER,
        ),
        messages=(
            user,
            MessageRecord(**who, role="assistant", content=value),
            MessageRecord(**who, role="tool_call", content=json.dumps([call])),
            MessageRecord(**who, role="tool_result", content=json.dumps([result])),
        ),
        tools=ToolStep(
            **who,
            turn_num=1,
            calls=(
                ToolCall("c1", "f", {value: [value, {"n": number}]}),
                ToolCall("c2", "f", {}, raw_arguments=value),
            ),
            results=(ToolResult("c1", "f", value), ToolResult("c2", "f", value, True)),
        ),
        at=NUMBER,
    )


def texts(value) -> list[str]:
    """Every text in it, wherever it is."""
    if isinstance(value, str):
        return [value]
    if is_dataclass(value):
        return [t for f in fields(value) for t in texts(getattr(value, f.name))]
    if isinstance(value, dict):
        return [t for pair in value.items() for part in pair for t in texts(part)]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in texts(part)]
    return []


def test_without_a_mask_an_entry_is_left_alone():
    entry = entry_of(SECRET)

    assert Privacy().entry(entry) is entry


def test_a_mask_reaches_every_text():
    before = entry_of(f"my {SECRET}!")

    after = Privacy(hide).entry(before)

    assert not [text for text in texts(after) if SECRET in text or str(NUMBER) in text]
    assert sum("my ***!" in text for text in texts(after)) == sum(
        SECRET in text for text in texts(before)
    )
    assert before == entry_of(f"my {SECRET}!")


def test_what_is_no_text_and_every_id_is_kept_under_a_mask_that_changes_everything():
    after = Privacy(lambda text: "x").entry(entry_of("hello"))

    token = after.token
    assert (token.user_id, token.session_id, token.model) == ("u", "s", "m")
    assert (token.prompt_name, token.request_id, token.call_id) == ("p", "r1", "m1")
    assert (token.error_type, token.input_tokens, after.at) == ("ServerError", NUMBER, NUMBER)
    user, _, asked, told = after.messages
    assert (user.role, user.call_id, user.rag_context[0]["score"]) == (
        "user",
        "m1",
        0.4111111111111111,
    )
    assert json.loads(asked.content) == [{"id": "c1", "name": "f", "arguments": {"x": ["x", {
        "x": "x"}]}}]  # fmt: skip
    assert json.loads(told.content)[0] == {
        "tool_call_id": "c1",
        "name": "f",
        "content": "x",
        "is_error": False,
    }
    assert [(c.id, c.name) for c in after.tools.calls] == [("c1", "f"), ("c2", "f")]
    assert [(r.tool_call_id, r.is_error) for r in after.tools.results] == [
        ("c1", False),
        ("c2", True),
    ]


def test_a_mask_that_raises_keeps_nothing_and_tells_nothing(caplog):
    after = Privacy(boom).entry(entry_of(SECRET))

    assert not [text for text in texts(after) if SECRET in text]
    assert after.messages[0].content == MASK_FAILED == "[mask failed]"
    assert after.token.error_message == MASK_FAILED
    assert SECRET not in caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.parametrize("answer", [None, 3, b"x", ["a"]])
def test_a_mask_that_gives_no_text_keeps_nothing(answer, caplog):
    after = Privacy(lambda text: answer).entry(entry_of(SECRET))

    assert not [text for text in texts(after) if SECRET in text]
    assert after.token.partial == MASK_FAILED


def test_ctrl_c_in_a_mask_passes_on():
    def stop(text: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Privacy(stop).entry(entry_of("x"))


@pytest.mark.parametrize("mask", ["*", 3, asyncio.sleep])
def test_a_mask_is_a_plain_function(mask):
    with pytest.raises(TypeError, match="mask"):
        Privacy(mask)


@pytest.mark.parametrize("answer", ["no", "False", 0, None])
def test_whether_content_is_stored_is_true_or_false(answer):
    with pytest.raises(TypeError, match="store_content"):
        Privacy(store_content=answer)


def test_without_content_numbers_and_ids_are_kept_alone():
    after = Privacy(store_content=False).entry(entry_of("hello"))

    ids = {"u", "s", "m", "ServerError", "p", "r1", "m1", "c1", "c2", "f", "ok", "chat"}
    roles = {"user", "assistant", "tool_call", "tool_result"}
    assert set(texts(after)) <= ids | roles | {""}
    assert (after.token.input_tokens, after.token.error_message, after.token.tags) == (
        NUMBER,
        None,
        (),
    )
    assert (after.token.metadata, after.token.partial) == (None, None)
    assert [m.content for m in after.messages] == [""] * 4
    assert (after.messages[0].rag_context, after.messages[0].system_prompt) == (None, None)
    assert [c.arguments for c in after.tools.calls] == [{}, {}]
    assert after.tools.calls[1].raw_arguments is None


def test_the_comment_of_a_feedback_passes_too():
    given_ = Feedback(call_id="c", score=0.5, comment=f"not {SECRET}")

    assert Privacy(hide).feedback(given_).comment == "not ***"
    assert Privacy(store_content=False).feedback(given_) == Feedback(call_id="c", score=0.5)
    assert Privacy(hide).feedback(Feedback(call_id="c", score=1)).comment is None


def test_objects_of_ones_own_are_masked_as_what_they_show():
    class Order:
        def __repr__(self) -> str:
            return f"Order({SECRET})"

    assert Privacy(hide).value({"order": Order(), ("a", SECRET): 1.5}) == {
        "order": "Order(***)",
        "('a', '***')": 1.5,
    }


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=50)
@given(plain)
def test_any_json_value_comes_out_as_it_went_in_where_the_mask_finds_nothing(value):
    assert repr(Privacy(lambda text: text).value(value)) == repr(value)


@settings(max_examples=50)
@given(plain)
def test_no_text_of_any_json_value_escapes_a_mask(value):
    kept = Privacy(lambda text: "x").value(value)

    assert set(texts(kept)) <= {"x", ""}


# Through the whole way


@tool
def look_up(query: str, card: int) -> str:
    """Look something up."""
    if query == "raise":
        raise RuntimeError(f"no such {SECRET}")
    return f"found {query}"


class Shelf(BaseRetriever):
    def retrieve(self, query: str, k: int = 4) -> list[ScoredChunk]:
        chunk = Chunk(f"text {SECRET}", SECRET, {SECRET: SECRET, "n": NUMBER}, id=f"{SECRET}:0")
        return [ScoredChunk(chunk, 0.75)]

    def add_documents(self, docs, chunker=None) -> int:
        return 0


class Spooling(Notebook):
    """Keeps what it gets in a file, as a spool does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SQLiteStore(folder / "m.db"))
        self.spool = (folder / "spool").open("w")

    def _note(self, way: str, entry) -> None:
        self.spool.write(repr(entry))
        super()._note(way, entry)


def plant(folder: Path, privacy: Privacy) -> tuple[bytes, Notebook]:
    """Secrets everywhere, in every way of calling; what is on disk afterwards."""
    notebook = Spooling(folder)
    labels = {"tags": [SECRET], "metadata": {SECRET: SECRET, "card": NUMBER}}
    said = f"I say {SECRET} and {NUMBER}"
    who = {"notebook": notebook, "privacy": privacy, "prompt_name": "p"}

    tracked, _, _ = tracked_of(said, said, said, ServerError(said), retriever=Shelf(), **who)
    tracked = tracked.with_system_prompt(f"You know {SECRET}")
    tracked.chat(said, **labels)
    next(tracked.stream(said, **labels))
    asyncio.run(tracked.achat(said, **labels))
    with pytest.raises(ServerError):
        tracked.chat(said, **labels)

    paid = LLMResponse(said, usage=TokenUsage(3, 4), model="m")
    broken, _, _ = tracked_of(ServerError(said, response=paid), **who)
    with pytest.raises(ServerError):
        broken.chat(said)
    structured, _, _ = tracked_of(said, json.dumps({"name": SECRET}), **who)
    structured.chat_structured(said, {"type": "object", "required": ["name"]}, **labels)

    for policy in ("return_to_model", "raise"):
        agent = agent_of(policy, notebook.conversation(privacy=privacy))
        if policy == "raise":
            with pytest.raises(RuntimeError):
                agent.run(said, **labels)
        else:
            agent.run(said, **labels)
    notebook.store.save_feedback(
        privacy.feedback(
            Feedback(call_id=notebook.tokens[0].call_id, score=1, comment=f"oh {SECRET}")
        )
    )
    notebook.spool.close()
    on_disk = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    assert {path.name for path in folder.iterdir()} >= {"m.db", "m.db-wal", "spool"}
    return on_disk, notebook


def agent_of(policy, conversation) -> MonitoredAgent:
    registry = ToolRegistry()
    registry.register(look_up)
    first = [
        ToolCall("c1", "look_up", {"query": SECRET, "card": NUMBER}),
        ToolCall("c2", "look_up", {SECRET: SECRET}),
        ToolCall("c3", "look_up", {}, raw_arguments=f'{{"{SECRET}": '),
    ]
    second = [ToolCall("c4", "look_up", {"query": "raise", "card": NUMBER})]
    provider = StubProvider([first, second, f"done {SECRET}"])
    graph = GraphLLM(LLM(provider, max_retries=0)).with_system_prompt(SECRET)
    return MonitoredAgent(graph, registry, conversation, AgentConfig(tool_error_policy=policy))


def test_planted_secrets_are_found_on_the_disk_without_a_mask(tmp_path):
    on_disk, notebook = plant(tmp_path, Privacy())

    assert on_disk.count(SECRET.encode()) > 50
    assert on_disk.count(str(NUMBER).encode()) > 10
    notebook.store.close()


@pytest.mark.parametrize("mask", [hide, boom, lambda text: ""])
def test_no_planted_secret_reaches_the_disk_through_a_mask(tmp_path, mask):
    on_disk, notebook = plant(tmp_path, Privacy(mask))

    assert SECRET.encode() not in on_disk
    assert str(NUMBER).encode() not in on_disk
    rows = notebook.store.get_session_token_records("u", "s")
    assert len(rows) == 12
    assert sum(row["input_tokens"] for row in rows) > 30
    notebook.store.close()


def test_no_planted_secret_reaches_the_disk_without_content(tmp_path):
    on_disk, notebook = plant(tmp_path, Privacy(store_content=False))

    assert SECRET.encode() not in on_disk
    assert str(NUMBER).encode() not in on_disk
    rows = notebook.store.get_session_token_records("u", "s")
    assert [row["error_type"] for row in rows if row["status"] == "error"] == ["ServerError"] * 2
    assert all(row["duration_ms"] >= 0 for row in rows)
    assert {row["tool_name"] for row in notebook.store.get_tool_usage()} == {"look_up"}
    notebook.store.close()


def test_the_caller_gets_what_the_model_said():
    tracked, notebook, _ = tracked_of(f"it is {SECRET}", privacy=Privacy(hide))

    assert tracked.chat(f"What is {SECRET}?").content == f"it is {SECRET}"
    assert notebook.said() == [("user", "What is ***?", "ok"), ("assistant", "it is ***", "ok")]


async def test_a_slow_mask_holds_up_no_event_loop():
    threads = set()

    def slow(text: str) -> str:
        threads.add(threading.get_ident())
        return text

    tracked, notebook, _ = tracked_of("x", "y", privacy=Privacy(slow))

    await tracked.achat("hi")
    assert threading.get_ident() not in threads
    tracked.chat("hi")
    assert threading.get_ident() in threads
    assert notebook.ways == ["enqueue", "write"]


async def test_a_task_that_is_cancelled_while_its_record_is_masked_still_leaves_it():
    begun, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        begun.set()
        assert go_on.wait(30)
        return "***"

    tracked, notebook, _ = tracked_of("x", privacy=Privacy(slow))
    task = asyncio.create_task(tracked.achat("hi"))
    await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()

    assert notebook.said() == [("user", "***", "ok"), ("assistant", "***", "ok")]


def test_one_user_may_have_no_content_stored_while_others_do():
    tracked, notebook, _ = tracked_of(lambda messages, tools: "x")
    silent = MonitoredGraph(
        tracked.graph, notebook.conversation(user_id="v", privacy=Privacy(store_content=False))
    )

    tracked.chat("hi")
    silent.chat("hi")

    assert [content for _, content, _ in notebook.said()] == ["hi", "x", "", ""]
    assert [token.input_tokens for token in notebook.tokens] == [1, 1]
