"""Driving the program from outside: a real pseudo-terminal, real command lines, files read back.

A home is set up by typing into the chat, as its owner would.  Whether a step was written is
read from the ledgers, not from the screen, so that the evaluation does not depend on how a
message is worded.  While a home is set up no model is asked: the chat is given a port on which
nothing answers, in which case the program runs commands all the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
from evalset import HERE, Step

NOWHERE = "127.0.0.1:9"  # the discard port: nothing listens there
START_LIMIT_S, STEP_LIMIT_S, ANSWER_LIMIT_S = 60.0, 20.0, 300.0
LEDGERS = ("memory.jsonl", "decisions.jsonl")


class DriveTrouble(RuntimeError):
    """The program did not do what a step asked for."""


def find_program() -> Path:
    """The folder that holds companion.py: $COMPANION_ROOT, else two above this one."""
    named = os.environ.get("COMPANION_ROOT")
    return Path(named).resolve() if named else HERE.parents[1]


class Program:
    """The program under test: its folder, the model and the host that it is told to use."""

    def __init__(self, model: str, host: str, root: Path | None = None) -> None:
        self.root = root or find_program()
        self.model, self.host = model, host
        if not (self.root / "companion.py").is_file():
            raise DriveTrouble(f"there is no companion.py in {self.root}")

    def environ(
        self, home: Path, host: str | None = None, more: dict[str, str] | None = None
    ) -> dict[str, str]:
        """A small environment: no proxy, no settings of the person who runs this."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(home.parent),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "PYTHONPATH": str(self.root),
            "COMPANION_MODEL": self.model,
            "OLLAMA_HOST": self.host if host is None else host,
            **(more or {}),
        }

    def command(self, home: Path, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "companion", "--home", str(home), *arguments]

    def run(
        self,
        home: Path,
        *arguments: str,
        host: str | None = None,
        limit_s: float = ANSWER_LIMIT_S,
        more: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """One command line, without a terminal."""
        try:
            return self._run(home, arguments, host, limit_s, more)
        except subprocess.TimeoutExpired as late:
            raise DriveTrouble(f"{arguments[0]} took more than {limit_s:.0f} s") from late

    def _run(
        self,
        home: Path,
        arguments: tuple[str, ...],
        host: str | None,
        limit_s: float,
        more: dict[str, str] | None,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(home, *arguments),
            env=self.environ(home, host, more),
            cwd=make_scratch(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )

    def ask(
        self, home: Path, question: str, host: str | None = None, more: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """`--ask QUESTION --json`: the object of DESIGN section 9, with `exit_code` and `seconds` added."""
        began = time.monotonic()
        done = self.run(home, "--ask", question, "--json", host=host, more=more)
        value = parse_object(done.stdout.decode("utf-8", "replace"))
        if value is None:
            raise DriveTrouble(
                f"--ask gave no JSON (exit code {done.returncode}): "
                f"{done.stderr.decode('utf-8', 'replace').strip()[-300:]}"
            )
        value["exit_code"], value["seconds"] = done.returncode, round(time.monotonic() - began, 3)
        return value

    def note(self, home: Path, name: str, text: str) -> None:
        """A helper's line; DriveTrouble when it was not written."""
        before = count_lines(home)
        done = self.run(home, "--note", text, "--as", name, host=NOWHERE, limit_s=STEP_LIMIT_S)
        if done.returncode != 0 or count_lines(home) == before:
            raise DriveTrouble(
                f"--note was not written (exit code {done.returncode}): {done.stderr.decode()[-300:]}"
            )


def make_scratch(home: Path) -> Path:
    """The working folder of the program: beside the home, so that a stray file is seen."""
    scratch = home.parent / "work"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def parse_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a command printed, also after other lines."""
    for start in [0] + [found.start() + 1 for found in re.finditer(r"\n(?=\{)", text)]:
        try:
            value = json.loads(text[start:])
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return None


def load_ledger(home: Path, name: str) -> list[dict[str, Any]]:
    """All lines of a ledger; an absent one has none."""
    path = home / "memory" / name
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def load_answers(home: Path) -> list[dict[str, Any]]:
    """The answers in the chat log, in order; a line that is still being written is left out."""
    path = home / "logs" / "chat.jsonl"
    found = []
    for line in path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []:
        value = json.loads(line)
        if value.get("role") == "assistant":
            found.append(value)
    return found


def count_lines(home: Path) -> int:
    """Lines in both ledgers."""
    total = 0
    for name in LEDGERS:
        path = home / "memory" / name
        total += path.read_bytes().count(b"\n") if path.exists() else 0
    return total


class Terminal:
    """One chat in a pseudo-terminal; `raw` keeps every byte that reached the screen."""

    def __init__(
        self,
        program: Program,
        home: Path,
        host: str | None = None,
        width: int = 160,
        more: dict[str, str] | None = None,
    ) -> None:
        command = program.command(home)
        self.home, self.raw = home, b""
        self.child = pexpect.spawn(
            command[0],
            command[1:],
            env=program.environ(home, host, more),
            cwd=str(make_scratch(home)),
            dimensions=(60, width),
            timeout=5,
            echo=False,
        )
        self.child.delaybeforesend = None
        self.wait_quiet(1.0, START_LIMIT_S, need_output=True)

    def read(self, wait_s: float) -> bool:
        """Take what came within wait_s; False when nothing came or the program ended."""
        try:
            piece = self.child.read_nonblocking(65536, wait_s)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self.raw += piece
        return True

    def wait_quiet(self, quiet_s: float, limit_s: float, need_output: bool = False) -> None:
        """Read until nothing came for quiet_s."""
        end, quiet_since, seen = time.monotonic() + limit_s, time.monotonic(), not need_output
        while time.monotonic() < end:
            if self.read(0.05):
                quiet_since, seen = time.monotonic(), True
            elif not self.alive() or (seen and time.monotonic() - quiet_since >= quiet_s):
                return
            elif not seen:
                quiet_since = time.monotonic()

    def alive(self) -> bool:
        return bool(self.child.isalive())

    def type_line(self, text: str) -> None:
        """Type a line and press Enter, the way keys arrive."""
        self.child.send(text.encode())
        self.read(0.05)
        self.child.send(b"\r")

    def type_step(self, text: str) -> None:
        """Type a command that writes; DriveTrouble unless a ledger grew by it."""
        before = count_lines(self.home)
        for _ in range(2):
            self.type_line(text)
            if self.wait_for(lambda: count_lines(self.home) > before, STEP_LIMIT_S / 2):
                self.wait_quiet(0.12, 3.0)
                return
        raise DriveTrouble(f"not written: {text!r}; the screen ends with {show_screen(self.raw)[-300:]!r}")

    def wait_for(self, met: Callable[[], bool], limit_s: float) -> bool:
        """Read until something has happened outside the screen."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.alive():
            self.read(0.02)
            if met():
                return True
        return False

    def paste(self, text: str) -> None:
        """A bracketed paste, as a terminal sends it."""
        self.child.send(b"\x1b[200~" + text.replace("\n", "\r").encode() + b"\x1b[201~")
        self.wait_quiet(0.3, 3.0)

    def ask(self, text: str) -> dict[str, Any] | None:
        """Type a plain sentence; the answer's line in the chat log, None when none came.

        An empty text is Enter alone: it sends what was pasted.
        """
        before = len(load_answers(self.home))
        self.type_line(text)
        self.wait_for(lambda: len(load_answers(self.home)) > before, ANSWER_LIMIT_S)
        self.wait_quiet(0.7, 10.0)
        return next(iter(load_answers(self.home)[before:]), None)

    def look(self, command: str) -> str:
        """Type a command that only shows; the text that appeared."""
        start = len(self.raw)
        self.type_line(command)
        self.wait_quiet(0.6, 20.0)
        return show_screen(self.raw[start:])

    def quit(self) -> None:
        """Leave with /quit; stop it when it does not."""
        if self.alive():
            self.type_line("/quit")
            self.wait_for(lambda: not self.alive(), 10.0)
        self.child.close(force=True)


CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b[ -/]*[0-~]"
)


def show_screen(raw: bytes) -> str:
    """The text of raw terminal output without its control sequences; not a full emulation."""
    return CONTROL.sub("", raw.decode("utf-8", "replace")).replace("\r\n", "\n").replace("\r", "\n")


# --- setting a home up ---------------------------------------------------------------------


def step_command(step: Step, real: dict[str, str]) -> str | None:
    """What is typed for a step; `real` maps the item's ids to those of the home."""
    verb, words = step[0], step[-1]
    if verb == "remember":
        return f"/remember {words}"
    if verb.startswith("decide"):
        return re.sub(r"\bd\d+\b", lambda found: real[found.group()], f"/{verb}") + f" {words}"
    if verb == "undecide":
        old, why = words.split(" ", 1)
        return f"/undecide {real[old]} {why}"
    if verb == "confirm":
        return f"/confirm {real[words]}"
    return None


def set_up(
    program: Program, home: Path, steps: list[Step], terminal: Terminal | None = None
) -> dict[str, str]:
    """Type the steps into a chat; the map from the item's ids to the home's ids.

    `chat` steps are skipped: --ask is a talk of its own, so what was said before cannot reach it.
    """
    own = terminal is None
    real: dict[str, str] = {}
    try:
        for step in steps:
            if step[0] == "note":
                program.note(home, step[1], step[2])
                _learn(home, real, "m", "memory.jsonl")
                continue
            command = step_command(step, real)
            if command is None:
                continue
            terminal = terminal or Terminal(program, home, host=NOWHERE)
            _type(terminal, step, command)
            if step[0] == "remember":
                _learn(home, real, "m", "memory.jsonl")
            elif step[0].startswith("decide"):
                _learn(home, real, "d", "decisions.jsonl")
    finally:
        if own and terminal is not None:
            terminal.quit()
    return real


def _type(terminal: Terminal, step: Step, command: str) -> None:
    """Type one command; /confirm asks once, and is answered with y."""
    if step[0] != "confirm":
        terminal.type_step(command)
        return
    before = count_lines(terminal.home)
    terminal.type_line(command)
    terminal.wait_quiet(0.5, 5.0, need_output=True)
    terminal.type_line("y")
    if not terminal.wait_for(lambda: count_lines(terminal.home) > before, STEP_LIMIT_S):
        raise DriveTrouble(
            f"{command} was not written; the screen ends with {show_screen(terminal.raw)[-300:]!r}"
        )
    terminal.wait_quiet(0.2, 3.0)


def _learn(home: Path, real: dict[str, str], letter: str, ledger: str) -> None:
    """The id that the program gave to the record just written."""
    new = load_ledger(home, ledger)[-1]["id"]
    item_id = f"{letter}{sum(key[0] == letter for key in real) + 1}"
    real[item_id] = str(new)
