"""Reads entries from the terminal it runs on and prints each as one JSON line, for test_input_pty.py.

usage: drive_input.py HOME [loop]
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import companion

COMMANDS = {
    "help": companion.Usage("what can be typed"), "quit": companion.Usage("leave"),
    "remember": companion.Usage("save a line", ("kind",)),
    "decide": companion.Usage("make a decision", ("--replaces", "decision")),
    "undecide": companion.Usage("take a decision back", ("decision",)),
    "memory": companion.Usage("list records"), "decisions": companion.Usage("list decisions"),
    "why": companion.Usage("where a record comes from", ("id",)),
    "forget": companion.Usage("erase a record", ("id",)),
}
RECORDS = (companion.Choice("m7", "maybe a DEV page"), companion.Choice("d3", "PostgreSQL"))
CHOICES = {"id": lambda: RECORDS, "decision": lambda: RECORDS[1:], "memory": lambda: RECORDS[:1]}


def show(label: str, **facts: object) -> None:
    print(f"\n{label} {json.dumps(facts)}", flush=True)


def work(keyboard: companion.Keyboard, seconds: float) -> None:
    """Something the owner waits for; Ctrl-C ends it."""
    try:
        with keyboard.busy():
            show("BUSY")
            time.sleep(seconds)
    except KeyboardInterrupt:
        show("STOPPED")
    else:
        show("IDLE")


def work_with_question(keyboard: companion.Keyboard) -> None:
    """A question and an editor in the middle of the work."""
    with keyboard.busy():
        reply = keyboard.ask("sure? ")
        show("REPLY", text=reply and reply.text)
        time.sleep(0.4)
        with keyboard.lent():
            show("LENT", line=input("editor> "))
        try:
            show("BUSY")
            time.sleep(9)
        except KeyboardInterrupt:
            show("STOPPED")


def answer(keyboard: companion.Keyboard, entry: companion.Entry) -> None:
    meaning = companion.classify_entry(entry, COMMANDS)
    show("GOT", text=entry.text, input=entry.input, **meaning._asdict())
    if entry.text.startswith("wait"):
        work(keyboard, float(entry.text[4:]))
    if entry.text == "work":
        work_with_question(keyboard)
    if entry.text.startswith("ask"):
        reply = keyboard.ask("sure? ", default=entry.text[4:])
        show("REPLY", text=reply and reply.text, input=reply and reply.input)
    if entry.text == "crash":
        raise RuntimeError("crash")
    if entry.text == "forget":
        (Path(sys.argv[1]) / "logs" / "history").write_text("")
        keyboard.reload_history()
    if entry.text == "lend":
        with keyboard.lent():
            show("LENT", line=input("editor> "))


def talk() -> None:
    home = companion.Home(Path(sys.argv[1]), now=lambda: datetime.now(UTC))
    home.make()
    with companion.open_keyboard(
            sys.stdin, sys.stdout, home, lambda text: show("SAID", text=text), commands=COMMANDS,
            choices=CHOICES, toolbar=lambda: "small-model · 2 in view",
            hint=lambda: "/remember preference: short answers", term=os.environ.get("TERM"),
            keep=lambda entry: "secret" not in entry.text) as keyboard:
        while True:
            entry = keyboard.read("you> ")
            if entry is None:
                break
            answer(keyboard, entry)
    show("LEFT")


async def talk_in_loop() -> None:
    talk()


if __name__ == "__main__":
    if sys.argv[2:] == ["loop"]:
        asyncio.new_event_loop().run_until_complete(talk_in_loop())
    else:
        talk()
