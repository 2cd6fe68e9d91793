"""Nothing leaves the machine: every connection of a whole session, recorded in the child itself (P13)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest
import stub_dev
import stub_ollama as stub
from helpers import ROOT, TYPED, make_records
from stub_dev import StubDev, entry
from stub_ollama import StubOllama

import companion

# Python tells its audit hooks of every connection, look-up and child, whichever package makes it.
RECORDER = r'''
import json, os, sys
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
WATCHED = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
           "socket.gethostbyname", "socket.gethostbyaddr", "subprocess.Popen", "os.system", "os.posix_spawn",
           "http.client.connect", "urllib.Request")
def watch(event, args):
    if event in WATCHED:
        shown = [repr(a) for a in args[:1]] if event == "subprocess.Popen" else [
            list(a) if isinstance(a, tuple) else a if isinstance(a, (str, int)) else None for a in args]
        os.write(log, (json.dumps([event, shown], default=repr) + "\n").encode())
sys.addaudithook(watch)
import companion
sys.exit(companion.main())
'''
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
MODEL = "qwen2.5-coder:1.5b"


class Net:
    """The two servers that may be spoken to, and one that never may: every proxy variable names it."""

    def __init__(self, path: Path, ollama: StubOllama, dev: StubDev, proxy: StubOllama) -> None:
        self.path, self.ollama, self.dev, self.proxy = path, ollama, dev, proxy
        self.home, self.log = path / "home", path / "connections"
        self.environ = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(path), "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color", "OLLAMA_HOST": ollama.host, "DEV_URL": dev.url, "DEV_USERNAME": "samplewriter",
            "COMPANION_MODEL": MODEL, "OLLAMA_API_KEY": "sk-very-secret"}

    def use_proxies(self) -> None:
        """Through a proxy goes nothing at all."""
        self.environ |= dict.fromkeys(PROXIES, self.proxy.host)

    def command(self, *args: str) -> list[str]:
        return ["-c", RECORDER, str(self.log), "--home", str(self.home), *args]

    def run(self, *args: str, stdin: str = "") -> Any:
        return subprocess.run([sys.executable, *self.command(*args)], env=self.environ, input=stdin, text=True,
                              capture_output=True, timeout=60, check=False)

    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def spoken_to(self) -> set[tuple[str, int]]:
        """Every address that was connected to; anything but TCP to a number fails here."""
        found = set()
        for event, args in self.events():
            if event == "socket.connect":
                host, port = args[1][:2]
                found.add((host, port))
            elif event == "socket.bind":
                assert args[1] == ["::1", 0], "urllib3 tries whether there is IPv6, on this machine"
            elif event in ("socket.getaddrinfo", "http.client.connect"):
                assert "127.0.0.1" in args[:2], f"a name was looked up: {args}"
            else:
                assert event in ("subprocess.Popen", "urllib.Request"), (event, args)
        assert self.proxy.asked == []
        return found

    @property
    def at_ollama(self) -> tuple[str, int]:
        return "127.0.0.1", self.ollama.port

    @property
    def at_dev(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.dev.url.rpartition(":")[2])


@pytest.fixture(params=["no proxy", "proxies"])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Net]:
    with StubOllama() as ollama, StubDev() as dev, StubOllama() as proxy:
        net = Net(tmp_path, ollama, dev, proxy)
        records = make_records(net.home)
        companion.remember(records, "note", "the blue folder is upstairs", TYPED)
        companion.decide(records, "use PostgreSQL", TYPED)
        dev.script(stub_dev.articles([entry(1)]))
        if request.param == "proxies":
            net.use_proxies()
        yield net
        assert "sk-very-secret" not in repr(ollama.asked) + repr(dev.requests)


def talk(net: Net, *entries: tuple[str, str]) -> None:
    """A chat on a terminal: each entry and what is shown for it, until the program has left."""
    child = pexpect.spawn(sys.executable, net.command(), env=net.environ, dimensions=(30, 100), timeout=20,
                          encoding="utf-8")
    child.delaybeforesend = None
    child.expect("in view")  # the bottom line: the prompt is there
    while not net.ollama.chats:  # and the model is warmed, which takes the first answer of the script
        assert net.ollama.arrived.acquire(timeout=20)
    for text, shown in entries:
        time.sleep(0.15)
        child.send(text + "\r")
        child.expect(shown)
        if not text.startswith(("/forget", "/quit")):
            child.expect("in view")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_p13_a_session_speaks_to_the_loopback_ollama_alone(net: Net) -> None:
    """Questions, tools, the record, /model, /stats, /export and a forget that unloads the model."""
    net.ollama.then(stub.answer("Warmed."), stub.answer("Upstairs."), stub.tool_call("recall", {"query": "blue"}), stub.answer("Blue."))
    talk(net, ("hello there", "Upstairs"), ("what colour is it?", "Blue"), ("/model", "smollm2"), ("/stats", "attributed"),
         ("/verify", "cannot be known"), ("/export", "jsonl"), ("/remember note: tea", "Saved m2"), ("/report", "no report"),
         ("/forget m1", "everywhere"), ("y", "is forgotten"), ("/quit", ""))
    assert net.spoken_to() == {net.at_ollama}
    assert {asked.path for asked in net.ollama.asked} >= {"/api/chat", "/api/tags", "/api/show", "/api/generate"}
    assert net.dev.requests == []
    assert not [args for event, args in net.events() if event == "subprocess.Popen"]


def test_p13_a_check_in_the_chat_speaks_to_dev_too_and_to_nobody_else(net: Net) -> None:
    net.ollama.then(stub.answer("Warmed."), stub.tool_call("dev_articles", {}), stub.answer("One article."))
    talk(net, ("how are my articles?", "One article"), ("/daily", "What was checked"), ("/quit", ""))
    assert net.spoken_to() == {net.at_ollama, net.at_dev}


def test_p13_the_scheduled_check_speaks_to_dev_alone(net: Net) -> None:
    """`--daily`, as cron runs it, never talks to Ollama."""
    assert net.run("--daily").returncode == 0
    assert net.spoken_to() == {net.at_dev} and net.ollama.asked == []
    assert len(net.dev.requests) == 1


@pytest.mark.parametrize("env", [{"OLLAMA_HOST": "http://10.255.255.1:11434"}, {"COMPANION_MODEL": "x:120b-cloud"},
                                 {"OLLAMA_HOST": "ollama.example"}])
def test_p13_the_scheduled_check_is_no_way_round_the_rules(net: Net, env: dict[str, str]) -> None:
    """A remote host or a cloud model in cron's environment is not asked, with --allow-remote or without."""
    net.environ |= env
    for flags in ((), ("--allow-remote",)):
        assert net.run("--daily", *flags).returncode == 0
    assert net.spoken_to() == {net.at_dev} and net.ollama.asked == []


@pytest.mark.parametrize("args", [
    ("--memory", "--json"), ("--decisions",), ("--verify",), ("--stats",), ("--version",), ("--help",), ("--export", "OUT"),
    ("--note", "the bill came", "--as", "mail"), ("--import", "OLD"), ("--daily", "--if-due")])
def test_p13_what_needs_nobody_speaks_to_nobody(net: Net, args: tuple[str, ...]) -> None:
    (net.path / "old.jsonl").write_text('{"text": "an old line"}\n')
    if "--if-due" in args:
        net.run("--daily")
        net.log.unlink()
    done = net.run(*(a.replace("OUT", str(net.path / "out.md")).replace("OLD", str(net.path / "old.jsonl")) for a in args))
    assert done.returncode == 0, done.stderr
    assert net.spoken_to() == set() and net.ollama.asked == []


@pytest.mark.parametrize("args", [("--ask", "where is the blue folder?"), ("--selftest",), ("--forget", "m1", "--yes")])
def test_p13_what_needs_the_model_speaks_to_the_loopback_ollama_alone(net: Net, args: tuple[str, ...]) -> None:
    assert net.run(*args, stdin="some piped text").returncode == 0
    assert net.spoken_to() == {net.at_ollama}


@pytest.mark.parametrize("env", [{"OLLAMA_HOST": "http://10.255.255.1:11434"}, {"OLLAMA_HOST": "localhost.example"},
                                 {"COMPANION_MODEL": "x:cloud"}])
def test_p13_what_is_refused_connects_to_nothing(net: Net, env: dict[str, str]) -> None:
    net.environ |= env
    assert net.run("--ask", "hello there").returncode == 2
    assert net.run(stdin="hello there\n").returncode == 2
    assert net.spoken_to() == set()


@pytest.mark.parametrize("form", ["0.0.0.0:{}", "[::]:{}", "localhost:{}", "http://0.0.0.0:{}/", ":{}"])
def test_p13_a_wildcard_means_loopback_by_number(net: Net, form: str) -> None:
    net.environ["OLLAMA_HOST"] = form.format(net.ollama.port)
    assert net.run("--ask", "hello there").returncode == 0
    assert net.spoken_to() == {net.at_ollama}
