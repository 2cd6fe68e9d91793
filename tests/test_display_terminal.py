"""Long answers on a real pseudo-terminal and in tmux: complete, in order, never redrawn."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

import companion

# The answer has 60 lines with wide letters. Half-way the child waits until the window has changed.
CHILD = r'''
import os, signal, sys
import companion
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
display = companion.open_display(sys.stdout, os.environ, companion.Settings())
wide = "**\u6570\u636e** \u5f52\u6863 \U0001f389"
lines = [f"line {i:02d}: {wide} and `code` with {'words ' * (i % 9)}until end{i:02d}."
         for i in range(60)]
text = "\n".join(lines) + "\n"
if "paragraphs" in sys.argv:
    text = text.replace("\n", "\n\n")
half = text.index("line 30")
with display.open_live("writing") as live:
    stream = display.open_stream()
    for at in range(0, len(text), 9):
        stream.feed(text[at:at + 9])
        live.update(tokens=at // 4)
        if "resize" in sys.argv and at <= half < at + 9:
            signal.sigwait({signal.SIGWINCH})
    stream.close()
display.notice("all done")
if "interrupt" in sys.argv:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        with display.open_live("thinking"):
            signal.pause()
    except KeyboardInterrupt:
        display.line("stopped")
'''


def child_env() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(Path(companion.__file__).parent),
            "PYTHONUTF8": "1", "LANG": "C.UTF-8", "NO_COLOR": ""}


def check_complete(text: str) -> None:
    """All 60 lines, whole, each once and in order, whatever the wrapping."""
    flat = "".join(text.split())
    expected = "".join(f"line{i:02d}:数据归档🎉andcodewith{'words' * (i % 9)}untilend{i:02d}."
                       for i in range(60))
    assert expected in flat
    assert flat.count("line") == 60


def spawn(*words: str, size: tuple[int, int] = (20, 60)) -> pexpect.spawn:
    return pexpect.spawn(sys.executable, ["-c", CHILD, *words], env=child_env(), dimensions=size,
                         encoding="utf-8", timeout=30)


def strip(raw: str) -> str:
    """The output without colours and without the live line, each of which ends in an erase."""
    raw = re.sub(r"\x1b\[[0-9;]*m", "", raw)
    return re.sub(r"writing[^\r\n]*(?=\r\x1b\[K)", "", raw).replace("\r\x1b[K", "")


@pytest.mark.parametrize("words", [(), ("paragraphs",)])
def test_a_long_answer_is_complete_and_nothing_moves_the_cursor_up(words: tuple[str, ...]) -> None:
    child = spawn(*words)
    child.expect("all done")
    check_complete(strip(child.before))
    moves = set(re.findall(r"\x1b[^m\x1b]*?[A-Za-ln-z]", child.before))
    assert moves <= {"\x1b[K"}
    child.close()


@pytest.mark.parametrize("columns", [30, 100])
def test_a_window_resized_in_mid_answer_loses_nothing(columns: int) -> None:
    child = spawn("resize")
    child.expect("end29")
    before = child.before + child.after
    child.setwinsize(20, columns)
    child.expect("all done")
    check_complete(strip(before + child.before))
    later = strip(child.before).split("\r\n")[3:]
    assert max(companion.count_cells(line) for line in later) <= columns
    child.close()


def test_ctrl_c_leaves_no_live_line_behind() -> None:
    child = spawn("interrupt")
    child.expect("thinking · 1 s")
    child.sendintr()
    child.expect("\r\x1b\\[K")
    child.expect(pexpect.EOF)
    assert child.before == "stopped\r\n"


def test_a_dumb_terminal_gets_no_escape() -> None:
    child = pexpect.spawn(sys.executable, ["-c", CHILD], env={**child_env(), "TERM": "dumb"},
                          dimensions=(20, 60), encoding="utf-8", timeout=30)
    child.expect(pexpect.EOF)
    assert "\x1b" not in child.before
    check_complete(child.before.replace("**", "").replace("`", ""))


def test_a_pipe_gets_whole_lines() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], env=child_env(), capture_output=True,
                          timeout=30, check=True)
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 62 and b"\x1b" not in done.stdout and b"\r" not in done.stdout
    assert lines[8].startswith("line 08: **数据**") and lines[8].endswith("until end08.")


def test_a_pipe_in_the_c_locale_is_no_error() -> None:
    env = {**child_env(), "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, timeout=30,
                          check=True)
    assert b"**\\u6570\\u636e** " in done.stdout


# --- the same in tmux, which keeps a scrollback

@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    base = ["tmux", "-S", str(tmp_path / "socket"), "-f", os.devnull]
    yield base
    subprocess.run([*base, "kill-server"], capture_output=True, check=False)


def run_in_tmux(base: list[str], tmp_path: Path, columns: int, rows: int, *words: str) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    env = child_env()
    names = ("TERM", "PYTHONPATH", "PYTHONUTF8", "LANG", "NO_COLOR")
    command = "env " + " ".join(f"{name}={env[name]}" for name in names)
    command += f" {sys.executable} {script} {' '.join(words)}; sleep 60"
    subprocess.run([*base, "new-session", "-d", "-x", str(columns), "-y", str(rows), command],
                   check=True, env={**env, "TERM": "screen-256color"})


def capture(base: list[str]) -> str:
    """Everything on the screen and above it, wrapped lines joined."""
    return subprocess.run([*base, "capture-pane", "-p", "-J", "-S", "-"], check=True,
                          capture_output=True).stdout.decode()


def wait_for(base: list[str], text: str) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        seen = capture(base)
        if text in seen:
            return seen
        time.sleep(0.05)
    raise AssertionError(f"{text!r} did not appear in:\n{capture(base)}")


@pytest.mark.parametrize("words", [(), ("paragraphs",)])
@pytest.mark.parametrize("columns, rows", [(80, 20), (40, 15)])
def test_the_scrollback_holds_the_whole_answer(tmux: list[str], tmp_path: Path, columns: int,
                                               rows: int, words: tuple[str, ...]) -> None:
    run_in_tmux(tmux, tmp_path, columns, rows, *words)
    seen = wait_for(tmux, "all done")
    check_complete(seen)
    assert "writing" not in seen


@pytest.mark.parametrize("columns", [50, 110])
def test_the_scrollback_is_whole_after_a_resize(tmux: list[str], tmp_path: Path,
                                                columns: int) -> None:
    run_in_tmux(tmux, tmp_path, 80, 20, "resize")
    wait_for(tmux, "end29")
    subprocess.run([*tmux, "resize-window", "-x", str(columns), "-y", "20"], check=True)
    seen = wait_for(tmux, "all done")
    check_complete(seen)
    assert "writing" not in seen
