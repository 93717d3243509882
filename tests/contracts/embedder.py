"""What every embedder does; and what those do that ask a server, over HTTP."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pywrapai import (
    AuthError,
    Embedder,
    InvalidRequestError,
    ModelNotFoundError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    ServerError,
)
from pywrapai.testing.server import StubServer, refusing_port
from pywrapai.testing.wires import hang_up, html, raw, status

KEY = "sk-test-0123456789"
ANIMALS = ["a cat sat on the mat", "the stock market fell today", "ein Hund 🐶 schläft"]


class EmbedderContract:
    """Subclass it, set `provider` and write `make`."""

    provider: str

    def make(self, **settings: Any) -> Embedder:
        raise NotImplementedError

    def test_a_vector_comes_back_for_each_text_in_order(self):
        embedder = self.make()

        vectors = embedder.embed(ANIMALS)

        assert len(vectors) == 3
        assert all(type(x) is float for vector in vectors for x in vector)
        for text, vector in zip(ANIMALS, vectors, strict=True):
            assert embedder.embed_one(text) == pytest.approx(vector, abs=1e-6)

    async def test_all_ways_to_ask_give_the_same(self):
        embedder = self.make()

        vectors = embedder.embed(ANIMALS)
        array = embedder.embed_array(ANIMALS)

        assert await embedder.aembed(ANIMALS) == vectors
        assert await embedder.aembed_one(ANIMALS[2]) == embedder.embed_one(ANIMALS[2])
        np.testing.assert_array_equal(array, np.asarray(vectors, dtype=np.float32))
        np.testing.assert_array_equal(await embedder.aembed_array(ANIMALS), array)
        assert array.dtype == np.float32
        assert array.flags.writeable
        assert array.flags.c_contiguous

    def test_texts_that_share_words_are_nearer(self):
        asked, *lines = self.make(dimensions=None).embed_array(
            [
                "What is the capital of France?",
                "Bananas grow in bunches on tall plants.",
                "Paris is the capital of France.",
                "She tuned her violin before work.",
            ]
        )

        scores = [
            float(asked @ line / np.linalg.norm(asked) / np.linalg.norm(line)) for line in lines
        ]
        assert max(scores) == scores[1]

    def test_any_iterable_of_texts_will_do_and_is_left_alone(self):
        embedder, texts = self.make(), list(ANIMALS)

        assert embedder.embed(text for text in texts) == embedder.embed(tuple(texts))
        assert embedder.embed(texts) == embedder.embed(texts)
        assert texts == ANIMALS

    async def test_no_texts_are_no_request(self):
        embedder = self.make()

        assert embedder.embed([]) == []
        assert await embedder.aembed([]) == []
        assert embedder.embed_array([]).shape == (0, 0)
        assert self.make(dimensions=8).embed_array([]).shape == (0, 8)
        assert embedder.tokens.total_calls == 0

    async def test_one_string_is_no_list_of_texts(self):
        embedder = self.make()

        for ask in (embedder.embed, embedder.embed_array):
            with pytest.raises(TypeError, match="embed_one"):
                ask("document")
        for aask in (embedder.aembed, embedder.aembed_array):
            with pytest.raises(TypeError, match="embed_one"):
                await aask("document")
        with pytest.raises(TypeError, match="embed takes a list"):
            embedder.embed_one(["document"])  # type: ignore[arg-type]
        assert embedder.tokens.total_calls == 0

    @pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["nested"]])
    def test_what_is_no_text_is_named_by_its_place(self, wrong: Any):
        embedder = self.make(batch_size=1)

        with pytest.raises(TypeError, match=r"texts\[1\] is " + type(wrong).__name__):
            embedder.embed(["fine", wrong])
        assert embedder.tokens.total_calls == 0

    async def test_blank_texts_get_zeros_and_the_others_what_they_always_get(self):
        embedder = self.make()

        vectors = embedder.embed(["", ANIMALS[0], " \n\t", ANIMALS[1], "\u3000"])
        array = await embedder.aembed_array(["", ANIMALS[0], " \n\t", ANIMALS[1], "\u3000"])

        size = len(vectors[1])
        assert vectors[0] == vectors[2] == vectors[4] == [0.0] * size
        assert [vectors[1], vectors[3]] == embedder.embed(ANIMALS[:2])
        np.testing.assert_array_equal(array, np.asarray(vectors, dtype=np.float32))

    def test_blank_texts_alone_get_zeros_of_the_models_size(self):
        embedder = self.make()
        size = len(embedder.embed_one(ANIMALS[0]))

        assert embedder.embed(["", "  "]) == [[0.0] * size] * 2
        assert embedder.embed_one("") == [0.0] * size
        assert embedder.embed_array([" "]).tolist() == [[0.0] * size]

    async def test_many_texts_go_in_batches_and_come_back_in_order(self):
        texts = [f"text number {number}" for number in range(25)]
        texts[7] = ""
        whole, parts = self.make(), self.make(batch_size=10)

        vectors = parts.embed(texts)
        array = await parts.aembed_array(texts)

        np.testing.assert_allclose(vectors, whole.embed(texts), atol=1e-6)
        np.testing.assert_array_equal(array, np.asarray(vectors, dtype=np.float32))
        assert whole.tokens.total_calls == 1
        assert parts.tokens.total_calls == 6

    def test_fewer_dimensions_are_unit_vectors_again(self):
        embedder = self.make(dimensions=8)

        array = embedder.embed_array([*ANIMALS, ""])

        assert array.shape == (4, 8)
        np.testing.assert_allclose(np.linalg.norm(array, axis=1), [1, 1, 1, 0], atol=1e-6)
        assert embedder.dimensions == 8
        assert self.make().dimensions is None

    def test_each_request_is_counted_as_an_embedding(self):
        embedder = self.make(batch_size=2)

        embedder.embed(ANIMALS)

        records = embedder.tokens.records
        assert [record.kind for record in records] == ["embedding"] * 2
        for record in records:
            assert record.provider == self.provider == embedder.provider
            assert record.model
            assert record.input_tokens > 0
            assert record.output_tokens == 0
            assert record.duration_ms > 0
        assert embedder.tokens.total_input_tokens == sum(r.input_tokens for r in records)

    def test_nothing_is_counted_on_request(self):
        embedder = self.make(track_tokens=False)

        embedder.embed(ANIMALS)

        assert embedder.tokens.total_calls == 0

    def test_odd_characters_are_no_trouble(self):
        embedder = self.make()
        odd = ["nul \x00 inside", "half a character \ud83d", "right‮left", "👩‍👩‍👧 é", "\u200b"]

        assert np.isfinite(embedder.embed_array(odd)).all()

    def test_many_threads_get_their_own_vectors(self):
        embedder = self.make()
        texts = [f"thread{number} asks something" for number in range(40)]
        expected = [embedder.embed_one(text) for text in texts]

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(embedder.embed_one, texts))

        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert embedder.tokens.total_calls == 80

    async def test_many_tasks_get_their_own_vectors(self):
        embedder = self.make()
        texts = [f"task{number} asks something" for number in range(40)]
        expected = embedder.embed_array(texts)

        found = await asyncio.gather(*map(embedder.aembed_one, texts))

        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_it_works_in_one_event_loop_after_another(self):
        embedder = self.make()

        found = [asyncio.run(embedder.aembed_one(ANIMALS[0])) for _ in range(3)]

        assert found[0] == found[1] == found[2]

    async def test_closed_it_may_be_used_again(self):
        with self.make() as embedder:
            vector = embedder.embed_one(ANIMALS[0])
        async with embedder:
            assert await embedder.aembed_one(ANIMALS[0]) == vector

        assert embedder.embed_one(ANIMALS[0]) == vector

    def test_it_says_what_it_is_without_its_key(self):
        embedder = self.make()

        assert repr(embedder) == (f"Embedder(provider={self.provider!r}, model={embedder.model!r})")
        assert KEY not in repr(vars(embedder))


class HTTPEmbedderContract(EmbedderContract):
    """The same over HTTP; `body` makes a reply of these vectors in the provider's own form."""

    wire: str

    @pytest.fixture(autouse=True)
    def _on(self, server: StubServer) -> None:
        self.server = server

    def make(self, **settings: Any) -> Embedder:
        settings = {"max_retries": 0, "api_key": KEY, "base_url": self.url, **settings}
        return Embedder(self.provider, **settings)

    @property
    def url(self) -> str:
        return self.server.url(self.wire)

    def body(self, vectors: list[Any]) -> Any:
        raise NotImplementedError

    def test_blank_texts_are_not_sent(self):
        self.make().embed(["a cat", "", "  "])

        assert len(self.server.requests) == 1
        assert self.server.refusals == []

    def test_what_the_server_cannot_read_is_not_sent(self):
        self.make().embed(["half \ud83d"])

        assert "half \ufffd" in self.server.requests[0].body.decode()

    def test_no_request_is_over_the_servers_limits(self):
        texts = [f"{number} " + "lorem ipsum " * 2000 for number in range(30)]

        array = self.make().embed_array(texts)

        assert len(array) == 30
        assert len(self.server.requests) == 3
        assert max(len(request.body) for request in self.server.requests) < 310_000
        assert self.server.refusals == []

    def test_a_long_text_goes_alone_and_whole(self):
        self.make().embed(["short", "é" * 400_000, "short"])

        assert len(self.server.requests) == 3
        assert "é" * 400_000 in repr(self.server.requests[1].json)

    @pytest.mark.parametrize("asked", [1, 50])
    def test_dimensions_are_sent_only_if_given(self, asked: int):
        self.make().embed(ANIMALS)
        self.make(dimensions=asked).embed(ANIMALS)

        plain, told = (request.body.decode().lower() for request in self.server.requests)
        assert "dimension" not in plain
        assert "dimension" in told

    def test_dimensions_that_the_server_ignores_are_cut_here(self):
        self.server.reply(raw(self.body([[3.0, 4.0, 12.0], [0.0, 0.0, 5.0]])))

        vectors = self.make(dimensions=2).embed(["a", "b"])

        assert vectors == [pytest.approx([0.6, 0.8]), [0.0, 0.0]]

    def test_the_models_own_dimensions_are_left_at_their_length(self):
        self.server.reply(raw(self.body([[3.0, 4.0]])))

        assert self.make().embed(["a"]) == [[3.0, 4.0]]

    def test_more_dimensions_than_the_model_has_are_refused(self):
        self.server.reply(raw(self.body([[3.0, 4.0]])))

        with pytest.raises(InvalidRequestError, match=r"dimensions=3 is more than the 2"):
            self.make(dimensions=3).embed(["a"])

    @pytest.mark.parametrize(
        ("vectors", "said"),
        [
            ([[1.0, 2.0]], "1 vectors for 2 texts"),
            ([[1.0], [2.0], [3.0]], "3 vectors for 2 texts"),
            ([[1.0, math.nan], [1.0, 2.0]], "NaN"),
            ([[1.0, 2.0], [math.inf, 2.0]], "infinity"),
            ([[1.0, 2.0], [1.0]], "1 and 2 numbers"),
            ([[1.0, 2.0], ["x", None]], "not of numbers"),
            ([[[1.0, 2.0]], [[1.0, 2.0]]], "not of numbers"),
            ([1.0, 2.0], "not of numbers"),
        ],
    )
    async def test_vectors_that_are_none_are_an_error(self, vectors: Any, said: str):
        embedder = self.make()
        self.server.reply(*[raw(self.body(vectors))] * 3)

        for ask in (embedder.embed, embedder.embed_array):
            with pytest.raises(ServerError, match=said) as caught:
                ask(["a", "b"])
            self.check_error(caught.value, embedder)
        with pytest.raises(ServerError, match=said):
            await embedder.aembed(["a", "b"])
        assert len(self.server.requests) == 3

    def test_vectors_of_another_size_in_the_next_batch_are_an_error(self):
        self.server.reply(raw(self.body([[1.0, 2.0]])), raw(self.body([[1.0, 2.0, 3.0]])))

        with pytest.raises(ServerError, match="of 2 numbers, and then of 3") as caught:
            self.make(batch_size=1).embed(["a", "b"])

        assert caught.value.__notes__ == ["in texts 1 to 1 of 2"]

    @pytest.mark.parametrize(
        ("reply", "kind"),
        [
            (status(400), InvalidRequestError),
            (status(401), AuthError),
            (status(404), ModelNotFoundError),
            (status(429), RateLimitError),
            (status(500), ServerError),
            (html("<html>login</html>"), ServerError),
            (raw(b""), ServerError),
            (raw([]), ServerError),
            (raw({}), ServerError),
            (hang_up(), ProviderConnectionError),
        ],
    )
    async def test_every_failure_is_one_of_our_errors(self, reply: Any, kind: type[ProviderError]):
        embedder = self.make()
        self.server.reply(*[reply] * 2)

        with pytest.raises(kind) as caught:
            embedder.embed(ANIMALS)
        self.check_error(caught.value, embedder)
        with pytest.raises(kind) as caught:
            await embedder.aembed_array(ANIMALS)
        self.check_error(caught.value, embedder)
        assert len(self.server.requests) == 2
        assert embedder.tokens.total_calls == 0

    def check_error(self, error: ProviderError, embedder: Embedder) -> None:
        assert error.provider == self.provider
        assert error.model == embedder.model
        assert KEY not in str(error)

    async def test_a_failure_that_may_pass_is_tried_again(self):
        embedder = self.make(max_retries=2, batch_size=2)
        self.server.reply(status(429, retry_after=0), hang_up())

        vectors = await embedder.aembed(ANIMALS)

        assert vectors == self.make().embed(ANIMALS)
        assert len(self.server.requests) == 5
        assert embedder.tokens.total_calls == 2

    def test_silence_is_a_timeout(self):
        self.server.reply(raw(self.body([[1.0]])).delayed(30))

        with pytest.raises(ProviderTimeoutError):
            self.make(timeout=0.2).embed_one("a")

    def test_a_server_that_is_not_there_is_named(self):
        with refusing_port() as port:
            embedder = self.make(base_url=f"http://127.0.0.1:{port}")
            with pytest.raises(ProviderConnectionError, match=str(port)):
                embedder.embed_one("a")

    def test_a_bare_host_gets_the_usual_path(self):
        vectors = self.make(base_url=f"{self.server.url()}/").embed(ANIMALS)

        assert vectors == self.make().embed(ANIMALS)

    def test_a_bar_shows_work_that_takes_its_time(self, capsys: pytest.CaptureFixture[str]):
        embedder = self.make(batch_size=1, show_progress=True)
        embedder.embed(ANIMALS)
        assert capsys.readouterr().err == ""
        one = raw(self.body([[1.0, 2.0]]))
        self.server.reply(one.delayed(0.6), one)

        embedder.embed(["a", "b"])

        assert "2/2" in capsys.readouterr().err
