"""What every provider does, over HTTP, with its real SDK, against the stub server."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from pywrapai import (
    LLM,
    AuthError,
    InvalidRequestError,
    LLMResponse,
    Message,
    ModelNotFoundError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    Role,
    ServerError,
    StreamInterruptedError,
    ToolCall,
    ToolResult,
)
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import Call, hang_up, html, raw, status, text, tool_calls

WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
KEY = "sk-test-0123456789"


class ProviderContract:
    """Subclass it and set `provider`; `usage` builds token counts in the provider's own keys."""

    provider: str
    usage: Callable[[int, int], dict[str, Any]]
    names_requests: bool = True
    """Whether the server gives every request an id."""

    def make(self, server: StubServer, **settings: Any) -> LLM:
        settings = {"max_retries": 0, "api_key": KEY, **settings}
        return LLM(self.provider, base_url=server.url(self.provider), **settings)

    async def test_a_text_is_answered_the_same_sync_and_async(self, server: StubServer):
        llm = self.make(server)
        server.reply(text("Bonjour à tous 👋", usage=self.usage(7, 3)))
        server.reply(text("Bonjour à tous 👋", usage=self.usage(7, 3)))

        for response in (llm.chat("Hello"), await llm.achat("Hello")):
            assert response.content == "Bonjour à tous 👋"
            assert response.tool_calls is None
            assert (response.usage.input_tokens, response.usage.output_tokens) == (7, 3)
            assert response.finish_reason == "stop"
            assert response.provider == self.provider
            assert response.model
            assert bool(response.request_id) is self.names_requests
            assert response.duration_ms > 0
            assert not response.cached
            assert response.raw is not None
        assert llm.tokens.total_calls == 2
        assert llm.tokens.total_tokens == 20

    async def test_a_stream_is_the_whole_answer_in_pieces(self, server: StubServer):
        llm = self.make(server)
        words = "one two three “four” 👩‍👩‍👧 five"
        server.reply(*[text(words, usage=self.usage(4, 6)).in_packets_of(3)] * 2)

        pieces = llm.stream("Count")
        apieces = llm.astream("Count")

        assert "".join(pieces) == words
        assert "".join([piece async for piece in apieces]) == words
        for response in (pieces.response, apieces.response):
            assert response is not None
            assert response.content == words
            assert (response.usage.input_tokens, response.usage.output_tokens) == (4, 6)
            assert response.finish_reason == "stop"
        assert llm.tokens.total_calls == 2
        assert llm.tokens.total_tokens == 20

    def test_system_history_and_message_are_sent_in_order(self, server: StubServer):
        llm = self.make(server, system_prompt="Be brief.")
        server.reply("ok")

        llm.chat(
            [
                Message(Role.USER, "My name is Alice."),
                Message(Role.ASSISTANT, "Hello Alice."),
                Message(Role.USER, "What is my name?"),
            ]
        )

        body = server.requests[-1].body.decode()
        said = ["Be brief.", "My name is Alice.", "Hello Alice.", "What is my name?"]
        places = [body.index(phrase) for phrase in said]
        assert places == sorted(places)

    def test_a_system_message_of_the_caller_stands_in_for_the_llms_own(self, server: StubServer):
        llm = self.make(server, system_prompt="Be brief.")
        server.reply("ok")

        llm.chat([Message(Role.SYSTEM, "Be long."), Message(Role.USER, "Hello")])

        body = server.requests[-1].body.decode()
        assert "Be long." in body
        assert "Be brief." not in body

    def test_two_tool_calls_come_back_whole(self, server: StubServer):
        llm = self.make(server)
        server.reply(
            tool_calls(Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Køln"}))
        )

        response = llm.chat("Weather?", tools=[WEATHER], tool_choice="required")

        assert response.content == ""
        assert response.finish_reason == "tool_calls"
        assert [(c.name, c.arguments) for c in response.tool_calls or ()] == [
            ("weather", {"city": "Oslo"}),
            ("weather", {"city": "Køln"}),
        ]
        assert len({call.id for call in response.tool_calls or ()}) == 2

    def test_tool_results_go_back_and_the_server_accepts_the_order(self, server: StubServer):
        llm = self.make(server)
        server.reply(
            tool_calls(Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}))
        )
        server.reply("Rain in Oslo, sun in Rome.")
        asked = Message(Role.USER, "Weather?")
        calls = llm.chat([asked], tools=[WEATHER]).tool_calls or []

        results = [
            Message(Role.TOOL, "?", tool_result=ToolResult(call.id, call.name, said))
            for call, said in zip(calls, ["rain", "sun"], strict=True)
        ]
        final = llm.chat([asked, Message(Role.ASSISTANT, "", calls), *results], tools=[WEATHER])

        assert final.content == "Rain in Oslo, sun in Rome."
        assert server.refusals == []
        body = server.requests[-1].body.decode()
        assert body.index("rain") < body.index("sun")

    def test_broken_tool_arguments_are_kept_and_can_be_sent_back(self, server: StubServer):
        llm = self.make(server)
        broken = ToolCall("call_1", "weather", {}, raw_arguments='{"city": "Par')
        server.reply("I will try again.")

        llm.chat(
            [
                Message(Role.USER, "Weather?"),
                Message(Role.ASSISTANT, "", [broken]),
                Message(
                    Role.TOOL,
                    "Error: bad JSON",
                    tool_result=ToolResult("call_1", "weather", "Error: bad JSON", is_error=True),
                ),
            ],
            tools=[WEATHER],
        )

        assert server.refusals == []

    def test_settings_of_the_llm_of_its_options_and_of_the_call_are_sent(self, server: StubServer):
        llm = self.make(server, temperature=0.5, max_tokens=10)
        server.reply("ok", "ok")

        llm.chat("Hello")
        llm.chat("Hello", temperature=0.75, max_tokens=20)

        first, second = (request.body.decode() for request in server.requests)
        assert "0.5" in first
        assert "10" in first
        assert "0.75" in second
        assert "20" in second

    def test_an_answer_cut_at_max_tokens_says_so(self, server: StubServer):
        server.reply(text("half an ans", finish_reason="length"))

        assert self.make(server).chat("Hello").finish_reason == "length"

    @pytest.mark.parametrize(
        ("reply", "kind"),
        [
            (status(400), InvalidRequestError),
            (status(401), AuthError),
            (status(403), AuthError),
            (status(404), ModelNotFoundError),
            (status(429, retry_after=7), RateLimitError),
            (status(500), ServerError),
            (status(529), ServerError),
            (html("<html>login</html>"), ServerError),
            (raw(b""), ServerError),
            (raw("{not json"), ServerError),
            (raw([]), ServerError),
            (raw({"choices": [None]}), ServerError),
            (hang_up(), ProviderConnectionError),
        ],
    )
    async def test_every_failure_is_one_of_our_errors_on_all_four_ways(
        self, server: StubServer, reply: Any, kind: type[ProviderError]
    ):
        llm = self.make(server)
        server.reply(*[reply] * 4)

        for call in (
            lambda: llm.chat("Hello"),
            lambda: list(llm.stream("Hello")),
        ):
            with pytest.raises(kind) as caught:
                call()
            self.check_error(caught.value, llm)
        with pytest.raises(kind) as caught:
            await llm.achat("Hello")
        self.check_error(caught.value, llm)
        with pytest.raises(kind) as caught:
            [piece async for piece in llm.astream("Hello")]
        self.check_error(caught.value, llm)
        assert len(server.requests) == 4
        assert llm.tokens.total_calls == 0

    def check_error(self, error: ProviderError, llm: LLM) -> None:
        assert error.provider == self.provider
        assert error.model == llm.model
        assert KEY not in str(error)

    def test_a_rate_limit_carries_the_servers_wish(self, server: StubServer):
        server.reply(status(429, retry_after=7))

        with pytest.raises(RateLimitError) as caught:
            self.make(server).chat("Hello")

        assert caught.value.retry_after == 7.0
        assert caught.value.status_code == 429

    def test_a_key_that_the_server_echoes_is_blanked(self, server: StubServer):
        server.reply(status(401, f"Incorrect API key provided: {KEY}"))

        with pytest.raises(AuthError) as caught:
            self.make(server).chat("Hello")

        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert KEY not in repr(self.make(server))

    async def test_a_redirect_is_named_and_never_takes_the_key_along(self, server: StubServer):
        with StubServer("never") as elsewhere:
            moved = raw(b"", status=307, headers={"location": f"{elsewhere.url()}/v1"})
            server.reply(*[moved] * 2)
            llm = self.make(server)

            with pytest.raises(InvalidRequestError, match=f"{elsewhere.port}.*base_url"):
                llm.chat("Hello")
            with pytest.raises(InvalidRequestError, match=f"{elsewhere.port}.*base_url"):
                [piece async for piece in llm.astream("Hello")]

            assert elsewhere.connections == 0

    def test_a_server_that_is_not_there_is_named(self):
        with refusing_port() as port:
            llm = LLM(
                self.provider, api_key=KEY, base_url=f"http://127.0.0.1:{port}", max_retries=0
            )
            with pytest.raises(ProviderConnectionError, match=str(port)):
                llm.chat("Hello")

    async def test_silence_is_a_timeout_before_the_first_byte(self, server: StubServer):
        llm = self.make(server, timeout=0.2)
        server.reply(*[text("late").delayed(30)] * 2)

        with pytest.raises(ProviderTimeoutError):
            llm.chat("Hello")
        with pytest.raises(ProviderTimeoutError):
            await llm.achat("Hello")

    async def test_silence_between_two_chunks_interrupts_the_stream(self, server: StubServer):
        llm = self.make(server)
        server.reply(*[text("one two three four").stall_after(3)] * 2)
        seen: list[str] = []

        with pytest.raises(StreamInterruptedError) as caught:
            seen.extend(llm.stream("Count", timeout=0.3))
        with pytest.raises(StreamInterruptedError):
            [piece async for piece in llm.astream("Count", timeout=0.3)]

        assert isinstance(caught.value.__cause__, ProviderTimeoutError)
        assert caught.value.partial == "".join(seen) != ""
        assert caught.value.response is not None
        assert llm.tokens.total_calls == 2

    @pytest.mark.parametrize("packets", [3, 4])
    async def test_a_stream_that_is_cut_off_is_no_success(self, server: StubServer, packets: int):
        llm = self.make(server)
        server.reply(*[text("one two three four five six").cut_after(packets)] * 2)

        with pytest.raises(StreamInterruptedError) as caught:
            list(llm.stream("Count"))
        with pytest.raises(StreamInterruptedError):
            [piece async for piece in llm.astream("Count")]

        assert isinstance(caught.value.__cause__, ProviderConnectionError)
        assert caught.value.partial.startswith("one")

    async def test_closing_a_stream_early_closes_the_connection(self, server: StubServer):
        llm = self.make(server)
        server.reply(*[text("word " * 50).paced(0.05)] * 2)

        pieces = llm.stream("Count")
        next(pieces)
        pieces.close()
        async with llm.astream("Count") as apieces:
            await anext(apieces)

        for request in server.requests:
            assert await asyncio.to_thread(request.client_left.wait, 5)
        assert pieces.response is not None
        assert pieces.response.finish_reason is None
        assert llm.tokens.total_calls == 2

    async def test_leaving_the_loop_over_a_stream_closes_the_connection(self, server: StubServer):
        llm = self.make(server)
        server.reply(*[text("word " * 50).paced(0.05)] * 2)

        for _ in llm.stream("Count"):
            break
        async for _ in llm.astream("Count"):
            break

        gc.collect()
        for request in server.requests:
            assert await asyncio.to_thread(request.client_left.wait, 5)

    async def test_cancelling_a_task_closes_the_connection(self, server: StubServer):
        llm = self.make(server)
        server.reply(text("word " * 50).paced(0.05))
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in llm.astream("Count"):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)

    def test_the_same_llm_works_in_one_event_loop_after_another(self, server: StubServer):
        llm = self.make(server)
        server.reply("one", "two", "three")

        answers = [asyncio.run(llm.achat("Hello")).content for _ in range(3)]

        assert answers == ["one", "two", "three"]

    async def test_many_streams_at_once_keep_their_own_usage(self):
        def answer(request: Any) -> Any:
            number = int(request.body.decode().rpartition("number ")[2].partition('"')[0])
            return text(f"this is {number}", usage=self.usage(number, 2 * number)).paced(0.01)

        with StubServer(answer) as server:
            llm = self.make(server)

            async def one(number: int) -> LLMResponse | None:
                stream = llm.astream(f"number {number}")
                async for _ in stream:
                    pass
                return stream.response

            responses = await asyncio.gather(*(one(number) for number in range(1, 51)))

        for number, response in enumerate(responses, start=1):
            assert response is not None
            assert response.content == f"this is {number}"
            assert response.usage.input_tokens == number
            assert response.usage.output_tokens == 2 * number
        assert server.peak_in_flight == 50
        counted = sorted((r.input_tokens, r.output_tokens) for r in llm.tokens.records)
        assert counted == [(number, 2 * number) for number in range(1, 51)]

    async def test_the_models_on_offer_are_listed(self, server: StubServer):
        llm = self.make(server)

        assert llm.models() == await llm.amodels() != []
        assert all(isinstance(name, str) for name in llm.models())
        assert server.refusals == []

    def test_a_closed_llm_may_be_used_again(self, server: StubServer):
        server.reply("one", "two")
        with self.make(server) as llm:
            assert llm.chat("Hello").content == "one"

        assert llm.chat("Hello").content == "two"
