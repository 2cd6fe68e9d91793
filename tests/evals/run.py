#!/usr/bin/env python3
"""The evaluation runner.

    python tests/evals/run.py standing      what stands on record, in up to three conditions
    python tests/evals/run.py filing        is the right command offered, and only then?
    python tests/evals/run.py threads       the same fact from the owner, a helper, a confirmed helper
    python tests/evals/run.py injections    does text that was only read change anything?
    python tests/evals/run.py --judge-check is the judge still right about the hand-labelled answers?

Homes are made anew for every item.  They are set up by typing into the real chat through a
pseudo-terminal; helper notes are left with `--note`.  Every question is a talk of its own
(`--ask`), so `chat` steps are skipped; with `--talk` they are said first, and the question is
asked in the chat.  Every answer is kept in a results file in results/, beside this one.

What the judge leaves doubtful is listed, to be read by a human, whose verdict is kept as one more
line of judge_labels.jsonl and then settles the same answer at every later run.

Exit codes: 0 every bar was met, 1 one was missed or the judge is not to be trusted,
2 wrong use, 3 no model server or no program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asked
import redteam
from conditions import find_server, host_url
from evalset import HERE, NAMES, Item, SetFault, load_set, pick_items, said_before
from home_setup import NOWHERE, DriveTrouble, Program, set_up
from judge import Report, Verdict, check_judge, load_labels, read_by_hand, reading_key
from recorder import Recorder

RESULTS = HERE / "results"
KEPT_FACTS = ("one_home", "condition", "model", "server", "started_at", "seconds", "bare_from_an_earlier_run", "setup")
CONDITIONS = ("every", "instructions", "program", "record")


def main(argv: list[str] | None = None) -> int:
    """Judge-check first, then the set that was asked for."""
    options = parse_options(argv)
    report = check_judge(load_set("standing"), load_labels())
    print_judge(report, full=options.judge_check)
    if options.judge_check or options.set is None:
        return 0 if report.passed else 1
    try:
        run = Run(options, report)
        return run.finish(BY_SET[options.set](run))
    except SetFault as fault:
        print(fault, file=sys.stderr)
        return 2
    except DriveTrouble as trouble:
        print(trouble, file=sys.stderr)
        return 3


def parse_options(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", nargs="?", choices=NAMES)
    parser.add_argument("--judge-check", action="store_true", help="only check the judge")
    parser.add_argument("--model", default=os.environ.get("COMPANION_MODEL", "qwen2.5-coder:1.5b"))
    parser.add_argument("--host", default=os.environ.get("OLLAMA_HOST", "127.0.0.1:11434"))
    parser.add_argument("--subset", metavar="N", help="`ci`, a number of items, or ids joined by commas")
    parser.add_argument(
        "--condition",
        choices=CONDITIONS,
        default="every",
        help="standing: the bare prompt, the program (block alone and all of it), both, "
        "or the program without a reachable model (what code alone finds and says)",
    )
    parser.add_argument("--one-home", action="store_true", help="standing: all items' records in one home")
    parser.add_argument(
        "--bare-from", metavar="FILE", help="take the bare answers from an earlier results file"
    )
    parser.add_argument("--talk", action="store_true", help="standing: say `chat` steps first, in the chat")
    parser.add_argument("--with-model", action="store_true", help="filing: let the model answer too")
    parser.add_argument("--out", metavar="FILE", help="results file; default results/DATE_SET_MODEL.json")
    parser.add_argument("--seconds", type=float, metavar="BUDGET", help="stop asking after this time")
    parser.add_argument("--judge-again", metavar="FILE", help="standing: judge the answers kept in FILE; asks nothing")
    parser.add_argument("--keep", metavar="DIR", help="keep the homes in this folder")
    return parser.parse_args(argv)


def print_judge(report: Report, full: bool) -> None:
    """How the judge did, short before a run and in full for --judge-check."""
    n = sum(row["n"] for row in report.counts.values())
    agree = sum(row["agree"] for row in report.counts.values())
    print(
        f"judge-check: {agree} of {n} labels agreed, {len(report.missed)} breaches missed, "
        f"{len(report.alarms)} false alarms, {len(report.left)} left to a human: "
        f"{'passed' if report.passed else 'FAILED, what follows is not to be trusted'}"
    )
    if not full and report.passed:
        return
    for category, row in report.counts.items():
        print(f"  {category:14} " + ", ".join(f"{name} {count}" for name, count in row.items()))
    for name, labels in (
        ("missed", report.missed),
        ("false alarm", report.alarms),
        ("doubtful", report.left),
    ):
        for label in labels:
            print(f"  {name}: {label.id} ({label.verdict}: {label.why}) {label.answer!r}")


class Run:
    """One run: its items, its program, its budget and all it will keep."""

    def __init__(self, options: argparse.Namespace, report: Report) -> None:
        self.options, self.report = options, report
        self.items = pick_items(load_set(options.set), options.set, options.subset)
        self.whole_set = len(self.items) == len(load_set(options.set))
        self.began, self.started = time.monotonic(), datetime.now(UTC)
        self.rows: dict[str, Any] = {}
        self.hand = read_by_hand(load_labels())
        self.kept = json.loads(Path(options.judge_again).read_text("utf-8")) if options.judge_again else {}
        self.version = find_server(options.host)
        alone = bool(self.kept) or options.condition == "record" or options.set == "filing" and not options.with_model
        if self.version is None and not alone:
            raise DriveTrouble(f"no model server answers at {host_url(options.host)}")

    def program(self) -> Program:
        return Program(self.options.model, self.options.host)

    def settle(self, item_id: str, text: str, verdict: Verdict) -> str:
        """The judge's word; where it is doubtful and a human has read the answer, the human's."""
        if verdict.word != "doubtful":
            return verdict.word
        return self.hand.get((item_id, reading_key(text)), "doubtful")

    def spent(self) -> bool:
        return asked.stop_after(self.options.seconds, self.began)

    def left(self) -> Iterator[Item]:
        """The items, until the time is up; a sign of life on standard error."""
        for number, item in enumerate(self.items, 1):
            if self.spent():
                print(f"the time is up after {number - 1} of {len(self.items)} items")
                return
            if sys.stderr.isatty():
                spent = time.monotonic() - self.began
                sign = f"\r{item['id']} {number}/{len(self.items)} {spent:.0f} s "
                print(sign, end="", file=sys.stderr, flush=True)
            yield item
            self.save([], [])

    @contextmanager
    def home(self, name: str) -> Iterator[Path]:
        """A fresh home in a folder of its own, removed afterwards unless homes are kept."""
        base = (
            Path(self.options.keep).resolve()
            if self.options.keep
            else Path(tempfile.mkdtemp(prefix="companion-eval-"))
        )
        folder = base / re.sub(r"\W+", "-", name)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "home").mkdir(parents=True)
        try:
            yield folder / "home"
        finally:
            if not self.options.keep:
                shutil.rmtree(base, ignore_errors=True)

    def path(self) -> Path:
        if self.options.out:
            return Path(self.options.out)
        name = self.options.set + ("-one-home" if self.options.one_home else "")
        name += "-record" if self.options.condition == "record" else ""
        name += "" if self.whole_set else "-part"
        return (
            RESULTS
            / f"{self.started:%Y-%m-%d}_{name}_{re.sub(r'[^A-Za-z0-9.]+', '-', self.options.model)}.json"
        )

    def head(self) -> dict[str, Any]:
        """What the numbers belong to."""
        return {
            "set": self.options.set,
            "n": len(self.items),
            "whole_set": self.whole_set,
            "one_home": self.options.one_home,
            "condition": self.options.condition,
            "model": self.options.model,
            "server": self.version,
            "started_at": f"{self.started:%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(time.monotonic() - self.began, 1),
            "bare_seconds": round(
                sum(float(r["bare"]["seconds"]) for r in self.rows.values() if "bare" in r), 1
            ),
            "bare_from_an_earlier_run": bool(self.options.bare_from),
            "setup": "typed into the chat through a pseudo-terminal",
            **{name: self.kept[name] for name in KEPT_FACTS if name in self.kept},
            "judge": {
                "passed": self.report.passed,
                "missed": len(self.report.missed),
                "alarms": len(self.report.alarms),
                "left": len(self.report.left),
                "n": sum(row["n"] for row in self.report.counts.values()),
            },
        }

    def save(self, lines: list[str], missed: list[str]) -> None:
        """The whole run as JSON, after every item, so that an interrupted one is kept too."""
        path = self.path()
        path.parent.mkdir(parents=True, exist_ok=True)
        value = {**self.head(), "summary": lines, "missed": missed, "items": self.rows}
        path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def finish(self, outcome: tuple[list[str], list[str]]) -> int:
        """Print the summary, write both files; the exit code."""
        lines, missed = outcome
        head = self.head()
        title = (
            f"{head['set']}{' (one home)' if head['one_home'] else ''}: {head['n']} items, "
            f"model {head['model']}, "
            f"{head['started_at']}, {head['seconds']:.0f} s"
            + f"; bare answers of an earlier run, {head['bare_seconds']:.0f} s"
            * bool(self.options.bare_from)
        )
        troubles = list(find_troubles(self.rows))
        lines += [f"trouble: {text}" for text in troubles]
        missed += ["not every item could be asked"] * bool(troubles)
        if self.whole_set and len(self.rows) < len(self.items):
            missed.append(f"only {len(self.rows)} of {len(self.items)} items were asked")
        print("\n".join([title, *lines]))
        print("\n".join([f"MISSED {text}" for text in missed]) if missed else "every bar met")
        self.save(lines, missed)
        self.path().with_suffix(".md").write_text(
            render_table(title, lines, missed, self.items, self.rows), encoding="utf-8"
        )
        print(f"kept in {self.path()}")
        return 1 if missed or not self.report.passed else 0


def find_troubles(value: Any, where: str = "") -> Iterator[str]:
    """Every `trouble` in the rows, with the item it belongs to."""
    if isinstance(value, dict):
        if "trouble" in value:
            yield f"{where} {value['trouble']}"
        for key, inner in value.items():
            yield from find_troubles(inner, where or str(key))


def render_table(
    title: str, lines: list[str], missed: list[str], items: list[Item], rows: dict[str, Any]
) -> str:
    """The readable page beside the JSON: the summary, then one row an item."""
    out = [f"# {title}", "", "```", *lines, *[f"MISSED {text}" for text in missed], "```", ""]
    cells = [(item["id"], row) for item in items for row in [rows.get(item["id"])] if row]
    out += ["| item | question | outcome | shown |", "|---|---|---|---|"]
    by_id = {item["id"]: item for item in items}
    for key, row in cells:
        question = by_id[key].get("question") or by_id[key].get("utterance") or ""
        for outcome, shown in describe_row(row):
            out.append(
                "| " + " | ".join(escape_cell(cell) for cell in (key, question, outcome, shown)) + " |"
            )
    return "\n".join(out) + "\n"


def describe_row(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(outcome, text) of each thing that was asked for one item."""
    if "bare_score" in row:
        yield f"bare: {describe_score(row['bare_score'])}", row["bare"]["text"]
    if "score" in row:
        score = row["score"]
        yield f"first draft: {describe_score(score['draft'])}", score["draft"]["text"]
        kept = f"; withheld: {', '.join(score['rules'])}" if score["withheld"] else ""
        block = (
            f"; block {' '.join(score['block']) or 'none'}; {'/'.join(score['standing'])}"
            f"{'' if score['standing_right'] else ' WRONG'}"
        )
        yield f"shown: {describe_score(score['shown'])}{kept}{block}", score["shown"]["text"]
    if "got" in row:
        yield f"{'right' if row['right'] else 'WRONG'}: {row['got']}", str(row["hint"] or "")
    for way in asked.WAYS:
        if way in row and "flagged" in row[way]:
            marks = [
                name for name in ("flagged", "used", "prose_flag", "prose_used", "withheld") if row[way][name]
            ]
            yield (
                f"{way}: {', '.join(marks) or 'nothing'}{'; CREDITED' if row[way]['credited'] else ''}",
                str(row[way]["reply"].get("answer") or ""),
            )
    if "breaches" in row:
        yield (
            "; ".join(row["breaches"]) or f"held{', repeated' if row['repeated'] else ''}",
            str(row.get("answer") or ""),
        )


def describe_score(score: dict[str, Any]) -> str:
    """One verdict with its reasons."""
    extra = " right" if score["right"] else " less" if score["less"] else ""
    reasons = "; ".join(score["claims"] + score["denials"] + score["doubtful"])
    return f"{score['verdict']}{extra}{': ' + reasons if reasons else ''}"


def escape_cell(text: str) -> str:
    """One line, no bars, no control characters, not too long."""
    flat = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
    return flat.replace("|", "\\|").replace("<", "&lt;")[:400]


# --- one function a set --------------------------------------------------------------------


def run_standing(run: Run) -> tuple[list[str], list[str]]:
    """Up to three conditions side by side."""
    options = run.options
    if run.kept:
        return judge_again(run)
    if options.condition in ("every", "instructions") and not options.one_home:
        ask_bare_items(run)
    if options.condition == "instructions":
        return asked.sum_bare(run.items, run.rows), []
    program = run.program()
    window = None if options.condition == "record" else Recorder(options.host, keeps_vectors=options.one_home)
    program.host = NOWHERE if window is None else window.host
    with run.home("one-home") as shared:
        maps = asked.set_up_one_home(program, shared, load_set("standing")) if options.one_home else {}
        if options.one_home and window is not None:
            asked.make_vectors(program, shared, window.vectors)
        for item in run.left():
            row = run.rows.setdefault(item["id"], {})
            if window is not None:
                window.begin()
            row.update(
                ask_in_one(program, shared, item, maps) if options.one_home else ask_alone(run, program, item)
            )
            if "reply" in row:
                in_talk = "in_talk" in row["reply"]
                row["draft"] = window.find_draft() if window is not None and not in_talk else None
                known = {new for one in maps.values() for new in one.values()} or set(row["ids"].values())
                row["score"] = asked.score_program(item, row, known, run.settle)
    lines = asked.sum_bare(run.items, run.rows) if any("bare" in row for row in run.rows.values()) else []
    if options.condition == "record":
        lines.append("without a reachable model: the block and the sentences are code alone")
    lines += asked.sum_program(run.items, run.rows)
    lines += asked.sum_times([row["reply"] for row in run.rows.values() if "reply" in row])
    talked = sum("in_talk" in row.get("reply", {}) for row in run.rows.values())
    lines.append(
        f"questions asked in a talk after its `chat` steps: {talked}; "
        "every other one is a talk of its own (--ask)"
    )
    if options.one_home and window is not None:
        lines.append("vectors of the records were there already, as in a chat that has been open for a minute")
    return lines, asked.miss_standing(run.items, run.rows, run.whole_set, options.one_home)


def judge_again(run: Run) -> tuple[list[str], list[str]]:
    """The answers of an earlier run, judged by today's judge and by what humans have read since."""
    run.rows = run.kept["items"]
    everything = {new for row in run.rows.values() for new in row.get("ids", {}).values()}
    for item in run.items:
        row = run.rows.get(item["id"], {})
        if "reply" in row:
            known = everything if run.kept["one_home"] else set(row["ids"].values())
            row["score"] = asked.score_program(item, row, known, run.settle)
        if "bare" in row:
            row["bare_score"] = asked.score_text(item, row["bare"]["text"], None, run.settle)
    lines = asked.sum_bare(run.items, run.rows) if any("bare" in row for row in run.rows.values()) else []
    lines += asked.sum_program(run.items, run.rows)
    lines += asked.sum_times([row["reply"] for row in run.rows.values() if "reply" in row])
    return [*lines, *run.kept["summary"][-2:]], asked.miss_standing(
        run.items, run.rows, run.whole_set, run.kept["one_home"])


def ask_bare_items(run: Run) -> None:
    """The instructions-only answers, asked now or taken from an earlier run."""
    earlier = (
        json.loads(Path(run.options.bare_from).read_text(encoding="utf-8"))["items"]
        if run.options.bare_from
        else {}
    )
    for item in run.left():
        bare = earlier.get(item["id"], {}).get("bare") or asked.ask_standing_bare(
            item, run.options.model, run.options.host
        )
        run.rows[item["id"]] = {
            "bare": bare,
            "bare_score": asked.score_text(item, bare["text"], None, run.settle),
        }


def ask_alone(run: Run, program: Program, item: Item) -> dict[str, Any]:
    """One item in a home of its own; with --talk its earlier sentences are said first."""
    with run.home(item["id"]) as home:
        try:
            row = asked.ask_standing(program, home, item, set_up(program, home, item["setup"]))
            if run.options.talk and "reply" in row and said_before(item["setup"]):
                asked.talk_standing(program, home, item, row)
            return row
        except DriveTrouble as trouble:
            return {"trouble": str(trouble)}


def ask_in_one(program: Program, home: Path, item: Item, maps: dict[str, dict[str, str]]) -> dict[str, Any]:
    """One item in the home that holds everything."""
    return asked.ask_standing(program, home, item, maps[item["id"]])


def run_filing(run: Run) -> tuple[list[str], list[str]]:
    """The command that is offered for each utterance; code alone unless --with-model."""
    program = run.program()
    host = None if run.options.with_model else NOWHERE
    for item in run.left():
        with run.home(item["id"]) as home:
            run.rows[item["id"]] = asked.ask_filing(program, home, item, host)
    lines, missed = asked.sum_filing(run.items, run.rows)
    how = "with the model" if run.options.with_model else "without a reachable model: the hint is code alone"
    return [f"filing, {how}", *lines], missed


def run_threads(run: Run) -> tuple[list[str], list[str]]:
    """Each item three ways."""
    program = run.program()
    for item in run.left():
        row = run.rows.setdefault(item["id"], {})
        for way in asked.WAYS:
            with run.home(f"{item['id']}-{way}") as home:
                row[way] = asked.ask_thread(program, home, item, way)
    return asked.sum_threads(run.items, run.rows)


def run_injections(run: Run) -> tuple[list[str], list[str]]:
    """The red-team run."""
    program = run.program()
    for item in run.left():
        with run.home(item["id"]) as home, run.home(f"{item['id']}-control") as control:
            run.rows[item["id"]] = redteam.play_item(program, home, control, item)
    return redteam.sum_items(run.items, run.rows)


BY_SET = {
    "standing": run_standing,
    "filing": run_filing,
    "threads": run_threads,
    "injections": run_injections,
}

if __name__ == "__main__":
    sys.exit(main())
