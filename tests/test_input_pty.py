"""What arrives through a real pseudo-terminal, and what becomes of it (P2, R-23 to R-30)."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from typist import ALT_ENTER, CTRL_C, CTRL_D, UP
from typist import PASTE_END as END
from typist import PASTE_START as START
from typist import Typist as Hands

import companion

DRIVER = Path(__file__).with_name("drive_input.py")
PROMPT = "you>"


def environ() -> dict[str, str]:
    folders = (str(Path(companion.__file__).parent), str(DRIVER.parent))
    return {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(folders)}


class Typist(Hands):
    """A person at a terminal that runs the driver."""

    shown_prompt = re.escape(PROMPT)

    def __init__(self, home: Path, *arguments: str, **options: Any) -> None:
        super().__init__([sys.executable, str(DRIVER), str(home), *arguments], environ(), **options)

    def until(self, label: str) -> dict[str, Any]:
        self.child.expect(rf"\n{label} (\{{.*?\}})\r?\n")
        return dict(json.loads(self.child.match[1]))

    def got(self) -> dict[str, Any]:
        """The next entry; waits for the prompt behind it."""
        entry = self.until("GOT")
        return {name: value for name, value in entry.items() if value or name in ("text", "input", "kind")}

    def enter(self) -> dict[str, Any]:
        self.send("\r")
        entry = self.got()
        self.prompt()
        return entry

    def silent(self, seconds: float = 0.4) -> None:
        """Nothing was taken as an entry."""
        assert self.child.expect(["\nGOT ", pexpect.TIMEOUT], timeout=seconds) == 1

    def leave(self) -> None:
        self.send(CTRL_D)
        self.child.expect("LEFT")
        self.child.expect(pexpect.EOF)
        self.child.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Typist]]:
    typists: list[Typist] = []

    def start(*arguments: str, **options: Any) -> Typist:
        typist = Typist(tmp_path, *arguments, **options)
        typists.append(typist)
        typist.prompt()
        return typist
    yield start
    for typist in typists:
        typist.child.close(force=True)


def chat(text: str, origin: str = "typed") -> dict[str, Any]:
    return {"text": text, "input": origin, "kind": "chat"}


# Typed lines.

def test_typed_lines_are_chat_commands_and_near_misses(start: Callable[..., Typist]) -> None:
    typist = start()
    for keys, expected in (
            ("hello", chat("hello")),
            ("/remember buy milk", {"text": "/remember buy milk", "input": "typed", "kind": "command",
                                    "name": "remember", "words": "buy milk"}),
            ("/etc/hosts?", chat("/etc/hosts?"))):
        typist.type(keys)
        assert typist.enter() == expected
    for keys in ("/remeber buy milk", "/Decide x", " /decide x"):
        typist.type(keys, keys.strip())
        entry = typist.enter()
        assert entry["kind"] == "stopped" and "Did you mean" in entry["notice"]
    typist.leave()


def test_fast_keys_before_one_enter_are_typed(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.send("/decide use PostgreSQL\r")
    assert typist.got()["input"] == "typed"
    typist.prompt()
    typist.send("/decide use PostgreSQL\n")
    assert typist.got()["kind"] == "command"


def test_accents_and_wide_letters_arrive(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.send("naïve 日本語 👍🏽\r")
    assert typist.got() == chat("naïve 日本語 👍🏽")


def test_alt_enter_and_a_trailing_backslash_begin_a_new_line(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("one")
    typist.send(ALT_ENTER)
    typist.pause()
    typist.type("two\\")
    typist.send("\r")
    typist.pause()
    typist.type("three\\\\")
    assert typist.enter() == chat("one\ntwo\nthree\\\\")
    typist.type("/decide a")
    typist.send(ALT_ENTER)
    typist.pause()
    typist.type("/remember b")
    assert typist.enter()["notice"].startswith("A command is one line")


# Pastes at the prompt.

LINES = "first line\r/decide use the paste\r/remember it"


def test_a_marked_paste_of_three_lines_is_one_message(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type(START + LINES + END, "it")
    typist.silent()
    assert typist.enter() == chat(LINES.replace("\r", "\n"), "pasted")
    typist.type("/decide x")
    assert typist.enter()["input"] == "typed"
    typist.leave()


def test_an_unmarked_paste_of_three_lines_is_one_message(start: Callable[..., Typist]) -> None:
    typist = start()
    for text in (LINES, LINES + "\r", LINES.replace("\r", "\n") + "\n", LINES.replace("\r", "\r\n")):
        typist.type(text, "it")
        typist.silent()
        assert typist.enter() == chat("first line\n/decide use the paste\n/remember it", "pasted")


def test_an_unmarked_paste_in_small_pieces_runs_nothing(start: Callable[..., Typist]) -> None:
    typist = start()
    for piece in ("first ", "line\r", "/decide use ", "the paste\r", "/remember it", "\r"):
        typist.send(piece)
        time.sleep(0.004)
    typist.silent()
    assert typist.enter() == chat("first line\n/decide use the paste\n/remember it", "pasted")


def test_the_enter_of_the_same_moment_does_not_send_a_paste(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type(f"{START}/decide x{END}\r", "/decide x")
    typist.silent()
    entry = typist.enter()
    assert entry["kind"] == "stopped" and "pasted" in entry["notice"]
    typist.type("/decisions")
    assert typist.enter()["name"] == "decisions"


def test_a_command_behind_a_forged_end_mark_is_pasted(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type(f"{START}harmless{END}\r/decide x\r{END}", "harmless")
    typist.silent()
    entry = typist.enter()
    assert entry["input"] == "pasted" and entry["kind"] == "chat"


def test_pasted_words_behind_a_typed_command_need_a_second_enter(start: Callable[..., Typist]) -> None:
    typist = start()
    for name in ("remember", "decide"):
        typist.type(f"/{name} ", f"/{name}")
        typist.type(f"{START}buy milk\n{END}", "buy milk")
        typist.send("\r")
        typist.child.expect("Enter again")
        typist.silent(0.2)
        entry = typist.enter()
        assert entry == {"text": f"/{name} buy milk", "input": "pasted", "kind": "command",
                         "name": name, "words": "buy milk"}
    typist.send(UP)  # it is not in the history, where it would become typed
    typist.silent(0.2)
    assert typist.enter()["kind"] == "empty"


def test_three_enters_at_once_are_no_second_enter(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("/remember ", "/remember")
    typist.type(f"{START}buy milk{END}", "buy milk")
    typist.send("\r\r\r")
    typist.child.expect("Enter again")
    typist.silent(0.3)
    assert typist.enter()["input"] == "pasted"


def test_a_command_name_that_was_pasted_is_not_run(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("x")
    typist.send("\x01")  # to the beginning of the line
    typist.pause()
    typist.type(f"{START}/decide {END}", "/decide")
    assert typist.enter()["kind"] == "stopped"
    typist.type("/dec")
    typist.type(f"{START}ide x{END}", "ide x")
    assert typist.enter()["kind"] == "stopped"


def test_one_pasted_letter_marks_the_line_until_it_is_emptied(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("a")
    typist.type(f"{START}b{END}", "b")
    typist.type("c")
    assert typist.enter() == chat("abc", "pasted")
    typist.type(f"{START}b{END}", "b")
    typist.send("\x7f")
    typist.pause()
    typist.type("/decide c")
    assert typist.enter()["input"] == "typed"
    typist.type(f"{START}b{END}", "b")
    typist.send(CTRL_C)
    typist.pause()
    typist.type("/decide c")
    assert typist.enter()["kind"] == "command"


@pytest.mark.parametrize("keys", ["\x15\x19", "\x15\x1f", "\x17\x19", "\x15\x18\x15"])
def test_cutting_and_bringing_back_does_not_make_a_paste_typed(
        start: Callable[..., Typist], keys: str) -> None:
    typist = start()
    typist.type(f"{START}/decide{END}", "/decide")
    for key in keys:
        typist.send(key)
        typist.pause(0.05)
    typist.type("!", "!")
    assert typist.enter()["input"] == "pasted"


def test_cut_words_stay_pasted_at_a_later_prompt(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type(f"{START}buy milk{END}", "buy milk")
    typist.send("\x15")
    typist.pause()
    typist.type("hello")
    assert typist.enter() == chat("hello")
    typist.type("/decide ", "/decide")
    typist.type("\x19", "buy milk")
    typist.send("\r")
    typist.child.expect("Enter again")
    assert typist.enter()["input"] == "pasted"


def test_a_paste_behind_ctrl_q_is_pasted(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.send("\x11")
    typist.pause()
    typist.type(f"{START}/decide x{END}", "/decide x")
    assert typist.enter()["kind"] == "stopped"


def test_a_paste_into_an_older_entry_stays_marked(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("/decide old")
    typist.enter()
    typist.type(UP, "/decide old")
    typist.type(f"{START} new{END}", "new")
    for key in ("\x1b[B", UP):  # down to the empty line, and up again
        typist.send(key)
        typist.pause()
    typist.send("\r")
    typist.child.expect("Enter again")
    assert typist.enter()["input"] == "pasted"


def test_surrogates_nul_and_control_characters_arrive_as_data(start: Callable[..., Typist]) -> None:
    typist = start()
    os.write(typist.child.child_fd, b"\x1b[200~a\x00b\xffc\xed\xa0\x80\x07\x1b[2Jd\te\x1b[201~")
    typist.child.expect("e")
    typist.pause(0.2)
    entry = typist.enter()
    assert entry["text"] == "a\x00b\udcffc\udced\udca0\udc80\x07\x1b[2Jd\te"
    assert "\x1b[2J" not in typist.screen() and "\x07" not in typist.screen()


def test_hidden_and_reordering_characters_of_a_paste_can_be_seen(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type(f"{START}a\u202eb\u200bc{END}", "\\u202e")
    assert typist.enter() == chat("a\u202eb\u200bc", "pasted")
    assert "\u202e" not in typist.screen() and "\u200b" not in typist.screen()


def test_a_long_paste_is_complete(start: Callable[..., Typist]) -> None:
    typist = start()
    text = "\n".join(f"line {n} /decide {n}" for n in range(2000))
    data = (START + text.replace("\n", "\r") + END).encode()
    while data:  # the terminal takes 4096 bytes at a time
        sent = os.write(typist.child.child_fd, data[:1000])
        data = data[sent:]
        if select.select([typist.child.child_fd], [], [], 0)[0]:
            typist.child.read_nonblocking(100000, 0)
    typist.child.expect("line 1999")
    typist.pause()
    assert typist.enter() == chat(text, "pasted")


# While the program works.

def busy(typist: Typist, seconds: float) -> None:
    typist.type(f"wait{seconds}")
    typist.send("\r")
    typist.child.expect("BUSY")


def test_typed_ahead_lines_are_dropped_and_said_once(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 0.5)
    typist.send("/decide one\r")
    typist.pause()
    typist.send("/decide two\r/decide three")
    typist.until("IDLE")
    assert "dropped" in typist.until("SAID")["text"]
    typist.prompt()
    typist.silent()
    assert typist.screen().count("SAID") == 1
    assert "/decide" not in typist.screen()
    typist.type("/decide four")
    assert typist.enter()["words"] == "four"
    assert typist.screen().count("SAID") == 1


def test_enter_pressed_while_waiting_needs_no_word(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 0.3)
    typist.send("\r\r")
    typist.prompt()
    typist.silent()
    assert "SAID" not in typist.screen()


def test_keys_before_the_first_prompt_are_dropped(tmp_path: Path) -> None:
    typist = Typist(tmp_path)
    typist.send("/decide early\r")
    typist.prompt()
    typist.silent()
    typist.type("/decide x")
    assert typist.enter()["words"] == "x"


def test_keys_typed_while_a_command_works_outside_of_busy_are_dropped(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("hello")
    typist.send("\r")
    typist.child.expect("GOT")
    typist.send("/decide x\r")  # arrives in the 50 ms before the next prompt
    typist.until("SAID")
    typist.silent()


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_a_paste_begun_while_busy_that_ends_at_the_prompt_leaks_nothing(
        start: Callable[..., Typist], gap: float) -> None:
    typist = start()
    busy(typist, 0.4)
    typist.send(START + "first line\r/deci")
    typist.until("IDLE")
    typist.pause(gap)
    typist.send("de use the paste\r/remember it")
    typist.pause(gap)
    typist.send("\rlast" + END)
    assert "dropped" in typist.until("SAID")["text"]
    typist.prompt()
    typist.silent()
    typist.type("/decide x")
    assert typist.enter() == {"text": "/decide x", "input": "typed", "kind": "command", "name": "decide",
                              "words": "x"}


def test_the_rest_of_a_paste_that_was_given_up_is_pasted(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 0.2)
    typist.send(START + "first line\r")
    typist.until("SAID")  # after two seconds without its end
    typist.prompt()
    typist.type("/decide rest\r", "/decide rest")
    typist.silent()
    assert typist.enter()["kind"] == "stopped"


def test_paste_marks_stay_on_between_prompts(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 0.2)
    typist.prompt()
    assert "\x1b[?2004l" not in typist.screen()
    typist.leave()
    assert typist.screen().rindex("\x1b[?2004l") > typist.screen().rindex("\x1b[?2004h")


def test_ctrl_c_stops_the_work_and_the_talk_goes_on(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 9)
    typist.send(CTRL_C)
    typist.child.expect("STOPPED")
    typist.prompt()
    typist.type("what did I ask?")
    assert typist.enter() == chat("what did I ask?")


def test_ctrl_c_arrives_behind_a_paste_that_fills_the_queue(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 9)
    data = (START + "/decide x\r" * 3000 + END + CTRL_C).encode()
    while data:
        data = data[os.write(typist.child.child_fd, data[:1000]):]
    typist.child.expect("STOPPED")
    typist.until("SAID")
    typist.prompt()
    typist.silent()


def test_ctrl_c_again_and_again_ends_at_the_prompt(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 9)
    for _ in range(12):
        typist.send(CTRL_C)
        time.sleep(0.02)
    typist.prompt()
    typist.pause(0.3)
    typist.type("hello")
    assert typist.enter() == chat("hello")


def test_nothing_is_echoed_while_busy(start: Callable[..., Typist]) -> None:
    typist = start()
    busy(typist, 0.4)
    typist.send("unseen\r")
    typist.prompt()
    assert "unseen" not in typist.screen()


# Questions of the program's own.

def test_a_question_is_not_answered_by_keys_typed_ahead(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("ask")
    typist.send("\r")
    typist.child.expect("GOT")
    typist.send("yes\r")
    typist.child.expect(r"sure\?")
    typist.pause()
    typist.type("no")
    typist.send("\r")
    assert typist.until("REPLY") == {"text": "no", "input": "typed"}
    typist.prompt()
    typist.type("ask")
    typist.send("\r")
    typist.child.expect(r"sure\?")
    typist.pause()
    typist.send(CTRL_C)
    assert typist.until("REPLY")["text"] is None
    typist.prompt()
    typist.send(UP)
    typist.pause()
    typist.send("\r")
    assert typist.got()["text"] == "ask"  # the answer is not in the history


def test_a_question_can_offer_text_and_knows_a_paste(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("ask like this")
    typist.send("\r")
    typist.child.expect(r"sure\? like this")
    typist.pause()
    typist.type(f"{START}!{END}", "!")
    typist.send("\r")
    assert typist.until("REPLY") == {"text": "like this!", "input": "pasted"}


def test_an_editor_gets_the_terminal_as_it_was(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("lend")
    typist.send("\r")
    typist.child.expect("editor> ")
    typist.send("echoed\r")
    typist.child.expect("echoed")
    assert typist.until("LENT") == {"line": "echoed"}
    typist.prompt()
    typist.type("back")
    assert typist.enter() == chat("back")


def test_a_question_and_an_editor_in_the_middle_of_the_work(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("work")
    typist.send("\r")
    typist.child.expect(r"sure\?")
    typist.pause()
    typist.send("yes\r")
    assert typist.until("REPLY") == {"text": "yes"}
    typist.send("dropped\r")
    typist.child.expect("editor> ")
    typist.send("kept\r")
    assert typist.until("LENT") == {"line": "kept"}
    data = b"/decide x\r" * 3000 + CTRL_C.encode()
    typist.child.expect("BUSY")
    while data:
        data = data[os.write(typist.child.child_fd, data[:1000]):]
    typist.child.expect("STOPPED")
    typist.until("SAID")
    typist.prompt()
    typist.silent()


# Keys.

def test_ctrl_c_clears_the_line_and_tells_how_to_leave(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("half a line")
    typist.send(CTRL_C)
    typist.pause()
    typist.send(CTRL_C)
    typist.child.expect("Ctrl-D or /quit leaves")
    typist.type("whole")
    assert typist.enter() == chat("whole")
    os.kill(typist.child.pid, signal.SIGINT)  # the same from outside
    typist.child.expect("Ctrl-D or /quit leaves")
    typist.leave()


def test_ctrl_d_leaves_only_an_empty_line(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("a")
    typist.send(CTRL_D)
    typist.pause()
    typist.type("b")
    assert typist.enter() == chat("ab")
    typist.leave()
    assert typist.child.exitstatus == 0


def test_history_outlives_the_program_and_counts_as_typed(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("/decide use PostgreSQL")
    typist.enter()
    typist.type(START + LINES + END, "it")
    typist.enter()
    typist.type("my secret")
    typist.enter()
    typist.leave()
    typist = start()
    typist.type(UP, "remember it")
    typist.pause()
    for _ in range(3):
        typist.send(UP)
        typist.pause()
    entry = typist.enter()
    assert entry == {"text": "/decide use PostgreSQL", "input": "typed", "kind": "command",
                     "name": "decide", "words": "use PostgreSQL"}
    assert "secret" not in typist.screen()


def test_search_back(start: Callable[..., Typist]) -> None:
    typist = start()
    for text in ("the first question", "/decide x", "another"):
        typist.type(text)
        typist.enter()
    typist.send("\x12")
    typist.pause()
    typist.type("first", "the")
    typist.send("\r")  # takes the line
    typist.silent(0.3)
    assert typist.enter() == chat("the first question")


def test_forgotten_words_are_gone_from_the_arrow_keys(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("my bank is Acme")
    typist.enter()
    typist.type("forget")
    typist.enter()
    before = len(typist.seen)
    typist.send(UP)
    typist.silent(0.3)
    assert "Acme" not in "".join(typist.seen[before:])


def test_words_that_another_program_forgot_are_gone_at_the_next_prompt(
        start: Callable[..., Typist], tmp_path: Path) -> None:
    typist = start()
    typist.type("my bank is Acme")
    typist.enter()
    companion.replace_bytes(tmp_path / "logs" / "history", b'{"text": "other"}\n')
    typist.type("next")
    typist.enter()
    before = len(typist.seen)
    typist.type(UP, "next")
    typist.type(UP, "other")
    assert "Acme" not in "".join(typist.seen[before:])


def test_a_paste_into_the_search_does_not_mark_the_line(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("/decide x")
    typist.enter()
    typist.send("\x12")
    typist.pause()
    typist.type(f"{START}decide{END}", "decide")
    typist.send("\r")
    typist.pause()
    assert typist.enter()["input"] == "typed"


def test_tab_puts_the_hint_into_an_empty_line(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("\t", "/remember preference: short answers")
    typist.silent(0.2)
    assert typist.enter() == {"text": "/remember preference: short answers", "input": "typed",
                              "kind": "command", "name": "remember", "words": "preference: short answers"}


def test_tab_completes_commands_kinds_and_ids(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("/rem")
    typist.type("\t", "ember")
    typist.type("pr")
    typist.send("\t")
    typist.child.expect("how you like things")
    typist.type("e")
    typist.type("\t", "ference:")
    typist.type("short")
    assert typist.enter()["words"] == "preference: short"
    typist.type("/why m")
    typist.type("\t", "7")
    assert typist.enter() == {"text": "/why m7 ", "input": "typed", "kind": "command", "name": "why",
                              "words": "m7"}
    typist.type("/why ", "/why")
    typist.send("\t")
    typist.child.expect("maybe a DEV page")


def test_enter_on_a_chosen_completion_only_takes_it(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.type("/de")
    typist.send("\t")
    typist.pause(0.2)
    typist.send("\t")
    typist.pause(0.2)
    typist.send("\r")
    typist.silent(0.3)
    assert typist.enter()["name"] == "decide"


def test_the_bottom_line_and_a_smaller_window(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.child.expect("small-model · 2 in view")
    typist.type("some words that are long enough to wrap in a small window")
    typist.child.setwinsize(15, 40)
    typist.child.expect("small-model")
    typist.pause(0.3)
    typist.type(" more", "more")
    typist.child.setwinsize(40, 120)
    typist.pause(0.6)
    assert typist.enter() == chat("some words that are long enough to wrap in a small window more")


# Leaving in order.

def flags(typist: Typist) -> int:
    return int(termios.tcgetattr(typist.child.child_fd)[3])


@pytest.mark.parametrize("ending", ["leave", "crash", "hung up while busy", "terminated",
                                    "terminated while busy"])
def test_the_terminal_is_given_back(tmp_path: Path, ending: str) -> None:
    typist = Typist(tmp_path)
    found = flags(typist)
    typist.prompt()
    if "busy" in ending:
        busy(typist, 9)
    assert flags(typist) != found
    if ending == "leave":
        typist.send(CTRL_D)
    elif ending == "crash":
        typist.type("crash")
        typist.send("\r")
    else:
        os.kill(typist.child.pid, signal.SIGTERM if "term" in ending else signal.SIGHUP)
    typist.child.expect(pexpect.EOF)
    assert typist.screen().rstrip().count("\x1b[?2004l") >= 1
    assert typist.screen().rindex("\x1b[?2004l") > typist.screen().rindex("\x1b[?2004h")
    typist.child.wait()
    if "term" in ending:
        assert typist.child.signalstatus == signal.SIGTERM


def test_a_terminal_that_hangs_up_ends_the_talk(start: Callable[..., Typist]) -> None:
    typist = start()
    typist.child.close(force=False)
    assert not typist.child.isalive()


def test_ctrl_z_and_back(tmp_path: Path) -> None:
    shell = pexpect.spawn("bash", ["--norc", "--noprofile", "-i"], env={**environ(), "PS1": "shell> "},
                          encoding="utf-8", timeout=10)
    shell.expect("shell> ")
    shell.sendline(f"{sys.executable} {DRIVER} {tmp_path}")
    shell.expect(PROMPT)
    time.sleep(0.3)
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.expect("shell> ")
    shell.sendline("echo be''fore")
    shell.expect("before")
    shell.sendline("fg")
    shell.expect(PROMPT)
    time.sleep(0.3)
    shell.send("still here\r")
    shell.expect('"text": "still here"')
    shell.close(force=True)


# Other places to run in.

def test_inside_a_running_event_loop(start: Callable[..., Typist]) -> None:
    typist = start("loop")
    typist.type("hello")
    assert typist.enter() == chat("hello")
    typist.type(START + LINES + END, "it")
    assert typist.enter()["input"] == "pasted"
    os.kill(typist.child.pid, signal.SIGINT)
    typist.child.expect("Ctrl-D or /quit leaves")
    busy(typist, 9)
    typist.send(CTRL_C)
    typist.child.expect("STOPPED")
    typist.prompt()
    typist.leave()


def test_a_dumb_terminal_gets_plain_lines_and_the_same_rules(start: Callable[..., Typist]) -> None:
    typist = start(term="dumb")
    typist.send("hello\n")
    assert typist.got() == chat("hello")
    typist.prompt()
    typist.pause()
    typist.send("/remeber milk\n")
    assert typist.got()["kind"] == "stopped"
    typist.prompt()
    typist.pause()
    for text in (LINES, LINES + "\r"):
        typist.send(text)
        assert typist.got() == chat(LINES.replace("\r", "\n"), "pasted")
        typist.prompt()
        typist.pause()
    typist.send(START + LINES + END + "\n")  # from a terminal that marks pastes all the same
    assert typist.got() == chat(LINES.replace("\r", "\n"), "pasted")
    typist.prompt()
    typist.pause()
    typist.send(f"/remember {START}milk{END}\n")
    typist.until("SAID")
    typist.prompt()
    typist.pause()
    typist.send("\n")
    assert typist.got() == {"text": "/remember milk", "input": "pasted", "kind": "command",
                            "name": "remember", "words": "milk"}
    typist.prompt()
    typist.pause()
    typist.send(f"/remember {START}milk{END}\n")
    typist.until("SAID")
    typist.prompt()
    typist.pause()
    typist.send("hello\n")
    assert typist.got() == chat("hello")
    typist.prompt()
    typist.pause()
    typist.send("wait0.4\n")
    typist.child.expect("BUSY")
    typist.send("/decide ahead\n")
    typist.until("SAID")
    typist.prompt()
    typist.silent(0.2)
    typist.send(CTRL_C)
    typist.child.expect("Ctrl-D or /quit leaves")
    typist.prompt()
    typist.pause()
    typist.send(CTRL_D)
    typist.child.expect("LEFT")
    assert "\x1b" not in typist.screen().replace("^[", "")


def test_a_screen_that_goes_to_a_pipe_gets_no_escapes(tmp_path: Path) -> None:
    master, slave = os.openpty()
    with subprocess.Popen([sys.executable, str(DRIVER), str(tmp_path)], stdin=slave, env=environ(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        seen = b""
        while b"you>" not in seen:
            seen += os.read(process.stdout.fileno(), 1000)
        time.sleep(0.1)
        os.write(master, b"hello\n")
        while b"GOT" not in seen:
            seen += os.read(process.stdout.fileno(), 1000)
        process.terminate()
        seen += process.stdout.read()
    os.close(master)
    os.close(slave)
    assert b'"text": "hello", "input": "typed"' in seen and b"\x1b" not in seen


def test_lines_from_a_pipe_are_nobodys(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, str(DRIVER), str(tmp_path)], input="/decide x\nhello\n",
                            text=True, capture_output=True, env=environ(), timeout=20, check=True)
    entries = [json.loads(line[4:]) for line in result.stdout.split("\n") if line.startswith("GOT ")]
    assert [(entry["text"], entry["input"]) for entry in entries] == \
        [("/decide x", "none"), ("hello", "none")]
    assert "\x1b" not in result.stdout
