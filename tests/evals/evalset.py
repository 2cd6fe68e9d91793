"""The evaluation sets: loading them, and what a list of setup steps leaves on record.

The form of the sets is described in sets/FORMAT.md.  Nothing here imports the program:
the numbering of records is worked out anew from the steps, so that a fault of the
program's own numbering cannot hide itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SETS = HERE / "sets"
NAMES = ("standing", "filing", "threads", "injections")
COUNTS = {"standing": 72, "filing": 60, "threads": 12, "injections": 32}
KEYS = {
    "standing": {"id", "category", "setup", "question", "standing", "record", "must_say", "wrong_if"},
    "filing": {"id", "category", "before", "utterance", "hint"},
    "threads": {"id", "topic", "note", "helper", "background", "question", "fact_words"},
    "injections": {"id", "surface", "attack", "asks_for", "question", "success_if"},
}
CATEGORIES = (
    "decided",
    "explicit_open",
    "left_open",
    "hedged",
    "reversed",
    "preference",
    "no_record",
    "helper_note",
    "mixed",
)
# One item of each category and the two that went wrong in the first true story: under
# five minutes on two cores with the 1.5 B model.
CI_ITEMS = ("S-001", "S-009", "S-013", "S-017", "S-025", "S-033", "S-041", "S-049", "S-057", "S-065")
CI_FILING = tuple(f"F-{n:03d}" for n in range(1, 61, 3))
CI_THREADS = ("T-01", "T-08")
CI_INJECTIONS = ("I-02", "I-13", "I-29")
CI = {"standing": CI_ITEMS, "filing": CI_FILING, "threads": CI_THREADS, "injections": CI_INJECTIONS}

Item = dict[str, Any]
Step = list[str]


class Line(NamedTuple):
    """One record as the setup steps of an item leave it."""

    id: str
    kind: str  # decision | proposal | preference | note
    author: str  # owner | helper:NAME
    text: str
    state: str  # live | undone | replaced
    by: str  # the id that replaced it, or the words that took it back


class SetFault(ValueError):
    """A set file has not the form of sets/FORMAT.md."""


def load_set(name: str, folder: Path = SETS) -> list[Item]:
    """All items of one set, in order; SetFault names the line that is wrong."""
    if name not in NAMES:
        raise SetFault(f"there is no set called {name!r}")
    text = (folder / f"{name}.jsonl").read_text(encoding="utf-8")
    items: list[Item] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            item = json.loads(line)
        except ValueError as error:
            raise SetFault(f"{name} line {number}: {error}") from error
        if not isinstance(item, dict) or set(item) != KEYS[name]:
            raise SetFault(f"{name} line {number}: keys must be {sorted(KEYS[name])}")
        items.append(item)
    ids = [item["id"] for item in items]
    if len(set(ids)) != len(ids):
        raise SetFault(f"{name}: an id is given twice")
    return items


def pick_items(items: list[Item], name: str, subset: str | None) -> list[Item]:
    """A part of a set: `ci`, a number (spread evenly over the set), or ids joined by commas."""
    if not subset:
        return items
    if subset == "ci":
        return [item for item in items if item["id"] in CI[name]]
    if subset.isdigit():
        count = min(int(subset), len(items))
        step = len(items) / count if count else 1.0
        return [items[int(n * step)] for n in range(count)]
    wanted = {part.strip().upper() for part in subset.split(",")}
    found = [item for item in items if item["id"] in wanted]
    if len(found) != len(wanted):
        missing = sorted(wanted - {item["id"] for item in found})
        raise SetFault(f"{name} has no item {', '.join(missing)}")
    return found


def build_lines(steps: list[Step]) -> list[Line]:
    """The records that the steps leave, decisions numbered apart from memories."""
    lines: dict[str, Line] = {}
    for step in steps:
        verb, words = step[0], step[-1]
        if verb == "remember":
            kind, text = words.split(": ", 1)
            new_id = _next_id(lines, "m")
            lines[new_id] = Line(new_id, kind, "owner", text, "live", "")
        elif verb == "note":
            new_id = _next_id(lines, "m")
            lines[new_id] = Line(new_id, "note", f"helper:{step[1]}", words, "live", "")
        elif verb.startswith("decide"):
            new_id = _next_id(lines, "d")
            old = re.search(r"d\d+", verb)
            if old:
                lines[old.group()] = lines[old.group()]._replace(state="replaced", by=new_id)
            lines[new_id] = Line(new_id, "decision", "owner", words, "live", "")
        elif verb == "undecide":
            old_id, why = words.split(" ", 1)
            lines[old_id] = lines[old_id]._replace(state="undone", by=why)
        elif verb != "chat":
            raise SetFault(f"unknown step {verb!r}")
    return list(lines.values())


def _next_id(lines: dict[str, Line], letter: str) -> str:
    return f"{letter}{sum(key[0] == letter for key in lines) + 1}"


def find_chain(item: Item, right: set[str]) -> set[str]:
    """The earlier and later links of the right decisions: history of the same matter, not unrelated."""
    chain = set(right)
    for _ in range(3):
        for line in build_lines(item["setup"]):
            if line.state == "replaced" and (line.by in chain or line.id in chain):
                chain |= {line.id, line.by}
    return chain


def said_before(steps: list[Step]) -> list[str]:
    """The plain sentences of the talk before the question."""
    return [step[1] for step in steps if step[0] == "chat"]


def standings(item: Item) -> list[str]:
    """The standing or standings that are right for an item of the standing set."""
    value = item["standing"]
    return [value] if isinstance(value, str) else [part["standing"] for part in value]
