"""Forgotten means gone (P10): a phrase is written by every route, forgotten, and looked for everywhere."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stub_ollama as stub
from helpers import TYPED, Sitting, make_home, make_records, run_cli
from killer import HomeMaker, kill_at_every_effect
from stub_ollama import StubOllama
from typist import Owner

import companion

PHRASE = 'call Zebulon Quixby at the "größer" office on 5550123'
TOKENS = ("zebulon", "quixby", "5550123", "zebu", "größer", "gr\\u00f6\\u00dfer")
TALK = "You could ring Zebulon Quixby after lunch. The weather is fine today."
MODEL = "qwen2.5-coder:1.5b"
LOCAL = {"host": "http://127.0.0.1:9", "embed_model": "none", "warm": False, "model": MODEL}


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead process loses no page of the kernel's: the tests need not sync."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def find_left(root: Path) -> list[str]:
    """Files of a home that hold any part of the phrase, in any letters."""
    left = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace").lower()
            left += [f"{path.relative_to(root)}: {token}" for token in TOKENS if token in text]
    return left


# Every way that words get on record; each gives the id of the record that has the phrase.


def by_remember(records: companion.Records) -> str:
    return companion.remember(records, "note", PHRASE, TYPED).id


def by_note(records: companion.Records) -> str:
    return companion.add_note(records, "mail", PHRASE).id


def by_evidence(records: companion.Records) -> str:
    row = companion.dump_json({"text": "Owner has an appointment", "evidence": PHRASE})
    return companion.import_legacy(records, "old.jsonl", row.encode())[0][0].id


def by_observation(records: companion.Records) -> str:
    return companion.observe(records, [(PHRASE, {"tool": "dev_articles", "key": "r1:1:title"})])[0].id


def by_decision(records: companion.Records) -> str:
    return companion.decide(records, PHRASE, TYPED).id


def by_reason(records: companion.Records) -> str:
    record = companion.decide(records, "take the train", TYPED)
    return companion.undecide(records, record.id, PHRASE, TYPED).id


WRITERS: dict[str, Callable[[companion.Records], str]] = {
    "text": by_remember,
    "helper": by_note,
    "evidence": by_evidence,
    "observation": by_observation,
    "decision": by_decision,
    "reason": by_reason,
}


def spread(home: companion.Home, record_id: str) -> None:
    """The phrase in every file that a home can have, as the program itself or an accident leaves it."""
    records = companion.Records(home)
    records.refresh()
    said = {"session": "s1", "turn": 1, "ids": [record_id]}
    companion.log_chat(home, "user", f"when do I {PHRASE}?", author="owner", **said)
    companion.log_chat(
        home,
        "assistant",
        f"You should {PHRASE.upper()}.",
        author="model",
        **said,
        model_text=f"You decided to {PHRASE}",
        withheld=True,
        sources=[record_id],
    )
    companion.log_chat(home, "assistant", TALK, author="model", session="s1", turn=2, ids=[])
    companion.log_chat(home, "user", "and the number 5550123?", author="owner", session="s1", turn=3, ids=[])
    history = companion.HistoryFile(home, lambda entry: True)
    for text in (f"/remember note: {PHRASE}", "is Zebulon  Quixby in?", "good morning"):
        history.append(companion.Entry(text, "typed"))
    logs, memory = home.logs, home.memory
    cut = companion.dump_json({"at": "2026-11-29T09:00:00.000Z", "role": "user", "text": PHRASE})[:-20]
    (logs / "chat.jsonl").open("a").write(cut + "\n")
    companion.log_event(home, "model_unreachable", why=f"the server said: {PHRASE}")
    (home.reports / "2026-11-28_080000.md").write_text(f"# Daily check\n\n    {record_id}  note  “{PHRASE}”\n")
    (home.reports / "old").mkdir(mode=0o700)
    (home.reports / "old" / "2025.md").write_text('call  Zebulon\nQuixby at the\n> "größer" office on 5550123')
    (memory / "snapshot.json").write_text(json.dumps({"articles": [{"title": PHRASE}]}))
    (memory / "readings.jsonl").write_text(companion.dump_json({"title": PHRASE}) + "\n")
    (memory / "pending.json.unreadable-20261128T080000Z").write_text(json.dumps({"report": PHRASE}, indent=1)[:-3])
    (memory / "mission.md").write_text(f"Remind me to {PHRASE}.\n")
    ledger = records.decisions if record_id[0] == "d" else records.memory
    raw = next(raw for raw in ledger.path.read_bytes().split(b"\n") if "größer".encode() in raw)
    (memory / f"{ledger.path.name}.before-20261128T080000Z").write_bytes(ledger.path.read_bytes())
    (memory / f"{ledger.path.name}.torn-20261128T080000Z").write_bytes(raw[: raw.index(b"Zebulon") + 4])
    (memory / ".memory.jsonl.tmp-999999").write_bytes(raw)
    (logs / ".chat.jsonl.tmp-999999").write_text(PHRASE)
    (home.root / ".all.md.tmp-999999").write_text(PHRASE)
    (logs / "cron.log").write_text(f"2026-11-28 08:00\n    {record_id}  note  “{companion.clean_line(PHRASE)}”\n")
    for form in (repr(PHRASE), json.dumps(PHRASE), companion.dump_json({"content": companion.dump_json(PHRASE)})):
        (logs / "debug.log").open("a").write(f"2026-11-28T08:00:00Z sent {form}\nValueError: {TALK}\n")
    for path in (memory / "export-1.md", memory / "export-1.jsonl", home.root / "mine.md", home.root / "mine.jsonl"):
        companion.export_file(records, path)


def spread_bundle(home: companion.Home) -> None:
    """A daily check that was killed with the phrase in what it had written ahead."""
    bundle = {
        "version": 1,
        "run": "c1",
        "at": "2026-11-29T08:00:00.000Z",
        "summary": PHRASE,
        "report_name": "2026-11-29_080000.md",
        "report": f"# Daily check\n\n    {PHRASE}\n",
        "memory_ids": [],
        "interrupted": [],
        "observations": [{"text": PHRASE, "source": {"key": "k9"}}],
        "reading": None,
        "snapshot": None,
        "stop": {"status": "ok", "receipt": None, "reason": None, "fault": None},
    }
    (home.memory / "pending.json").write_text(companion.dump_json(bundle, indent=1))


def forget(home: companion.Home, record_id: str, scope: str = "traces") -> list[str]:
    """`--forget ID --yes` without its process."""
    records = companion.open_records(home)
    records.refresh()
    return companion.forget_everywhere(home, records, record_id, "cli:--forget", companion.Origin(), scope, None)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_phrase_written_by_every_route_is_in_no_file(tmp_path: Path, writer: str) -> None:
    """P10: and the chain verifies, the talk can be resumed, and the places are named."""
    home = make_home(tmp_path, **LOCAL)
    record_id = WRITERS[writer](companion.Records(home))
    spread(home, record_id)
    spread_bundle(home)
    assert len(find_left(tmp_path)) > 60, "the damage is there before it is judged"
    told = forget(home, record_id)
    assert not find_left(tmp_path)
    records = companion.Records(home)
    for ledger in (records.memory, records.decisions):
        assert ledger.verify(full=True).verdict == "fine"
    for name in (
        "logs/chat.jsonl",
        "logs/history",
        "logs/cron.log",
        "logs/debug.log",
        "logs/events.jsonl",
        "memory/export-1.md",
        "memory/mission.md",
        "memory/pending.json",
        "memory/snapshot.json",
        "mine.md",
        "mine.jsonl",
        "reports/2026-11-28_080000.md",
        "reports/old/2025.md",
    ):
        assert f"  {name}" in told, name
    assert any("before-" in line for line in told) and any("torn-" in line for line in told)
    assert companion.UNREACHED in told
    companion.recover_daily(home)
    assert not find_left(tmp_path), "P10: a replayed bundle brings nothing back"


def test_what_has_nothing_to_do_with_it_keeps_its_bytes(tmp_path: Path) -> None:
    """P10: the innocent sentence, the other records, the lines before and after."""
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    for n in range(3):
        companion.remember(records, "note", f"innocent words {n}", TYPED)
    record_id = by_remember(records)
    spread(home, record_id)
    ledger = records.memory.path.read_bytes().split(b"\n")
    forget(home, record_id)
    assert records.memory.path.read_bytes().split(b"\n")[:3] == ledger[:3]
    talk = [entry["text"] for entry in companion.load_chat(home)]
    assert "[forgotten m4] The weather is fine today." in [" ".join(text.split()) for text in talk]
    assert companion.HistoryFile(home, lambda entry: True).load() == ["good morning"]
    assert "innocent words 1" in (tmp_path / "mine.md").read_text()


def test_the_salt_goes_from_every_copy_of_the_line(tmp_path: Path) -> None:
    """P10: digest and salt together would let the words be guessed."""
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    record_id = by_remember(records)
    salt = records.line_of(record_id)["salt"]
    spread(home, record_id)
    forget(home, record_id)
    assert salt and not [path for path in tmp_path.rglob("*") if path.is_file() and salt.encode() in path.read_bytes()]


def test_a_short_word_is_not_torn_out_of_longer_ones(tmp_path: Path) -> None:
    home = make_home(tmp_path, **LOCAL)
    companion.remember(companion.Records(home), "note", "no", TYPED)
    companion.remember(companion.Records(home), "note", "Anna", TYPED)
    (home.memory / "mission.md").write_text("Annals and bananas, no less. Anna!")
    forget(home, "m1")
    forget(home, "m2")
    assert (home.memory / "mission.md").read_text() == "Annals and bananas, no less. [forgotten m2]!"


@pytest.mark.parametrize(
    "word", ["memory", "decisions", "owner", "typed", "note", "text", "mail", "2026", "ledger_append"]
)
def test_forgetting_a_word_that_the_program_uses_itself(tmp_path: Path, word: str) -> None:
    """P9, P10: a record of one common word takes no witness, no field and no author with it."""
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    companion.remember(records, "note", word, TYPED)
    companion.add_note(records, "mail", "another line")
    companion.decide(records, "use PostgreSQL", TYPED)
    spread(home, by_remember(records))
    companion.run_daily(home, companion._fetch_of(1, 1))
    before = companion.find_witnesses(home, "decisions", full=True)
    shapes = [list(event) for event in companion.load_events(home)]
    forget(home, "m1")
    assert companion.find_witnesses(home, "decisions", full=True) == before
    assert [list(event) for event in companion.load_events(home)][: len(shapes)] == shapes
    talk = companion.load_chat(home)
    assert talk and all({"at", "role", "text", "author"} <= set(entry) for entry in talk)
    assert companion.load_snapshot(home) and companion.load_readings(home)


@pytest.mark.parametrize("words", ["HIV", "HI", "no", "7", "note", "decide"])
@pytest.mark.parametrize("writer", ["text", "evidence", "decision", "reason"])
def test_short_words_go_wherever_their_record_is_named(tmp_path: Path, words: str, writer: str,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """P10: exports, copies of the ledger with their salt, commands in the history, turns, reports."""
    monkeypatch.setattr("test_forget.PHRASE", words)
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    record_id = WRITERS[writer](records)
    companion.remember(records, "note", "nothing to notice, no?", TYPED)
    ledger = records.decisions if record_id[0] == "d" else records.memory
    salts = [line["salt"] for line in ledger.lines if words in (line["text"], line["evidence"])]
    (home.memory / f"{ledger.path.name}.before-20261128T080000Z").write_bytes(ledger.path.read_bytes())
    for path in (home.memory / "export-1.md", tmp_path / "mine.jsonl"):
        companion.export_file(records, path)
    history = companion.HistoryFile(home, lambda entry: True)
    for text in (f"/remember note: {words}", f"/decide {words}", f"/undecide d1 {words}", "/remember note: Annanopol"):
        history.append(companion.Entry(text, "typed"))
    companion.log_chat(home, "user", f"have I ({words})?", author="owner", session="s1", turn=1, ids=[record_id])
    report = home.reports / "2026-11-28_080000.md"
    report.write_text(f"    {record_id}  note  “{words}”\n    m12  note  “{words}”\n")
    forget(home, record_id, "words")
    left = companion.build_phrase_pattern([words], short=True)
    page = (home.memory / "export-1.md").read_text()
    entry = page.split(f"**{record_id}**")[1].split("**m")[0].split("\n", 1)[1].split("##")[0]
    assert not left.search(entry) and f"[forgotten {record_id}]" in entry
    assert "> nothing to notice, no?" in page, "another record keeps its words"
    assert companion.HistoryFile(home, lambda entry: True).load() == ["/remember note: Annanopol"]
    assert companion.load_chat(home)[0]["text"] == f"have I ([forgotten {record_id}])?"
    assert report.read_text() == f"    {record_id}  note  “[forgotten {record_id}]”\n    m12  note  “{words}”\n"
    everything = b"\n".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert salts and not [salt for salt in salts if salt and salt.encode() in everything]
    row = next(json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().splitlines()
               if f'"id": "{record_id}"' in line)
    assert words not in (row["text"], row["evidence"], row["reason"])


def test_words_too_short_to_look_for_are_said_to_be(tmp_path: Path) -> None:
    """P10: what nothing ties to the record stays, and the answer names the files."""
    home = make_home(tmp_path, **LOCAL)
    companion.remember(companion.Records(home), "note", "HIV", TYPED)
    (home.memory / "mission.md").write_text("Read about HIV research.")
    (tmp_path / "mine.txt").write_text("HIV\n")
    (home.reports / "old.md").write_text("SHIVER\n")
    companion.log_chat(home, "user", "is HIV a virus?", author="owner", session="s1", turn=1, ids=[])
    told = forget(home, "m1")
    assert [line for line in told if "too short" in line] == [
        "Words of it are too short to look for in: logs/chat.jsonl, memory/mission.md, mine.txt"]
    assert (home.memory / "mission.md").read_text() == "Read about HIV research."
    companion.remember(companion.Records(home), "note", "a longer sentence", TYPED)
    assert not [line for line in forget(home, "m2") if "too short" in line]


@pytest.mark.parametrize("words, text, left", [
    ("Article 1", "Article 10, Article 1, Subarticle 1", "Article 10, [forgotten m1], Subarticle 1"),
    ("a much longer one 5", "a much longer one 55; a much longer one 5.", "a much longer one 55; [forgotten m1]."),
    ("我喜欢喝绿茶", "因为我喜欢喝绿茶的味道", "因为[forgotten m1]的味道"),
    ("(so to speak)", "well(so to speak)then", "well[forgotten m1]then"),
    ("Zebulon is here", '{"cut": "one\\nZebulon is here', '{"cut": "one\\n[forgotten m1]'),
])
def test_a_phrase_is_taken_as_whole_words_of_its_script(tmp_path: Path, words: str, text: str, left: str) -> None:
    """P7, P10: no other article's title is torn, and nothing hides in writing without blanks."""
    home = make_home(tmp_path, **LOCAL)
    companion.remember(companion.Records(home), "note", words, TYPED)
    (home.memory / "mission.md").write_text("x " + text)
    forget(home, "m1", "words")
    assert (home.memory / "mission.md").read_text() == "x " + left


def test_an_export_whose_name_has_the_words_is_found_by_later_forgets(tmp_path: Path) -> None:
    """P10: the event log goes on naming it while it is there, and the answer says so."""
    home = make_home(tmp_path / "home", **LOCAL)
    records = companion.Records(home)
    for text in ("Zebulon Quixby", "tea with milk"):
        companion.remember(records, "note", text, TYPED)
    inside, outside, gone = (folder / f"{name} Zebulon Quixby.md" for folder, name in (
        (home.root, "in"), (tmp_path, "out"), (tmp_path, "gone")))
    for path in (inside, outside, gone):
        companion.export_file(records, path)
    gone.unlink()
    told = forget(home, "m1")
    assert f"  {inside} (its name)" in told and f"  {outside}" in told
    assert "Zebulon" not in inside.read_text() and "tea with milk" in inside.read_text()
    told = forget(home, "m2")
    assert "  in Zebulon Quixby.md" in told and f"  {outside}" in told
    assert "tea with milk" not in inside.read_text()
    assert "gone Zebulon" not in (home.logs / "events.jsonl").read_text()
    inside.unlink()
    outside.unlink()
    companion.remember(records, "note", "Zebulon Quixby", TYPED)
    forget(home, "m3")
    assert "Zebulon" not in (home.logs / "events.jsonl").read_text()


def test_the_clues_of_a_long_record_are_looked_up_not_tried_in_turn(tmp_path: Path) -> None:
    """P10: a record of 96,000 characters and 300 lines of talk; what a line costs does not grow with the record."""
    names = ["".join("abcdefghij"[int(digit)] for digit in f"{n:05}") for n in range(4000)]
    words = " ".join(f"wordy{name} thing{name}" for name in names)
    clues = companion.Clues([words, "call 5550123"])
    assert clues.search("a Thingaaaah,\nWORDYaaaai!") == "Thingaaaah,\nWORDYaaaai"
    assert clues.search("on 5550123.") == "5550123"
    assert not clues.search("wordyaaaah and thingaaaah on 55501234, thingaaaah wordyaaaaj")
    tried = [value for value in vars(clues).values() if not isinstance(value, set)]
    assert not tried, "only sets: no pattern per pair"
    home = make_home(tmp_path, **LOCAL)
    companion.remember(companion.Records(home), "note", words, TYPED)
    for name in names[:300]:
        companion.log_chat(home, "user", f"one of wordy{name} thing{name} it is", author="owner", session="s1",
                           ids=[])
    forget(home, "m1")
    assert "wordy" not in (home.logs / "chat.jsonl").read_text()


def test_keys_typed_ahead_erase_nothing_from_the_command_line(tmp_path: Path) -> None:
    """P2, P10: `--forget ID` asks as /forget does."""
    companion.remember(companion.Records(make_home(tmp_path, **LOCAL)), "note", "tea with milk", TYPED)
    for answer, said in (("n\r", "m1 is kept"), ("y\r", "m1 is forgotten")):
        owner = Owner(tmp_path, "127.0.0.1:9", "--forget", "m1")
        try:
            owner.send("y\r")
            owner.child.expect(re.escape("[y/N]"))
            owner.pause()
            assert "tea with milk" in (tmp_path / "memory" / "memory.jsonl").read_text()
            owner.send(answer)
            owner.child.expect(said)
        finally:
            owner.close()


# Scope: the words alone, or what betrays them too.


def test_the_owner_keeps_the_talk_and_loses_the_words(tmp_path: Path) -> None:
    """P10: asked twice, answered yes and no."""
    home = make_home(tmp_path, **LOCAL)
    spread(home, by_remember(companion.Records(home)))
    sitting = Sitting(home)
    shown = sitting.type("/forget m1", "y", "n")
    assert sitting.hands.asked[0] == "Erase the words of m1 everywhere? [y/N] " and "Remove" in sitting.hands.asked[1]
    assert "chat.jsonl line" in shown and "this turn held m1" in shown and "shares “Zebulon Quixby”" in shown
    assert "shares “5550123”" in shown and "history line" in shown
    talk = (home.logs / "chat.jsonl").read_text()
    assert PHRASE not in talk.replace('\\"', '"') and TALK in talk
    assert sitting.record("m1").state == "forgotten"


def test_the_owner_lets_the_traces_go_as_well(tmp_path: Path) -> None:
    home = make_home(tmp_path, **LOCAL)
    spread(home, by_remember(companion.Records(home)))
    sitting = Sitting(home)
    assert "m1 is forgotten. Its words are gone from:" in sitting.type("/forget m1", "y", "y")
    assert not find_left(tmp_path)


@pytest.mark.parametrize("answers", [(), ("n",), ("",), ("maybe",)])
def test_anything_but_yes_keeps_everything(tmp_path: Path, answers: tuple[str, ...]) -> None:
    home = make_home(tmp_path, **LOCAL)
    spread(home, by_remember(companion.Records(home)))
    sitting = Sitting(home)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "m1 is kept." in sitting.type("/forget m1", *answers)
    assert {path: path.read_bytes() for path in before} == before


def test_no_terminal_and_no_yes_erases_nothing(tmp_path: Path) -> None:
    """P2: a pipe that says yes is nobody."""
    home = make_home(tmp_path, **LOCAL)
    by_remember(companion.Records(home))
    done = run_cli(tmp_path, "--forget", "m1", stdin="y\ny\n")
    assert done.returncode == 2 and "--yes" in done.stderr and len(find_left(tmp_path)) > 3


@pytest.mark.parametrize("record_id", ["m1", "m9", "d1", "", "x", "m1; m2"])
def test_forgetting_what_is_not_there_is_refused_in_one_sentence(tmp_path: Path, record_id: str) -> None:
    home = make_home(tmp_path, **LOCAL)
    by_remember(companion.Records(home))
    forget(home, "m1")
    done = run_cli(tmp_path, "--forget", record_id, "--yes")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""


# Partners.


def test_the_partner_of_a_pair_is_offered(tmp_path: Path) -> None:
    """P10: the misreading beside the owner's words would tell them."""
    home = make_home(tmp_path, **LOCAL)
    by_note(companion.Records(home))
    sitting = Sitting(home)
    sitting.type("/remember --replaces m1 call Z. Q. instead")
    sitting.type("/forget m1", "y", "y")
    assert sitting.chat.hint == "/forget m2"
    sitting.type("/forget m2", "y", "y")
    assert sitting.record("m2").state == "forgotten" and sitting.chat.hint is None


def test_another_record_with_the_same_words_is_offered(tmp_path: Path) -> None:
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    by_remember(records)
    companion.decide(records, f"to {PHRASE} every week", TYPED)
    done = run_cli(tmp_path, "--forget", "m1", "--yes")
    assert "d1 belongs with it and still has its words: --forget d1" in done.stdout
    run_cli(tmp_path, "--forget", "d1", "--yes")
    assert not find_left(tmp_path)


def test_a_forgotten_decision_keeps_its_effects(tmp_path: Path) -> None:
    """P10: what it replaced stays replaced, and asked about it the record says so without its words."""
    home = make_home(tmp_path, **LOCAL)
    records = companion.Records(home)
    companion.decide(records, "paint the shed green", TYPED)
    companion.decide(records, PHRASE, TYPED, "d1")
    forget(home, "d2")
    records.refresh()
    assert records.get("d1").state == "replaced" and records.get("d2").standing == "no_record"
    assert not [r for r in records.live() if r.kind == "decision"]


def test_the_words_typed_again_are_a_new_record(tmp_path: Path) -> None:
    home = make_home(tmp_path, **LOCAL)
    by_remember(companion.Records(home))
    sitting = Sitting(home)
    sitting.type("/forget m1", "y", "y")
    assert "Saved m2" in sitting.type(f"/remember {PHRASE}")


# Running chats.


def find_held(value: Any, seen: set[int] | None = None, way: str = "") -> Iterator[str]:
    """Ways through the attributes of an object to a text that holds a token."""
    seen = seen if seen is not None else set()
    if id(value) in seen or isinstance(value, int | float | bytes | type(None) | type):
        return
    seen.add(id(value))
    if isinstance(value, str):
        if any(token in value.lower() for token in TOKENS):
            yield f"{way}: {value[:60]}"
        return
    if isinstance(value, dict):
        parts = [(f"[{name!r}]", part) for name, part in value.items()] + [("key", name) for name in value]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [(f"[{n}]", part) for n, part in enumerate(value)]
    elif type(value).__module__ in ("companion", "helpers"):
        names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
        parts = [(f".{name}", getattr(value, name, None)) for name in names]
    else:
        return
    for name, part in parts:
        yield from find_held(part, seen, way + name)


@pytest.fixture
def server() -> Iterator[StubOllama]:
    with StubOllama() as running:
        yield running


def make_chat(path: Path, server: StubOllama) -> companion.Home:
    return make_home(path, **{**LOCAL, "host": server.host})


def sent_after(server: StubOllama, count: int) -> str:
    return "\n".join(json.dumps(asked.body, ensure_ascii=False) for asked in server.asked[count:]).lower()


@pytest.mark.parametrize("writer", WRITERS)
def test_no_running_chat_and_no_later_request_holds_it(tmp_path: Path, server: StubOllama, writer: str) -> None:
    """P10: forgotten in one chat; a second open chat follows at its next turn, and so does one that begins."""
    home = make_chat(tmp_path, server)
    record_id = WRITERS[writer](companion.Records(home))
    here, there = Sitting(home), Sitting(make_chat(tmp_path, server))
    for sitting in (here, there):
        server.then(stub.answer(f"As you wrote: {PHRASE}."), stub.answer(f"As you wrote: {PHRASE}."), stub.answer(TALK))
        sitting.type(f"do I have to {PHRASE}?")
        sitting.type("who is Zebulon Quixby?")
        sitting.type("what do you think of tea?")
    assert any(token in sent_after(server, 0) for token in TOKENS[:3])
    assert list(find_held(there.chat.talk)) and list(find_held(here.chat.talk))
    here.type(f"/forget {record_id}", "y", "y")
    assert not find_left(tmp_path)
    assert not list(find_held(here.chat)) and here.hands.reloads == 1
    count = len(server.asked)
    for sitting in (here, there, Sitting(make_chat(tmp_path, server))):
        sitting.type("how are you?")
        sitting.type("what is left to do?")
        assert not list(find_held(sitting.chat))
    assert there.hands.reloads == 1, "the arrow keys of the other chat forget it, too"
    assert len(server.asked) > count
    assert not [token for token in TOKENS if token in sent_after(server, count)]
    assert not find_left(tmp_path)


def test_the_search_index_in_memory_lets_it_go(tmp_path: Path, server: StubOllama) -> None:
    home = make_chat(tmp_path, server)
    record_id = by_remember(companion.Records(home))
    sitting = Sitting(home)
    assert sitting.chat.talk.finder.find("who is Quixby?", ()).on_record
    forget(make_chat(tmp_path, server), record_id)
    sitting.type("hello")
    index = sitting.chat.talk.finder.recall._index
    assert not index.execute("SELECT * FROM words").fetchall()
    assert not sitting.chat.talk.finder.find("who is Quixby?", ()).on_record


@pytest.mark.parametrize("command", ["/show", "/memory", "/why m1", "/memory all", "/export", "/resume"])
def test_a_command_in_the_other_chat_shows_nothing_of_it(tmp_path: Path, server: StubOllama, command: str) -> None:
    """P10: the next entry of any sort is the next turn."""
    home = make_chat(tmp_path, server)
    record_id = by_remember(companion.Records(home))
    sitting = Sitting(make_chat(tmp_path, server))
    claim = f"You decided to {PHRASE}."
    server.then(stub.answer(claim), stub.answer(claim))
    sitting.type("what about Zebulon Quixby?")
    assert sitting.chat.talk.last and sitting.chat.talk.last.withheld
    forget(home, record_id)
    shown = sitting.type(command)
    assert not [token for token in TOKENS if token in shown.lower()]
    assert not find_left(tmp_path)


def test_a_forget_while_another_chat_is_being_answered(tmp_path: Path, server: StubOllama) -> None:
    """P10: the answer that arrives afterwards is not written to the talk again."""
    home = make_chat(tmp_path, server)
    record_id = by_remember(companion.Records(home))
    sitting = Sitting(make_chat(tmp_path, server))

    def meanwhile(wire: stub.Wire) -> None:
        forget(home, record_id)
        stub.answer(f"You wrote: {PHRASE}.")(wire)

    server.then(meanwhile, stub.answer("I do not know."))
    sitting.type("when do I call Zebulon Quixby?")
    assert not find_left(tmp_path)
    count = len(server.asked)
    sitting.type("and then?")
    assert not [token for token in TOKENS if token in sent_after(server, count)]
    assert not list(find_held(sitting.chat)) and not find_left(tmp_path)


def test_an_answer_that_is_stopped_after_a_forget_elsewhere(tmp_path: Path, server: StubOllama) -> None:
    """P10: the half answer goes into the talk without the words."""
    home = make_chat(tmp_path, server)
    record_id = by_remember(companion.Records(home))
    sitting = Sitting(make_chat(tmp_path, server))

    def stopped(*args: Any, **more: Any) -> Any:
        gate = more["should_stop"].__self__
        gate.shown = f"You wrote: {PHRASE}."
        forget(home, record_id)
        raise KeyboardInterrupt

    sitting.chat.talk.model.chat = stopped  # type: ignore[union-attr, method-assign]
    sitting.type("hello there")
    assert companion.load_chat(home)[-1].get("stopped") is True
    assert not find_left(tmp_path) and not list(find_held(sitting.chat.talk.turns))


def test_the_server_is_asked_to_unload(tmp_path: Path, server: StubOllama) -> None:
    home = make_chat(tmp_path, server)
    by_remember(companion.Records(home))
    assert "The model was unloaded" in Sitting(home).type("/forget m1", "y", "y")
    asked = [asked.body for asked in server.asked if asked.path == "/api/generate"]
    assert asked and asked[-1]["keep_alive"] == 0 and not asked[-1].get("prompt")


def test_the_embedding_model_is_asked_to_unload_too(tmp_path: Path, server: StubOllama) -> None:
    """P10: it has read the words as well."""
    home = make_home(tmp_path, **{**LOCAL, "host": server.host, "embed_model": ""})
    by_remember(companion.Records(home))
    Sitting(home).type("/forget m1", "y", "y")
    asked = [asked.body for asked in server.asked if asked.path == "/api/generate"]
    assert [body["model"] for body in asked if body["keep_alive"] == 0] == [MODEL, "nomic-embed-text:latest"]


def test_what_cannot_be_reached_is_named(tmp_path: Path) -> None:
    """P10: it says what it cannot do."""
    home = make_home(tmp_path / "home", **LOCAL)
    records = companion.Records(home)
    by_remember(records)
    companion.export_file(records, tmp_path / "elsewhere.md")
    (home.root / "companion.toml").write_text(f"# {PHRASE}\n")
    with records.memory.path.open("ab") as file:
        file.write(f"not json: {PHRASE}\n".encode())
    told = "\n".join(forget(home, "m1"))
    for part in (
        "left alone",
        "elsewhere.md",
        "companion.toml",
        "memory.jsonl",
        "crontab",
        "model server's own cache",
        "scrollback",
        "history of your shell",
        "The model server was not reached",
    ):
        assert part in told, part
    assert PHRASE in (tmp_path / "elsewhere.md").read_text() and PHRASE in (home.root / "companion.toml").read_text()


# Killed.


def make_template(path: Path, writer: str) -> tuple[Path, str]:
    home = make_home(path, **LOCAL)
    record_id = WRITERS[writer](companion.Records(home))
    spread(home, record_id)
    spread_bundle(home)
    return path, record_id


def check_finished(root: Path, record_id: str) -> None:
    """After a start: gone everywhere, or still whole and then forgotten at the second try."""
    home = make_home(root, **LOCAL)
    records = companion.open_records(home)
    records.refresh()
    if records.get(record_id).state != "forgotten":
        assert "quixby" in json.dumps(companion.list_phrases(records, records.get(record_id))).lower(), "half a forget"
        forget(home, record_id)
    assert not find_left(root)
    again = companion.Records(home)
    for ledger in (again.memory, again.decisions):
        assert ledger.verify(full=True).verdict == "fine"
        assert not ledger.list_unfinished()
    assert not list(root.rglob(".*.tmp-*"))


@pytest.mark.parametrize("writer", ["text", "reason"])
def test_killed_at_every_effect_of_a_forget(tmp_path: Path, writer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """P8, P10: whatever is left is finished at the next start."""
    template, record_id = make_template(tmp_path / "template", writer)
    kills = kill_at_every_effect(
        HomeMaker(tmp_path, template),
        lambda root: forget(make_home(root, **LOCAL), record_id),
        lambda root, kill: check_finished(root, record_id),
    )
    with capsys.disabled():
        print(f"\nkill points of --forget ({writer}): {len(kills)}")
    seen = " ".join(kill.effect for kill in kills)
    assert len(kills) > 60 and all(
        name in seen for name in ("memory.jsonl", "chat.jsonl", "heads.json", "events.jsonl")
    )


def test_killed_at_every_effect_of_finishing_a_forget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P8, P10: a second accident, while the first is being mended."""
    template, record_id = make_template(tmp_path / "template", "text")
    records = companion.Records(make_home(template, **LOCAL))
    with pytest.raises(companion.StorageFailed):
        companion.forget(records, record_id, "cli:--forget", companion.Origin(), fail_to_sweep, "traces")
    assert len(find_left(template)) > 40
    kills = kill_at_every_effect(
        HomeMaker(tmp_path, template),
        lambda root: companion.open_records(make_home(root, **LOCAL)),
        lambda root, kill: check_finished(root, record_id),
    )
    with capsys.disabled():
        print(f"\nkill points of finishing a forget: {len(kills)}")
    assert len(kills) > 50


def fail_to_sweep(record_id: str, words: list[str]) -> None:
    raise companion.StorageFailed("The disk is full.")


def test_forget_killed_between_sweep_and_erase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P10: the files are clean, the ledger is not; the next start ends it, says so, and tells how long it took."""
    template, record_id = make_template(tmp_path / "home", "text")
    home = make_home(template, **LOCAL)

    def die(self: companion.Ledger) -> int:
        raise companion.StorageFailed("The disk is full.")

    monkeypatch.setattr(companion.Ledger, "erase", die)
    with pytest.raises(companion.StorageFailed):
        forget(home, record_id)
    monkeypatch.undo()
    assert {line.partition(":")[0] for line in find_left(template)} == {"memory/memory.jsonl"}
    again = make_home(template, **LOCAL)
    companion.open_records(again)
    assert not find_left(template) and again.told == ["Finished forgetting m1, which was interrupted."]  # type: ignore[attr-defined]
    events = [event for event in companion.load_events(again) if event["event"] == "forgotten"]
    assert len(events) == 1 and events[0]["seconds"] >= 0


def test_the_owners_no_to_the_traces_outlives_a_kill(tmp_path: Path) -> None:
    """P10: the forget line keeps how far it goes."""
    template, record_id = make_template(tmp_path / "home", "text")
    records = companion.Records(make_home(template, **LOCAL))
    with pytest.raises(companion.StorageFailed):
        companion.forget(records, record_id, "cli:--forget", companion.Origin(), fail_to_sweep, "words")
    companion.open_records(make_home(template, **LOCAL))
    assert TALK in (template / "logs" / "chat.jsonl").read_text()
    left = {line.partition(":")[0] for line in find_left(template)}
    assert left <= {"logs/chat.jsonl", "logs/history", "logs/debug.log"}


@pytest.mark.parametrize("flag", ["--memory", "--stats", "--decisions", "--note", "--export", "--daily"])
def test_any_start_finishes_a_forget(tmp_path: Path, flag: str) -> None:
    """P10: not only the chat."""
    template, record_id = make_template(tmp_path / "home", "text")
    (template / "memory" / "pending.json").unlink()
    records = companion.Records(make_home(template, **LOCAL))
    with pytest.raises(companion.StorageFailed):
        companion.forget(records, record_id, "cli:--forget", companion.Origin(), fail_to_sweep, "traces")
    more = {"--note": ["x", "--as", "mail"], "--export": [str(tmp_path / "all.md")]}.get(flag, [])
    done = run_cli(template, flag, *more, env={"DEV_URL": "http://127.0.0.1:9"})
    assert done.returncode == 0 and "Finished forgetting m1" in done.stderr
    assert not find_left(template) and "Quixby" not in done.stdout


def test_damaged_log_lines_stop_no_forget(tmp_path: Path) -> None:
    """P10: whatever stands in the logs, the words go."""
    home = make_home(tmp_path, **LOCAL)
    by_remember(companion.Records(home))
    odd = [
        b"9",
        b"null",
        b"[]",
        b'{"ids": null}',
        b'{"ids": 7, "sources": "m1"}',
        b'{"ids": {"m1": 1}}',
        b"{" * 5000,
        b"\xff\xfe\x00",
        b'{"text": null, "ids": ["m1"]}',
        b'{"text": ["call Zebulon Quixby"]}',
        b'"m1"',
        json.dumps({PHRASE: 1}).encode(),
    ]
    for name in ("chat.jsonl", "history", "debug.log"):
        with (home.logs / name).open("ab") as file:
            file.write(b"\n".join(odd) + b"\n" + PHRASE.encode() + b"\n")
    shutil.copytree(home.logs, home.memory / "copy of logs")
    (home.reports / "link.md").symlink_to(home.logs / "history")
    forget(home, "m1")
    assert not find_left(tmp_path)
    assert (home.reports / "link.md").is_symlink()
    sitting = Sitting(home)
    assert "Traceback" not in sitting.type("/resume") + sitting.type("/why m1") + sitting.type("/stats")
    assert not re.search("Something went wrong", sitting.out.getvalue())


def test_the_question_of_a_removed_turn_leaves_the_input_history_too(tmp_path: Path) -> None:
    """P10: the history has the owner's line a second time, in words that share no rare pair with the record."""
    records = make_records(tmp_path)
    record = companion.remember(records, "note", "the blue bicycle is at Bob's", TYPED)
    home, question = records.home, "and where did I leave it?"
    companion.log_chat(home, "user", question, session="s", turn=1, ids=[record.id])
    history = home.logs / "history"
    history.write_text("".join(companion.dump_json({"text": text, "input": "typed"}) + "\n" for text in (question, "hello")))
    assert {trace.path.name for trace in companion.find_traces(home, record.id, [record.text or ""])} == {
        "chat.jsonl", "history"}
    companion.forget_everywhere(home, records, record.id, "cli:--forget", companion.Origin(), "traces", None)
    assert question not in history.read_text() and companion.parse_history(history.read_bytes()) == ["hello"]
    assert not companion.find_traces(home, record.id, [])
