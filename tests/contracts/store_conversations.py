"""What every store does with conversations: their order, their owners, their texts."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywrapai.core.base import ToolCall
from pywrapai_monitor.db.base import BaseStore
from tests.contracts.store_rows import (
    ROLES,
    Clock,
    call,
    message,
    save_turn,
    texts,
)


class ConversationContract:
    """Part of SQLStoreContract."""

    # History

    def test_a_session_that_is_not_there_has_no_history(self, store: BaseStore) -> None:
        assert store.load_history("alice", "s1") == []
        assert store.get_conversation("alice", "s1") == []
        assert store.get_session_token_records("alice", "s1") == []

    def test_history_is_in_the_order_of_writing_though_the_clock_stands_still(
        self, store: BaseStore
    ) -> None:
        for i in range(10):
            save_turn(store, f"q{i}")

        history = store.load_history("alice", "s1")

        expected = [(role, f"{re}q{i}") for i in range(10) for role, re in ROLES]
        assert [(m.role, m.content) for m in history] == expected
        assert [r["content"] for r in store.get_conversation("alice", "s1")] == [
            content for _, content in expected
        ]

    def test_history_is_in_the_order_of_writing_though_the_clock_runs_backwards(
        self, store: BaseStore, clock: Clock
    ) -> None:
        for i in range(4):
            clock.now -= timedelta(minutes=1)
            save_turn(store, f"q{i}")

        assert texts(store, max_turns=2) == ["q2", "re: q2", "q3", "re: q3"]

    def test_max_turns_counts_turns_and_takes_the_newest(self, store: BaseStore) -> None:
        for i in range(5):
            save_turn(store, f"q{i}")

        assert texts(store, max_turns=0) == []
        assert texts(store, max_turns=1) == ["q4", "re: q4"]
        assert texts(store, max_turns=3) == ["q2", "re: q2", "q3", "re: q3", "q4", "re: q4"]
        assert len(texts(store, max_turns=6)) == 10
        assert len(texts(store, max_turns=None)) == 10

    def test_twenty_turns_are_loaded_unless_one_says_otherwise(self, store: BaseStore) -> None:
        for i in range(22):
            save_turn(store, f"q{i}")

        assert texts(store)[0] == "q2"

    @pytest.mark.parametrize("wrong", [-1, True, False, 1.5, "3"])
    def test_a_max_turns_that_is_no_number_of_turns_is_refused(
        self, store: BaseStore, wrong: Any
    ) -> None:
        with pytest.raises(ValueError, match="max_turns"):
            store.load_history("alice", "s1", wrong)

    def test_tool_rows_are_neither_loaded_nor_counted(self, store: BaseStore) -> None:
        for i in range(3):
            for role in ("tool_call", "tool_result", "tool_call", "tool_result"):
                store.save_message(message(role, "[]"))
            save_turn(store, f"q{i}")

        assert texts(store, max_turns=2) == ["q1", "re: q1", "q2", "re: q2"]
        assert len(store.get_conversation("alice", "s1")) == 18

    def test_a_question_without_an_answer_is_a_turn_too(self, store: BaseStore) -> None:
        save_turn(store, "q0")
        store.save_message(message("user", "unanswered"))
        save_turn(store, "q1")

        assert texts(store, max_turns=1) == ["q1", "re: q1"]
        assert texts(store, max_turns=2) == ["unanswered", "q1", "re: q1"]
        assert texts(store, max_turns=3) == ["q0", "re: q0", "unanswered", "q1", "re: q1"]

    def test_an_interrupted_answer_is_part_of_the_history(self, store: BaseStore) -> None:
        store.save_message(message("user", "q"))
        store.save_message(message("assistant", "half an ans", status="interrupted"))

        assert texts(store, max_turns=1) == ["q", "half an ans"]
        assert store.get_conversation("alice", "s1")[1]["status"] == "interrupted"

    def test_any_history_is_cut_where_a_question_begins(self, store: BaseStore) -> None:
        session = count()

        @settings(max_examples=30, deadline=None)
        @given(st.lists(st.sampled_from(["user", "assistant", "tool_call"])), st.integers(1, 4))
        def check(roles: list[str], turns: int) -> None:
            name = f"s{next(session)}"
            with store.transaction():
                for i, role in enumerate(roles):
                    store.save_message(message(role, str(i), session=name))

            starts = [i for i, role in enumerate(roles) if role == "user"]
            first = starts[-turns] if len(starts) >= turns else 0
            expected = [
                str(i) for i, role in enumerate(roles) if i >= first and role != "tool_call"
            ]
            assert texts(store, session=name, max_turns=turns) == expected

        check()

    # Who is who

    @pytest.mark.parametrize("other", ["A", "á", "a ", "a_", "%", "\uff41", "a\u0301", "", "ab"])
    def test_names_that_look_alike_are_kept_apart(self, store: BaseStore, other: str) -> None:
        save_turn(store, "mine", user="a", session="a")
        save_turn(store, "another user's", user=other, session="a")
        save_turn(store, "another session's", user="a", session=other)

        assert texts(store, "a", "a") == ["mine", "re: mine"]
        assert texts(store, other, "a") == ["another user's", "re: another user's"]
        assert texts(store, "a", other) == ["another session's", "re: another session's"]
        assert store.get_overview()["users"] == 2
        assert store.get_overview()["sessions"] == 3

    def test_two_users_of_one_session_id_never_see_each_other(self, store: BaseStore) -> None:
        save_turn(store, "secret", user="alice", session="1")

        assert store.load_history("bob", "1") == []
        assert store.get_conversation("bob", "1") == []
        assert store.get_session_token_records("bob", "1") == []
        assert store.get_sessions("bob") == []

    def test_ids_as_long_as_the_column_fit(self, store: BaseStore) -> None:
        longest = "é" * 191
        save_turn(store, "q", user=longest, session=longest)

        assert texts(store, longest, longest) == ["q", "re: q"]

    def test_longer_ids_are_refused_and_never_cut(self, store: BaseStore) -> None:
        for user, session, field in (("u" * 192, "s", "user_id"), ("u", "s" * 300, "session_id")):
            with pytest.raises(ValueError, match=rf"{field} .*191"):
                store.save_message(message("user", "q", user, session))
            with pytest.raises(ValueError, match=rf"{field} .*191"):
                store.save_token_record(call(user, session))
            with pytest.raises(ValueError, match=rf"{field} .*191"):
                store.load_history(user, session)
        assert store.get_overview()["sessions"] == 0

    def test_other_names_may_be_of_any_length_and_stay_distinct(self, store: BaseStore) -> None:
        for name in ("x" * 500 + "1", "x" * 500 + "2"):
            store.save_token_record(call(model=name, request_id=name, error_type=name))

        assert len({row["model"] for row in store.get_model_usage()}) == 2

    # Texts

    @pytest.mark.parametrize(
        "text",
        [
            "", "0", "👩‍👩‍👧 ünï", "\u202egnp.exe", "<script>", "'; DROP TABLE conversations; --",
            "line\r\nline\u2028line", "%s %(x)s :name ?", "x" * 65_536, "水" * 400_000, "\\u0000",
        ],
        ids=lambda text: repr(text[:12]),
    )  # fmt: skip
    def test_a_text_comes_back_as_it_went_in(self, store: BaseStore, text: str) -> None:
        store.save_message(message("user", text, system_prompt=text))
        store.save_message(message("assistant", text))
        store.save_token_record(call(partial=text, error_message=text))

        assert texts(store) == [text, text]
        assert store.get_conversation("alice", "s1")[0]["system_prompt"] == text
        assert store.get_recent_queries()[0]["partial"] == text

    @pytest.mark.parametrize("odd", ["\x00", "\ud83d", "\udc80 \ud800", "a\x00b 👍 \udfff"])
    def test_what_no_database_takes_is_stored_readably(self, store: BaseStore, odd: str) -> None:
        text = f"before {odd} after"
        with store.transaction():
            store.save_message(message("user", text, odd, odd, rag_context=[{"text": text}]))
            store.save_message(message("assistant", text, odd, odd))
            store.save_token_record(call(odd, odd, model=text, partial=text))
            store.save_tool_step(odd, odd, 1, [ToolCall(odd, odd, {odd: odd})], [])
            store.save_prompt(odd, odd, text, is_active=True)

        found = [
            *texts(store, odd, odd),
            store.get_conversation(odd, odd)[0]["rag_context"][0]["text"],
            store.get_session_token_records(odd, odd)[0]["partial"],
            store.get_prompt(odd, odd),
        ]
        assert len(set(found)) == 1
        assert found[0].startswith("before ")
        assert found[0].endswith(" after")
        assert "\x00" not in found[0]
        found[0].encode()

    def test_chunks_come_back_as_they_went_in(self, store: BaseStore) -> None:
        chunks = [
            {"text": "é", "score": 0.25, "doc_id": "d", "metadata": {"n": 9007199254740993}},
            {"text": "", "score": 0.0, "doc_id": None, "metadata": {"a": [True, None, {}]}},
        ]
        store.save_message(message("user", "q", rag_context=chunks, history_count=3))
        store.save_message(message("user", "q", rag_context=[]))

        rows = store.get_conversation("alice", "s1")

        assert rows[0]["rag_context"] == chunks
        assert rows[0]["history_count"] == 3
        assert rows[1]["rag_context"] == []
        assert rows[1]["history_count"] is None

    def test_what_json_has_not_becomes_json(self, store: BaseStore) -> None:
        class Odd:
            def __repr__(self) -> str:
                raise RuntimeError("no repr")

        cycle: list[Any] = [1]
        cycle += [cycle, cycle]
        metadata = {
            "nan": float("nan"), "inf": float("inf"), "minus": float("-inf"), "odd": Odd(),
            "decimal": Decimal("1.5"), "bytes": b"\xff", "tuple": (1, 2), (1, 2): "key",
            "cycle": cycle, "big": 10**5000, "set": {1}, "nul": "\x00", "half": "\ud83d",
        }  # fmt: skip
        store.save_message(message("user", "q", rag_context=[{"metadata": metadata}]))

        found = store.get_conversation("alice", "s1")[0]["rag_context"][0]["metadata"]

        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
        assert (found["nan"], found["inf"], found["minus"]) == ("NaN", "Infinity", "-Infinity")
        assert found["decimal"] == "Decimal('1.5')"
        assert found["tuple"] == [1, 2]
        assert found["(1, 2)"] == "key"
        assert found["cycle"][0] == 1
        assert "Odd" in found["odd"]
