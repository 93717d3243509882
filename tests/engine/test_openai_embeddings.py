from __future__ import annotations

import base64
import math
import struct
from typing import Any

import numpy as np
import pytest

from pywrapai import (
    Embedder,
    InvalidRequestError,
    ServerError,
)
from pywrapai.embedder import estimated_tokens
from pywrapai.providers.openai_embeddings import embeddings_from_wire, embeddings_to_wire
from pywrapai.testing.wires import raw, status
from tests.contracts.embedder import KEY


def reply(vectors: list[Any], **more: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    return {"object": "list", "model": "m", "data": data, **more}


def encoded(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def test_a_request_asks_for_base64_and_for_nothing_that_was_not_given():
    assert embeddings_to_wire("m", ("a", "b"), dimensions=None, base64=True) == {
        "model": "m",
        "input": ["a", "b"],
        "encoding_format": "base64",
    }
    assert embeddings_to_wire("", ["a"], dimensions=8, base64=False) == {
        "input": ["a"],
        "dimensions": 8,
    }


def test_base64_and_numbers_are_the_same_vectors():
    numbers = [[0.5, -1.25, 3.0], [1.0, 0.0, -0.0]]

    from_numbers = embeddings_from_wire(reply(numbers)).vectors
    from_base64 = embeddings_from_wire(reply([encoded(*row) for row in numbers])).vectors

    assert isinstance(from_base64, np.ndarray)
    assert from_base64.dtype == np.float32
    np.testing.assert_array_equal(from_base64, from_numbers)


def test_vectors_in_any_order_are_put_in_the_order_of_the_texts():
    body = reply([[0.0], [1.0], [2.0]])
    body["data"] = [body["data"][at] for at in (2, 0, 1)]

    assert embeddings_from_wire(body).vectors == [[0.0], [1.0], [2.0]]


def test_vectors_without_an_index_are_in_the_order_of_the_texts():
    body = {"data": [{"embedding": [0.0]}, {"embedding": [1.0]}]}

    assert embeddings_from_wire(body).vectors == [[0.0], [1.0]]


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}],
        [{"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [2.0]}],
        [{"index": "0", "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0}],
        [None],
        [{"index": 0, "embedding": "not base64!"}],
        [{"index": 0, "embedding": base64.b64encode(b"12345").decode()}],
        [{"embedding": encoded(1.0)}, {"embedding": encoded(1.0, 2.0)}],
    ],
)
def test_data_that_is_not_what_the_api_promises_is_a_server_error(data):
    with pytest.raises(ServerError, match="not what the API promises"):
        embeddings_from_wire({"data": data})


@pytest.mark.parametrize("numbers", [(math.nan, 1.0), (1.0, math.inf)])
def test_nan_in_base64_is_found_too(server, numbers):
    server.reply(raw(reply([encoded(*numbers)])))
    embedder = Embedder("openai", api_key=KEY, base_url=server.url("openai"), max_retries=0)

    with pytest.raises(ServerError, match="NaN or infinity"):
        embedder.embed_array(["a"])


def test_an_error_object_with_status_200_is_that_error(server):
    server.reply(raw({"error": {"message": "no such model", "code": "model_not_found"}}))

    with pytest.raises(Exception, match="no such model") as caught:
        Embedder("openai", api_key=KEY, base_url=server.url("openai"), max_retries=0).embed(["a"])
    assert type(caught.value).__name__ == "ModelNotFoundError"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 7, "total_tokens": 7}, 7),
        ({"prompt_tokens": 0}, 3),  # LM Studio
        ({"prompt_tokens": None}, 3),
        (None, 3),
    ],
)
def test_tokens_are_the_servers_count_or_four_characters_each(server, usage, counted):
    server.reply(raw(reply([[1.0], [1.0]], usage=usage)))
    embedder = Embedder("openai", api_key=KEY, base_url=server.url("openai"))

    embedder.embed(["five5", "six666"])

    assert embedder.tokens.total_input_tokens == counted


def test_estimates_are_rounded_up():
    assert [estimated_tokens(["x" * length]) for length in (1, 4, 5, 8)] == [1, 1, 2, 2]


def test_the_cost_is_that_of_the_model_that_answered(server):
    usage = {"prompt_tokens": 1_000_000, "total_tokens": 1_000_000}
    server.reply(raw(reply([[1.0]], usage=usage) | {"model": "text-embedding-3-large"}))
    embedder = Embedder("openai", api_key=KEY, base_url=server.url("openai"))

    embedder.embed_one("a")

    assert embedder.tokens.total_cost == pytest.approx(0.13)
    assert list(embedder.tokens.by_model()) == ["text-embedding-3-large"]


def test_a_server_that_has_never_heard_of_base64_is_asked_without_it_from_then_on(server):
    server.reply(status(400, "Unknown parameter: encoding_format"))
    embedder = Embedder("openai", api_key=KEY, base_url=server.url("openai"), max_retries=0)

    first, second = embedder.embed(["a"]), embedder.embed(["a"])

    assert first == second
    assert ["encoding_format" in r.json for r in server.requests] == [True, False, False]
    assert embedder.tokens.total_calls == 2


def test_another_complaint_is_not_taken_for_that_one(server):
    server.reply(status(400, "input is too odd"))
    embedder = Embedder("openai", api_key=KEY, base_url=server.url("openai"))

    with pytest.raises(InvalidRequestError, match="too odd"):
        embedder.embed(["a"])
    assert len(server.requests) == 1


def test_texts_are_sent_as_texts(server):
    Embedder("openai", api_key=KEY, base_url=server.url("openai")).embed(["one", "two"])

    assert server.requests[0].json["input"] == ["one", "two"]
    assert server.requests[0].json["model"] == "text-embedding-3-small"
