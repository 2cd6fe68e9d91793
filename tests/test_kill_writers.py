"""Every writer is killed at each of its file-system effects: its line is there once or not at all (P8, P9)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers import TYPED, Sitting, make_home
from killer import HomeMaker, Kill, kill_at_every_effect, kill_once

import companion

LOCAL = {"host": "http://127.0.0.1:9", "embed_model": "none", "warm": False, "model": "qwen2.5-coder:1.5b"}
WORDS = "grüße 😀, “quoted” and \\ back, to be kept whole " * 3
LEGACY = [{"text": f"line {n} {WORDS}", "evidence": f"sentence {n}"} for n in range(4)]


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead process loses no page of the kernel's: the tests need not sync."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def open_records(root: Path) -> companion.Records:
    records = companion.open_records(make_home(root, **LOCAL))
    records.refresh()
    return records


def type_in(entry: str, *answers: str) -> Callable[[Path], object]:
    """The whole chat for one entry: start, command, the event of its end is not reached."""
    return lambda root: Sitting(make_home(root, **LOCAL)).type(entry, *answers)


def note(root: Path) -> object:
    return companion.add_note(open_records(root), "mail", WORDS.strip())


def take_in(root: Path) -> object:
    data = "".join(json.dumps(row) + "\n" for row in LEGACY).encode()
    return companion.import_legacy(open_records(root), "old.jsonl", data)


def forget(root: Path) -> object:
    records = open_records(root)
    if records.get("m1").state == "forgotten":
        return None
    return companion.forget_everywhere(records.home, records, "m1", "cli:--forget", companion.Origin(), "traces", None)


class Writer(NamedTuple):
    """What is killed, and the lines (op, text or target) that it adds when it is not."""

    act: Callable[[Path], object]
    adds: tuple[tuple[str, str], ...]
    again: bool = True  # whether the act may be done again after a kill, as the owner would


KEPT = WORDS.strip()
WRITERS = {
    "/remember": Writer(type_in(f"/remember {KEPT}"), (("add", KEPT),)),
    "/remember --replaces": Writer(type_in(f"/remember --replaces m1 {KEPT}"), (("add", KEPT),), False),
    "/decide": Writer(type_in(f"/decide {KEPT}"), (("decide", KEPT),), False),
    "/decide --replaces": Writer(type_in(f"/decide --replaces d1 {KEPT}"), (("decide", KEPT),)),
    "/undecide": Writer(type_in(f"/undecide d1 {KEPT}"), (("undecide", KEPT),)),
    "/confirm": Writer(type_in("/confirm m2", "y"), (("confirm", "m2"),)),
    "/discard": Writer(type_in("/discard m2"), (("discard", "m2"),)),
    "/renew": Writer(type_in("/renew m1"), (("renew", "m1"),), False),
    "--note": Writer(note, (("add", KEPT),), False),
    "--import": Writer(take_in, tuple(("add", row["text"]) for row in LEGACY)),
    "--forget": Writer(forget, (("forget", "m1"),)),
}


def make_template(root: Path) -> Path:
    """A line of the owner's, one that waits, and a decision."""
    records = open_records(root)
    companion.remember(records, "note", "the first line", TYPED)
    companion.add_note(records, "mail", "the second line waits")
    companion.decide(records, "use PostgreSQL", TYPED)
    return root


def list_new(records: companion.Records) -> list[tuple[str, str]]:
    """(op, text or target) of the lines that the template does not have."""
    return [
        (line["op"], line["text"] or line["target"] or "")
        for line in (*records.memory.lines[2:], *records.decisions.lines[1:])
    ]


def check_once(writer: Writer, root: Path, kill: Kill) -> None:
    """Old lines whole, new ones once or not at all; then the owner does it again."""
    before = companion.Records(make_home(root, **LOCAL))
    assert {ledger.verify(full=True).verdict for ledger in (before.memory, before.decisions)} <= {"fine", "torn"}
    records = open_records(root)
    there = list_new(records)
    assert there == list(writer.adds[: len(there)]), "half of a line, or a line twice"
    assert [line["seq"] for line in records.memory.lines] == list(range(1, len(records.memory.lines) + 1))
    assert records.get("d1").text == "use PostgreSQL"
    if "forget" not in dict(writer.adds):
        assert records.get("m1").text == "the first line" and records.get("m2").text == "the second line waits"
    if writer.again or not there:
        writer.act(root)
    after = open_records(root)
    assert list_new(after) == list(writer.adds)
    assert {ledger.verify(full=True).verdict for ledger in (after.memory, after.decisions)} == {"fine"}
    heads = companion.load_heads(after.home)
    assert (heads["memory"], heads["decisions"]) == (after.memory.head, after.decisions.head)
    assert not list(root.rglob(".*.tmp-*")) and len(list(root.rglob("*.torn-*"))) <= kill.is_torn


@pytest.mark.parametrize("name", WRITERS)
def test_killed_at_every_effect_of_a_writer(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P8: exactly once or not at all, never half; P9: the chain is fine or torn, and fine after the next line."""
    writer = WRITERS[name]
    template = make_template(tmp_path / "template")
    kills = kill_at_every_effect(
        HomeMaker(tmp_path, template), writer.act, lambda root, kill: check_once(writer, root, kill)
    )
    with capsys.disabled():
        print(f"\nkill points of {name}: {len(kills)}")
    seen = " ".join(kill.effect for kill in kills)
    assert len(kills) >= 12 and "heads.json" in seen and "events.jsonl" in seen and any(k.is_torn for k in kills)


def test_remember_killed_in_the_middle_of_its_line(tmp_path: Path) -> None:
    """P8, P9: half a line is torn; it is set aside, told once, and the next line is whole and readable."""
    make, number, root = HomeMaker(tmp_path, make_template(tmp_path / "template")), 0, tmp_path / "template"
    while (root / "memory/memory.jsonl").read_bytes()[-1:] == b"\n":
        number, root = number + 1, make()
        kill_once(WRITERS["/remember"].act, root, number, True)
        assert number < 100
    verdict = companion.Records(make_home(root, **LOCAL)).memory.verify(full=True)
    assert verdict.verdict == "torn" and verdict.line == 3
    sitting = Sitting(make_home(root, **LOCAL))
    assert "memory.jsonl is torn" in sitting.first
    sitting.type(f"/remember {KEPT}")
    assert len(list(root.rglob("memory.jsonl.torn-*"))) == 1
    again = Sitting(make_home(root, **LOCAL))
    assert "torn" not in again.first and again.record("m3").text == KEPT


def test_two_writers_killed_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P8: an accident in a decision, then one in the note that follows, over a spread of pairs."""
    template, pairs = make_template(tmp_path / "template"), 0
    make = HomeMaker(tmp_path, template)
    for first in range(1, 40, 3):
        for second in range(1, 16, 2):
            root = make()
            is_killed = [
                kill_once(WRITERS["/decide"].act, root, first, first % 8 == 1),
                kill_once(note, root, second, second % 10 == 1),
            ]
            records = open_records(root)
            new = list_new(records)
            assert sorted(new) == sorted(set(new)) and set(new) <= {("add", KEPT), ("decide", KEPT)}
            assert {ledger.verify(full=True).verdict for ledger in (records.memory, records.decisions)} <= {
                "fine",
                "torn",
            }
            companion.add_note(records, "cal", "goes on")
            companion.decide(records, "goes on", TYPED)
            assert {ledger.verify(full=True).verdict for ledger in (records.memory, records.decisions)} == {"fine"}
            pairs += any(is_killed)
    with capsys.disabled():
        print(f"\npairs of kill points of /decide and --note: {pairs}")
    assert pairs > 60
