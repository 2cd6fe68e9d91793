"""What counts as typed, pasted, command and chat (P2), and the history file. No terminal needed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from companion import (
    PASTE_END,
    PASTE_START,
    Choice,
    Entry,
    HistoryFile,
    Home,
    LineState,
    Meaning,
    PasteSplitter,
    PromptKeyboard,
    StorageFailed,
    Usage,
    classify_entry,
    drain,
    find_completions,
    has_letters,
    is_dumb,
    is_keyboard,
    is_several_lines,
    is_worth_recalling,
    open_keyboard,
    parse_history,
    read_burst,
    sort_burst,
)

NAMES = ("help", "remember", "decide", "undecide", "memory", "decisions", "open", "why", "confirm",
         "discard", "renew", "forget", "daily", "report", "trend", "mission", "model", "stats", "verify",
         "show", "export", "resume", "clear", "quit")


def classify(text: str, origin: str = "typed", head: str = "") -> Meaning:
    return classify_entry(Entry(text, origin, head), NAMES)


# Typed lines.

@pytest.mark.parametrize(("text", "name", "words"), [
    ("/remember buy milk", "remember", "buy milk"),
    ("/remember  preference:  short  answers ", "remember", "preference:  short  answers"),
    ("/decide --replaces d3 use PostgreSQL", "decide", "--replaces d3 use PostgreSQL"),
    ("/decide\tuse PostgreSQL", "decide", "use PostgreSQL"),
    ("/quit", "quit", ""),
    ("/quit \n", "quit", ""),
    ("/why /etc/hosts", "why", "/etc/hosts"),
])
def test_a_typed_line_with_an_exact_name_is_a_command(text: str, name: str, words: str) -> None:
    assert classify(text) == Meaning("command", name, words)


@pytest.mark.parametrize(("text", "meant"), [
    ("/remeber buy milk", "/remember"), ("/Decide x", "/decide"), ("/DECIDE x", "/decide"),
    (" /decide x", "/decide"), ("\t/decide x", "/decide"), ("\u00a0/decide x", "/decide"),
    ("\ufeff/decide x", "/decide"), ("\u200b/remember x", "/remember"), ("/decide: x", "/decide"),
    ("/decide, x", "/decide"), ("/d\u00e9cide x", "/decide"), ("/rem x", "/remember"),
    ("/ decide x", "/decide"), ("/ Remember x", "/remember"), ("\\decide x", "/decide"),
    ("\uff0fdecide x", "/decide"), ("  /remeber x", "/remember"), ("/quti", "/quit"),
    ("/exit", "/quit"), ("/save buy milk", "/remember"), ("/undo", "/undecide"),
    ("/memry", "/memory"), ("/?", "/help"), ("/h", "/help"),
])
def test_a_near_miss_is_stopped_with_a_suggestion(text: str, meant: str) -> None:
    meaning = classify(text)
    assert meaning.kind == "stopped", meaning
    assert f"mean {meant}?" in meaning.notice or (meant == "/help" and meant in meaning.notice)


@pytest.mark.parametrize("text", ["/", "/xyzzy buy milk", "/s", "/forgetting everything", "/ "])
def test_an_unknown_word_behind_a_stroke_is_not_sent(text: str) -> None:
    meaning = classify(text)
    assert meaning.kind == "stopped"
    assert "/help" in meaning.notice or "/forget" in meaning.notice


@pytest.mark.parametrize("text", [
    "/home/x/notes.txt what is this?", "/etc/hosts?", "/etc/hosts", "/notes.txt is mine",
    "/tmp is full, why?",
    "/etc?", "//comment", "/* comment */", "/2 of them", "/r/python", "hello", "what does /decide do?",
    "\\alpha + \\beta", "/ 3 is what?", "1/2", "> /decide x", "decide: use PostgreSQL",
    "/memory/old/notes.txt", "/memory.jsonl: what is in it?", "hello\n/decide x",
])
def test_paths_and_all_the_rest_are_chat(text: str) -> None:
    assert classify(text) == Meaning("chat")


@pytest.mark.parametrize("text", ["", " ", "\n", " \n\t ", "\u00a0"])
def test_nothing_is_empty(text: str) -> None:
    assert classify(text).kind == "empty"


def test_a_typed_command_of_several_lines_is_stopped() -> None:
    assert classify("/decide a\nb").kind == "stopped"
    assert classify("/decide a\nb").notice.startswith("A command is one line")
    assert classify("\n/decide a\nb").kind == "stopped"
    assert classify("\n/decide a").kind == "stopped"


# Pastes.

@pytest.mark.parametrize("text", ["/decide x", " /decide x", "/remember x", "/etc/hosts", "/remeber x", "/"])
def test_a_pasted_line_with_a_stroke_is_neither_run_nor_sent(text: str) -> None:
    for head in ("", "/", "/dec", "hello"):
        meaning = classify(text, "pasted", head)
        assert meaning.kind == "stopped", (text, head)
        assert "pasted" in meaning.notice


@pytest.mark.parametrize("text", ["one\n/decide two\nthree", "/decide x\n/remember y\nz", "/decide x\n/y"])
def test_a_longer_paste_is_one_chat_message(text: str) -> None:
    assert classify(text, "pasted") == Meaning("chat")


def test_words_pasted_behind_a_typed_command_are_its_words() -> None:
    assert classify("/remember buy milk", "pasted", "/remember ") == \
        Meaning("command", "remember", "buy milk")
    assert classify("/decide x", "pasted", "/decide use ").kind == "command"
    assert classify("/decide use x", "pasted", "/decide use ").kind == "command"
    assert classify("/decide x", "pasted", "/remember ").kind == "stopped"    # the word was not typed
    assert classify("/remeber x", "pasted", "/remeber ").kind == "stopped"
    assert classify("/remember a\n/decide b", "pasted", "/remember ").kind == "stopped"


def test_a_path_typed_in_front_of_a_paste_is_chat() -> None:
    assert classify("/home/x/notes.txt what?", "pasted", "/home/x/").kind == "chat"


@given(st.text(), st.sampled_from(["", "/", "/decide", "/decide "]))
def test_no_paste_into_an_empty_line_is_ever_a_command(text: str, start: str) -> None:
    assert classify(start + text, "pasted", "").kind != "command"


@given(st.text())
def test_a_command_is_always_one_line_with_an_exact_name(text: str) -> None:
    meaning = classify("/" + text)
    if meaning.kind == "command":
        assert text.split()[0] in NAMES
        assert "\n" not in text.strip() and "\r" not in text.strip()


# What a terminal sends, cut into parts.

KEYS = st.text(st.characters(exclude_characters="\x1b"), max_size=12)


def join(parts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of one kind made one, as the pieces of a chunked read are."""
    joined: list[tuple[str, str]] = []
    for kind, text in parts:
        if joined and joined[-1][0] == kind == "typed":
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    return joined


@given(st.lists(st.tuples(st.booleans(), KEYS), max_size=6), st.lists(st.integers(1, 9), max_size=40))
def test_marks_are_found_wherever_a_read_ends(pieces: list[tuple[bool, str]], cuts: list[int]) -> None:
    stream = "".join(PASTE_START + text + PASTE_END if pasted else text for pasted, text in pieces)
    expected = join(("pasted" if pasted else "typed", text) for pasted, text in pieces if pasted or text)
    splitter, parts, rest = PasteSplitter(), list[tuple[str, str]](), stream
    for cut in [*cuts, len(stream)]:
        parts += splitter.feed(rest[:cut])
        rest = rest[cut:]
    parts += splitter.feed(rest)
    assert join(parts) == expected
    assert not splitter.open


def test_an_escape_key_is_held_back_only_until_the_next_key() -> None:
    splitter = PasteSplitter()
    assert splitter.feed("a\x1b") == [("typed", "a")]
    assert splitter.feed("[A") == [("typed", "\x1b[A")]
    assert splitter.feed("\x1b") == []
    assert splitter.flush() == "\x1b"
    assert splitter.flush() == ""


def test_a_start_mark_inside_a_paste_is_text() -> None:
    splitter = PasteSplitter()
    parts = splitter.feed(f"{PASTE_START}a{PASTE_START}b{PASTE_END}c")
    assert parts == [("pasted", f"a{PASTE_START}b"), ("typed", "c")]


def test_text_in_front_of_a_stray_end_mark_was_pasted() -> None:
    assert PasteSplitter().feed(f"/decide x\r{PASTE_END}") == [("pasted", "/decide x\r")]


def test_after_an_abandoned_paste_several_letters_are_its_rest() -> None:
    splitter = PasteSplitter()
    splitter.feed(PASTE_START + "half")
    assert splitter.abandon() == [("pasted", "half")]
    assert splitter.suspect
    assert burst(splitter, "/decide x\r") == [("pasted", "/decide x\r")]
    assert burst(splitter, "/") == [("typed", "/")]
    assert not splitter.suspect
    assert burst(splitter, "/decide x\r") == [("typed", "/decide x\r")]


@pytest.mark.parametrize(("text", "several"), [
    ("hello\r", False), ("hello", False), ("\r", False), ("\r\r\r", False), ("hello\n", False),
    ("hello\r\n", False),
    ("a\rb", True), ("a\rb\r", True), ("a\n/decide b\n", True), ("a\r\n\r\n", True), ("\r/decide x\r", True),
    ("a\x1b\rb\r", False), ("\x1b[A\r", False), ("a\r\x1b[12;1R", False), ("a\r\x1b[A", False),
    ("a\r\x03", False),
    ("\x1bOA\r", False), ("\udcff\r\udcff", True), ("a\r\x00b", True),
])
def test_several_lines_at_once_are_a_paste(text: str, several: bool) -> None:
    assert is_several_lines(text) is several


def test_fast_keys_before_a_single_enter_are_typed() -> None:
    assert sort_burst([("typed", "/remember buy milk\r")], False) == [("typed", "/remember buy milk\r")]


def test_nothing_behind_a_paste_in_the_same_moment_was_typed() -> None:
    assert sort_burst([("pasted", "x"), ("typed", "\r")], False) == [("pasted", "x\r")]
    assert sort_burst([("pasted", "x"), ("typed", "/decide y\r")], False) == [("pasted", "x/decide y\r")]
    assert sort_burst([("typed", "/decide "), ("pasted", "x")], False) == \
        [("typed", "/decide "), ("pasted", "x")]
    assert sort_burst([("typed", "a\r"), ("pasted", "x")], False) == [("pasted", "a\rx")]


class Wire:
    """Reads at given times: (seconds after the one before, text)."""

    def __init__(self, *sent: tuple[float, str]) -> None:
        self.sent, self.now = list(sent), 0.0

    def clock(self) -> float:
        return self.now

    def is_ready(self, wait_s: float) -> bool:
        if not self.sent or self.sent[0][0] > wait_s:
            if self.sent:
                self.sent[0] = (self.sent[0][0] - wait_s, self.sent[0][1])
            self.now += wait_s
            return False
        self.now += self.sent[0][0]
        self.sent[0] = (0.0, self.sent[0][1])
        return True

    def read(self) -> str:
        return self.sent.pop(0)[1] if self.sent else ""


def burst(splitter: PasteSplitter, *sent: str | tuple[float, str]) -> list[tuple[str, str]]:
    wire = Wire(*(part if isinstance(part, tuple) else (0.0, part) for part in sent))
    return read_burst(wire.read, wire.is_ready, splitter)


def test_what_follows_a_line_end_at_once_makes_it_a_paste() -> None:
    assert burst(PasteSplitter(), "one\r", (0.005, "/decide x\r"), (0.01, "three")) == \
        [("pasted", "one\r/decide x\rthree")]
    assert burst(PasteSplitter(), "one\r", (0.2, "/decide x\r")) == [("typed", "one\r")]


def test_a_paste_is_read_to_its_end_however_slow() -> None:
    assert burst(PasteSplitter(), PASTE_START + "one\r", (1.0, "/decide x\r"), (1.5, "end" + PASTE_END)) == \
        [("pasted", "one\r/decide x\rend")]


def test_a_command_behind_a_forged_end_mark_is_pasted() -> None:
    assert burst(PasteSplitter(), f"{PASTE_START}x{PASTE_END}", (0.003, f"/decide y\r{PASTE_END}")) == \
        [("pasted", "x/decide y\r")]


def test_a_paste_without_an_end_does_not_hold_the_prompt_for_ever() -> None:
    splitter = PasteSplitter()
    assert burst(splitter, PASTE_START + "half", (9.0, "\r")) == [("pasted", "half")]
    assert splitter.suspect and not splitter.open


def drop(wire: Wire, splitter: PasteSplitter | None = None) -> str:
    return drain(wire.read, wire.is_ready, splitter or PasteSplitter(), wire.clock)


def test_the_prompt_opens_after_50_ms_of_silence() -> None:
    wire = Wire((0.0, "a"), (0.04, "b"), (0.06, "c"))
    assert drop(wire) == "ab"
    assert wire.now == pytest.approx(0.04 + 0.05)
    silent = Wire()
    assert drop(silent) == "" and silent.now == pytest.approx(0.05)


def test_a_paste_that_began_while_busy_is_dropped_to_its_end() -> None:
    wire = Wire((0.0, PASTE_START + "one\r"), (0.5, "/decide x\r"), (1.9, "three" + PASTE_END),
                (0.2, "typed"))
    splitter = PasteSplitter()
    assert "/decide x" in drop(wire, splitter)
    assert wire.read() == "typed"
    assert not splitter.open and not splitter.suspect


def test_keys_that_never_pause_open_the_prompt_after_two_seconds_and_are_suspect() -> None:
    wire, splitter = Wire(*[(0.03, "x\r")] * 1000), PasteSplitter()
    drop(wire, splitter)
    assert 2.0 < wire.now < 2.1
    assert splitter.suspect


def test_only_letters_are_worth_a_word_about_dropping() -> None:
    assert has_letters("a") and has_letters("\udcff") and has_letters("\x1b[200~x\x1b[201~")
    assert not has_letters("\r\n\x03 \t\x1b[A\x1b[24;80R\x1bOA\x1bx")


# The line being written.

def test_a_paste_marks_the_line_until_it_is_emptied() -> None:
    line = LineState()
    line.paste(0, "hello ")
    line.watch(0, "hello x and more typed")
    assert line.build_entry("hello x and more") == Entry("hello x and more", "pasted", "hello ")
    line.watch(0, "")
    assert line.build_entry("hello") == Entry("hello", "typed")


def test_an_empty_neighbour_in_the_history_does_not_clean_a_pasted_line() -> None:
    line = LineState()
    line.paste(3, "")
    line.watch(4, "")
    assert line.build_entry("/decide x").input == "pasted"
    line.paste(4, "/remember ")
    line.watch(4, "")
    assert line.build_entry("/remember x") == Entry("/remember x", "pasted", "")


def test_only_what_stood_before_every_paste_was_typed() -> None:
    line = LineState()
    line.paste(0, "/remember buy ")
    line.paste(0, "/re")
    line.paste(0, "/remember ")
    assert line.build_entry("x").head == "/re"


def test_pasted_words_need_a_second_enter_for_the_same_text() -> None:
    line = LineState()
    assert not line.needs_second_enter("/remember x", NAMES, 1)  # typed
    line.paste(0, "/remember ")
    assert line.needs_second_enter("/remember x", NAMES, 1)
    assert "Enter again" in line.notice
    assert line.needs_second_enter("/remember x y", NAMES, 2)    # changed in between
    assert line.needs_second_enter("/remember x y", NAMES, 2)      # nothing was shown in between
    assert not line.needs_second_enter("/remember x y", NAMES, 3)
    assert not line.needs_second_enter("hello", NAMES, 3)


def test_what_is_cut_out_of_a_pasted_line_stays_pasted() -> None:
    line = LineState()
    line.remember_cut("typed")
    line.paste(0, "")
    line.remember_cut("pasted")
    line.start()
    line.remember_cut("more pasted words")
    line.remember_cut("typed again")
    assert line.cut == {"pasted", "more pasted words"}


# Completion.

COMMANDS = {"remember": Usage("save a line", ("kind",)),
            "decide": Usage("decide", ("--replaces", "decision")),
            "decisions": Usage("list"), "why": Usage("origin", ("id",)), "quit": Usage("leave")}
CHOICES: dict[str, Callable[[], Iterable[Choice]]] = {
    "id": lambda: [Choice("m7", "maybe a DEV page"), Choice("d3", "PostgreSQL")],
    "decision": lambda: [Choice("d3", "PostgreSQL")]}


@pytest.mark.parametrize(("before", "word", "found"), [
    ("/de", "/de", ["/decide ", "/decisions"]),
    ("/", "/", ["/decide ", "/decisions", "/quit", "/remember ", "/why "]),
    ("/remember pr", "pr", ["preference: ", "proposal: "]),
    ("/remember ", "", ["preference: ", "proposal: ", "note: "]),
    ("/remember note: a", "a", []), ("/why ", "", ["m7 ", "d3 "]), ("/why m", "m", ["m7 "]),
    ("/why m7 ", "", []),
    ("/decide --r", "--r", ["--replaces "]), ("/decide ", "", []), ("/decide --replaces ", "", ["d3 "]),
    ("/decide use d", "d", []), ("hello m", "", []), ("/nope m", "m", []), ("a\n/de", "", []), ("", "", []),
])
def test_completion(before: str, word: str, found: list[str]) -> None:
    known, choices = find_completions(before, COMMANDS, CHOICES)
    assert [choice.text for choice in choices] == found
    if found:
        assert known == word


# History.

@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, now=lambda: datetime(2026, 11, 29, 18, 3, tzinfo=UTC))
    home.make()
    return home


def keep(entry: Entry) -> bool:
    return "secret" not in entry.text


def test_history_is_the_owners_alone_from_the_first_byte(home: Home) -> None:
    old = os.umask(0)
    try:
        HistoryFile(home, keep).append(Entry("hello", "typed"))
    finally:
        os.umask(old)
    assert (home.logs / "history").stat().st_mode & 0o777 == 0o600


def test_an_old_readable_history_is_tightened_and_kept(home: Home) -> None:
    path = home.logs / "history"
    path.write_text('{"text": "old"}\n')
    path.chmod(0o644)
    assert HistoryFile(home, keep).load() == ["old"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == '{"text": "old"}\n'


@pytest.mark.parametrize("target", ["/dev/null", "elsewhere"])
def test_a_link_is_left_alone(home: Home, target: str) -> None:
    path, real = home.logs / "history", home.logs / "elsewhere"
    real.write_text("mine\n")
    path.symlink_to(target)
    history = HistoryFile(home, keep)
    assert history.load() == []
    history.append(Entry("hello", "typed"))
    HistoryFile(home, keep).append(Entry("hello", "typed"))
    assert os.readlink(path) == target
    assert real.read_text() == "mine\n"


def test_a_device_is_left_alone(home: Home) -> None:
    os.mkfifo(home.logs / "history")
    history = HistoryFile(home, keep)
    assert history.load() == []
    history.append(Entry("hello", "typed"))
    assert (home.logs / "history").is_fifo()


@given(st.lists(st.text(st.characters(exclude_categories=()), min_size=1), max_size=5))
def test_every_text_comes_back_from_the_history(texts: list[str]) -> None:
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.make()
        history = HistoryFile(home, lambda entry: True)
        for text in texts:
            history.append(Entry(text, "typed"))
        found = HistoryFile(home, keep).load()
        data = (home.logs / "history").read_bytes() if texts else b""
    assert [text.encode("utf-16", "surrogatepass") for text in found] == \
        [text.encode("utf-16", "surrogatepass") for text in texts]
    assert data.count(b"\n") == len(texts)
    assert not any(byte < 32 and byte != 10 for byte in data)


def test_torn_lines_and_forgotten_words_are_passed_over() -> None:
    data = b'{"text": "a"}\n{"text": "/remember [forgotten m3]"}\nnonsense\n[1]\n"b"\n' \
        b'{"text": 3}\n{"text": "c"}\n{"te'
    assert parse_history(data) == ["a", "c"]


def test_what_may_not_be_kept_is_not_written(home: Home) -> None:
    history = HistoryFile(home, keep)
    history.append(Entry("my secret", "typed"))
    assert not (home.logs / "history").exists()


def test_a_history_that_cannot_be_written_is_no_failure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageFailed("full", "")
    monkeypatch.setattr("companion.append_line", fail)
    history = HistoryFile(home, keep)
    history.append(Entry("hello", "typed"))
    assert history.path is None


def test_a_long_history_is_cut(home: Home) -> None:
    path = home.logs / "history"
    path.write_text("".join(f'{{"text": "{n}"}}\n' for n in range(5000)))
    path.chmod(0o600)
    texts = HistoryFile(home, keep).load()
    assert len(texts) == 2000 and texts[-1] == "4999"
    assert path.read_text().count("\n") == 2000


def test_pasted_commands_are_not_brought_back_as_typed() -> None:
    assert is_worth_recalling(Entry("/decide x", "typed"))
    assert is_worth_recalling(Entry("one\ntwo", "pasted"))
    assert not is_worth_recalling(Entry("/decide x", "pasted", "/decide "))
    assert not is_worth_recalling(Entry(" /decide x", "pasted"))
    assert not is_worth_recalling(Entry("  ", "typed"))


# No keyboard.

def test_a_pipe_is_no_keyboard(home: Home) -> None:
    stdin = StringIO("/decide x\n\nhello")
    assert not is_keyboard(stdin)
    closed = StringIO()
    closed.close()
    assert not is_keyboard(closed) and not is_keyboard(None)
    with open_keyboard(stdin, StringIO(), home, print) as keyboard, keyboard.busy(), keyboard.lent():
        keyboard.settle()
        assert keyboard.ask("sure? ") is None
        assert keyboard.read() == Entry("/decide x", "none")
        assert keyboard.read() == Entry("", "none")
        assert keyboard.read() == Entry("hello", "none")
        assert keyboard.read() is None
        keyboard.reload_history()


def test_terminals_without_cursor_keys_are_known() -> None:
    assert is_dumb("dumb") and is_dumb(None) and is_dumb("") and is_dumb("unknown")
    assert not is_dumb("xterm-256color")


# The editor itself: whatever is done to the line, a pasted letter in it is known.

PASTED = "§"
ACTIONS = (
    "paste", "paste", "a", " ", "/decide ", "/remember x", "\x7f", "\x1b[3~", "\x1b[D", "\x1b[C", "\x01",
    "\x05",
    "\x15", "\x0b", "\x17", "\x19", "\x1by", "\x1f", "\x18\x15", "\x03", "\x1b[A", "\x1b[B", "\x10", "\x0e",
    "\x00", "\x1bw", "\x17", "\x14", "\x1b.", "\x1bd", "\x1b\x7f", "\x1bu", "\x1b\r", "\x12", "\x11", "\t",
    "\x0f", "\x1b#", "\x1b*", "\x1b<", "\x1b>", "\x18(", "\x18)", "\x18e", "\x04", "\x1b3", "\r",
)


class Screenless:
    """Stands for the terminal where the keys are fed by hand."""

    closed = False
    stdout = StringIO()

    def quiet(self) -> None: ...

    def read(self) -> str:
        return ""

    def is_ready(self, wait_s: float) -> bool:
        return False


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    for text in ("/decide old", "older words"):
        HistoryFile(home, keep).append(Entry(text, "typed"))
    with create_pipe_input() as pipe, pytest.MonkeyPatch.context() as patch:
        patch.setattr("companion.build_input", lambda *_: pipe)
        patch.setattr("companion.build_output", lambda *_: DummyOutput())
        patch.setattr("companion.is_worth_recalling", lambda entry: False)  # else it counts as typed
        yield PromptKeyboard(cast(Any, Screenless()), print, cast(Any, pipe), history=HistoryFile(home, keep),
                             commands=COMMANDS, choices=CHOICES, toolbar=lambda: "", color=False,
                             hint=lambda: "/remember the hint", shown=SHOWN.clear)


SHOWN = ["nothing yet"]


def press(keyboard: Any, actions: Iterable[str]) -> Entry | None:
    """One prompt with these keys, ended by Enter until it ends."""
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding.key_processor import KeyPress
    from prompt_toolkit.keys import Keys
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    for action in (*actions, "\x07", "\r", "\r", "\r", "\x07", "\x03", "x", "\r", "\r"):
        if action == "paste":
            keys.append(KeyPress(Keys.BracketedPaste, PASTED))
        else:
            parser.feed_and_flush(action)

    def feed() -> None:
        if len(keyboard.session.default_buffer._working_lines) < 3:  # loaded behind the first picture
            asyncio.get_running_loop().call_later(0.001, feed)
            return
        processor = keyboard.session.app.key_processor
        processor.feed_multiple(keys)
        processor.process_keys()

    keyboard.session.app.pre_run_callables.append(
        lambda: asyncio.get_running_loop().call_soon(feed))
    return cast("Entry | None", keyboard.read())


def test_the_caller_is_told_when_the_editor_is_on_the_screen(editor: Any) -> None:
    """What waits for it (imports, warming the model) must not begin while the prompt is being drawn."""
    SHOWN[:] = ["nothing yet"]
    editor.session.app.pre_run_callables.append(lambda: SHOWN.append("begun"))
    press(editor, [])
    assert SHOWN == [], "called, and after the editor had begun"


@given(st.lists(st.lists(st.sampled_from(ACTIONS), max_size=12), min_size=1, max_size=2))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pasted_letter_in_the_line_is_always_known(editor: Any, prompts: list[list[str]]) -> None:
    for actions in prompts:
        entry = press(editor, actions)
        if entry is not None and PASTED in entry.text:
            assert entry.input == "pasted", (actions, entry)
            assert PASTED not in entry.head


@pytest.mark.parametrize("actions", [
    ["\x1b[A", "paste", "\x1b[B", "\x1b[A"], ["paste", "\x15", "\x1f"],
    ["paste", "\x00", "\x01", "\x17", "\x19"],
    ["\x18(", "paste", "\x18)", "\x15", "\x18e"], ["paste", "\x1b[A", "\x1f"], ["\x11", "paste"],
    ["paste", "\x15", "a", "\x15", "\x19", "\x1by"],
])
def test_ways_to_hide_a_paste(editor: Any, actions: list[str]) -> None:
    entry = press(editor, actions)
    assert entry is not None and (PASTED not in entry.text or entry.input == "pasted")


def test_typed_keys_alone_are_never_called_pasted(editor: Any) -> None:
    editor.reload_history()
    assert press(editor, ["/decide ", "a", "\x17", "\x19", "\x1f"]) is not None
    for actions in (["/decide ", "a"], ["\x1b[A"], ["a", "\x15", "\x19"], ["\t"], ["paste", "\x7f", "a"],
                    ["\x12", "o", "l", "d", "\r"]):
        entry = press(editor, actions)
        assert entry is not None and entry.input == "typed", (actions, entry)


def test_a_paste_that_is_too_long_is_dropped_and_said(editor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("companion.PASTE_LIMIT", 0)
    notices: list[str] = []
    monkeypatch.setattr(editor, "on_key", lambda buffer: notices.append(editor.line.notice))
    entry = press(editor, ["a", "paste", "b"])
    assert entry == Entry("ab", "typed")
    assert any("longer than" in notice for notice in notices)
