"""P8: a change is recorded exactly once, whatever moment the machine dies.

The daily check is killed at each of its file-system effects; recovery runs twice, then a normal check.
"""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from daily_help import START, Clock, check, failing, observations, open_home, reports, ten
from killer import HomeMaker, kill_at_every_effect, kill_once
from stub_dev import entry

import companion

NEW = [
    entry(11, title="Fresh \x1b[2J one", days=-1),
    *ten(comments_count=51, public_reactions_count=30, title="Article 1, renamed")[:9],
]
CHANGES = (
    "“Fresh \\x1b[2J one” is new, published 28 Nov 2026: first reading comments_count 50, "
    "public_reactions_count 31",
    "“Article 1, renamed”: title was “Article 1”, is now “Article 1, renamed”",
    "“Article 1, renamed”: comments_count 50 → 51",
    "“Article 1, renamed”: public_reactions_count 31 → 30",
    "“Article 10” left the window of the latest ten: last reading comments_count 50, "
    "public_reactions_count 31",
)


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """A dead process loses no page of the kernel's: the parent need not sync either."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def template(tmp_path):
    """A home after a first check, with a record that is due, one that lapses soon and one that waits."""
    root, clock = tmp_path / "template", Clock()
    clock.now = START.replace(month=6, day=1)
    home = open_home(root, clock)
    records, origin = companion.Records(home), companion.Origin("typed")
    companion.remember(records, "note", "due words on the day of the check", origin)
    clock.move(days=5)
    companion.remember(records, "proposal", "soon words, still undecided", origin)
    clock.now = START
    companion.add_note(records, "gull", "waiting words")
    check(home, ten())
    return root


def the_check(root: Path) -> companion.Home:
    """The check that is killed: a day after the first one."""
    clock = Clock()
    clock.move(days=1)
    home = open_home(root, clock)
    check(home, NEW)
    return home


def later(root: Path, hours: int) -> companion.Home:
    clock = Clock()
    clock.move(days=1, hours=hours)
    return open_home(root, clock)


def load_events(root: Path) -> list[dict]:
    found = []
    for line in (root / "logs" / "events.jsonl").read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def find_open_runs(root: Path) -> dict[str, str]:
    """Run id → last step, of starts without a stop."""
    runs: dict[str, str] = {}
    for event in load_events(root):
        if event.get("event") == "daily_start":
            runs[event["run"]] = "start"
        elif event.get("event") == "daily_step":
            runs[event["run"]] = event["step"]
        elif event.get("event") == "daily_stop":
            runs.pop(event["run"])
    return runs


def check_not_ahead(home: companion.Home) -> None:
    """The snapshot is the new one only if memory, report and readings have it all."""
    snapshot = companion.load_snapshot(home)
    if snapshot.at > companion.format_at(START + timedelta(hours=12)):
        assert sorted(observations(home)) == sorted(CHANGES)
        assert any(snapshot.receipt in text for text in reports(home))
        assert snapshot.receipt in [r.receipt for r in companion.load_readings(home)]


def check_once(home: companion.Home, interrupted: dict[str, str]) -> None:
    """Everything exactly once, after recovery and a normal check."""
    found, texts = observations(home), reports(home)
    for change in CHANGES:
        assert found.count(change) == 1
        assert sum(text.count(f"    {change}\n") for text in texts) == 1, change
    assert len(found) == len(CHANGES)
    receipts = [r.receipt for r in companion.load_readings(home)]
    assert len(receipts) == len(set(receipts))
    snapshot = companion.load_snapshot(home)
    assert {s.id: (s.comments_count, s.public_reactions_count) for s in snapshot.articles}[1] == (51, 30)
    for run, step in interrupted.items():
        at = companion.render_moment(
            next(
                e["at"] for e in load_events(home.root) if e.get("event") == "daily_start" and e["run"] == run
            )
        )
        told = f"The check of {at} was interrupted at the step “{step}”."
        assert sum(text.count(told) for text in texts) == 1, told
    assert sum(text.count("was interrupted at") for text in texts) == len(interrupted)
    lapses = [line for line in _lines(home) if line["op"] == "lapse"]
    assert [line["target"] for line in lapses] == ["m1"]
    check_clean(home)


def _lines(home):
    records = companion.Records(home)
    records.refresh()
    return records.memory.lines


def check_clean(home: companion.Home) -> None:
    records = companion.Records(home)
    assert [ledger.verify(full=True).verdict for ledger in (records.memory, records.decisions)] == [
        "fine"
    ] * 2
    assert not list(home.memory.glob("pending*")) and not list(home.root.rglob(".*.tmp-*"))
    for path in home.root.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path == home.root, path
    for path in home.reports.glob("*.md"):
        assert "\x1b" not in path.read_text()


def recover_and_check(root: Path, kill) -> None:
    interrupted = find_open_runs(root)
    check_not_ahead(later(root, 1))
    companion.recover_daily(later(root, 1))
    check_not_ahead(later(root, 1))
    assert companion.recover_daily(later(root, 2)) is False
    outcome = check(later(root, 3), NEW)
    assert outcome.status == "ok" and outcome.exit_code == 0
    check_once(later(root, 4), interrupted)
    quiet = check(later(root, 5), NEW)
    assert "No change; nothing needs your attention." in quiet.text and "interrupted" not in quiet.text
    check_once(later(root, 6), interrupted)


def test_the_whole_check_without_a_kill(template):
    home = the_check(template)
    check_once(home, {})
    text = reports(home)[-1]
    assert "m1  note, lapsed on 28 Nov 2026  “due words on the day of the check”" in text
    assert "m2  proposal, lapses on 3 Dec 2026  “soon words, still undecided”" in text
    assert "m3  note by helper:gull, lapses on 4 Dec 2026  “waiting words”" in text


def test_killed_at_every_effect_of_a_check(template, tmp_path, capsys):
    kills = kill_at_every_effect(HomeMaker(tmp_path, template), the_check, recover_and_check)
    with capsys.disabled():
        print(f"\nkill points of --daily: {len(kills)}")
    assert len(kills) > 60
    seen = " ".join(kill.effect for kill in kills)
    assert "pending.json" in seen and "snapshot.json" in seen and "memory.jsonl" in seen


def test_killed_at_every_effect_of_the_recovery(template, tmp_path, capsys):
    """A bundle that is complete and not applied at all: its replay is killed everywhere."""
    number = 1
    while True:
        root = tmp_path / f"search{number}"
        shutil.copytree(template, root)
        assert kill_once(the_check, root, number) is not None
        if (root / "memory" / "pending.json").exists():
            break
        number += 1
    interrupted = find_open_runs(root)
    assert list(interrupted.values()) == ["bundle"]
    kills = kill_at_every_effect(
        HomeMaker(tmp_path, root), lambda home: companion.recover_daily(later(home, 1)), recover_and_check
    )
    with capsys.disabled():
        print(f"\nkill points of the recovery: {len(kills)}")
    assert len(kills) > 20


def test_killed_again_in_the_check_that_recovers(template, tmp_path, capsys):
    """Two accidents in a row, over a spread of pairs of kill points."""
    make, pairs = HomeMaker(tmp_path, template), 0
    for first in range(3, 200, 6):
        for second in range(1 + first % 7, 200, 17):
            root = make()
            if kill_once(the_check, root, first) is None:
                break
            if kill_once(lambda home: check(later(home, 1), NEW), root, second) is None:
                break
            interrupted = find_open_runs(root)
            companion.recover_daily(later(root, 2))
            assert check(later(root, 3), NEW).status == "ok"
            told = sum(text.count("was interrupted at") for text in reports(later(root, 4)))
            assert told == len(interrupted) and 1 <= told <= 2
            check_once(later(root, 4), interrupted)
            shutil.rmtree(root)
            pairs += 1
    with capsys.disabled():
        print(f"\npairs of kill points: {pairs}")
    assert pairs > 40


def test_killed_at_every_effect_of_a_check_that_cannot_read(template, tmp_path, capsys):
    """A failed reading moves nothing, whenever it is killed; the attempt is told once."""
    before = companion.load_snapshot(open_home(template, Clock()))

    def act(root):
        check(later(root, 0), load=failing())

    def after(root, kill):
        interrupted = find_open_runs(root)
        companion.recover_daily(later(root, 1))
        companion.recover_daily(later(root, 1))
        home = later(root, 2)
        assert companion.load_snapshot(home) == before and observations(home) == []
        assert len(companion.load_readings(home)) == 1
        outcome = check(home, ten())
        assert outcome.status == "ok" and observations(home) == []
        assert sum(text.count("was interrupted at") for text in reports(home)) == len(interrupted)
        check_clean(home)

    kills = kill_at_every_effect(HomeMaker(tmp_path, template), act, after)
    with capsys.disabled():
        print(f"\nkill points of a failed --daily: {len(kills)}")


def test_killed_at_every_effect_of_the_first_check(tmp_path, capsys):
    """From an empty folder: whatever is left, the next check begins or goes on, and makes no observation."""
    (tmp_path / "empty").mkdir(mode=0o700)

    def after(root, kill):
        companion.recover_daily(later(root, 1))
        outcome = check(later(root, 2), NEW)
        assert outcome.status == "ok"
        home = later(root, 3)
        assert observations(home) == [] and companion.load_snapshot(home).articles[0].id == 11
        check_clean(home)

    kills = kill_at_every_effect(
        HomeMaker(tmp_path, tmp_path / "empty"), lambda root: check(later(root, 0), NEW), after
    )
    with capsys.disabled():
        print(f"\nkill points of the first --daily: {len(kills)}")


def test_a_write_that_fails_leaves_the_bundle_and_the_next_check_finishes_it(template, monkeypatch):
    """A full disk while applying: told by StorageFailed, finished later."""
    real = companion.replace_bytes

    def full(path, data, **more):
        if path.name == "snapshot.json":
            raise companion.StorageFailed(f"{path.name} could not be written: no space left.", "Free some.")
        real(path, data, **more)

    monkeypatch.setattr(companion, "replace_bytes", full)
    with pytest.raises(companion.StorageFailed):
        the_check(template)
    monkeypatch.undo()
    interrupted = find_open_runs(template)
    assert list(interrupted.values()) == ["snapshot"]
    recover_and_check(template, None)


def snapshot_first(home, records, bundle, step):
    companion.replace_bytes(home.memory / "snapshot.json", bundle["snapshot"].encode())
    return REAL_APPLY(home, records, bundle, step)


def no_keys(records, notes):
    return REAL_OBSERVE(
        records, [(text, {**source, "key": records.home.entropy(8).hex()}) for text, source in notes]
    )


def always_append(home, raw):
    companion.append_line(home.memory / "readings.jsonl", raw.decode())


def never_tell(home, event, **facts):
    if event != "daily_interrupted":
        REAL_LOG(home, event, **facts)


REAL_APPLY, REAL_OBSERVE, REAL_LOG = companion.apply_bundle, companion.observe, companion.log_event
WRONG = {
    "apply_bundle": snapshot_first,
    "observe": no_keys,
    "_add_reading": always_append,
    "log_event": never_tell,
}


@pytest.mark.parametrize("name", WRONG)
def test_the_loop_finds_a_wrong_writer(template, tmp_path, monkeypatch, name):
    """The judge is judged: each of these mistakes must be caught at some kill point."""
    monkeypatch.setattr(companion, name, WRONG[name])
    with pytest.raises(AssertionError):
        kill_at_every_effect(HomeMaker(tmp_path, template), the_check, recover_and_check)
