"""Runs an example as a program: without keys, on a free port, until it is told to end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from pywrapai.testing import StubServer

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(main.parent for main in EXAMPLES.glob("*/main.py"))


def command(name: str, *arguments: object) -> list[str]:
    main = EXAMPLES / name / "main.py"
    return [sys.executable, "-W", "error", str(main), *map(str, arguments)]


def environment(model: StubServer | None = None, **more: str) -> dict[str, str]:
    """Without keys, and so without a provider; or with `model` for OpenAI."""
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    asked = {"OPENAI_API_KEY": "sk-t3st", "OPENAI_BASE_URL": model.url()} if model else {}
    return {**clean, "PYTHONUNBUFFERED": "1", **asked, **more}


class Program:
    """A running example; its output is gathered as it comes."""

    def __init__(self, started: subprocess.Popen[str]) -> None:
        self.started = started
        self.output = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, pattern: str, timeout: float = 30) -> re.Match[str]:
        """What the output has of `pattern`, as soon as it is there."""
        with self._changed:
            self._changed.wait_for(
                lambda: re.search(pattern, self.output) or self.started.poll() is not None, timeout
            )
            found = re.search(pattern, self.output)
        assert found, self.output
        return found

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """Its exit code, after a signal."""
        self.started.send_signal(how)
        return self.ended()

    def ended(self, timeout: float = 30) -> int:
        code = self.started.wait(timeout)
        self._reader.join(timeout)
        return code

    def _read(self) -> None:
        assert self.started.stdout is not None
        with self.started.stdout as stdout:
            while piece := os.read(stdout.fileno(), 65_536):
                with self._changed:
                    self.output += piece.decode(errors="replace")
                    self._changed.notify_all()


@contextmanager
def running(
    name: str, *arguments: object, cwd: Path, model: StubServer | None = None, **more: str
) -> Iterator[Program]:
    """Start it, and see that it is gone at the end."""
    started = subprocess.Popen(
        command(name, *arguments),
        cwd=cwd,
        env=environment(model, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    program = Program(started)
    try:
        yield program
    finally:
        if started.poll() is None:
            started.kill()
        program.ended()


def chat(url: str, question: str, session: str = "one") -> list[dict[str, Any]]:
    """The events that a chat page would get."""
    body = {"question": question, "session": session}
    with httpx.stream("POST", f"{url}/chat", json=body, timeout=60) as answered:
        assert answered.status_code == 200
        assert answered.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answered.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text")
