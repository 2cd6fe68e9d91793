"""The command line and its JSON forms, as DESIGN section 9 writes them (P2, P3, P4, P6, P9, P13)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import stub_ollama as stub
from helpers import ROOT, TYPED, all_bytes, make_records, run_cli, run_json
from stub_ollama import StubOllama

import companion


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a little on record."""
    records = make_records(tmp_path / "home")
    companion.remember(records, "preference", "short, plain answers", TYPED)
    companion.remember(records, "proposal", "maybe give the agent its own DEV page, undecided", TYPED)
    companion.decide(records, "use PostgreSQL for the archive", TYPED)
    companion.add_note(records, "mail", "the client agreed to May")
    return tmp_path / "home"


def test_selftest_passes_offline_in_a_folder_of_its_own(home: Path) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    done = run_cli(home, "--selftest")
    lines = done.stdout.split("\n")
    assert done.returncode == 0, done.stdout
    assert [line.split()[:2] for line in lines[:13]] == [["PASS", f"P{n}"] for n in range(1, 14)]
    assert "Surroundings (no effect on the exit code)" in lines
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("number", [f"P{n}" for n in range(1, 14)])
def test_a_broken_promise_fails_the_selftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    """A line that says FAIL gives exit code 1; each promise has one."""
    def broken(home: companion.Home, records: companion.Records) -> str:
        raise companion.Broken("it did not hold")

    promises = {number: (companion.PROMISES[number][0], broken)}
    monkeypatch.setattr(companion, "PROMISES", promises)
    monkeypatch.setattr(companion, "describe_surroundings", lambda home: [])
    said: list[str] = []
    assert companion.run_selftest(said.append, companion.Home(tmp_path)) == 1
    assert said[0].startswith(f"FAIL  {number}")


SABOTAGE = {  # promise -> what is put out of order, so that its line must notice
    "P1": ("Toolbox._check_name", lambda self, name: None),
    "P2": ("check_input find_contradiction", lambda *given: None),  # two stand in the way of untyped words
    "P4": ("check_helper_name", lambda name: f"helper:{name}"),
    "P5": ("build_standing", lambda kind, text, confirmed: "decided"),
    "P6": ("Records.windowed", lambda self: self.live()[-30:]),
    "P9": ("find_own_fault", lambda line, raw: None),
    "P10": ("sweep_home", lambda home, record_id, words, scope="words": []),
    "P11": ("is_due", lambda record, today: False),
    "P12": ("clean_text", lambda text: text),
    "P13": ("check_local", lambda host, model, allow: None),
}


@pytest.mark.parametrize("number", SABOTAGE)
def test_the_selftest_notices_sabotage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    """Each line can fail: the code that keeps the promise is taken out and the line must say so."""
    names, instead = SABOTAGE[number]
    for name in names.split():
        holder, _, leaf = name.rpartition(".")
        monkeypatch.setattr(getattr(companion, holder) if holder else companion, leaf, instead)
    verdict, told = companion.run_promise(number, tmp_path)
    assert verdict == "FAIL", told


def test_memory_and_decisions_json_are_ledger_lines_with_standing(home: Path) -> None:
    lines = run_json(home, "--memory")
    assert [line["id"] for line in lines] == ["m1", "m2", "m3"]
    assert [line["standing"] for line in lines] == ["preference", "undecided", "unconfirmed"]
    assert tuple(lines[0])[:21] == companion.LINE_FIELDS
    assert [line["standing"] for line in run_json(home, "--decisions")] == ["decided"]
    assert [line["id"] for line in run_json(home, "--memory", "--author", "helper:mail")] == ["m3"]
    assert [line["id"] for line in run_json(home, "--memory", "--path", "repl:/remember")] == ["m1", "m2"]


def test_verify_json_and_exit_codes(home: Path) -> None:
    found = run_json(home, "--verify")
    assert {name: one["verdict"] for name, one in found.items()} == {"memory": "fine", "decisions": "fine"}
    assert {"verdict", "line", "witness", "unknowable"} <= set(found["memory"])
    path = home / "memory" / "decisions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"PostgreSQL", b"MySQL"))
    done = run_cli(home, "--verify", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["decisions"]["verdict"] == "rewritten"
    assert run_cli(home, "--decisions").returncode == 4


def test_verify_writes_nothing(home: Path) -> None:
    before = all_bytes(companion.Home(home))
    run_cli(home, "--verify")
    assert all_bytes(companion.Home(home)) == before


def test_stats_json_has_snake_case_figures(home: Path) -> None:
    stats = run_json(home, "--stats")
    assert stats["attributed_share"] == 1.0 and stats["waiting"] == 1 and stats["decisions_standing"] == 1
    assert all(name == name.lower() and " " not in name for name in stats)


def test_ask_json_without_a_model(home: Path) -> None:
    done = run_cli(home, "--ask", "Which database for the archive?", "--json")
    form = json.loads(done.stdout)
    assert done.returncode == 0 and form["record_only"] and form["standing"] == "decided"
    assert "PostgreSQL" in form["answer"] and form["sources"] == ["d1"]


def test_ask_exits_3_without_a_model_and_with_nothing_on_record(home: Path) -> None:
    done = run_cli(home, "--ask", "what is the tallest mountain in Peru?")
    assert done.returncode == 3 and "ollama serve" in done.stderr and "Traceback" not in done.stderr


def test_ask_json_with_a_model(home: Path) -> None:
    with StubOllama(stub.answer("You decided to use PostgreSQL for the archive.")) as server:
        form = run_json(home, "--ask", "Which database for the archive?", env={
            "OLLAMA_HOST": server.host, "COMPANION_MODEL": "qwen2.5-coder:1.5b"})
    assert form["answer"].startswith("You decided") and form["timings"]["answer_tokens"] > 0
    assert not form["withheld"] and form["model"] == "qwen2.5-coder:1.5b"


def test_ask_is_no_owner_and_its_pipe_is_data(home: Path) -> None:
    """P2, P12: a question from the command line keeps its label; piped text never becomes a record."""
    before = (home / "memory" / "memory.jsonl").read_bytes()
    with StubOllama() as server:
        env = {"OLLAMA_HOST": server.host, "COMPANION_MODEL": "qwen2.5-coder:1.5b"}
        run_cli(home, "--ask", "what changed?", stdin="/decide sell the house\n+ a line", env=env)
        run_cli(home, "--ask", "and now?", "--as", "mail", env=env)
        sent = server.chats[0].body["messages"][-1]["content"]
    assert "from the pipe" in sent and "+ a line" in sent
    chat = companion.load_chat(companion.Home(home))
    asked = [line for line in chat if line["role"] == "user"]
    assert [(line["author"], line["path"], line["input"]) for line in asked] == [
        ("unrecorded", "cli:--ask", "none"), ("helper:mail", "cli:--ask", "none")]
    assert (home / "memory" / "memory.jsonl").read_bytes() == before


@pytest.mark.parametrize("args", [
    ("--note", "x"), ("--note", "x", "--as", "owner"), ("--note", "x", "--as", "оwner"), ("--note", "", "--as", "mail"),
    ("--note", "x", "--as", "ma\u200bil"), ("--note", "x", "--as", ""), ("--json",), ("--as", "mail"),
    ("--daily", "--yes"), ("--forget", "m1"), ("--forget", "m99", "--yes"), ("--ask", "x", "--as", "code"),
    ("--memory", "--decisions"), ("--import", "/nowhere/x.jsonl"), ("--model", "x:cloud", "--ask", "hi"),
    ("--host", "192.168.1.4", "--ask", "hi")])
def test_wrong_use_is_refused_with_exit_code_2_and_writes_nothing(home: Path, args: tuple[str, ...]) -> None:
    ledger = (home / "memory" / "memory.jsonl").read_bytes()
    done = run_cli(home, *args)
    assert done.returncode == 2 and done.stderr.strip() and "Traceback" not in done.stderr
    assert (home / "memory" / "memory.jsonl").read_bytes() == ledger


def test_forget_reaches_every_file_and_the_chain_verifies(home: Path) -> None:
    """P10."""
    done = run_cli(home, "--forget", "m3", "--yes")
    assert done.returncode == 0 and "memory/memory.jsonl" in done.stdout
    assert b"agreed to May" not in all_bytes(companion.Home(home))
    assert run_json(home, "--verify")["memory"]["verdict"] == "fine"
    assert run_json(home, "--memory", "--all")[2]["standing"] == "no_record"


def test_a_note_from_a_terminal_or_a_pipe_is_the_helpers(home: Path) -> None:
    """P4."""
    done = run_cli(home, "--note", "the bill is paid", "--as", "mail")
    assert done.returncode == 0 and "unconfirmed" in done.stdout
    assert run_json(home, "--memory")[-1]["author"] == "helper:mail"


def test_files_are_0600_and_folders_0700_from_the_first_byte(tmp_path: Path) -> None:
    """R-26: an ordinary umask, and an old file that others can read."""
    home = tmp_path / "home"
    (home / "memory").mkdir(parents=True)
    (home / "memory" / "memory.jsonl").touch(0o644)
    old = os.umask(0o022)
    try:
        run_cli(home, "--note", "x", "--as", "mail")
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    wrong = {name: oct(mode) for name, mode in modes.items()
             if mode not in (0o600, 0o700)}
    assert not wrong


def test_a_link_in_place_of_a_ledger_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "memory").mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(b"")
    (home / "memory" / "memory.jsonl").symlink_to(tmp_path / "elsewhere")
    done = run_cli(home, "--note", "x", "--as", "mail")
    assert done.returncode == 1 and "not a regular file" in done.stderr
    assert (tmp_path / "elsewhere").read_bytes() == b""


@pytest.mark.parametrize(("toml", "said"), [
    ("model = 7", "model must be a text"), ("num_ctx = 10", "num_ctx must be from 1024"), ("x = 1", "no setting called"),
    ("not toml", "companion.toml"), ("keep_chat = \"no\"", "true or false"),
    ("[windows]\nowner = 3", "windows may hold"), ("[lifetimes]\nnote = 0", "at least 1"),
    ("[lifetimes]\nnote = 99999999999", "at most 36500")])
def test_a_wrong_setting_is_named(tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "companion.toml").write_text(toml)
    done = run_cli(tmp_path, "--stats")
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_settings_flags_win_over_environment_and_file(tmp_path: Path) -> None:
    (tmp_path / "companion.toml").write_text('model = "a"\ndev_username = "ana"\n')
    settings = companion.load_settings(tmp_path, {"COMPANION_MODEL": "b"}, {"model": None})
    assert (settings.model, settings.dev_username) == ("b", "ana")
    assert companion.load_settings(tmp_path, {"COMPANION_MODEL": "b"}, {"model": "c"}).model == "c"


@pytest.mark.parametrize(("given", "wanted"), [
    ("", "http://127.0.0.1:11434"), ("0.0.0.0", "http://127.0.0.1:11434"), (":11500", "http://127.0.0.1:11500"),
    ("[::]:11434", "http://127.0.0.1:11434"), ("localhost", "http://127.0.0.1:11434"), ("LOCALHOST:1", "http://127.0.0.1:1"),
    ("http://127.0.0.1", "http://127.0.0.1:80"), ("https://h.example/", "https://h.example:443"),
    ("[::1]:5", "http://[::1]:5"), ("127.0.0.2:7", "http://127.0.0.2:7")])
def test_ollama_host_forms(given: str, wanted: str) -> None:
    """P13: a wildcard means loopback."""
    assert companion.normalise_host(given) == wanted


@pytest.mark.parametrize("given", ["127.0.0.1:²", "127.0.0.1:٣", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:0"])
def test_a_port_of_other_digits_is_named(given: str) -> None:
    """P13: a sentence, not `invalid literal`."""
    with pytest.raises(ValueError, match="cannot be read"):
        companion.normalise_host(given)


def test_p4_a_note_is_a_note(home: Path) -> None:
    """P4: a helper's line is at most 4,000 characters; the refusal says so and how many there were."""
    before = (home / "memory" / "memory.jsonl").read_bytes()
    done = run_cli(home, "--note", "x" * 4001, "--as", "mail")
    assert done.returncode == 2 and "4,001" in done.stderr and "4,000" in done.stderr
    assert (home / "memory" / "memory.jsonl").read_bytes() == before
    assert run_cli(home, "--note", "x" * 4000, "--as", "mail").returncode == 0


def test_version_and_the_data_home(tmp_path: Path) -> None:
    assert run_cli(tmp_path, "--version").stdout == f"companion {companion.VERSION}\n"
    program = tmp_path / "site" / "companion.py"
    environ = {"HOME": "/h", "XDG_DATA_HOME": "/data"}
    assert companion.find_root(None, environ, program) == Path("/data/companion")
    assert companion.find_root("/x", environ, program) == Path("/x")
    assert companion.find_root(None, {**environ, "COMPANION_HOME": "/y"}, program) == Path("/y")
    assert companion.find_root(None, environ, Path(companion.__file__)) == Path(companion.__file__).parent


def test_a_folder_that_is_gone_or_unknown_is_named(home: Path, tmp_path: Path) -> None:
    """A home given whole needs no current folder; `~nobody` makes no folder of that name."""
    code = ("import os, sys\nhere = sys.argv[1]\nos.mkdir(here)\nos.chdir(here)\nos.rmdir(here)\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'companion', '--home', *sys.argv[2:]])")

    def run(given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, str(tmp_path / "gone"), given, "--memory"], text=True,
                              capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})

    assert run(str(home)).returncode == 0
    done = run("here")
    assert done.returncode == 2 and "the current folder is gone" in done.stderr and "Traceback" not in done.stderr
    with pytest.raises(companion.Refused, match="~nobody-of-that-name/x"):
        companion.find_root("~nobody-of-that-name/x", {}, tmp_path)


def test_a_locale_without_letters_prints_escapes(home: Path) -> None:
    records = make_records(home)
    companion.remember(records, "note", "größer 😀", TYPED)
    done = run_cli(home, "--memory", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0 and "gr\\xf6\\xdfer" in done.stdout


@pytest.mark.parametrize("text", ["Notes on [/etc/hosts]", "use list[int] and [red]", ":100: and :smile:", "use <name>",
                                  "List<String> 0<a or a>10", "[link=https://x]y[/link]", "a\x1b[2Jb\x9b31mc\rd\u202ee\u200bf"])
def test_text_is_shown_letter_for_letter(home: Path, text: str) -> None:
    """P12, R-18 to R-20: nothing swallowed, nothing rendered, no control character."""
    companion.remember(make_records(home), "note", text, TYPED)
    shown = run_cli(home, "--memory").stdout
    assert companion.clean_text(text) in shown
    assert companion.clean_text(shown) == shown
