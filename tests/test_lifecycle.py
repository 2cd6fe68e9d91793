"""A record from its first line to its end: who wrote it, who vouches, how long it lasts (P2, P3, P4, P6, P11)."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import TYPED, Clock, Hands, Sitting, make_home, make_records, run_cli, run_json

import companion

NOWHERE = {"host": "http://127.0.0.1:9", "embed_model": "none", "warm": False}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(tmp_path: Path, clock: Clock) -> companion.Home:
    return make_home(tmp_path, clock, **NOWHERE)


def acts(home: companion.Home) -> list[tuple[str, str | None]]:
    """(op, target or id) of every line of both ledgers."""
    records = companion.Records(home)
    records.refresh()
    return [
        (line["op"], line["target"] or line["id"])
        for ledger in (records.memory, records.decisions)
        for line in ledger.lines
    ]


# Helpers (P4).

LOOKALIKES = [
    "owner",
    "code",
    "helper",
    "unrecorded",
    "companion",
    "Owner",
    "OWNER",
    "оwner",
    "ownеr",
    "οwner",
    "ｏｗｎｅｒ",
    "own\u200ber",
    "owner\u200b",
    "\u202eowner",
    "owner\x1b[0m",
    "you",
    "me",
    "y0u",
    "the-owner",
    "owners",
    "owner1",
    "0wner2",
    "daily-check",
    "decided",
    "typed",
    "own er",
    " owner",
    "owner ",
    "owner\n",
    "",
    " ",
    ".",
    "-mail",
    "0wner",
    "own3r",
    "own.er",
    "o-w-n-e-r",
    "ovvner",
    "c0de",
    "cocle",
    "he1per",
    "cornpanion",
    "c0mpani0n",
    "unrec0rded",
    "own\u0065\u0301r",
    "x" * 33,
    "mail/owner",
    "helper:owner",
    "m\tail",
]


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_helper_calls_itself_something_like_owner(home: companion.Home, name: str) -> None:
    """P4: a name that could pass for the owner, the code or nobody is refused, and nothing is written."""
    with pytest.raises(companion.Refused) as refused:
        companion.add_note(companion.Records(home), name, "the bill is paid")
    assert refused.value.exit_code == 2 and "helper's name" in str(refused.value)
    assert not (home.memory / "memory.jsonl").exists()
    assert not companion._UNSAFE.search(str(refused.value).replace("\n", ""))


@pytest.mark.parametrize("name", ["a", "mail", "mailer2", "my-owner", "backup.2", "7", "x" * 32, "decoder", "codex"])
def test_an_ordinary_helper_name_is_taken(home: companion.Home, name: str) -> None:
    record = companion.add_note(companion.Records(home), name, "the bill is paid")
    assert record.author == f"helper:{name}" and record.standing == "unconfirmed"


@pytest.mark.parametrize("name", ["owner", "code", "оwner", "own\u200ber", ""])
def test_note_as_owner_from_the_command_line(tmp_path: Path, name: str) -> None:
    """P4: exit code 2, nothing written, from a pipe as from anywhere."""
    done = run_cli(tmp_path / "home", "--note", "I am the owner", "--as", name, stdin="yes\n")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert not list((tmp_path / "home").rglob("memory.jsonl"))


def test_note_from_a_pipe_is_the_helpers_and_lasts_a_week(tmp_path: Path) -> None:
    """P3, P4: the author follows from the path; a helper's line waits."""
    done = run_cli(tmp_path / "home", "--note", "the client agreed to May", "--as", "mail", stdin="/confirm m1\ny\n")
    assert done.returncode == 0 and "unconfirmed" in done.stdout
    (line,) = run_json(tmp_path / "home", "--memory")
    assert (line["author"], line["path"], line["input"], line["standing"]) == (
        "helper:mail",
        "cli:--note",
        "none",
        "unconfirmed",
    )
    written = companion.local_day(companion.parse_at(line["at"]))
    assert line["expires"] == str(written + timedelta(days=7)) and not line["confirmed"]


def test_first_screen_and_report_say_how_many_wait(home: companion.Home) -> None:
    records = companion.Records(home)
    for n in range(3):
        companion.add_note(records, "mail", f"line {n}")
    sitting = Sitting(home)
    assert "3 lines wait for you: /memory waiting" in sitting.first
    outcome = companion.run_daily(home, companion._fetch_of(1, 1))
    assert "Waiting for confirmation (3)" in outcome.text
    listed = sitting.type("/memory waiting")
    assert all(f"“line {n}”" in listed for n in range(3)) and "/confirm ID" in listed
    assert "helper mail wrote it on 29 Nov 2026" in listed and "cli:--note" in listed and "lapses 6 Dec 2026" in listed


def test_confirm_shows_the_exact_text_and_asks_once(home: companion.Home) -> None:
    """P4: vouched for, for 90 days, and still the helper's line."""
    companion.add_note(companion.Records(home), "mail", "the client agreed to May,  twice\nand in writing\x1b[2J")
    sitting = Sitting(home)
    shown = sitting.type("/confirm m1", "y")
    assert sitting.hands.asked == ["Confirm exactly these words? [y/N] "]
    assert "the client agreed to May,  twice" in shown and "and in writing\\x1b[2J" in shown
    record = sitting.record("m1")
    assert record.confirmed and record.author == "helper:mail" and record.standing == "note"
    assert record.expires == "2027-02-27" and "until 27 Feb 2027" in shown and "helper:mail's line" in shown
    assert "you confirmed it on 29 Nov 2026" in sitting.type("/why m1")


@pytest.mark.parametrize("answers", [(), ("n",), ("",), ("yes please",), ("Y E S",)])
def test_anything_but_yes_leaves_the_line_waiting(home: companion.Home, answers: tuple[str, ...]) -> None:
    companion.add_note(companion.Records(home), "mail", "the client agreed to May")
    sitting = Sitting(home)
    assert "m1 still waits" in sitting.type("/confirm m1", *answers)
    assert acts(home) == [("add", "m1")]


def test_a_yes_that_was_pasted_confirms_nothing(home: companion.Home) -> None:
    """P2: what a web page put into the clipboard vouches for nobody."""
    companion.add_note(companion.Records(home), "mail", "the client agreed to May")
    sitting = Sitting(home)

    class Pasting(Hands):
        def ask(self, question: str, default: str = "") -> companion.Entry | None:
            return companion.Entry("y", "pasted")

    sitting.chat.keyboard = Pasting()  # type: ignore[assignment]
    sitting.type("/confirm m1")
    assert acts(home) == [("add", "m1")]


def test_nobody_at_the_keyboard_confirms_discards_or_renews_nothing(home: companion.Home) -> None:
    """P2, P4: piped words act on no record."""
    companion.add_note(companion.Records(home), "mail", "the client agreed to May")
    sitting = Sitting(home)
    sitting.chat.keyboard = None
    for command in ("/confirm m1", "/discard m1", "/renew m1", "/forget m1", "/remember x", "/decide x"):
        sitting.type(command, input="none")
    assert acts(home) == [("add", "m1")]


def test_discard_drops_the_line_and_says_what_erases_it(home: companion.Home) -> None:
    companion.add_note(companion.Records(home), "mail", "the client agreed to May")
    sitting = Sitting(home)
    assert "/forget m1 would erase its words too" in sitting.type("/discard m1")
    assert sitting.record("m1").state == "discarded"
    assert "m1 is discarded" in sitting.type("/confirm m1", "y") and sitting.record("m1").state == "discarded"
    assert "m1" in sitting.type("/memory discarded") and "“the client" not in sitting.type("/memory")


def test_confirming_what_is_no_waiting_line(home: companion.Home) -> None:
    companion.remember(companion.Records(home), "note", "my own words", TYPED)
    sitting = Sitting(home)
    for command in ("/confirm m1", "/discard m1", "/confirm m7", "/confirm", "/confirm d1", "/confirm m1 m2"):
        assert "Saved" not in sitting.type(command, "y")
    assert acts(home) == [("add", "m1")] and sitting.hands.asked == []


def test_two_chats_confirm_and_forget_the_same_line_at_once(home: companion.Home) -> None:
    """P10: what the one forgot the other cannot bring back by confirming what it saw before."""
    companion.add_note(companion.Records(home), "mail", "the client agreed to May")
    here, there = companion.Records(home), companion.Records(home)
    here.refresh()
    companion.forget(there, "m1", "repl:/forget", TYPED, lambda record_id, words: None)
    with pytest.raises(companion.Refused, match="forgotten"):
        companion.confirm(here, "m1", TYPED)
    with pytest.raises(companion.Refused):
        companion.renew(here, "m1", TYPED)
    assert here.get("m1").standing == "no_record" and not here.live()


def test_a_late_act_on_a_forgotten_record_changes_nothing(home: companion.Home) -> None:
    """P10: even a confirm line that reached the file after the forget line."""
    records = companion.Records(home)
    companion.add_note(records, "mail", "the client agreed to May")
    companion.forget(records, "m1", "repl:/forget", TYPED, lambda record_id, words: None)
    for op in ("confirm", "renew", "discard"):
        records.memory.append_all([companion.Draft(op, "owner", f"repl:/{op}", target="m1", input="typed",
                                                   expires=None if op == "discard" else "2027-01-01")])
    records.memory.append_all([companion.Draft("lapse", "code", "chat:start", target="m1")])
    records.refresh()
    record = records.get("m1")
    assert (record.state, record.standing, record.text) == ("forgotten", "no_record", None)


# Pairs.


def test_typing_the_helpers_very_words_makes_a_pair(home: companion.Home) -> None:
    companion.add_note(companion.Records(home), "mail", "the rent is 640 a month")
    sitting = Sitting(home)
    assert "Saved m2: note, in place of m1" in sitting.type("/remember The rent is  640 a month.")
    assert (sitting.record("m2").replaces, sitting.record("m1").replaced_by) == ("m1", "m2")
    told = sitting.type("/why m2")
    assert "replaces m1" in told and "helper mail" in told and "the rent is 640 a month" in told


def test_correcting_a_waiting_line_offers_the_pair_by_tab(home: companion.Home) -> None:
    """The misreading and the owner's words stay side by side, and the owner's are said once."""
    companion.add_note(companion.Records(home), "mail", "the rent is 460 a month from May")
    sitting = Sitting(home)
    shown = sitting.type("/remember the rent is 640 a month from May")
    assert "Saved m2" in shown and "m1 waits for confirmation" in shown
    assert sitting.chat.hint == "/remember --replaces m1 the rent is 640 a month from May"
    assert "Saved m3: note, in place of m1" in sitting.tab()
    live = companion.Records(home)
    live.refresh()
    assert [r.id for r in live.live()] == ["m3"], "the line without its partner went"
    assert live.get("m1").text == "the rent is 460 a month from May" and live.get("m1").replaced_by == "m3"


def test_correcting_an_imported_line_by_its_evidence(home: companion.Home) -> None:
    companion.import_legacy(
        companion.Records(home),
        "old.jsonl",
        companion.dump_json(
            {"text": "Owner committed to launching the garden page", "evidence": "maybe I'll do a garden page"}
        ).encode(),
    )
    sitting = Sitting(home)
    sitting.type("/remember proposal: maybe I'll do a garden page")
    assert "Saved m3" in sitting.tab()
    page = companion.build_export_page(sitting.chat.records)
    assert "committed to launching" in page and "maybe I'll do a garden page" in page
    assert sitting.record("m1").replaced_by == "m3" and sitting.record("m3").standing == "undecided"


def test_a_line_about_something_else_is_offered_no_pair(home: companion.Home) -> None:
    companion.add_note(companion.Records(home), "mail", "the rent is 460 a month from May")
    sitting = Sitting(home)
    sitting.type("/remember buy oat milk")
    assert sitting.chat.hint is None


@pytest.mark.parametrize(
    "target, said",
    [
        ("d1", "/decide --replaces d1"),
        ("m9", "no record"),
        ("m1", "replaced by m2"),
        ("m3", "forgotten"),
        ("x", "no record"),
    ],
)
def test_a_pair_with_what_cannot_be_replaced_is_refused(home: companion.Home, target: str, said: str) -> None:
    records = companion.Records(home)
    companion.remember(records, "note", "one", TYPED)
    companion.remember(records, "note", "two", TYPED, "m1")
    companion.remember(records, "note", "three", TYPED)
    companion.decide(records, "use PostgreSQL", TYPED)
    companion.forget(records, "m3", "repl:/forget", TYPED, lambda record_id, words: None)
    before = acts(home)
    assert said in Sitting(home).type(f"/remember --replaces {target} something")
    assert acts(home) == before


# Repeats.


def test_the_same_line_twice_is_there_already(home: companion.Home) -> None:
    sitting = Sitting(home)
    sitting.type("/remember preference: short, plain answers")
    assert "m1 says that already" in sitting.type("/remember preference: Short, plain answers.")
    assert acts(home) == [("add", "m1")]


def test_a_lapsed_line_typed_again_is_renewed(home: companion.Home, clock: Clock) -> None:
    """P11: it is on record again, as the line it was."""
    Sitting(home).type("/remember the boiler man comes in spring")
    clock.move(days=181)
    sitting = Sitting(home)
    assert "m1 has lapsed" in sitting.first
    assert "m1 had lapsed; it now lasts until" in sitting.type("/remember the boiler man comes in spring")
    assert sitting.record("m1").state == "live" and acts(home) == [("add", "m1"), ("lapse", "m1"), ("renew", "m1")]


def test_a_line_that_a_long_record_pushed_out_of_view_is_brought_back(tmp_path: Path) -> None:
    """P6: typing it again puts it in front of the model."""
    home = make_home(tmp_path, **NOWHERE, num_ctx=1024)
    records = companion.Records(home)
    companion.remember(records, "note", "the alarm code hangs behind the door", TYPED)
    for n in range(30):
        companion.remember(records, "note", f"note number {n} " + "with words " * 8, TYPED)
    sitting = Sitting(home)
    assert "behind the door" not in sitting.chat.talk.system
    assert "in place of m1" in sitting.type("/remember the alarm code hangs behind the door")
    asked = companion.build_question(sitting.chat.talk, companion.Asked("hello"), ())[0]
    assert "behind the door" in asked and "note number 0 " not in asked


def test_a_confirmed_helpers_line_typed_again_is_offered_as_the_owners(home: companion.Home) -> None:
    """P4: the owner's own words get the owner's name only by a command of the owner's."""
    records = companion.Records(home)
    companion.add_note(records, "mail", "the rent is 640 a month")
    companion.confirm(records, "m1", TYPED)
    sitting = Sitting(home)
    assert "m1 says that already" in sitting.type("/remember the rent is 640 a month")
    assert acts(home) == [("add", "m1"), ("confirm", "m1")]
    assert "Saved m2: note, in place of m1" in sitting.tab()
    assert sitting.record("m2").author == "owner"


def test_two_kinds_with_the_same_words_are_two_records(home: companion.Home) -> None:
    sitting = Sitting(home)
    sitting.type("/remember proposal: a garden page")
    sitting.type("/remember preference: a garden page")
    assert acts(home) == [("add", "m1"), ("add", "m2")]


# Lapse (P11).

LIFETIMES = [("preference", 365), ("proposal", 180), ("note", 180)]


@pytest.mark.parametrize("kind, days", LIFETIMES)
def test_a_line_lapses_on_its_day_and_not_before(home: companion.Home, clock: Clock, kind: str, days: int) -> None:
    """P11: recalled on the last day of its lifetime, not on the day it ends; written once."""
    records = companion.Records(home)
    companion.remember(records, kind, "the words", TYPED)
    clock.move(days=days - 1)
    records.refresh()
    assert [r.id for r in records.live()] == ["m1"] and not companion.write_lapses(records, "chat:start")
    clock.move(days=1)
    assert not records.live() and [r.id for r in companion.write_lapses(records, "chat:start")] == ["m1"]
    assert not companion.write_lapses(records, "daily:check")
    assert acts(home) == [("add", "m1"), ("lapse", "m1")] and records.get("m1").state == "lapsed"


def test_lapse_lines_are_written_by_the_daily_check_and_by_the_chat(home: companion.Home, clock: Clock) -> None:
    """P11, P3: each with the path of who wrote it."""
    records = companion.Records(home)
    companion.add_note(records, "mail", "first")
    clock.move(days=7)
    outcome = companion.run_daily(home, companion._fetch_of(1, 1))
    assert "m1  note by helper:mail, lapsed on 6 Dec 2026  “first”" in outcome.text
    companion.add_note(records, "mail", "second")
    clock.move(days=8)
    assert "m2 has lapsed: “second”" in Sitting(home).first
    records.refresh()
    assert [
        (line["target"], line["path"], line["author"]) for line in records.memory.lines if line["op"] == "lapse"
    ] == [("m1", "daily:check", "code"), ("m2", "chat:start", "code")]
    assert companion.build_stats(home, records)["lapses"] == {"due": 2, "written": 2, "on_the_day": 1}


def test_a_lapse_is_announced_a_week_before_and_a_short_life_not_from_its_first_day(
    home: companion.Home, clock: Clock
) -> None:
    records = companion.Records(home)
    companion.remember(records, "note", "half a year", TYPED)
    companion.add_note(records, "mail", "one week")

    def soon() -> list[str]:
        records.refresh()
        return [r.id for r in records.due_soon()]

    assert soon() == []
    clock.move(days=4)
    assert soon() == []
    clock.move(days=1)
    assert soon() == ["m2"], "two days before, a third of seven"
    companion.renew(records, "m2", TYPED)
    assert soon() == [], "renewed for a week from now"
    clock.move(days=167)
    assert soon() == []
    clock.move(days=1)
    assert "m1" in soon() and "Lapsing soon: m1 on 28 May 2027: /renew ID keeps one" in Sitting(home).first
    assert "Lapsing soon (1)" in companion.run_daily(home, companion._fetch_of(1, 1)).text


def test_a_lapsed_line_is_listed_not_recalled_and_can_be_renewed(home: companion.Home, clock: Clock) -> None:
    """P11: out of recall, out of the prompt, back by /renew."""
    companion.remember(companion.Records(home), "note", "the zinc bucket is in the shed", TYPED)
    clock.move(days=181)
    sitting = Sitting(home)
    assert not sitting.chat.talk.finder.find("where is the zinc bucket?", ()).on_record
    assert "zinc" not in sitting.chat.talk.system
    assert "zinc bucket" in sitting.type("/memory lapsed") and "zinc" not in sitting.type("/memory")
    assert "m1 now lasts until" in sitting.type("/renew m1")
    sitting.chat.talk.refresh()
    assert sitting.chat.talk.finder.find("where is the zinc bucket?", ()).on_record


def test_a_talk_that_stays_open_past_midnight_recalls_nothing_that_lapsed(home: companion.Home, clock: Clock) -> None:
    """P11: no restart is needed for a line to end."""
    companion.remember(companion.Records(home), "note", "the zinc bucket is in the shed", TYPED)
    clock.move(days=179)
    sitting = Sitting(home)
    assert sitting.chat.talk.finder.find("where is the zinc bucket?", ()).on_record
    clock.move(days=1)
    sitting.chat.talk.refresh()
    assert not sitting.chat.talk.finder.find("where is the zinc bucket?", ()).on_record


def test_forty_observations_lapse_in_a_line_not_in_forty(home: companion.Home, clock: Clock) -> None:
    records = companion.Records(home)
    companion.observe(records, [(f"observation {n}", {"key": f"k{n}"}) for n in range(40)])
    for n in range(8):
        companion.add_note(records, "mail", f"line {n}")
    clock.move(days=31)
    first = Sitting(home).first
    assert first.count("has lapsed") == 2 and "46 other lines lapsed: /memory lapsed" in first


@pytest.mark.parametrize(
    "command, said",
    [("/renew d1", "does not lapse"), ("/renew m1", "discarded"), ("/renew m8", "no record"), ("/renew", "needs an id")],
)
def test_renewing_what_cannot_be_renewed(home: companion.Home, command: str, said: str) -> None:
    records = companion.Records(home)
    companion.add_note(records, "mail", "x")
    companion.discard(records, "m1", TYPED)
    companion.decide(records, "use PostgreSQL", TYPED)
    before = acts(home)
    assert said in Sitting(home).type(command)
    assert acts(home) == before


def test_decisions_do_not_lapse(home: companion.Home, clock: Clock) -> None:
    records = companion.Records(home)
    companion.decide(records, "use PostgreSQL", TYPED)
    clock.move(days=20_000)
    records.refresh()
    assert [r.standing for r in records.live()] == ["decided"] and not companion.write_lapses(records, "chat:start")


def test_lifetimes_come_from_the_settings(tmp_path: Path) -> None:
    records = make_records(tmp_path, lifetimes={**companion.DEFAULT_LIFETIMES, "note": 3})
    assert companion.remember(records, "note", "x", TYPED).expires == "2026-12-02"


# Labels: who, when, by which path, confirmed or not, lapsing when.


def make_each(records: companion.Records) -> dict[str, companion.Record]:
    """A record of every author and state of confirmation."""
    mine = companion.remember(records, "preference", "short answers", TYPED)
    pasted = companion.remember(records, "note", "pasted words", companion.Origin("pasted", "s1", 2))
    waiting = companion.add_note(records, "mail", "the client agreed to May")
    vouched = companion.confirm(records, companion.add_note(records, "cal", "dentist on 4 May").id, TYPED)
    (old,) = companion.import_legacy(records, "old.jsonl", b'{"text": "likes tea"}')[0]
    (seen,) = companion.observe(records, [("“One”: comments_count 3 → 4", {"key": "k", "tool": "dev_articles"})])
    decided = companion.decide(records, "use PostgreSQL", TYPED)
    return {
        "mine": mine,
        "pasted": pasted,
        "waiting": waiting,
        "vouched": vouched,
        "old": old,
        "seen": seen,
        "decided": decided,
    }


LABELS = {  # record -> (what a person is shown, what the model is sent)
    "mine": (
        "you typed it on 29 Nov 2026, lapses 29 Nov 2027, by repl:/remember",
        "PREFERENCE (preference by the owner via repl:/remember, 29 Nov 2026, until 29 Nov 2027)",
    ),
    "pasted": (
        "you pasted it on 29 Nov 2026, lapses 28 May 2027, by repl:/remember",
        "NOTE (note by the owner via repl:/remember, 29 Nov 2026, until 28 May 2027)",
    ),
    "waiting": (
        "helper mail wrote it on 29 Nov 2026, lapses 6 Dec 2026, by cli:--note",
        "UNCONFIRMED (note by helper mail via cli:--note, 29 Nov 2026, until 6 Dec 2026)",
    ),
    "vouched": (
        "helper cal wrote it on 29 Nov 2026, you confirmed it on 29 Nov 2026, lapses 27 Feb 2027, by cli:--note",
        "NOTE (note by helper cal via cli:--note, 29 Nov 2026, confirmed by the owner on 29 Nov 2026, "
        "until 27 Feb 2027)",
    ),
    "old": (
        "author unrecorded, imported from old.jsonl line 1 on 29 Nov 2026, lapses 6 Dec 2026, by import:legacy",
        "UNCONFIRMED (note by an old file, author unrecorded via import:legacy, 29 Nov 2026, until 6 Dec 2026)",
    ),
    "seen": (
        "the daily check wrote it on 29 Nov 2026, lapses 29 Dec 2026, by daily:check",
        "OBSERVED (observation by the daily check via daily:check, 29 Nov 2026, until 29 Dec 2026)",
    ),
    "decided": (
        "you typed it on 29 Nov 2026, by repl:/decide",
        "DECIDED (decision by the owner via repl:/decide, 29 Nov 2026)",
    ),
}


@pytest.mark.parametrize("which", LABELS)
def test_every_label_says_who_when_how_confirmed_and_until_when(home: companion.Home, which: str) -> None:
    """P3: in lists, in /why, in exports and in what the model reads."""
    records = companion.Records(home)
    record = make_each(records)[which]
    shown, sent = LABELS[which]
    sitting = Sitting(home)
    where = {
        "list": sitting.type("/decisions" if which == "decided" else "/memory"),
        "why": sitting.type(f"/why {record.id}"),
        "export": companion.build_export_page(records),
    }
    for name, text in where.items():
        assert shown in " ".join(text.split()), name
    assert f"{record.id} {sent}" in companion.build_model_line(record)
    said, _, line = sitting.chat.talk.system.partition(f"\n{record.id} ")
    if companion.is_typed(record):  # such lines stand under one that says what they all have
        sent = sent.replace(f"{record.kind} by the owner via {record.path}, ", "")
        assert said.rpartition("\nTyped by ")[2].startswith(f"the owner via {record.path}:")
    assert line.startswith(sent)


def test_why_tells_the_whole_story(home: companion.Home, clock: Clock) -> None:
    """P3: line, acts, pair, session and turn, and the answers that used it."""
    records = companion.Records(home)
    companion.add_note(records, "mail", "the rent is 460 a month")
    companion.confirm(records, "m1", TYPED)
    companion.renew(records, "m1", TYPED)
    sitting = Sitting(home)
    sitting.type("what is the rent?")
    clock.move(days=2)
    sitting.type("what is the rent?")
    sitting.type("/remember --replaces m1 the rent is 640 a month")
    story = " ".join(sitting.type("/why m1").split())
    for part in (
        "line 1 of memory.jsonl, 29 Nov 2026, author helper:mail, path cli:--note, input none",
        "confirm on 29 Nov 2026 by owner, path repl:/confirm, until 27 Feb 2027",
        "renew on 29 Nov 2026 by owner, path repl:/renew",
        "replaced by m2",
        "the rent is 640 a month",
        "used in 2 answers; the last: 29 Nov 2026, session",
        "1 Dec 2026, session",
        "turn 2",
    ):
        assert part in story, part
    later = " ".join(sitting.type("/why m2").split())
    assert f"session {sitting.chat.talk.session}, turn 2" in later and "replaces m1" in later
    assert "used in 0 answers" in later and "the rent is 460 a month" in later


def test_why_of_a_forgotten_record_shows_no_words(home: companion.Home) -> None:
    """P10: the story goes on, the words do not."""
    records = companion.Records(home)
    companion.decide(records, "call Zebulon", TYPED)
    companion.decide(records, "call nobody", TYPED, "d1")
    companion.forget(records, "d1", "repl:/forget", TYPED, lambda record_id, words: None)
    sitting = Sitting(home)
    told = sitting.type("/why d1") + sitting.type("/why d2")
    assert "forget on 29 Nov 2026 by owner" in told and "Zebulon" not in told and "replaced by d2" in told


def test_open_lists_what_is_open_with_its_age_and_day(home: companion.Home, clock: Clock) -> None:
    records = companion.Records(home)
    companion.remember(records, "proposal", "maybe paint the shed on Friday", TYPED)
    companion.remember(records, "note", "not decided about the cat", TYPED)
    companion.remember(records, "note", "the shed is brown", TYPED)
    companion.decide(records, "rent the flat", TYPED)
    companion.undecide(records, "d1", "too dear", TYPED)
    clock.move(days=5)
    companion.add_note(records, "mail", "the client comes tomorrow")
    shown = Sitting(home).type("/open")
    assert re.search(r"m1  5 days  “maybe paint the shed on Friday”  \(written Sunday 29 Nov 2026\)", shown)
    assert "m2  5 days  “not decided about the cat”\n" in shown and "d1  5 days  “rent the flat”" in shown
    assert "m4  today  “the client comes tomorrow”  (written Friday 4 Dec 2026)" in shown and "brown" not in shown


def test_nothing_is_open(home: companion.Home) -> None:
    assert "Nothing is open." in Sitting(home).type("/open")


A_NOTE = {"op": "add", "kind": "note", "path": "repl:/remember", "expires": "2099-01-01"}
FORGED = {  # what somebody who knows the format might put into memory.jsonl
    "a decision": {},
    "a decision that calls itself m2": {"id": "m2"},
    "an id that is taken": {**A_NOTE, "id": "m1"},
    "a note that calls itself d7": {**A_NOTE, "id": "d7"},
    "no id": {**A_NOTE, "id": None},
    "an id in other digits": {**A_NOTE, "id": "m²"},
    "an unknown kind": {**A_NOTE, "kind": "order", "id": "m2"},
    "an unknown act": {"op": "bless", "target": "m1"},
    "an act of the other ledger": {"op": "undecide", "path": "repl:/undecide", "target": "m1"},
    "an act on nothing": {"op": "confirm", "path": "repl:/confirm", "target": "m5", "expires": "2099-01-01"},
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_sound_line_that_means_nothing_here_is_named_and_makes_nothing(home: companion.Home, forgery: str) -> None:
    """P5: no line of memory.jsonl, however well made, is a decision."""
    records = companion.Records(home)
    companion.remember(records, "note", "mine", TYPED)
    draft = companion.Draft("decide", "owner", "repl:/decide", True, kind="decision", text="sell it all",
                            input="typed")
    line: Any = {
        **companion.build_line(draft, records.memory.head, "d1", "2026-11-29T09:00:00.000Z", "ab" * 16),
        **FORGED[forgery],
    }
    line["hash"] = companion.build_hash(line)
    with records.memory.path.open("ab") as file:
        file.write(companion.format_line(line) + b"\n")
    again = companion.Records(home)
    again.refresh()
    assert [(r.id, r.text) for r in again.live()] == [("m1", "mine")]
    assert len(again.oddities) == 1 and "memory.jsonl line 2" in again.oddities[0]
    assert again.oddities[0] in Sitting(home).first


def test_the_days_of_a_lifetime_are_the_owners(home: companion.Home) -> None:
    record = companion.add_note(companion.Records(home), "mail", "x")
    assert date.fromisoformat(record.expires or "") - companion.local_day(home.now()) == timedelta(days=7)
