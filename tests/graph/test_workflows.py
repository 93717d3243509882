"""The contract of every workflow: ask, check, ask once more, and then a human."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ValidationError

from pywrapai import LLM, AuthError, ContextLengthError, ServerError, TokenUsage, __version__
from pywrapai.lmstudio import ChatRequest, ChatResult
from pywrapai.testing import StubProvider
from pywrapai_graph.workflows import (
    Actor,
    CitationNotInRetrieval,
    LLMClient,
    OutputRejectedError,
    Reason,
    Workflow,
    WorkflowResult,
    check_citations,
    check_contained,
)
from tests.graph.workflow_stubs import ACTOR, Script, answer


class Review(BaseModel):
    text: str


class Mood(BaseModel):
    mood: Literal["good", "bad"]
    because: str


def because_of_the_text(review: Review, mood: Mood) -> None:
    check_contained(mood, [review.text], leave_out=["mood"])


WORKFLOW = Workflow(
    name="tests.mood",
    version="1.2.3",
    request=Review,
    output=Mood,
    prompt=lambda review: f"Which mood is this? {review.text}",
    validators=[because_of_the_text],
)
REVIEW = Review(text="The tea was cold. The cake, though, was divine.")
GOOD = {"mood": "good", "because": "the cake, though, was divine"}
INVENTED = {"mood": "good", "because": "The staff was friendly."}


def run(*answers: Any, workflow: Any = WORKFLOW, request: Any = REVIEW) -> tuple[Any, Script]:
    client = Script(*answers)
    result = workflow.run(request, actor=ACTOR, request_id="r1", client=client)
    return result, client


def test_an_answer_that_passes_every_check_is_validated():
    result, client = run(GOOD)

    assert result.output == Mood(**GOOD)
    assert (result.validated, result.reasons) == (True, ())
    assert len(client.requests) == 1


def test_the_model_is_asked_for_json_of_the_output_with_a_fixed_seed():
    _, client = run(GOOD)

    [request] = client.requests
    assert request.response_format == "json_object"
    assert request.json_schema == Mood.model_json_schema()
    assert (request.temperature, request.max_tokens, request.seed) == (0.0, 512, 0)
    assert [turn["role"] for turn in request.messages] == ["system", "user"]
    assert '"because"' in request.messages[0]["content"]  # for who cannot be held to a schema
    assert request.messages[1]["content"].startswith("Which mood is this? The tea was cold.")


def test_a_system_message_of_the_prompt_keeps_its_place():
    turns = [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "Well?"}]
    _, client = run(GOOD, workflow=replace(WORKFLOW, prompt=lambda _: turns))

    system, user = client.requests[0].messages
    assert system["content"].startswith("Be fair.\n\nAnswer with JSON")
    assert user == turns[1]
    assert turns[0] == {"role": "system", "content": "Be fair."}


@pytest.mark.parametrize(
    "wrapped",
    ["```json\n{}\n```", "Sure, here it is: {} Anything else?", "\n {} \n"],
)
def test_json_in_a_fence_or_between_prose_is_read(wrapped):
    result, _ = run(wrapped.replace("{}", '{"mood": "bad", "because": "the tea was cold"}'))

    assert result.output.mood == "bad"


MISBEHAVIOUR = [
    ("good, I think", "json", "there is no JSON"),
    ("", "json", "there is no JSON"),
    ('{"mood": "good", "because": ', "json", "there is no JSON"),
    ('{"mood": "great", "because": "the tea was cold"}', "schema", "mood: Input should be"),
    ('{"mood": "good"}', "schema", "because: Field required"),
    ("[1, 2]", "schema", "the answer: Input should be"),
    ('{"mood": "good", "because": 7}', "schema", "because: Input should be a valid string"),
    ('{"mood": "good", "because": "the staff was friendly"}', "containment", "'the staff was fr"),
    ('{"mood": "good", "because": "tea was col"}', "containment", "is not in the source"),
    (answer('{"mood": "go', finish_reason="length"), "length", "cut off"),
    (answer('{"mood": "bad", "because": ""}', finish_reason="error"), "model_error", "failed"),
    ("I am sorry, I cannot help with that.", "json", "there is no JSON"),
    ('{"mood": "good", "because": "\\ud83d"}', "schema", "half of a character"),
    ("[" * 100_000, "json", "there is no JSON"),
    ('{"mood": "good", "because": NaN}', "schema", "because"),
    (
        'They write {"mood": "bad", "because": "the tea was cold"}, and I say '
        '{"mood": "good", "because": "the tea was cold"}',
        "ambiguous",
        "two answers",
    ),
]


@pytest.mark.parametrize(("bad", "rule", "told"), MISBEHAVIOUR)
def test_what_is_wrong_is_told_to_the_model_once(bad, rule, told):
    result, client = run(bad, GOOD)

    assert (result.validated, result.output, result.reasons) == (True, Mood(**GOOD), ())
    first, second = client.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert [turn["role"] for turn in second.messages[len(first.messages) :]] == [
        "assistant",
        "user",
    ]
    assert told in client.last_said
    assert second.model_copy(update={"messages": first.messages}) == first


@pytest.mark.parametrize(("bad", "rule", "told"), MISBEHAVIOUR)
def test_wrong_twice_goes_to_a_human_with_the_reasons(bad, rule, told):
    result, client = run(bad, bad)

    assert (result.validated, result.output) == (False, None)
    assert {reason.rule for reason in result.reasons} == {rule}
    assert told in result.reasons[0].message
    assert len(client.requests) == 2
    assert result.meta.attempts == 2


@pytest.mark.parametrize("first", [row[0] for row in MISBEHAVIOUR])
@pytest.mark.parametrize("second", [row[0] for row in MISBEHAVIOUR])
def test_no_two_answers_lead_to_an_exception_or_an_unchecked_output(first, second):
    result, _ = run(first, second)

    assert (result.validated, result.output) == (False, None)
    assert WorkflowResult[Mood].model_validate_json(result.model_dump_json()) == result


def test_one_answer_written_twice_is_one():
    told = '{"mood": "bad", "because": "the tea was cold"}'
    result, _ = run(f"I think {told}, so:\n```json\n{told}\n```")

    assert result.validated


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_has_not_is_no_answer(number):
    class Rated(BaseModel):
        stars: float

    workflow = replace(WORKFLOW, output=Rated, validators=())
    result, client = run(f'{{"stars": {number}}}', '{"stars": 4.5}', workflow=workflow)

    assert "stars" in client.last_said
    assert result.output == Rated(stars=4.5)


def test_an_answer_that_is_wrong_thousands_of_times_has_few_reasons():
    class Moods(BaseModel):
        because: list[str]

    def quoted(review: Review, moods: Moods) -> None:
        check_contained(moods, [review.text])

    workflow = replace(WORKFLOW, output=Moods, validators=[quoted])
    many = {"because": [f"invented {number}" for number in range(5000)]}
    result, client = run(many, many, workflow=workflow)

    assert len(result.reasons) == 8
    assert len(client.last_said) < 2000
    with pytest.raises(CitationNotInRetrieval) as caught:
        check_citations(many["because"], ["c1"])
    assert len(caught.value.message) < 2000


def test_the_reasons_are_those_of_the_last_answer():
    result, _ = run("no JSON", INVENTED)

    assert [reason.rule for reason in result.reasons] == ["containment"]
    assert result.reasons[0].message.startswith("because: 'The staff was friendly.' is not in")


def test_an_empty_answer_is_sent_back_as_no_text():
    _, client = run("", GOOD)

    assert client.requests[1].messages[-2] == {"role": "assistant", "content": "(no text)"}


def test_a_cut_answer_that_is_whole_all_the_same_is_taken():
    result, _ = run(answer(GOOD, finish_reason="length"))

    assert result.validated


# What is known of a run


def test_the_meta_holds_versions_ids_times_and_the_sum_of_both_calls():
    first = answer(INVENTED, request_id="c1", latency_ms=10, cost_usd=0.5, model_id="a")
    second = answer(GOOD, request_id="c2", latency_ms=5, cost_usd=0.25, model_id="b")
    ticks = count()
    begin = datetime(2026, 12, 1, tzinfo=UTC)
    clock = replace(WORKFLOW, clock=lambda: begin + timedelta(seconds=next(ticks)))

    meta = run(first, second, workflow=clock)[0].meta

    assert (meta.module_name, meta.module_version) == ("tests.mood", "1.2.3")
    assert (meta.package_version, meta.request_id) == (__version__, "r1")
    assert (meta.started_at, meta.finished_at) == (begin, begin + timedelta(seconds=1))
    assert meta.model_id == "b"
    assert meta.usage == TokenUsage(200, 40)
    assert (meta.usage.prompt_tokens, meta.usage.completion_tokens) == (200, 40)
    assert (meta.latency_ms, meta.cost_usd, meta.attempts) == (15, 0.75, 2)
    assert meta.model_request_ids == ("c1", "c2")


def test_what_a_client_knows_of_a_call_can_always_be_written():
    result, _ = run(answer(GOOD, model_id="m\ud83d", request_id="c\ud83d"))

    assert WorkflowResult[Mood].model_validate_json(result.model_dump_json()) == result


def test_a_cost_that_one_call_does_not_know_is_not_known():
    meta = run(answer(INVENTED, cost_usd=0.5), GOOD)[0].meta

    assert meta.cost_usd is None


def test_the_same_input_gives_the_same_requests_and_the_same_output():
    (one, first), (two, second) = run(INVENTED, GOOD), run(INVENTED, GOOD)

    assert first.requests == second.requests
    assert one.output == two.output


def test_a_run_touches_nothing_but_its_client():
    code = """if True:
        import logging, os, sys
        from pywrapai_graph.workflows import triage
        from tests.graph import workflow_cases as cases
        from tests.graph.test_workflows import GOOD, INVENTED, run

        def all_runs():
            run(INVENTED, GOOD)
            triage.run(cases.COMPLAINT, **cases.KNOWN, client=cases.Script(cases.TRIAGED))
            cases.ask(cases.UNSUPPORTED, cases.ANSWERED)
            cases.summarise(cases.SUMMARY)

        class Nothing:
            def __getattribute__(self, name):
                print("environment:", name)

        all_runs()  # what is made once is made now
        sys.addaudithook(lambda event, _: print(event) if event.split(".")[0] in WORLD else None)
        WORLD = {"open", "socket", "sqlite3", "subprocess", "os", "import", "logging"}
        os.environ = Nothing()
        logging.Logger.handle = lambda *given: print("log:", given)
        all_runs()
        WORLD = set()
    """
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


def test_threads_that_share_a_workflow_get_their_own_answers():
    class Echo:
        def chat(self, request: ChatRequest) -> ChatResult:
            said = request.messages[1]["content"].rpartition(" ")[2]
            return answer({"mood": "good", "because": said}, request_id=said)

    def ask(number: int) -> WorkflowResult[Mood]:
        review = Review(text=f"word{number}")
        return WORKFLOW.run(review, actor=ACTOR, request_id=f"r{number}", client=Echo())

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(ask, range(200)))

    for number, result in enumerate(results):
        assert result.output == Mood(mood="good", because=f"word{number}")
        assert result.meta.request_id == f"r{number}"
        assert result.meta.model_request_ids == (f"word{number}",)


def test_neither_the_request_nor_the_prompt_is_changed():
    before = REVIEW.model_copy(deep=True)
    run(INVENTED, INVENTED)

    assert before == REVIEW


# Who may answer


def test_a_stub_client_takes_three_lines():
    class Stub:
        def chat(self, request: ChatRequest) -> ChatResult:
            return answer(GOOD)

    result = WORKFLOW.run(REVIEW, actor=ACTOR, request_id="r1", client=Stub())

    assert result.validated


def test_any_llm_serves_through_its_adapter():
    stub = StubProvider(["nonsense", '{"mood": "bad", "because": "the tea was cold"}'])
    client = LLMClient(LLM(stub))

    result = WORKFLOW.run(REVIEW, actor=ACTOR, request_id="r1", client=client)

    assert result.output == Mood(mood="bad", because="the tea was cold")
    assert result.meta.model_id == "stub-model"
    assert result.meta.cost_usd == 0.0
    assert stub.requests[0].settings["seed"] == 0


async def test_awaited_it_does_the_same():
    client = Script(INVENTED, GOOD)

    result = await WORKFLOW.arun(REVIEW, actor=ACTOR, request_id="r1", client=client)

    waited, blocked = client.requests, run(INVENTED, GOOD)[1].requests
    assert result.validated
    assert waited == blocked


async def test_awaited_a_client_without_achat_is_asked_in_a_thread():
    asked_in: list[int] = []

    class Stub:
        def chat(self, request: ChatRequest) -> ChatResult:
            asked_in.append(threading.get_ident())
            return answer(GOOD)

    await WORKFLOW.arun(REVIEW, actor=ACTOR, request_id="r1", client=Stub())

    assert asked_in != [threading.get_ident()]


async def test_awaited_a_client_with_achat_is_awaited():
    class Stub:
        def chat(self, request: ChatRequest) -> ChatResult:
            raise AssertionError("this one blocks")

        async def achat(self, request: ChatRequest) -> ChatResult:
            await asyncio.sleep(0)
            return answer(GOOD)

    result = await WORKFLOW.arun(REVIEW, actor=ACTOR, request_id="r1", client=Stub())

    assert result.validated


async def test_a_run_that_is_cancelled_asks_no_more():
    asked: list[ChatRequest] = []
    waits = asyncio.Event()

    class Slow:
        def chat(self, request: ChatRequest) -> ChatResult:
            raise AssertionError("this one blocks")

        async def achat(self, request: ChatRequest) -> ChatResult:
            asked.append(request)
            if len(asked) == 2:
                waits.set()
                await asyncio.Event().wait()
            return answer(INVENTED)

    run = asyncio.ensure_future(WORKFLOW.arun(REVIEW, actor=ACTOR, request_id="r1", client=Slow()))
    await waits.wait()
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(asked) == 2


@pytest.mark.parametrize("error", [ServerError("down"), AuthError("no"), ContextLengthError("x")])
def test_a_model_that_cannot_be_asked_is_an_error_and_no_review(error):
    with pytest.raises(type(error)):
        run(error)


def test_a_failure_of_the_second_call_is_an_error_too():
    with pytest.raises(ServerError):
        run(INVENTED, ServerError("down"))


def test_a_second_call_that_is_too_long_for_the_model_goes_to_a_human():
    result, _ = run(INVENTED, ContextLengthError("too many tokens"))

    assert (result.validated, result.output, result.meta.attempts) == (False, None, 1)
    assert [reason.rule for reason in result.reasons] == ["containment", "context_length"]


# What is refused


@pytest.mark.parametrize(
    "version", ["1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "", "latest", None]
)
def test_a_version_is_semver(version):
    with pytest.raises(ValueError, match="expected semver"):
        replace(WORKFLOW, version=version)


@pytest.mark.parametrize("version", ["0.0.0", "1.4.2", "10.20.30-rc.1+build.5", "2.0.0-x-y"])
def test_semver_is_a_version(version):
    assert run(GOOD, workflow=replace(WORKFLOW, version=version))[0].meta.module_version == version


def test_what_no_workflow_can_be_is_refused_when_it_is_made():
    with pytest.raises(ValueError, match="needs a name"):
        replace(WORKFLOW, name=" ")
    with pytest.raises(ValueError, match="expected 1 to 4096"):
        replace(WORKFLOW, max_tokens=5000)


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ({"request": {"text": "x"}}, TypeError, "expected a Review"),
        ({"actor": {"user_id": "u"}}, TypeError, "expected an Actor"),
        ({"request_id": " "}, ValueError, "not blank"),
        ({"request_id": None}, ValueError, "not blank"),
        ({"request_id": "r\ud83d"}, ValueError, "half of a character"),
    ],
)
def test_a_call_without_its_parts_is_refused_before_the_model_is_asked(wrong, error, told):
    client = Script()
    request = wrong.pop("request", REVIEW)
    with pytest.raises(error, match=told):
        WORKFLOW.run(request, **{"actor": ACTOR, "request_id": "r", "client": client, **wrong})
    assert client.requests == []


@pytest.mark.parametrize("field", ["user_id", "tenant_id", "role"])
def test_an_actor_is_somebody_of_some_tenant(field):
    known = {"user_id": "u", "tenant_id": "t", "role": "service"}
    for blank in ("", "  \n", "\N{ZERO WIDTH SPACE}", "\ud83d"):
        with pytest.raises(ValidationError):
            Actor(**{**known, field: blank})
    with pytest.raises(ValidationError, match="frozen"):
        Actor(**known).tenant_id = "other"


def test_nothing_is_validated_without_an_output():
    meta = run(GOOD)[0].meta
    with pytest.raises(ValidationError, match="has an output"):
        WorkflowResult[Mood](output=None, meta=meta, validated=True)


def test_an_error_in_a_check_of_ones_own_is_not_taken_for_a_verdict():
    def broken(review: Review, mood: Mood) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(GOOD, workflow=replace(WORKFLOW, validators=[broken]))


@pytest.mark.parametrize("said", [True, False, "wrong"])
def test_a_check_that_returns_its_verdict_is_not_taken_for_passed(said):
    with pytest.raises(TypeError, match="expected None, or an OutputRejectedError"):
        run(GOOD, workflow=replace(WORKFLOW, validators=[lambda review, mood: said]))


@pytest.mark.filterwarnings("ignore:coroutine")  # nobody awaits it
def test_a_check_that_would_have_to_be_awaited_is_not_taken_for_passed():
    async def slow(review: Review, mood: Mood) -> None:
        raise OutputRejectedError("wrong")

    with pytest.raises(TypeError, match="coroutine"):
        run(GOOD, workflow=replace(WORKFLOW, validators=[slow]))


def test_a_check_of_ones_own_names_its_rule_and_is_told_in_full():
    def polite(review: Review, mood: Mood) -> None:
        raise OutputRejectedError("say please", rule="manners", reasons=("say please", "smile"))

    result, client = run(GOOD, GOOD, workflow=replace(WORKFLOW, validators=[polite]))

    assert result.reasons == (
        Reason(rule="manners", message="say please"),
        Reason(rule="manners", message="smile"),
    )
    assert "- say please\n- smile\n" in client.last_said
