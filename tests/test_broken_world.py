"""Files that no program of ours left so: the chat starts with the rest and names the line, or refuses in
one sentence; never a traceback, never a silent loss (P8, P9, P12; R-50, R-52, R-53)."""

from __future__ import annotations

import errno
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import TYPED, Sitting, make_home

import companion

LOCAL = {"host": "http://127.0.0.1:9", "embed_model": "none", "warm": False, "model": "qwen2.5-coder:1.5b"}
TALK = "hello\nwhat is line 3?\n/memory all\n/decisions\n/open\n/why m1\n/stats\n/verify\n/report\n/trend\n/resume\n/quit\n"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--memory",),
    ("--memory", "--all", "--json"),
    ("--decisions",),
    ("--stats", "--json"),
    ("--verify",),
    ("--ask", "what is line 3?", "--json"),
    ("--daily",),
    ("--note", "goes on", "--as", "mail"),
    (),
)


def make_ten(root: Path) -> companion.Home:
    """Ten notes and two decisions."""
    home = make_home(root, **LOCAL)
    records = companion.Records(home)
    for number in range(1, 11):
        companion.remember(records, "note", f"line {number} größer", TYPED)
    for text in ("use PostgreSQL", "keep the archive"):
        companion.decide(records, text, TYPED)
    return home


def run(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """The program in this process, from the command line to its exit code; with TALK through a pipe."""
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    monkeypatch.delenv("DEV_USERNAME", raising=False)  # no account: the check fails before any network
    monkeypatch.setattr("sys.stdin", io.StringIO(TALK))
    code = companion.main(["--home", str(root), *args])
    out = capsys.readouterr()
    return code, out.out + out.err


def check_calm(root: Path, code: int, text: str) -> None:
    """No traceback anywhere, a proper exit code, no control character."""
    assert "Traceback" not in text and "went wrong in the program" not in text, text
    debug = root / "logs" / "debug.log"
    assert not debug.is_file(), debug.read_text()
    assert code in (0, 1, 2, 3, 4)
    assert not companion._UNSAFE.search(text.replace("\r", ""))


def put_line(number: int, raw: bytes) -> Callable[[bytes], bytes]:
    def harm(whole: bytes) -> bytes:
        lines = whole.split(b"\n")
        lines[number - 1] = raw
        return b"\n".join(lines)

    return harm


def edit_line(number: int, **change: Any) -> Callable[[bytes], bytes]:
    """A line that somebody edited and hashed anew."""

    def harm(whole: bytes) -> bytes:
        lines = whole.split(b"\n")
        line = json.loads(lines[number - 1]) | change
        line["text_digest"] = companion.build_words_digest(line["salt"], line["text"])
        line["hash"] = companion.build_hash(line)
        lines[number - 1] = companion.dump_json(line).encode()
        return b"\n".join(lines)

    return harm


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], set[int]]] = {  # name -> harm, lines whose record goes
    "line 7 is not JSON, line 9 a number": (lambda w: put_line(7, b"not JSON")(put_line(9, b"9")(w)), {7, 9}),
    "line 7 is half a line": (put_line(7, b'{"seq": 7, "at": "2026-'), {7}),
    "line 7 is empty": (put_line(7, b""), {7}),
    "line 7 is nested deep": (put_line(7, b"[" * 200_000), {7}),
    "line 7 is of other bytes": (put_line(7, bytes(range(256)).replace(b"\n", b"")), {7}),
    "line 7 is another object": (put_line(7, b'{"text": "free", "kind": "note"}'), {7}),
    "line 7 has a number beyond all bounds": (put_line(7, b'{"seq": ' + b"9" * 5000 + b"}"), {7}),
    "line 7 stands twice": (lambda w: put_line(8, w.split(b"\n")[6])(w), {8}),
    "line 7 has an unknown kind": (edit_line(7, kind="order"), {7}),
    "line 7 has no kind": (edit_line(7, kind=None), {7}),
    "line 7 has no text": (edit_line(7, text=None), {7}),
    "line 7 has an unknown act": (edit_line(7, op="bless"), {7}),
    "line 7 has no time": (edit_line(7, at="yesterday"), {7}),
    "line 7 has a time without a zone": (edit_line(7, at="2026-11-29T09:00:00"), {7}),
    "line 7 ends on no day": (edit_line(7, expires="soon"), {7}),
    "line 7 replaces nothing": (edit_line(7, replaces="m99"), set()),
    "line 7 has an odd source": (edit_line(7, source={"key": ["x"], "file": {"a": 1}, "line": None}), set()),
    "line 7 has an odd author": (edit_line(7, author="helper:\x1b[2J", path="repl:/\u202ex"), {7}),
    "line 7 has odd words": (edit_line(7, text="\x1b[2J\u202e[bold]<name>\ud800 :100:"), set()),
    "line 7 has number zero": (edit_line(7, seq=0), set()),
    "line 7 has a number below zero": (edit_line(7, seq=-(10**300)), set()),
    "windows line ends": (lambda w: w.replace(b"\n", b"\r\n"), set()),
    "a byte order mark": (lambda w: b"\xef\xbb\xbf" + w, set()),
    "half a letter at the end": (lambda w: w[: w.rindex("größer".encode()) + 3], {10}),
    "half a letter and a line end": (lambda w: w[: w.rindex("größer".encode()) + 3] + b"\n", {10}),
    "no line end": (lambda w: w.rstrip(b"\n"), {10}),
    "a hole of zeros at the end": (lambda w: w + bytes(5000), set()),
    "everything on one line": (lambda w: w.replace(b"\n", b" "), set(range(1, 11))),
    "nothing but a line end": (lambda w: b"\n", set(range(1, 11))),
    "empty": (lambda w: b"", set(range(1, 11))),
    "the other ledger": (lambda w: b"", set(range(1, 11))),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_memory_starts_with_the_rest_and_names_the_line(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P9, R-52: what can be read is there, what cannot is named, the file is left as it is until a line is added."""
    home = make_ten(tmp_path)
    path, (harm, lost) = home.memory / "memory.jsonl", DAMAGE[damage]
    harmed = (home.memory / "decisions.jsonl").read_bytes() if damage == "the other ledger" else harm(path.read_bytes())
    path.write_bytes(harmed)
    (home.memory / "heads.json").unlink()
    told = Sitting(make_home(tmp_path, **LOCAL)).first
    assert "memory.jsonl" in told.partition("/help")[2], "the first screen names it"
    if "line 7" in damage and "replaces" not in damage:
        assert "line 7" in told or "line 8" in told, told
    assert path.read_bytes() == harmed
    for args in COMMANDS:
        code, text = run(tmp_path, monkeypatch, capsys, *args)
        check_calm(tmp_path, code, text)
        if args == ("--memory", "--all", "--json"):
            shown = {line["text"] for line in json.loads(text[text.index("[") : text.rindex("]") + 1])}
            kept = {
                f"line {n} größer" for n in range(1, 11) if n not in lost | ({7} if "odd words" in damage else set())
            }
            assert kept <= shown, "a silent loss"
    records = companion.Records(home)
    records.refresh()
    assert [r.author for r in records.live()].count("helper:mail") == 1, "a new line can be added and read"
    kept_bytes = b"".join(p.read_bytes() for p in home.memory.glob("memory.jsonl*"))
    for number in lost:
        if number <= 10 and harmed.count(b"\n") > 8:
            raw = harmed.split(b"\n")[number - 1]
            assert raw in kept_bytes, "what could not be read is still there"


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "the other ledger"])
def test_broken_decisions_decide_nothing_and_take_no_line(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P5, P9: the break is named and nothing is added until the owner chooses; a torn tail is no break."""
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    for number in range(1, 11):
        companion.decide(records, f"line {number} größer", TYPED)
    path = home.memory / "decisions.jsonl"
    path.write_bytes(DAMAGE[damage][0](path.read_bytes()))
    harmed = path.read_bytes()
    sitting = Sitting(make_home(tmp_path, **LOCAL))
    verdict = sitting.chat.records.decisions_verdict
    assert "decisions.jsonl is" in sitting.first and not verdict.is_sound or verdict.verdict == "torn"
    shown = sitting.type("/decide one more")
    assert ("Nothing was added" in shown and path.read_bytes() == harmed) or verdict.verdict == "torn"
    for args in COMMANDS:
        code, text = run(tmp_path, monkeypatch, capsys, *args)
        check_calm(tmp_path, code, text)
        if args in (("--decisions",), ("--verify",), ("--daily",)) and verdict.verdict != "torn":
            assert code == companion.LedgerDamaged.exit_code, args


PLACES = [
    "memory/memory.jsonl",
    "memory/decisions.jsonl",
    "memory/heads.json",
    "memory/snapshot.json",
    "memory/readings.jsonl",
    "memory/pending.json",
    "memory/mission.md",
    "logs/events.jsonl",
    "logs/chat.jsonl",
    "logs/history",
    "reports/2026-11-28_080000.md",
    "companion.toml",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_folder_where_a_file_belongs(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P8: refused in one sentence that names it, or passed over; nothing is written into it."""
    make_ten(tmp_path)
    (tmp_path / place).unlink(missing_ok=True)
    (tmp_path / place).mkdir()
    for args in COMMANDS:
        code, text = run(tmp_path, monkeypatch, capsys, *args)
        check_calm(tmp_path, code, text)
        if place == "memory/memory.jsonl" and args != ("--verify",):
            assert code == 1 and "memory.jsonl is not a regular file" in text and text.count("\n") <= 2
    assert not list((tmp_path / place).iterdir())


GARBAGE = [
    b"",
    b"\n",
    b"{",
    b"null",
    b"[]",
    b"42",
    b'"x"',
    b"\x00" * 3000,
    b"\xff\xfe{\x00}\x00",
    b'{"memory": 5}',
    b'{"memory": {"seq": "1", "hash": 2}, "decisions": {"seq": true, "hash": "x"}}',
    b"[" * 100_000,
    b'{"decisions": {"seq": 1, "hash": "sha256:1", "accepted_at": 7}, "version": 1, "articles": 3, "at": []}',
    b'{"at": 7, "event": [], "ids": 7, "session": {}, "turn": "x", "role": "assistant", "text": 9, "author": null}\n'
    * 3,
    b'{"event": "daily_start", "run": ["x"], "at": "no"}\n{"event": "daily_stop", "run": "x"}\n'
    b'{"event": "ledger_append", "ledger": "decisions", "seq": "x", "hash": []}\n'
    b'{"event": "forgotten", "seconds": "x"}\n{"event": "exported", "file": 7}\n{"event": "answered", "ids": null}\n',
]


@pytest.mark.parametrize("place", [place for place in PLACES if "reports" not in place])
def test_garbage_in_every_file(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P8, P12: whatever stands there is never code, never a traceback."""
    for number, garbage in enumerate(GARBAGE):
        root = tmp_path / f"home{number}"
        make_ten(root)
        (root / place).write_bytes(garbage)
        for args in (("--memory",), ("--stats",), ("--verify",), ("--daily",), ()):
            code, text = run(root, monkeypatch, capsys, *args)
            check_calm(root, code, text)


def test_garbage_in_heads_is_told_and_the_event_log_still_knows(tmp_path: Path) -> None:
    """P9: one witness less is no reason to trust a shortened file."""
    home = make_ten(tmp_path)
    (home.memory / "heads.json").write_bytes(b"garbage")
    again = make_home(tmp_path, **LOCAL)
    assert "m1" not in Sitting(again).first
    assert any("heads.json" in text for text in again.told)  # type: ignore[attr-defined]
    path = home.memory / "decisions.jsonl"
    path.write_bytes(path.read_bytes().splitlines(True)[0])
    (home.memory / "heads.json").write_bytes(b"garbage")
    assert "decisions.jsonl is shortened" in Sitting(make_home(tmp_path, **LOCAL)).first


# The five verdicts where the owner meets them.


def cut_two(home: companion.Home) -> None:
    path = home.memory / "decisions.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-2]))


def put_back_both(home: companion.Home) -> None:
    cut_two(home)
    raw = (home.memory / "decisions.jsonl").read_bytes()
    line = companion.parse_line(raw.splitlines()[-1])
    companion.save_head(home, "decisions", companion.Head(line["seq"], line["hash"]), {})


def edit_a_letter(home: companion.Home) -> None:
    path = home.memory / "decisions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"decision 2", b"decision Z"))


def recompute(home: companion.Home) -> None:
    path, head, raws = home.memory / "decisions.jsonl", companion.build_empty_head("decisions"), []
    for raw in path.read_bytes().splitlines():
        line = companion.parse_line(raw)
        line["text"] = (line["text"] or "").replace("decision 2", "decision Z")
        line["text_digest"] = companion.build_words_digest(line["salt"], line["text"])
        line["prev"], line["hash"] = head.hash, ""
        line["hash"] = companion.build_hash(line)
        head = companion.Head(line["seq"], line["hash"])
        raws.append(companion.format_line(line) + b"\n")
    path.write_bytes(b"".join(raws))
    companion.save_head(home, "decisions", head, {})


def half_an_append(home: companion.Home) -> None:
    with (home.memory / "decisions.jsonl").open("ab") as file:
        file.write(b'{"seq": 6, "at": "2026')


VERDICTS = {
    "the last two decisions cut": (cut_two, "shortened"),
    "last week's copy of one file": (cut_two, "shortened"),
    "last week's copy of both": (put_back_both, "rolled back"),
    "one letter edited": (edit_a_letter, "rewritten"),
    "the whole chain recomputed": (recompute, "rewritten"),
    "an append killed half-way": (half_an_append, "torn"),
    "nothing": (lambda home: None, "fine"),
}


@pytest.mark.parametrize("accident", VERDICTS)
def test_the_verdict_stands_in_verify_at_the_start_and_in_the_report(
    tmp_path: Path, accident: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P9: five different words, in all three places, and what cannot be told apart is named."""
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    for number in range(1, 6):
        companion.decide(records, f"decision {number}", TYPED)
    harm, wanted = VERDICTS[accident]
    harm(home)
    code, text = run(tmp_path, monkeypatch, capsys, "--verify")
    assert f"decisions.jsonl  {wanted}" in text and "cannot be told from an honest one" in text
    assert code == (0 if wanted in ("fine", "torn") else 4)
    first = Sitting(make_home(tmp_path, **LOCAL)).first
    assert f"decisions.jsonl is {wanted}" in first if wanted != "fine" else "decisions.jsonl" not in first
    outcome = companion.run_daily(make_home(tmp_path, **LOCAL), companion._fetch_of(1, 1))
    assert f"- decisions ledger {wanted}" in outcome.text
    assert (f"The decisions ledger is {wanted}" in outcome.text) == (wanted not in ("fine", "torn"))
    assert outcome.exit_code == (0 if wanted in ("fine", "torn") else 4)


# Disks and folders.


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "open", "replace", "fsync"])
def test_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: str, code: int
) -> None:
    """P8: full, read-only or failing: a sentence, the old lines whole, and everything works once it is mended."""
    home = make_ten(tmp_path)
    before = (home.memory / "memory.jsonl").read_bytes()
    real = getattr(os, call)

    def fail(*args: Any, **more: Any) -> Any:
        if call == "write" and args[0] < 3 or call == "open" and not args[1] & os.O_CREAT:
            return real(*args, **more)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(companion.os, call, fail)
        for args in (("--note", "x", "--as", "mail"), ("--memory",), ("--verify",), ("--stats",), ("--daily",), ()):
            result, text = run(tmp_path, patch, capsys, *args)
            assert "Traceback" not in text and "went wrong in the program" not in text, text
            assert result in (0, 1, 3, 4)
            if args[:1] == ("--note",):
                assert result == 1 and os.strerror(code) in text and "Saved" not in text and text.count("\n") == 1
    whole = (home.memory / "memory.jsonl").read_bytes()
    assert whole.startswith(before) and not list(tmp_path.rglob(".*.tmp-*"))
    records = companion.Records(home)
    assert records.memory.verify(full=True).verdict == "fine"
    assert companion.remember(records, "note", "goes on", TYPED).text == "goes on"


@pytest.mark.parametrize("place", ["memory", "logs", "reports", "."])
def test_a_file_in_the_place_of_a_folder(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    if place != ".":
        home.mkdir()
    (home / place if place != "." else home).write_text("a file")
    for args in (("--memory",), ("--note", "x", "--as", "mail"), ("--daily",), ()):
        code, text = run(home, monkeypatch, capsys, *args)
        assert code == 1 and text.count("\n") == 1 and "Traceback" not in text, text


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = make_ten(tmp_path)
    home.memory.chmod(0o500)
    try:
        code, text = run(tmp_path, monkeypatch, capsys, "--note", "x", "--as", "mail")
    finally:
        home.memory.chmod(0o700)
    assert code == 1 and text.count("\n") == 1 and "Traceback" not in text


# Two hundred megabytes.


def make_large(home: companion.Home) -> None:
    """Four sound lines of 50 MB each after the ten."""
    records = companion.Records(home)
    records.refresh()
    head, text = records.memory.head, "a word or two " * (50_000_000 // 14)
    with records.memory.path.open("ab") as file:
        for number in range(11, 15):
            draft = companion.Draft("add", "owner", "repl:/remember", True, kind="note", text=text, input="typed",
                                    expires="2099-01-01")
            line = companion.build_line(draft, head, f"m{number}", "2026-11-29T09:00:00.000Z", "ab" * 16)
            head = companion.Head(line["seq"], line["hash"])
            file.write(companion.format_line(line) + b"\n")


def make_hole(home: companion.Home) -> None:
    """A torn tail of 200 MB of zeros, which takes no room on the disk."""
    os.truncate(home.memory / "memory.jsonl", 200_000_000)


@pytest.mark.parametrize("make", [make_hole, make_large])
def test_a_ledger_of_200_mb(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[companion.Home], None],
) -> None:
    """P8: the chat starts with the rest, in bounded time, and says what takes long."""
    home = make_ten(tmp_path)
    make(home)
    assert (home.memory / "memory.jsonl").stat().st_size >= 200_000_000
    started = time.monotonic()
    code, text = run(tmp_path, monkeypatch, capsys)
    check_calm(tmp_path, code, text)
    assert code == 3 and "line 3 größer" in text and "Reading memory.jsonl, 19" in text  # no model says hello
    assert time.monotonic() - started < 60


# Decisions that somebody else's hand was at (P9).


def decide_five(root: Path) -> companion.Records:
    records = companion.Records(make_home(root, **LOCAL))
    for number in range(1, 6):
        companion.decide(records, f"decision {number}", TYPED)
    return records


def forge(ledger: companion.Ledger, record_id: str | None, draft: companion.Draft, head: companion.Head | None = None,
          at: str = "2026-11-29T09:00:00.000Z") -> None:
    """Append a line that is sound by itself, behind `head` or the last one."""
    ledger.refresh()
    line = companion.build_line(draft, head or ledger.head, record_id, at, "ab" * 16)
    with ledger.path.open("ab") as file:
        file.write(companion.format_line(line) + b"\n")


SELL = companion.Draft("decide", "owner", "repl:/decide", True, kind="decision", text="sell it all", input="typed")


@pytest.mark.parametrize("gap", ["a gap before it", "a line made unreadable", "a line of another content before it"])
def test_p9_accepting_drops_a_forged_line_that_is_shown_as_lost(tmp_path: Path, gap: str) -> None:
    """P9, P2: what is printed as lost is what goes; what a witness saw behind the damage stays."""
    records = decide_five(tmp_path)
    head, path = records.decisions.head, records.decisions.path
    if gap == "a gap before it":
        forge(records.decisions, "d9", SELL, head._replace(seq=head.seq + 3))
    else:
        path.write_bytes(put_line(2, b"garbage")(path.read_bytes()))
        if gap != "a line made unreadable":
            edited = json.loads(path.read_bytes().splitlines()[2]) | {"text": "decision Z"}
            path.write_bytes(put_line(3, companion.dump_json(edited).encode())(path.read_bytes()))
        forge(records.decisions, "d9", SELL)
    sitting = Sitting(make_home(tmp_path, **LOCAL))
    shown = sitting.type("/verify --accept decisions", "y")
    assert "lost: line 6" in shown and "sell it all" in shown and "Done;" in shown, shown
    kept = [r.text for r in sitting.chat.records.live()]
    assert "sell it all" not in kept
    lost = {"a gap before it": (), "a line made unreadable": (2,)}.get(gap, (2, 3))
    assert kept == [f"decision {n}" for n in range(1, 6) if n not in lost]
    assert shown.count("lost: line") == len(lost) + 1
    assert sitting.chat.records.decisions.verify(full=True).verdict == "fine"
    assert "Decided d6" in sitting.type("/decide go on")


def test_p9_lines_from_before_an_acceptance_are_vouched_for_by_those_behind_them(tmp_path: Path) -> None:
    """P9: the log knows one hash of an accepted file, and with it every line that it stands on."""
    records = decide_five(tmp_path)
    records.decisions.path.write_bytes(put_line(2, b"garbage")(records.decisions.path.read_bytes()))
    companion.accept_ledger(records.decisions)
    (tmp_path / "memory" / "heads.json").unlink()
    records.decisions.path.write_bytes(put_line(2, b"garbage")(records.decisions.path.read_bytes()))
    companion.accept_ledger(records.decisions)
    records.refresh()
    assert [r.text for r in records.live()] == [f"decision {n}" for n in (1, 4, 5)]


def test_p9_words_gone_without_a_forget_are_dropped_when_accepted(tmp_path: Path) -> None:
    records = decide_five(tmp_path)
    line = companion.parse_line(records.decisions.path.read_bytes().splitlines()[1])
    line["text"] = line["salt"] = None
    records.decisions.path.write_bytes(put_line(2, companion.format_line(line))(records.decisions.path.read_bytes()))
    companion.accept_ledger(records.decisions)
    assert records.decisions.verify(full=True).verdict == "fine"


@pytest.mark.parametrize("size", [1 << 17, 1 << 21])
def test_p9_rolled_back_is_told_however_much_the_log_has_grown(tmp_path: Path, size: int) -> None:
    """P9: at the start, in the same chat, and after /verify: no new line on an older file."""
    home = decide_five(tmp_path).home
    put_back_both(home)
    before = (home.memory / "decisions.jsonl").read_bytes()
    with (home.logs / "events.jsonl").open("a") as log:
        for number in range(size // 64):
            log.write(f'{{"at": "2026-11-29T10:00:00.000Z", "event": "answered", "n": {number:7}}}\n')
    sitting = Sitting(make_home(tmp_path, **LOCAL))
    assert "decisions.jsonl is rolled back" in sitting.first
    assert "Nothing was added" in sitting.type("/decide one more")
    assert "rolled back" in sitting.type("/verify")
    assert "Nothing was added" in sitting.type("/decide one more")
    assert (home.memory / "decisions.jsonl").read_bytes() == before


def test_p9_what_an_old_report_knows_is_not_forgotten_after_verify(tmp_path: Path) -> None:
    """P9: a full look found damage that the newest witnesses do not know of; /decide stays refused."""
    records = decide_five(tmp_path)
    fingerprint = companion.render_fingerprint("decisions", records.decisions.head)
    for day in range(1, 6):
        name = f"2026-11-{day:02}_090000.md"
        (records.home.reports / name).write_text(f"- {fingerprint}\n" if day == 1 else "nothing\n")
    put_back_both(records.home)
    (records.home.logs / "events.jsonl").unlink()
    sitting = Sitting(make_home(tmp_path, **LOCAL))
    assert "decisions.jsonl  rolled back" in sitting.type("/verify")
    assert "Nothing was added" in sitting.type("/decide one more")


NOTE = companion.Draft("add", "owner", "repl:/remember", True, kind="note", text="pay Bob", input="typed",
                       expires="2099-01-01")
CONFIRM = companion.Draft("confirm", "owner", "repl:/confirm", target="m1", input="typed", expires="2099-01-01")
CONTRADICTIONS: dict[str, companion.Draft] = {
    "the owner by a helper's path": NOTE._replace(path="cli:--note", input="none"),
    "the owner by a path that is none": NOTE._replace(path="repl:/nonsense"),
    "the owner's words through a pipe": NOTE._replace(input="piped"),
    "a line that never lapses": NOTE._replace(expires=None),
    "an observation of the owner's": NOTE._replace(kind="observation"),
    "confirmed by a helper": CONFIRM._replace(author="helper:mail"),
    "confirmed by the check": CONFIRM._replace(author="code", path="daily:check", input="none"),
    "confirmed for ever": CONFIRM._replace(expires=None),
    "forgotten by a helper": CONFIRM._replace(op="forget", author="helper:mail", expires=None),
    "decided by the check": SELL._replace(author="code", path="daily:check", input="none"),
    "decided by an import": SELL._replace(path="import:legacy"),
    "decided through a pipe": SELL._replace(input="piped"),
    "decided until a day": SELL._replace(expires="2099-01-01"),
    "taken back by a helper": companion.Draft("undecide", "helper:mail", "repl:/undecide", target="d1", input="typed"),
}


@pytest.mark.parametrize("forgery", CONTRADICTIONS)
def test_p3_p4_a_line_whose_fields_contradict_each_other_makes_nothing(
    tmp_path: Path, forgery: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P3, P4: however well its hash fits, it is nobody's; named at the start, and never fine."""
    records = companion.Records(make_home(tmp_path, **LOCAL))
    companion.add_note(records, "mail", "the bill is paid")
    companion.decide(records, "use PostgreSQL", TYPED)
    before, draft = records.all(), CONTRADICTIONS[forgery]
    is_decision = draft.op in companion.LEDGER_ACTS["decisions"] and draft.op != "forget"
    ledger = records.decisions if is_decision else records.memory
    with pytest.raises(companion.Refused, match="never written"):
        ledger.append_all([draft])
    forge(ledger, ("d2" if is_decision else "m2") if draft.has_id else None, draft)
    sitting = Sitting(make_home(tmp_path, **LOCAL))
    assert sitting.chat.records.all() == before
    assert f"{ledger.path.name} is rewritten: line 2" in sitting.first
    code, text = run(tmp_path, monkeypatch, capsys, "--verify")
    assert code == 4 and f"{ledger.path.name}  rewritten: line 2" in text
    if is_decision:
        assert "lost: line 2" in sitting.type("/verify --accept decisions", "y")
        assert [r.text for r in sitting.chat.records.live() if r.kind == "decision"] == ["use PostgreSQL"]


def test_p9_a_damaged_decisions_file_is_told_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P9: --ask, --export and --forget say so with exit code 4; the answer still comes from memory."""
    records = decide_five(tmp_path / "home")
    companion.remember(records, "note", "the shelf is 80 cm wide", TYPED)
    records.decisions.path.write_bytes(put_line(1, b"garbage")(records.decisions.path.read_bytes()))
    for args, said in ((("--ask", "how wide is the shelf?"), "80 cm"), (("--ask", "which decision 2?"), ""),
                       (("--export", str(tmp_path / "x.md")), "Wrote"), (("--forget", "d1", "--yes"), "")):
        code, text = run(tmp_path / "home", monkeypatch, capsys, *args)
        assert code == 4 and "The decisions file is rewritten" in text and said in text, (args, text)
    page = (tmp_path / "x.md").read_text()
    assert "The decisions file is rewritten" in page and "chain decisions 5" in page
    assert page.rstrip().endswith("(rewritten)")


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59.999-12:00", "0001-01-01T00:00:00.000+12:00",
                                "1969-12-31T23:59:59.999Z", "9001-01-01T00:00:00.000Z"])
def test_p9_a_time_at_the_end_of_the_calendar_stops_nothing(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError):
        companion.parse_at(at)
    home = make_ten(tmp_path)
    forge(companion.Ledger(home, "memory"), "m11", NOTE, at=at)
    for args in COMMANDS:
        code, text = run(tmp_path, monkeypatch, capsys, *args)
        check_calm(tmp_path, code, text)
    assert "memory.jsonl is rewritten: line 11" in Sitting(make_home(tmp_path, **LOCAL)).first


def test_p8_an_id_beyond_all_numbers_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    home = make_ten(tmp_path)
    records = companion.Records(home)
    forge(records.memory, "m9999999999", NOTE)
    before = records.memory.path.read_bytes()
    with pytest.raises(companion.LedgerDamaged, match="No number is left after m9999999999"):
        companion.remember(records, "note", "one more", TYPED)
    assert records.memory.path.read_bytes() == before
