from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    Message,
    ModelNotFoundError,
    ProviderConnectionError,
    ProviderTimeoutError,
    RateLimitError,
    Role,
    ServerError,
    StreamInterruptedError,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from pywrapai.core.base import Request, ThinkingDelta
from pywrapai.core.image import Image
from pywrapai.providers.anthropic import StreamDecoder, api_root, from_wire, to_wire
from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import Call, events, raw, status, text, tool_calls
from pywrapai.testing.wires.anthropic import message, message_events
from tests.contracts.provider import KEY, WEATHER, ProviderContract

CASES = sorted((Path(__file__).parents[1] / "wire" / "anthropic").glob("*.json"))
MODEL = "claude-sonnet-4-5"
THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
SECRET = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}
PNG = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
USER = Message(Role.USER, "Hello")


class TestAnthropic(ProviderContract):
    provider = "anthropic"

    @staticmethod
    def usage(given: int, made: int) -> dict[str, Any]:
        return {"input_tokens": given, "output_tokens": made}


@pytest.fixture
def claude(server: StubServer) -> LLM:
    """Claude on the stub server, without retries."""
    return LLM("anthropic", api_key=KEY, base_url=server.url("anthropic"), max_retries=0)


def wire(*messages: Message, **fields: Any) -> dict[str, Any]:
    """The body for these messages; it has passed what the stub server knows of the API's rules."""
    body = to_wire(Request(MODEL, messages, **fields), stream=False)
    accepted(body)
    return body


def accepted(body: dict[str, Any]) -> None:
    from pywrapai.testing.wires.anthropic_checks import check_messages

    check_messages(json.loads(json.dumps(body)))


def assistant(*calls: ToolCall, said: str = "", **fields: Any) -> Message:
    return Message(Role.ASSISTANT, said, list(calls) or None, **fields)


def result(call_id: str, said: str = "ok", **fields: Any) -> Message:
    return Message(Role.TOOL, said, tool_result=ToolResult(call_id, "f", said, **fields))


def use(call_id: str, name: str = "f", given: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def answer(call_id: str, said: str = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": said}


def decode(*payloads: Any, done: bool = True):
    decoder = StreamDecoder()
    sent = (*payloads, {"type": "message_stop"}) if done else payloads
    wire = b"".join(p if isinstance(p, bytes) else b"data: %b\n\n" % dumped(p) for p in sent)
    seen = list(decoder.feed(wire))
    seen += decoder.finish()
    return seen, decoder.response()


def dumped(payload: Any) -> bytes:
    return json.dumps(payload).encode()


def block_start(block: Any, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ending(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


# What the vendor documents


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_wire_is_what_the_vendor_documents(case: Path):
    pair = json.loads(case.read_text(encoding="utf-8"))
    messages = LLM("anthropic", MODEL, api_key="k").request(pair["messages"]).messages
    request = Request(
        MODEL,
        messages,
        pair.get("tools"),
        pair.get("tool_choice"),
        pair["settings"],
        schema=pair.get("schema"),
    )

    body = to_wire(request, stream=False)
    assert body == pair["request"]
    accepted(body)

    response = from_wire(pair["response"])
    expected = pair["expected"]
    assert response.content == expected["content"]
    assert [[c.name, c.arguments] for c in response.tool_calls or ()] == expected["tool_calls"]
    assert response.usage == TokenUsage(**expected["usage"])
    assert response.finish_reason == expected["finish_reason"]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_requests_fit_the_sdks_own_types(case: Path):
    from anthropic.types import message_create_params
    from pydantic import TypeAdapter

    body = json.loads(case.read_text(encoding="utf-8"))["request"]
    body.pop("temperature", None)  # the SDK has dropped it; the API has not
    checked = TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)

    exhaust(checked.validate_python(body))


def exhaust(value: Any) -> None:
    """Read through pydantic's lazy iterators, which check an item when it is read."""
    if isinstance(value, dict):
        value = value.values()
    if hasattr(value, "__iter__") and not isinstance(value, str):
        for item in value:
            exhaust(item)


def test_the_types_check_is_not_blind():
    from anthropic.types import message_create_params
    from pydantic import TypeAdapter, ValidationError

    checked = TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)
    block = {"type": "tool_result", "content": "no id"}
    wrong = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [block]}]}

    with pytest.raises(ValidationError):
        exhaust(checked.validate_python(wrong))


# Where it goes, and with what


@pytest.mark.parametrize(
    ("given", "root"),
    [
        (None, None),
        ("http://h", "http://h"),
        ("http://h/", "http://h"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h/v1/", "http://h"),
        ("http://h/anthropic/", "http://h/anthropic"),
    ],
)
def test_the_base_url_is_the_sdks_and_a_v1_too_many_does_no_harm(given, root):
    assert api_root(given) == root


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_every_spelling_of_the_base_url_reaches_the_same_path(server: StubServer, tail: str):
    server.reply("ok")
    LLM("anthropic", api_key=KEY, base_url=server.url() + tail).chat("Hello")

    assert server.requests[0].path == "/v1/messages"


def test_the_key_goes_where_the_sdk_puts_it(server: StubServer, claude: LLM):
    import anthropic

    server.reply("ok", "ok")
    claude.chat("Hello")
    with anthropic.Anthropic(api_key=KEY, base_url=server.url()) as client:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])

    ours, theirs = (request.headers for request in server.requests)
    for name in ("authorization", "x-api-key", "anthropic-version"):
        assert ours.get(name) == theirs.get(name)


def test_a_missing_key_names_the_variable_before_any_network(server: StubServer, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    llm = LLM("anthropic", base_url=server.url(), max_retries=0)

    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
        llm.chat("Hello")
    assert server.connections == 0


def test_the_key_may_come_from_the_environment(server: StubServer, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-from-env")
    server.reply("ok")

    LLM("anthropic", base_url=server.url()).chat("Hello")

    assert "sk-ant-from-env" in server.requests[0].headers["authorization"]


def test_the_default_model_has_a_price(server: StubServer, claude: LLM):
    server.reply(text("ok", usage={"input_tokens": 1_000_000, "output_tokens": 0}))

    response = claude.chat("Hello")

    assert response.priced
    assert response.cost_usd > 0


def test_cached_input_is_charged_at_its_own_price(server: StubServer, claude: LLM):
    usage = {"input_tokens": 0, "cache_read_input_tokens": 1_000_000, "output_tokens": 0}
    plain = {"input_tokens": 1_000_000, "output_tokens": 0}
    server.reply(text("ok", usage=usage), text("ok", usage=plain))

    cached, uncached = claude.chat("Hello"), claude.chat("Hello")

    assert cached.usage.input_tokens == uncached.usage.input_tokens == 1_000_000
    assert 0 < cached.cost_usd < uncached.cost_usd


# Settings


def test_max_tokens_is_always_sent_and_leaves_room_to_answer_after_thinking():
    thinking = {"type": "enabled", "budget_tokens": 10_000}

    assert wire(USER)["max_tokens"] == 4096
    assert wire(USER, settings={"max_tokens": None})["max_tokens"] == 4096
    assert wire(USER, settings={"thinking": thinking})["max_tokens"] == 14_096
    assert wire(USER, settings={"max_tokens": 7})["max_tokens"] == 7


async def test_very_large_max_tokens_need_no_stream(server: StubServer, claude: LLM):
    server.reply(*["ok"] * 3)

    assert claude.chat("Hello", max_tokens=64_000).content == "ok"
    assert (await claude.achat("Hello", max_tokens=64_000)).content == "ok"
    opus = LLM("anthropic", "claude-opus-4-0", api_key=KEY, base_url=server.url(), timeout=900)
    assert opus.chat("Hello", max_tokens=128_000).content == "ok"
    assert [r.json["max_tokens"] for r in server.requests] == [64_000, 64_000, 128_000]


def test_what_the_sdk_has_no_parameter_for_goes_into_the_body(server: StubServer, claude: LLM):
    server.reply("ok")

    claude.chat("Hello", temperature=0.25, top_k=5, stop_sequences=["END"])

    body = server.requests[0].json
    assert (body["temperature"], body["top_k"], body["stop_sequences"]) == (0.25, 5, ["END"])


def test_prompt_caching_is_asked_for_by_the_user(server: StubServer):
    options = {"cache_control": {"type": "ephemeral"}}
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), options=options)
    server.reply("ok")

    llm.chat("Hello", tools=[{**WEATHER, "cache_control": {"type": "ephemeral", "ttl": "1h"}}])

    body = server.requests[0].json
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_what_the_caller_gave_is_never_changed():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}
    broken = ToolCall("b 2", "g", {}, raw_arguments="{")
    call = ToolCall("a:1", "f", {"x": [1]}, provider_data={"anthropic": {"blocks": [THOUGHT]}})
    request = Request(
        MODEL,
        (
            Message(Role.SYSTEM, "s"),
            Message(Role.USER, ["look", PNG]),
            assistant(call, broken, said="t "),
            result("b 2"),
            result("a:1"),
            assistant(said="so far "),
        ),
        [WEATHER],
        "auto",
        {"output_config": {"effort": "low"}, "parallel_tool_calls": False},
        schema=schema,
    )
    before = copy.deepcopy(request)

    to_wire(request, stream=True)

    assert request == before


# Turns


def test_only_leading_system_messages_are_the_system_prompt():
    system = Message(Role.SYSTEM, "Be brief.")
    body = wire(
        system,
        Message(Role.SYSTEM, "Be kind."),
        USER,
        assistant(said="Hi"),
        Message(Role.SYSTEM, "Now speak French."),
        Message(Role.USER, "Bye"),
    )

    assert body["system"] == "Be brief.\n\nBe kind."
    assert body["messages"][:2] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
    ]
    later = body["messages"][2]["content"]
    assert [block["text"] for block in later] == [
        "<system>\nNow speak French.\n</system>",
        "Bye",
    ]


def test_nothing_but_a_system_prompt_is_refused_before_the_call(server: StubServer, claude: LLM):
    with pytest.raises(InvalidRequestError, match="USER"):
        claude.chat([Message(Role.SYSTEM, "Be brief.")])
    assert server.connections == 0


@pytest.mark.parametrize("nothing", ["", " \n", []])
def test_empty_text_is_left_out_and_so_is_a_message_without_anything_in_it(nothing):
    body = wire(
        Message(Role.SYSTEM, ""),
        Message(Role.USER, nothing),
        assistant(said=nothing if isinstance(nothing, str) else ""),
        Message(Role.USER, ["one", "", PNG, "two"]),
        assistant(ToolCall("t1", "f", {}), said="\n"),
        result("t1"),
    )

    assert "system" not in body
    first, second, third = body["messages"]
    assert [block["type"] for block in first["content"]] == ["text", "image", "text"]
    assert second["content"] == [use("t1")]
    assert third["content"] == [answer("t1")]


def test_neighbours_of_one_role_become_one_turn():
    body = wire(USER, Message(Role.USER, "again"), assistant(said="Hi"), assistant(said="there"))

    assert [(m["role"], len(m["content"])) for m in body["messages"]] == [
        ("user", 2),
        ("assistant", 2),
    ]


def test_an_answer_to_go_on_with_does_not_end_in_white_space():
    body = wire(USER, assistant(said="The answer is: "))

    assert body["messages"][-1] == {"role": "assistant", "content": "The answer is:"}


def test_results_of_one_turn_go_in_one_message_before_all_text():
    calls = [ToolCall(f"t{number}", "f", {}) for number in range(3)]
    body = wire(
        USER,
        assistant(*calls),
        Message(Role.SYSTEM, "Mind the gap."),
        result("t0", "zero"),
        Message(Role.USER, "By the way"),
        result("t1", "one"),
        result("t2", "", is_error=True),
    )

    content = body["messages"][-1]["content"]
    assert content[:2] == [answer("t0", "zero"), answer("t1", "one")]
    assert content[2] == {**answer("t2", "(empty)"), "is_error": True}
    assert [block["type"] for block in content[3:]] == ["text", "text"]
    assert len(body["messages"]) == 3


def test_an_image_in_a_tool_message_goes_out_with_its_result():
    shot = Message(Role.TOOL, ["done", PNG], tool_result=ToolResult("t1", "f", "done"))

    content = wire(USER, assistant(ToolCall("t1", "f", {})), shot)["messages"][-1]["content"]

    assert [part["type"] for part in content[0]["content"]] == ["text", "image"]


def test_ids_that_repeat_or_have_odd_letters_are_made_good_with_their_results():
    odd = "functions.f:0"
    body = wire(
        USER,
        assistant(ToolCall(odd, "f", {"n": 1}), ToolCall(odd, "f", {"n": 2})),
        result(odd, "first"),
        result(odd, "second"),
        assistant(ToolCall(odd, "f", {"n": 3})),
        result(odd, "third"),
        assistant(ToolCall("", "f", {"n": 4})),
        result("", "fourth"),
    )

    blocks = [block for turn in body["messages"][1:] for block in turn["content"]]
    ids = {block["id"]: block["input"]["n"] for block in blocks if block["type"] == "tool_use"}
    said = {b["content"]: ids[b["tool_use_id"]] for b in blocks if b["type"] == "tool_result"}
    assert said == {"first": 1, "second": 2, "third": 3, "fourth": 4}


def test_broken_arguments_go_back_inside_of_an_object():
    broken = ToolCall("t1", "f", {}, raw_arguments='{"city": "Par')

    turn = wire(USER, assistant(broken), result("t1"))["messages"][1]

    assert turn["content"] == [use("t1", given={"INVALID_JSON": '{"city": "Par'})]


def test_halves_of_a_character_do_not_break_the_request(server: StubServer, claude: LLM):
    server.reply("ok")
    call = ToolCall("t1", "f", {"name": "\ud83d", "other": "日本語"})

    claude.chat(
        [
            Message(Role.SYSTEM, "\ud83d"),
            Message(Role.USER, "hi \ud83d\ude00 \udc80"),
            assistant(call, said="\udc80"),
            result("t1", "\udc80"),
        ]
    )

    body = server.requests[0].json
    assert body["messages"][0]["content"] == "hi 😀 \ufffd"
    assert body["messages"][1]["content"][1]["input"]["other"] == "日本語"


# Images


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (Message(Role.USER, [Image.from_bytes(b"x", "image/tiff")]), "convert it to PNG"),
        (Message(Role.SYSTEM, [PNG]), "USER message"),
        (Message(Role.ASSISTANT, [PNG]), "USER message"),
    ],
)
def test_an_image_that_claude_cannot_take_is_refused_before_the_call(
    server: StubServer, claude: LLM, message: Message, advice: str
):
    with pytest.raises(InvalidRequestError, match=advice):
        claude.chat([message, USER])
    assert server.connections == 0


# Tools


@pytest.mark.parametrize(
    ("choice", "parallel", "wanted"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("weather", None, {"type": "tool", "name": "weather"}),
        ("weather", False, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}),
    ],
)
def test_the_tool_choice_is_told_in_the_apis_words(choice, parallel, wanted):
    settings = {} if parallel is None else {"parallel_tool_calls": parallel}

    body = wire(USER, tools=[WEATHER], tool_choice=choice, settings=settings)

    assert body.get("tool_choice") == wanted
    assert "parallel_tool_calls" not in body


def test_without_tools_nothing_is_said_about_them():
    body = wire(USER, settings={"parallel_tool_calls": False})

    assert body.keys() == {"model", "messages", "max_tokens"}


def test_a_history_with_tools_stays_legal_when_none_are_given():
    body = wire(USER, assistant(ToolCall("t1", "f", {}), ToolCall("t2", "g", {})), *RESULTS)

    assert [tool["name"] for tool in body["tools"]] == ["f", "g"]
    assert body["tool_choice"] == {"type": "none"}


RESULTS = (result("t1"), result("t2"))


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}])
def test_a_tool_without_parameters_takes_an_empty_object(parameters):
    tool = {"name": "now", "description": None, "parameters": parameters}

    [sent] = wire(USER, tools=[tool])["tools"]

    assert sent == {"name": "now", "input_schema": {"type": "object", "properties": {}}}


def test_tools_among_the_options_win():
    search = {"type": "web_search_20250305", "name": "web_search"}

    body = wire(USER, settings={"tools": [search], "tool_choice": {"type": "any"}})
    assert (body["tools"], body["tool_choice"]) == ([search], {"type": "any"})

    body = wire(USER, assistant(ToolCall("t1", "f", {})), RESULTS[0], settings={"tools": [search]})
    assert body["tools"] == [search]
    assert "tool_choice" not in body


def test_a_tool_that_anthropic_runs_is_sent_as_it_is():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}

    assert wire(USER, tools=[search, WEATHER])["tools"][0] == search


# What goes back


def test_thinking_goes_back_as_it_came_before_the_call_and_once():
    first = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    second = {"type": "tool_use", "id": "t2", "name": "g", "input": {"a": 1}}
    later = {**THOUGHT, "thinking": "And now?", "signature": "bW9yZQ"}
    blocks = [THOUGHT, SECRET, {"type": "text", "text": "I will look."}, first, later, second]

    response = from_wire(message(*blocks, stop_reason="tool_use"))
    assert response.thinking == "Let me see.And now?"
    assert response.provider_data is None

    stored = json.loads(json.dumps(response.message.to_dict()))
    for turn in (response.message, Message.from_dict(stored)):
        assert wire(USER, turn, *RESULTS)["messages"][1]["content"] == blocks
    rebuilt = assistant(*response.tool_calls or ())
    assert wire(USER, rebuilt, *RESULTS)["messages"][1]["content"] == [
        block for block in blocks if block["type"] != "text"
    ]


def test_thinking_goes_back_too_when_one_of_the_calls_is_dropped():
    blocks = [THOUGHT, use("t1"), use("t2")]
    calls = from_wire(message(*blocks, stop_reason="tool_use")).tool_calls or []

    turn = wire(USER, assistant(calls[1]), result("t2"))["messages"][1]

    assert turn["content"] == [THOUGHT, use("t2")]


def test_thinking_of_an_answer_in_words_rides_on_its_message():
    blocks = [THOUGHT, {"type": "text", "text": "It is 4."}]
    response = from_wire(message(*blocks))

    turn = Message.from_dict(json.loads(json.dumps(response.message.to_dict())))

    assert wire(USER, turn, USER)["messages"][1]["content"] == blocks


def test_a_paused_turn_goes_back_in_its_order():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    blocks = [{"type": "text", "text": "I look."}, search, found, {**search, "id": "s2"}]
    response = from_wire(message(*blocks, stop_reason="pause_turn"))

    assert response.finish_reason == "length"
    assert wire(USER, response.message)["messages"][1]["content"] == blocks


@pytest.mark.parametrize("signature", ["", None])
def test_a_thought_without_a_signature_does_not_go_back(signature):
    unsigned = {**THOUGHT, "signature": signature}
    response = from_wire(message(unsigned, {"type": "text", "text": "4"}))
    assert response.thinking == "Let me see."
    assert response.provider_data is None

    data = {"anthropic": {"blocks": [unsigned]}}
    turn = assistant(said="4", provider_data=data)
    assert wire(USER, turn, USER)["messages"][1] == {"role": "assistant", "content": "4"}


def test_a_turn_of_thoughts_alone_is_left_out():
    turn = from_wire(message(THOUGHT, SECRET, stop_reason="max_tokens")).message

    assert wire(USER, turn, USER)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}] * 2}
    ]


def test_what_another_provider_wants_back_is_none_of_ours():
    call = ToolCall("t1", "f", {}, provider_data={"gemini": {"thought_signature": "x"}})
    turn = assistant(call, provider_data={"gemini": {"parts": []}, "anthropic": None})

    assert wire(USER, turn, result("t1"))["messages"][1]["content"] == [use("t1")]


# Replies


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
        (None, "stop"),
    ],
)
def test_stop_reasons_are_told_in_our_words(reason, finish):
    response = from_wire(message({"type": "text", "text": "hi"}, stop_reason=reason))

    assert response.finish_reason == finish


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", None])
def test_an_answer_with_calls_says_so(reason):
    assert from_wire(message(use("t1"), stop_reason=reason)).finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"input_tokens": None, "output_tokens": None, "cache_read_input_tokens": None},
        {"cache_creation": None, "output_tokens_details": None, "server_tool_use": None},
    ],
)
def test_usage_may_be_missing_or_null(usage):
    assert from_wire(message({"type": "text", "text": "hi"}, usage=usage)).usage == TokenUsage()


def test_texts_and_unknown_blocks_are_read_in_order():
    blocks = [{"type": "text", "text": "a"}, {"type": "novelty", "text": "?"}]
    response = from_wire(message(*blocks, {"type": "text", "text": "b"}))

    assert response.content == "ab"


@pytest.mark.parametrize("ids", [["t1", "t1"], ["", ""], [None, None]])
def test_calls_always_have_an_id_each(ids):
    calls = from_wire(message(*[use(call_id) for call_id in ids])).tool_calls

    assert calls is not None
    assert len({call.id for call in calls}) == 2
    assert all(call.id for call in calls)


def test_a_refusal_is_an_error_that_was_paid_for(server: StubServer, claude: LLM):
    details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
    facts = {"usage": {"input_tokens": 5, "output_tokens": 2}, "model": "m-refuses"}
    server.reply(raw(message(stop_reason="refusal", stop_details=details, **facts)))

    with (
        pytest.warns(UserWarning, match="m-refuses"),
        pytest.raises(ContentFilterError, match="It could do harm") as caught,
    ):
        claude.chat("Hello")

    assert caught.value.response is not None
    assert caught.value.response.usage == TokenUsage(5, 2)
    assert claude.tokens.total_tokens == 7


def test_what_was_said_before_a_refusal_is_an_answer():
    response = from_wire(message({"type": "text", "text": "Well,"}, stop_reason="refusal"))

    assert (response.content, response.finish_reason) == ("Well,", "content_filter")


# Streams


STREAMED = [
    [{"type": "text", "text": "one two “three” 👩‍👩‍👧"}],
    [THOUGHT, {"type": "text", "text": "It is 4."}],
    [THOUGHT, SECRET, {"type": "text", "text": "I look."}, use("t1"), use("t2", "g", {"ä": "ö"})],
    [{"type": "text", "text": "a"}, use("t1"), THOUGHT, use("t2", given={"n": 1.5})],
    [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}],
    [],
]


@pytest.mark.parametrize("blocks", STREAMED)
def test_a_stream_adds_up_to_the_same_response_as_a_message(blocks):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7}
    facts: dict[str, Any] = {"id": "msg_1", "model": MODEL}
    start = {**usage, "output_tokens": 1}

    seen, response = decode(*message_events(*blocks, start=start, end=usage, **facts))

    assert response == from_wire(message(*blocks, usage=usage, **facts))
    assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == response.content
    thought = "".join(e.text for e in seen if isinstance(e, ThinkingDelta))
    assert thought == (response.thinking or "")
    assert [e for e in seen if isinstance(e, ToolCall)] == (response.tool_calls or [])


def test_a_call_without_arguments_has_none_when_streamed():
    seen, _ = decode(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        block_start(use("t1", "now")),
        block_delta(type="input_json_delta", partial_json=""),
        {"type": "content_block_stop", "index": 0},
        ending("tool_use"),
    )

    assert seen == [ToolCall("t1", "now", {})]


def test_arguments_that_were_cut_off_are_kept_raw():
    seen, response = decode(
        block_start(use("t1")),
        block_delta(type="input_json_delta", partial_json='{"city": '),
        block_delta(type="input_json_delta", partial_json='"Par'),
        ending("max_tokens"),
    )

    assert seen == [ToolCall("t1", "f", {}, raw_arguments='{"city": "Par')]
    assert response.finish_reason == "length"


@pytest.mark.parametrize(
    "last",
    [
        {"output_tokens": 7},
        {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7},
        {"input_tokens": 0, "cache_read_input_tokens": None, "output_tokens": 7},
    ],
)
def test_usage_that_comes_twice_counts_once(last):
    first = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}
    _, response = decode({"type": "message_start", "message": {"usage": first}}, ending(**last))

    assert response.usage == TokenUsage(15, 7, cache_read_tokens=5)


def test_what_says_nothing_is_passed_over():
    seen, response = decode(
        {"type": "message_start", "message": None},
        b": comment\n\n",
        {"type": "ping"},
        {"type": "novelty", "delta": None},
        block_delta(type="text_delta", text="hi"),  # without its start
        block_delta(type="text_delta", text=""),
        block_delta(type="citations_delta", citation={}),
        block_delta(type="novelty_delta"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
        {"type": "message_stop"},
        b"data: [DONE]\n\n",
    )

    assert seen == [TextDelta("hi")]
    assert (response.content, response.finish_reason) == ("hi", "stop")


def test_a_block_may_begin_with_some_of_its_text():
    seen, response = decode(
        block_start({"type": "thinking", "thinking": "Hm", "signature": ""}),
        block_delta(type="thinking_delta", thinking="m."),
        block_start({"type": "text", "text": "Well"}, 1),
        block_delta(1, type="text_delta", text=", yes."),
        ending(),
    )

    assert [event.text for event in seen] == ["Hm", "m.", "Well", ", yes."]
    assert (response.thinking, response.content) == ("Hmm.", "Well, yes.")
    assert response.provider_data is None


def test_a_stream_without_its_end_mark_is_cut_off():
    with pytest.raises(ProviderConnectionError, match="end mark"):
        decode(block_delta(type="text_delta", text="hi"), ending(), done=False)


def test_of_a_broken_stream_nothing_is_kept_that_could_not_go_back():
    decoder = StreamDecoder()
    sent = [
        {"type": "message_start", "message": {"model": MODEL, "usage": {"input_tokens": 3}}},
        block_start({"type": "thinking", "thinking": "", "signature": ""}),
        block_delta(type="thinking_delta", thinking="Let me"),
        block_delta(type="signature_delta", signature="c2lnbmVk"),
        block_start({**use("s1"), "type": "server_tool_use"}, 1),
        block_delta(1, type="input_json_delta", partial_json='{"a'),
        block_start(use("t1"), 2),
        block_delta(2, type="input_json_delta", partial_json='{"a'),
    ]
    list(decoder.feed(b"".join(b"data: %b\n\n" % dumped(payload) for payload in sent)))

    response = decoder.response()

    assert (response.thinking, response.model) == ("Let me", MODEL)
    assert response.usage == TokenUsage(3, 0)
    assert (response.tool_calls, response.finish_reason) == (None, None)
    assert response.provider_data is None


def test_a_refusal_in_a_stream_is_an_error():
    details = {"type": "refusal", "explanation": "No."}
    stop = {"stop_reason": "refusal", "stop_details": details}

    with pytest.raises(ContentFilterError, match=r"No\."):
        decode({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}})


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


async def test_an_error_event_before_the_text_is_tried_again(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), max_retries=1)
    server.reply(*[events(OVERLOADED), text("hi")] * 2)

    assert "".join(llm.stream("Hello")) == "hi"
    assert "".join([piece async for piece in llm.astream("Hello")]) == "hi"
    assert len(server.requests) == 4
    assert llm.tokens.total_calls == 2


def test_an_error_event_after_text_interrupts_and_is_never_tried_again(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), max_retries=3)
    server.reply(events(block_delta(type="text_delta", text="par"), OVERLOADED))

    with pytest.raises(StreamInterruptedError, match="Overloaded") as caught:
        list(llm.stream("Hello"))

    assert caught.value.partial == "par"
    assert isinstance(caught.value.__cause__, ServerError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("shape", ["with_crlf", "without_spaces", "with_comments", "in_one_packet"])
def test_event_streams_of_every_dialect_are_read(server: StubServer, claude: LLM, shape: str):
    server.reply(getattr(text("one two three"), shape)())

    assert "".join(claude.stream("Count")) == "one two three"


def test_a_stream_closed_early_counts_the_input(server: StubServer, claude: LLM):
    usage = {"input_tokens": 40, "output_tokens": 9}
    server.reply(text("one two three four", usage=usage))

    pieces = claude.stream("Count")
    next(pieces)
    pieces.close()

    assert claude.tokens.total_input_tokens == 40


# Errors


@pytest.mark.parametrize(
    ("reply", "kind", "retryable"),
    [
        (status(400, "prompt is too long: 200251 tokens > 200000 maximum"), ContextLengthError, 0),
        (
            status(400, "input length and `max_tokens` exceed context limit: 190000 + 20000"),
            ContextLengthError,
            0,
        ),
        (status(400, "Your credit balance is too low to access the API"), RateLimitError, 0),
        (status(400, "messages.0: something else"), InvalidRequestError, 0),
        (status(402, "no funds"), RateLimitError, 0),
        (status(403, "not for you"), AuthError, 0),
        (status(404, "model: claude-9"), ModelNotFoundError, 0),
        (status(413, "Request exceeds the maximum size"), ContextLengthError, 0),
        (status(504, "took too long"), ProviderTimeoutError, 1),
        (status(529, "Overloaded"), ServerError, 1),
        (raw(OVERLOADED), ServerError, 1),
    ],
)
def test_the_apis_errors_are_ours(server: StubServer, claude: LLM, reply, kind, retryable):
    server.reply(reply)

    with pytest.raises(kind) as caught:
        claude.chat("Hello")

    assert type(caught.value) is kind
    assert caught.value.retryable is bool(retryable)


def test_a_request_that_was_refused_inside_a_stream_is_not_tried_again(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), max_retries=3)
    error = {"type": "invalid_request_error", "message": "messages: wrong"}
    server.reply(events({"type": "error", "error": error, "request_id": "req_9"}))

    with pytest.raises(InvalidRequestError) as caught:
        list(llm.stream("Hello"))

    assert caught.value.request_id == "req_9"
    assert len(server.requests) == 1


def test_answers_and_errors_know_their_request(server: StubServer, claude: LLM):
    headers = {"request-id": "req_of_headers"}
    server.reply("ok", raw("busy", status=529, headers=headers), text("ok"))

    assert claude.chat("Hello").request_id == "req_1"
    with pytest.raises(ServerError) as caught:
        claude.chat("Hello")
    assert caught.value.request_id == "req_of_headers"
    pieces = claude.stream("Hello")
    list(pieces)
    assert pieces.response is not None
    assert pieces.response.request_id == "req_3"


# The whole loop


def test_a_tool_loop_with_thinking_is_accepted_from_end_to_end(server: StubServer):
    llm = LLM("anthropic", api_key=KEY, base_url=server.url(), options={"thinking": THINK})
    first = message(THOUGHT, use("t1", "weather", {"city": "Oslo"}), stop_reason="tool_use")
    server.reply(
        raw({**first, "model": llm.model}),
        tool_calls(Call("weather", {"city": "Rome"}), text="And Rome."),
        "Rain and sun.",
    )
    history: list[Message] = [Message(Role.USER, "Weather?")]

    for _ in range(2):
        response = llm.chat(history, tools=[WEATHER])
        history.append(response.message)
        history += [result(call.id, "rain") for call in response.tool_calls or ()]

    assert llm.chat(history).content == "Rain and sun."
    assert server.refusals == []
    assert server.requests[-1].json["messages"][1]["content"][0] == THOUGHT


THINK = {"type": "enabled", "budget_tokens": 2048}
