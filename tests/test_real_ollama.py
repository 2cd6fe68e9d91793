"""The whole path on a real Ollama: type, leave, come back, ask (P2, P5). Run with `-m ollama`."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from helpers import ROOT, run_cli, run_json

pytestmark = pytest.mark.ollama
CHAT, NO_TOOLS = "qwen2.5-coder:1.5b", "smollm2:135m"
HOST = os.environ.get("OLLAMA_HOST", "127.0.0.1:11434")
ENV = {"OLLAMA_HOST": HOST, "COMPANION_MODEL": CHAT}
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>]|\x1b\][^\x07]*\x07")


@pytest.fixture(scope="module", autouse=True)
def server() -> None:
    """Fail, not skip: whoever asks for these tests wants them on a real server."""
    with urllib.request.urlopen(f"http://{HOST}/api/tags", timeout=10) as answer:
        names = [model["name"] for model in json.load(answer)["models"]]
    assert CHAT in names and NO_TOOLS in names, names


class Person:
    """Somebody at a terminal that runs the chat."""

    def __init__(self, home: Path, **env: str) -> None:
        self.child = pexpect.spawn(
            sys.executable, ["-m", "companion", "--home", str(home)], cwd=ROOT, encoding="utf-8", timeout=150,
            dimensions=(40, 100), env={**os.environ, "TERM": "xterm-256color", **ENV, **env})
        self.child.delaybeforesend = 0.3
        self.prompt()

    def prompt(self) -> str:
        """What the screen showed until the prompt came back."""
        self.child.expect_exact("\x1b[J\x1b[0m>\x1b[0m")
        return ESCAPES.sub("", self.child.before)

    def say(self, text: str) -> str:
        """Type a line; what the program showed for it."""
        self.child.send(text)
        self.child.expect_exact(text[-10:])
        self.child.send("\r")
        return self.prompt()

    def leave(self) -> None:
        self.child.send("/quit\r")
        self.child.expect(pexpect.EOF)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home in which the owner has typed three lines and left."""
    person = Person(tmp_path / "home")
    assert "Saved m1: preference" in person.say("/remember preference: short, plain answers")
    assert "Saved m2: undecided" in person.say(
        "/remember proposal: maybe give the agent its own DEV page, undecided")
    assert "Decided d1" in person.say("/decide use PostgreSQL for the archive")
    person.leave()
    yield tmp_path / "home"


def test_type_leave_come_back_and_ask_about_all_three(home: Path) -> None:
    person = Person(home)
    for question, record, standing, words in (
            ("Which database did I choose for the archive?", "d1", "decided", "PostgreSQL"),
            ("Am I giving you a DEV page?", "m2", "undecided", "own DEV page"),
            ("How do I like your answers?", "m1", "preference", "short, plain answers")):
        shown = person.say(question)
        assert re.search(rf"{record} +{standing}", shown), shown
        assert words in shown, shown
    person.leave()


def test_ask_json_on_a_real_model(home: Path) -> None:
    form = run_json(home, "--ask", "Which database did I choose for the archive?", env=ENV, timeout=240)
    assert form["standing"] == "decided" and form["sources"] == ["d1"] and not form["record_only"]
    assert form["timings"]["prompt_tokens"] > 100 and form["answer"]
    assert form["withheld"] is False or form["findings"]


def test_a_model_without_tools_is_asked_without_them(home: Path) -> None:
    form = run_json(home, "--ask", "Am I giving you a DEV page?", "--model", NO_TOOLS, env=ENV, timeout=240)
    assert form["standing"] == "undecided" and form["answer"]


def test_a_model_that_is_not_there_names_the_command_and_what_is(home: Path) -> None:
    done = run_cli(home, "--ask", "what is tea?", "--model", "no-such-model", env=ENV)
    assert done.returncode == 3 and "ollama pull no-such-model" in done.stderr and CHAT in done.stderr


def test_nothing_is_saved_by_asking(home: Path) -> None:
    """P2: whatever the model says, the ledgers keep their bytes."""
    before: dict[str, Any] = {p.name: p.read_bytes() for p in (home / "memory").glob("*.jsonl")}
    form = run_json(home, "--ask", "Please remember that my review is on the 10th.", env=ENV, timeout=240)
    assert {p.name: p.read_bytes() for p in (home / "memory").glob("*.jsonl")} == before
    assert form["hint"] and form["hint"].startswith("/remember note")
    assert not re.search(r"\bI(?:'ve| have)? (?:saved|noted|stored)\b", form["answer"])
