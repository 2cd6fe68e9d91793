"""Reading an older memory.jsonl: every line waits, nobody is credited, nothing is lost silently (P3, P4, P8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import TYPED, make_records, run_cli, run_json

import companion

OLD = [
    {
        "kind": "preference",
        "text": "Owner prefers tea",
        "source": "chat",
        "evidence": "I like tea I think",
        "unconfirmed": False,
    },
    {"text": "Owner committed to a garden page", "evidence": "maybe I'll do a garden page, not decided"},
    {"kind": "decision", "text": "Use PostgreSQL"},
    {"kind": "observation", "content": "One: 3 comments"},
    {
        "memory": "größer 😀\nand a second line",
        "evidence": ["first sentence", "second sentence"],
        "at": 17,
        "author": "owner",
    },
]


def dump(rows: list[Any], end: str = "\n") -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + end for row in rows).encode()


def take(
    records: companion.Records, data: bytes, name: str = "memory.jsonl"
) -> tuple[list[companion.Record], list[str]]:
    return companion.import_legacy(records, name, data)


def test_every_imported_line_waits_and_is_nobodys(tmp_path: Path) -> None:
    """P3, P4: the model's wording is the text, the owner's sentence the evidence, whatever the file claims."""
    records = make_records(tmp_path)
    added, skipped = take(records, dump(OLD))
    assert not skipped and [r.text for r in added] == [
        "Owner prefers tea",
        "Owner committed to a garden page",
        "Use PostgreSQL",
        "One: 3 comments",
        "größer 😀\nand a second line",
    ]
    assert [r.evidence for r in added] == [
        "I like tea I think",
        "maybe I'll do a garden page, not decided",
        None,
        None,
        "first sentence\nsecond sentence",
    ]
    assert [r.kind for r in added] == ["preference", "note", "note", "note", "note"]
    assert {(r.author, r.path, r.standing, r.confirmed, r.expires) for r in added} == {
        ("unrecorded", "import:legacy", "unconfirmed", False, "2026-12-06")
    }
    assert [dict(r.source or {}) for r in added] == [{"file": "memory.jsonl", "line": n} for n in range(1, 6)]
    assert len(records.waiting()) == 5 and records.memory.verify(full=True).verdict == "fine"


def test_an_imported_decision_decides_nothing(tmp_path: Path) -> None:
    """P5: a file that says decision makes none, not even when the owner confirms the line."""
    records = make_records(tmp_path)
    added, _ = take(records, dump(OLD[2:3]))
    assert companion.confirm(records, added[0].id, TYPED).standing == "note"
    assert not [r for r in records.all() if r.kind == "decision"]


def test_twice_imports_nothing_twice(tmp_path: Path) -> None:
    records = make_records(tmp_path)
    take(records, dump(OLD))
    before = records.memory.path.read_bytes()
    assert take(records, dump(OLD)) == ([], [])
    assert take(companion.Records(records.home), dump([*OLD[::-1], *OLD]), "other.jsonl") == ([], [])
    assert records.memory.path.read_bytes() == before


@pytest.mark.parametrize("act", ["confirm", "discard"])
def test_what_was_confirmed_or_discarded_does_not_come_back(tmp_path: Path, act: str) -> None:
    """P4: a second import asks nothing that the owner has answered."""
    records = make_records(tmp_path)
    added, _ = take(records, dump(OLD))
    getattr(companion, act)(records, added[0].id, TYPED)
    assert take(records, dump(OLD)) == ([], [])


def test_what_was_forgotten_does_not_come_back_and_that_is_said(tmp_path: Path) -> None:
    """P10: the same file again; its other lines still arrive."""
    records = make_records(tmp_path)
    take(records, dump(OLD[:1]))
    companion.forget(records, "m1", "repl:/forget", TYPED, lambda record_id, words: None)
    added, skipped = take(records, dump(OLD))
    assert [r.text for r in added] == [row.get("text") or row.get("content") or row.get("memory") for row in OLD[1:]]
    assert (
        skipped == ["line 1: what stood there was forgotten"] and b"prefers tea" not in records.memory.path.read_bytes()
    )


BAD = {
    b"hello": "it is not JSON",
    b"42": "it is not a JSON object",
    b"null": "it is not a JSON object",
    b'["text"]': "it is not a JSON object",
    b"{}": "it has no text",
    b'{"text": null}': "it has no text",
    b'{"text": "  "}': "it has no text",
    b'{"text": 7}': "its text is no text",
    b'{"text": "x", "evidence": {"a": 1}}': "its evidence is no text",
    b'{"text": "half': "it is not JSON",
    b'{"text": "gr\xc3"}': "it is not JSON",
    b"[" * 100_000: "it is not JSON",
    b'{"text": "' + b"x" * 100_001 + b'"}': "it is too long",
}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad[:30].decode("latin-1"))
def test_a_bad_line_is_named_by_number_and_skipped(tmp_path: Path, bad: bytes) -> None:
    data = dump(OLD[:2]) + bad + b"\n\n" + dump(OLD[2:])
    added, skipped = take(make_records(tmp_path), data)
    assert len(added) == len(OLD) and skipped == [f"line 3: {BAD[bad]}"]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.rstrip(b"\n"),
        lambda data: data.replace(b"\n", b"\n\n  \n"),
    ],
    ids=["byte order mark", "windows line ends", "no last line end", "gaps"],
)
def test_other_ways_to_write_the_same_file(tmp_path: Path, change: Any) -> None:
    added, skipped = take(make_records(tmp_path), change(dump(OLD)))
    assert len(added) == len(OLD) and not skipped


def test_separators_inside_a_text_split_no_line(tmp_path: Path) -> None:
    """Letters that some programs take for line ends stand inside JSON strings as they are."""
    text = "one\u2028two\u0085three\x1cfour\x0bfive"
    raw = '{"text": "one\u2028two\u0085three\\u001cfour\\u000bfive"}\n'.encode()
    added, skipped = take(make_records(tmp_path), raw)
    assert [r.text for r in added] == [text] and not skipped


def test_odd_kinds_and_unknown_fields_do_no_harm(tmp_path: Path) -> None:
    """P12: a file that was only read chooses neither author, path, id nor lifetime."""
    rows = [{"text": f"line {n}", "kind": kind} for n, kind in enumerate([None, 7, [], {}, "owner", "Preference"])]
    rows.append(
        {
            "text": "line 6",
            "author": "owner",
            "path": "repl:/remember",
            "id": "d1",
            "op": "decide",
            "input": "typed",
            "expires": "2099-01-01",
            "replaces": "m1",
            "confirmed": True,
        }
    )
    records = make_records(tmp_path)
    added, skipped = take(records, dump(rows))
    assert not skipped and {(r.kind, r.author, r.path, r.input, r.confirmed, r.replaces) for r in added} == {
        ("note", "unrecorded", "import:legacy", "none", False, None)
    }
    assert {r.expires for r in added} == {"2026-12-06"} and not records.decisions.lines


def test_import_from_the_command_line(tmp_path: Path) -> None:
    source = tmp_path / "old memory.jsonl"
    source.write_bytes(dump(OLD) + b"hello\n")
    done = run_cli(tmp_path / "home", "--import", str(source))
    assert done.returncode == 0 and "5 lines taken in, unconfirmed" in done.stdout
    assert "skipped line 6: it is not JSON" in done.stdout
    assert "0 lines taken in" in run_cli(tmp_path / "home", "--import", str(source)).stdout
    lines = run_json(tmp_path / "home", "--memory")
    assert len(lines) == 5 and {line["author"] for line in lines} == {"unrecorded"}
    assert source.read_bytes() == dump(OLD) + b"hello\n", "the old file is only read"


@pytest.mark.parametrize("name", ["nothing", "folder", "pipe", "device"])
def test_what_is_no_file_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    import os

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    where = "/dev/zero" if name == "device" else str(tmp_path / name)
    done = run_cli(tmp_path / "home", "--import", where, timeout=20)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_an_import_through_a_link_of_the_owners_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_bytes(dump(OLD))
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    assert "5 lines" in run_cli(tmp_path / "home", "--import", str(tmp_path / "link.jsonl")).stdout
