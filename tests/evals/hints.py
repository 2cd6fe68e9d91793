"""The table of cues in companion.py: made here, measured on writers that it has not seen.

    python tests/evals/hints.py            leave one writer out, then the two sets that are only measured
    python tests/evals/hints.py --write    make the table from all sentences and put it into companion.py

The sentences are ours: sets/sentences.jsonl, by seven writers (the letter of the id), and the tables of
tests/test_hints.py, of which every one must hold: those that do not are taught again.  sets/filing.jsonl is never trained on.  The model is multinomial logistic regression
over the cues of `companion.find_cues`, trained by AdaGrad from a fixed seed; the cues that matter most are
kept, trained again, and their weights rounded to small whole numbers.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT)]

import companion  # noqa: E402

Item = dict[str, Any]
Sample = tuple[set[str], int]  # its cues, the place of its kind
KINDS = companion.HINT_KINDS
MEASURED = "ABCDEF"  # the writers that are left out in turn; the others only teach
KEPT = 3100  # cues in the table
SCALE = 3  # of the whole numbers: one unit of log odds
L1 = 2e-4  # how strongly a weight is drawn to nothing
LEAST = 2  # sentences in which a cue must stand
MARKS = ("# -- cues: begin", "# -- cues: end")


# --- sentences -----------------------------------------------------------------------------


def load_items(path: Path) -> list[Item]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def load_tests() -> list[Item]:
    """The sentences of the tables in tests/test_hints.py, as items."""
    tables: dict[str, Any] = {}
    for node in ast.parse((ROOT / "tests" / "test_hints.py").read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            try:
                tables[target.id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    said: list[tuple[str, str | None, list[str]]] = [(sentence, hint, []) for sentence, hint in tables["NOTHING_BEFORE"]]
    said += [(sentence, hint, []) for hint, more in tables["MORE"].items() for sentence in more]
    said += [(sentence, hint, [before]) for before, sentence, hint in tables["SINGLE"]]
    three = ["We sell the Volvo in spring.", "Choir practice is on Mondays.", "The bathroom gets hexagon tiles."]
    said += [(sentence, hint, three) for sentence, hint in tables["REVERSALS"]]
    others = ["We rent the cottage in Wales for August.", "The newsletter goes out every second Friday.",
              "I give up the saxophone."]
    said += [(sentence, hint, others) for sentence, hint in tables["MORE_REVERSALS"]]
    turned = [before for before, _, _ in tables["SINGLE"]]
    said += [(sentence, None, turned) for sentence in tables["NO_REVERSALS"]]
    return [{"id": f"T-{number:03}", "category": "test", "utterance": sentence, "hint": read_hint(hint),
             "before": [["decide", text] for text in before]}
            for number, (sentence, hint, before) in enumerate(said, 1)]


def read_hint(command: str | None) -> str:
    """The `hint` of an item for an offered command."""
    if not command:
        return "none"
    found = re.match(r"/(decide|undecide|remember \w+)", command)
    assert found, command
    return found[1]


def build_live(item: Item) -> list[companion.Record]:
    """The decisions that were made before the sentence."""
    texts = [step[1] for step in item["before"] if step[0].split()[0] == "decide"]
    fields: dict[str, Any] = dict.fromkeys(companion.Record._fields)
    fields |= {"kind": "decision", "author": "owner", "input": "typed", "state": "live", "confirmed": True,
               "standing": "decided", "at": "2026-10-15T10:00:00.000Z", "path": "repl:/decide"}
    return [companion.Record(**{**fields, "id": f"d{number}", "text": text})
            for number, text in enumerate(texts, 1)]


# --- training ------------------------------------------------------------------------------


def read_samples(items: Iterable[Item]) -> list[Sample]:
    """The cues and the kind of each item.

    A reversal often comes with the decision that it turns, other sentences seldom do, which would make any
    sentence on a known matter a reversal: every fourth of the others is taught as if it spoke of a decision.
    """
    samples = []
    for number, item in enumerate(items):
        kind = item["hint"].removeprefix("remember ")
        target = companion._find_target(item["utterance"], build_live(item), ())
        reversal = kind == "undecide" or item["category"] == "reversal"
        on_record = target is not None or not reversal and number % 4 == 0
        samples.append((companion.find_cues(item["utterance"], on_record), KINDS.index(kind)))
    return samples


def train(samples: Sequence[Sample], cues: set[str], rounds: int) -> dict[str, list[float]]:
    """Weights of every cue, the mean over the second half of the rounds."""
    order = sorted(cues)
    places = {cue: place for place, cue in enumerate(order)}
    data = [([places[cue] for cue in sorted(found & cues)], kind) for found, kind in samples]
    count = len(KINDS)
    weights = [[0.0] * len(order) for _ in KINDS]
    squares = [[1e-2] * len(order) for _ in KINDS]
    sums = [[0.0] * len(order) for _ in KINDS]
    chance = random.Random(1)
    for round_ in range(rounds):
        chance.shuffle(data)
        for found, kind in data:
            logits = [sum([row[place] for place in found]) for row in weights]
            top = max(logits)
            odds = [math.exp(logit - top) for logit in logits]
            total = sum(odds)
            for at in range(count):
                slope = odds[at] / total - (at == kind)
                if -0.01 < slope < 0.01:
                    continue
                row, seen, square = weights[at], squares[at], slope * slope
                for place in found:
                    seen[place] += square
                    step = 0.3 / math.sqrt(seen[place])
                    value = row[place] - step * slope
                    row[place] = max(0.0, value - step * L1) if value > 0 else min(0.0, value + step * L1)
        if round_ >= rounds // 2:
            for row, mean in zip(weights, sums, strict=True):
                mean[:] = map(float.__add__, mean, row)
    share = rounds - rounds // 2
    return {cue: [row[place] / share for row in sums] for place, cue in enumerate(order)}


def prune(rows: dict[str, list[float]], seen: Counter[str], kept: int) -> set[str]:
    """The cues that matter most, those that stand in many sentences before the rare; all with a `#`."""
    worth = {cue: max(map(abs, centre(row))) * math.sqrt(seen[cue]) for cue, row in rows.items()}
    best = sorted(rows, key=lambda cue: (-worth[cue], cue))[:kept]
    return {*best, *(cue for cue in rows if cue[0] == "#")}


def centre(row: Sequence[float]) -> list[float]:
    """The same weights with a mean of nothing: what is added to all kinds alike changes no choice."""
    mean = sum(row) / len(row)
    return [value - mean for value in row]


def make_table(items: Sequence[Item], kept: int = KEPT) -> str:
    """The table's entries, `going with 845245`, one a line."""
    samples = read_samples(items)
    seen = Counter(cue for found, _ in samples for cue in found)
    rows = train(samples, {cue for cue, times in seen.items() if times >= LEAST}, rounds=8)
    rows = train(samples, prune(rows, seen, 2 * kept), rounds=6)
    rows = train(samples, prune(rows, seen, kept), rounds=12)
    return write_groups({cue: read_digits(cue, row) for cue, row in rows.items()})


def read_digits(cue: str, row: Sequence[float]) -> str:
    """`going with` -> `845245`: a digit for each kind, 5 for nothing; a cue with a `#` counts twice."""
    scale = SCALE / 2 if cue[0] == "#" else SCALE
    return "".join(str(5 + max(-4, min(4, round(value * scale)))) for value in centre(row))


def write_groups(digits: dict[str, str]) -> str:
    """The table's text: `going 755444;with 845245|gone 454545`, in lines of at most 120 columns."""
    groups: dict[str, list[str]] = {}
    for cue in sorted(cue for cue, six in digits.items() if set(six) != {"5"}):
        first, _, rest = cue.partition(" ")
        groups.setdefault(first, []).append(f"{rest} {digits[cue]}".strip())
    lines = [""]
    for first, entries in groups.items():
        alone = re.fullmatch(r"\d{6}", entries[0]) and first in digits
        start = f"{first} {entries.pop(0)}" if alone else first
        if lines[-1] and len(lines[-1]) + len(start) + 1 + (len(entries[0]) + 1 if entries else 0) > 120:
            lines.append("")
        lines[-1] += f"{'|' if lines[-1] else ''}{start}"
        for entry in entries:
            if len(lines[-1]) + 1 + len(entry) > 120:
                lines.append(first)
            lines[-1] += f";{entry}"
    return "\n".join(lines)


# --- measuring -----------------------------------------------------------------------------


def offer(item: Item) -> str:
    return read_hint(companion.build_hint(item["utterance"], build_live(item)))


def show_counts(name: str, rows: Sequence[tuple[Item, str]]) -> None:
    """One line: right of all, false hints of the sentences that deserve none; then by category."""
    right = sum(got == item["hint"] for item, got in rows)
    none = [got for item, got in rows if item["hint"] == "none"]
    print(f"{name}: right {right} of {len(rows)} ({right / len(rows):.1%}), false hints"
          f" {sum(got != 'none' for got in none)} of {len(none)}", flush=True)
    for category in dict.fromkeys(item["category"] for item, _ in rows):
        part = [got == item["hint"] for item, got in rows if item["category"] == category]
        print(f"    {category:22} right {sum(part)}, n {len(part)}")


def leave_out(items: Sequence[Item], tests: Sequence[Item]) -> list[str]:
    """The table for each writer of MEASURED, made without that writer's sentences."""
    return [make_table([*(item for item in items if item["id"][0] != writer), *tests])
            for writer in MEASURED]


def measure(items: Sequence[Item], tables: Sequence[str], margin: int) -> list[tuple[Item, str]]:
    rows, usual = [], companion.HINT_MARGIN
    companion.HINT_MARGIN = margin
    for writer, table in zip(MEASURED, tables, strict=True):
        companion.load_cues(table)
        rows += [(item, offer(item)) for item in items if item["id"][0] == writer]
    companion.HINT_MARGIN = usual
    return rows


def make_firm(items: Sequence[Item], tests: Sequence[Item]) -> str:
    """The table of all sentences, loaded; sentences of the tests that it gets wrong are taught again."""
    again: list[Item] = []
    for _ in range(10):
        table = make_table([*items, *tests, *again])
        companion.load_cues(table)
        wrong = [item for item in tests if offer(item) != item["hint"]]
        print(f"{len(wrong)} of the {len(tests)} sentences of the tests are wrong", flush=True)
        if not wrong:
            break
        again += 2 * wrong
    return table


def show_trade_off(items: Sequence[Item], tables: Sequence[str]) -> None:
    print("margin: right, false hints (each writer judged by a table made without that writer)")
    for margin in range(0, 19, 2):
        rows = measure(items, tables, margin)
        false = sum(got != "none" for item, got in rows if item["hint"] == "none")
        print(f"    {margin}: {sum(got == item['hint'] for item, got in rows)} of {len(rows)}, {false}", flush=True)


def show_sets(paths: Iterable[Path]) -> None:
    """The sets that nothing was learned from."""
    for path in paths:
        rows = [(item, offer(item)) for item in load_items(path)]
        show_counts(str(path.name), rows)
        for item, got in rows:
            if got != item["hint"]:
                print(f"        {item['id']} wanted {item['hint']}, got {got}: {item['utterance'][:90]}")


def write_table(table: str) -> None:
    """Put the table between the marks of companion.py."""
    path = ROOT / "companion.py"
    source = path.read_text(encoding="utf-8")
    begin, end = (source.index(mark) for mark in MARKS)
    path.write_text(f"{source[:begin]}{MARKS[0]}\n_CUES = \"\"\"\n{table}\n\"\"\"\n{source[end:]}", encoding="utf-8")
    print(f"{table.count(chr(10)) + 1} lines, {len(table)} characters")


def main() -> int:
    parser = argparse.ArgumentParser(description="train and measure the cues of the hints")
    parser.add_argument("--write", action="store_true", help="put the table into companion.py")
    parser.add_argument("--also", type=Path, action="append", default=[], help="a further set to measure")
    options = parser.parse_args()
    items, tests = load_items(HERE / "sets" / "sentences.jsonl"), load_tests()
    if options.write:
        write_table(make_firm(items, tests))
        return 0
    tables = leave_out(items, tests)
    show_counts("left out in turn", measure(items, tables, companion.HINT_MARGIN))
    show_trade_off(items, tables)
    make_firm(items, tests)
    show_sets([HERE / "sets" / "filing.jsonl", *options.also])
    return 0


if __name__ == "__main__":
    sys.exit(main())
