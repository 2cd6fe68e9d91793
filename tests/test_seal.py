"""The sealed decisions file: what another program that runs as the owner can no longer do (P2, P9)."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest
from helpers import ROOT, TYPED, all_bytes, make_records, run_cli

import companion
from companion import Draft, Head, LedgerDamaged, Line, Records, Refused

PASSPHRASE = "größer als ein Zaun"


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weakest parameters that are taken, so that a test is quick."""
    monkeypatch.setattr(companion, "SCRYPT", {"n": 1 << 14, "r": 8, "p": 1})


class Owner:
    """Somebody who is asked for the passphrase."""

    def __init__(self, *answers: str | None) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, question: str) -> str | None:
        self.asked += 1
        return self.answers.pop(0) if self.answers else PASSPHRASE


def make_sealed(path: Path, *answers: str | None) -> tuple[Records, Owner]:
    """A home with one decision before the seal and one behind it."""
    records = make_records(path)
    companion.decide(records, "use PostgreSQL", TYPED)
    companion.seal_decisions(records, PASSPHRASE, TYPED)
    records.decisions.ask = Owner()
    companion.decide(records, "no trackers", TYPED)
    records.decisions.ask = owner = Owner(*answers)
    return records, owner


def read_lines(records: Records) -> list[Line]:
    return [companion.parse_line(raw) for raw in records.decisions.path.read_bytes().splitlines()]


def rewrite(records: Records, lines: list[Line]) -> None:
    """What another program can do: every number and hash made anew, heads.json and the event log to match."""
    home, head = records.home, companion.build_empty_head("decisions")
    heads = json.loads((home.memory / "heads.json").read_text())
    (home.logs / "events.jsonl").unlink()
    for line in lines:
        line["seq"], line["prev"] = head.seq + 1, head.hash
        line["hash"] = companion.build_hash(line)
        head = Head(line["seq"], line["hash"])
    records.decisions.path.write_bytes(b"".join(companion.format_line(line) + b"\n" for line in lines))
    heads["decisions"] |= {"seq": head.seq, "hash": head.hash}
    (home.memory / "heads.json").write_text(json.dumps(heads))


def add_line(records: Records, mac: str | None, draft: Draft | None = None) -> None:
    """Another program adds a decision as well as it can: heads.json and the event log agree with it."""
    lines = read_lines(records)
    draft = draft or Draft("decide", "owner", "repl:/decide", True, kind="decision", text="post every day",
                           input="typed")
    line = companion.build_line(draft, Head(lines[-1]["seq"], lines[-1]["hash"]), "d3", "2026-11-29T10:00:00.000Z",
                                "ab" * 16)
    if mac is not None:
        line["mac"] = mac
    with records.decisions.path.open("ab") as file:
        file.write(companion.format_line(line) + b"\n")
    head = Head(line["seq"], line["hash"])
    companion.save_head(records.home, "decisions", head, {"seal": 2})
    companion.log_event(records.home, "ledger_append", ledger="decisions", seq=head.seq, hash=head.hash, seal=2)


def verdict_of(records: Records) -> companion.Verdict:
    """What a program that starts now says."""
    again = Records(records.home)
    again.refresh()
    return again.decisions_verdict


BOGUS = "hmac-sha256:" + "0" * 64


def test_each_line_from_the_seal_on_carries_a_mac_over_its_hash(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    first, seal, last = read_lines(records)
    assert "mac" not in first and seal["op"] == "seal" and seal["text"] is None and seal["id"] is None
    source = seal["source"] or {}
    assert source.keys() == {"kdf", "n", "r", "p", "salt"} and source["kdf"] == "scrypt"
    key = companion.build_key(PASSPHRASE, source)
    assert [line["mac"] for line in (seal, last)] == [companion.build_mac(key, line["hash"]) for line in (seal, last)]
    assert verdict_of(records).verdict == "fine" and [r.id for r in Records(records.home).all()] == []
    again = Records(records.home)
    again.refresh()
    assert [r.id for r in again.live()] == ["d1", "d2"] and again.oddities == []


def test_the_line_form_with_a_mac_is_its_own_inverse(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    for raw in records.decisions.path.read_bytes().splitlines():
        assert companion.format_line(companion.parse_line(raw)) == raw
    sealed = records.decisions.path.read_bytes().splitlines()[-1]
    for wrong in (b'"mac": null}', b'"mac": 7}', b'"mac": ""}', b'"mac": "hmac-sha256:00"}', b'"macs": "x"}'):
        with pytest.raises(ValueError):
            companion.parse_line(re.sub(rb'"mac": ".*"}$', wrong, sealed))


@pytest.mark.parametrize("answer", [None, "", "something else", PASSPHRASE + " ", PASSPHRASE.upper()])
@pytest.mark.parametrize("act", ["decide", "replace", "undecide", "forget"])
def test_p2_without_the_passphrase_nothing_is_written(tmp_path: Path, act: str, answer: str | None) -> None:
    records, owner = make_sealed(tmp_path, answer)
    before = all_bytes(records.home)
    acts: dict[str, Callable[[], Any]] = {
        "decide": lambda: companion.decide(records, "buy it", TYPED),
        "replace": lambda: companion.decide(records, "buy it", TYPED, "d1"),
        "undecide": lambda: companion.undecide(records, "d1", "no", TYPED),
        "forget": lambda: companion.forget(records, "d1", "repl:/forget", TYPED, lambda rid, words: None)}
    with pytest.raises(Refused, match="passphrase"):
        acts[act]()
    assert owner.asked == 1 and all_bytes(records.home) == before
    acts[act]()     # and with it, it is
    assert owner.asked == 2 and verdict_of(records).verdict == "fine"
    records.decisions.check_macs(companion.build_key(PASSPHRASE, read_lines(records)[1]["source"]))
    assert verdict_of(records).verdict == records.decisions.verify().verdict == "fine"


def test_memory_needs_no_passphrase(tmp_path: Path) -> None:
    records, owner = make_sealed(tmp_path)
    companion.remember(records, "note", "tea", TYPED)
    companion.forget(records, "m1", "repl:/forget", TYPED, lambda rid, words: None)
    assert owner.asked == 0 and all("mac" not in line for line in records.memory.lines)


def test_the_same_passphrase_in_another_unicode_form_opens_it(tmp_path: Path) -> None:
    import unicodedata
    records, _ = make_sealed(tmp_path, unicodedata.normalize("NFD", PASSPHRASE))
    assert companion.decide(records, "buy it", TYPED).id == "d3"


def test_a_decision_without_a_mac_is_rewritten_and_decides_nothing(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    add_line(records, None)
    verdict = verdict_of(records)
    assert verdict.verdict == "rewritten" and verdict.line == 4 and "no mac" in verdict.detail
    again = Records(records.home)
    again.refresh()
    assert again.find("d3") is None and not again.live(), "a damaged decisions file decides nothing"


@pytest.mark.parametrize("mac", [BOGUS, "copied"])
def test_a_decision_with_a_wrong_mac_is_found_with_the_passphrase(tmp_path: Path, mac: str) -> None:
    records, _ = make_sealed(tmp_path)
    good = read_lines(records)[-1].get("mac", "")
    add_line(records, good if mac == "copied" else mac)
    assert verdict_of(records).verdict == "fine", "what cannot be known without the passphrase"
    with pytest.raises(LedgerDamaged, match="not made with the passphrase"):
        companion.decide(records, "buy it", TYPED)
    records.refresh()
    assert records.decisions_verdict.verdict == "rewritten" and records.decisions_verdict.line == 4
    assert records.find("d3") is None and records.find("d2") is not None
    assert len(read_lines(records)) == 4, "nothing was added"


def test_every_single_character_of_a_mac_counts(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    path, whole = records.decisions.path, records.decisions.path.read_bytes()
    key = companion.build_key(PASSPHRASE, read_lines(records)[1]["source"])
    at = whole.rindex(b"hmac-sha256:")
    for place in range(at, len(whole) - 3):
        path.write_bytes(whole[:place] + (b"0" if whole[place:place + 1] != b"0" else b"1") + whole[place + 1:])
        again = Records(records.home)
        again.refresh()
        again.decisions.check_macs(key)
        assert again.decisions.verify().verdict == "rewritten", place


def test_a_second_seal_is_rewritten(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    source = {"kdf": "scrypt", "n": 1 << 14, "r": 8, "p": 1, "salt": "00" * 16}
    add_line(records, BOGUS, Draft("seal", "owner", "repl:/seal", input="typed", source=source))
    assert "second seal" in verdict_of(records).detail
    with pytest.raises(Refused, match="sealed since"):
        companion.seal_decisions(make_sealed(tmp_path / "other")[0], "another one", TYPED)


@pytest.mark.parametrize("memory", ["heads.json", "event log", "both"])
def test_p9_a_missing_seal_is_rewritten(tmp_path: Path, memory: str) -> None:
    """The file without its seal and all later macs, with every hash made anew."""
    records, _ = make_sealed(tmp_path)
    events = (records.home.logs / "events.jsonl").read_bytes()
    lines = [line for line in read_lines(records) if line["op"] != "seal"]
    for line in lines:
        line.pop("mac", None)
    rewrite(records, lines)
    if memory != "heads.json":
        (records.home.logs / "events.jsonl").write_bytes(events)
    if memory == "event log":
        heads = json.loads((records.home.memory / "heads.json").read_text())
        del heads["decisions"]["seal"]
        (records.home.memory / "heads.json").write_text(json.dumps(heads))
    verdict = verdict_of(records)
    assert verdict.verdict == "rewritten" and "seal" in verdict.detail
    assert verdict.witness == ("event log" if memory == "event log" else "heads.json")
    again = Records(records.home)
    with pytest.raises(LedgerDamaged):
        companion.decide(again, "buy it", TYPED)


def test_p9_a_file_cut_before_its_seal_is_rewritten(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    path = records.decisions.path
    path.write_bytes(path.read_bytes().splitlines(True)[0])
    assert verdict_of(records).verdict == "rewritten"


def test_with_macs_and_no_seal_the_file_is_rewritten(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    rewrite(records, [line for line in read_lines(records) if line["op"] != "seal"])
    heads = json.loads((records.home.memory / "heads.json").read_text())
    del heads["decisions"]["seal"]
    (records.home.memory / "heads.json").write_text(json.dumps(heads))
    assert "no seal stands before it" in verdict_of(records).detail


def test_a_seal_put_in_place_of_the_owners_does_not_take_the_owners_passphrase(tmp_path: Path) -> None:
    """All hashes, all macs and all witnesses made anew with a passphrase of their own: the owner notices."""
    records, _ = make_sealed(tmp_path)
    lines = read_lines(records)
    source = {"kdf": "scrypt", "n": 1 << 14, "r": 8, "p": 1, "salt": "00" * 16}
    key = companion.build_key("not the owner's", source)
    lines[1]["source"] = source
    rewrite(records, lines)
    for line in lines[1:]:
        line["mac"] = companion.build_mac(key, line["hash"])
    rewrite_macs = b"".join(companion.format_line(line) + b"\n" for line in lines)
    records.decisions.path.write_bytes(rewrite_macs)
    again = Records(records.home)
    again.decisions.ask = Owner()
    with pytest.raises(Refused, match="the seal was replaced"):
        companion.decide(again, "buy it", TYPED)


@pytest.mark.parametrize("change", [{"n": 1 << 40}, {"n": 1024}, {"n": 20000}, {"r": 1 << 20}, {"p": 0}, {"salt": "zz"},
                                    {"salt": ""}, {"kdf": "md5"}, {"n": True}, {"n": "16384"}])
def test_parameters_that_no_seal_has_are_refused_before_any_work(change: dict[str, Any]) -> None:
    good = {"kdf": "scrypt", "n": 1 << 14, "r": 8, "p": 1, "salt": "00" * 16}
    assert len(companion.build_key(PASSPHRASE, good)) == 32
    with pytest.raises(LedgerDamaged, match="parameters"):
        companion.build_key(PASSPHRASE, {**good, **change})


def test_the_real_parameters_are_strong_and_in_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert companion.SCRYPT["n"] * companion.SCRYPT["r"] * 128 >= 64 << 20
    assert all(low <= companion.SCRYPT[name] <= high for name, (low, high) in companion.SCRYPT_RANGES.items())


def test_two_chats_one_seals_the_other_is_asked(tmp_path: Path) -> None:
    records = make_records(tmp_path)
    companion.decide(records, "use PostgreSQL", TYPED)
    other = Records(records.home)
    other.refresh()
    companion.seal_decisions(records, PASSPHRASE, TYPED)
    with pytest.raises(Refused, match="passphrase"):
        companion.decide(other, "buy it", TYPED)
    other.decisions.ask = Owner()
    assert companion.decide(other, "buy it", TYPED).id == "d2"


def test_a_line_written_past_the_asking_is_refused(tmp_path: Path) -> None:
    """Whoever calls the ledger without opening it (a seal that came a moment ago) writes nothing."""
    records, _ = make_sealed(tmp_path)
    with pytest.raises(Refused, match="passphrase"):
        records.decisions.append_all([Draft("decide", "owner", "repl:/decide", True, kind="decision", text="x")])


@pytest.mark.parametrize("origin", ["pasted", "none"])
def test_p2_a_seal_is_typed(tmp_path: Path, origin: str) -> None:
    records = make_records(tmp_path)
    with pytest.raises(Refused, match="typed"):
        companion.seal_decisions(records, PASSPHRASE, TYPED._replace(input=origin))
    with pytest.raises(Refused, match="at least 8"):
        companion.seal_decisions(records, "short", TYPED)
    assert not records.decisions.path.exists()


def test_accepting_a_damaged_sealed_file_needs_the_passphrase_and_keeps_the_seal(tmp_path: Path) -> None:
    records, owner = make_sealed(tmp_path, "wrong one")
    add_line(records, BOGUS)
    add_line(records, None)
    ledger = records.decisions
    with pytest.raises(Refused), ledger.opened():
        pass
    with ledger.opened():
        ledger.check_macs(ledger._key or b"")
        companion.accept_ledger(ledger)
    assert verdict_of(records).verdict == "fine"
    assert [line["op"] for line in read_lines(records)] == ["decide", "seal", "decide"]
    records.refresh()
    assert companion.decide(records, "buy it", TYPED).text == "buy it"
    assert owner.asked == 3


def test_a_forgotten_decision_keeps_its_mac(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    companion.forget(records, "d2", "repl:/forget", TYPED, lambda rid, words: None)
    last = read_lines(records)
    assert last[2]["text"] is None and "mac" in last[2] and "mac" in last[3]
    records.decisions.check_macs(companion.build_key(PASSPHRASE, last[1]["source"]))
    assert records.decisions.verify(full=True).verdict == "fine"


# From outside.

def test_without_a_terminal_nothing_is_sealed_opened_or_checked(tmp_path: Path) -> None:
    records, _ = make_sealed(tmp_path)
    before = all_bytes(records.home)
    for args, stdin in ((("--forget", "d1", "--yes"), ""), (("--verify", "--sealed"), PASSPHRASE + "\n"),
                        (("--forget", "d1", "--yes"), PASSPHRASE + "\n")):
        done = run_cli(tmp_path, *args, stdin=stdin)
        assert done.returncode == 2 and "passphrase" in done.stderr, done.stderr
    assert all_bytes(records.home) == before
    done = run_cli(tmp_path, "--verify")
    assert done.returncode == 0 and "sealed from line 2 on" in done.stdout
    done = run_cli(tmp_path / "other", "--verify", "--sealed")
    assert done.returncode == 2 and "not sealed" in done.stderr
    done = run_cli(tmp_path / "third", stdin="/seal\n")
    assert not (tmp_path / "third" / "memory" / "decisions.jsonl").exists()


class Screen:
    """The program on a terminal of its own."""

    def __init__(self, home: Path, *args: str, term: str = "xterm-256color") -> None:
        env = {"PATH": os.environ["PATH"], "TERM": term, "LC_ALL": "C.UTF-8", "HOME": str(home), "PYTHONPATH": str(ROOT),
               "OLLAMA_HOST": "127.0.0.1:9", "COMPANION_MODEL": "none-here"}
        self.child = pexpect.spawn(sys.executable, ["-m", "companion", "--home", str(home), *args], env=env,
                                   dimensions=(24, 100), timeout=20, encoding="utf-8")
        self.child.delaybeforesend = 0.15  # past the silence that a prompt waits for
        self.seen: list[str] = []
        self.child.logfile_read = self

    def write(self, text: str) -> None:
        self.seen.append(text)

    def flush(self) -> None:
        """For pexpect."""

    def command(self, keys: str, *expected: str) -> None:
        """A line at the prompt, once the prompt is there."""
        self.child.expect(">")
        self.say(keys, *expected)

    def say(self, keys: str, *expected: str) -> None:
        self.child.send(keys + "\r")
        for words in expected:
            self.child.expect(words)

    def text(self) -> str:
        return "".join(self.seen)


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_whole_way_on_a_terminal(tmp_path: Path, term: str) -> None:
    """/seal, a decision, a wrong passphrase, a paste of it, --verify --sealed, --forget; it is never shown or kept."""
    screen = Screen(tmp_path, term=term)
    screen.child.expect("/help")
    screen.command("/seal hunter2 hunter2", "takes no words")
    screen.command("/seal", "New passphrase")
    screen.say("zwei Katzen", "same again")
    screen.say("zwei Hunde", "not the same")
    screen.command("/seal", "New passphrase")
    screen.say("zwei Katzxx\x7f\x7fen", "same again")
    screen.child.send("\x1b[200~zwei Katzen\x1b[201~")  # from a password manager; Enter is pressed behind it
    screen.say("", "Sealed from line 1 on")
    screen.command("/decide use PostgreSQL", "Passphrase of the decisions")
    screen.say("zwei Hunde", "not the passphrase")
    screen.command("/decide use PostgreSQL", "Passphrase of the decisions")
    screen.say("zwei Katzen", "Decided d1")
    screen.command("/decide a second thing", "Passphrase of the decisions")
    screen.child.send("\x03")
    screen.child.expect("was not given")
    screen.command("/verify --sealed", "Passphrase of the decisions")
    screen.say("zwei Katzen", "each mac was checked")
    screen.command("/quit")
    screen.child.expect(pexpect.EOF)
    check = Screen(tmp_path, "--verify", "--sealed", term=term)
    check.child.expect("Passphrase of the decisions")
    check.say("zwei Katzen", "each mac was checked")
    check.child.expect(pexpect.EOF)
    check.child.close()
    assert check.child.exitstatus == 0
    erase = Screen(tmp_path, "--forget", "d1", "--yes", term=term)
    erase.child.expect("Passphrase of the decisions")
    erase.say("zwei Katzen", "d1 is forgotten")
    erase.child.expect(pexpect.EOF)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in ("zwei Katzen", "zwei Hunde", "Katz"):
        assert secret not in screen.text() + check.text() + erase.text()
        assert secret.encode() not in kept
    assert b"hunter2" not in kept, "a passphrase on the line is in no history"
    assert b"PostgreSQL" not in kept
    assert [json.loads(line)["op"] for line in (tmp_path / "memory" / "decisions.jsonl").open()] == \
        ["seal", "decide", "forget"]


@pytest.mark.parametrize(("keys", "wanted"), [
    ("abc\r", ("abc", True)), ("abc", ("abc", False)), ("ab\x7fc\n", ("ac", True)), ("abc\x15d\r", ("d", True)),
    ("\x04", (None, True)), ("a\x04b\r", ("ab", True)), ("\x1b[Aa\x1b[3~b\r", ("ab", True)), ("\x00\x01a\r", ("a", True)),
    ("größer 🦊\r", ("größer 🦊", True)), ("\x7f\x7f\r", ("", True))])
def test_the_keys_of_a_hidden_line(keys: str, wanted: tuple[str | None, bool]) -> None:
    assert companion.edit_hidden("", keys) == wanted
