#!/usr/bin/env python3
"""Put a real session into README.md: the program on a terminal, a real model, nothing invented.

usage: docs/session.py        (an Ollama with the model of $COMPANION_MODEL must be running)
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pexpect

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- session -->\n```text\n", "```\n<!-- /session -->"
FIRST = ("/remember preference: short, plain answers",
         "/remember proposal: maybe give the agent its own DEV page, undecided",
         "/decide use PostgreSQL for the archive", "/quit")
SECOND = ("Which database did I choose for the archive?", "Am I giving you a DEV page?",
          "Please remember that the review is on the 10th", "/decisions", "/quit")


def run_session(home: str, lines: tuple[str, ...]) -> str:
    """What the screen showed while these lines were typed."""
    child = pexpect.spawn(sys.executable, ["-m", "companion", "--home", home], cwd=ROOT, encoding="utf-8",
                          dimensions=(50, 96), timeout=240, env={**os.environ, "TERM": "dumb", "COMPANION_HOME": home})
    shown = []
    for line in lines:
        child.expect_exact("> ")
        shown.append(child.before + "> " + line + "\n")
        child.sendline(line)
        child.expect_exact(line)
    child.expect(pexpect.EOF)
    return tidy("".join(shown) + child.before).replace(home, "~/companion")


def tidy(screen: str) -> str:
    """The screen without what the terminal would have wiped away."""
    screen = screen.replace("\r\n", "\n")
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in screen.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def main() -> None:
    """Run both talks and write them between the marks."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        home = str(Path(folder) / "home")
        session = run_session(home, FIRST) + "\n$ python -m companion\n" + run_session(home, SECOND)
    before, rest = text.split(BEGIN, 1)
    readme.write_text(before + BEGIN + "$ python -m companion\n" + session + END + rest.split(END, 1)[1],
                      encoding="utf-8")


if __name__ == "__main__":
    main()
