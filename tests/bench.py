#!/usr/bin/env python3
"""The benchmark: what the program costs, as multiples of a baseline measured in the same run.

    python tests/bench.py            start-up, ledgers, recall, memory: needs no model
    python tests/bench.py --real     the same, then the model: a running Ollama with --model

Prints a table and writes it, with all figures as JSON, to tests/evals/results/. The two sides of a
ratio are measured in turn and the least of many repeats counts (of a model's answers the median), so
that a busy machine disturbs both alike. Start-up is counted in processor time of the process; everything
else in seconds on the clock.
`--only d,e` takes some of the parts; `--sizes 1000,10000` takes other ledgers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import companion  # noqa: E402
from companion import Asked, Draft, Home, Origin, Records, Settings, Talk, Toolbox, View  # noqa: E402

RESULTS = ROOT / "tests" / "evals" / "results"
BARE = "import json, argparse, sqlite3"
TYPED = Origin("typed", "s20261129-090000-0000", 1)
PLAIN = 12  # tokens of a plain answer
WORDS = [line.split()[0] for line in companion.FAMILIES]
TALKED = ("Which breakfast did I settle on for the meeting?", "And what about the garden tools?",
          "Do I like short replies or long ones?", "What did I note about the kitchen window?",
          "Is the holiday by train decided?")


class Row(NamedTuple):
    """One line of the table. `ratio` is `value` over `base`; `bar` what it may be at most."""

    part: str
    what: str
    value: float
    unit: str
    base: float | None = None
    baseline: str = ""
    bar: float | None = None
    of_ratio: bool = True

    @property
    def ratio(self) -> float | None:
        return self.value / self.base if self.base else None

    @property
    def is_met(self) -> bool | None:
        judged = self.ratio if self.of_ratio else self.value
        return None if self.bar is None or judged is None else judged <= self.bar


# Homes.

def build_home(path: Path, size: int, decisions: int = 10, **settings: Any) -> Home:
    """A home with `size` memory records of ten everyday words each, the same in every run."""
    home, dice = Home(path, Settings(**settings)), random.Random(size)
    home.make()
    records = Records(home)

    def draft(number: int, kind: str, is_decision: bool = False) -> Draft:
        path = "repl:/decide" if is_decision else "repl:/remember"
        text = " ".join(dice.choice(WORDS) for _ in range(10))
        return Draft("decide" if is_decision else "add", "owner", path, True, kind=kind, text=f"{number} {text}",
                     expires=None if is_decision else "2099-01-01", **TYPED._asdict())

    records.memory.append_all([draft(n, dice.choice(companion.OWNER_KINDS)) for n in range(size)])
    records.decisions.append_all([draft(n, "decision", True) for n in range(decisions)])
    return home


def load_set(name: str) -> list[dict[str, Any]]:
    """The items of an evaluation set."""
    return [json.loads(line) for line in (ROOT / "tests" / "evals" / "sets" / name).read_text("utf-8").splitlines()]


def build_told_home(path: Path, size: int, **settings: Any) -> Home:
    """A home with what the owners of the evaluation sets said, in plain English."""
    home = Home(path, Settings(**settings))
    home.make()
    records, told = Records(home), dict[tuple[str, str], None]()
    for item in load_set("standing.jsonl"):
        told |= {(step[0], step[-1]): None for step in item["setup"]}
    for item in load_set("sentences.jsonl"):
        told |= {(step[0], step[-1]): None for step in item["before"]}
    for command, words in [step for step in told if step[0] in ("remember", "decide")][:size]:
        if command == "decide":
            companion.decide(records, words, TYPED)
        else:
            kind, _, text = words.partition(":")
            companion.remember(records, kind, text.strip(), TYPED)
    return home


def build_checked_home(path: Path) -> Home:
    """A small home whose daily check is done for today."""
    import daily_help
    home = build_home(path, 20, dev_username="samplewriter")
    (path / "companion.toml").write_text('dev_username = "samplewriter"\n')
    companion.run_daily(home, load=daily_help.reading(home, daily_help.ten()))
    return home


def open_talk(home: Home, model: companion.Model | None) -> Talk:
    records = companion.open_records(home)
    return Talk(home, records, model, Toolbox(home, companion.build_runners(home, records)),
                session="s20261129-090000-0001")


# Measuring.

def run_alone(command: Sequence[str], home: Path) -> float:
    """Processor seconds of a process of its own."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), "OLLAMA_HOST": "127.0.0.1:9", "HOME": str(home)}
    quiet = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in (0, 1, 2)]
    _, _, used = os.wait4(os.posix_spawn(sys.executable, [sys.executable, *command], env, file_actions=quiet), 0)
    return used.ru_utime + used.ru_stime


def find_least(cases: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The least figure of each case; the cases take turns."""
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(repeats):
        for name, case in cases.items():
            least[name] = min(least[name], case())
    return least


def timed(work: Callable[[], Any]) -> Callable[[], float]:
    """The seconds that `work` takes on the clock."""
    def case() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun
    return case


@contextlib.contextmanager
def open_chat(home: Path, host: str = "127.0.0.1:9") -> Iterator[Any]:
    """The real chat on a pseudo-terminal, its prompt shown."""
    from typist import Owner
    owner = Owner(home, host, environ={"PYTHONDONTWRITEBYTECODE": ""})
    try:
        owner.prompt()
        yield owner
    finally:
        owner.close()


def read_proc(pid: int, name: str) -> str:
    """A file of /proc; "" where there is none."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


# The parts.

def measure_start(work: Path) -> list[Row]:
    """(d) Start-up."""
    home, big = build_checked_home(work / "small").root, build_home(work / "thousand", 1000).root

    def prompt() -> float:
        with open_chat(big) as owner:
            return int((read_proc(owner.child.pid, "schedstat") or "0").split()[0]) / 1e9

    flags = {"--version": [], "--memory": [], "--decisions": [], "--daily": ["--if-due"],
             "--note": ["the client agreed to May", "--as", "mail"]}
    cases = {flag: (lambda flag=flag, more=more: run_alone(["-m", "companion", "--home", str(home), flag, *more], work))
             for flag, more in flags.items()}
    least = find_least({"bare": lambda: run_alone(["-c", BARE], work), "nothing": lambda: run_alone(["-c", ""], work),
                        "prompt_toolkit": lambda: run_alone(["-c", "import prompt_toolkit"], work), "prompt": prompt,
                        **cases}, 25)
    bare = least["bare"]
    rows = [Row("d", " ".join([flag, *more[:1]]) if flag == "--daily" else flag, least[flag] * 1e3, "ms", bare * 1e3,
                f"python -c '{BARE}'", 1.5) for flag, more in flags.items()]
    if least["prompt"]:
        allowed = bare + (least["prompt_toolkit"] - least["nothing"]) / 2.5
        rows.append(Row("d", "prompt ready, 1,000 records", least["prompt"] * 1e3, "ms", allowed * 1e3,
                        "bare, and what importing prompt_toolkit adds / 2.5", 2.5))
    return rows


class Stopped(View):
    """A view that notes when the block came."""

    at = 0.0

    def block(self, *args: Any, **more: Any) -> None:
        self.at = self.at or time.perf_counter()


def measure_block(work: Path) -> list[Row]:
    """(a) From Enter to the on record block, 10,000 records, what code alone finds."""
    home = build_home(work / "block", 10_000)
    talk = open_talk(home, None)
    companion.remember(talk.records, "proposal", "maybe give the companion its own DEV page", TYPED)
    talk.finder.begin(talk.records.version, talk.records.recallable())

    def ask(news: bool) -> float:
        if news:
            companion.remember(talk.records, "note", "the plumber comes on Friday", TYPED)
        view, begun = Stopped(), time.perf_counter()
        companion.take_turn(talk, Asked("Did I decide to give the companion a DEV page?"), view)
        assert view.at, "no block"
        return view.at - begun

    least = find_least({"again": lambda: ask(False), "after news": lambda: ask(True)}, 8)
    return [Row("a", "on record block after Enter, 10,000 records", least["again"] * 1e3, "ms", bar=50, of_ratio=False),
            Row("a", "the same, a record was just saved", least["after news"] * 1e3, "ms", bar=50, of_ratio=False)]


def measure_ledger(work: Path, size: int) -> list[Row]:
    """(e) One ledger: reading it, finding in it, adding to it."""
    home = build_home(work / f"ledger{size}", size, decisions=max(10, size // 100))
    raws = companion.load_bytes(home.memory / "memory.jsonl").split(b"\n")[:-1]
    repeats = 3 if size > 20_000 else 8
    held: list[Records] = []

    def load() -> None:
        held[:] = [companion.open_records(home)]

    least = find_least({"json": timed(lambda: [json.loads(raw) for raw in raws]), "open": timed(load)}, repeats)
    records = held[0]
    finder = companion.Finder(records, None)
    index = timed(lambda: finder.find("where is the tent", ()))()
    question = "Did I decide which breakfast the kitchen washer gets?"
    bare_file = os.open(work / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def bare_append() -> None:
        os.write(bare_file, b"x" * 700 + b"\n")
        os.fsync(bare_file)

    found = find_least({"find": timed(lambda: finder.find(question, ()))}, 10)["find"]
    line = Draft("add", "owner", "repl:/remember", True, kind="note", text="something new",
                 expires="2099-01-01", **TYPED._asdict())
    quick = find_least({
        "bare": timed(bare_append), "append": timed(lambda: records.memory.append_all([line])),
        "remember": timed(lambda: companion.remember(records, "note", "something new", TYPED)),
        "decide": timed(lambda: companion.decide(records, "use the blue one", TYPED))}, 60)
    os.close(bare_file)
    listing = min(run_alone(["-m", "companion", "--home", str(home.root), "--memory"], work) for _ in range(2))
    lines, parsed = f"{size:,} lines", "json.loads of the same lines"
    return [
        Row("e", f"open and verify, {lines}", least["open"] * 1e3, "ms", least["json"] * 1e3, parsed),
        Row("e", f"--memory, {lines}", listing * 1e3, "ms", least["json"] * 1e3, parsed),
        Row("e", f"first index, {lines}", index * 1e3, "ms", least["json"] * 1e3, parsed),
        Row("e", f"recall, {lines}", found * 1e3, "ms", bar=10 if size <= 10_000 else None, of_ratio=False),
        Row("e", f"append (lock, line, heads, event), {lines}", quick["append"] * 1e3, "ms", quick["bare"] * 1e3,
            "one write and fsync", 6),
        Row("e", f"/remember, {lines}", quick["remember"] * 1e3, "ms", quick["bare"] * 1e3, "one write and fsync"),
        Row("e", f"/decide, {lines}", quick["decide"] * 1e3, "ms", quick["bare"] * 1e3, "one write and fsync"),
    ]


def measure_memory(work: Path) -> list[Row]:
    """(f) The most memory of a chat with 10,000 records and an answer from a scripted server."""
    from stub_ollama import StubOllama
    home = build_home(work / "peak", 10_000).root
    with StubOllama() as server, open_chat(home, server.host) as owner:
        for question in TALKED[:3]:
            owner.say(question)
        found = [line.split()[1] for line in read_proc(owner.child.pid, "status").splitlines()
                 if line.startswith("VmHWM")]
    return [Row("f", "peak memory of a chat, 10,000 records", int(found[0]) / 1024, "MB", bar=150, of_ratio=False)] \
        if found else []


# The model.

class Posted(NamedTuple):
    """What a bare /api/chat came to: seconds to the first piece and in all, the whole message, its tokens."""

    first: float
    total: float
    message: dict[str, Any]
    tokens: int


def post_chat(host: str, body: dict[str, Any]) -> Posted:
    """A bare /api/chat, streamed."""
    request = urllib.request.Request(f"http://{host}/api/chat", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    begun, first, text, calls, tokens = time.perf_counter(), 0.0, "", [], 0
    with urllib.request.urlopen(request, timeout=600) as answer:
        for raw in answer:
            piece = json.loads(raw)
            message, tokens = piece.get("message", {}), piece.get("eval_count", 0)
            text += message.get("content", "")
            calls += message.get("tool_calls", [])
            first = first or time.perf_counter() - begun
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return Posted(first, time.perf_counter() - begun, message, tokens)


def measure_plain(work: Path, host: str, model: str) -> list[Row]:
    """(b) A plain question against a bare /api/chat with the same messages, tools and options.

    Medians of 45: a server's times vary by a quarter, and the least is luck.
    """
    home = build_home(work / "plain", 40, model=model, host=f"http://{host}", num_predict=PLAIN, embed_model="none")
    talk = open_talk(home, companion.Model(home.settings))
    assert talk.model is not None
    tools = talk.toolbox.offered()
    talk.model.warm(talk.messages(), tools)
    seconds: dict[str, list[tuple[float, float]]] = {"ours": [], "bare": []}

    def ask(way: str, number: int) -> None:
        talk.turns.clear()
        asked = Asked(f"Explain in many words how rivers form, part {number}.")  # all of them equally long
        if way == "ours":
            outcome = companion.take_turn(talk, asked, View())
            first, total, tokens = outcome.first_token_s, outcome.total_s, outcome.answer_tokens
        else:
            sent = {"role": "user", "content": companion.build_question(talk, asked, ())[0]}
            first, total, _, tokens = post_chat(host, {
                "model": model, "messages": [*talk.messages(), sent], "tools": tools, "stream": True, "keep_alive": "30m",
                "options": {"num_ctx": talk.model.num_ctx, "num_predict": PLAIN, "temperature": home.settings.temperature}})
        if tokens == PLAIN:  # a shorter one says nothing of either way
            seconds[way].append((first, total))

    for number in range(10, 100):  # ours, bare, bare, ours, ...
        ask("ours" if number % 4 in (0, 3) else "bare", number)
    middle = {way: [median(one[n] for one in seconds[way]) for n in (0, 1)] for way in seconds}
    return [Row("b", what, middle["ours"][n], "s", middle["bare"][n], "a bare /api/chat, same messages", 1.05)
            for n, what in enumerate(("first token of a plain answer", f"a plain answer of {PLAIN} tokens"))]


def run_plain_agent(home: Home, host: str, model: str, questions: Sequence[str]) -> tuple[list[float], list[float]]:
    """The usual way: memory and the clock at the top of each prompt, a look-up round for each question, no
    word about keep-alive. Seconds to the first tokens, and in all, of each turn."""
    records = companion.open_records(home)
    memory = "\n".join(f"- {record.text}" for record in records.live())
    tools = [{"type": "function", "function": {
        "name": "recall", "description": "Search the owner's records.", "parameters": {
            "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}}]
    finder, history = companion.Finder(records, None), list[dict[str, Any]]()
    waits, totals = [], []
    for question in questions:
        top = (f"You are a terminal companion. It is {datetime.now(UTC):%A %Y-%m-%d %H:%M:%S} UTC.\n"
               f"What you remember:\n{memory}")
        history.append({"role": "user", "content": question})
        wait = total = 0.0
        for number in range(2):
            first, whole, message, _ = post_chat(host, {
                "model": model, "messages": [{"role": "system", "content": top}, *history], "tools": tools,
                "stream": True, "options": {"num_ctx": home.settings.num_ctx, "num_predict": 48}})
            wait, total = wait + first, total + whole
            if number == 0:
                found = [match.record.text for match in finder.find(question, ()).on_record]
                call = {"function": {"name": "recall", "arguments": {"query": question}}}
                history += [message if "tool_calls" in message else {**message, "tool_calls": [call]},
                    {"role": "tool", "content": "\n".join(filter(None, found)) or "nothing", "tool_name": "recall"}]
            else:
                history.append({"role": "assistant", "content": message["content"]})
        waits.append(wait)
        totals.append(total)
    return waits, totals


def measure_talk(work: Path, host: str, model: str) -> list[Row]:
    """(c) Five turns with 120 records, every fifteenth question of the set, against the plain agent.

    What is waited for until the first token of each request stands for the prompt: the server does not say
    what it read and what it still had.
    """
    home = build_told_home(work / "talk", 120, model=model, host=f"http://{host}", num_predict=48, embed_model="none")
    talk = open_talk(home, companion.Model(home.settings))
    assert talk.model is not None
    begun, ask, later, spent = time.perf_counter(), talk.model.chat, list[float](), 0.0
    talk.model.warm(talk.messages(), talk.toolbox.offered())
    warming = time.perf_counter() - begun

    def ask_and_note(*args: Any, **more: Any) -> companion.Reply:
        reply = ask(*args, **more)
        later.append(reply.first_token_s if talk.turn > 1 else 0.0)
        return reply

    talk.model.chat = ask_and_note  # type: ignore[method-assign]
    questions = [item["question"] for item in load_set("standing.jsonl")[::15]]
    for question in questions:
        spent += companion.take_turn(talk, Asked(question), View()).total_s
    waits, totals = run_plain_agent(home, host, model, questions)
    return [
        Row("c", "waiting for first tokens, turns 2 to 5", sum(later), "s", sum(waits[1:]), "a plain agent", 0.1),
        Row("c", "five turns", spent, "s", sum(totals), "a plain agent", 0.35),
        Row("c", "warming while the first screen is read", warming, "s"),
    ]


# The table.

def render_table(rows: Sequence[Row]) -> str:
    """Markdown, one line a row."""
    lines = ["| | what | measured | ratio | against | at most | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        against = f"{row.baseline} ({row.base:.3g} {row.unit})" if row.base else ""
        bar = "" if row.bar is None else f"{row.bar:g}" if row.of_ratio else f"{row.bar:g} {row.unit}"
        verdict = {None: "", True: "met", False: "NOT MET"}[row.is_met]
        lines.append(f"| {row.part} | {row.what} | {row.value:.3g} {row.unit} | {ratio} | {against} | {bar} | {verdict} |")
    return "\n".join(lines)


def save(rows: Sequence[Row], model: str | None) -> Path:
    """The table and the figures in the results folder; the path of the table."""
    now = datetime.now(UTC)
    machine = {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count(),
               "load": round(os.getloadavg()[0], 1), "model": model, "at": f"{now:%Y-%m-%d %H:%M} UTC"}
    path = RESULTS / f"{now:%Y-%m-%d}_bench{'_real' if model else ''}.md"
    facts = ", ".join(f"{name} {value}" for name, value in machine.items() if value is not None)
    path.write_text(f"# Benchmark\n\n{facts}. Made by `python tests/bench.py{' --real' if model else ''}`; the least of "
                    f"many repeats ((b): medians), both sides of a ratio measured in turn.\n\n{render_table(rows)}\n", "utf-8")
    figures = [{**row._asdict(), "ratio": row.ratio, "met": row.is_met} for row in rows]
    path.with_suffix(".json").write_text(json.dumps({**machine, "rows": figures}, indent=1) + "\n", "utf-8")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--real", action="store_true", help="also with the model")
    parser.add_argument("--model", default="qwen2.5-coder:1.5b")
    parser.add_argument("--host", default=os.environ.get("OLLAMA_HOST", "127.0.0.1:11434"))
    parser.add_argument("--only", default="adefbc", help="parts, such as d,e")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    host = args.host.removeprefix("http://")
    sizes = [int(size) for size in args.sizes.split(",")]
    parts: list[tuple[str, Callable[[Path], list[Row]]]] = [
        ("d", measure_start), ("a", measure_block),
        *(("e", lambda work, size=size: measure_ledger(work, size)) for size in sizes), ("f", measure_memory)]
    if args.real:
        parts += [("b", lambda work: measure_plain(work, host, args.model)),
                  ("c", lambda work: measure_talk(work, host, args.model))]
    rows = list[Row]()
    work = Path(tempfile.mkdtemp(prefix="companion-bench-"))
    try:
        for part, measure in parts:
            if part in args.only:
                found = measure(work)
                rows += found
                for row in found:
                    print(f"({part}) {row.what}: {row.value:.3g} {row.unit}"
                          f"{f', {row.ratio:.2f} times {row.baseline}' if row.base else ''}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(render_table(rows))
    if not args.no_save:
        print(f"\nWritten: {save(rows, args.model if args.real else None)}")
    return 1 if any(row.is_met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
