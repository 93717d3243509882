from __future__ import annotations

import asyncio
import json
import logging
import threading
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pywrapai import (
    LLM,
    BaseCache,
    Image,
    LLMResponse,
    Message,
    RedisCache,
    ResponseCache,
    Role,
    ServerError,
    ToolCall,
    ToolResult,
)
from pywrapai.cache.key import canonical, request_key
from pywrapai.cache.recall import Recall
from pywrapai.core.base import Request
from pywrapai.testing import StubProvider
from pywrapai.testing.server import refusing_port
from tests.contracts.cache import FULL, CacheContract
from tests.mariadb import missing

REDIS = "redis://127.0.0.1:6379/0"
PNG = b"\x89PNG\r\n\x1a\n"


class TestResponseCache(CacheContract):
    make = staticmethod(ResponseCache)

    @pytest.fixture
    def cache(self):
        return ResponseCache()


class TestRedisCache(CacheContract):
    @pytest.fixture
    def cache(self):
        import redis

        self.prefix = f"test*[{uuid.uuid4().hex}]"
        cache = self.make()
        try:
            cache.clear()
        except redis.ConnectionError:
            missing("Redis", "start one with `redis-server --daemonize yes`")
        yield cache
        cache.clear()
        cache.close()

    def make(self, ttl=None):
        return RedisCache(REDIS, ttl=ttl, prefix=self.prefix)

    def test_two_machines_share_it(self, cache):
        cache.set("a", FULL)
        other = self.make()

        assert other.get("a") == FULL
        other.close()

    def test_clear_leaves_everybody_elses_keys_alone(self, cache):
        other = RedisCache(REDIS, prefix=f"other-{uuid.uuid4().hex}")
        other.set("a", FULL)
        cache.set("a", FULL)

        cache.clear()

        assert other.get("a") == FULL
        other.clear()
        other.close()

    def test_an_entry_that_cannot_be_read_is_none(self, cache):
        for junk in (b"junk", b"{}", b"[]", b'{"usage": {}, "tool_calls": [], "nonsense": 1}'):
            cache._client.set(f"{cache._prefix}a", junk)
            assert cache.get("a") is None


def test_the_one_that_was_used_longest_ago_makes_room():
    cache = ResponseCache(max_size=2)
    cache.set("a", LLMResponse("a"))
    cache.set("b", LLMResponse("b"))
    cache.get("a")
    cache.set("c", LLMResponse("c"))

    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert len(cache) == 2


def test_a_cache_holds_at_least_one():
    with pytest.raises(ValueError, match="max_size"):
        ResponseCache(max_size=0)


@pytest.mark.parametrize("ttl", [0, -1, "60", True])
def test_a_ttl_that_is_no_time_is_refused(ttl):
    with pytest.raises(ValueError, match="ttl is in seconds and must be above 0"):
        ResponseCache(ttl=ttl)


def test_cache_true_is_an_lru_of_a_thousand():
    cache = LLM(StubProvider(), cache=True).cache

    assert isinstance(cache, ResponseCache)
    assert (cache.max_size, cache.ttl) == (1000, None)
    assert LLM(StubProvider()).cache is None
    with pytest.raises(TypeError, match="cache"):
        LLM(StubProvider(), cache="yes")  # type: ignore[arg-type]


class Broken(BaseCache):
    blocks = False

    def get(self, key):
        raise OSError("down")

    def set(self, key, response):
        raise OSError("down")

    def clear(self):
        raise OSError("down")

    def __len__(self):
        raise OSError("down")


def test_what_one_caller_changes_no_other_caller_gets():
    kept = LLMResponse("one", provider_data={"gemini": {"signatures": ["s1"]}})
    llm = LLM(StubProvider([kept]), cache=True)

    for _ in range(3):
        response = llm.chat("hi")
        assert response.provider_data == {"gemini": {"signatures": ["s1"]}}
        response.provider_data["gemini"]["signatures"].clear()


@pytest.mark.parametrize("blocks", [True, False])
async def test_a_broken_cache_is_a_miss_with_a_warning(caplog, blocks):
    cache = Broken()
    cache.blocks = blocks
    llm = LLM(StubProvider(["one", "two"]), cache=cache)

    with caplog.at_level(logging.WARNING, "pywrapai"):
        assert llm.chat("hi").content == "one"
        assert (await llm.achat("hi")).content == "two"
    assert "cannot be read" in caplog.text
    assert "cannot be written" in caplog.text


def test_a_redis_that_is_not_there_is_a_miss():
    with refusing_port() as port:
        llm = LLM(StubProvider(["one"]), cache=RedisCache(f"redis://127.0.0.1:{port}"))
        assert llm.chat("hi").content == "one"


def test_when_the_first_fails_the_others_try_for_themselves():
    started, release = threading.Event(), threading.Event()
    calls = []

    def answer(messages, tools):
        calls.append(1)
        if len(calls) == 1:
            started.set()
            release.wait(5)
            return ServerError("down")
        return "two"

    llm = LLM(StubProvider(answer), cache=True, max_retries=0)
    results: list[object] = []

    def first():
        try:
            llm.chat("hi")
        except ServerError as error:
            results.append(error)

    leader = threading.Thread(target=first)
    leader.start()
    started.wait(5)
    follower = threading.Thread(target=lambda: results.append(llm.chat("hi").content))
    follower.start()
    release.set()
    leader.join()
    follower.join()

    assert {str(result) for result in results} == {"down", "two"}


async def test_a_leader_that_is_cancelled_does_not_take_the_others_along():
    gate = asyncio.Event()

    class Slow(StubProvider):
        async def achat(self, messages, tools=None, tool_choice=None, **settings):
            if not self.requests:
                self.requests.append(None)
                await gate.wait()
            return LLMResponse("ok")

    llm = LLM(Slow(), cache=True)
    leader = asyncio.create_task(llm.achat("hi"))
    await asyncio.sleep(0)
    follower = asyncio.create_task(llm.achat("hi"))
    await asyncio.sleep(0)
    leader.cancel()

    assert (await follower).content == "ok"
    with pytest.raises(asyncio.CancelledError):
        await leader


async def test_a_waiting_task_that_is_cancelled_does_not_take_the_leader_along():
    gate = asyncio.Event()

    class Slow(StubProvider):
        async def achat(self, messages, tools=None, tool_choice=None, **settings):
            await gate.wait()
            return LLMResponse("ok")

    llm = LLM(Slow(), cache=True)
    leader = asyncio.create_task(llm.achat("hi"))
    await asyncio.sleep(0)
    follower = asyncio.create_task(llm.achat("hi"))
    await asyncio.sleep(0)
    follower.cancel()
    gate.set()

    assert (await leader).content == "ok"
    with pytest.raises(asyncio.CancelledError):
        await follower


async def test_a_sync_call_inside_the_loop_does_not_wait_for_a_task_of_that_loop():
    gate = asyncio.Event()

    class Slow(StubProvider):
        async def achat(self, messages, tools=None, tool_choice=None, **settings):
            await gate.wait()
            return LLMResponse("slow")

    llm = LLM(Slow(["at once"]), cache=True)
    leader = asyncio.create_task(llm.achat("hi"))
    await asyncio.sleep(0)

    assert llm.chat("hi").content == "at once"
    gate.set()
    assert (await leader).content == "slow"


# Keys


class Schema(BaseModel):
    x: int


BASE = Request(
    "m",
    (Message(Role.SYSTEM, "s"), Message(Role.USER, "u")),
    [{"name": "f", "parameters": {"type": "object"}}],
    "auto",
    {"temperature": 0.5, "max_tokens": 10},
)
CALL = ToolCall("1", "f", {"x": 1})
CHANGES = [
    {"model": "n"},
    {"messages": BASE.messages[1:]},
    {"messages": (BASE.messages[0], Message(Role.USER, "v"))},
    {"messages": (Message(Role.USER, "su"),)},
    {"messages": (Message(Role.USER, "s"), Message(Role.USER, "u"))},
    {"messages": (*BASE.messages, Message(Role.ASSISTANT, "", [CALL]))},
    {"messages": (*BASE.messages, Message(Role.ASSISTANT, "", [replace(CALL, id="2")]))},
    {"messages": (*BASE.messages, Message(Role.TOOL, "", tool_result=ToolResult("1", "f", "r")))},
    {"messages": (Message(Role.USER, [Image.from_bytes(PNG)]),)},
    {"messages": (Message(Role.USER, [Image.from_bytes(PNG + b"x")]),)},
    {"messages": (Message(Role.USER, [Image.from_url("https://a/b.png")]),)},
    {"tools": None},
    {"tools": [{"name": "g", "parameters": {"type": "object"}}]},
    {"tool_choice": "required"},
    {"tool_choice": None},
    {"settings": {}},
    {"settings": {"temperature": 0.6, "max_tokens": 10}},
    {"settings": {"temperature": 0.5, "max_tokens": 11}},
    {"settings": {"temperature": 0.5, "max_tokens": 10, "seed": 1}},
    {"settings": {"temperature": 0.5, "max_tokens": 10, "seed": True}},
    {"settings": {"temperature": 0.5, "max_tokens": 10, "seed": "1"}},
    {"settings": {"temperature": 0.5, "max_tokens": 10, "seed": None}},
    {"settings": {"temperature": 0.5, "max_tokens": 10, "stop": ["x"]}},
    {"settings": {"temperature": float("nan")}},
    {"settings": {"temperature": 0.5, "schema": Schema}},
    {"settings": {"temperature": 0.5, "data": b"x"}},
    {"settings": {"temperature": 0.5, "data": {1, 2}}},
    {"settings": {1: "x"}},
    {"settings": {"1": "x"}},
    {"schema": {"type": "object"}},
]


def key(request: Request, provider: str = "p", base_url: str | None = None) -> str:
    return request_key(request, provider=provider, base_url=base_url)


def test_whatever_can_change_the_answer_changes_the_key():
    keys = [
        key(BASE),
        *(key(replace(BASE, **change)) for change in CHANGES),
        key(BASE, provider="q"),
        key(BASE, base_url="http://x"),
    ]

    assert len(set(keys)) == len(keys)
    assert all(len(k) == 64 for k in keys)


def test_what_cannot_change_the_answer_does_not_change_the_key():
    reordered = {"max_tokens": 10, "temperature": 0.5}

    assert key(replace(BASE, settings=reordered, timeout=5.0, overrides=reordered)) == key(BASE)
    assert key(replace(BASE, tools=[{"parameters": {"type": "object"}, "name": "f"}])) == key(BASE)


def test_a_lone_surrogate_is_no_error():
    assert key(replace(BASE, messages=(Message(Role.USER, "\ud83d"),))) != key(BASE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON, JSON)
def test_canonical_is_equal_for_equal_values_alone(one, other):
    assert (canonical(one) == canonical(other)) == (repr_of(one) == repr_of(other))


def repr_of(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{repr_of(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(repr_of, value)) + "]"
    return repr(value)


@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), min_size=1, max_size=4))
def test_different_conversations_have_different_keys(one, other):
    first, second = (
        replace(BASE, messages=tuple(Message(Role.USER, text) for text in texts))
        for texts in (one, other)
    )

    assert (key(first) == key(second)) == (one == other)


# Inputs that are recalled without being read


PLAIN = [{"role": "user", "content": "hi"}]


def test_an_equal_plain_input_is_recalled_and_another_is_not():
    provider = StubProvider(["one", "two", "three", "four"])
    llm = LLM(provider, cache=True)

    assert llm.chat(PLAIN).content == "one"
    assert llm.chat([dict(PLAIN[0])]).cached
    assert asyncio.run(llm.achat(PLAIN)).cached
    assert llm.chat(PLAIN, seed=1).content == "two"
    assert llm.chat(PLAIN, seed=True).content == "three"
    assert llm.chat([{"role": "user", "content": "ho"}]).content == "four"


def test_a_message_that_was_changed_since_is_another_input():
    llm = LLM(StubProvider(["one", "two"]), cache=True)
    messages = [{"role": "user", "content": "hi"}]

    assert llm.chat(messages).content == "one"
    messages[0]["content"] = "ho"
    assert llm.chat(messages).content == "two"


def test_plain_and_other_forms_of_the_same_input_share_an_answer():
    llm = LLM(StubProvider(["one"]), cache=True)

    assert not llm.chat(PLAIN).cached
    assert llm.chat("hi").cached
    assert llm.chat([Message(Role.USER, "hi")]).cached
    assert llm.chat([{"content": "hi", "role": "user"}]).cached


def test_what_the_cache_has_forgotten_is_asked_again():
    llm = LLM(StubProvider(["one", "two"]), cache=True)
    llm.chat(PLAIN)
    assert llm.cache is not None
    llm.cache.clear()

    assert llm.chat(PLAIN).content == "two"


def test_only_so_many_inputs_are_recalled():
    recall = Recall(size=2)
    marks = [recall.mark(number) for number in range(3)]
    for mark in marks:
        assert mark is not None
        recall.remember(mark, "key")

    assert [recall.key(mark) for mark in marks if mark] == [None, "key", "key"]


@given(JSON, JSON)
def test_marks_are_equal_for_equal_plain_values_alone(one, other):
    same = Recall().mark(one) == Recall().mark(other)

    assert same <= (repr_of(one) == repr_of(other))
    assert Recall().mark(one) == Recall().mark(json.loads(json.dumps(one)))
