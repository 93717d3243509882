"""How long the JSON Schemas of 20 typed functions take in a fresh process, beside other libraries.

Run: python -m benchmarks.tool_schemas [--rounds 15]

Each round starts a process for each library, so that nothing is kept from the last one. The clock
starts when the library is imported and Pydantic has made its first model, as any provider's SDK
has it do. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

GOAL_MS = 25.0
FUNCTIONS = 20
NOT_INSTALLED = 77

SOURCE = '''
def tool_{number:02}(x: int, label: str, ratio: float = 0.5, tags: list[str] | None = None) -> str:
    """Do thing number {number} with the given arguments and return text.

    Args:
        x: how many
        label: a label
        ratio: a ratio
        tags: tags
    """
    return f"result {number}: {{x}}{{label}}"
'''

Function = Callable[..., str]
Schemas = list[dict[str, Any]]


def functions() -> list[Function]:
    """New ones each time, as a program that has just started has them."""
    made: list[Function] = []
    for number in range(FUNCTIONS):
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(SOURCE.format(number=number), namespace)
        made.append(namespace[f"tool_{number:02}"])
    return made


def pywrapai() -> Callable[[list[Function]], Schemas]:
    import docstring_parser  # noqa: F401  # installed at all? it is imported anew below

    from pywrapai_graph import ToolRegistry, tool

    for name in [n for n in sys.modules if n.startswith("docstring_parser")]:
        del sys.modules[name]

    def schemas(given: list[Function]) -> Schemas:
        registry = ToolRegistry()
        for function in given:
            registry.register(tool(function))
        return [schema["parameters"] for schema in registry.to_schema()]

    return schemas


def langchain() -> Callable[[list[Function]], Schemas]:
    from langchain_core.tools import tool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    def schemas(given: list[Function]) -> Schemas:
        made = [convert_to_openai_tool(tool(f, parse_docstring=True)) for f in given]
        return [schema["function"]["parameters"] for schema in made]

    return schemas


def pydantic_ai() -> Callable[[list[Function]], Schemas]:
    from pydantic_ai import Tool

    return lambda given: [Tool(f).tool_def.parameters_json_schema for f in given]


def openai_agents() -> Callable[[list[Function]], Schemas]:
    from agents import function_tool

    return lambda given: [function_tool(f).params_json_schema for f in given]


LIBRARIES = (pywrapai, langchain, pydantic_ai, openai_agents)


def measure(library: str) -> dict[str, float]:
    """One library in this process: milliseconds for the first 20 schemas and for 20 more."""
    schemas = globals()[library]()
    from pydantic import BaseModel

    class First(BaseModel):
        number: int

    First.model_json_schema()
    times = []
    for given in (functions(), functions()):
        started = perf_counter()
        found = schemas(given)
        times.append((perf_counter() - started) * 1000)
        _check(found)
    return {"first": times[0], "second": times[1]}


def _check(schemas: Schemas) -> None:
    assert len(schemas) == FUNCTIONS
    for schema in schemas:
        assert schema["properties"]["x"]["description"] == "how many"
        assert {"x", "label"} <= set(schema["required"])


def _in_a_process(library: str) -> dict[str, float] | None:
    """None if it is not installed here."""
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.tool_schemas", "--only", library],
        stdout=subprocess.PIPE,
        text=True,
    )
    if ended.returncode == NOT_INSTALLED:
        return None
    ended.check_returncode()
    times: dict[str, float] = json.loads(ended.stdout)
    return times


def main() -> int:
    """Print the table; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=[library.__name__ for library in LIBRARIES])
    options = parser.parse_args()
    if options.only:
        try:
            print(json.dumps(measure(options.only)))
        except ImportError:
            return NOT_INSTALLED
        return 0
    return _report(options.rounds)


def _report(rounds: int) -> int:
    names = [library.__name__ for library in LIBRARIES]
    found = {name: [first] for name in names if (first := _in_a_process(name))}
    for _ in range(rounds - 1):
        for name, times in found.items():
            times.append(_in_a_process(name) or {})
    firsts = {name: median(t["first"] for t in times) for name, times in found.items()}
    ours = firsts.get("pywrapai")
    print(f"{FUNCTIONS} tool schemas    first ms  {FUNCTIONS} more ms  ours / theirs")
    for name in names:
        if name not in firsts:
            print(f"{name:16}   not installed")
            continue
        again = median(t["second"] for t in found[name])
        ratio = f"{ours / firsts[name]:13.2f}" if ours else ""
        print(f"{name:16} {firsts[name]:9.1f} {again:11.1f}  {ratio}")
    return int(ours is not None and ours > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
