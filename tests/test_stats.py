"""The figures of the record: who wrote how much, what lapsed when, what fell out of view (P3, P6, P10, P11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from daily_help import failing, reading, ten
from helpers import TYPED, Clock, Sitting, make_home, run_cli, run_json
from stub_dev import entry

import companion

LOCAL = {"host": "http://127.0.0.1:9", "embed_model": "none", "warm": False, "dev_username": "samplewriter"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(tmp_path: Path, clock: Clock) -> companion.Home:
    return make_home(tmp_path, clock, **LOCAL)


def stats(home: companion.Home) -> dict[str, Any]:
    records = companion.open_records(home)
    records.refresh()
    return companion.build_stats(home, records)


def check(home: companion.Home, rows: list[dict[str, Any]]) -> companion.DailyOutcome:
    return companion.run_daily(home, reading(home, rows))


def run_every_writer(home: companion.Home, clock: Clock) -> None:
    """Each code path that adds a line, the way its user takes."""
    check(home, ten())
    companion.add_note(companion.Records(home), "mail", "the client agreed to May")
    companion.add_note(companion.Records(home), "mail", "lapses in the check")
    companion.import_legacy(companion.Records(home), "old.jsonl", b'{"text": "likes tea"}\n{"text": "likes rain"}')
    sitting = Sitting(home)
    for command in (
        "/remember preference: short answers",
        "/remember to be forgotten here",
        "/confirm m1",
        "/discard m3",
        "/remember --replaces m4 rain is fine",
        "/decide use PostgreSQL",
        "/decide --replaces d1 use SQLite",
        "/undecide d2 too slow",
        "/renew m5",
        "/forget m6",
    ):
        sitting.type(command, "y", "y")
    companion.remember(companion.Records(home), "note", "to be forgotten outside", TYPED)
    records = companion.open_records(home)
    records.refresh()
    companion.forget_everywhere(home, records, "m8", "cli:--forget", companion.Origin(), "traces", None)
    clock.move(days=7)
    check(home, ten(comments_count=51))
    companion.add_note(records, "mail", "lapses in the chat")
    clock.move(days=7)
    Sitting(home)
    companion.seal_decisions(companion.Records(home), "a long passphrase of six words", TYPED)


def test_every_line_is_attributed_after_every_writer(home: companion.Home, clock: Clock) -> None:
    """P3: the author of every line follows from a code path that the program has; no path is left out here."""
    run_every_writer(home, clock)
    records = companion.Records(home)
    records.refresh()
    lines = [*records.memory.lines, *records.decisions.lines]
    assert {line["path"] for line in lines} == set(companion.AUTHORS), "a writer did not run"
    assert {line["op"] for line in lines} == {
        "add",
        "confirm",
        "discard",
        "renew",
        "lapse",
        "forget",
        "decide",
        "undecide",
        "seal",
    }
    figures = run_json(home.root, "--stats")
    assert figures["attributed_share"] == 1.0 and figures["damaged_lines"] == 0 and figures["lines"] == len(lines)
    assert stats(home)["attributed_share"] == 1.0
    assert [ledger.verify(full=True).verdict for ledger in (records.memory, records.decisions)] == ["fine", "fine"]


@pytest.mark.parametrize(
    "change",
    [{"author": "owner"}, {"author": "helper"}, {"path": "repl:/unheard"}, {"author": ""}, {"path": ""}],
    ids=str,
)
def test_a_line_with_another_author_than_its_path_gives_is_not_attributed(home: companion.Home, change: Any) -> None:
    """P3: the figure can fall; it is no constant."""
    records = companion.Records(home)
    companion.remember(records, "note", "mine", TYPED)
    draft = companion.Draft("add", "code", "daily:check", True, kind="observation", text="seen")
    line: Any = {
        **companion.build_line(draft, records.memory.head, "m2", "2026-11-29T09:00:00.000Z", "ab" * 16),
        **change,
    }
    line["hash"] = companion.build_hash(line)
    with records.memory.path.open("ab") as file:
        file.write(companion.format_line(line) + b"\n")
    assert stats(home)["attributed_share"] == 0.5


def test_lapses_due_written_and_on_the_day(home: companion.Home, clock: Clock) -> None:
    """P11: a lapse that the machine slept through is late; a renewed line is due anew."""
    records = companion.Records(home)
    for number in range(4):
        companion.add_note(records, "mail", f"line {number}")
    companion.renew(records, "m4", TYPED)
    clock.move(days=3)
    companion.renew(records, "m3", TYPED)
    clock.move(days=4)
    assert stats(home)["lapses"] == {"due": 3, "written": 0, "on_the_day": 0}
    companion.write_lapses(records, "daily:check")
    assert stats(home)["lapses"] == {"due": 3, "written": 3, "on_the_day": 3}
    clock.move(days=5)
    companion.write_lapses(records, "chat:start")
    assert stats(home)["lapses"] == {"due": 4, "written": 4, "on_the_day": 3}, "m3 ended two days ago"
    companion.renew(records, "m1", TYPED)
    clock.move(days=7)
    companion.write_lapses(records, "daily:check")
    assert stats(home)["lapses"] == {"due": 5, "written": 5, "on_the_day": 4}


def test_checks_done_failed_broken_off_and_days_missed(home: companion.Home, clock: Clock) -> None:
    check(home, ten())
    assert stats(home)["days_missed"] == 0
    clock.move(days=1)
    check(home, ten())
    clock.move(days=4)
    companion.run_daily(home, failing())
    companion.log_event(home, "daily_start", run="c-broken", pid=1, started_by="cron")
    figures = stats(home)
    assert [figures[name] for name in ("checks_good", "checks_failed", "checks_broken_off", "days_missed")] == [
        2,
        1,
        1,
        3,
    ]
    check(home, ten())
    clock.move(days=1)
    figures = stats(home)
    assert (figures["checks_good"], figures["days_missed"]) == (3, 3), "what was missed stays missed"


def test_windows_and_what_fell_out_of_each(home: companion.Home) -> None:
    """P6: observations and waiting lines, each by its own window; the owner's never."""
    records = companion.Records(home)
    companion.observe(records, [(f"observation {n}", {"key": f"k{n}"}) for n in range(33)])
    for number in range(12):
        companion.add_note(records, "mail", f"line {number}")
    for number in range(50):
        companion.remember(records, "note", f"mine {number}", TYPED)
    figures = stats(home)
    assert figures["windows"] == {"observation": 30, "unconfirmed": 10}
    assert figures["fell_out_of_windows"] == {"observation": 3, "unconfirmed": 2}
    assert figures["waiting"] == 12 and figures["authors"] == {"code": 33, "helper:mail": 12, "owner": 50}


def test_time_from_forget_to_gone(home: companion.Home, clock: Clock) -> None:
    """P10: from the forget line until the words are gone, a crash in between included."""
    records = companion.Records(home)
    companion.remember(records, "note", "call Zebulon", TYPED)
    companion.remember(records, "note", "call Quixby", TYPED)
    companion.forget_everywhere(home, records, "m1", "cli:--forget", companion.Origin(), "words", None)
    assert 0 < stats(home)["median_forget_s"] < 1

    def fail(record_id: str, words: list[str]) -> None:
        raise companion.StorageFailed("The disk is full.")

    with pytest.raises(companion.StorageFailed):
        companion.forget(records, "m2", "repl:/forget", TYPED, fail)
    clock.move(hours=2)
    figures = stats(home)
    assert figures["forgotten"] == 2 and 7200 <= figures["median_forget_s"] < 7201


def test_median_age_and_heads(home: companion.Home, clock: Clock) -> None:
    records = companion.Records(home)
    for days in (0, 10, 30):
        clock.move(days=days)
        companion.remember(records, "note", f"after {days}", TYPED)
    companion.decide(records, "use PostgreSQL", TYPED)
    figures = stats(home)
    assert figures["median_age_days"] == 30 and figures["decisions_standing"] == 1
    assert figures["head_memory"].startswith("chain memory 3 sha256:")
    assert figures["head_decisions"] == companion.render_fingerprint("decisions", records.decisions.head)


def test_an_empty_record_has_figures_too(tmp_path: Path) -> None:
    figures = run_json(tmp_path / "home", "--stats")
    assert figures["lines"] == 0 and figures["attributed_share"] == 1.0 and figures["median_age_days"] is None
    assert all(name == name.lower() and " " not in name for name in figures)
    done = run_cli(tmp_path / "home", "--stats")
    assert done.returncode == 0 and "attributed share" in done.stdout and "not known" in done.stdout


def test_the_chat_shows_the_same_figures(home: companion.Home) -> None:
    companion.remember(companion.Records(home), "note", "mine", TYPED)
    check(home, [entry(1)])
    shown = Sitting(home).type("/stats")
    for name, value in stats(home).items():
        assert name.replace("_", " ") in shown, name
        assert companion.render_stat(value).split(",")[0] in shown, name
