"""Build wheel and sdist, and try each extra alone in an empty environment (`make packages`).

    python scripts/try_packages.py                    # all of them, some minutes and gigabytes
    python scripts/try_packages.py openai monitor     # these
    python scripts/try_packages.py --lowest           # with the lowest versions that we claim

An environment holds the wheel, one extra and what that needs, and nothing else. There, each layer
is imported and the extra does what it promises (PROMISES); "" is the wheel without any extra.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LAYERS = "import pywrapai, pywrapai_graph, pywrapai_monitor, pywrapai.testing"
PLAIN = """
from pywrapai import LLM, get_cost
from pywrapai.testing import StubProvider, StubServer
from pywrapai_graph import Chunker, Document, GraphLLM
assert GraphLLM(LLM(StubProvider(["Hi"]))).chat("Hello").content == "Hi"
assert get_cost("gpt-4o-mini", 1_000_000, 0) > 0
assert len(Chunker(chunk_size=40, overlap=0).split(Document("One sentence. " * 9))) > 1
"""


def _asks(provider: str) -> str:
    return f"""
from pywrapai import LLM
from pywrapai.testing import StubServer
with StubServer("Hi") as server:
    llm = LLM({provider!r}, "some-model", base_url=server.url({provider!r}), api_key="k")
    assert llm.chat("Hello").content == "Hi"
"""


def _store(made: str) -> str:
    return f"""
from pywrapai_graph import *
from pywrapai_graph import Chunk
store = {made}
store.add([Chunk("a", "d", id="a", embedding=[1.0, 0.0])])
assert store.search([1.0, 0.0], k=1)[0].chunk.id == "a"
"""


_MONITOR = """
from pywrapai import LLM
from pywrapai.testing import StubProvider
from pywrapai_graph import GraphLLM
from pywrapai_monitor import Monitor, create_app
with Monitor(db_path="m.db") as monitor:
    monitor.wrap(GraphLLM(LLM(StubProvider(["Hi"]))), "alice", "s1").chat("Hello")
    pages = create_app(monitor.store).test_client()
    assert all(pages.get(p).status_code == 200 for p in ("/", "/calls", "/api/overview"))
    style = pages.get("/").text.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert pages.get(style).status_code == 200, style
"""
_STRUCTURED = """
import pydantic
from pywrapai import LLM
from pywrapai.testing import StubProvider
class City(pydantic.BaseModel):
    name: str
assert LLM(StubProvider(['{"name": "Oslo"}'])).chat_structured("?", City).name == "Oslo"
"""
_TOOLS = """
from pywrapai_graph import ToolRegistry, tool
@tool
def double(x: int) -> int:
    '''Twice as much.

    Args:
        x: how much.
    '''
    return 2 * x
registry = ToolRegistry()
registry.register(double)
assert registry.get("double").parameters["properties"]["x"]["description"] == "how much."
"""
_LOADERS = """
from pathlib import Path
from pywrapai_graph import load_documents
import docx, pypdf
Path("a.html").write_text("<p>Hello</p>")
assert load_documents("a.html")[0].text.strip() == "Hello"
"""

PROMISES = {
    "": PLAIN,
    "openai": _asks("openai"),
    "anthropic": _asks("anthropic"),
    "gemini": _asks("gemini"),
    "ollama": _asks("ollama"),
    "local": "import openai, xllamacpp",
    "redis": 'from pywrapai import RedisCache; RedisCache("redis://127.0.0.1:1/0")',
    "structured": _STRUCTURED,
    "tools": _TOOLS,
    "mcp": "import mcp; from pywrapai_graph import ToolRegistry; ToolRegistry().add_mcp",
    "rag": _store("SQLiteVectorStore('v.db')") + "import tqdm",
    "loaders": _LOADERS,
    "bm25": (
        "from pywrapai_graph import BM25Retriever, Document\nr = BM25Retriever()\n"
        "r.add_documents([Document('Error E1042: empty.')])\nassert r.retrieve('E1042', k=1)"
    ),
    "local-embeddings": (
        "from pywrapai import Embedder\nassert len(Embedder('local').embed_one('a cat')) > 10"
    ),
    "chroma": _store("ChromaVectorStore(path='c')"),
    "faiss": _store("FAISSVectorStore('i', 'm')"),
    "pgvector": "import psycopg2, numpy; from pywrapai_graph import PGVectorStore",
    "qdrant": _store("QdrantVectorStore('c', location=':memory:')"),
    "monitor": _MONITOR,
    "postgres": "import psycopg2; from pywrapai_monitor import PostgresStore, Monitor",
    "mysql": "import pymysql; from pywrapai_monitor import MySQLStore, Monitor",
    "otel": "import opentelemetry.trace; from pywrapai_monitor import Tracing",
}


def uv(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run uv, quietly. CalledProcessError if it fails."""
    command = [sys.executable, "-m", "uv", *words]
    return subprocess.run(command, check=True, text=True, capture_output=True, **options)  # type: ignore[call-overload,no-any-return]


def built(folder: Path) -> Path:
    """The wheel that is made of the sdist that is made of the tree."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    return wheel


def direct(extra: str) -> list[str]:
    """What an extra asks for, to be asked for by name: only then uv takes the lowest of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["optional-dependencies"].get(extra, ()))


def tried(wheel: Path, extra: str, folder: Path, lowest: bool) -> str | None:
    """What went wrong with an extra, or None."""
    python = folder / "env" / "bin" / "python"
    asked = f"pywrapai[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    how = ("--resolution", "lowest-direct", *direct(extra)) if lowest else ()
    try:
        uv("venv", "--quiet", "--python", sys.executable, str(folder / "env"))
        uv("pip", "install", "--quiet", "--python", str(python), *how, asked)
        for code in (LAYERS, PROMISES[extra]):
            command = [str(python), "-c", code]
            subprocess.run(command, cwd=folder, check=True, text=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        return "\n".join(f"{error.stderr or error.stdout}".strip().splitlines()[-12:])
    return None


def main(arguments: Sequence[str]) -> int:
    """Try them; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("extras", nargs="*", help="by default all, and none")
    parser.add_argument("--lowest", action="store_true", help="take the lowest versions claimed")
    options = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        wheel = built(Path(temporary))
        for extra in options.extras or PROMISES:
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                wrong = tried(wheel, extra, Path(folder), options.lowest)
            failed += wrong is not None
            said = "ok" if wrong is None else f"FAILED\n{wrong}"
            print(f"{extra or 'no extra':18} {time.perf_counter() - started:6.1f} s  {said}")
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
