"""Several roles, one graph."""

from __future__ import annotations

from pywrapai.testing import StubServer
from pywrapai.testing.wires import Request
from tests.examples.programs import EXAMPLES, running

ROLES = sorted((EXAMPLES / "multi_role/roles").glob("*.txt"))


def test_each_role_is_asked_with_its_own_prompt_and_all_are_on_one_bill(tmp_path):
    def answer(request: Request) -> str:
        return request.json["messages"][0]["content"].upper()

    with (
        StubServer(answer) as model,
        running("multi_role", "A text.", cwd=tmp_path, model=model) as program,
    ):
        assert program.ended() == 0

    sent = [request.json["messages"] for request in model.requests]
    prompts = [role.read_text("utf-8").strip() for role in ROLES]
    assert [messages[0] for messages in sent] == [
        {"role": "system", "content": prompt} for prompt in prompts
    ]
    assert {messages[1]["content"] for messages in sent} == {"A text."}
    for role, prompt in zip(ROLES, prompts, strict=True):
        assert f"{role.stem}: {prompt.upper()}" in program.output
    assert f"Total calls   : {len(ROLES)}" in program.output
    assert "No key" not in program.output


def test_only_the_roles_that_are_named_are_asked(tmp_path):
    with (
        StubServer("Good.") as model,
        running("multi_role", "--role", "critic-v2", cwd=tmp_path, model=model) as program,
    ):
        assert program.ended() == 0

    [request] = model.requests
    assert "friendly critic" in request.json["messages"][0]["content"]


def test_without_a_key_it_says_so_and_a_small_model_answers(tmp_path):
    with running("multi_role", "--role", "critic-v1", cwd=tmp_path) as program:
        assert program.ended(60) == 0

    assert "No key was found" in program.output
    assert "Total calls   : 1 " in program.output
    assert list(tmp_path.iterdir()) == []
