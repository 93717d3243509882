"""Workflows from the shell: `python -m pywrapai_graph.workflows triage ... < request.json`.

The result is JSON on standard output. An error is one line of JSON on standard error.

Exit codes:
  0    the output is validated; or every field of the evaluation reached the threshold
  1    the model could not be asked, or a file could not be read
  2    the command line, the request or a label is wrong
  3    the result needs human review; it is on standard output all the same
  4    a field of the evaluation is below the threshold
  130  interrupted
"""

from __future__ import annotations

import argparse
import codecs
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from pywrapai import LLM, ConfigurationError, PyWrapAIError
from pywrapai.lmstudio import LLMClient, LMStudioClient
from pywrapai.providers.lmstudio import DEFAULT_URL
from pywrapai_graph.rag import BaseRetriever, Chunker, VectorRetriever, load_documents
from pywrapai_graph.workflows import rag_answer, shift_summary, triage
from pywrapai_graph.workflows.evaluation import evaluate, faults_in_line, read_labelled
from pywrapai_graph.workflows.types import Actor, Client, WorkflowResult

OK, FAILED, WRONG, REVIEW, BELOW, INTERRUPTED = 0, 1, 2, 3, 4, 130
_LM_STUDIO = "lmstudio"


@dataclass(frozen=True, slots=True)
class _Module:
    request: type[BaseModel]
    output: type[BaseModel]
    run: Callable[..., WorkflowResult[Any]]
    help: str


MODULES = {
    "triage": _Module(triage.TriageRequest, triage.TriageOutput, triage.run, "triage a complaint"),
    "rag_answer": _Module(
        rag_answer.RAGRequest, rag_answer.RAGOutput, rag_answer.run, "answer from a corpus"
    ),
    "shift_summary": _Module(
        shift_summary.ShiftNote, shift_summary.ShiftSummary, shift_summary.run, "summarise a shift"
    ),
}


class _Failure(Exception):
    """Ends the command with a code and a line on standard error."""

    def __init__(self, code: int, error: str, message: str) -> None:
        super().__init__(message)
        self.code, self.error = code, error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _tell("usage", message)
        raise SystemExit(WRONG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the module's docstring has the exit codes."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except _Failure as failure:
        _tell(failure.error, str(failure))
        return failure.code
    except (PyWrapAIError, OSError) as error:
        _tell(type(error).__name__, str(error))
        return WRONG if type(error) is ConfigurationError else FAILED
    except ValueError as error:
        _tell("ValueError", str(error))
        return WRONG
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    module = MODULES[arguments.module]
    try:
        actor = Actor(user_id=arguments.user, tenant_id=arguments.tenant, role=arguments.role)
        request = module.request.model_validate_json(_given())
    except ValidationError as error:
        raise _Failure(WRONG, "request", faults_in_line(error)) from None
    options = _options(arguments, module)
    request_id = str(uuid4()) if arguments.request_id is None else arguments.request_id
    with _client(arguments) as client:
        result = module.run(request, actor=actor, request_id=request_id, client=client, **options)
    _print(result.model_dump_json(indent=2))
    return OK if result.validated else REVIEW


def _given() -> bytes:
    """What is on standard input, without the mark that some shells put before UTF-8."""
    given: bytes = sys.stdin.buffer.read() if sys.stdin else b""
    return given.removeprefix(codecs.BOM_UTF8)


def _evaluate(arguments: argparse.Namespace) -> int:
    module = MODULES[arguments.module]
    text = Path(arguments.labelled).read_text(encoding="utf-8-sig")
    cases = list(read_labelled(text.split("\n"), module.request, module.output))
    actor = Actor(user_id=arguments.user, tenant_id=arguments.tenant, role=arguments.role)
    options = _options(arguments, module)
    with _client(arguments) as client:
        asked = partial(_answer, module, actor=actor, client=client, **options)
        report = evaluate(asked, cases)
    _print(str(report))
    if report.passes(arguments.threshold):
        return OK
    low = [name for name, share in report.accuracy.items() if share < arguments.threshold]
    raise _Failure(BELOW, "threshold", f"below {arguments.threshold:g}: {', '.join(low)}")


def _answer(
    module: _Module, request: BaseModel, *, actor: Actor, client: Client, **options: Any
) -> WorkflowResult[Any]:
    return module.run(request, actor=actor, request_id=str(uuid4()), client=client, **options)


def _client(arguments: argparse.Namespace) -> LLMClient:
    if arguments.provider == _LM_STUDIO:
        url = arguments.base_url or DEFAULT_URL
        return LMStudioClient(url, timeout_s=arguments.timeout, model=arguments.model)
    given = {"base_url": arguments.base_url, "timeout": arguments.timeout}
    return LLMClient(LLM(arguments.provider, arguments.model, **given))


def _options(arguments: argparse.Namespace, module: _Module) -> dict[str, Any]:
    """What the module takes beside its request."""
    if module.run is not rag_answer.run:
        return {}
    paths: dict[str, str] = {}
    for given in arguments.corpus:
        name, _, path = given.partition("=")
        if not (name and path):
            raise _Failure(WRONG, "usage", f"--corpus is {given!r}; expected ID=PATH")
        if name in paths:
            raise _Failure(WRONG, "usage", f"--corpus {name} is given twice; it is one path")
        paths[name] = path
    return {"retrievers": {name: _corpus(path) for name, path in paths.items()}}


def _corpus(path: str) -> BaseRetriever:
    from pywrapai.embedder import Embedder
    from pywrapai_graph.rag.store import InMemoryVectorStore

    retriever = VectorRetriever(Embedder("local"), InMemoryVectorStore())
    retriever.add_documents(load_documents(path), Chunker(), show_progress=False)
    return retriever


def _tell(error: str, message: str) -> None:
    print(json.dumps({"error": error, "message": message}), file=sys.stderr)


def _print(text: str) -> None:
    if sys.stdout is None:
        raise OSError("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as JSON is, whatever the terminal speaks
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m pywrapai_graph.workflows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="NAME")
    for name, module in MODULES.items():
        told_so = f"{module.help}; the request is JSON on standard input"
        command = commands.add_parser(name, help=module.help, description=told_so)
        command.set_defaults(command=_run, module=name)
        _add_actor(command, required=True)
        _add_model(command, needs_corpus=name == "rag_answer")
        command.add_argument("--request-id", help="for the audit log; default: a new one")
    command = commands.add_parser(
        "evaluate", help="compare with labels", description="compare with labels"
    )
    command.set_defaults(command=_evaluate)
    command.add_argument("module", choices=MODULES, metavar="NAME", help=", ".join(MODULES))
    command.add_argument(
        "labelled", help='a file with {"request": {...}, "expected": {...}} on each line'
    )
    command.add_argument(
        "--threshold",
        type=_share,
        default=0.8,
        help="the share of labels that each field must meet; default: 0.8",
    )
    _add_actor(command, required=False)
    _add_model(command, needs_corpus=True)
    return parser


def _add_actor(command: argparse.ArgumentParser, *, required: bool) -> None:
    default = None if required else "evaluation"
    command.add_argument("--user", required=required, default=default, help="who asks")
    command.add_argument("--tenant", required=required, default=default, help="whose data it is")
    command.add_argument("--role", default="operator", help="default: operator")


def _add_model(command: argparse.ArgumentParser, *, needs_corpus: bool) -> None:
    command.add_argument("--provider", default=_LM_STUDIO, help="default: lmstudio; or local, ...")
    command.add_argument(
        "--base-url", type=_url, help=f"where it is; default for LM Studio: {DEFAULT_URL}"
    )
    command.add_argument("--model", help="default: the one that is loaded, or the provider's own")
    command.add_argument("--timeout", type=float, default=60.0, help="seconds; default: 60")
    if needs_corpus:
        command.add_argument(
            "--corpus",
            action="append",
            default=[],
            metavar="ID=PATH",
            help="documents to answer from, a file or a folder; once for each ID",
        )


def _url(text: str) -> str:
    if not text.strip():  # as a variable that is not set; the default would be somebody else
        raise argparse.ArgumentTypeError("it is empty")
    return text


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return share


if __name__ == "__main__":
    sys.exit(main())
