from __future__ import annotations

from typing import Any

import pytest

from pywrapai.testing.server import StubServer
from pywrapai.testing.wires import text
from tests.contracts.provider import KEY
from tests.engine.gemini_turns import MODEL


def call_turn(**more: Any) -> list[dict[str, Any]]:
    call = {"functionCall": {"name": "f", "args": {}}, **more}
    return [{"parts": [{"text": "go"}]}, {"role": "model", "parts": [call]}]


HELLO = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
ANSWERED = {"parts": [{"functionResponse": {"name": "f", "response": {}}}]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "contents is not specified"),
        ({"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "hi"}]}]}, "user or model"),
        ({"contents": [{"parts": [{"text": ""}]}]}, "must be text, not empty"),
        ({"contents": [{"parts": [{"text": "a", "inlineData": {}}]}]}, "cannot send"),
        ({**HELLO, "top_p": 1}, 'Unknown name "top_p"'),
        ({**HELLO, "generationConfig": {"temperature": 3}}, "from 0 to 2"),
        ({**HELLO, "generationConfig": {"responseJsonSchema": {}}}, "responseMimeType"),
        ({**HELLO, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "declarations"),
        ({"contents": [*call_turn(), {"parts": [{"text": "x"}]}]}, "must be equal"),
        ({"contents": [*call_turn(), ANSWERED, ANSWERED]}, "must be equal"),
        (
            {"contents": [*call_turn(), {"parts": [{"functionResponse": {"name": "f"}}]}]},
            "has another form",
        ),
        *[
            (
                {
                    **HELLO,
                    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": s}]}],
                },
                said,
            )
            for s, said in [
                ({"type": "object", "$ref": "#"}, "Unknown name"),
                ({"type": "string"}, "an object"),
                ({"type": "object", "properties": {"a": {"type": "array"}}}, "'items'"),
                ({"type": "object", "properties": {"a": {"enum": [True]}}}, "texts and numbers"),
            ]
        ],
    ],
)
def test_the_stub_refuses_what_google_would(server: StubServer, body: Any, said: str):
    import httpx2

    url = f"{server.url('gemini')}/v1/models/{MODEL}:generateContent"
    answer = httpx2.post(url, json=body, headers={"x-goog-api-key": KEY})

    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_the_stub_wants_a_key_and_the_signatures_of_newer_models(server: StubServer):
    import httpx2

    root, headers = f"{server.url('gemini')}/v1/models", {"x-goog-api-key": KEY}
    newer = f"{root}/gemini-3-pro-preview:generateContent"
    server.reply("ok")

    assert httpx2.post(newer, json=HELLO).status_code == 403
    for more, code in (({}, 400), ({"thoughtSignature": "QQ=="}, 200)):
        turns = {"contents": [*call_turn(**more), ANSWERED]}
        assert httpx2.post(newer, json=turns, headers=headers).status_code == code
    stream = f"{root}/{MODEL}:streamGenerateContent"
    assert httpx2.post(stream, json=HELLO, headers=headers).status_code == 400


def test_the_sdk_reads_what_the_stub_sends(server: StubServer):
    from google import genai

    server.reply(text("one two"), text("one two", finish_reason="length"))
    client = genai.Client(api_key=KEY, vertexai=False, http_options={"base_url": server.url()})

    whole = client.models.generate_content(model=MODEL, contents="Count")
    pieces = list(client.models.generate_content_stream(model=MODEL, contents="Count"))

    assert whole.text == "one two"
    assert [piece.text for piece in pieces] == ["one ", "two"]
    assert pieces[-1].candidates[0].finish_reason == "MAX_TOKENS"
    assert whole.usage_metadata.prompt_token_count == 1
    client.close()
