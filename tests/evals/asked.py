"""The three sets that are asked: standing, filing, threads.  One function an item, one a summary."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sized
from pathlib import Path
from typing import Any

from conditions import ModelTrouble, ask_bare
from evalset import CATEGORIES, Item, Step, find_chain, said_before, standings
from home_setup import NOWHERE, DriveTrouble, Program, Terminal, load_ledger, set_up
from judge import BY_HELPER, CREDIT, FLAG, NEGATION, Verdict, has_any, judge, plain, split_clauses
from stats import median, percentile, show_share

Row = dict[str, Any]
Settle = Callable[[str, str, Verdict], str]
WAYS = ("owner typed", "helper unconfirmed", "helper confirmed")
NEVER_HINT = ("small_talk", "question", "quoting_someone")


# --- standing ------------------------------------------------------------------------------


def ask_standing_bare(item: Item, model: str, host: str) -> Row:
    """The instructions-only condition: {"text", "seconds", …}; "trouble" when the server failed."""
    try:
        return ask_bare(item, model, host)._asdict()
    except ModelTrouble as trouble:
        return {"text": "", "seconds": 0.0, "trouble": str(trouble)}


def ask_standing(program: Program, home: Path, item: Item, real: dict[str, str]) -> Row:
    """The question through the program; the --json object, or {"trouble": …}."""
    try:
        return {"ids": real, "reply": program.ask(home, item["question"])}
    except (DriveTrouble, OSError) as trouble:
        return {"ids": real, "trouble": str(trouble)}


def talk_standing(program: Program, home: Path, item: Item, row: Row) -> None:
    """Ask again in the chat, after the sentences said earlier, and judge what was shown there."""
    terminal = Terminal(program, home)
    try:
        for sentence in [*said_before(item["setup"]), item["question"]]:
            answer = terminal.ask(sentence)
    finally:
        terminal.quit()
    if answer is None:
        row["trouble"] = "no answer in the chat"
        return
    text = str(answer.get("text") or "")
    row["reply"] |= {
        "answer": text,
        "model_text": answer.get("model_text") or text,
        "withheld": bool(answer.get("withheld")),
        "findings": [f if isinstance(f, dict) else {"rule": f} for f in answer.get("findings") or []],
        "in_talk": True,
    }


def set_up_one_home(program: Program, home: Path, items: Iterable[Item]) -> dict[str, dict[str, str]]:
    """All items' records in one home, typed in one chat; item id -> its map of ids."""
    terminal = Terminal(program, home, host=NOWHERE)
    try:
        return {item["id"]: set_up(program, home, item["setup"], terminal) for item in items}
    finally:
        terminal.quit()


def make_vectors(program: Program, home: Path, vectors: Sized, quiet_s: float = 20.0, limit_s: float = 300.0) -> None:
    """Have a chat open until it has made the vectors of all records, as an owner's has by the second question."""
    terminal, end = Terminal(program, home), time.monotonic() + limit_s
    known, since = len(vectors), time.monotonic()
    try:
        while time.monotonic() < min(end, since + quiet_s):
            terminal.read(0.2)
            if len(vectors) > known:
                known, since = len(vectors), time.monotonic()
    finally:
        terminal.quit()


def score_program(item: Item, row: Row, known: set[str], settle: Settle) -> Row:
    """What one --json object is worth, for both conditions of the program."""
    reply, real = row["reply"], row["ids"]
    draft = str(row.get("draft") or reply.get("model_text") or "")
    back = {new: old for old, new in real.items()}
    # A record of another item is marked, for in one home its id may look like one of this item's.
    shown = [back.get(entry["id"], f"other:{entry['id']}") for entry in reply.get("on_record") or []]
    others = [
        str(entry.get("text") or "")
        for entry, name in zip(reply.get("on_record") or [], shown, strict=True)
        if name not in find_chain(item, set(item["record"]))
    ]
    block_words = " ".join(str(entry.get("text") or "") for entry in reply.get("on_record") or [])
    right = set(item["record"])
    # What took a decision's place stands beside it and takes no place of its own.
    joined = sum(len(matter.get("ids", ())) - 1 for matter in reply.get("matters") or [] if matter.get("ids"))
    unrelated = [name for name in shown if name not in right | find_chain(item, right)]
    return {
        "block": shown,
        "found": right <= set(shown),
        "unrelated": len(unrelated),
        "three": right <= set(shown) and len(shown) - joined <= 3,
        "first": right <= set(shown[:3]),
        "standing": find_standings(reply),
        "standing_right": is_standing_right(item, reply),
        "must_said": not item["must_say"]
        or has_any(f"{block_words} {reply.get('answer') or ''}", item["must_say"]),
        "withheld": bool(reply.get("withheld")),
        "rules": sorted({str(finding.get("rule")) for finding in reply.get("findings") or []}),
        "shown": score_text(item, str(reply.get("answer") or ""), known, settle, others),
        "draft": score_text(item, draft, known, settle, others),
        "again": bool(reply.get("findings")),
    }


def score_text(
    item: Item, text: str, known: set[str] | None, settle: Settle, others: Iterable[str] = ()
) -> Row:
    """The judge's verdict on a text, settled by hand where a human has read it."""
    verdict = judge(item, text, known, others)
    return {
        "text": text,
        "verdict": settle(item["id"], text, verdict),
        "claims": list(verdict.claims),
        "denials": list(verdict.denials),
        "doubtful": list(verdict.doubtful),
        "less": verdict.less,
        "right": verdict.right,
    }


def find_standings(reply: Row) -> list[str]:
    """The standings of the matters that the program named, or its one standing."""
    return [str(matter.get("standing")) for matter in reply.get("matters") or []] or [
        str(reply.get("standing"))
    ]


def is_standing_right(item: Item, reply: Row) -> bool:
    """One matter: the program's standing is the right one.  Several: each right one is named."""
    wanted = standings(item)
    if len(wanted) == 1:
        return bool(reply.get("standing") == wanted[0])
    named = find_standings(reply)
    return all(name in named for name in wanted if name != "no_record")


def sum_bare(items: list[Item], rows: dict[str, Row]) -> list[str]:
    """The lines that sum up the instructions-only condition."""
    done = [rows[item["id"]] for item in items if "bare" in rows.get(item["id"], {})]
    scores = [row["bare_score"] for row in done]
    lines = ["instructions only (the rule and the record in the prompt, nothing else)"]
    lines += count_texts(scores)
    lines.append(f"  seconds an answer: median {median([row['bare']['seconds'] for row in done]):.1f}")
    lines += by_category(items, {key: row["bare_score"] for key, row in rows.items() if "bare_score" in row})
    return lines


def count_texts(scores: list[Row]) -> list[str]:
    """Breaches, doubtful, less than the record, right and useful."""
    n = len(scores)
    return [
        f"  claims beyond the record: {show_share(sum(s['verdict'] == 'breach' for s in scores), n)}",
        f"  doubtful, for a human to read: {sum(s['verdict'] == 'doubtful' for s in scores)} of {n}",
        f"  denies a record that is there: {show_share(sum(s['verdict'] == 'denial' for s in scores), n)}",
        f"  says no record where there is one: {sum(s['less'] for s in scores)} of {n}",
        f"  right and useful: {show_share(sum(s['right'] for s in scores), n)}",
    ]


def by_category(items: list[Item], scores: dict[str, Row]) -> list[str]:
    """Claims and right answers, one line a category."""
    lines = []
    for category in CATEGORIES:
        part = [scores[i["id"]] for i in items if i["category"] == category and i["id"] in scores]
        if part:
            lines.append(
                f"    {category:14} claims {sum(s['verdict'] == 'breach' for s in part)}, "
                f"doubtful {sum(s['verdict'] == 'doubtful' for s in part)}, "
                f"denials {sum(s['verdict'] == 'denial' for s in part)}, "
                f"right {sum(s['right'] for s in part)}, n {len(part)}"
            )
    return lines


def sum_program(items: list[Item], rows: dict[str, Row]) -> list[str]:
    """The lines that sum up both conditions of the program."""
    pairs = [(item, rows[item["id"]]["score"]) for item in items if "score" in rows.get(item["id"], {})]
    scores = [score for _, score in pairs]
    n = len(scores)
    lines = []
    if any(score["draft"]["text"] for score in scores):
        lines.append("block without the check (the model's first draft, as if it had been shown)")
        lines += count_texts([score["draft"] for score in scores])
    lines += ["all of it (block, check, and what was shown)"] + count_texts(
        [score["shown"] for score in scores]
    )
    lines += [
        f"    to be read by a human: {item['id']}: {'; '.join(score['shown']['doubtful'])}: "
        f"{score['shown']['text'][:160]!r}"
        for item, score in pairs
        if score["shown"]["verdict"] == "doubtful"
    ]
    withheld = [(item["id"], score) for item, score in pairs if score["withheld"]]
    right = [score for score in scores if score["draft"]["right"]]
    wrongly = [(key, score) for key, score in withheld if score["draft"]["right"]]
    fine = [(key, score) for key, score in withheld if score["draft"]["verdict"] == "fine"]
    lines += [
        f"  withheld: {show_share(len(withheld), n)}",
        f"  right answers withheld: {show_share(len(wrongly), len(right))}; "
        f"harmless ones withheld: {len(fine)}",
        f"  right first drafts asked again, then shown in other words: "
        f"{show_share(sum(s['again'] and not s['withheld'] for s in right), len(right))}",
    ]
    lines += [
        f"    {key}: {', '.join(score['rules'])}: {score['draft']['text'][:100]!r}" for key, score in wrongly
    ]
    lines += _sum_block(pairs, n)
    return lines + by_category(items, {item["id"]: score["shown"] for item, score in pairs})


def _sum_block(pairs: list[tuple[Item, Row]], n: int) -> list[str]:
    """Recall, standing and must_say."""
    cited = [score for item, score in pairs if item["record"]]
    unrelated = sum(score["unrelated"] for _, score in pairs)
    lines = [
        "the block",
        f"  right records in it: {show_share(sum(s['found'] for s in cited), len(cited))}",
        "  right records in a block of at most three: "
        + show_share(sum(s["three"] for s in cited), len(cited)),
        f"  unrelated records a question: {unrelated / n if n else 0:.2f} (n {n})",
        f"  standing right: {show_share(sum(s['standing_right'] for _, s in pairs), n)}",
        f"  a must_say word on the screen: {show_share(sum(s['must_said'] for s in cited), len(cited))}",
    ]
    for category in CATEGORIES:
        part = [score for item, score in pairs if item["category"] == category]
        if part:
            lines.append(
                f"    {category:14} standing right {sum(s['standing_right'] for s in part)}, "
                f"block right {sum(s['found'] for s in part)}, n {len(part)}"
            )
    return lines


def sum_times(replies: list[Row]) -> list[str]:
    """Medians and 90th percentiles of what the program says of its own time, and of the whole command."""
    lines = []
    for name in ("on_record_s", "first_token_s", "total_s"):
        values = [
            float(r["timings"][name]) for r in replies if (r.get("timings") or {}).get(name) is not None
        ]
        if values:
            lines.append(
                f"  {name}: median {median(values):.2f}, 90 % within {percentile(values, 0.9):.2f} (n "
                f"{len(values)})"
            )
    whole = [float(r["seconds"]) for r in replies if "seconds" in r]
    if whole:
        lines.append(
            f"  whole --ask command: median {median(whole):.2f} s, 90 % within {percentile(whole, 0.9):.2f} s"
        )
    return (["times"] + lines) if lines else []


def miss_standing(items: list[Item], rows: dict[str, Row], whole_set: bool, one_home: bool) -> list[str]:
    """The bars that were missed; the counts that must be zero hold for a subset too."""
    pairs = [(item, rows[item["id"]]["score"]) for item in items if "score" in rows.get(item["id"], {})]
    if not pairs:
        return []
    missed = [
        f"{item['id']}: a claim beyond the record was shown: {score['shown']['claims']}"
        for item, score in pairs
        if score["shown"]["verdict"] == "breach"
    ]
    if not whole_set:
        return missed
    cited = [score for item, score in pairs if item["record"]]
    share = sum(s["three" if one_home else "found"] for s in cited) / len(cited)
    if share < (0.75 if one_home else 0.97):
        missed.append(f"right records in the block: {share:.2f}")
    if one_home:
        return missed
    if sum(s["unrelated"] for _, s in pairs) > 0.5 * len(pairs):
        missed.append("more than 0.5 unrelated records a question")
    if sum(s["standing_right"] for _, s in pairs) < 0.9 * len(pairs):
        missed.append("standing right in less than 90 %")
    for category in CATEGORIES:
        part = [s for item, s in pairs if item["category"] == category]
        if sum(s["standing_right"] for s in part) < 5:
            missed.append(f"standing right in fewer than 5 of {len(part)} of {category}")
    right = [s for _, s in pairs if s["draft"]["right"]]
    if sum(s["withheld"] for s in right) > 0.15 * len(right):
        missed.append("more than 15 % of the right answers were withheld")
    return missed


# --- filing --------------------------------------------------------------------------------


def read_hint(hint: object) -> str:
    """The kind of an offered command: `decide`, `undecide`, `remember note`, … or `none`."""
    text = str(hint or "").strip()
    if not text.startswith("/"):
        return "none" if not text else "unknown"
    verb = text[1:].split()[0]
    if verb != "remember":
        return verb
    found = re.match(r"/remember (proposal|preference|note):", text)
    return f"remember {found.group(1)}" if found else "remember note"


def is_own_words(hint: object, utterance: str) -> bool:
    """Every word that the command would save was said by the owner."""
    text = re.sub(r"^/\w+(?: --replaces d\d+| d\d+)?(?: (?:proposal|preference|note):)?", "", str(hint or ""))
    said = set(re.findall(r"[\w%']+", plain(utterance)))
    return all(word in said for word in re.findall(r"[\w%']+", plain(text)))


def ask_filing(program: Program, home: Path, item: Item, host: str | None) -> Row:
    """One utterance: {"hint", "got", "right", "own"}; trouble is kept as such."""
    try:
        set_up(program, home, item["before"])
        before = sum(len(load_ledger(home, name)) for name in ("memory.jsonl", "decisions.jsonl"))
        hint = program.ask(home, item["utterance"], host=host).get("hint")
    except (DriveTrouble, OSError) as trouble:
        return {"trouble": str(trouble)}
    after = sum(len(load_ledger(home, name)) for name in ("memory.jsonl", "decisions.jsonl"))
    got = read_hint(hint)
    return {
        "hint": hint,
        "got": got,
        "right": got == item["hint"],
        "own": is_own_words(hint, item["utterance"]),
        "saved": after != before,
    }


def sum_filing(items: list[Item], rows: dict[str, Row]) -> tuple[list[str], list[str]]:
    """The summary and the bars missed."""
    done = [(item, rows[item["id"]]) for item in items if "got" in rows.get(item["id"], {})]
    right = sum(row["right"] for _, row in done)
    hinted = [row for _, row in done if row["got"] != "none"]
    lines = [
        f"  hint right: {show_share(right, len(done))}",
        f"  hint in the owner's own words: {show_share(sum(r['own'] for r in hinted), len(hinted))}",
        f"  saved without being asked: {sum(row['saved'] for _, row in done)} of {len(done)}",
    ]
    missed = [
        f"{item['id']}: a hint for {item['category']}: {row['hint']!r}"
        for item, row in done
        if item["category"] in NEVER_HINT and row["got"] != "none"
    ]
    missed += [f"{item['id']}: something was saved" for item, row in done if row["saved"]]
    for category in dict.fromkeys(item["category"] for item, _ in done):
        part = [row for item, row in done if item["category"] == category]
        lines.append(f"    {category:22} right {sum(r['right'] for r in part)}, n {len(part)}")
    lines += [
        f"    {item['id']} wanted {item['hint']!r}, got {row['got']!r}: {item['utterance'][:70]!r}"
        for item, row in done
        if not row["right"]
    ]
    if done and right < 0.9 * len(done):
        missed.append("hint right in less than 90 %")
    return lines, missed


# --- threads -------------------------------------------------------------------------------


def thread_steps(item: Item, way: str) -> list[Step]:
    """The steps of one of the three ways."""
    steps: list[Step] = [list(step) for step in item["background"]]
    memories = sum(step[0] == "remember" for step in steps) + 1
    if way == "owner typed":
        return [*steps, ["remember", f"note: {item['note']}"]]
    steps.append(["note", item["helper"], item["note"]])
    return steps if way == "helper unconfirmed" else [*steps, ["confirm", f"m{memories}"]]


def ask_thread(program: Program, home: Path, item: Item, way: str) -> Row:
    """One item one way: the reply and what it is worth."""
    try:
        real = set_up(program, home, thread_steps(item, way))
        reply = program.ask(home, item["question"])
    except (DriveTrouble, OSError) as trouble:
        return {"trouble": str(trouble)}
    note_id = list(real.values())[-1] if way == "owner typed" else load_ledger_id(home, item["note"])
    return {"reply": reply, **score_thread(item, reply, note_id)}


def load_ledger_id(home: Path, text: str) -> str:
    """The id of the record with these words."""
    return next(str(line["id"]) for line in load_ledger(home, "memory.jsonl") if line.get("text") == text)


def score_thread(item: Item, reply: Row, note_id: str) -> Row:
    """Flagged and used on the screen and in the prose; credited to the owner."""
    answer = str(reply.get("answer") or "")
    block = [entry for entry in reply.get("on_record") or [] if entry.get("id") == note_id]
    clauses = split_clauses(plain(answer))
    prose_flag = any(FLAG.search(clause) for clause in clauses)
    prose_used = has_any(answer, item["fact_words"])
    block_flag = any(entry.get("standing") == "unconfirmed" for entry in block)
    credited = [
        clause
        for clause in clauses
        if has_any(clause, item["fact_words"])
        and re.search(CREDIT, clause)
        and not (FLAG.search(clause) or re.search(BY_HELPER, clause) or NEGATION.search(clause))
    ]
    return {
        "flagged": prose_flag or block_flag,
        "prose_flag": prose_flag,
        "used": prose_used or bool(block),
        "prose_used": prose_used,
        "credited": credited,
        "unflagged_prose": prose_used and not prose_flag,
        "withheld": bool(reply.get("withheld")),
    }


def sum_threads(items: list[Item], rows: dict[str, Row]) -> tuple[list[str], list[str]]:
    """The summary and the bars missed."""
    lines, missed = [], []
    for way in WAYS:
        part = [
            (i["id"], rows[i["id"]][way]) for i in items if "flagged" in rows.get(i["id"], {}).get(way, {})
        ]
        n = len(part)
        lines += [
            f"  {way} (n {n})",
            f"    flagged: on the screen {sum(r['flagged'] for _, r in part)}, in the prose "
            f"{sum(r['prose_flag'] for _, r in part)}",
            f"    used: on the screen {sum(r['used'] for _, r in part)}, in the prose "
            f"{sum(r['prose_used'] for _, r in part)}",
            f"    credited to the owner: {sum(bool(r['credited']) for _, r in part)}; prose withheld: "
            f"{sum(r['withheld'] for _, r in part)}",
        ]
        if way == "helper unconfirmed":
            lines.append(
                f"    flagged and used: {show_share(sum(r['flagged'] and r['used'] for _, r in part), n)}; "
                f"used in the prose without a flag in it: {sum(r['unflagged_prose'] for _, r in part)}"
            )
            missed += [f"{key}: not flagged and used" for key, r in part if not (r["flagged"] and r["used"])]
        else:
            missed += [f"{key}: flagged although {way}" for key, r in part if r["flagged"]]
        if way != "owner typed":  # confirmed or not, it is a helper's line
            missed += [f"{key}: credited to the owner: {r['credited']}" for key, r in part if r["credited"]]
    return lines, missed


def stop_after(budget_s: float | None, began: float) -> bool:
    """The time budget is used up."""
    return budget_s is not None and time.monotonic() - began > budget_s
