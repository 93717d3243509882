"""One call, one message, its history, its tool calls, whole texts: each as it was kept."""

from __future__ import annotations

from typing import Any

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.analytics import Analytics, CallFilter
from pywrapai_monitor.db.base import BaseStore, Entry, Feedback, ToolStep
from tests.contracts.store_rows import assert_plain, call, entry, message, micros


class AnalyticsDetailsContract:
    """Part of AnalyticsContract."""

    @pytest.fixture
    def ask(self, store: BaseStore) -> Analytics:
        return store.analytics()

    def test_a_call_has_all_that_belongs_to_it(self, store: BaseStore, ask: Analytics) -> None:
        store.write([agent_entry("c1"), agent_entry("c2"), entry("other", "c3")])
        self.give_feedback(store, "c2")

        found = ask.call("c2", 10)

        assert found["call_id"] == "c2"
        assert (found["error_message"], found["error_message_length"]) == ("e" * 10, 50)
        assert (found["partial"], found["partial_length"]) == (None, 0)
        assert (found["tags"], found["metadata"]) == (["t"], {"n": 1})
        assert [(m["role"], m["call_id"]) for m in found["messages"]] == [
            ("user", "c2"), ("tool_call", "c2"), ("tool_result", "c2"),
        ]  # fmt: skip
        assert found["messages"][0]["content"] == "question"
        assert [tool["tool_name"] for tool in found["tools"]] == ["add", "div"]
        assert found["tools"] == ask.tool_calls("c2", 10)
        assert (found["feedback"] or {"score": 0.5})["score"] == 0.5
        assert_plain(found)
        with pytest.raises(KeyError):
            ask.call("none", 10)
        assert ask.tool_calls("none", 10) == []

    @staticmethod
    def give_feedback(store: BaseStore, call_id: str) -> None:
        try:
            store.save_feedback(Feedback(call_id=call_id, score=0.5, comment="so so"))
        except NotImplementedError:
            return

    def test_tool_calls_have_their_arguments_and_results(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        store.write([agent_entry("c1")])

        add, div = ask.tool_calls("c1", 7)

        assert (add["tool_call_id"], add["status"], add["error"]) == ("t1", "ok", None)
        assert (add["arguments"], add["arguments_length"]) == ('{"a": "', 111)
        assert (add["result"], add["result_length"]) == ("r" * 7, 20)
        assert (div["status"], div["result"], div["error"]) == ("error", None, "by zero")
        assert (div["result_length"], div["error_length"]) == (0, 7)

    def test_messages_come_in_their_order_from_either_side(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        for number in range(12):
            store.save_message(message("user", f"{number:02} {'x' * 50}"))
            store.save_message(message("user", "elsewhere", session="s2"))

        def numbers(**where: Any) -> list[str]:
            return [row["content"] for row in ask.messages("alice", "s1", 4, 2, **where)]

        newest = ask.messages("alice", "s1", 4, 2)
        ids = [row["id"] for row in ask.messages("alice", "s1", 50, 0)]

        assert [row["content"] for row in newest] == ["08", "09", "10", "11"]
        assert [row["content_length"] for row in newest] == [53] * 4
        assert numbers(before=newest[0]["id"]) == ["04", "05", "06", "07"]
        assert numbers(after=ids[2]) == ["03", "04", "05", "06"]
        assert numbers(before=ids[0]) == []
        assert numbers(after=ids[-1]) == []
        assert ask.messages("alice", "none", 4, 2) == []
        assert set(newest[0]) == {
            "id", "created_at", "role", "status", "call_id", "history_count", "content",
            "content_length",
        }  # fmt: skip

    def test_a_message_has_its_prompt_and_its_chunks(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        chunks = [
            {"text": "t" * 30, "score": 0.75, "doc_id": "d", "metadata": {"page": 1}},
            {"text": "密" * 30},
        ]
        asked = message(
            "user", "é" * 30, rag_context=chunks, system_prompt="p" * 30, history_count=3,
            call_id="c1",
        )  # fmt: skip
        store.save_message(asked)
        store.save_message(message("assistant", "a"))
        question, answer = (row["id"] for row in ask.messages("alice", "s1", 5, 5))

        found = ask.message(question, 4)

        assert (found["content"], found["content_length"]) == ("éééé", 30)
        assert (found["system_prompt"], found["system_prompt_length"]) == ("pppp", 30)
        assert (found["user_id"], found["session_id"], found["call_id"]) == ("alice", "s1", "c1")
        assert found["rag_context"] == [
            {"text": "tttt", "text_length": 30, "score": 0.75, "doc_id": "d",
             "metadata": {"page": 1}},
            {"text": "密密密密", "text_length": 30, "score": None, "doc_id": None,
             "metadata": None},
        ]  # fmt: skip
        assert ask.message(answer, 4)["rag_context"] is None
        assert ask.message(answer, 4)["system_prompt_length"] == 0
        with pytest.raises(KeyError):
            ask.message(10**9, 4)

    def test_the_history_of_a_question_is_what_was_sent_with_it(
        self, store: BaseStore, ask: Analytics
    ) -> None:
        for number in range(5):
            store.save_message(message("user", f"q{number}", history_count=min(number, 2)))
            store.save_message(message("tool_call", "[]"))
            store.save_message(message("assistant", f"a{number}"))
            store.save_message(message("user", "elsewhere", "bob"))
        ids = {row["content"]: row["id"] for row in ask.messages("alice", "s1", 50, 9)}

        def history(content: str) -> list[str]:
            return [row["content"] for row in ask.history_of(ids[content], 9)]

        assert history("q0") == []
        assert history("q1") == ["q0", "a0"]
        assert history("q4") == ["q2", "a2", "q3", "a3"]
        assert history("a4") == []
        with pytest.raises(KeyError):
            ask.history_of(10**9, 9)

    def test_a_whole_text_is_given_on_request(self, store: BaseStore, ask: Analytics) -> None:
        store.save_message(message("user", "long " * 1000, system_prompt="be kind"))
        store.save_token_record(call(partial="so f", call_id="c1"))
        question = ask.messages("alice", "s1", 1, 5)[0]["id"]
        record = ask.calls(CallFilter(), 1).rows[0]["id"]

        assert ask.body("conversations", question, "content") == "long " * 1000
        assert ask.body("conversations", question, "system_prompt") == "be kind"
        assert ask.body("token_records", record, "partial") == "so f"
        assert ask.body("token_records", record, "error_message") is None
        with pytest.raises(KeyError):
            ask.body("conversations", 10**9, "content")
        no_text: Any = "user_id"
        with pytest.raises(ValueError, match="user_id"):
            ask.body("conversations", question, no_text)
        no_table: Any = "feedback"
        with pytest.raises(ValueError, match="feedback"):
            ask.body(no_table, question, "content")

    def test_it_tells_about_the_database(self, ask: Analytics) -> None:
        about = ask.about()

        assert set(about) == {"database", "schema_version", "size_bytes"}
        assert about["database"]
        assert_plain(about)

    def test_a_session_that_is_not_there_is_an_error(self, ask: Analytics) -> None:
        with pytest.raises(KeyError):
            ask.session("alice", "s1")

    def test_a_prompt_has_its_text(self, store: BaseStore, ask: Analytics) -> None:
        store.save_prompt("support", "v1", "one")

        assert ask.prompt_text("support", "v1") == "one"
        with pytest.raises(KeyError):
            ask.prompt_text("support", "v2")


def agent_entry(call_id: str) -> Entry:
    """A step of an agent: its model call failed, say, after two tools."""
    return Entry(
        token=call(
            call_id=call_id, error_message="e" * 50, status="error", tags=("t",), metadata={"n": 1}
        ),
        messages=(
            message("user", "question", call_id=call_id),
            message("tool_call", TOOL_CALLS, call_id=call_id),
            message("tool_result", TOOL_RESULTS, call_id=call_id),
        ),
        tools=ToolStep(
            user_id="alice",
            session_id="s1",
            turn_num=1,
            calls=(ToolCall("t1", "add", {"a": "x" * 102}), ToolCall("t2", "div", {})),
            results=(
                ToolResult("t1", "add", "r" * 20),
                ToolResult("t2", "div", "by zero", is_error=True),
            ),
            durations_ms=(5.0, None),
        ),
        at=micros(),
    )


TOOL_CALLS = (
    '[{"id": "t1", "name": "add", "arguments": {"a": "' + "x" * 102 + '"}}, '
    '{"id": "t2", "name": "div", "arguments": {}}]'
)
TOOL_RESULTS = (
    '[{"tool_call_id": "t1", "name": "add", "content": "' + "r" * 20 + '", "is_error": false}, '
    '{"tool_call_id": "t2", "name": "div", "content": "by zero", "is_error": true}]'
)
