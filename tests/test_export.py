"""Everything on record as a page and as JSON Lines; an export keeps nothing that was forgotten (P3, P5, P10, P12)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers import TYPED, Sitting, make_records, run_cli

import companion


@pytest.fixture
def records(tmp_path: Path) -> companion.Records:
    """A little of everything; m3 is forgotten."""
    records = make_records(tmp_path / "home", host="http://127.0.0.1:9", embed_model="none", warm=False)
    companion.remember(records, "preference", "short, plain answers\nand no <b>bold</b> # headings", TYPED)
    companion.add_note(records, "mail", "the client agreed to May \x1b[2J")
    companion.remember(records, "note", "call Zebulon on 5550123", TYPED)
    companion.decide(records, "use PostgreSQL", TYPED)
    companion.decide(records, "use SQLite", TYPED, "d1")
    companion.undecide(records, "d2", "too slow", TYPED)
    companion.import_legacy(records, "old.jsonl", b'{"text": "likes tea", "evidence": "tea is fine, I think"}')
    companion.renew(records, "m1", TYPED)
    companion.forget(records, "m3", "repl:/forget", TYPED, lambda record_id, words: None)
    return records


def test_the_page_has_every_record_with_author_day_and_standing(records: companion.Records) -> None:
    """P3, P5: words, who, when, by which path, what came of it; the forgotten one as forgotten."""
    page = companion.build_export_page(records)
    assert [found[1:] for found in re.findall(r"^(\*\*)(\w+)\*\* (\w+)", page, re.M)] == [
        ("d1", "reversed"),
        ("d2", "reversed"),
        ("m1", "preference"),
        ("m2", "unconfirmed"),
        ("m3", "no_record"),
        ("m4", "unconfirmed"),
    ]
    for part in (
        "helper mail wrote it on 29 Nov 2026",
        "by cli:--note",
        "replaced by d2",
        "> why: too slow",
        "> kept with it: tea is fine, I think",
        "> short, plain answers\n> and no <b>bold</b> # headings",
        "*forgotten*",
        "imported from old.jsonl line 1",
        "chain memory",
        "chain decisions",
    ):
        assert part in page, part
    assert "Zebulon" not in page and "\x1b" not in page, "P12: cat is safe"


def test_the_lines_are_ledger_lines_with_standing(records: companion.Records) -> None:
    rows = [json.loads(line) for line in companion.build_export_lines(records).splitlines()]
    assert [row["id"] for row in rows] == ["m1", "m2", "m3", "m4", "d1", "d2"]
    for row in rows:
        assert list(row)[: len(companion.LINE_FIELDS)] == list(companion.LINE_FIELDS)
        line = {name: row[name] for name in companion.LINE_FIELDS}
        assert companion.build_hash(line) == row["hash"], "each can be checked by itself"  # type: ignore[arg-type]
    assert rows[2]["text"] is None and rows[2]["state"] == "forgotten" and rows[2]["salt"] is None
    assert (rows[5]["standing"], rows[5]["reason"], rows[4]["replaced_by"]) == ("reversed", "too slow", "d2")
    assert rows[0]["lapses"] == "2027-11-29" and rows[1]["confirmed"] is False


def test_export_in_the_chat_writes_both_beside_the_record(records: companion.Records) -> None:
    shown = Sitting(records.home).type("/export")
    files = sorted(path.name for path in records.home.memory.glob("export-*"))
    assert [name[-3:] for name in files] == ["onl", ".md"] and all(name in shown for name in files)
    assert all(path.stat().st_mode & 0o177 == 0 for path in records.home.memory.glob("export-*"))


@pytest.mark.parametrize("name", ["all.md", "all.jsonl"])
def test_export_from_the_command_line(records: companion.Records, tmp_path: Path, name: str) -> None:
    done = run_cli(records.home.root, "--export", str(tmp_path / name))
    assert done.returncode == 0 and "--forget reaches no copy outside" in done.stdout
    text = (tmp_path / name).read_text()
    assert text.startswith('{"seq"') if name.endswith("jsonl") else text.startswith("# On record, ")
    again = run_cli(records.home.root, "--export", str(tmp_path / name))
    assert again.returncode == 0, "an earlier export is written over"


@pytest.mark.parametrize(
    "name",
    [
        "notes.md",
        "memory/memory.jsonl",
        "memory/decisions.jsonl",
        "memory/heads.json",
        "logs/events.jsonl",
        "folder",
        "missing/all.md",
    ],
)
def test_an_export_writes_over_nothing_else(records: companion.Records, name: str) -> None:
    """P8: neither the owner's files nor the record itself."""
    root = records.home.root
    (root / "notes.md").write_text("my own notes")
    (root / "folder").mkdir()
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = run_cli(root, "--export", str(root / name))
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["companion.toml", "all.txt", "ALL", "memory/mission.md", "logs/chat.jsonl",
                                  "memory/readings.jsonl", "reports/2026-11-30_080000.md"])
def test_an_export_takes_no_name_that_the_program_reads(tmp_path: Path, name: str) -> None:
    """P8: a home goes on working, also where the file was not there yet."""
    root = make_records(tmp_path / "home").home.root
    done = run_cli(root, "--export", str(root / name))
    assert done.returncode == 2 and ".md or .jsonl" in done.stderr and done.stderr.count("\n") == 1
    assert not (root / name).exists() and run_cli(root, "--memory").returncode == 0


def test_an_empty_record_exports_an_empty_page(tmp_path: Path) -> None:
    done = run_cli(tmp_path / "home", "--export", str(tmp_path / "all.md"))
    assert done.returncode == 0 and "## Decisions" in (tmp_path / "all.md").read_text()


@pytest.mark.parametrize("inside", [True, False], ids=["in the home", "elsewhere"])
def test_a_forget_reaches_an_export_in_the_home_and_names_one_elsewhere(
    records: companion.Records, tmp_path: Path, inside: bool
) -> None:
    """P10: an export anywhere in the home is swept; one elsewhere is named as left alone."""
    path = (records.home.root if inside else tmp_path) / "backup of all.md"
    lines = path.with_suffix(".jsonl")
    for one in (path, lines):
        run_cli(records.home.root, "--export", str(one))
    assert "client agreed" in path.read_text() + lines.read_text()
    done = run_cli(records.home.root, "--forget", "m2", "--yes")
    left = "client agreed" in path.read_text() or "client agreed" in lines.read_text()
    assert left is not inside
    where = done.stdout.split("left alone")[1 if left else 0]
    assert path.name in where and lines.name in where
    if inside:
        row = next(json.loads(line) for line in lines.read_text().splitlines() if '"id": "m2"' in line)
        assert row["text"] is None and row["salt"] is None
