from __future__ import annotations

import inspect
import logging
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from pywrapai import (
    AuthError,
    ConfigurationError,
    Embedder,
    InvalidRequestError,
    LMStudioUnreachable,
    ServerError,
)
from pywrapai.core.vectors import checked_vectors, shortened
from pywrapai.providers import PROVIDERS, Compatible
from pywrapai.providers.openai import OpenAIProvider
from pywrapai.providers.wordllama import WordLlamaProvider
from pywrapai.testing import StubEmbedder
from pywrapai.testing.server import StubServer, refusing_port
from tests.contracts.embedder import ANIMALS, KEY, EmbedderContract, HTTPEmbedderContract


def reply(vectors: list[Any], **more: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    return {"object": "list", "model": "m", "data": data, **more}


class TestOpenAI(HTTPEmbedderContract):
    provider, wire = "openai", "openai"

    def body(self, vectors: list[Any]) -> Any:
        return reply(vectors)


class TestLMStudio(HTTPEmbedderContract):
    provider, wire = "lmstudio", "openai"

    def body(self, vectors: list[Any]) -> Any:
        return reply(vectors)

    def test_the_server_that_is_not_there_is_lm_studios(self):
        with refusing_port() as port, pytest.raises(LMStudioUnreachable):
            self.make(base_url=f"http://127.0.0.1:{port}").embed_one("a")

    def test_it_needs_no_key_and_costs_nothing(self):
        with StubServer(require_key=False) as server:
            embedder = Embedder("lmstudio", base_url=server.url("openai"))
            embedder.embed(ANIMALS)

        assert embedder.tokens.total_cost == 0
        assert embedder.tokens.unpriced_calls == 0
        assert embedder.model == "text-embedding-nomic-embed-text-v1.5"


class TestGemini(HTTPEmbedderContract):
    provider, wire = "gemini", "gemini"

    def body(self, vectors: list[Any]) -> Any:
        return {"embeddings": [{"values": vector} for vector in vectors]}

    def test_a_thousand_texts_go_a_hundred_at_a_time(self):
        self.make(batch_size=1000).embed([f"text {number}" for number in range(250)])

        assert len(self.server.requests) == 3


class TestOllama(HTTPEmbedderContract):
    provider, wire = "ollama", "ollama"

    def body(self, vectors: list[Any]) -> Any:
        return {"model": "m", "embeddings": vectors}


class TestLocal(EmbedderContract):
    provider = "local"

    def make(self, **settings: Any) -> Embedder:
        return Embedder("local", **settings)

    def test_the_vectors_are_those_of_the_package_itself(self):
        code = """
import logging
from pathlib import Path
import numpy as np
import wordllama
from pywrapai import Embedder
texts = ["What is the capital of France?", "Ein Hund 🐶", "word " * 9000, "a"]
home = Path(wordllama.__file__).parent
model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
theirs = np.concatenate([model.embed([text], norm=True) for text in texts])
np.testing.assert_allclose(Embedder("local").embed_array(texts), theirs, atol=1e-5)
"""
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_a_question_finds_its_answer(self):
        asked, *lines = self.make().embed_array(
            [
                "What is the capital of France?",
                "Paris is the capital of France.",
                "The violin has four strings.",
                "Photosynthesis happens in leaves.",
            ]
        )

        found, *others = [float(asked @ line) for line in lines]
        assert found > 0.8
        assert max(others) < 0.2

    def test_it_gives_256_numbers_of_length_1_for_nothing(self):
        embedder = self.make()

        array = embedder.embed_array(ANIMALS)

        assert array.shape == (3, 256)
        np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1, atol=1e-6)
        assert embedder.tokens.total_cost == 0
        assert embedder.tokens.unpriced_calls == 0
        assert embedder.tokens.total_input_tokens > len(" ".join(ANIMALS).split())

    def test_a_text_of_a_million_tokens_is_only_long(self):
        array = self.make().embed_array(["cat " * 1_000_000, "cat cat cat"])

        assert float(array[0] @ array[1]) > 0.99

    def test_the_loggers_of_the_program_are_left_alone(self):
        code = """
import logging
from pywrapai import Embedder
Embedder("local").embed_one("hello")
assert logging.root.handlers == [] and logging.root.level == logging.WARNING
"""
        subprocess.run([sys.executable, "-c", code], check=True)
        assert logging.root.level == logging.WARNING

    def test_more_dimensions_than_it_has_are_refused(self):
        with pytest.raises(InvalidRequestError, match="256"):
            self.make(dimensions=512).embed_one("a")

    def test_another_model_or_a_server_is_refused(self):
        with pytest.raises(ConfigurationError, match="wordllama"):
            Embedder("local", "nomic-embed-text")
        with pytest.raises(ConfigurationError, match="base_url"):
            Embedder("local", base_url="http://localhost:1")


class TestStub(EmbedderContract):
    provider = "stub"

    def make(self, **settings: Any) -> Embedder:
        dimension = settings.pop("dimensions", None) or 64
        return StubEmbedder(dimension, **settings)

    def test_it_says_what_it_is_without_its_key(self):
        assert repr(self.make()) == "StubEmbedder(provider='stub', model='stub-embedding')"

    def test_no_texts_are_no_request(self):
        embedder = StubEmbedder(8)

        assert embedder.embed([]) == []
        assert embedder.embed_array([]).shape == (0, 8)
        assert embedder.requests == []

    def test_fewer_dimensions_are_unit_vectors_again(self):
        array = StubEmbedder(8).embed_array(ANIMALS)

        assert array.shape == (3, 8)
        np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1, atol=1e-6)

    def test_it_keeps_what_it_was_asked(self):
        embedder = StubEmbedder(batch_size=2)

        embedder.embed(["one", "two", "", "three four"])
        embedder.requests.clear()

        assert embedder.requests == [["one", "two"], ["three four"]]
        assert embedder.tokens.total_input_tokens == 4
        assert embedder.tokens.total_cost == 0

    def test_case_and_punctuation_do_not_matter(self):
        embedder = StubEmbedder()

        assert embedder.embed_one("Paris, France!") == embedder.embed_one("paris france")


# What Embedder is given


def test_a_missing_key_names_its_variable(server):
    with pytest.raises(AuthError, match="OPENAI_API_KEY"):
        Embedder("openai", base_url=server.url("openai")).embed_one("a")
    assert server.requests == []


@pytest.mark.parametrize("name", ["anthropic", "no-such-name"])
def test_a_name_without_embeddings_is_told_the_known_ones(name):
    with pytest.raises(ValueError, match="gemini, lmstudio, local, ollama, openai"):
        Embedder(name)


def test_a_compatible_server_embeds_with_its_rows_model_or_the_one_given(server, monkeypatch):
    url = server.url("openai")
    with_model = Compatible(url, default_embedding_model="small")
    monkeypatch.setitem(PROVIDERS, "row-with", with_model)
    monkeypatch.setitem(PROVIDERS, "row-without", Compatible(url))

    Embedder("row-with").embed_one("a")
    Embedder("row-without", "large").embed_one("a")

    assert [request.json["model"] for request in server.requests] == ["small", "large"]
    with pytest.raises(ValueError, match="give model="):
        Embedder("row-without")


def test_a_provider_that_is_made_already_may_be_given(server):
    made = OpenAIProvider("text-embedding-3-large", api_key=KEY, base_url=server.url("openai"))

    embedder = Embedder(made)

    assert embedder.model == "text-embedding-3-large"
    assert len(embedder.embed(ANIMALS)) == 3
    assert Embedder(WordLlamaProvider()).embed_array(["a"]).shape == (1, 256)


def test_the_settings_of_a_made_provider_cannot_be_given_again():
    with pytest.raises(ValueError, match=r"give them to WordLlamaProvider"):
        Embedder(WordLlamaProvider(), "other")


def test_what_cannot_embed_is_no_provider():
    with pytest.raises(TypeError, match="EmbeddingProvider"):
        Embedder(object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 0},
        {"batch_size": 2.5},
        {"batch_size": True},
        {"dimensions": 0},
        {"dimensions": "8"},
        {"timeout": 0},
        {"timeout": math.nan},
        {"timeout": None},
        {"max_retries": -1},
    ],
)
def test_wrong_settings_are_named_at_once(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Embedder("openai", api_key=KEY, **settings)


def test_the_providers_limit_caps_the_batch():
    embedder = Embedder("local", batch_size=1_000_000)

    embedder.embed_array([f"text {number}" for number in range(1001)])

    assert embedder.tokens.total_calls == 2


@pytest.mark.parametrize("name", ["embed", "embed_one", "embed_array"])
@pytest.mark.parametrize("cls", [Embedder, StubEmbedder])
def test_twins_take_and_give_the_same(cls, name):
    sync, twin = (inspect.signature(getattr(cls, prefix + name)) for prefix in ("", "a"))

    assert sync == twin


# Arithmetic


def test_lists_and_arrays_are_cut_alike():
    rows = [[3.0, 4.0, 1.0], [0.0, 0.0, 9.0]]

    lists = shortened(rows, 2)
    array = shortened(np.asarray(rows, dtype=np.float32), 2)

    assert lists == [[0.6, 0.8], [0.0, 0.0]]
    np.testing.assert_allclose(array, lists, atol=1e-7)


@pytest.mark.parametrize("make", [list, lambda rows: np.asarray(rows, dtype=np.float32)])
def test_vectors_of_no_numbers_are_an_error(make):
    with pytest.raises(ServerError, match="0 numbers"):
        checked_vectors(make([[], []]), 2)


# Without packages


def run_without(packages: tuple[str, ...], code: str) -> str:
    head = f"import sys\nfor name in {packages!r}: sys.modules[name] = None\n"
    ended = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True)
    assert ended.stderr == ""
    return ended.stdout


def test_without_numpy_lists_still_work_and_arrays_name_the_extra(server):
    out = run_without(
        ("numpy",),
        f"""
from pywrapai import Embedder, MissingDependencyError
embedder = Embedder("openai", api_key="k", base_url={server.url("openai")!r}, dimensions=4)
print(len(embedder.embed_one("hello")), embedder.embed([""]))
try:
    embedder.embed_array(["hello"])
except MissingDependencyError as error:
    print(error)
""",
    )

    assert out.splitlines() == [
        "4 [[0.0, 0.0, 0.0, 0.0]]",
        'numpy is not installed: pip install "pywrapai[rag]"',
    ]
    assert len(server.requests) == 2
    assert all(request.json["encoding_format"] == "base64" for request in server.requests)


ASK_LOCAL = """
from pywrapai import ConfigurationError, Embedder
try:
    Embedder("local").embed_one("hello")
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["wordllama", "tokenizers", "safetensors"])
def test_without_wordllama_its_extra_is_named(package):
    out = run_without((package,), ASK_LOCAL)

    told = 'is not installed: pip install "pywrapai[local-embeddings]"\n'
    assert out.startswith(package)
    assert out.endswith(told)


def test_a_wordllama_without_its_files_is_told_by_their_names(tmp_path):
    (tmp_path / "wordllama.py").touch()

    out = run_without((), f"sys.path.insert(0, {str(tmp_path)!r}){ASK_LOCAL}")

    assert "l2_supercat_256.safetensors" in out
    assert "wordllama>=0.4" in out


def test_without_tqdm_its_extra_is_named_before_anything_is_spent(server):
    out = run_without(
        ("tqdm",),
        f"""
from pywrapai import Embedder, MissingDependencyError
url = {server.url("openai")!r}
embedder = Embedder("openai", api_key="k", base_url=url, show_progress=True, batch_size=1)
try:
    embedder.embed(["a", "b"])
except MissingDependencyError as error:
    print(error)
""",
    )

    assert out == 'tqdm is not installed: pip install "pywrapai[rag]"\n'
    assert server.requests == []
