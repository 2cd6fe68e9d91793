"""What the tests share: a home with its own clock and random bytes, and short ways to put lines on record."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import companion

ROOT = Path(companion.__file__).resolve().parent
TYPED = companion.Origin("typed", "s20261129-090000-0000", 1)


class Clock:
    """A clock that stands still until it is moved; each reading is a millisecond later."""

    def __init__(self, at: datetime = datetime(2026, 11, 29, 9, 0, tzinfo=UTC)) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def move(self, **delta: float) -> None:
        """Move on by a timedelta's keywords."""
        self.at += timedelta(**delta)


class Entropy:
    """Bytes that differ each time and are the same in every run."""

    def __init__(self) -> None:
        self.count = itertools.count(1)

    def __call__(self, size: int) -> bytes:
        return (next(self.count) * 0x9E3779B97F4A7C15 % (1 << (8 * size))).to_bytes(size, "big")


def make_home(path: Path, clock: Clock | None = None, **settings: Any) -> companion.Home:
    """A home in `path` whose clock, random bytes and notices the test holds."""
    told: list[str] = []
    home = companion.Home(path, companion.Settings(**settings), now=clock or Clock(), entropy=Entropy(),
                          notice=told.append)
    home.make()
    home.told = told  # type: ignore[attr-defined]
    return home


def make_records(path: Path, clock: Clock | None = None, **settings: Any) -> companion.Records:
    """Empty records in a home of their own."""
    return companion.Records(make_home(path, clock, **settings))


def run_setup(records: companion.Records, steps: list[list[str]]) -> None:
    """Put the setup steps of an evaluation item on record."""
    for verb, *words in steps:
        if verb == "remember":
            kind, text = companion.split_kind(words[0])
            companion.remember(records, kind, text, TYPED)
        elif verb.startswith("decide"):
            companion.decide(records, words[0], TYPED, verb.partition("--replaces ")[2] or None)
        elif verb == "undecide":
            number, _, why = words[0].partition(" ")
            companion.undecide(records, number, why, TYPED)
        elif verb == "note":
            companion.add_note(records, words[0], words[1])


class Hands:
    """A keyboard that answers the program's questions with what the test has laid out; no answer is a no."""

    def __init__(self) -> None:
        self.answers, self.asked, self.reloads = list[str](), list[str](), 0

    def ask(self, question: str, default: str = "") -> companion.Entry | None:
        self.asked.append(question)
        return companion.Entry(self.answers.pop(0), "typed") if self.answers else None

    def ask_hidden(self, question: str) -> str | None:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else None

    def lent(self) -> contextlib.AbstractContextManager[None]:
        """An editor that is given the terminal."""
        return contextlib.nullcontext()

    def reload_history(self) -> None:
        self.reloads += 1

    def redraw(self) -> None:
        """Nothing is drawn."""


class Sitting:
    """A chat as the owner has it: `type` an entry and get what the screen shows for it."""

    def __init__(self, home: companion.Home) -> None:
        self.out, self.hands = io.StringIO(), Hands()
        display = companion.Display(self.out, is_terminal=False, size=lambda: (100, 24), color=False,
                                    clock=lambda: 0.0)
        self.chat = companion.open_chat(home, display, {})
        self.chat.keyboard = self.hands  # type: ignore[assignment]
        self.first = self.out.getvalue() + "\n".join(companion.build_first_screen(self.chat))

    def type(self, text: str, *answers: str, input: str = "typed") -> str:
        """One entry, with the answers to the questions that it leads to."""
        begin, self.hands.answers = len(self.out.getvalue()), list(answers)
        companion.guarded_step(self.chat, companion.Entry(text, input))
        return self.out.getvalue()[begin:]

    def tab(self) -> str:
        """What Tab on the empty line would put there, sent."""
        assert self.chat.hint is not None, "nothing is offered"
        return self.type(self.chat.hint)

    def record(self, record_id: str) -> companion.Record:
        """A record as it is now."""
        self.chat.records.refresh()
        return self.chat.records.get(record_id)


def all_bytes(home: companion.Home) -> bytes:
    """Every byte of every file of a home."""
    return b"\n".join(path.read_bytes() for path in sorted(home.root.rglob("*")) if path.is_file())


def run_cli(home: Path, *args: str, stdin: str | None = "", env: dict[str, str] | None = None,
            timeout: float = 60) -> Any:
    """Run the program in a process of its own, with no Ollama unless `env` says where."""
    import subprocess
    base = {"PATH": os.environ["PATH"], "OLLAMA_HOST": "127.0.0.1:9", "HOME": str(home), "TZ": "UTC",
            "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    return subprocess.run([sys.executable, "-m", "companion", "--home", str(home), *args], input=stdin, text=True,
                          capture_output=True, env=base | (env or {}), timeout=timeout, check=False)


def run_json(home: Path, *args: str, **more: Any) -> Any:
    """The JSON that the program prints."""
    return json.loads(run_cli(home, *args, "--json", **more).stdout)
