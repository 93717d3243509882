"""The pages and their JSON twins over rows that were recorded, through Flask's test client."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pywrapai.core.base import ToolCall, ToolResult
from pywrapai_monitor.db.base import BaseStore, Feedback, MessageRecord, StoreError, ToolStep
from tests.contracts.store_rows import NOON, Clock, call, entry, micros
from tests.monitor.dashboard_client import (
    PAGES,
    UGLY,
    XSS,
    Foreign,
    client,
    links,
    long_talk,
    sqlite,
    strictly,
    turn,
    view,
)

YESTERDAY = NOON - timedelta(days=1)
LAST_WEEK = NOON - timedelta(days=8)


class Parts(HTMLParser):
    """What a page would run, load or show in a wrong place."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: tuple[str, str | None] = ("", None)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self._open = (tag, given.get("type"))
        self.tags.append((tag, given))
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        self.loaded += [given["src"]] if "src" in given else []
        self.loaded += [given["href"]] if tag == "link" else []

    def handle_endtag(self, tag: str) -> None:
        self._open = ("", None)

    def handle_data(self, text: str) -> None:
        tag, kind = self._open
        if (tag == "style" or (tag == "script" and kind != "application/json")) and text.strip():
            self.inline.append(text)


@pytest.fixture(scope="module")
def desk() -> BaseStore:
    """Two days of three models; one failed, one was cached, one has no price."""
    return sqlite(
        turn("old", "c0", "bob", "b1", at=LAST_WEEK, cost_usd=1.0, duration_ms=100.0),
        turn("hi", "c1", at=YESTERDAY, cost_usd=0.5, input_tokens=80, duration_ms=1000.0),
        turn("and?", "c2", cost_usd=0.25, input_tokens=100, cache_read_tokens=60, history_count=1),
        entry("bad", "c3", status="error", error_type="RateLimitError", model="m2"),
        entry("own", "c4", "bob", "b2", priced=False, model="m3", tags=("blue",)),
        turn("same", "c5", cached=True),
        entry("vector", "c6", kind="embedding", model="embed", cost_usd=0.125),
    )


class TestEveryPage:
    @pytest.mark.parametrize("path", PAGES)
    @pytest.mark.parametrize("range", ["24h", "7d", "30d", "90d", "all"])
    def test_it_is_shown_for_every_time(self, desk, path, range):
        answer = client(desk).get(path, query_string={"range": range, "tz": "Asia/Kolkata"})

        assert answer.status_code == 200
        assert answer.content_type == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"

    @pytest.mark.parametrize("path", PAGES)
    def test_it_is_shown_where_nothing_was_recorded(self, path):
        assert client(sqlite()).get(path).status_code == 200

    def test_an_empty_database_is_told_with_the_lines_that_record_a_first_call(self):
        empty = client(sqlite())

        assert view(empty, "overview")["empty"] is True
        assert "monitor.wrap(" in empty.get("/").text

    @pytest.mark.parametrize("path", PAGES)
    def test_it_has_no_inline_script_or_style_and_loads_only_what_is_served_here(self, desk, path):
        asked = client(desk)
        parts = Parts(asked.get(path).text)

        assert parts.inline == []
        assert parts.loaded
        for name in parts.loaded:
            answer = asked.get(name, buffered=True)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["Cache-Control"] or "?" in name or "/api/" in name

    @pytest.mark.parametrize("path", PAGES)
    def test_its_twin_has_the_same_parameters_and_is_named_by_it(self, desk, path):
        asked = client(desk)
        twin = next(link for link in links(asked.get(f"{path}?range=30d")) if "/views/" in link)

        assert parse_qs(urlsplit(twin).query) == {"range": ["30d"]}
        assert asked.get(twin).status_code == 200

    def test_links_keep_the_time_and_the_zone(self, desk):
        query = {"from": ["2026-11-01"], "to": ["2026-11-30"], "tz": ["Europe/Brussels"]}
        page = client(desk).get("/?from=2026-11-01&to=2026-11-30&tz=Europe/Brussels")

        menu = [link for link in links(page) if link.startswith(("/calls", "/users", "/prompts"))]

        assert menu
        for link in menu:
            assert parse_qs(urlsplit(link).query).items() >= query.items()

    def test_a_link_to_another_range_leaves_the_dates_out(self, desk):
        page = client(desk).get("/?from=2026-11-01&to=2026-11-30&tz=Europe/Brussels")

        assert "/?tz=Europe%2FBrussels&range=30d" in links(page)

    def test_below_a_prefix_all_links_stay_below_it(self, desk):
        page = client(desk).get("/calls", environ_overrides={"SCRIPT_NAME": "/llm"})
        outside = [link for link in links(page) if not link.startswith(("/llm/", "#", "?"))]

        assert outside == []

    def test_every_link_of_the_site_leads_somewhere(self, desk):
        asked = client(desk)
        waiting, seen = ["/?range=30d"], set()
        while waiting:
            address = waiting.pop()
            seen.add(address)
            answer = asked.get(address, buffered=True)
            assert answer.status_code == 200, address
            if answer.mimetype == "text/html":
                found = {link.partition("#")[0] for link in links(answer)} - {""}
                waiting += sorted(found - seen - set(waiting))
            if len(seen) > 150:
                break

        assert len(seen) > 50


class TestErrors:
    @pytest.mark.parametrize(
        ("path", "told"),
        [
            ("/?range=2y", "range must be one of 24h, 7d, 30d, 90d, all, not '2y'"),
            ("/?from=yesterday", "from must be a date from 1970-01-01 to 2999-12-31"),
            ("/?from=2026-02-30", "from must be a date"),
            ("/?tz=Mars/Olympus", "tz must be an IANA time zone such as Europe/Brussels or UTC"),
            ("/?tz=../../etc/passwd", "tz must be an IANA time zone"),
            ("/?colour=red", "unknown parameter 'colour': known here are range, from, to, tz"),
            ("/?range=7d&range=30d", "range must be given once, not 2 times"),
            ("/calls?limit=0", "limit must be a whole number from 1 to 200, not '0'"),
            ("/calls?limit=-1", "limit must be a whole number"),
            ("/calls?limit=1e9", "limit must be a whole number"),
            ("/calls?page=0", "unknown parameter 'page'"),
            ("/calls?status=fine", "status must be one of ok, error, interrupted, cancelled"),
            ("/calls?cursor=bogus", "cursor must be what the page before said in next"),
            ("/conversations?cursor=bogus", "cursor must be what the page before said in next"),
            ("/users?cursor=bogus", "cursor must be what the page before said in next"),
            (f"/calls?user_id={'x' * 192}", "user_id must be a text of at most 191 characters"),
            ("/call", "call_id must be given and not be empty: ?call_id=..."),
            ("/conversation?user_id=alice", "session_id must be given"),
            ("/conversation?user_id=a&session_id=s&message=x", "message must be a whole number"),
            ("/body?table=users&id=1&name=content", "table must be one of conversations,"),
            ("/body?table=tool_calls&id=1&name=content", "name must be one of arguments, result"),
        ],
    )
    def test_a_parameter_that_is_wrong_is_told_on_the_page_and_in_its_twin(self, desk, path, told):
        asked = client(desk)
        page = asked.get(path)
        name = urlsplit(path).path.strip("/") or "overview"
        route = "/api/body" if name == "body" else f"/api/views/{name}"
        twin = asked.get(f"{route}?{urlsplit(path).query}")

        assert (page.status_code, twin.status_code) == (400, 400)
        assert told in page.text.replace("&#39;", "'")
        assert told in twin.json["error"]

    @pytest.mark.parametrize(
        "path",
        [
            "/call?call_id=nope",
            "/conversation?user_id=alice&session_id=nope",
            "/conversation?user_id=nope&session_id=s1",
            "/conversation?user_id=alice&session_id=s1&message=999",
            "/prompt?name=nope",
            "/body?table=conversations&id=999&name=content",
        ],
    )
    def test_what_is_not_there_is_404(self, desk, path):
        asked = client(desk)
        api = path.replace("/body", "/api/body") if "body" in path else f"/api/views{path}"

        assert asked.get(path).status_code == 404
        assert asked.get(path).mimetype == "text/html"
        assert "error" in asked.get(api).json
        assert asked.get(api).status_code == 404

    def test_a_message_of_another_session_is_not_shown_in_this_one(self, desk):
        asked = client(desk)
        other = view(asked, "conversation", user_id="bob", session_id="b1")["messages"][0]["id"]

        path = f"/api/views/conversation?user_id=alice&session_id=s1&message={other}"

        assert asked.get(path).status_code == 404

    def test_a_field_of_a_form_that_was_left_empty_does_not_count(self, desk):
        asked = client(desk)
        page = asked.get("/calls?user_id=&status=&limit=&from=&to=&tz=")
        twin = next(link for link in links(page) if "/views/" in link)

        assert page.status_code == 200
        assert twin == "/api/views/calls"

    def test_a_program_that_asks_for_an_empty_user_is_told(self, desk):
        answer = client(desk).get("/api/views/calls?user_id=")

        assert answer.status_code == 400
        assert answer.json["error"] == "user_id must not be empty: leave it out"

    def test_a_store_that_fails_is_a_page_that_says_so_without_its_secrets(self):
        store = Foreign(Clock())

        def fail(*_: object) -> None:
            raise StoreError("cannot open postgresql://admin:hunter2@db/llm")

        store.get_recent_queries = fail
        answer = client(store).get("/calls")

        assert answer.status_code == 503
        assert "the database cannot be read now" in answer.text
        assert "hunter2" not in answer.text

    def test_the_status_page_is_there_while_the_database_is_not(self):
        store = Foreign(Clock())

        def fail(*_: object) -> None:
            raise StoreError("gone")

        store.get_recent_queries = fail
        found = view(client(store, counts=lambda: {"queued": 3, "lost": 0}), "status")

        assert (found["status"], found["counts"]["queued"]) == ("error", 3)
        assert client(store).get("/status").status_code == 200


class TestOverview:
    def test_the_figures_are_those_of_the_time(self, desk):
        found = view(client(desk), "overview", range="7d")

        assert found["figures"]["calls"] == 5
        assert found["figures"]["errors"] == 1
        assert found["figures"]["error_rate"] == 0.2
        assert found["figures"]["cost_usd"] == 0.875  # the embedding, too
        assert found["figures"]["embeddings"] == 1
        assert found["unpriced_calls"] == 1
        assert found["today"]["calls"] == 4

    def test_the_change_is_that_against_the_period_before(self, desk):
        found = view(client(desk), "overview", range="7d")["headline"]

        assert found["calls"] == {"value": 5, "previous": 1, "change": 4.0}
        assert found["cost_usd"]["change"] == pytest.approx(-0.125)
        assert found["error_rate"]["change"] == pytest.approx(0.2)

    def test_without_anything_before_there_is_no_change(self, desk):
        found = view(client(desk), "overview", range="30d")["headline"]

        assert found["calls"]["change"] is None
        assert view(client(desk), "overview", range="all")["headline"]["calls"]["previous"] is None

    def test_the_steps_add_up_to_the_figures_in_every_zone(self, desk):
        for tz in ("UTC", "Asia/Kolkata", "America/Los_Angeles"):
            found = view(client(desk), "overview", range="7d", tz=tz)

            assert sum(step["calls"] for step in found["steps"]) == found["figures"]["calls"]
            assert sum(step["cost_usd"] for step in found["steps"]) == pytest.approx(
                found["figures"]["cost_usd"]
            )

    def test_a_step_without_calls_has_no_latency_and_zero_calls(self, desk):
        step = view(client(desk), "overview")["steps"][0]

        assert (step["calls"], step["cost_usd"]) == (0, 0)
        assert (step["p50_ms"], step["p95_ms"], step["avg_duration_ms"]) == (None, None, None)
        assert step["error_rate"] is None

    def test_only_the_day_in_which_we_are_is_not_over(self, desk):
        steps = view(client(desk), "overview")["steps"]

        assert [step["finished"] for step in steps] == [True] * 6 + [False]
        assert steps[-1]["label"] == "30 Nov"

    def test_costs_of_models_add_up_to_the_cost(self, desk):
        found = view(client(desk), "overview", range="7d")
        models = found["cost_by_model"]["models"]

        assert sum(sum(each["values"]) for each in models) == pytest.approx(0.875)
        assert {len(each["values"]) for each in models} == {7}

    def test_kinds_of_tokens_do_not_overlap(self, desk):
        found = view(client(desk), "overview", range="7d")
        tokens = {each["name"]: each["value"] for each in found["tokens"]}

        assert (tokens["input_tokens"], tokens["cache_read_tokens"]) == (120, 60)
        assert sum(tokens.values()) == found["figures"]["total_tokens"]

    def test_a_model_has_one_colour_on_every_page(self, desk):
        asked = client(desk)
        of_overview = {
            row["model"]: row["color"]
            for row in view(asked, "overview", range="all")["models"]["rows"]
        }
        of_calls = {row["model"]: row["color"] for row in view(asked, "calls")["rows"]}

        assert of_calls.items() <= of_overview.items()
        assert view(asked, "call", call_id="c3")["call"]["color"] == of_overview["m2"]

    def test_sections_have_rows_and_say_of_how_many(self, desk):
        found = view(client(desk), "overview", range="7d")

        assert [row["user_id"] for row in found["users"]["rows"]] == ["alice", "bob"]
        assert found["users"]["of"] == 2
        assert found["models"]["of"] == 4
        assert [row["call_id"] for row in found["calls"]["rows"]][:2] == ["c6", "c5"]


class TestLists:
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"user_id": "bob"}, ["c4"]),
            ({"status": "error"}, ["c3"]),
            ({"kind": "embedding"}, ["c6"]),
            ({"model": "m3"}, ["c4"]),
            ({"unpriced": "1"}, ["c4"]),
            ({"tag": "blue"}, ["c4"]),
            ({"session_id": "s1", "status": "ok", "kind": "chat"}, ["c5", "c2", "c1"]),
            ({"user_id": "ali%"}, []),
            ({"from": "2026-11-29", "to": "2026-11-29"}, ["c1"]),
        ],
    )
    def test_calls_are_filtered(self, desk, query, found):
        rows = view(client(desk), "calls", **query)["rows"]

        assert [row["call_id"] for row in rows] == found

    @pytest.mark.parametrize("name", ["calls", "conversations", "users"])
    def test_pages_by_key_have_each_row_once(self, name):
        store = sqlite(*(entry("q", f"c{i}", f"u{i}", f"s{i}", cost_usd=0.1) for i in range(23)))
        asked, cursor, seen = client(store), None, []
        while True:
            page = view(asked, name, limit=5, **({"cursor": cursor} if cursor else {}))
            seen += [row["user_id"] for row in page["rows"]]
            if (cursor := page["next"]) is None:
                break

        assert sorted(seen) == sorted(f"u{i}" for i in range(23))

    def test_a_row_that_comes_between_two_pages_repeats_none(self):
        store = sqlite(*(entry("q", f"c{i}") for i in range(6)))
        first = view(client(store), "calls", limit=3)
        store.write([entry("late", "late")])
        second = view(client(store), "calls", limit=3, cursor=first["next"])

        assert [row["call_id"] for row in second["rows"]] == ["c2", "c1", "c0"]

    def test_a_list_never_ships_what_was_said(self, desk):
        store = sqlite(turn("TOPSECRET", "c1", partial="TOPSECRET", metadata={"x": "TOPSECRET"}))

        for path in ("/calls", "/api/views/calls", "/conversations", "/api/views/overview", "/"):
            assert "TOPSECRET" not in client(store).get(path).text

    @pytest.mark.parametrize("text", ["東京", "délphine", "100%", "a_b"])
    def test_a_search_finds_what_was_said_and_leads_there(self, text):
        store = sqlite(
            turn(f"before {text} after", "c1", "u", "found"), turn("ab 100 x", "c2", "u", "not")
        )
        asked = client(store)
        rows = view(asked, "conversations", q=text)["rows"]

        assert [row["session_id"] for row in rows] == ["found"]
        assert text in rows[0]["excerpt"]
        detail = view(
            asked, "conversation", user_id="u", session_id="found", message=rows[0]["message_id"]
        )["detail"]
        assert text in detail["message"]["content"]


class TestConversation:
    def test_the_newest_messages_come_first_and_older_ones_on_request(self):
        asked = client(sqlite(*long_talk(60)))
        page = view(asked, "conversation", user_id="alice", session_id="s1")

        assert [row["content"] for row in page["messages"]][-2:] == [
            "question 59",
            "re: question 59",
        ]
        assert page["newer"] is None
        seen = page["messages"]
        while page["older"]:
            page = view(
                asked, "conversation", user_id="alice", session_id="s1", before=page["older"]
            )
            assert page["newer"]
            seen = page["messages"] + seen
        assert [row["content"] for row in seen[::2]] == [f"question {i}" for i in range(60)]

        page = view(asked, "conversation", user_id="alice", session_id="s1", after=seen[9]["id"])
        assert page["messages"][0]["id"] == seen[10]["id"]
        assert page["older"] == seen[10]["id"]

    def test_around_a_message_there_are_those_before_and_after(self):
        asked = client(sqlite(*long_talk(60)))
        newest = view(asked, "conversation", user_id="alice", session_id="s1")["messages"]
        wanted = newest[2]["id"]
        page = view(asked, "conversation", user_id="alice", session_id="s1", message=wanted)
        ids = [row["id"] for row in page["messages"]]

        assert [row["id"] for row in page["messages"] if row["selected"]] == [wanted]
        assert len(ids) == 51
        assert ids.index(wanted) == 25
        assert (page["older"], page["newer"]) == (ids[0], ids[-1])

    def test_the_details_of_an_answer_are_what_was_sent_for_it(self):
        chunks = [
            {"text": "Paris", "score": 0.9, "doc_id": "d1", "metadata": {"page": 3}},
            {"text": "Lyon", "score": 0.3, "doc_id": "d2", "metadata": None},
        ]
        store = sqlite(
            turn("one", "c1"),
            turn("two", "c2", history_count=1),
            turn("three", "c3", history_count=1, rag_context=chunks, input_tokens=7),
        )
        store.save_feedback(Feedback(call_id="c3", score=1.0, comment="good"))
        asked = client(store)
        rows = view(asked, "conversation", user_id="alice", session_id="s1")["messages"]
        detail = view(
            asked, "conversation", user_id="alice", session_id="s1", message=rows[-1]["id"]
        )["detail"]

        assert detail["message"]["content"] == "re: three"
        assert detail["call"]["input_tokens"] == 7
        assert detail["system_prompt"] == "Be brief."
        assert [row["content"] for row in detail["history"]] == ["two", "re: two"]
        assert [(each["text"], each["bar"]) for each in detail["rag_context"]] == [
            ("Paris", 0.9),
            ("Lyon", 0.3),
        ]
        assert detail["feedback"]["comment"] == "good"
        assert detail == {
            **view(asked, "conversation", user_id="alice", session_id="s1", message=rows[-2]["id"])[
                "detail"
            ],
            "message": detail["message"],
        }

    def test_scores_above_one_are_beside_the_best(self):
        chunks = [{"text": "a", "score": 12.0}, {"text": "b", "score": 3.0}, {"text": "c"}]
        store = sqlite(turn("q", "c1", rag_context=chunks))
        asked = client(store)
        first = view(asked, "conversation", user_id="alice", session_id="s1")["messages"][0]
        detail = view(asked, "conversation", user_id="alice", session_id="s1", message=first["id"])[
            "detail"
        ]

        assert [each["bar"] for each in detail["rag_context"]] == [1.0, 0.25, None]

    def test_tool_calls_are_shown_with_exact_arguments(self):
        store = sqlite(_tool_step({"n": 9007199254740993, "x": float("nan")}))
        asked = client(store)
        found = view(asked, "call", call_id="t1")

        assert "9007199254740993" in found["tools"][0]["arguments"]
        assert found["tools"][0]["error"] is None
        assert found["tools"][0]["result"] == "0"
        assert found["messages"][0]["items"][0]["name"] == "find"
        assert "9007199254740993" in asked.get("/call?call_id=t1").text

    def test_a_huge_text_is_cut_and_given_whole_on_request(self):
        text = "x" * 5_000_000
        store = sqlite(turn(text, "c1", system_prompt=text))
        asked = client(store)
        page = asked.get("/conversation?user_id=alice&session_id=s1")
        found = view(asked, "conversation", user_id="alice", session_id="s1")["messages"][0]

        assert len(page.data) < 100_000
        assert (len(found["content"]), found["content_length"]) == (4_000, 5_000_000)
        address = f"/body?table=conversations&id={found['id']}&name=content"
        assert address in links(page)
        whole = asked.get(address)
        assert whole.content_type == "text/plain; charset=utf-8"
        assert whole.text == text
        assert asked.get(f"/api{address}").json["length"] == 5_000_000

    def test_a_body_with_markup_is_plain_text(self):
        asked = client(sqlite(turn(XSS, "c1")))
        answer = asked.get("/body?table=conversations&id=1&name=content")

        assert answer.mimetype == "text/plain"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def _tool_step(arguments: dict[str, Any]) -> Any:
    asked = ToolCall("t", "find", arguments)
    content = '[{"id": "t", "name": "find", "arguments": {"n": 1}}]'
    row = MessageRecord(
        user_id="alice", session_id="s1", role="tool_call", content=content, call_id="t1"
    )
    step = ToolStep(
        user_id="alice",
        session_id="s1",
        turn_num=1,
        calls=(asked,),
        results=(ToolResult("t", "find", "0"),),
    )
    given = entry("q", "t1")
    return type(given)(token=given.token, messages=(row,), tools=step, at=micros(NOON))


class TestPrompts:
    @pytest.fixture
    def store(self):
        store = sqlite(
            entry("q", "c1", prompt_name="p", prompt_version="v1", duration_ms=10, cost_usd=0.5),
            entry("q", "c2", prompt_name="p", prompt_version="v1", status="error", cost_usd=0.5),
            entry("q", "c3", prompt_name="p", prompt_version="gone"),
        )
        store.save_prompt("p", "v1", "a\nb\nc", is_active=True)
        store.save_prompt("p", "v2", "a\nB\nc\nd")
        store.set_user_prompt("bob", "p", "v2")
        return store

    def test_versions_have_their_figures(self, store):
        found = view(client(store), "prompt", name="p")
        first, second = found["versions"]

        assert (found["active"], found["version"], found["text"]) == ("v1", "v1", "a\nb\nc")
        assert (first["calls"], first["errors"], first["error_rate"]) == (2, 1, 0.5)
        assert (first["cost_usd"], first["cost_per_call"]) == (1.0, 0.5)
        assert (second["calls"], second["p95_ms"], second["pinned_users"]) == (0, None, 1)
        assert [row["version"] for row in found["unlisted"]] == ["gone"]
        assert [row["user_id"] for row in found["pins"]["rows"]] == ["bob"]

    def test_two_versions_are_compared_line_by_line(self, store):
        diff = view(client(store), "prompt", name="p", a="v1", b="v2")["diff"]

        assert [(line["kind"], line["text"]) for line in diff["lines"]] == [
            ("same", "a"),
            ("removed", "b"),
            ("added", "B"),
            ("same", "c"),
            ("added", "d"),
        ]
        assert (diff["added"], diff["removed"], diff["same"]) == (2, 1, False)

    def test_the_same_version_twice_is_the_same(self, store):
        assert view(client(store), "prompt", name="p", a="v1", b="v1")["diff"]["same"] is True

    def test_lines_far_from_any_that_differs_are_left_out(self, store):
        store.save_prompt("p", "v3", "\n".join(map(str, range(100))))
        store.save_prompt("p", "v4", "\n".join([*map(str, range(99)), "x"]))
        lines = view(client(store), "prompt", name="p", a="v3", b="v4")["diff"]["lines"]

        assert (lines[0]["kind"], lines[0]["text"]) == ("skipped", "96 lines the same")
        assert len(lines) == 6

    def test_a_version_that_is_not_there_is_404(self, store):
        for query in ({"version": "v9"}, {"a": "v1", "b": "v9"}):
            answer = client(store).get("/prompt", query_string={"name": "p", **query})
            assert answer.status_code == 404

    def test_one_version_cannot_be_compared(self, store):
        assert client(store).get("/prompt?name=p&a=v1").status_code == 400


class TestUglyText:
    @pytest.mark.parametrize("ugly", UGLY)
    def test_an_id_of_any_kind_is_reached_by_the_links_of_the_pages(self, ugly):
        store = sqlite(turn(ugly, "c1", ugly, ugly, model=ugly, prompt_name=ugly))
        store.save_prompt(ugly, ugly, ugly, is_active=True)
        asked = client(store)
        talk = next(u for u in links(asked.get("/conversations")) if u.startswith("/conversation?"))
        call_link = next(u for u in links(asked.get("/calls")) if u.startswith("/call?"))
        prompt = next(u for u in links(asked.get("/prompts")) if u.startswith("/prompt?"))

        for address, path in ((talk, "session"), (call_link, "call"), (prompt, None)):
            assert asked.get(address).status_code == 200
            twin = asked.get(f"/api/views{address}").json
            assert (twin["name"] if path is None else twin[path]["user_id"]) == ugly
        assert view(asked, "calls", user_id=ugly)["rows"][0]["user_id"] == ugly

    @pytest.mark.parametrize("path", PAGES)
    def test_markup_in_any_field_is_text(self, path):
        store = sqlite(
            turn(
                XSS, XSS[:40], XSS, XSS, model=XSS, provider=XSS, prompt_name=XSS,
                prompt_version=XSS, error_type=XSS, error_message=XSS, tags=(XSS,),
                system_prompt=XSS, rag_context=[{"text": XSS, "doc_id": XSS, "score": 1.0}],
            )
        )  # fmt: skip
        store.save_prompt(XSS, XSS, XSS, is_active=True)
        page = client(store).get(path).text

        assert "<img" not in page.replace('<img src="/static/', "")
        assert "<script>alert" not in page

    def test_a_number_that_is_none_or_too_big_does_no_harm(self):
        store = sqlite(
            turn("q", "c1", input_tokens=2**53 + 1, duration_ms=float("nan"), metadata={"n": 2**60})
        )
        for path in ("/", "/calls", "/call?call_id=c1"):
            assert client(store).get(path).status_code == 200
        row = strictly(client(store).get("/api/views/call?call_id=c1").text)["call"]
        assert row["metadata"]["n"] == str(2**60)


class TestForeignStore:
    """One with the nineteen methods and no more."""

    @pytest.fixture
    def store(self):
        store = Foreign(Clock())
        for given in long_talk(5, input_tokens=10, cost_usd=0.1, duration_ms=5.0):
            for message in given.messages:
                store.save_message(message)
            store.save_token_record(given.token)
        store.save_token_record(call(status="error", model="m2", call_id="e1"))
        store.save_prompt("p", "v1", "text", is_active=True)
        return store

    @pytest.mark.parametrize("path", [page for page in PAGES if page != "/prompts"])
    def test_its_pages_are_shown(self, store, path):
        assert client(store).get(path).status_code == 200

    def test_figures_are_told_as_far_as_it_can(self, store):
        found = view(client(store), "overview")

        assert found["figures"]["calls"] == 6
        assert found["figures"]["p95_ms"] is not None
        assert found["cannot"] == ["tools"]
        assert found["tools"] is None

    @pytest.mark.parametrize(
        ("range", "labels"),
        [
            ("7d", ["Input", "Read from cache", "Written to cache", "Output", "Reasoning"]),
            ("all", ["Input", "Output"]),
        ],
    )
    def test_tokens_are_of_the_same_classes_in_all_and_in_each_step(self, store, range, labels):
        found = view(client(store), "overview", range=range)
        page = client(store).get(f"/?range={range}").text

        assert [each["label"] for each in found["tokens"]] == labels
        assert all(sum(each["values"]) == each["value"] for each in found["tokens"])
        assert sum(each["value"] for each in found["tokens"]) == found["figures"]["total_tokens"]
        drawn = re.findall(r'"label":"([A-Z][a-z ]+)","color":"t\d"', page)
        assert drawn == labels

    def test_a_conversation_has_its_details(self, store):
        asked = client(store)
        rows = view(asked, "conversation", user_id="alice", session_id="s1")["messages"]
        detail = view(
            asked, "conversation", user_id="alice", session_id="s1", message=rows[-1]["id"]
        )["detail"]

        assert detail["call"]["input_tokens"] == 10
        assert len(detail["history"]) == 8
        assert detail["feedback"] is None

    def test_what_it_cannot_do_is_told_politely(self, store):
        page, twin = (client(store).get(f"{root}/prompts") for root in ("", "/api/views"))

        assert (page.status_code, twin.status_code) == (501, 501)
        assert twin.json == {"error": "Foreign cannot list prompts"}
        assert "Foreign cannot list prompts" in page.text
        export = client(store).get("/api/export/conversations.csv")
        assert (export.status_code, export.json) == (501, {"error": "Foreign cannot export"})


@pytest.mark.parametrize("tz", ["UTC", "Asia/Kolkata", "America/Los_Angeles"])
def test_the_first_day_that_can_be_asked_for_counts_nothing_twice(desk, tz):
    found = view(client(desk), "overview", tz=tz, **{"from": "1970-01-01"})

    assert found["figures"]["calls"] == 6
    assert sum(step["calls"] for step in found["steps"]) == 6
    assert sum(row["calls"] for row in found["models"]["rows"] if row["kind"] == "chat") == 6
    assert sum(row["calls"] for row in found["users"]["rows"]) == 6


def test_half_a_character_in_a_foreign_store_does_no_harm():
    half = "half \ud83e"
    store = Foreign(Clock())
    row = {
        "id": 1, "created_at": "2026-11-30T12:00:00.000000Z", "user_id": half, "session_id": half,
        "model": half, "cost_usd": 0.1, "call_id": half, "status": "ok",
    }  # fmt: skip
    store.get_recent_queries = lambda limit=20: [row]

    for path in ("/", "/calls", "/users", "/api/views/calls"):
        assert client(store).get(path).status_code == 200


def test_a_bug_in_a_store_is_a_page_without_a_traceback():
    store = Foreign(Clock())

    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    store.get_sessions = fail
    answer = client(store).get("/conversations")

    assert (answer.status_code, answer.mimetype) == (500, "text/html")
    assert "the server failed; its log says why" in answer.text
    assert "secret detail" not in answer.text
