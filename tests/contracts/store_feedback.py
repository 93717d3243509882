"""What a store that keeps feedback does with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pywrapai_monitor.db.base import BaseStore, Feedback
from tests.contracts.store_rows import Clock, assert_plain, entry

NAMES = {
    "call_id", "score", "comment", "created_at", "user_id", "session_id", "model", "prompt_name",
    "prompt_version",
}  # fmt: skip


class FeedbackContract:
    """Part of SQLStoreContract."""

    def test_feedback_comes_back_with_its_call_newest_first(
        self, store: BaseStore, clock: Clock
    ) -> None:
        store.write([entry("q", "c1", prompt_name="support", prompt_version="v2")])
        store.write([entry("q", "c2", "bob", "s2")])
        store.save_feedback(Feedback(call_id="c2", score=-1.0, comment="wröng 👎"))
        clock.now += timedelta(minutes=1)
        store.save_feedback(Feedback(call_id="c1", score=0.5))

        first, second = store.get_feedback()

        assert first == {
            "call_id": "c1", "score": 0.5, "comment": None, "created_at": clock.iso(),
            "user_id": "alice", "session_id": "s1", "model": "gpt-4o-mini",
            "prompt_name": "support", "prompt_version": "v2",
        }  # fmt: skip
        assert (second["call_id"], second["comment"]) == ("c2", "wröng 👎")
        assert_plain([first, second])

    def test_given_again_feedback_is_replaced(self, store: BaseStore, clock: Clock) -> None:
        store.write([entry("q", "c1"), entry("q", "c2")])
        store.save_feedback(Feedback(call_id="c1", score=1.0, comment="good"))
        given_at = clock.iso()
        clock.now += timedelta(days=1)
        store.save_feedback(Feedback(call_id="c2", score=1.0))
        store.save_feedback(Feedback(call_id="c1", score=0.0))

        found = [(r["call_id"], r["score"], r["comment"]) for r in store.get_feedback()]

        assert found == [("c2", 1.0, None), ("c1", 0.0, None)]
        assert store.get_feedback()[1]["created_at"] == given_at

    def test_feedback_is_found_by_user_and_by_session(self, store: BaseStore) -> None:
        for user, session in (("a", "1"), ("a", "2"), ("b", "1"), ("A", "1")):
            store.write([entry("q", user + session, user, session)])
            store.save_feedback(Feedback(call_id=user + session, score=1.0))

        def calls(*asked: str | None) -> list[str]:
            return [row["call_id"] for row in store.get_feedback(*asked)]

        assert calls() == ["A1", "b1", "a2", "a1"]
        assert calls("a") == ["a2", "a1"]
        assert calls("a", "1") == ["a1"]
        assert calls(None, "1") == ["A1", "b1", "a1"]
        assert calls("nobody") == []

    def test_feedback_may_come_before_its_call(self, store: BaseStore) -> None:
        store.save_feedback(Feedback(call_id="c1", score=1.0))
        (early,) = store.get_feedback()
        assert (early["call_id"], early["user_id"], early["model"]) == ("c1", None, None)
        assert set(early) == NAMES

        store.write([entry("q", "c1")])

        assert [row["call_id"] for row in store.get_feedback("alice")] == ["c1"]

    @pytest.mark.parametrize("call_id", ["", None, 7])
    def test_feedback_to_no_call_is_refused(self, store: BaseStore, call_id: Any) -> None:
        with pytest.raises(ValueError, match="call_id must be that of a response"):
            store.save_feedback(Feedback(call_id=call_id, score=1.0))

    @pytest.mark.parametrize("score", [float("nan"), float("inf"), 10**400, "good", None])
    def test_a_score_that_is_no_number_is_refused(self, store: BaseStore, score: Any) -> None:
        with pytest.raises(ValueError, match="score"):
            store.save_feedback(Feedback(call_id="c1", score=score))

        assert store.get_feedback() == []

    def test_an_odd_comment_is_stored_readably(self, store: BaseStore) -> None:
        call_id = "x" * 500 + "\x00"
        store.write([entry("q", call_id)])
        store.save_feedback(Feedback(call_id=call_id, score=1.0, comment="a\x00b \ud83d"))

        (found,) = store.get_feedback("alice")

        assert found["comment"] == "a␀b \\ud83d"
