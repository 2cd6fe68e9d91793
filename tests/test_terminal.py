"""The chat as a place to live in: the first run, the first screen, models, mission, --debug, thinking, other
terminals, resizing, and what a pipe gets. Each test names the promise or point that it attacks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
import stub_ollama as ollama
from helpers import Clock, Sitting, make_home, make_records, run_cli
from stub_ollama import StubOllama, Wire
from typist import CTRL_C, CTRL_D, PASTE_END, PASTE_START, UP, Owner, Typist, strip_escapes

import companion

Open = Callable[..., Owner]
QWEN = "qwen2.5-coder:1.5b"


@pytest.fixture
def stub() -> Iterator[StubOllama]:
    with StubOllama() as stub:
        yield stub


@pytest.fixture
def open_owner(tmp_path: Path, stub: StubOllama) -> Iterator[Open]:
    """Starts the chat and waits for nothing; without `settings` there is no companion.toml."""
    owners: list[Owner] = []

    def start(*arguments: str, settings: str | None = None, **options: Any) -> Owner:
        if settings is not None:
            (tmp_path / "companion.toml").write_text("warm = false\nembed_model = 'none'\n" + settings)
        owners.append(Owner(tmp_path, options.pop("host", stub.host), *arguments, **options))
        return owners[-1]

    yield start
    for owner in owners:
        owner.close()


# The first run.

def test_the_first_run_asks_three_questions_and_keeps_the_answers(open_owner: Open, tmp_path: Path) -> None:
    """Point 5: account, model and mission, each asked until the answer will do; written with their quotes."""
    owner = open_owner(model=None)
    owner.expect("dev.to, if any:")
    owner.send("no such name!\r")
    owner.expect("cannot be the name")
    owner.expect("dev.to, if any:")
    owner.send("https://dev.to/anna_b/\r")
    owner.expect(f"Which model? [{QWEN}]")
    owner.send("7\r")
    owner.expect("not in the list")
    owner.expect("Which model?")
    owner.send("2\r")
    owner.expect("in a sentence?")
    mission = 'Keep "Nörd\\News" going, 100% = [x] # and \'on\''
    owner.send(mission + "\r")
    shown = owner.prompt()
    assert "smollm2:135m · local" in shown and str(tmp_path / "companion.toml") in shown
    owner.leave()
    raw = (tmp_path / "companion.toml").read_text()
    assert tomllib.loads(raw) == {"dev_username": "anna_b", "model": "smollm2:135m"}
    assert (tmp_path / "memory" / "mission.md").read_text() == mission + "\n"
    for name in ("companion.toml", "memory/mission.md"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    owner = open_owner(model=None)
    assert "dev.to, if any" not in owner.prompt()
    owner.leave()


def test_a_command_ends_the_first_questions_and_is_obeyed(open_owner: Open, tmp_path: Path) -> None:
    """Point 5, P2: a typed line with / in front is run; a pasted one is not; what is on record ends the asking."""
    owner = open_owner(model=None)
    owner.expect("dev.to, if any:")
    owner.send(f"{PASTE_START}/decide x{PASTE_END}")
    owner.expect("/decide x")
    owner.send("\r")
    owner.expect("pasted line")
    owner.expect("dev.to, if any:")
    owner.send("/remember note: tea at four\r")
    shown = owner.prompt()
    assert "Which model?" not in shown and "Saved m1" in shown
    owner.leave()
    assert owner.words() == ["tea at four"] and not owner.words("decisions")
    assert not (tmp_path / "companion.toml").exists(), "no answer was given, so none is kept"
    assert "dev.to, if any:" not in open_owner(model=None).prompt()


def test_every_first_question_can_be_skipped(open_owner: Open, tmp_path: Path) -> None:
    """Point 5: Enter three times takes the model that is there and leaves the rest open."""
    owner = open_owner(model=None)
    for question in ("dev.to, if any:", "Which model?", "in a sentence?"):
        owner.expect(question)
        owner.send("\r")
    owner.prompt()
    owner.leave()
    assert tomllib.loads((tmp_path / "companion.toml").read_text()) == {"model": QWEN}
    assert not (tmp_path / "memory" / "mission.md").exists()


@pytest.mark.parametrize("way", ["COMPANION_MODEL", "DEV_USERNAME", "toml", "ledger", "pipe", "screen"])
def test_nothing_is_asked_where_something_is_known(tmp_path: Path, way: str) -> None:
    """Point 5: only on a terminal, and only without settings, ledger and the two variables."""
    class Screen:
        def __init__(self, is_terminal: bool) -> None:
            self.is_terminal = is_terminal

        def isatty(self) -> bool:
            return self.is_terminal

    home = make_home(tmp_path)
    asked = [Any, Screen(way != "pipe"), Screen(way != "screen")]
    environ = {way: "x"} if way.isupper() else {}
    if way == "toml":
        (tmp_path / "companion.toml").write_text("")
    if way == "ledger":
        (tmp_path / "memory" / "decisions.jsonl").write_text("")
    assert not companion.is_first_run(home, asked[1], asked[2], environ)  # type: ignore[arg-type]
    if way.isupper():
        assert companion.is_first_run(home, asked[1], asked[2], {way: ""})  # type: ignore[arg-type]


def test_the_first_run_without_ollama_says_what_to_start(open_owner: Open) -> None:
    """Point 5: no model to choose from is no obstacle; the bottom line says why none can be asked."""
    owner = open_owner(model=None, host="http://127.0.0.1:9")
    owner.expect("dev.to, if any:")
    owner.send("\r")
    owner.expect("ollama serve")
    owner.expect("in a sentence?")
    owner.send(CTRL_D)
    shown = owner.prompt()
    assert "Ollama does not answer at http://127.0.0.1:9" in shown
    assert "Ollama does not answer" in owner.say("what is on record?")
    assert "Nothing on record." in owner.say("and the bike?")
    owner.leave()


# The first screen.

def test_the_first_screen_tells_what_is_new(tmp_path: Path) -> None:
    """P11, point 3: what is kept and where, the last talk, reports, waiting and lapsed lines since."""
    clock = Clock()
    records = make_records(tmp_path, clock)
    companion.remember(records, "note", "an old note", companion.Origin("typed"))
    assert "Last here" not in Sitting(make_home(tmp_path, clock)).first
    clock.move(days=181)
    companion.add_note(records, "linter", "tabs")
    home = make_home(tmp_path, clock)
    (home.reports / f"{companion.local_time(clock()):%Y-%m-%d_%H%M%S}.md").write_text("# Report\n")
    first = Sitting(home).first.splitlines()
    assert len(first) <= 8
    assert "1 memory record on record; the talk is kept in" in first[1]
    news = r"Last here .*; new since: 1 report \(/report\), 1 waiting line, 1 lapsed\. /resume"
    assert any(re.match(news, line) for line in first), first
    assert any(line.startswith("m1 has lapsed: “an old note”") for line in first)
    assert "1 line waits for you: /memory waiting" in first
    assert "new since: nothing" in Sitting(make_home(tmp_path, clock)).first


# Models, mission, report, withheld text.

def test_models_are_listed_and_switched(open_owner: Open, stub: StubOllama) -> None:
    """Point 4: size and abilities of what is installed; the next answer comes from the chosen one."""
    owner = open_owner(settings="")
    owner.prompt()
    shown = owner.say("/model")
    assert re.search(r"\* +qwen2\.5-coder:1\.5b +1\.1 GB +chat, tools", shown)
    assert re.search(r"smollm2:135m +98 MB +chat, no tools", shown) and "search only" in shown
    assert "cannot talk" in owner.say("/model nomic-embed-text")
    assert "is not installed. Installed: qwen" in owner.say("/model llama9")
    assert "cloud" in owner.say("/model big:cloud") + owner.say("/model big:120b-cloud")
    assert "Now talking with smollm2:135m" in owner.say("/model smollm2")
    assert "cannot use tools" in owner.say("hello")
    assert stub.chats[-1].body["model"] == "smollm2:135m" and "smollm2:135m · " in owner.screen()
    owner.leave()


def test_the_mission_is_edited_and_reports_are_shown(open_owner: Open, stub: StubOllama,
                                                     tmp_path: Path) -> None:
    """Point 4: $EDITOR gets the mission file and the terminal; /report takes a day; /clear begins anew."""
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\nstty -a | grep -q " echo " && rm -f "$1" && umask 0 '
                      '&& echo "Be brief, Anna." > "$1"\n')
    editor.chmod(0o755)
    owner = open_owner(settings="", environ={"EDITOR": f"'{editor}'", "VISUAL": ""})
    owner.prompt()
    assert "No mission yet." in owner.say("/mission")
    assert "Be brief, Anna." in owner.say("/mission edit")
    assert (tmp_path / "memory" / "mission.md").stat().st_mode & 0o777 == 0o600
    owner.say("hello")
    assert "Be brief, Anna." in stub.chats[-1].body["messages"][0]["content"]
    assert "There is no report yet" in owner.say("/report")
    for day in ("2026-11-27", "2026-11-28"):
        (tmp_path / "reports" / f"{day}_080000.md").write_text(f"# Check of {day}\n\nNothing <new> [here].\n")
    assert "Check of 2026-11-28" in owner.say("/report")
    shown = owner.say("/report 2026-11-27")
    assert "Check of 2026-11-27" in shown and "Nothing <new> [here]." in shown
    for wrong in ("2026-11-26", "../memory/mission", "*"):
        assert "There is no report of" in owner.say(f"/report {wrong}"), wrong
    assert "Nothing was withheld" in owner.say("/show")
    assert "What is on record stays" in owner.say("/clear")
    owner.say("again")
    assert len(stub.chats[-1].body["messages"]) == 2
    owner.leave()


# --debug.

def test_debug_keeps_what_goes_over_the_wire_and_a_forget_takes_it(open_owner: Open, stub: StubOllama,
                                                                  tmp_path: Path) -> None:
    """Point 7, P10: exact requests and replies in a file of the owner's alone; it says where; a forget
    reaches words that came in pieces."""
    owner = open_owner("--debug", settings="")
    path = tmp_path / "logs" / "debug.log"
    assert str(path) in owner.prompt()
    owner.say("/remember my bank is Acme Mutual")
    stub.always = ollama.answer("Your bank is Acme Mutual.")
    owner.say("which bank is mine?")
    raw = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600 and b"\x1b" not in raw
    assert stub.chats[-1].raw in raw and b'"content":" Acme"},"done":false}\n' in raw
    assert b"request POST" in raw and b"reply 200" in raw
    assert "m1 is forgotten" in owner.agree("/forget m1")
    assert not path.exists() or b"Acme" not in path.read_bytes()
    owner.leave()


def test_a_fault_of_the_program_is_one_sentence(tmp_path: Path) -> None:
    """Point 7: the traceback stands in logs/debug.log alone, even before the home was made."""
    code = ("import companion, sys\ndef broken(*a, **k): raise ZeroDivisionError('\\x1b[2J')\n"
            "companion.run_stats = broken\nsys.exit(companion.main(sys.argv[1:]))")
    done = subprocess.run([sys.executable, "-c", code, "--home", str(tmp_path / "new"), "--stats"], text=True,
                          capture_output=True, cwd=companion.Path(companion.__file__).parent, check=False)
    log = tmp_path / "new" / "logs" / "debug.log"
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "ZeroDivisionError" in done.stderr and str(log) in done.stderr and "Traceback" not in done.stderr
    assert "Traceback" in log.read_text() and "\x1b" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600 and log.parent.stat().st_mode & 0o777 == 0o700


# Thinking.

@pytest.mark.parametrize("mode", ["hidden", "dim"])
def test_thinking_is_never_the_answer(open_owner: Open, stub: StubOllama, mode: str) -> None:
    """Point 2, R-08: thinking is set apart or hidden, and none of it is sent again."""
    stub.always = ollama.thinks("I weigh the two.", "Take the first.")
    owner = open_owner(settings=f"thinking = '{mode}'\n", model="thinker")
    owner.prompt()
    shown = owner.say("which?")
    assert "Take the first." in shown and ("I weigh the two." in shown) == (mode == "dim")
    stub.always = ollama.thinks("I weigh and weigh.", reason="length")
    assert "thinking" in owner.say("and now?")
    stub.always = ollama.answer("Yes.")
    owner.say("go on")
    assert "weigh" not in str(stub.chats[-1].body["messages"])
    owner.leave()


# Other terminals, resizing, scrollback, pipes.

def test_a_dumb_terminal_gets_plain_lines(open_owner: Open, stub: StubOllama) -> None:
    """R-22: no escape at all where the terminal cannot move a cursor; the same rules for what is typed."""
    owner = open_owner(settings="", term="dumb")
    for line, said in (("/remember note: tea at four", "Saved m1"), ("/remeber x", "Did you mean /remember?"),
                       ("when is tea?", "tea at four")):
        owner.child.expect("> ")
        owner.send(line + "\n")
        owner.expect(said)
    owner.child.expect("> ")
    owner.send(CTRL_D)
    owner.child.expect(pexpect.EOF)
    assert "\x1b" not in owner.screen()


def test_no_color_writes_no_colour(open_owner: Open, stub: StubOllama) -> None:
    """R-22: NO_COLOR and --no-color leave the editor's cursor moves, and not one colour."""
    for arguments, environ in (((), {"NO_COLOR": "1"}), (("--no-color",), {})):
        owner = open_owner(*arguments, settings="", environ=environ)
        owner.prompt()
        stub.always = ollama.answer("# Head\n\n**bold** and `code`\n")
        assert "**bold** and `code`" in owner.say("hello")
        owner.leave()
        colours = set(re.findall(r"\x1b\[([0-9;]*)m", owner.screen()))
        assert not {code for code in colours if re.search(r"\b([349]\d|10\d)\b", code)}, colours


LINES = [f"line {n:02d}: 数据 🎉 and {'words ' * (n % 9)}until end{n:02d}." for n in range(60)]


def write_half(go: threading.Event) -> ollama.Behaviour:
    """60 lines; the second half when `go` is set."""
    def act(wire: Wire) -> None:
        for n, line in enumerate(LINES):
            if n == 30:
                go.wait(30)
            for word in ollama.cut_words(line + "\n"):
                wire.message(word)
        wire.end()
    return act


def check_lines(text: str) -> None:
    """All 60 lines are there once, whole and in order, however they were wrapped."""
    assert "".join("".join(LINES).split()) in "".join(text.split()), text


def test_a_window_resized_in_mid_answer_loses_nothing(open_owner: Open, stub: StubOllama) -> None:
    """Point 2: what is printed stays; the rest is wrapped to the new width."""
    go = threading.Event()
    stub.always = write_half(go)
    owner = open_owner(settings="num_predict = 4000\n", size=(20, 80))
    owner.prompt()
    owner.send("a long list, please\r")
    first = owner.expect("end28.")
    owner.child.setwinsize(20, 50)
    go.set()
    rest = owner.prompt()
    check_lines(first + "end28." + rest)
    assert max(companion.count_cells(line) for line in rest.splitlines()[3:]) <= 50
    owner.leave()


@pytest.mark.parametrize("columns, rows, then", [(80, 20, 0), (40, 15, 0), (80, 20, 50)])
def test_the_scrollback_holds_a_long_answer(tmp_path: Path, stub: StubOllama, columns: int, rows: int,
                                            then: int) -> None:
    """Point 2: 60 lines in a small tmux window, once resized half-way: complete, in order, not redrawn."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    go = threading.Event()
    stub.always = write_half(go)
    (tmp_path / "companion.toml").write_text("warm = false\nembed_model = 'none'\nnum_predict = 4000\n")
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", os.devnull]
    env = {**os.environ, "OLLAMA_HOST": stub.host, "COMPANION_MODEL": QWEN, "LC_ALL": "C.UTF-8",
           "PYTHONPATH": str(Path(companion.__file__).parent)}
    command = f"{sys.executable} -m companion --home {tmp_path}; sleep 60"
    try:
        subprocess.run([*tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), command], env=env,
                       check=True)
        wait_in_tmux(tmux, "in view")
        subprocess.run([*tmux, "send-keys", "a long list, please", "Enter"], check=True)
        wait_in_tmux(tmux, "end28.")
        if then:
            subprocess.run([*tmux, "resize-window", "-x", str(then), "-y", str(rows)], check=True)
        go.set()
        wait_in_tmux(tmux, "end59.")
        seen = wait_in_tmux(tmux, "in view", after="end59.")
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
    check_lines(seen)
    assert "writing ·" not in seen


def wait_in_tmux(tmux: list[str], text: str, after: str = "") -> str:
    """Everything on the screen and above it, as soon as `text` is there."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        seen = subprocess.run([*tmux, "capture-pane", "-p", "-J", "-S", "-"], check=True,
                              capture_output=True).stdout.decode()
        if text in seen.partition(after)[2] if after else text in seen:
            return seen
        time.sleep(0.03)
    raise AssertionError(f"{text!r} did not appear in:\n{seen}")


def test_a_pipe_gets_no_escape(tmp_path: Path, stub: StubOllama) -> None:
    """P12, R-22: no escape, no wrapping, in anything that is not a terminal, whatever TERM says."""
    records = make_records(tmp_path)
    address = "https://example.org/" + "a" * 150
    companion.remember(records, "note", f"see {address} \x1b[2J\u202e", companion.Origin("typed"))
    companion.decide(records, "use \x1b]0;x\x07 PostgreSQL", companion.Origin("typed"))
    (tmp_path / "reports" / "2026-11-28_080000.md").write_text(f"# Report\n\n{address}\n")
    stub.always = ollama.answer(f"# Head\n\n**See** {address} \x1b[31m\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    env = {"OLLAMA_HOST": stub.host, "COMPANION_MODEL": QWEN, "TERM": "xterm-256color",
           "FORCE_COLOR": "1"}
    for arguments, stdin in ((("--memory",), ""), (("--decisions",), ""), (("--verify",), ""),
                             (("--stats",), ""), (("--ask", "hello?"), "some data"), (("--help",), ""),
                             ((), f"/report\n/memory\n/help\n/stats\nhello?\n{UP}\n")):
        done = run_cli(tmp_path, *arguments, stdin=stdin, env=env)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202e]", done.stdout + done.stderr), arguments
        if not arguments or "memory" in arguments[0] or "ask" in arguments[0]:
            assert address in done.stdout, (arguments, done.stdout)


def test_ctrl_c_at_the_command_line_ends_with_130(tmp_path: Path, stub: StubOllama) -> None:
    """R-28: `--ask` broken off ends in a word and not in a traceback."""
    stub.always = ollama.silent()
    typist = Typist([sys.executable, "-m", "companion", "--home", str(tmp_path), "--ask", "hello?"],
                    {"OLLAMA_HOST": stub.host, "COMPANION_MODEL": QWEN,
                     "PYTHONPATH": str(Path(companion.__file__).parent)})
    typist.expect("loading")
    typist.send(CTRL_C)
    typist.child.expect(pexpect.EOF)
    typist.child.close()
    assert typist.child.exitstatus == 130 and "Traceback" not in strip_escapes(typist.screen())
