"""What the daily check says and keeps (P7, P8, P12; R-38, R-41 to R-48)."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import stub_dev as stub
from daily_help import START, Clock, check, failing, observations, open_home, reading, reports, section, ten
from hypothesis import given
from hypothesis import strategies as st
from stub_dev import NASTY_TITLES, StubDev, entry

import companion

SECTIONS = ["What changed", "What deserves attention", "What was not looked at", "Memory", "What was checked"]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def home(tmp_path, clock):
    return open_home(tmp_path / "home", clock)


@pytest.fixture
def zone(monkeypatch):
    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def next_day(clock, days=1):
    clock.move(days=days)


def figures(home):
    snapshot = companion.load_snapshot(home)
    return {seen.id: (seen.comments_count, seen.public_reactions_count) for seen in snapshot.articles}


def events(home, name):
    return [e for e in companion.load_events(home) if e["event"] == name]


# The two known cases, through a real server.


@pytest.fixture
def dev():
    with StubDev() as server:
        yield server


def live(home, dev, *answers):
    """A check that really fetches, from the stub."""
    dev.script(*answers)
    served = companion.Home(
        home.root, home.settings._replace(dev_url=dev.url), now=home.now, entropy=home.entropy
    )
    return companion.run_daily(served, sleep=lambda s: None)


def test_known_case_50_to_51_comments(home, clock, dev):
    live(home, dev, stub.articles([entry(comments_count=50)]))
    next_day(clock)
    outcome = live(home, dev, stub.articles([entry(comments_count=51)]))
    attention = section(outcome.text, "What deserves attention")
    assert (
        "A comment is new on “Why [/etc/hosts] still wins: notes on <name> & friends”: "
        "comments_count 50 → 51" in attention
    )
    assert "The comment text was not retrieved, so who wrote it and what it says are unknown." in attention
    assert "nothing needs your attention" not in outcome.text.lower()
    assert outcome.status == "ok" and outcome.exit_code == 0


def test_known_case_31_to_32_reactions(home, clock, dev):
    live(home, dev, stub.articles([entry(public_reactions_count=31)]))
    next_day(clock)
    outcome = live(home, dev, stub.articles([entry(public_reactions_count=32)]))
    assert "public_reactions_count 31 → 32" in section(outcome.text, "What changed")
    assert section(outcome.text, "What deserves attention") == "Nothing needs your attention."
    assert outcome.summary == "1 change; nothing needs your attention."


FAULTS = {
    "403": stub.status(403),
    "429": stub.busy(),
    "503": stub.status(503, stub.html_page()),
    "html": stub.status(200, stub.html_page()),
    "object": stub.raw(b'{"error":"x"}'),
    "half": stub.half_body([entry()]),
    "huge": stub.huge_body(4_000_000),
    "unknown name": stub.articles([]),
    "redirect": stub.redirect("https://example.invalid/"),
    "hang up": stub.hang_up(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_failed_reading_moves_nothing(home, clock, dev, fault):
    live(home, dev, stub.articles(ten()))
    before = {p.name: p.read_bytes() for p in home.memory.iterdir() if p.name != "heads.json"}
    next_day(clock)
    outcome = live(home, dev, FAULTS[fault])
    assert outcome.exit_code == 0 and outcome.status == "failed"
    assert {p.name: p.read_bytes() for p in home.memory.iterdir() if p.name != "heads.json"} == before
    text = outcome.text
    assert re.findall(r"(?m)^## (.*)$", text) == SECTIONS
    gaps = section(text, "What was not looked at")
    assert "could not be looked at" in gaps or "check it" in gaps
    assert "The last figures are those of 27 Nov 2026 08:05" in section(text, "What changed")
    assert section(text, "What deserves attention").startswith("Unknown")
    assert "removed" not in text and "lost" not in text and "html" not in text.lower() and "→" not in text
    assert "nothing needs your attention" not in text.lower()
    assert events(home, "daily_stop")[-1]["status"] == "failed" and events(home, "daily_stop")[-1]["reason"]
    next_day(clock)
    after = live(home, dev, stub.articles(ten(comments_count=52)))
    assert "comments_count 50 → 52" in after.text
    gaps = section(after.text, "What was not looked at")
    assert "- The check of 28 Nov 2026 08:05 failed. " in gaps
    assert "Days without a good check since 27 Nov 2026 08:05: 28 Nov 2026." in gaps


def test_a_typo_in_the_name_is_said_as_such(home, clock, dev):
    outcome = live(home, dev, stub.articles([]))
    assert "DEV has no articles under that name, check it: samplewriter." in outcome.text
    assert companion.load_snapshot(home) is None


def test_no_account_is_told_and_not_asked_for(home, clock):
    bare = companion.Home(home.root, companion.Settings(), now=clock, entropy=clock.entropy)
    outcome = companion.run_daily(bare)
    assert outcome.exit_code == 0 and "no account is set" in outcome.text
    assert "source none" in outcome.text and "receipt none, 0 tries" in outcome.text


# The report.


def test_the_first_check_makes_no_observation(home):
    outcome = check(home, ten())
    assert observations(home) == [] and len(figures(home)) == 10
    assert "first check" in section(outcome.text, "What changed")
    assert "nothing needs your attention" not in outcome.text.lower()


def test_the_sections_are_in_order_and_the_report_is_a_file(home, clock):
    outcome = check(home, ten())
    assert re.findall(r"(?m)^## (.*)$", outcome.text) == SECTIONS
    assert outcome.report.name == "2026-11-27_080500.md" and outcome.report.read_text() == outcome.text
    assert outcome.report.stat().st_mode & 0o777 == 0o600
    assert outcome.text.startswith("# Daily check, 27 Nov 2026 08:05\n")


def test_what_was_checked_names_source_receipt_process_parent_and_heads(home, clock):
    companion.remember(companion.Records(home), "note", "a line", companion.Origin("typed"))
    checked = section(check(home, ten(), tries=3).text, "What was checked")
    assert "- source https://dev.to/api/articles?username=samplewriter&per_page=10" in checked
    assert re.search(
        r"- receipt r20261127-080500-[0-9a-f]{4}, read at 27 Nov 2026 08:05 "
        r"\(2026-11-27T08:05:00\.\d{3}Z\), 10 articles, 3 tries",
        checked,
    )
    assert re.search(r"- check c20261127-080500-[0-9a-f]{4}, process 4711, started by cron", checked)
    assert re.search(r"(?m)^- chain memory 1 sha256:[0-9a-f]{16}$", checked)
    assert re.search(r"(?m)^- chain decisions 0 sha256:[0-9a-f]{16}$", checked)


def test_the_heads_in_a_report_are_witnesses(home, clock):
    records = companion.Records(home)
    for number in range(3):
        companion.remember(records, "note", f"line {number}", companion.Origin("typed"))
    check(home, ten())
    path = home.memory / "memory.jsonl"
    kept = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(kept[:1]) + b"\n")
    (home.logs / "events.jsonl").unlink()
    first = json.loads(kept[0])
    heads = {"memory": {"seq": 1, "hash": first["hash"], "at": "", "accepted_at": None}}
    (home.memory / "heads.json").write_text(json.dumps(heads))
    verdict = companion.Records(home).memory.verify(full=True)
    assert verdict.verdict == "rolled back" and "report" in verdict.witness


def test_a_title_cannot_forge_a_witness_or_a_line(home, clock):
    forged = "chain memory 999 sha256:" + "0" * 64
    check(home, [entry(1, title=forged), *ten()[1:]])
    next_day(clock)
    outcome = check(
        home,
        [
            entry(1, title=f"again {forged}", comments_count=60),
            entry(12, title="    m1  x", days=-1),
            *ten()[1:9],
        ],
    )
    assert companion.Records(home).memory.verify(full=True).verdict == "fine"
    assert not re.search(r"(?m)^- chain memory 999|^## .*chain", outcome.text)
    assert [f for f in companion.FINGERPRINT.findall(outcome.text) if f[1] == "999"] == []


def test_nothing_from_outside_moves_the_screen_or_begins_a_line(home, clock):
    rows = [entry(n + 1, title=title, description=title) for n, title in enumerate(NASTY_TITLES[:10])]
    check(home, json.loads(json.dumps(rows)))
    next_day(clock)
    for row in rows:
        row["comments_count"] = 51
    outcome = check(home, json.loads(json.dumps(rows)))
    raw = outcome.report.read_bytes()
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", raw)
    assert outcome.text == companion.clean_text(outcome.text)
    inside = [line for line in outcome.text.splitlines() if "comments_count 50 → 51" in line]
    assert len(inside) == 20 and all(line.startswith("    ") for line in inside)
    for path in (home.memory / "memory.jsonl", home.memory / "snapshot.json", home.logs / "events.jsonl"):
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", path.read_bytes()), path


def test_markup_in_titles_stays_letter_for_letter(home, clock):
    title = "Why [/etc/hosts] `x` | <b> ![i](http://t.invalid) :100: wins"
    check(home, [entry(title=title)])
    next_day(clock)
    assert (
        f"    “{title}”: comments_count 50 → 51\n"
        in check(home, [entry(title=title, comments_count=51)]).text
    )


def test_an_observation_names_title_field_both_readings_and_its_origin(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, ten(comments_count=51))
    records = companion.Records(home)
    records.refresh()
    (record,) = [r for r in records.all() if r.kind == "observation"]
    assert record.text == "“Article 1”: comments_count 50 → 51"
    assert (record.author, record.path, record.input, record.standing) == (
        "code",
        "daily:check",
        "none",
        "observed",
    )
    receipt = re.search(r"receipt (r\S+),", outcome.text)[1]
    assert record.source == {
        "tool": "dev_articles",
        "receipt": receipt,
        "key": f"{receipt}:1:comments_count",
        "url": "https://dev.to/api/articles?username=samplewriter&per_page=10",
    }
    assert f"    {record.text}\n" in outcome.text


def test_several_comments_and_several_articles(home, clock):
    check(home, ten())
    next_day(clock)
    rows = ten(comments_count=53)[:8] + [entry(20, title="One", days=-1), entry(21, title="Two", days=-1)]
    attention = section(check(home, rows).text, "What deserves attention")
    assert "3 comments are new on “Article 1”: comments_count 50 → 53" in attention
    assert "A new article: “One”" in attention and "A new article: “Two”" in attention


def test_a_new_article_alone_says_nothing_of_comments(home, clock):
    check(home, ten()[:3])
    next_day(clock)
    attention = section(
        check(home, [entry(20, title="One", days=-1), *ten()[:3]]).text, "What deserves attention"
    )
    assert attention == "    A new article: “One”"


def test_a_count_that_falls_is_told_without_a_cause(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, ten(comments_count=49, public_reactions_count=30))
    assert "“Article 1”: comments_count 50 → 49" in section(outcome.text, "What changed")
    assert "public_reactions_count 31 → 30" in outcome.text
    assert section(outcome.text, "What deserves attention") == "Nothing needs your attention."
    assert not re.search(r"lost|removed|deleted|because|fewer", outcome.text)


def test_a_count_that_was_that_high_before_leaves_open_what_is_new(home, clock):
    for count in (51, 50):
        check(home, ten(comments_count=count))
        next_day(clock)
    text = check(home, ten(comments_count=51)).text
    assert (
        "A comment is new on “Article 1”: comments_count 50 → 51 "
        "(it was that high before, 27 Nov 2026 08:05, so some may be old ones)" in text
    )


def test_a_changed_title_keeps_the_article(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, ten(title="Renamed"))
    assert observations(home) == ["“Renamed”: title was “Article 1”, is now “Renamed”"]
    assert section(outcome.text, "What deserves attention") == "Nothing needs your attention."


def test_the_eleventh_article_pushes_out_the_tenth(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, [entry(11, title="Fresh", days=-1), *ten()[:9]])
    assert (
        "“Article 10” left the window of the latest ten: last reading comments_count 50, "
        "public_reactions_count 31" in outcome.text
    )
    assert "A new article: “Fresh”" in outcome.text and "removed" not in outcome.text
    assert len(figures(home)) == 10
    next_day(clock)
    again = check(home, [*ten()[:10]])  # the fresh one is gone, so the tenth is back
    assert again.status == "failed"  # a list whose newest article is older: nothing is concluded
    assert len(figures(home)) == 10


def test_an_article_that_comes_back_is_not_new(home, clock):
    check(home, ten())
    next_day(clock)
    check(home, [entry(11, title="Fresh", days=-1), *ten()[:9]])
    next_day(clock)
    outcome = check(
        home,
        [entry(11, title="Fresh", days=-1), *ten()[1:9], ten(comments_count=52)[9] | {"comments_count": 52}],
    )
    assert "“Article 10” is back in the list: comments_count 52" in outcome.text
    assert "“Article 10”: comments_count 50 → 52" in outcome.text
    assert "A new article" not in outcome.text


def test_an_old_article_that_moves_up_is_not_new(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, [ten(comments_count=51)[0], *ten()[2:], entry(77, title="Old one", days=30)])
    assert "“Old one”, published 28 Oct 2026, entered the latest ten" in outcome.text
    assert "A new article" not in outcome.text
    assert "“Article 2” was not in the list, so its counts were not read" in outcome.text
    assert "nothing needs your attention" not in outcome.text.lower()


def test_a_missing_article_is_never_called_removed(home, clock):
    check(home, ten()[:3])
    rows = [ten()[0], ten()[2]]
    next_day(clock)
    first = check(home, rows)
    assert "“Article 2” was not in the list, so its counts were not read" in section(
        first.text, "What was not looked at"
    )
    assert observations(home) == [] and set(figures(home)) == {1, 2, 3}
    next_day(clock)
    second = check(home, rows)
    assert "“Article 2” was not in the list for two good checks in a row, why is unknown" in second.text
    assert set(figures(home)) == {1, 3}
    next_day(clock)
    third = check(home, rows)
    assert "Article 2" not in third.text and "Nothing needs your attention." in third.text
    next_day(clock)
    assert "“Article 2” is back in the list" in check(home, ten()[:3]).text
    assert not any("removed" in text or "deleted" in text for text in reports(home))


def test_an_older_list_from_the_edge_moves_nothing(home, clock):
    old = ten()
    newer = [entry(11, title="Fresh", days=-1), *ten(comments_count=55)[:9]]
    check(home, newer)
    before = companion.load_snapshot(home)
    clock.move(hours=2)
    outcome = check(home, old)
    assert outcome.status == "failed" and outcome.exit_code == 0
    assert (
        "DEV served an older copy of the article list, so nothing was compared: its newest article is of "
        "26 Nov 2026, the last good list had one of 28 Nov 2026." in outcome.text
    )
    assert companion.load_snapshot(home) == before and observations(home) == []
    assert len(companion.load_readings(home)) == 1
    clock.move(hours=2)
    fresh = check(home, newer)
    assert "No change" in fresh.summary and "new article" not in section(
        fresh.text, "What deserves attention"
    )


def test_a_list_without_its_newest_is_believed_when_counts_rose(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, [ten()[1] | {"comments_count": 60}, *ten()[2:], entry(77, title="Old", days=30)])
    assert outcome.status == "ok" and "“Article 2”: comments_count 50 → 60" in outcome.text
    assert "“Article 1” was not in the list" in outcome.text


def test_a_list_that_stays_older_for_a_day_is_taken_as_the_list(home, clock):
    check(home, ten())
    for _ in range(3):
        clock.move(hours=11)
        assert check(home, ten()[1:]).status == "failed"
    clock.move(hours=11)
    outcome = check(home, ten()[1:])
    assert outcome.status == "ok" and "“Article 1” was not in the list" in outcome.text
    clock.move(hours=11)
    assert check(home, ten()[1:]).status == "ok"


def test_the_edge_says_itself_that_its_copy_is_older(home, clock):
    check(home, ten(comments_count=55))
    clock.move(hours=2)
    outcome = check(home, ten(comments_count=54), age_s=3 * 3600)
    assert outcome.status == "failed" and "before the last good reading" in outcome.text
    assert check(home, ten(comments_count=55), age_s=3 * 3600).status == "ok"
    clock.move(hours=1)
    assert "comments_count 55 → 54" in check(home, ten(comments_count=54), age_s=60).text


def test_null_fields_keep_the_reading_before(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, ten(comments_count=None, title=None, published_timestamp=None, published_at=None))
    assert "“(no title)”: comments_count was not given" in section(outcome.text, "What was not looked at")
    assert observations(home) == [] and figures(home)[1] == (50, 31)
    assert "nothing needs your attention" not in outcome.text.lower()
    next_day(clock)
    assert "“Article 1”: comments_count 50 → 51" in check(home, ten(comments_count=51)).text


def test_entries_that_cannot_be_read_conclude_nothing(home, clock):
    check(home, ten())
    next_day(clock)
    outcome = check(home, ten()[:9] + [{"id": "ten"}])
    assert "entries of the list that could not be read: 1" in outcome.text
    assert "left the window" not in outcome.text and 10 in figures(home)


def test_drafts_and_equal_dates_give_no_change(home, clock):
    rows = [entry(n, title=f"T{n}") for n in range(1, 9)] + [
        entry(9, published_timestamp=None, published_at=None)
    ]
    check(home, rows)
    next_day(clock)
    assert check(home, rows[::-1]).summary == "No change; nothing needs your attention."


def test_another_account_is_a_new_beginning(home, clock):
    check(home, ten())
    next_day(clock)
    other = open_home(home.root, clock, dev_username="someoneelse")
    outcome = check(other, [entry(99, title="Theirs")])
    assert observations(home) == [] and set(figures(home)) == {99}
    assert "The last figures are of another account" in outcome.text


def test_figures_that_cannot_be_read_are_told(home, clock):
    check(home, ten())
    (home.memory / "snapshot.json").write_text('{"at": "broken')
    next_day(clock)
    outcome = check(home, ten(comments_count=60))
    assert "memory/snapshot.json could not be read" in section(outcome.text, "What was not looked at")
    assert observations(home) == [] and figures(home)[1] == (60, 31)
    assert "nothing needs your attention" not in outcome.text.lower()


def test_a_bundle_that_cannot_be_read_is_kept_and_told_once(home, clock):
    check(home, ten())
    (home.memory / "pending.json").write_text('{"version": 1, "run": 5')
    next_day(clock)
    assert companion.recover_daily(home) is False and (home.memory / "pending.json").exists()
    outcome = check(home, ten())
    assert "could not be read; it is kept as memory/pending.json.unreadable-20261128T080500Z." in outcome.text
    assert not (home.memory / "pending.json").exists()
    next_day(clock)
    assert "could not be read" not in check(home, ten()).text


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/tmp/x.md", "2026-11-29_080500.md/../x", "x.md", ".check.lock"]
)
def test_a_bundle_cannot_name_a_file_elsewhere(name):
    bundle = {
        "version": 1,
        "run": "c",
        "at": "",
        "summary": "",
        "report_name": name,
        "report": "",
        "memory_ids": [],
        "interrupted": [],
        "observations": [],
        "reading": None,
        "snapshot": None,
        "stop": {},
    }
    with pytest.raises(ValueError, match="no proper name"):
        companion.parse_bundle(json.dumps(bundle).encode())


def test_a_damaged_ledger_needs_attention_and_exit_code_4(home, clock):
    check(home, ten())
    records = companion.Records(home)
    for number in range(2):
        companion.decide(records, f"decision {number}", companion.Origin("typed"))
    path = home.memory / "decisions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"decision 0", b"decision 9"))
    next_day(clock)
    outcome = check(home, ten())
    assert outcome.exit_code == 4 and "The decisions ledger is rewritten" in section(
        outcome.text, "What deserves attention"
    )
    assert "nothing needs your attention" not in outcome.text.lower()
    assert "- decisions ledger rewritten" in outcome.text


# Memory in the report.


def test_memory_lists_what_lapses_and_waits_once_each(home, clock):
    clock.now = START - timedelta(days=179)
    records, origin = companion.Records(home), companion.Origin("typed")
    companion.remember(records, "note", "soon gone", origin)
    clock.now = START
    companion.add_note(records, "gull", "a helper's line")
    memory = section(check(home, ten()).text, "Memory")
    assert "Lapsing soon (1). /renew ID keeps one.\n\n    m1  note, lapses on 28 Nov 2026  “soon gone”" in memory
    assert (
        "Waiting for confirmation (1). /confirm ID or /discard ID.\n\n    m2  note by helper:gull, lapses on "
        "4 Dec 2026  “a helper's line”" in memory
    )
    clock.move(days=1)
    memory = section(check(home, ten()).text, "Memory")
    assert (
        "Lapsed, no longer recalled (1). /renew ID brings one back.\n\n    m1  note, lapsed on 28 Nov 2026"
        in memory
    )
    records.refresh()
    assert records.get("m1").state == "lapsed"
    clock.move(days=1)
    assert "m1" not in section(check(home, ten()).text, "Memory")


def test_a_lapse_written_by_a_chat_is_told_by_the_next_report(home, clock):
    clock.now = START - timedelta(days=180)
    records = companion.Records(home)
    companion.remember(records, "note", "old words", companion.Origin("typed"))
    clock.now = START - timedelta(days=1)
    check(home, ten())
    clock.now = START
    companion.write_lapses(records, "chat:start")
    clock.move(hours=1)
    assert "m1  note, lapsed on 27 Nov 2026  “old words”" in check(home, ten()).text


def test_the_busiest_helper_does_not_fill_the_report(home, clock):
    records = companion.Records(home)
    for number in range(40):
        companion.add_note(records, "gull", f"line {number}")
    memory = section(check(home, ten()).text, "Memory")
    assert (
        memory.count("by helper:gull") == companion.REPORT_ITEMS
        and "and 20 more: /memory lists them" in memory
    )


def test_observations_that_lapse_are_only_counted(home, clock):
    check(home, ten())
    next_day(clock)
    check(home, ten(comments_count=51))
    next_day(clock, 25)
    memory = section(check(home, ten(comments_count=51)).text, "Memory")
    assert "    1 observation of the daily check" in memory and "m1" not in memory


def test_quiet_memory_says_so(home):
    assert (
        section(check(home, ten()).text, "Memory")
        == "Nothing lapses soon and nothing waits for confirmation."
    )


def forget(home, records, record_id):
    companion.forget(
        records,
        record_id,
        "cli:--forget",
        companion.Origin(),
        lambda record, words: companion.sweep_home(home, record, words),
    )


def test_the_bundle_holds_no_words_of_a_record(home, clock, monkeypatch):
    """What is forgotten between two steps of a check cannot come back with its replay (P10)."""
    records = companion.Records(home)
    companion.add_note(records, "gull", "sea glass phone 555123")
    real, held = companion.replace_bytes, []

    def cut(path, data):
        if path.suffix == ".md":
            held.append((home.memory / "pending.json").read_text())
            raise companion.StorageFailed("the disk is full.", "")
        real(path, data)

    monkeypatch.setattr(companion, "replace_bytes", cut)
    with pytest.raises(companion.StorageFailed):
        check(home, ten())
    monkeypatch.undo()
    assert "m1  note" in held[0] and "555123" not in held[0]
    forget(home, records, "m1")
    assert companion.recover_daily(home) is True
    assert "m1  note" in reports(home)[0] and "555123" not in reports(home)[0]


def test_a_forgotten_title_comes_back_as_no_news(home, clock):
    """P7, P10: no change is reported where the words were only forgotten; other titles are whole."""
    records = companion.Records(home)
    check(home, ten())
    companion.remember(records, "note", "Article 1", companion.Origin("typed"))
    forget(home, records, "m1")
    titles = [seen.title for seen in companion.load_snapshot(home).articles]
    assert "[forgotten m1]" in titles and "Article 10" in titles
    clock.move(days=1)
    outcome = check(home, ten())
    assert "Nothing, compared" in section(outcome.text, "What changed") and not observations(home)
    clock.move(days=1)
    check(home, ten(title="Another name"))
    assert len(observations(home)) == 1 and "“Another name”" in observations(home)[0], "a later change is one"


def test_forgetting_reaches_reports(home, clock):
    records = companion.Records(home)
    companion.add_note(records, "gull", "sea glass phone 555123, call in the evening")
    check(home, ten())
    assert "555123" in reports(home)[0]
    forget(home, records, "m1")
    assert "555123" not in reports(home)[0]
    next_day(clock)
    assert check(home, ten()).status == "ok"


# Names, runs, locks.


def test_a_taken_name_gets_a_number(home, clock):
    for _ in range(3):
        check(home, ten())
    assert sorted(p.name for p in home.reports.glob("*.md")) == [
        "2026-11-27_080500.md",
        "2026-11-27_080500_2.md",
        "2026-11-27_080500_3.md",
    ]
    assert companion.find_report(home).name == "2026-11-27_080500_3.md"


def test_a_file_of_the_owner_with_that_name_stays(home, clock):
    (home.reports / "2026-11-27_080500.md").write_text("mine")
    assert check(home, ten()).report.name == "2026-11-27_080500_2.md"
    assert (home.reports / "2026-11-27_080500.md").read_text() == "mine"


def test_reports_are_found_by_day(home, clock):
    check(home, ten())
    next_day(clock)
    check(home, ten())
    assert companion.find_report(home, "2026-11-27").name == "2026-11-27_080500.md"
    assert companion.find_report(home).name == "2026-11-28_080500.md"
    for day in ("2026-11-26", "../x", "*", "2026-11-2?", "27 Nov"):
        assert companion.find_report(home, day) is None


def test_the_newest_report_by_number_not_by_name(home, clock):
    for _ in range(11):
        check(home, ten())
    assert companion.find_report(home).name == "2026-11-27_080500_11.md"


def test_start_steps_and_stop_are_logged(home):
    outcome = check(home, ten())
    names = [
        (e["event"], e.get("step")) for e in companion.load_events(home) if e["event"].startswith("daily")
    ]
    assert names == [
        ("daily_start", None),
        *(
            ("daily_step", step)
            for step in (
                "replay",
                "fetch",
                "compare",
                "bundle",
                "report",
                "observations",
                "readings",
                "lapses",
                "snapshot",
                "clear",
            )
        ),
        ("daily_stop", None),
    ]
    stop = events(home, "daily_stop")[0]
    assert (
        stop["status"] == "ok"
        and stop["report"] == outcome.report.name
        and stop["receipt"].startswith("r2026")
    )
    assert events(home, "daily_start")[0]["started_by"] == "cron"


def test_a_start_without_a_stop_is_told_once_with_its_step(home, clock):
    check(home, ten())

    def interrupt():
        raise KeyboardInterrupt

    clock.move(hours=1)
    with pytest.raises(KeyboardInterrupt):
        check(home, load=interrupt)
    clock.move(hours=1)
    line = "- The check of 27 Nov 2026 09:05 was interrupted at the step “fetch”. It had changed nothing."
    assert line in section(check(home, ten()).text, "What was not looked at")
    clock.move(hours=1)
    assert "interrupted" not in check(home, ten()).text


def test_many_failed_and_interrupted_checks_are_summed_up(home, clock):
    check(home, ten())

    def interrupt():
        raise KeyboardInterrupt

    for _ in range(12):
        clock.move(hours=1)
        check(home, load=failing())
        with pytest.raises(KeyboardInterrupt):
            check(home, load=interrupt)
    gaps = section(check(home, ten()).text, "What was not looked at")
    assert gaps.count(" failed. The article list on DEV") == 5 and "7 earlier checks failed too." in gaps
    # each failed check told the interrupted one before it
    assert gaps.count("was interrupted at the step") == 1
    for _ in range(12):
        with pytest.raises(KeyboardInterrupt):
            check(home, load=interrupt)
    gaps = section(check(home, ten()).text, "What was not looked at")
    assert (
        gaps.count("was interrupted at the step") == 10 and "2 earlier checks were interrupted too." in gaps
    )
    assert "interrupted" not in check(home, ten()).text


def test_two_checks_at_once_the_second_leaves_quietly(home, clock):
    seen = []

    def load():
        seen.append(check(open_home(home.root, clock), ten()))
        seen.append(companion.recover_daily(open_home(home.root, clock)))
        return reading(home, ten())()

    outcome = check(home, load=load)
    assert outcome.status == "ok" and len(list(home.reports.glob("*.md"))) == 1
    busy = seen[0]
    assert (busy.status, busy.exit_code, busy.report, busy.text) == ("busy", 0, None, "")
    assert busy.summary == "Another daily check is running; this one did nothing."
    assert seen[1] is False and len(events(home, "daily_busy")) == 1 and len(events(home, "daily_start")) == 1


def test_other_writers_do_not_wait_while_dev_is_asked(home, clock):
    def load():
        other = open_home(home.root, clock)
        before = time.monotonic()
        companion.remember(companion.Records(other), "note", "meanwhile", companion.Origin("typed"))
        companion.remove_leftovers(other)
        assert time.monotonic() - before < 5
        return reading(home, ten())()

    assert check(home, load=load).status == "ok"


def test_the_real_parent_is_named():
    process = companion.find_process()
    assert process.pid == os.getpid()
    assert process.started_by.split(" ← ")[0] == Path(f"/proc/{os.getppid()}/comm").read_text().strip()


def test_behind_a_shell_the_starter_is_named_too(tmp_path):
    def proc(pid, name, parent):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1")

    proc(os.getppid(), "sh", 500)
    proc(500, "cron", 1)
    assert companion.find_process(tmp_path).started_by == "sh ← cron"
    (tmp_path / "500" / "stat").write_text("500 (we) ird) \x1b name) S 1 1")
    assert companion.find_process(tmp_path).started_by == "sh ← we) ird) \\x1b name"


def test_without_proc_ps_is_asked(tmp_path):
    assert companion.find_process(tmp_path).started_by


# The schedule: days, lateness, --if-due.


def at(text):
    return datetime.fromisoformat(text).astimezone(UTC)


DUE = [  # last good check, now, due? all local in Europe/Berlin, scheduled at 08:00
    (None, "2026-11-27T07:00", True),
    (None, "2026-11-27T09:00", True),
    ("2026-11-27T08:01", "2026-11-27T09:00", False),
    ("2026-11-27T08:01", "2026-11-28T07:59", False),
    ("2026-11-27T08:01", "2026-11-28T08:00", True),
    ("2026-11-27T08:01", "2026-12-05T03:00", True),
    ("2026-11-27T06:30", "2026-11-27T09:00", False),  # today's check is good
    ("2026-11-26T23:30", "2026-11-27T07:00", False),
    ("2026-11-26T23:30", "2026-11-27T08:30", True),
    ("2027-03-27T08:00", "2027-03-28T07:30", False),
    ("2027-03-27T08:00", "2027-03-28T08:30", True),  # a day of 23 h
    ("2027-10-30T08:00", "2027-10-31T07:30", False),
    ("2027-10-30T08:00", "2027-10-31T08:30", True),  # a day of 25 h
    ("2026-12-30T08:00", "2026-11-27T09:00", True),  # from the future: a clock that was wrong
]


@pytest.mark.parametrize(("last", "now", "due"), DUE)
def test_if_due(home, clock, zone, last, now, due):
    zone("Europe/Berlin")
    if last:
        clock.now = at(last)
        check(home, ten())
    clock.now = at(now)
    assert companion.is_check_due(home, "08:00", clock.now) is due
    before = len(reports(home))
    outcome = companion.run_daily(
        home, reading(home, ten()), process=companion.Process(1, "cron"), if_due=True
    )
    assert outcome.status == ("ok" if due else "not_due") and outcome.exit_code == 0
    assert len(reports(home)) == before + due
    again = companion.run_daily(home, reading(home, ten()), process=companion.Process(1, "cron"), if_due=True)
    assert again.status == "not_due" or last and at(last) > clock.now


def test_if_due_a_failed_check_stays_due(home, clock):
    clock.now = at("2026-11-27T09:00+00:00")
    check(home, load=failing())
    assert companion.is_check_due(home, "08:00", clock.now)


def test_if_due_an_unfinished_check_is_due(home, clock):
    check(home, ten())
    assert not companion.is_check_due(home, "08:00", clock.now)
    (home.memory / "pending.json").write_text("{}")
    assert companion.is_check_due(home, "08:00", clock.now)


@pytest.mark.parametrize(
    "name",
    [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Cairo",
        "UTC",
        "Asia/Kathmandu",
        "America/Santiago",
    ],
)
@pytest.mark.parametrize("schedule", ["00:00", "02:30", "08:00", "23:59"])
def test_every_day_of_a_year_is_due_once(zone, name, schedule):
    """Through a year by two hours: the scheduled moments are one a day, none twice, none left out."""
    zone(name)
    moment, end, seen = at("2026-01-01T00:30"), at("2027-01-02T00:30"), []
    while moment < end:
        scheduled = companion.build_scheduled(schedule, moment)
        assert timedelta(0) <= moment - scheduled <= timedelta(hours=25)
        if not seen or seen[-1] != scheduled:
            assert not seen or scheduled > seen[-1]
            seen.append(scheduled)
        moment += timedelta(hours=2)
    days = [companion.local_day(when) for when in seen]
    assert len(days) == len(set(days)) and (max(days) - min(days)).days == len(days) - 1


@pytest.mark.parametrize("text", ["8", "24:00", "08:60", "", "08:00:00", "eight", "٠٨:٠٠", "-1:00"])
def test_a_schedule_that_is_no_time_is_refused(text):
    with pytest.raises(companion.Refused):
        companion.build_scheduled(text, START)


MISSED = [  # zone, last good, until, days
    ("Europe/Berlin", "2026-11-26T09:00", "2026-11-29", ["2026-11-27", "2026-11-28"]),
    ("Europe/Berlin", "2026-11-28T23:59", "2026-11-29", []),
    ("Europe/Berlin", "2026-11-29T00:01", "2026-11-29", []),
    ("Europe/Berlin", "2027-03-27T23:30", "2027-03-29", ["2027-03-28"]),
    ("Europe/Berlin", "2027-10-30T23:30", "2027-11-01", ["2027-10-31"]),
    ("America/Santiago", "2026-09-05T12:00", "2026-09-07", ["2026-09-06"]),  # midnight does not exist
    ("Pacific/Apia", "2011-12-29T12:00", "2012-01-01", ["2011-12-31"]),  # 30 December did not happen
]


@pytest.mark.parametrize(("name", "last", "until", "days"), MISSED)
def test_missed_days_are_the_owners_days(zone, name, last, until, days):
    zone(name)
    found = companion.list_missed_days(companion.format_at(at(last)), date.fromisoformat(until))
    assert [str(day) for day in found] == days


def test_no_check_yet_has_no_missed_days():
    assert companion.list_missed_days(None, date(2026, 11, 29)) == ()


def test_days_not_looked_at_are_named_and_nothing_is_called_quiet(home, clock):
    check(home, ten())
    next_day(clock, 3)
    outcome = check(home, ten())
    gaps = section(outcome.text, "What was not looked at")
    assert "- Days without a good check since 27 Nov 2026 08:05: 28 Nov 2026, 29 Nov 2026." in gaps
    assert "nothing needs your attention" not in outcome.text.lower()
    assert outcome.summary == "No change; not everything was looked at."
    next_day(clock)
    assert check(home, ten()).summary == "No change; nothing needs your attention."


def test_a_long_absence_is_named_by_its_ends(home, clock):
    check(home, ten())
    next_day(clock, 30)
    assert "28 Nov 2026 to 26 Dec 2026 (29 days)" in check(home, ten()).text


def test_the_state_for_the_first_screen(home, clock):
    assert (
        companion.render_check_state(companion.build_check_state(home))
        == "No daily check has looked at DEV yet. /daily does."
    )
    check(home, ten())
    state = companion.build_check_state(home)
    assert not state.is_late and state.missed == () and state.last_run.status == "ok"
    assert companion.render_check_state(state) == "Last good daily check: 27 Nov 2026 08:05."
    clock.now = START.replace(day=29, hour=7)
    state = companion.build_check_state(home)
    assert state.is_late and [str(d) for d in state.missed] == ["2026-11-28"]  # today's hour has not come
    clock.now = START.replace(day=30, hour=8)
    check(home, load=failing())
    state = companion.build_check_state(home)
    assert state.last_run.status == "failed" and [str(d) for d in state.missed] == [
        "2026-11-28",
        "2026-11-29",
        "2026-11-30",
    ]
    assert companion.render_check_state(state) == (
        "Last good daily check: 27 Nov 2026 08:05; it is late, not looked at: 28 Nov 2026, 29 Nov 2026, "
        "30 Nov 2026. /daily checks now."
    )


def test_report_names_and_days_are_local(home, clock, zone):
    zone("Asia/Tokyo")
    clock.now = datetime(2026, 11, 27, 23, 30, tzinfo=UTC)
    outcome = check(home, ten())
    assert outcome.report.name == "2026-11-28_083000.md" and "28 Nov 2026 08:30" in outcome.text


# Readings over time.


def test_one_line_a_good_check_and_400_days_kept(home, clock):
    clock.now = START - timedelta(days=401)
    check(home, ten())
    clock.now = START - timedelta(days=400)
    check(home, ten())
    clock.now = START
    check(home, ten(comments_count=None))
    check(home, load=failing())
    kept = companion.load_readings(home)
    assert [r.at[:10] for r in kept] == ["2025-10-23", "2026-11-27"]
    assert kept[1].counts[1] == (None, 31) and kept[1].counts[2] == (50, 31)
    line = json.loads((home.memory / "readings.jsonl").read_text().splitlines()[-1])
    assert list(line) == ["at", "receipt", "counts"]
    assert line["counts"]["2"] == {"comments_count": 50, "public_reactions_count": 31}


def test_lines_that_cannot_be_read_stay_and_count_for_nothing(home, clock):
    check(home, ten())
    path = home.memory / "readings.jsonl"
    path.write_bytes(b"not json\n5\n" + path.read_bytes() + b'{"at": "x"}\n')
    next_day(clock)
    check(home, ten())
    assert len(companion.load_readings(home)) == 2
    assert path.read_bytes().count(b"\n") == 5 and path.read_bytes().startswith(b"not json\n5\n")


def table_row(text, title):
    return (
        next(line for line in text.splitlines() if line.startswith(f"    “{title}”  "))
        .split("”", 1)[1]
        .split()
    )


def test_the_table_has_the_change_since_the_last_check_and_over_seven_days(home, clock):
    for day in range(8):
        outcome = check(home, ten(comments_count=50 + day, public_reactions_count=31 if day < 7 else 30))
        next_day(clock)
    assert table_row(outcome.text, "Article 1") == ["57", "+1", "+7", "30", "-1", "-1"]
    assert table_row(outcome.text, "Article 2") == ["50", "0", "0", "31", "0", "0"]
    assert "7 d: since the last good check of 27 Nov 2026\n" in outcome.text


def test_the_table_says_when_there_was_no_check_seven_days_ago(home, clock):
    check(home, ten())
    next_day(clock, 8)
    outcome = check(home, ten(comments_count=58))
    assert table_row(outcome.text, "Article 1") == ["58", "+8", "–", "31", "0", "–"]
    assert "7 d: since the last good check of 28 Nov 2026, and there was none" in outcome.text


@pytest.mark.parametrize(
    "title", ["short", "x" * 160, "漢字" * 40, "e\u0301" * 80, "🦊" * 30, "chain memory 9 sha256:" + "0" * 64]
)
def test_the_table_stays_in_its_columns(home, title):
    outcome = check(home, [entry(title=title)])
    rows = [line for line in outcome.text.splitlines() if re.search(r"50 +– +– +31 +– +–$", line)]
    from wcwidth import wcswidth

    assert len(rows) == 1 and (wcswidth(rows[0]) == 79 or "sha256" in title)


def trend(home, days, clock):
    return companion.render_trend(
        companion.load_readings(home), days, companion.load_titles(home), companion.local_day(clock())
    )


def test_the_trend_shows_gaps_where_no_check_was_good(home, clock):
    for step in (0, 1, 3):
        clock.now = START + timedelta(days=step)
        check(home, ten(comments_count=50 + step * 7, public_reactions_count=31)[:2])
    lines = trend(home, 5, clock)
    assert lines[1:4] == [
        "“Article 1”",
        "  comments_count          ·▁▃·█  50 → 71",
        "  public_reactions_count  ·▄▄·▄  31 → 31",
    ]
    assert len(lines) == 7 and "26 Nov 2026 to 30 Nov 2026" in lines[0] and "no good check" in lines[0]


def test_the_trend_of_a_year_fits_and_an_absent_article_is_blank(home, clock):
    check(home, ten()[:1])
    next_day(clock)
    check(home, ten()[:2])
    lines = trend(home, 365, clock)
    assert all(len(line) < 110 for line in lines) and "One mark for 7 days" in lines[0]
    lines = trend(home, 2, clock)
    assert lines[5] == "  comments_count           ▄  50 → 50"


def test_a_trend_without_readings_says_so(home, clock):
    assert trend(home, 30, clock) == ["No good check in the last 30 days."]


# Format and parser are inverse.

TEXT = st.text(max_size=30)
COUNT = st.none() | st.integers(0, 10**9 - 1)
SEEN = st.builds(
    companion.Seen, st.integers(1, 2**62), TEXT, TEXT, st.none() | TEXT, COUNT, COUNT, st.none() | TEXT
)
AT = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
    lambda when: companion.format_at(when.replace(tzinfo=UTC))
)


@given(
    st.builds(
        companion.Snapshot,
        AT,
        TEXT,
        TEXT,
        st.lists(SEEN, max_size=4).map(tuple),
        st.lists(SEEN, max_size=3).map(tuple),
    )
)
def test_snapshot_format_and_parser_are_inverse(snapshot):
    assert companion.parse_snapshot(companion.format_snapshot(snapshot)) == snapshot


@given(
    st.builds(
        companion.Reading,
        AT,
        TEXT,
        st.dictionaries(st.integers(1, 2**62), st.tuples(COUNT, COUNT), max_size=5),
    )
)
def test_reading_format_and_parser_are_inverse(reading):
    line = companion.format_reading(reading)
    assert b"\n" not in line and companion.parse_reading(line) == reading


@pytest.mark.parametrize(
    "raw",
    [
        b"5",
        b"[]",
        b"{}",
        b"null",
        b'"x"',
        b'{"at": 1}',
        b'{"at":"2026-11-27T08:05:00Z"}',
        b'{"at":"2026-11-27T08:05:00Z","receipt":"r","account":"a","articles":[5],"left":[]}',
        b'{"at":"2026-11-27T08:05:00Z","receipt":"r","account":"a","articles":[{"id":1}],"left":[]}',
        b'{"at":"2026-11-27T08:05:00Z","receipt":"r","counts":{"x":{}}}',
        b'{"at":"2026-11-27T08:05:00Z","receipt":"r","account":"a","left":[],"articles":[{"id":"1",'
        b'"title":"","url":"","published_timestamp":null,"comments_count":null,'
        b'"public_reactions_count":null}]}',
        b"\xff",
        b"[" * 100000,
    ],
)
def test_odd_files_are_value_errors_and_nothing_else(raw):
    for parse in (companion.parse_snapshot, companion.parse_reading, companion.parse_bundle):
        with pytest.raises(ValueError):
            parse(raw)


ROWS = st.lists(
    st.builds(
        lambda n, days, c, r: entry(n, title=f"T{n}", days=days, comments_count=c, public_reactions_count=r),
        st.integers(1, 14),
        st.integers(0, 20),
        COUNT,
        COUNT,
    ),
    min_size=1,
    max_size=14,
)


@given(ROWS, ROWS)
def test_comparing_is_pure_and_a_second_look_changes_nothing(first, second):
    def fetched(rows, when):
        return companion.Fetch(
            companion.sort_articles(companion.build_article(row) for row in rows), "r", when, 1, "u"
        )

    before = companion.build_first(fetched(first, "2026-11-27T08:05:00.000Z")).snapshot
    fetch = fetched(second, "2026-11-28T08:05:00.000Z")
    once = companion.build_comparison(before, fetch)
    assert once == companion.build_comparison(before, fetch)
    again = companion.build_comparison(once.snapshot, fetch)
    assert {c.what for c in again.changes} <= {"absent"}
    ids = [seen.id for seen in (*once.snapshot.articles, *once.snapshot.left)]
    assert len(ids) == len(set(ids)) and {s.id for s in before.articles} <= set(ids)
    for change in once.changes:
        assert change.what in companion.CHANGE_WORDS and companion.build_change_text(change)
        assert change.before != change.after or change.what in (
            "new",
            "entered",
            "returned",
            "left",
            "absent",
        )
