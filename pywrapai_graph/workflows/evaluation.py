"""How often a workflow is right: over labelled requests, field by field, with what it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from pywrapai import TokenUsage
from pywrapai.core.structured import faults_in
from pywrapai_graph.workflows.containment import normalised
from pywrapai_graph.workflows.types import WorkflowResult

In = TypeVar("In", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Labelled(Generic[In]):
    """A request, and what some or all fields of its output should be."""

    request: In
    expected: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """What came of an evaluation. A request that went to human review has no field right."""

    requests: int
    accuracy: Mapping[str, float]
    """Per field, the share of its labels that were met."""
    review_rate: float
    """The share of requests that went to human review."""
    retry_rate: float
    """The share of requests for which the model was asked twice."""
    latency_p50_ms: float
    latency_p95_ms: float
    usage: TokenUsage
    """Of all requests together."""
    cost_usd: float | None
    """The same; None where that of one is not known."""

    def passes(self, threshold: float) -> bool:
        """Whether every field is right at least that often."""
        return all(share >= threshold for share in self.accuracy.values())

    def __str__(self) -> str:
        width = max(map(len, self.accuracy))
        cost = "unknown" if self.cost_usd is None else f"${self.cost_usd:.6f}"
        lines = [
            f"requests       {self.requests}",
            *(f"  {name:<{width}}  {share:.1%}" for name, share in self.accuracy.items()),
            f"human review   {self.review_rate:.1%}",
            f"asked twice    {self.retry_rate:.1%}",
            f"latency        p50 {self.latency_p50_ms:.0f} ms, p95 {self.latency_p95_ms:.0f} ms",
            f"tokens         {self.usage.input_tokens} in, {self.usage.output_tokens} out",
            f"cost           {cost}",
        ]
        return "\n".join(lines)


def evaluate(
    run: Callable[[In], WorkflowResult[Any]], labelled: Iterable[Labelled[In]]
) -> EvaluationReport:
    """Run every request, one after another, and compare.

    Texts are equal when they are so without case, white space and Unicode's variants; an object is
    right when all that its label names is right, a list when it has as many items, all right.

    Raises ValueError if there is nothing to compare with; and what `run` raises.
    """
    labelled = list(labelled)
    if not any(case.expected for case in labelled):
        raise ValueError("there is no labelled request to compare with")
    cases = [(case, run(case.request)) for case in labelled]
    verdicts = [
        (name, _is_right(wanted, result, name))
        for case, result in cases
        for name, wanted in case.expected.items()
    ]
    metas = [result.meta for _, result in cases]
    p50, p95 = _percentiles([meta.latency_ms for meta in metas])
    costs = [meta.cost_usd for meta in metas]
    return EvaluationReport(
        requests=len(cases),
        accuracy={
            name: _share(right for each, right in verdicts if each == name)
            for name in dict.fromkeys(name for name, _ in verdicts)
        },
        review_rate=_share(not result.validated for _, result in cases),
        retry_rate=_share(meta.attempts > 1 for meta in metas),
        latency_p50_ms=p50,
        latency_p95_ms=p95,
        usage=sum((meta.usage for meta in metas), TokenUsage()),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost),
    )


def read_labelled(
    lines: Iterable[str], request: type[In], output: type[BaseModel]
) -> Iterator[Labelled[In]]:
    """What the lines of a JSONL file hold: `{"request": {...}, "expected": {...}}`.

    ValueError that names the line, for one that is none or expects a field that there is not.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            made = Labelled(request.model_validate(case["request"]), dict(case["expected"]))
        except ValidationError as error:
            raise ValueError(f"line {number}: {faults_in_line(error)}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f'line {number} is not {{"request": {{...}}, "expected": {{...}}}}: {error!r}'
            ) from None
        if unknown := made.expected.keys() - output.model_fields.keys():
            raise ValueError(
                f"line {number} expects {', '.join(sorted(unknown))}; known are "
                f"{', '.join(output.model_fields)}"
            )
        yield made


def faults_in_line(error: ValidationError) -> str:
    """What is wrong with a request, in one line, without what was given."""
    return "; ".join(faults_in(error, whole="the request"))


def _is_right(wanted: Any, result: WorkflowResult[Any], name: str) -> bool:
    if not result.validated or result.output is None:
        return False
    got = result.output.model_dump(mode="json")
    return name in got and _same(wanted, got[name])


def _same(wanted: Any, got: Any) -> bool:
    match wanted, got:
        case str(), str():
            return normalised(wanted) == normalised(got)
        case dict(), dict():
            return all(name in got and _same(item, got[name]) for name, item in wanted.items())
        case list(), list():
            return len(wanted) == len(got) and all(map(_same, wanted, got))
        case (bool(), _) | (_, bool()):
            return wanted is got
    return bool(wanted == got)


def _share(facts: Iterable[bool]) -> float:
    known = list(facts)
    return sum(known) / len(known)


def _percentiles(values: list[int]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    cuts = quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]
