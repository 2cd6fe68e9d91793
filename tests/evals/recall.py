"""Measures recall: are the right records found, and what is shown beside them?

    measure.py [SET] [--model nomic-embed-text] [--write FILE] [--list]

Every question is asked in a home of its own and in one home that holds all records. Three ways: words alone,
vectors alone, together (what words alone are sure of, shown at once, then what vectors add).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CACHE = HERE / "vectors.pickle"
HOST = os.environ.get("OLLAMA_HOST", "http://127.0.0.1:11434")


def load_program() -> Any:
    """companion.py of this checkout."""
    sys.path.insert(0, str(HERE.parent.parent))
    import companion
    return companion


class Vectors:
    def __init__(self, model: str) -> None:
        self.model = model
        self.known = pickle.loads(CACHE.read_bytes()) if CACHE.exists() else {}

    def embed(self, texts: list[str]) -> list[list[float]]:
        missing = sorted({t for t in texts if (self.model, t) not in self.known})
        for at in range(0, len(missing), 64):
            body = json.dumps({"model": self.model, "input": missing[at:at + 64]}).encode()
            request = urllib.request.Request(f"{HOST}/api/embed", body,
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=300) as reply:
                vectors = json.load(reply)["embeddings"]
            self.known |= {(self.model, t): v for t, v in zip(missing[at:at + 64], vectors, strict=True)}
        if missing:
            CACHE.write_bytes(pickle.dumps(self.known))
        return [self.known[self.model, t] for t in texts]


def build_home(companion: Any, item: dict[str, Any], number: int) -> list[Any]:
    """Records of one item; ids are prefixed so that all items fit into one home."""
    records: list[dict[str, Any]] = []
    counts = {"m": 0, "d": 0}
    for step, *words in item["setup"]:
        if step == "chat":
            continue
        if step == "undecide":
            target, _, reason = words[0].partition(" ")
            old = next(r for r in records if r["id"] == f"{number}.{target}")
            old |= {"state": "undone", "standing": "reversed", "reason": reason}
            continue
        kind, text, author = "decision", words[-1], "owner"
        if step == "remember":
            kind, text = (part.strip() for part in text.split(":", 1))
        elif step == "note":
            kind, author = "note", "helper:" + words[0]
        letter = "d" if kind == "decision" else "m"
        counts[letter] += 1
        replaces = f"{number}.{step.split()[-1]}" if "--replaces" in step else None
        record = {"id": f"{number}.{letter}{counts[letter]}", "kind": kind, "text": text, "author": author,
                  "replaces": replaces, "confirmed": author == "owner", "state": "live"}
        record["standing"] = "unconfirmed" if author != "owner" else {
            "decision": "decided", "proposal": "undecided", "preference": "preference"}.get(kind, "note")
        if kind == "note" and author == "owner" and ("?" in text or "not decided" in text):
            record["standing"] = "undecided"
        for old in records:
            if old["id"] == replaces:
                old |= {"replaced_by": record["id"], "state": "replaced", "standing": "reversed"}
        records.append(record)
    blank = dict.fromkeys(companion.Record._fields)
    return [companion.Record(**blank | {"at": f"2026-{number:04}-{n:03}", "path": "", "input": ""} | r)
            for n, r in enumerate(records)]


def find(companion: Any, recall: Any, question: str, vectors: Vectors | None, way: str) -> Any:
    """Found, the way the program would show it."""
    if way == "words":
        return recall.find(question)
    asked = vectors.embed(recall.build_question_texts(question))
    if way == "vectors":
        kept = companion.CANDIDATES, companion.WORDS_WEIGHT, companion.NEAR_RULES
        companion.CANDIDATES, companion.WORDS_WEIGHT, companion.NEAR_RULES = 0, 0.0, ()
        rules = companion._is_sibling, companion._is_other_value
        companion._is_sibling = companion._is_other_value = lambda *_: False
        try:
            return recall.find(question, (), asked)
        finally:
            companion.CANDIDATES, companion.WORDS_WEIGHT, companion.NEAR_RULES = kept
            companion._is_sibling, companion._is_other_value = rules
    first, later = recall.find(question), recall.find(question, (), asked)
    if way == "with pick":
        later = look_again(companion, question, later, {m.record.id for m in first.on_record})
    ids = {m.record.id for m in first.on_record}
    late = [m for m in later.on_record if m.record.id not in ids]
    both = (*first.on_record, *late)
    ids |= {m.record.id for m in late}
    return companion.Found(both, tuple(m for m in later.near if m.record.id not in ids))


PICKS = HERE / "pick.pickle"
picks: dict[tuple[str, str], bool] = {}


def look_again(companion: Any, question: str, found: Any, shown: set[str]) -> Any:
    """`found` after the chat model's second look at what is doubtful and not shown yet."""
    if not companion.is_doubtful(question, found):
        return found
    out = []
    for match in companion.find_doubtful(question, found):
        key = (question, match.record.text)
        if match.record.id in shown:
            continue
        if key not in picks:
            messages = [{"role": "system", "content": companion.SYSTEM_RULES},
                        *companion.build_pick_messages(question, match)]
            body = {"model": "qwen2.5-coder:1.5b", "messages": messages, "stream": False,
                    "format": dict(companion.PICK_SCHEMA),
                    "options": {"temperature": 0, "num_predict": 16, "num_ctx": 8192}}
            request = urllib.request.Request(f"{HOST}/api/chat", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=300) as reply:
                picks[key] = companion.load_pick(json.load(reply)["message"]["content"])
            PICKS.write_bytes(pickle.dumps(picks))
        if not picks[key]:
            out.append(match.record.id)
    return companion.move_unpicked(found, out)


def judge(companion: Any, item: dict[str, Any], found: Any, known: dict[str, Any]) -> dict[str, Any]:
    matters = companion.build_matters(found, known.get)
    shown = [r.id for m in matters for r in m.records]
    right = {f"{item['number']}.{i}" for i in item["record"]}
    if isinstance(item["standing"], str):
        standing = matters[0].standing if matters else "no_record"
        ok = standing == item["standing"]
    else:
        want = [s["standing"] for s in item["standing"] if s["standing"] != "no_record"]
        have = [m.standing for m in matters]
        ok = right <= set(shown) and all(w in have for w in want) and (
            len(want) == len(item["standing"]) or set(shown) <= right)
        standing = "+".join(have)
    return {"item": item, "matters": matters, "standing": standing, "ok": ok,
            "has": bool(right) and right <= set(shown), "first3": bool(right) and right <= set(shown[:3]),
            "near": bool(right) and right <= set(shown) | {m.record.id for m in found.near},
            "unrelated": len(set(shown) - right), "found": found}


def run(companion: Any, items: list[dict[str, Any]], vectors: Vectors | None, way: str, one_home: bool,
        model: str = "") -> list[dict[str, Any]]:
    homes = {i["number"]: build_home(companion, i, i["number"]) for i in items}
    everything = [r for home in homes.values() for r in home]
    out = []
    recall = None
    for item in items:
        if recall is None or not one_home:
            records = everything if one_home else homes[item["number"]]
            recall = companion.Recall(records, model)
            if vectors and way != "words":
                missing = recall.missing_vectors()
                recall.add_vectors([r.id for r in missing], vectors.embed(recall.build_texts(missing)))
        found = find(companion, recall, item["question"], vectors, way)
        out.append(judge(companion, item, found, recall.records))
    return out


def line(name: str, results: list[dict[str, Any]]) -> str:
    with_record = [r for r in results if r["item"]["record"]]
    n, m = len(results), len(with_record)
    return (f"| {name} | {sum(r['has'] for r in with_record)}/{m} "
            f"| {sum(r['first3'] for r in with_record)}/{m} "
            f"| {sum(r['near'] for r in with_record)}/{m} | {sum(r['unrelated'] for r in results) / n:.2f} "
            f"| {sum(r['ok'] for r in results)}/{n} |")


def count_categories(results: list[dict[str, Any]]) -> str:
    by: dict[str, list[bool]] = {}
    for result in results:
        by.setdefault(result["item"]["category"], []).append(result["ok"])
    return ", ".join(f"{category} {sum(right)}/{len(right)}" for category, right in by.items())


def list_faults(name: str, results: list[dict[str, Any]]) -> None:
    for result in results:
        item, found = result["item"], result["found"]
        if result["ok"] and not result["unrelated"]:
            continue
        print(name, item["id"], item["category"], "right" if result["ok"] else "WRONG", result["standing"],
              item["record"], item["question"])
        for place, matches in (("on", found.on_record), ("near", found.near)):
            for m in matches:
                print("    ", place, f"{m.score:.3f}", m.finder, m.record.id, m.record.text, m.missing)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("set", nargs="?", default=str(HERE / "sets" / "standing.jsonl"))
    parser.add_argument("--model", default="nomic-embed-text")
    parser.add_argument("--list", choices=("odd", "all"))
    parser.add_argument("--ways", default="words,vectors,together,with pick")
    parser.add_argument("--homes", choices=("own", "one", "both"), default="both")
    parser.add_argument("--write")
    args = parser.parse_args()
    companion = load_program()
    items = [json.loads(row) for row in Path(args.set).read_text().splitlines() if row.strip()]
    for number, item in enumerate(items, 1):
        item["number"] = number
    vectors = Vectors(args.model)
    if PICKS.exists():
        picks.update(pickle.loads(PICKS.read_bytes()))
    head = ["| home, finder, items | all right on record | in the first 3 | on record or near "
            "| unrelated a question | standing right |", "|---|---|---|---|---|---|"]
    rows, details = [], []
    for one_home in {"own": (False,), "one": (True,), "both": (False, True)}[args.homes]:
        for way in args.ways.split(","):
            results = run(companion, items, vectors, way, one_home, args.model)
            name = f"{'one home' if one_home else 'own homes'}, {way}"
            halves = {"all": results, "odd": [r for r in results if r["item"]["number"] % 2],
                      "even": [r for r in results if not r["item"]["number"] % 2]}
            rows += [line(f"{name}, {half}", part) for half, part in halves.items()]
            details.append(f"{name}: standing right: {count_categories(results)}")
            if args.list:
                list_faults(name, halves[args.list])
    title = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {Path(args.set).name}, n = {len(items)}, {args.model}"
    text = "\n".join([title, "",
                      *head, *rows, "", *details, ""])
    print(text)
    if args.write:
        Path(args.write).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
