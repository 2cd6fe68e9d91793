"""A person at a pseudo-terminal: types, pastes, waits for what can be seen. Shared by the terminal tests."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]

import companion

ROOT = Path(companion.__file__).resolve().parent
PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"
UP, ALT_ENTER, CTRL_C, CTRL_D = "\x1b[A", "\x1b\r", "\x03", "\x04"
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


def strip_escapes(text: str) -> str:
    """What a screen got, without colours, cursor moves and the lines that were wiped again."""
    text = re.sub(r"[^\r\n]*\r\x1b\[K", "", re.sub(r"\x1b\[[0-9;]*m", "", text))
    return _ESCAPE.sub("", text).replace("\r", "")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file; none where there is no file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


class Typist:
    """A program on a terminal and the hands at it. `shown_prompt` matches what a new prompt shows."""

    shown_prompt = re.escape("> ")

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, term: str = "xterm-256color",
                 size: tuple[int, int] = (24, 100), timeout: float = 10) -> None:
        env = {**os.environ, "LC_ALL": "C.UTF-8", **environ, "TERM": term}
        self.child = pexpect.spawn(command[0], list(command[1:]), env=env, dimensions=size, timeout=timeout,
                                   encoding="utf-8", codec_errors="surrogateescape")
        self.child.delaybeforesend = None
        self.child.ptyproc.delayafterclose = self.child.ptyproc.delayafterterminate = 0.02
        self.seen: list[str] = []
        self.child.logfile_read = self

    def write(self, text: str) -> None:
        self.seen.append(text)

    def flush(self) -> None:
        """For pexpect."""

    def screen(self) -> str:
        """Everything that was shown so far, escapes included."""
        return "".join(self.seen)

    def send(self, keys: str) -> None:
        self.child.send(keys)

    def expect(self, text: str, timeout: float | None = None) -> str:
        """Wait until `text` is shown; what was shown before it since the last wait."""
        self.child.expect(re.escape(text), timeout=-1 if timeout is None else timeout)
        return strip_escapes(self.child.before)

    def type(self, keys: str, shown: str | None = None) -> None:
        """Send keys and wait until the editor shows them."""
        self.child.send(keys)
        self.child.expect(re.escape(keys if shown is None else shown))
        self.pause()

    def pause(self, seconds: float = 0.08) -> None:
        """Let the program take what was sent; what it shows meanwhile can still be expected."""
        time.sleep(seconds)

    def prompt(self) -> str:
        """Wait for the next prompt; what was shown before it."""
        self.child.expect(self.shown_prompt)
        return strip_escapes(self.child.before)

    def close(self) -> None:
        """End the program, if it still runs."""
        if self.child.isalive():
            self.child.kill(signal.SIGKILL)
        self.child.close(force=True)


class Owner(Typist):
    """The owner in the real chat. A new prompt is known by what the editor sends at its start, and its
    bottom line."""

    shown_prompt = r"\x1b\[\?2004h(?:\x1b\[\?1l)?\x1b\[\?25l.*?records? in view · [^\r\n\x1b]+"

    def __init__(self, home: Path, host: str, *arguments: str, model: str | None = "qwen2.5-coder:1.5b",
                 environ: Mapping[str, str] | None = None, **options: Any) -> None:
        env = {"PYTHONPATH": str(ROOT), "OLLAMA_HOST": host, "TZ": "UTC", "HOME": str(home),
               "COMPANION_MODEL": model or "", "DEV_USERNAME": "", "DEV_URL": "http://127.0.0.1:9",
               "NO_COLOR": ""}
        self.home = home
        super().__init__([sys.executable, "-m", "companion", "--home", str(home), *arguments],
                         env | dict(environ or {}), timeout=20, **options)

    def say(self, line: str) -> str:
        """Type a line and Enter; what was shown until the next prompt."""
        self.send(line + "\r")
        return self.prompt()

    def agree(self, line: str) -> str:
        """Type a line and answer yes to every question; what was shown until the next prompt."""
        shown, answers = "", [re.escape("[y/N]"), self.shown_prompt]
        self.send(line + "\r")
        while self.child.expect(answers) == 0:
            shown += strip_escapes(self.child.before)
            self.send("y\r")
        return shown + strip_escapes(self.child.before)

    def leave(self) -> str:
        """Ctrl-D on an empty line; the exit code must be 0."""
        self.send(CTRL_D)
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus == 0, self.screen()
        return strip_escapes(self.child.before)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file of the home."""
        return read_lines(self.home / name)

    def words(self, name: str = "memory") -> list[str]:
        """The words on record in a ledger, in order."""
        return [line["text"] for line in self.lines(f"memory/{name}.jsonl")
                if line["op"] in ("add", "decide")]
