"""Static embeddings in this process: WordLlama's, whose weights ship in its package.

The two files are read here and not by `import wordllama`, which sets up the root logger and would
look for them online. The vectors are the package's own, to the last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow, blocking
from pywrapai.core.vectors import normalised
from pywrapai.exceptions import ConfigurationError, MissingDependencyError
from pywrapai.providers.embedding import EmbeddingReply

if TYPE_CHECKING:
    from pywrapai.core.vectors import Array

MODEL = "wordllama-l2-supercat-256"
_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_TOKENS_AT_ONCE = 4096  # bounds the memory that a text of a million tokens takes


class WordLlamaProvider:
    """256 dimensions, English. No key, no network; fast enough for ten thousand texts a second."""

    name = "local"
    default_embedding_model: ClassVar[str] = MODEL
    max_texts: ClassVar[int] = 1000

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if model not in (None, MODEL):
            raise ConfigurationError(
                f"provider 'local' embeds with {MODEL!r} alone, not {model!r}: leave model= out, "
                "or use provider='ollama' or 'lmstudio' for another local model"
            )
        if base_url is not None:
            raise ConfigurationError(
                "provider 'local' embeds in this process and takes no base_url; for a server that "
                "runs already, use provider='openai' with its base_url"
            )
        self.model = MODEL

    def embed_flow(
        self, texts: Sequence[str], *, dimensions: int | None, timeout: float
    ) -> Flow[EmbeddingReply]:
        """All texts at once; async callers get a thread. `dimensions` is left to the caller."""
        return blocking(embedded, texts)

    def close(self) -> None:
        """Nothing is held open; the weights stay for the next Embedder."""


def embedded(texts: Sequence[str]) -> EmbeddingReply:
    """The mean of each text's token vectors, at length 1, and the exact count of tokens."""
    with needs("local-embeddings"):
        import numpy as np

    model = _model()
    encoded = model.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    vectors = np.zeros((len(texts), model.table.shape[1]), dtype=np.float32)
    for row, tokens in zip(vectors, encoded, strict=True):
        ids = np.asarray(tokens.ids, dtype=np.intp)
        for at in range(0, len(ids), _TOKENS_AT_ONCE):
            row += model.table[ids[at : at + _TOKENS_AT_ONCE]].sum(axis=0)
    return EmbeddingReply(normalised(vectors), sum(map(len, encoded)), MODEL)


class _Model(NamedTuple):
    tokenizer: Any
    table: Array
    """A row for each token."""


@cache
def _model() -> _Model:
    with needs("local-embeddings"):
        import numpy as np
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

    home = _home()
    missing = [str(file) for file in (_WEIGHTS, _TOKENIZER) if not (home / file).is_file()]
    if missing:
        raise ConfigurationError(
            f"the installed wordllama has no {' and no '.join(missing)} in {str(home)!r}: "
            'pip install "wordllama>=0.4,<0.5"'
        )
    table = load_file(home / _WEIGHTS)["embedding.weight"].astype(np.float32)
    return _Model(Tokenizer.from_file(str(home / _TOKENIZER)), table)


def _home() -> Path:
    package = find_spec("wordllama")
    if package is None or package.origin is None:
        raise MissingDependencyError(
            'wordllama is not installed: pip install "pywrapai[local-embeddings]"'
        )
    return Path(package.origin).parent
