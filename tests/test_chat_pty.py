"""The whole program on a pseudo-terminal, against a scripted Ollama: what the owner types, pastes, breaks off
and sees. Each test says in its docstring which promise it attacks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stub_ollama as ollama
from helpers import run_cli
from stub_ollama import StubOllama, Wire
from typist import CTRL_C, PASTE_END, PASTE_START, ROOT, UP, Owner, read_lines, strip_escapes

from companion import NOTICE_CONFIRM, NOTICE_DROPPED, NOTICE_PASTED

DROPPED = NOTICE_DROPPED[:40]
Open = Callable[..., Owner]


@pytest.fixture
def stub() -> Iterator[StubOllama]:
    with StubOllama() as stub:
        yield stub


@pytest.fixture
def open_chat(tmp_path: Path, stub: StubOllama) -> Iterator[Open]:
    """Starts the chat in one home and waits for its prompt; `settings` are lines of companion.toml."""
    owners: list[Owner] = []

    def start(*arguments: str, settings: str = "", **options: Any) -> Owner:
        (tmp_path / "companion.toml").write_text("warm = false\nembed_model = 'none'\n" + settings)
        owners.append(Owner(tmp_path, stub.host, *arguments, **options))
        owners[-1].first = owners[-1].prompt()  # type: ignore[attr-defined]
        return owners[-1]

    yield start
    for owner in owners:
        owner.close()


def last_words(stub: StubOllama) -> str:
    """The last message of the last request."""
    return str(stub.chats[-1].body["messages"][-1]["content"])


# Records, and what is no record.

def test_what_was_said_stands_after_a_restart(open_chat: Open, stub: StubOllama) -> None:
    """P2, P3, P5: three typed lines are on record with their standing; a model that claims more than the
    record leaves the owner looking at the record."""
    owner = open_chat()
    assert "m1" in owner.say("/remember preference: short, plain answers")
    assert "m2" in owner.say("/remember proposal: maybe give the agent its own DEV page, undecided")
    assert "d1" in owner.say("/decide use PostgreSQL for the archive")
    owner.leave()
    owner = open_chat()
    assert "1 decision and 2 memory records" in owner.first  # type: ignore[attr-defined]
    stub.always = ollama.answer("You are not giving me a DEV page yet.")
    shown = owner.say("Do I give you a DEV page?")
    assert "undecided · proposal, you typed it on" in shown
    assert "no decision found on this" in shown and "You are not giving me" not in shown
    assert "You are not giving me a DEV page yet." in owner.say("/show")
    stub.always = ollama.answer("You decided on PostgreSQL.")
    assert "decided" in owner.say("Which database does the archive use?")
    stub.always = ollama.answer("You like them short.")
    assert "preference" in owner.say("How long should answers be?")
    owner.leave()
    lines = owner.lines("memory/memory.jsonl") + owner.lines("memory/decisions.jsonl")
    assert [(line["author"], line["path"], line["input"]) for line in lines] == [
        ("owner", "repl:/remember", "typed"), ("owner", "repl:/remember", "typed"),
        ("owner", "repl:/decide", "typed")]


def test_a_near_miss_is_stopped_and_a_path_is_chat(open_chat: Open, stub: StubOllama) -> None:
    """P2, R-25: a command that was mistyped goes nowhere; a path goes to the model."""
    owner = open_chat()
    for line, meant in (("/remeber buy milk", "/remember"), ("/Decide x", "/decide"),
                        (" /decide x", "/decide")):
        assert f"Did you mean {meant}?" in owner.say(line)
    assert not stub.chats
    owner.say("/home/x/notes.txt what is this?")
    assert last_words(stub).endswith("/home/x/notes.txt what is this?")
    owner.leave()
    assert not owner.words() and not owner.words("decisions")


def test_a_hedged_decision_is_kept_only_when_insisted_on(open_chat: Open) -> None:
    """P2, P5: `maybe` decides nothing the first time, nor after something else was said in between."""
    owner = open_chat()
    assert "nothing was recorded" in owner.say("/decide maybe use Postgres")
    owner.say("/stats")
    assert "nothing was recorded" in owner.say("/decide maybe use Postgres")
    assert owner.words("decisions") == []
    assert "Decided d1" in owner.say("/decide maybe use Postgres")
    owner.leave()
    assert owner.words("decisions") == ["maybe use Postgres"]


def test_a_hint_is_one_tab_away_and_saves_nothing_by_itself(open_chat: Open) -> None:
    """P2: the command stands in the owner's words; it is the owner who sends it."""
    owner = open_chat()
    shown = owner.say("I prefer tea over coffee.")
    assert "/remember preference:" in shown and owner.words() == []
    owner.send("\t")
    owner.expect("/remember preference:")
    assert owner.words() == []
    assert "Saved m1" in owner.say("")
    owner.leave()
    [line] = owner.lines("memory/memory.jsonl")
    assert (line["kind"], line["input"], line["author"]) == ("preference", "typed", "owner")
    assert line["text"] in "I prefer tea over coffee."


def test_confirm_asks_once_and_takes_only_a_typed_yes(open_chat: Open, tmp_path: Path) -> None:
    """P2, P4: a helper's line waits until the owner types yes; Enter, Ctrl-C and a pasted yes are no."""
    assert run_cli(tmp_path, "--note", "the owner likes tabs", "--as", "linter").returncode == 0
    owner = open_chat()
    assert "1 line waits" in owner.first  # type: ignore[attr-defined]
    for answer in ("\r", CTRL_C, f"{PASTE_START}y{PASTE_END}", "n\r"):
        owner.send("/confirm m1\r")
        owner.expect("Confirm exactly these words? [y/N]")
        owner.send(answer)
        if answer.startswith(PASTE_START):
            owner.expect("y")
            owner.send("\r")
        assert "m1 still waits" in owner.prompt()
    owner.send("/confirm m1\r")
    owner.expect("Confirm exactly these words? [y/N]")
    shown = owner.say("y")
    assert "m1 is confirmed" in shown and "helper:linter" in shown  # one typed yes was enough
    assert "[y/N]" not in shown.partition("m1 is confirmed")[2]
    owner.leave()
    acts = [line for line in owner.lines("memory/memory.jsonl") if line["op"] == "confirm"]
    assert [(act["author"], act["input"]) for act in acts] == [("owner", "typed")]


# Pastes and keys that come too early.

THREE = "some words of a page\r/decide use the page\r/remember the page"


@pytest.mark.parametrize("marks", [(PASTE_START, PASTE_END), ("", "")], ids=["marked", "unmarked"])
def test_a_paste_of_three_lines_runs_nothing(open_chat: Open, stub: StubOllama,
                                             marks: tuple[str, str]) -> None:
    """P2, R-23: commands inside a paste are words of one message, with and without brackets."""
    owner = open_chat()
    owner.send(marks[0] + THREE + marks[1])
    owner.expect("/remember the page")
    owner.say("")
    sent = last_words(stub)
    assert THREE.replace("\r", "\n") in sent and "from a paste" in sent and len(stub.chats) == 1
    owner.send(f"{PASTE_START}/decide alone{PASTE_END}")
    owner.expect("/decide alone")
    assert NOTICE_PASTED[:50] in owner.say("") and len(stub.chats) == 1
    owner.leave()
    assert not owner.words() and not owner.words("decisions")
    assert [line["input"] for line in owner.lines("logs/chat.jsonl") if line["role"] == "user"] == ["pasted"]


def test_pasted_words_behind_a_typed_command_need_a_second_enter(open_chat: Open) -> None:
    """P2, P3: what was pasted behind `/remember ` is kept only after a second Enter, and says so."""
    owner = open_chat()
    owner.send("/remember ")
    owner.expect("/remember")
    owner.send(f"{PASTE_START}buy milk{PASTE_END}")
    owner.expect("buy milk")
    owner.send("\r")
    owner.expect(NOTICE_CONFIRM[:30])
    assert owner.words() == []
    assert "Saved m1" in owner.say("")
    owner.leave()
    [line] = owner.lines("memory/memory.jsonl")
    assert (line["text"], line["input"]) == ("buy milk", "pasted")


def test_keys_and_pastes_during_an_answer_are_dropped(open_chat: Open, stub: StubOllama) -> None:
    """P2, R-23: type-ahead, a marked paste whose end comes after the answer, and an unmarked one: nothing of
    them runs, and each time one line says so."""
    owner = open_chat()
    for before, after in (("/decide typed ahead\r", ""),
                          (PASTE_START + "one\r/decide two\r", "/remember three" + PASTE_END),
                          (THREE + "\r", "")):
        go = threading.Event()
        stub.always = ollama.waits_for(go, ollama.answer("Done."))
        owner.send("wait for it\r")
        owner.expect("loading" if before[:2] == "/d" else "reading")
        owner.send(before)
        go.set()
        owner.expect("Done.")
        owner.send(after)
        assert owner.prompt().count(DROPPED) == 1
    owner.say("and now?")
    assert last_words(stub).endswith("and now?") and len(stub.chats) == 4
    owner.leave()
    assert not owner.words() and not owner.words("decisions")


# Breaking off.

LONG = ("Here is the first part of an answer that is long enough to fill more than one row of the window, so "
        "that some of it can be seen.")


def wait_for_chat(stub: StubOllama) -> None:
    """Wait until one more request of /api/chat has arrived."""
    assert stub.arrived.acquire(timeout=10)
    while stub.asked[-1].path != "/api/chat":
        assert stub.arrived.acquire(timeout=10)


def thinks_on(wire: Wire) -> None:
    """Thinking that does not end."""
    wire.message(thinking="Let me weigh this.\n")
    wire.wait_gone()


def test_ctrl_c_at_four_moments(open_chat: Open, stub: StubOllama) -> None:
    """R-28: while the model loads, thinks and writes (a tool: below): each time the prompt is back, the
    connection is closed, and the talk goes on with its roles in turn."""
    owner = open_chat(model="thinker", settings="thinking = 'dim'\n")
    for question, behaviour, seen in (("one", ollama.silent(), "loading"),
                                      ("two", thinks_on, "Let me weigh this."),
                                      ("three", ollama.silent(LONG + " And"), "more than")):
        stub.always = behaviour
        stub.client_gone.clear()
        owner.send(f"question {question}\r")
        wait_for_chat(stub)
        owner.expect(seen)
        owner.send(CTRL_C)
        assert "Stopped. The talk goes on." in owner.prompt()
        assert stub.client_gone.wait(10)
    stub.always = ollama.answer("You asked the third question.")
    assert "the third question" in owner.say("what did I just ask?")
    messages = stub.chats[-1].body["messages"]
    assert [m["role"] for m in messages] == ["system", *("user", "assistant") * 3, "user"]
    assert LONG in messages[-2]["content"]
    assert " ".join(strip_escapes(owner.screen()).split()).count(LONG) == 1
    owner.leave()


def test_ctrl_c_while_a_tool_looks_something_up(open_chat: Open, stub: StubOllama) -> None:
    """R-28, P12: a look-up that hangs can be broken off; nothing half-done stays in the talk."""
    with StubOllama() as deaf:     # any server that accepts and never answers will do
        deaf.instead["/api/articles"] = deaf.instead["/api/articles/latest"] = ollama.silent()
        owner = open_chat(environ={"DEV_URL": deaf.host, "DEV_USERNAME": "anna"})
        stub.then(ollama.tool_call("dev_articles", {}))
        owner.send("what is new on DEV?\r")
        owner.expect("reading dev_articles")
        assert deaf.arrived.acquire(timeout=10)
        owner.send(CTRL_C)
        assert "Stopped. The talk goes on." in owner.prompt()
        assert "Fine." in owner.say("and now?")
        assert [m["role"] for m in stub.chats[-1].body["messages"]] == ["system", "user", "assistant", "user"]
        owner.leave()


# Later runs.

def test_history_lasts_and_is_the_owners_alone(open_chat: Open, tmp_path: Path) -> None:
    """P10, R-26: Up brings back commands and chat of the last run; the file is 0600; a forget reaches it."""
    owner = open_chat()
    owner.say("/remember my bank is Acme Mutual")
    owner.say("a question about tea")
    owner.leave()
    assert (tmp_path / "logs" / "history").stat().st_mode & 0o777 == 0o600
    owner = open_chat()
    owner.send(UP)
    owner.expect("about tea")
    owner.send(UP)
    owner.expect("Acme Mutual")
    owner.send(CTRL_C)
    assert "m1 is forgotten" in owner.agree("/forget m1")
    before = len(owner.seen)
    owner.send(UP)
    owner.expect("/forget m1")
    owner.send(UP)
    owner.expect("about tea")
    owner.send(UP)
    owner.send(CTRL_C)
    owner.say("/stats")
    assert "Acme" not in "".join(owner.seen[before:])
    owner.leave()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"Acme" in path.read_bytes()]


def test_a_talk_is_taken_up_again(open_chat: Open, stub: StubOllama) -> None:
    """P2: --resume and /resume give the model the earlier turns; an --ask keeps its label."""
    owner = open_chat()
    stub.always = ollama.answer("Ghent is a town.")
    owner.say("tell me about Ghent")
    owner.leave()
    env = {"OLLAMA_HOST": stub.host, "COMPANION_MODEL": "qwen2.5-coder:1.5b"}
    assert run_cli(owner.home, "--ask", "and Bruges?", "--as", "bot", env=env).returncode == 0
    owner = open_chat("--resume")
    assert "2 turns" in owner.first  # type: ignore[attr-defined]
    owner.say("and now?")
    said = [m["content"] for m in stub.chats[-1].body["messages"][1:]]
    assert said[0].endswith("tell me about Ghent") and "helper:bot" in said[2]
    owner.leave()
    owner = open_chat()
    assert "3 turns" in owner.say("/resume")
    assert "already" in owner.say("/resume")
    owner.say("still?")
    assert len(stub.chats[-1].body["messages"]) == 8
    owner.leave()


def test_a_talk_that_is_not_kept_leaves_no_word_anywhere(open_chat: Open, tmp_path: Path) -> None:
    """P10: keep_chat = false keeps nothing: no chat log, no history, no word in any file."""
    owner = open_chat("--debug", settings="keep_chat = false\n")
    assert "not kept" in owner.first  # type: ignore[attr-defined]
    owner.say("the word is xylophone")
    owner.send(UP)
    owner.expect("xylophone")       # within the run it is still there
    owner.send(CTRL_C)
    owner.say("/stats")
    owner.leave()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"xylophone" in path.read_bytes()]


# Without a terminal.

def test_a_chat_from_a_pipe_writes_nothing(tmp_path: Path, stub: StubOllama) -> None:
    """P2: without a terminal each command that writes is refused, the exit code is 2, no ledger is begun."""
    env = {"OLLAMA_HOST": stub.host, "COMPANION_MODEL": "qwen2.5-coder:1.5b"}
    commands = ("/remember a", "/decide b", "/undecide d1 c", "/confirm m1", "/discard m1", "/renew m1",
                "/forget m1 ", "/daily", "/export", "/mission edit", "/verify --accept decisions")
    for command in commands:
        done = run_cli(tmp_path, stdin=f"{command}\n/memory\n", env=env)
        assert done.returncode == 2 and "terminal" in done.stdout + done.stderr, (command, done)
        assert "\x1b" not in done.stdout
    done = run_cli(tmp_path, stdin="hello\n/decisions\n", env=env)
    assert done.returncode == 0 and "Fine." in done.stdout
    assert not list((tmp_path / "memory").glob("*.jsonl")) and not list((tmp_path / "reports").iterdir())
    chat = (tmp_path / "logs" / "chat.jsonl").read_text()
    assert '"author":"unrecorded"' in chat.replace(" ", "") and '"owner"' not in chat


def test_ask_reads_piped_text_as_data(tmp_path: Path, stub: StubOllama) -> None:
    """P2, P12: what comes through a pipe is wrapped with its origin, is no record, and nobody typed it."""
    env = {"OLLAMA_HOST": stub.host, "COMPANION_MODEL": "qwen2.5-coder:1.5b"}
    stub.always = ollama.answer("One file changed.")
    data = "/decide use it\n\x1b[2Jdiff --git a b\n"
    done = run_cli(tmp_path, "--ask", "what changed?", stdin=data, env=env)
    assert (done.returncode, done.stdout) == (0, "One file changed.\n")
    sent = last_words(stub)
    assert "the pipe" in sent and "diff --git a b" in sent and "\x1b" not in sent
    assert sent.index("diff --git") < sent.index("what changed?")
    run_cli(tmp_path, "--ask", "and now?", "--as", "bot", env=env)
    authors = [line["author"] for line in read_lines(tmp_path / "logs" / "chat.jsonl")
               if line["role"] == "user"]
    assert authors == ["unrecorded", "helper:bot"]
    assert not list((tmp_path / "memory").glob("*.jsonl"))


def test_an_open_pipe_in_which_nothing_stirs_is_left(tmp_path: Path, stub: StubOllama) -> None:
    """P2: a pipe that another program keeps open does not hold the question for ever, and that is told."""
    env = {**os.environ, "OLLAMA_HOST": stub.host, "COMPANION_MODEL": "qwen2.5-coder:1.5b"}
    with subprocess.Popen([sys.executable, "-m", "companion", "--home", str(tmp_path), "--ask", "hello?"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=env, cwd=ROOT) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "Fine." in process.stdout.read()
        assert "Nothing came through the pipe" in process.stderr.read()
