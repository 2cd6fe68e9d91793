#!/usr/bin/env python3
"""Make the pictures of README: the program in a terminal of 80 by 30, a real model, nothing invented.

usage: docs/pictures.py        (needs tmux, and an Ollama with the model of $COMPANION_MODEL)

Each picture is what tmux held on its screen, colours and all, set as SVG by rich.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 80, 30
PROMPT = re.compile(r"^>\n.*records? in view", re.M)
# Each picture begins on a clear screen: its name, and what is typed.
PICTURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("record", ("/remember preference: short, plain answers",
                "/remember proposal: maybe give the agent its own DEV page, undecided",
                "/decide use PostgreSQL for the archive", "Am I giving you a DEV page?")),
    ("hint", ("Which database did I choose for the archive?", "I am going with Hetzner for the hosting.",
              "/open")),
)


class Screen:
    """A tmux window with the program in it."""

    def __init__(self, folder: str) -> None:
        self.tmux = ["tmux", "-S", f"{folder}/socket", "-f", os.devnull]
        home = f"{folder}/companion"
        command = f"cd {ROOT} && exec {sys.executable} -m companion --home {home}"
        self.run("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), command)
        self.home = home

    def run(self, *words: str) -> str:
        """One tmux command."""
        return subprocess.run([*self.tmux, *words], check=True, capture_output=True, text=True).stdout

    def wait(self, behind: str = "") -> None:
        """Until there is a prompt below the line that was typed."""
        deadline = time.monotonic() + 240
        while not PROMPT.search(self.run("capture-pane", "-p", "-S", "-").rpartition(behind or "Companion")[2]):
            if time.monotonic() > deadline:
                raise SystemExit("The prompt did not come back:\n" + self.run("capture-pane", "-p"))
            time.sleep(0.1)

    def say(self, line: str) -> None:
        """Type a line, and wait until it was answered."""
        self.run("send-keys", "-l", line)
        while line[-20:] not in self.run("capture-pane", "-p", "-J"):
            time.sleep(0.05)
        self.run("send-keys", "Enter")
        self.wait(f"> {line}")


def build_picture(screen: str, title: str) -> str:
    """An SVG of a screen with its colours; it fetches no font."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen.rstrip("\n")))
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.S)


def main() -> None:
    """Drive the session and write the pictures next to this script."""
    with tempfile.TemporaryDirectory() as folder:
        screen = Screen(folder)
        try:
            screen.wait()
            for name, lines in PICTURES:
                for line in lines:
                    screen.say(line)
                shown = screen.run("capture-pane", "-p", "-e").replace(screen.home, "~/companion")
                Path(__file__).with_name(f"{name}.svg").write_text(build_picture(shown, "companion"), "utf-8")
                screen.run("send-keys", "C-l")
                while PICTURES[0][1][0] in screen.run("capture-pane", "-p"):
                    time.sleep(0.05)
        finally:
            screen.run("kill-server")


if __name__ == "__main__":
    main()
