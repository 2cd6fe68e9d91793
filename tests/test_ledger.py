"""The ledger: format and proof (P3, P8, P9, P10). Damage is a parameter, proven before it is judged."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers import TYPED, Clock, make_home, make_records
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import companion
from companion import Draft, Head, Ledger, Line, Origin, Records

ODD_TEXTS = ["ünï çödé", "😀 👩‍💻 🇦🇹", "\ud800 alone", "\udfff\ud800", "a\x00b", "tab\there", "trailing   ", "1.0",
             "line\nbreak\r\nand more", "\u2028\u202e\u200b\ufeff", "\U000e0041", "[/etc/hosts] <name> :100:", "\\u0041",
             '"quotes" and \\', "x" * 60_000, "\x7f\x80\x9b31m"]
texts = st.one_of(st.text(st.characters(), min_size=1, max_size=80), st.sampled_from(ODD_TEXTS))
optional = st.none() | texts


def build(draft: Draft) -> Line:
    return companion.build_line(draft, Head(4, "sha256:" + "0" * 64), "m3", "2026-11-29T09:00:00.000Z", "ab" * 16)


@given(text=optional, evidence=optional, author=texts, turn=st.none() | st.integers(-10**9, 10**9),
       source=st.none() | st.dictionaries(texts, st.one_of(texts, st.integers(), st.none(), st.booleans())))
@settings(max_examples=300, deadline=None)
def test_format_and_parse_are_inverse(text: str | None, evidence: str | None, author: str, turn: int | None,
                                      source: dict[str, object] | None) -> None:
    line = build(Draft("add", companion.merge_surrogates(author), "repl:/remember", True, text=text, evidence=evidence,
                       turn=turn, source=json.loads(json.dumps(source))))
    raw = companion.format_line(line)
    assert b"\n" not in raw
    assert companion.parse_line(raw) == line
    assert companion.format_line(companion.parse_line(raw)) == raw
    assert companion.find_own_fault(line, raw) is None


@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_no_raw_control_character_stands_in_the_file(text: str) -> None:
    raw = companion.format_line(build(Draft("add", "owner", "repl:/remember", True, text=text))).decode("utf-8")
    assert companion.clean_text(raw) == raw and "\t" not in raw


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_survive_a_restart_and_verify(tmp_path: Path, text: str) -> None:
    records = make_records(tmp_path)
    record = companion.remember(records, "note", text, TYPED)
    again = Records(records.home)
    again.refresh()
    kept = again.get(record.id)
    assert kept.text == companion.merge_surrogates(text.strip())
    assert again.memory.verify(full=True).verdict == "fine"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A home with a little of everything, one record forgotten."""
    records = make_records(tmp_path_factory.mktemp("sample"))
    for kind, text in (("preference", "short, plain answers"), ("proposal", "größer 😀"), ("note", "call 555")):
        companion.remember(records, kind, text, TYPED)
    companion.decide(records, "use PostgreSQL", TYPED)
    companion.decide(records, "use SQLite", TYPED, "d1")
    companion.undecide(records, "d2", "too slow", TYPED)
    companion.add_note(records, "mail", "the bill is paid")
    companion.confirm(records, "m4", TYPED)
    companion.forget(records, "m3", "repl:/forget", TYPED, lambda record_id, words: None)
    return records


@pytest.mark.parametrize("name", companion.LEDGERS)
def test_every_single_byte_change_is_noticed(sample: Records, name: str) -> None:
    """Each byte in turn becomes another one (and its neighbour in ASCII): never `fine`."""
    ledger: Ledger = getattr(sample, name)
    whole = ledger.path.read_bytes()
    assert Ledger(sample.home, name).verify(full=True).verdict == "fine"
    chance, unnoticed = random.Random(7), list[int]()
    try:
        for place in range(0, len(whole)):
            changed = bytearray(whole)
            changed[place] = (changed[place] ^ 1) if place % 2 else chance.choice(
                [b for b in range(256) if b != whole[place]])
            ledger.path.write_bytes(changed)
            if Ledger(sample.home, name).verify(full=True).verdict == "fine":
                unnoticed.append(place)
    finally:
        ledger.path.write_bytes(whole)
    assert not unnoticed


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_inserting_or_dropping_bytes_is_noticed(sample: Records, data: st.DataObject) -> None:
    path = sample.memory.path
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    put = data.draw(st.binary(max_size=8))
    changed = whole[:start] + put + whole[end:]
    if changed == whole:
        return
    try:
        path.write_bytes(changed)
        assert Ledger(sample.home, "memory").verify(full=True).verdict != "fine"
    finally:
        path.write_bytes(whole)


def _edit(raw: bytes, field: str) -> bytes:
    line = json.loads(raw)
    line[field] = {"seq": 77, "turn": 99, "source": {"x": 1}}.get(field, "other")
    return companion.dump_json(line).encode()


@pytest.mark.parametrize("field", companion.LINE_FIELDS)
def test_every_field_is_covered_and_located(sample: Records, field: str) -> None:
    path = sample.memory.path
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    lines[1] = _edit(lines[1], field)
    try:
        path.write_bytes(b"\n".join(lines))
        verdict = Ledger(sample.home, "memory").verify(full=True)
    finally:
        path.write_bytes(whole)
    assert (verdict.verdict, verdict.line) == ("rewritten", 2)


def test_swapped_order_is_noticed(sample: Records) -> None:
    path = sample.decisions.path
    whole = path.read_bytes()
    first, second, *rest = whole.split(b"\n")
    try:
        path.write_bytes(b"\n".join([second, first, *rest]))
        assert Ledger(sample.home, "decisions").verify(full=True).verdict == "rewritten"
    finally:
        path.write_bytes(whole)


def test_erased_words_without_a_forget_line_are_rewritten(sample: Records) -> None:
    path = sample.memory.path
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    line = companion.parse_line(lines[0])
    line["text"] = line["salt"] = None
    lines[0] = companion.format_line(line)
    try:
        path.write_bytes(b"\n".join(lines))
        verdict = Ledger(sample.home, "memory").verify(full=True)
    finally:
        path.write_bytes(whole)
    assert verdict.verdict == "rewritten" and "forget" in verdict.detail


# The five verdicts (P9).


def make_decisions(path: Path) -> Records:
    records = make_records(path)
    for text in ("use PostgreSQL", "keep the archive", "no trackers", "ship in May"):
        companion.decide(records, text, TYPED)
    return records


def _recompute(whole: bytes) -> bytes:
    """The whole chain made anew over an edited text, as somebody who knows the format would."""
    head, raws = companion.build_empty_head("decisions"), list[bytes]()
    for raw in whole.splitlines():
        line = companion.parse_line(raw)
        line["text"] = line["text"].replace("PostgreSQL", "MySQL") if line["text"] else None
        line["text_digest"] = companion.build_words_digest(line["salt"], line["text"])
        line["prev"] = head.hash
        line["hash"] = companion.build_hash(line)
        head = Head(line["seq"], line["hash"])
        raws.append(companion.format_line(line) + b"\n")
    return b"".join(raws)


DAMAGE = {
    "cut the last two": ("shortened", lambda w: b"".join(w.splitlines(True)[:-2])),
    "everything gone": ("shortened", lambda w: b""),
    "one letter": ("rewritten", lambda w: w.replace(b"keep the", b"keep thy")),
    "the whole chain": ("rewritten", _recompute),
    "half an append": ("torn", lambda w: w + w.splitlines()[0][:40]),
    "nothing": ("fine", lambda w: w),
    "windows line ends": ("rewritten", lambda w: w.replace(b"\n", b"\r\n")),
    "byte order mark": ("rewritten", lambda w: b"\xef\xbb\xbf" + w),
    "a number": ("rewritten", lambda w: w.replace(w.splitlines()[1], b"42")),
    "no json": ("rewritten", lambda w: w.replace(w.splitlines()[1], b"hello")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_verdicts(tmp_path: Path, damage: str) -> None:
    records = make_decisions(tmp_path)
    path = records.decisions.path
    wanted, harm = DAMAGE[damage]
    harmed = harm(path.read_bytes())
    assert damage == "nothing" or harmed != path.read_bytes()
    path.write_bytes(harmed)
    verdict = Records(records.home).decisions.verify(full=True)
    assert verdict.verdict == wanted, verdict
    fresh = Records(records.home)
    fresh.refresh()
    if wanted in ("fine", "torn"):
        assert companion.decide(fresh, "one more", TYPED).id == "d5"
    else:
        with pytest.raises(companion.LedgerDamaged):
            companion.decide(fresh, "one more", TYPED)
        assert path.read_bytes() == harmed
        assert not [r for r in fresh.live() if r.kind == "decision"], "a damaged file decides nothing"


def test_last_week_of_one_file_and_of_both(tmp_path: Path) -> None:
    records = make_records(tmp_path)
    heads = tmp_path / "memory" / "heads.json"
    companion.decide(records, "use PostgreSQL", TYPED)
    old, old_heads = records.decisions.path.read_bytes(), heads.read_bytes()
    companion.decide(records, "keep the archive", TYPED)
    new = records.decisions.path.read_bytes()
    records.decisions.path.write_bytes(old)
    assert records.decisions.verify(full=True).verdict == "shortened"
    heads.write_bytes(old_heads)
    verdict = records.decisions.verify(full=True)
    assert (verdict.verdict, verdict.witness) == ("rolled back", "event log")
    records.decisions.path.write_bytes(new)
    assert records.decisions.verify(full=True).verdict == "fine", "ahead of a witness is fine"


def test_a_report_is_a_witness_too(tmp_path: Path) -> None:
    """Ledger, heads and event log put back together: the fingerprint in a report still knows."""
    records = make_decisions(tmp_path)
    fingerprint = companion.render_fingerprint("decisions", records.decisions.head)
    (tmp_path / "reports" / "2026-11-29_090000.md").write_text(f"- {fingerprint}\n")
    records.decisions.path.write_bytes(b"".join(records.decisions.path.read_bytes().splitlines(True)[:2]))
    (tmp_path / "memory" / "heads.json").unlink()
    (tmp_path / "logs" / "events.jsonl").unlink()
    verdict = records.decisions.verify(full=True)
    assert verdict.verdict == "shortened" and verdict.witness == "report 2026-11-29_090000.md"


@pytest.mark.parametrize("left", [b"", b"\0" * 200, b'{"decisions": {"se'])
def test_heads_that_a_power_cut_lost_are_in_the_event_log(tmp_path: Path, left: bytes) -> None:
    records = make_decisions(tmp_path)
    heads, count = tmp_path / "memory" / "heads.json", records.decisions.head.seq
    whole = records.decisions.path.read_bytes()
    heads.write_bytes(left)
    assert Records(records.home).decisions.verify(full=True).verdict == "fine"
    records.decisions.path.write_bytes(b"".join(whole.splitlines(True)[:-1]))
    assert Records(records.home).decisions.verify(full=True).verdict == "shortened"
    records.decisions.path.write_bytes(whole)
    fresh = Records(records.home)
    companion.decide(fresh, "one more", TYPED)
    assert companion.load_heads(records.home)["decisions"].seq == count + 1, "the next line mends them"


def test_only_heads_that_say_more_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is synced always; heads.json once it holds an acceptance, which stands nowhere else for reports."""
    records, synced = make_decisions(tmp_path), list[int]()
    real, heads = os.fsync, tmp_path / "memory" / "heads.json"
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), real(fd))[1])
    companion.decide(records, "one more", TYPED)
    assert synced == [records.decisions.path.stat().st_ino]
    companion.save_head(records.home, "decisions", records.decisions.head, {}, "2026-11-29T09:00:00.000Z")
    synced.clear()
    companion.remember(records, "note", "the meter is in the hall", TYPED)
    assert heads.stat().st_ino in synced


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    found = companion.build_verify(make_decisions(tmp_path))
    assert "cannot be told from an honest one" in found["decisions"]["unknowable"]


def test_a_torn_line_that_a_witness_saw_whole_is_no_torn_tail(tmp_path: Path) -> None:
    records = make_decisions(tmp_path)
    whole = records.decisions.path.read_bytes()
    records.decisions.path.write_bytes(whole[:-30])
    assert records.decisions.verify(full=True).verdict == "shortened"


def test_torn_tail_is_set_aside_and_told_once(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    records = Records(home)
    companion.remember(records, "note", "first", TYPED)
    with records.memory.path.open("ab") as file:
        file.write(b'{"seq": 2, "at": "20')
    companion.remember(records, "note", "second", TYPED)
    kept = list((tmp_path / "memory").glob("memory.jsonl.torn-*"))
    assert [path.read_bytes() for path in kept] == [b'{"seq": 2, "at": "20']
    assert [r.text for r in records.live()] == ["first", "second"]
    companion.remember(records, "note", "third", TYPED)
    assert len([text for text in home.told if "torn" in text]) == 1  # type: ignore[attr-defined]
    assert records.memory.verify(full=True).verdict == "fine"


def test_memory_starts_with_the_rest_and_names_the_lines(tmp_path: Path) -> None:
    records = make_records(tmp_path)
    for number in range(1, 11):
        companion.remember(records, "note", f"line {number}", TYPED)
    lines = records.memory.path.read_bytes().split(b"\n")
    lines[6], lines[8] = b"not json", b"9"
    harmed = b"\n".join(lines)
    records.memory.path.write_bytes(harmed)
    again = Records(records.home)
    again.refresh()
    assert [r.text for r in again.live()] == [f"line {n}" for n in (1, 2, 3, 4, 5, 6, 8, 10)]
    named = {fault.line for fault in again.memory.list_faults()}
    assert {7, 9} <= named
    assert records.memory.path.read_bytes() == harmed
    assert companion.remember(again, "note", "goes on", TYPED).id == "m11"


def test_accepting_keeps_a_copy_and_makes_a_new_base(tmp_path: Path) -> None:
    records = make_decisions(tmp_path)
    harmed = records.decisions.path.read_bytes().replace(b"keep the", b"keep thy")
    records.decisions.path.write_bytes(harmed)
    kept = companion.accept_ledger(records.decisions)
    assert kept.read_bytes() == harmed
    assert records.decisions.verify(full=True).verdict == "fine"
    again = Records(records.home)
    again.refresh()
    assert [r.text for r in again.live()] == ["use PostgreSQL", "no trackers", "ship in May"]
    assert companion.decide(again, "go on", TYPED).id == "d5"


# Appending.


def test_write_order_line_heads_event(tmp_path: Path) -> None:
    records = make_records(tmp_path)
    record = companion.decide(records, "x", TYPED)
    head = records.decisions.head
    assert companion.load_heads(records.home)["decisions"] == head
    event = companion.load_events(records.home)[-1]
    assert (event["event"], event["seq"], event["hash"]) == ("ledger_append", head.seq, head.hash)
    assert record.text == "x" and b"x" not in (tmp_path / "logs" / "events.jsonl").read_bytes().split(b"hash")[0][-3:]


def test_first_lines_of_the_two_ledgers_cannot_be_exchanged(tmp_path: Path) -> None:
    assert companion.build_empty_head("memory") != companion.build_empty_head("decisions")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = make_records(tmp_path)
    companion.remember(records, "note", "first", TYPED)
    before = records.memory.path.read_bytes()
    real = companion.os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) > 100:
            real(descriptor, data[:50])
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(companion.os, "write", half)
    with pytest.raises(companion.StorageFailed, match="No space left"):
        companion.remember(records, "note", "second", TYPED)
    monkeypatch.undo()
    assert records.memory.path.read_bytes() == before
    assert companion.remember(records, "note", "third", TYPED).id == "m2"


def _work(root: str, name: str, count: int) -> None:
    clock = Clock(datetime.now(UTC))
    records = Records(make_home(Path(root), clock))
    records.home.entropy = companion.os.urandom
    for number in range(count):
        if name == "mail":
            companion.add_note(records, "mail", f"mail {number}")
        else:
            companion.remember(records, "note", f"{name} {number}", Origin("typed", name, number))
        if name == "a" and number == count // 2:
            target = next(r.id for r in records.live() if r.text == "a 3")
            companion.forget(records, target, "repl:/forget", TYPED, lambda record_id, words: None)


def test_three_processes_two_hundred_appends_each_and_a_forget(tmp_path: Path) -> None:
    make_home(tmp_path)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_work, args=(str(tmp_path), name, 200)) for name in ("a", "b", "mail")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    records = make_records(tmp_path)
    records.refresh()
    assert records.memory.verify(full=True).verdict == "fine"
    wanted = {f"{name} {n}" for name in ("a", "b", "mail") for n in range(200)} - {"a 3"}
    live = [r.text for r in records.all() if r.text is not None]
    assert len(live) == len(wanted) and set(live) == wanted
    assert [r.id for r in records.all()] == [f"m{n}" for n in range(1, 601)]
    assert b'"a 3"' not in records.memory.path.read_bytes()


@example(words="  spaces kept inside   the words ")
@given(words=st.text(min_size=1, max_size=200))
@settings(max_examples=100, deadline=None)
def test_cleaning_is_idempotent_and_leaves_no_control(words: str) -> None:
    clean = companion.clean_text(words)
    assert companion.clean_text(clean) == clean
    assert not companion._UNSAFE.search(clean)
