"""What the display lets through: every visible letter, no control byte (P12, P3, P4, P5 on screen)."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from datetime import UTC, date, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import companion
from companion import Display, Failure, Match, Matter, Record, Settings

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
TODAY = date(2026, 11, 29)
SGR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
                     r"\ud800-\udfff\U000e0000-\U000e0fff]")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(width: int = 80, *, terminal: bool = True, color: bool = True, thinking: str = "hidden",
         live: bool = False, clock: Clock | None = None) -> tuple[Display, io.StringIO]:
    stream = io.StringIO()
    display = Display(stream, is_terminal=terminal, size=lambda: (width, 24), color=color,
                      clock=clock or Clock(), thinking=thinking, live=live, tick_s=0)
    return display, stream


def record(**facts: object) -> Record:
    base: dict[str, object] = {
        "id": "m7", "kind": "proposal", "text": "maybe give the agent its own DEV page, undecided",
        "evidence": None, "author": "owner", "path": "repl:/remember", "input": "typed",
        "at": "2026-10-15T10:00:00.000Z", "session": None, "turn": None, "source": None,
        "expires": "2027-04-13", "replaces": None, "replaced_by": None, "state": "live",
        "confirmed": True, "confirmed_at": None, "ended_at": None, "reason": None,
        "standing": "undecided"}
    return Record(**{**base, **facts})  # type: ignore[arg-type]


HELPER = record(id="m9", kind="note", text="the owner leans to a page", author="helper:inbox-session",
                path="cli:--note", input="none", confirmed=False, standing="unconfirmed",
                expires="2026-12-06")


def shown(text: str) -> str:
    """What a reader sees: the program's own colours taken off."""
    return SGR.sub("", text)


def letters(text: str) -> str:
    return "".join(text.split())


def print_stream(text: str, width: int = 80, *, color: bool = True, terminal: bool = True,
                 cuts: list[int] | None = None) -> str:
    display, out = make(width, color=color, terminal=terminal)
    stream = display.open_stream()
    at = 0
    for cut in [*sorted(cuts or []), len(text)]:
        stream.feed(text[at:cut])
        at = max(at, cut)
    stream.close()
    return out.getvalue()


# --- letter for letter

TRICKY = ["[/etc/hosts]", "list[int]", "[red]x[/red]", ":100:", "[link=file:///x]y[/link]", "<name>",
          "List<String>", "0<a or a>10", "<think>hm</think>", "&amp; &lt;b&gt;", "a_b_c __init__.py",
          "2*3*4 = 24", "C:\\temp\\new", "\\[x\\] \\* \\_", "~~no~~", "[^1]", "[a][b]", "{x!r}", "%s %d",
          "“quoted”", "$HOME", "***", "👍🏽 ❤️ 🇩🇪", "数据库的归档", "[1]: http://x.example/a", "| lone bar"]


@pytest.mark.parametrize("text", TRICKY)
@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("terminal", [True, False])
def test_texts_are_shown_letter_for_letter_everywhere(text: str, color: bool, terminal: bool) -> None:
    display, out = make(120, color=color, terminal=terminal)
    display.line(text)
    display.line(text, "label")
    display.lines([text])
    display.notice(text)
    display.trouble(Failure(text, text))
    display.quoted(text, text)
    display.first_screen([text])
    display.table(["id", "text"], [["m1", text]])
    display.hint(text)
    display.block([Matter("note", (record(text=text, evidence=text, reason=text),))], NOW)
    display.near([Match(record(text=text), 0.5, "words", (text,))], NOW)
    display.page(text)
    assert shown(out.getvalue()).count(text) == 17


@pytest.mark.parametrize("text", TRICKY)
@pytest.mark.parametrize("width", [40, 80])
def test_prose_keeps_every_letter_of_tricky_text(text: str, width: int) -> None:
    source = f"before {text} after {text}, and {text}"
    assert letters(shown(print_stream(source, width))) == letters(source)


@pytest.mark.parametrize("source, expected", [
    ("a **bold** and *slanted* `code`", "a bold and slanted code"),
    ("***both*** of it", "both of it"),
    ("**bold with `code` in it**", "bold with code in it"),
    ("这是**重点**内容", "这是重点内容"),
    ("# Title with C# and **x**", "Title with C# and x"),
    ("* item", "• item"),
    ("- 5 degrees", "- 5 degrees"),
    ("2026. A year, not a list", "2026. A year, not a list"),
    ("> 10 is valid", "> 10 is valid"),
    ("see [the guide](https://dev.to/x?a=1) now", "see the guide (https://dev.to/x?a=1) now"),
    ("call f[0](x) or list[int](y)", "call f[0](x) or list[int](y)"),
    ("![alt](https://x.example/i.png)", "!alt (https://x.example/i.png)"),
    ("unclosed **bold and `code", "unclosed **bold and `code"),
    ("f(**kwargs) and g(*args, **kw)", "f(**kwargs) and g(*args, **kw)"),
    ("``a ` b``", "a ` b"),
    ("line one\nline two", "line one\nline two"),
    ("a\r\nb", "a\nb"),
    ("\n\na\n\n\n\nb\n\n\n", "a\n\nb"),
    ("<details><summary>x</summary></details>", "<details><summary>x</summary></details>"),
])
def test_markdown_is_rendered_without_losing_meaning(source: str, expected: str) -> None:
    assert shown(print_stream(source)) == expected + "\n"


def test_code_is_verbatim_and_an_open_fence_ends_with_the_text() -> None:
    code = "```python\nx = '<b>**y**</b>'  # :100: [red]\n\n\tif a[0](b): pass\n```"
    assert shown(print_stream(code)) == code.replace("\t", "    ") + "\n"
    assert shown(print_stream("```\nno end *here*")) == "```\nno end *here*\n"
    long = "x" * 300
    assert shown(print_stream(f"~~~\n{long}\n~~~\nafter **b**", 40)) == f"~~~\n{long}\n~~~\nafter b\n"


def test_nested_lists_keep_numbers_and_hang() -> None:
    text = "1. first item that is rather long and wraps\n   - nested item that is also rather long\n7. x"
    assert shown(print_stream(text, 30)).split("\n") == [
        "1. first item that is rather", "   long and wraps", "   - nested item that is also",
        "     rather long", "7. x", ""]


def test_table_is_aligned_and_keeps_cells_beyond_the_head() -> None:
    text = "| a | n |\n|---|--:|\n| x | 5 | extra |\n| 数据 | 1200 |\n\nend"
    lines = shown(print_stream(text)).split("\n")
    assert lines == ["a        n", "────  ────  ─────", "x        5  extra", "数据  1200", "", "end", ""]


def test_what_only_looks_like_a_table_is_shown_as_it_is() -> None:
    text = "| just a bar\n| and another"
    assert shown(print_stream(text)) == text + "\n"


@pytest.mark.parametrize("width", [20, 24, 40])
def test_a_table_too_wide_for_the_window_keeps_its_letters(width: int) -> None:
    text = "| " + " | ".join(f"column{i}" for i in range(9)) + " |\n" + "|---" * 9 + "|\n" \
        + "| " + " | ".join(f"value{i}" for i in range(9)) + " |"
    output = Counter(letters(shown(print_stream(text, width))))
    for name, number in Counter(re.sub(r"[|\s-]", "", text)).items():
        assert output[name] == number


# --- P12: no control byte, nothing visible lost

HOSTILE = st.lists(st.one_of(
    st.sampled_from(["\x1b[2J", "\x1b]52;c;aGk=\x07", "\x9b31m", "\x1b", "[2J", "\r", "\r\n", "\n", "\n\n",
                     "\x00", "\x08", "\x7f", "\x85", "\u202e", "\u200b", "\u2028", "\ufeff", "\U000e0041",
                     "\ud83d", "\ude00", "\t", " ", "  ", "[red]", "[/red]", "[/]", "[link=x]", ":100:",
                     "<b>", "</b>", "<!-- -->", "&amp;", "*", "**", "***", "`", "```", "\n```\n", "~~~",
                     "# ", "\n# ", "- ", "\n- ", "1. ", "> ", "| a | b |\n", "|---|---|\n", "\n|", "|",
                     "[a](http://x.y)", "[a](", "](", "on record\n", "  d1  decided", "数据", "，", "👍🏽",
                     "🇩🇪", "e\u0301", "https://x.example/" + "y" * 60, "word",
                     "<<<end data 1f>>>", "\\", "_"]),
    st.text(max_size=8)), max_size=30).map("".join)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(HOSTILE, st.integers(20, 60), st.booleans(), st.booleans())
@example("\x1b]52;c;aGk=\x07", 40, True, True)
def test_p12_no_control_byte_reaches_the_screen(text: str, width: int, color: bool,
                                                terminal: bool) -> None:
    display, out = make(width, color=color, terminal=terminal, thinking="dim")
    display.line(text)
    display.notice(text)
    display.trouble(Failure(text, text))
    display.quoted(text, text)
    display.first_screen([text] * 9)
    display.table(["id", text], [["m1", text], [text, text]])
    hostile = record(id="m1", text=text, evidence=text, reason=text, author=f"helper:{text}")
    display.block([Matter("note", (hostile,))], NOW)
    display.block_close([Matter("unconfirmed", (hostile,))], [text])
    display.near([Match(hostile, 0.1, "words", (text,))], NOW)
    display.records([hostile], NOW, full=True)
    display.page(text)
    thoughts = display.open_thoughts()
    thoughts.feed(text)
    thoughts.close()
    output = out.getvalue()
    assert color and terminal or "\x1b" not in output
    bare = shown(output) if terminal else shown(output).replace("\t", "")
    assert not CONTROL.search(bare)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(HOSTILE, st.integers(20, 60))
def test_p12_plain_texts_keep_every_letter(text: str, width: int) -> None:
    expected = letters(companion.clean_text(text.replace("\r\n", "\n")))
    for terminal in (True, False):
        display, out = make(width, terminal=terminal)
        display.line(text)
        assert letters(shown(out.getvalue())) == expected


@settings(max_examples=600, deadline=None, derandomize=True)
@given(HOSTILE, st.integers(20, 60), st.lists(st.integers(0, 200), max_size=12))
def test_p12_prose_loses_nothing_but_marks(text: str, width: int, cuts: list[int]) -> None:
    """Only marks that became style or borders may be missing; order cannot change but in tables."""
    source = letters(companion.clean_text(companion.merge_surrogates(text).replace("\r\n", "\n")))
    output = letters(shown(print_stream(text, width, cuts=cuts)))
    lost = Counter(source) - Counter(output)
    assert set(lost) <= set("*`#[]()|:-"), lost
    added = Counter(output) - Counter(source)
    assert set(added) <= set("•─()"), added
    if "|" not in text:
        assert not set(Counter(source) - Counter(output)) & set(":-|")
        def keep(s: str) -> str:
            return re.sub(r"[*`#\[\]()•]", "", s)
        assert keep(source) == keep(output)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(HOSTILE, st.integers(40, 60), st.lists(st.integers(0, 200), max_size=12), st.booleans())
def test_the_way_a_text_is_cut_into_pieces_does_not_matter(text: str, width: int, cuts: list[int],
                                                           color: bool) -> None:
    whole = shown(print_stream(text, width, color=color))
    pieces = shown(print_stream(text, width, color=color, cuts=cuts))
    assert letters(pieces) == letters(whole)
    if "://" not in text:  # a word that proves to be an address too late was broken already
        assert pieces == whole


def test_p12_ten_thousand_random_mixtures_leave_no_control_byte() -> None:
    rng = random.Random(12)
    parts = ["\x1b[2J", "\x1b]0;t\x07", "\x9b2J", "\r", "\n", "\u202e", "\u200b", "\U000e0041", "\x00",
             "\ud800", "[red]", "[/]", "[link=x]y", ":100:", "<b>", "&lt;", "**", "*", "`", "```", "# ",
             "| a |", "|---|", "on record\n", "  d1  decided", "数据", "❤️", "e\u0301", "word ", "<<<end>>>"]
    for number in range(10_000):
        text = "".join(rng.choices(parts, k=rng.randint(1, 12)))
        display, out = make(40 + number % 40)
        if number % 2:
            display.page(text)
        else:
            display.block([Matter("note", (record(text=text),))], NOW)
        output = shown(out.getvalue())
        assert not CONTROL.search(output), text
        clean = companion.clean_text(text.replace("\r\n", "\n"))
        visible = Counter(re.sub(r"[\s*`#|:-]", "", clean))
        assert not visible - Counter(output), text


def test_a_clipboard_sequence_in_two_pieces_is_harmless() -> None:
    text = "see \x1b]52;c;aGVsbG8=\x07 this \x1b[2J"
    for cut in range(len(text)):
        output = print_stream(text, cuts=[cut])
        assert "\x1b" not in shown(output) and "\x07" not in output
        assert shown(output) == "see \\x1b]52;c;aGVsbG8=\\x07 this \\x1b[2J\n"


def test_a_character_in_two_halves_is_joined() -> None:
    assert print_stream("ok \ud83d\ude00", cuts=[4]) == "ok 😀\n"
    assert print_stream("ok \ud83d", cuts=[3]) == "ok \\ud83d\n"


def test_a_carriage_return_cannot_forge_a_line() -> None:
    display, out = make()
    display.line("bad title\rall fine")
    display.notice("title\nall fine")
    assert shown(out.getvalue()) == "bad title\\x0dall fine\ntitle all fine\n"


# --- streaming: printed once, never again

def test_what_is_printed_stays_and_lines_come_as_soon_as_they_are_certain() -> None:
    display, out = make(30)
    stream = display.open_stream()
    before = ""
    text = "This is a paragraph of several words that is longer than one line of the window.\n\nNext."
    seen = []
    for letter in text:
        stream.feed(letter)
        assert out.getvalue().startswith(before)
        before = out.getvalue()
        seen.append(before.count("\n"))
    assert seen[40] == 1 and seen[70] == 2
    stream.close()
    stream.close()
    assert out.getvalue().startswith(before) and out.getvalue().endswith("\n\nNext.\n")


def test_an_open_mark_is_waited_for_and_then_given_up() -> None:
    display, out = make(20)
    stream = display.open_stream()
    stream.feed("one two **three four five six seven eight")
    assert "three" not in out.getvalue()
    stream.feed(" nine** ten eleven twelve thirteen")
    assert "**" not in out.getvalue() and "nine" in out.getvalue()
    stream.feed(" **" + "word " * 100)
    assert "**word" in out.getvalue()
    stream.close()


def test_the_window_may_change_its_width_in_the_middle() -> None:
    width = [60]
    out = io.StringIO()
    display = Display(out, is_terminal=True, size=lambda: (width[0], 20), color=False, clock=Clock(),
                      live=False, tick_s=0)
    stream = display.open_stream()
    text = " ".join(f"word{i}数据" for i in range(200))
    for at in range(0, len(text), 11):
        if at > 900:
            width[0] = 25
        stream.feed(text[at:at + 11])
    stream.close()
    assert letters(out.getvalue()) == letters(text)
    assert max(companion.count_cells(line) for line in out.getvalue().split("\n")[-20:]) <= 25


def test_an_address_is_never_broken_on_a_terminal_and_whole_in_a_pipe() -> None:
    address = "https://dev.to/owner/" + "x" * 120
    for terminal in (True, False):
        for text in (f"- see [this]({address}) and more", f"Read {address} now"):
            assert any(address in line for line in print_stream(text, 40, terminal=terminal).split("\n"))
        display, out = make(40, terminal=terminal)
        display.line(f"the report says: {address}")
        display.block([Matter("note", (record(text=f"see {address}"),))], NOW)
        assert out.getvalue().count(address) == 2


# --- pipes, NO_COLOR, dumb terminals, encodings

def test_a_pipe_gets_the_source_without_escapes_and_wrapping() -> None:
    text = "# Title\n\n" + "a **bold** word " * 30 + "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\tx"
    assert print_stream(text, 40, terminal=False, cuts=[3, 50, 99]) == text + "\n"
    display, out = make(40, terminal=False, thinking="dim")
    display.block([Matter("undecided", (record(text="long words " * 40),))], NOW)
    thoughts = display.open_thoughts()
    thoughts.feed("hm")
    thoughts.close()
    with display.open_live("thinking") as live:
        live.update(tokens=4)
    assert out.getvalue().count("\n") == 3 and "\x1b" not in out.getvalue()
    assert "hm" not in out.getvalue()


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("environ, color_setting, escapes", [
    ({"TERM": "xterm-256color"}, True, True),
    ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
    ({"TERM": "xterm-256color", "NO_COLOR": ""}, True, True),
    ({"TERM": "xterm"}, False, False),
    ({"TERM": "dumb"}, True, False),
    ({}, True, False),
])
def test_escapes_only_where_they_are_wanted(environ: dict[str, str], color_setting: bool,
                                            escapes: bool) -> None:
    out = Tty()
    display = companion.open_display(out, environ, Settings(color=color_setting), Clock())
    display.tick_s = 0
    display.block([Matter("undecided", (record(),))], NOW)
    display.trouble(Failure("It broke.", "Mend it."))
    with display.open_live("thinking") as live:
        live.update(tokens=3)
    display.page("**bold** `code`")
    assert ("\x1b" in out.getvalue()) is escapes
    assert "**bold**" in out.getvalue() or escapes
    assert ("\r" in out.getvalue()) is (environ.get("TERM", "dumb") != "dumb")


def test_an_encoding_without_the_letters_is_no_error() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    display = companion.open_display(out, {}, Settings(), Clock())
    display.block([Matter("note", (record(text="数 é"),))], NOW)
    display.page("数据")
    out.flush()
    assert raw.getvalue().decode("ascii").split("\n")[1:3] == [
        "  m7  undecided - proposal, you typed it on 15 Oct 2026", '      "\\u6570 \\xe9"']
    assert raw.getvalue().endswith(b"\\u6570\\u636e\n")


# --- the on record block (P3, P4, P5)

def block(*matters: Matter, width: int = 80, **facts: bool) -> list[str]:
    display, out = make(width)
    display.block(matters, NOW, **facts)
    return shown(out.getvalue()).split("\n")[:-1]


def test_p5_the_block_reads_as_designed() -> None:
    display, out = make()
    matter = Matter("undecided", (record(),))
    display.block([matter], NOW)
    display.block_close([matter])
    assert shown(out.getvalue()) == (
        "on record\n"
        "  m7  undecided · proposal, you typed it on 15 Oct 2026\n"
        "      “maybe give the agent its own DEV page, undecided”\n"
        "      no decision found on this\n")
    assert "\x1b[1mundecided\x1b[0m" in out.getvalue()
    assert out.getvalue().count("\x1b[1m") == 1


@pytest.mark.parametrize("facts, label", [
    ({}, "proposal, you typed it on 15 Oct 2026"),
    ({"input": "pasted"}, "proposal, you pasted it on 15 Oct 2026"),
    ({"kind": "preference", "standing": "preference", "expires": "2026-12-05"},
     "you typed it on 15 Oct 2026, lapses 5 Dec 2026"),
    ({"kind": "note"}, "note, you typed it on 15 Oct 2026"),
    (HELPER._asdict(), "note, helper inbox-session wrote it on 15 Oct 2026, lapses 6 Dec 2026"),
    ({**HELPER._asdict(), "confirmed": True, "standing": "note", "expires": "2027-02-20",
      "confirmed_at": "2026-11-22T09:00:00.000Z"},
     "helper inbox-session wrote it on 15 Oct 2026, you confirmed it on 22 Nov 2026"),
    ({"author": "unrecorded", "path": "import:legacy", "input": "none", "confirmed": False,
      "standing": "unconfirmed", "kind": "note", "source": {"file": "old.jsonl", "line": 7}},
     "note, author unrecorded, imported from old.jsonl line 7 on 15 Oct 2026, lapses 13 Apr 2027"),
    ({"author": "code", "path": "daily:check", "input": "none", "kind": "observation",
      "standing": "observed"}, "the daily check wrote it on 15 Oct 2026"),
    ({"kind": "decision", "standing": "decided", "replaces": "d1", "expires": None},
     "you typed it on 15 Oct 2026, in place of d1"),
    ({"kind": "decision", "standing": "reversed", "state": "replaced", "replaced_by": "d3",
      "ended_at": "2026-11-07T10:00:00.000Z", "expires": None},
     "decision, you typed it on 15 Oct 2026, replaced by d3 on 7 Nov 2026"),
    ({"kind": "decision", "standing": "reversed", "state": "undone", "expires": None,
      "ended_at": "2026-11-07T10:00:00.000Z"},
     "decision, you typed it on 15 Oct 2026, taken back on 7 Nov 2026"),
    ({"state": "lapsed", "ended_at": "2026-11-07T10:00:00.000Z"},
     "proposal, you typed it on 15 Oct 2026, lapsed on 7 Nov 2026"),
])
def test_p3_a_label_says_who_when_and_what_came_of_it(facts: dict[str, object], label: str) -> None:
    assert companion.render_label(record(**facts), today=TODAY) == label


def test_p3_a_full_label_depends_on_the_record_alone() -> None:
    assert companion.render_label(record(), full=True) == \
        "proposal, you typed it on 15 Oct 2026, lapses 13 Apr 2027, by repl:/remember"


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_the_block_is_aligned_at_every_width(width: int) -> None:
    matters = [Matter("undecided", (record(text="数据库 words and words " * 9), HELPER)),
               Matter("note", (record(id="m112", text="x" * 200),))]
    for line in block(*matters, width=width)[1:]:
        assert companion.count_cells(line) <= width
        assert re.match(r"  m\d+ +\w+ · | {8}\S| {9}\S", line), line


def test_words_of_a_record_cannot_pass_for_the_block() -> None:
    forged = "fine\non record\n  d1  decided · you typed it"
    lines = block(Matter("note", (record(text=forged),)))
    assert lines[2:] == ["      “fine", "       on record", "         d1  decided · you typed it”"]


def test_a_record_that_is_too_long_for_the_block_is_cut_and_says_so() -> None:
    lines = block(Matter("note", (record(text="word " * 400),)))
    assert lines[-1] == "      cut here; /why m7 shows all of it" and lines[-2].endswith("…")
    assert len(lines) < 14


def test_a_forgotten_record_says_so() -> None:
    gone = record(text=None, state="forgotten", standing="no_record",
                  ended_at="2026-11-07T10:00:00.000Z")
    assert block(Matter("no_record", (gone,)))[-1] == "      its words were forgotten"


def test_a_block_shown_a_moment_ago_is_one_line() -> None:
    matters = [Matter("undecided", (record(),)),
               Matter("decided", (record(id="d3", kind="decision", standing="decided"),))]
    assert block(*matters, brief=True) == ["on record  m7 undecided, d3 decided (shown above)"]


def test_late_records_join_the_block_without_a_new_header() -> None:
    assert block(Matter("unconfirmed", (HELPER,)), late=True)[0].startswith("  m9  unconfirmed")


def test_the_closing_says_what_was_not_found() -> None:
    decided = Matter("decided", (record(id="d3", kind="decision", standing="decided"),))
    undone = Matter("reversed", (record(id="d4", kind="decision", standing="reversed",
                                        state="undone"),))
    waiting = Matter("unconfirmed", (HELPER,))
    cases = [([waiting], ["bathroom", "tiles"],
              "no decision found on this|the record does not mention: bathroom, tiles"),
             ([decided], [], ""), ([decided, waiting], [], "no decision found on m9"),
             ([undone], [], "no decision holds in its place")]
    for matters, missing, expected in cases:
        text = companion.render_plain(companion.render_closing(matters, missing))
        assert "|".join(line.strip() for line in text.split("\n")) == expected


def test_near_misses_are_named_as_near() -> None:
    display, out = make()
    display.near([Match(record(), 0.4, "words", ("bathroom",))], NOW)
    assert shown(out.getvalue()).split("\n")[0] == "near, but not the same matter"
    assert "does not mention: bathroom" in out.getvalue()
    display, out = make()
    display.near([], NOW)
    assert out.getvalue() == ""


# --- tables, first screen, page, thinking

@pytest.mark.parametrize("width", range(40, 121, 10))
def test_a_listing_fits_every_width_and_counts_wide_letters(width: int) -> None:
    display, out = make(width)
    display.table(["id", "standing", "day", "text"],
                  [["m7", "undecided", "15 Oct 2026", "maybe give the agent a page, 数据库的归档与恢复"],
                   ["m112", "unconfirmed", "5 Nov 2026", "short [red] <x>"]])
    lines = shown(out.getvalue()).split("\n")[:-1]
    assert all(companion.count_cells(line) <= width for line in lines)
    assert "15 Oct 2026" in out.getvalue() and "unconfirmed" in out.getvalue()


def test_numbers_stand_to_the_right_and_a_pipe_gets_whole_rows() -> None:
    display, out = make(40, terminal=False)
    display.table(["what", "n"], [["records " * 9, "5"], ["x", "1200"]], right=[1])
    lines = out.getvalue().split("\n")
    assert lines[2].endswith("     5") and lines[3].endswith("  1200") and len(lines[2]) > 70


def test_the_first_screen_has_at_most_eight_rows() -> None:
    for count in (3, 8, 20):
        display, out = make(40)
        display.first_screen([f"line {i} that is longer than the window is wide" for i in range(count)])
        assert out.getvalue().count("\n") <= 8
    assert "… and 13 more" in out.getvalue()


def test_thinking_is_dim_under_its_own_name_or_hidden() -> None:
    display, out = make(40, thinking="dim")
    thoughts = display.open_thoughts()
    for piece in ("The owner asks **x**", " about <name> and so on and on and on\n", "more"):
        thoughts.feed(piece)
    thoughts.close()
    display.line("answer")
    assert shown(out.getvalue()).split("\n") == [
        "thinking", "  The owner asks **x** about <name> and", "  so on and on and on", "  more", "",
        "answer", ""]
    display, out = make(thinking="hidden")
    thoughts = display.open_thoughts()
    thoughts.feed("secret")
    thoughts.close()
    assert out.getvalue() == ""


def test_gaps_do_not_add_up() -> None:
    display, out = make()
    display.gap()
    display.line("a")
    display.gap()
    display.gap()
    display.line("b")
    display.after_input()
    display.gap()
    assert out.getvalue() == "a\n\nb\n\n"


# --- the live line

def screen(output: str) -> list[str]:
    """The lines of a terminal after this output: carriage return, erase to the end, new line."""
    lines, at = [""], 0
    for token in re.findall(r"\x1b\[K|\x1b\[[0-9;]*m|.|\n", output):
        if token == "\n":
            lines.append("")
            at = 0
        elif token == "\r":
            at = 0
        elif token == "\x1b[K":
            lines[-1] = lines[-1][:at]
        elif not token.startswith("\x1b"):
            lines[-1] = lines[-1][:at] + token + lines[-1][at + 1:]
            at += 1
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("color", [True, False])
def test_the_live_line_tells_what_is_known_and_leaves_nothing_behind(color: bool) -> None:
    clock = Clock()
    display, out = make(live=True, color=color, clock=clock)
    with display.open_live("thinking") as live:
        assert screen(out.getvalue()) == ["thinking · 0 s"]
        clock.now += 3
        live.update(state="loading the model")
        assert screen(out.getvalue()) == ["loading the model · 3 s"]
        clock.now += 72
        display.draw_live()
        assert screen(out.getvalue()) == ["loading the model · 1 min 15 s"]
        live.update(tokens=34, state="")
        assert screen(out.getvalue()) == ["thinking · 1 min 15 s · 34 tokens"]
        display.line("text")
        assert screen(out.getvalue()) == ["text", "thinking · 1 min 15 s · 34 tokens"]
    assert screen(out.getvalue()) == ["text", ""]
    live.close()
    live.update(tokens=99)
    assert screen(out.getvalue()) == ["text", ""]


def test_prose_and_the_live_line_do_not_mix() -> None:
    clock = Clock()
    display, out = make(30, live=True, clock=clock)
    stream = display.open_stream()
    text = "Some words that are longer than a single line of the window, with 数据.\n\nEnd."
    with display.open_live("writing") as live:
        for i, letter in enumerate(text):
            stream.feed(letter)
            clock.now += 0.3
            live.update(tokens=i)
        stream.close()
    plain = shown(print_stream(text, 30)).split("\n")
    assert screen(out.getvalue()) == [line.rstrip() for line in plain]


def test_the_live_line_is_gone_after_ctrl_c() -> None:
    display, out = make(live=True)
    with pytest.raises(KeyboardInterrupt), display.open_live("thinking"):
        raise KeyboardInterrupt
    assert screen(out.getvalue()) == [""]


def test_the_seconds_move_while_nothing_arrives() -> None:
    """The thread ticks at once here; the clock moves at every look, so each tick draws anew."""
    import threading
    drawn, before = threading.Event(), set(threading.enumerate())

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "· 5 s" in text:
                drawn.set()
            return super().write(text)

    clock = iter(range(100_000))
    out = Out()
    display = Display(out, is_terminal=True, size=lambda: (80, 24), color=True,
                      clock=lambda: float(next(clock)), live=True, tick_s=0.001)
    with display.open_live("thinking"):
        assert drawn.wait(10)
    assert screen(out.getvalue()) == [""]
    assert set(threading.enumerate()) <= before, "its thread is gone"


def test_a_second_live_line_takes_the_place_of_the_first() -> None:
    display, out = make(live=True)
    first = display.open_live("one")
    with display.open_live("two"):
        first.close()
        assert screen(out.getvalue()) == ["two · 0 s"]
    assert screen(out.getvalue()) == [""]
