"""The chatbot on a folder of documents, over HTTP and in a browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from pywrapai.testing import StubServer
from pywrapai.testing.wires import Request, status, text
from pywrapai_monitor import SQLiteStore
from tests.examples.programs import chat, running, text_of
from tests.monitor.dashboard_browser import browsing

ADDRESS = r"Chat: (http://\S+)"
OPENING = "We are open from nine to five, Monday to Friday."
HOSTILE = "<script>document.title = 1</script> A parcel to Norway takes two days."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shop")
    (made / "opening.md").write_text(OPENING, "utf-8")
    (made / "deeper").mkdir()
    (made / "deeper/parcels.txt").write_text(HOSTILE, "utf-8")
    (made / "prices.html").write_text("<title>Prices</title><p>A ticket is 9 euros.</p>", "utf-8")
    return made


@pytest.fixture(scope="module")
def model() -> Iterator[StubServer]:
    def answer(request: Request) -> str:
        question = request.json["messages"][-1]["content"]
        return f"I was given {question.count('[')} chunks."

    with StubServer(answer) as server:
        yield server


@pytest.fixture(scope="module")
def url(folder: Path, model: StubServer) -> Iterator[str]:
    given = (folder, "--port", 0, "--db", folder / "talks.db")
    with running("rag_chatbot", *given, cwd=folder, model=model) as program:
        yield program.wait_for(ADDRESS)[1]
        assert program.end() == 0


def test_the_sources_come_first_with_file_place_and_score_best_first(url, folder):
    events = chat(url, "How long does a parcel to Norway take?")

    assert [event["type"] for event in events[:2]] == ["sources", "text"]
    found = events[0]["sources"]
    assert found[0] == {
        "file": "deeper/parcels.txt",
        "page": None,
        "start": 0,
        "score": found[0]["score"],
        "text": HOSTILE,
    }
    scores = [source["score"] for source in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0
    assert {source["file"] for source in found} >= {"opening.md", "prices.html"}


def test_the_model_is_given_just_the_sources_that_are_shown_and_the_talk_before(url, model):
    first = chat(url, "When are you open?", "two")
    chat(url, "Also on Sunday?", "two")

    given = [message["content"] for message in model.requests[-1].json["messages"]]
    assert text_of(first) == f"I was given {len(first[0]['sources'])} chunks."
    assert given[1:3] == ["When are you open?", text_of(first)]
    assert all(source["text"] in given[-1] for source in chat(url, "Sunday?", "x")[0]["sources"])
    assert first[-1]["type"] == "done"


def test_the_text_comes_while_the_model_still_speaks(url, model):
    gate: list[bool] = []
    model.reply(text("one two three four").paced(0.2).held_until(lambda: bool(gate)))
    body = {"question": "Slowly?", "session": "slow"}
    with httpx.stream("POST", f"{url}/chat", json=body, timeout=20) as answered:
        lines = (line for line in answered.iter_lines() if line)
        assert '"sources"' in next(lines)  # the model has not said a word yet
        gate.append(True)
        assert '"one ' in next(lines)
        assert len(list(lines)) == 4  # three words and the end


def test_a_reader_who_leaves_ends_the_answer_and_what_he_read_is_kept(url, model, folder):
    model.reply(text("word " * 300).paced(0.05))
    body = {"question": "For ever?", "session": "left"}
    with httpx.stream("POST", f"{url}/chat", json=body, timeout=20) as answered:
        lines = (line for line in answered.iter_lines() if line)
        assert '"sources"' in next(lines)
        assert '"word ' in next(lines)

    deadline, rows = time.monotonic() + 10, list[dict[str, object]]()
    with closing(SQLiteStore(folder / "talks.db")) as store:
        while not rows and time.monotonic() < deadline:
            every = store.get_session_token_records("reader", "left")
            rows = [row for row in every if row["kind"] == "chat"]
            time.sleep(0.05)
    assert [row["status"] for row in rows] == ["interrupted"]


def test_a_model_that_fails_is_told_without_details(url, model):
    model.reply(status(400, "secret of 10.0.0.5"))

    events = chat(url, "When are you open?", "three")

    assert [event["type"] for event in events] == ["sources", "error"]
    assert "10.0.0.5" not in events[1]["text"]


def test_other_names_forms_and_empty_questions_are_refused(url):
    asked = {"question": "x", "session": "s"}

    codes = [
        httpx.post(f"{url}/chat", json=asked, headers={"Host": "evil.example"}).status_code,
        httpx.post(f"{url}/chat", data=asked).status_code,
        httpx.post(f"{url}/chat", json={**asked, "question": " "}).status_code,
    ]

    assert codes == [400, 415, 400]
    policy = httpx.get(url).headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")


def test_in_a_browser_sources_and_answer_are_shown_as_text(url):
    with browsing() as browser:
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(url)
        page.locator("#question").fill("How long does a parcel to Norway take?")
        page.locator("#send").click()
        page.locator(".card").first.wait_for()
        page.locator("#send:enabled").wait_for()

        assert page.locator(".card pre").first.inner_text() == HOSTILE
        assert float(page.locator(".card .score").first.inner_text()) > 0
        assert "I was given" in page.locator(".model").inner_text()
        assert page.title().startswith("Ask ")
        assert said == []


def test_without_a_folder_the_docs_are_asked(model, tmp_path):
    with running("rag_chatbot", "--port", 0, cwd=tmp_path, model=model) as program:
        url = program.wait_for(ADDRESS)[1]
        sources = chat(url, "What is the score of a vector of zeros?")[0]["sources"]

        assert re.search(r"\b\d{3,} chunks from docs/\. The model is openai/", program.output)
        assert {source["file"] for source in sources} & {"vector-stores.md", "embeddings.md"}
        assert program.end() == 0
    assert list(tmp_path.iterdir()) == []


def test_without_a_key_it_says_so_and_a_small_model_answers(folder, tmp_path):
    with running("rag_chatbot", folder, "--port", 0, cwd=tmp_path) as program:
        url = program.wait_for(ADDRESS)[1]

        assert "No key was found" in program.output
        assert "No key was found" in httpx.get(url).text
        events = chat(url, "When are you open?")

        assert text_of(events).strip()
        assert events[-1]["type"] == "done"
        assert program.end() == 0
