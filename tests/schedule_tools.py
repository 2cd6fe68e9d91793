"""Helpers of the schedule tests: a crontab command with every fault, cron's own reading of a line,
a small stand-in for DEV."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import companion

# The state lies beside the command: `table` (absent: no crontab), `fault` ("OPERATION:NTH:NAME", NTH
# counted from 1 or *), `calls` (one line for each call). It says what the real ones say.
FAKE = r'''#!PYTHON -IS
import os, signal, sys, time
state = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
at = lambda name: os.path.join(state, name)
operation = "list" if sys.argv[1:] == ["-l"] else "write"
with open(at("calls"), "a") as calls:
    calls.write(operation + "\n")
nth = open(at("calls")).read().split().count(operation)
fault = ""
if os.path.exists(at("fault")):
    wanted, number, name = open(at("fault")).read().split(":", 2)
    fault = name if wanted == operation and number in ("*", str(nth)) else ""
table = open(at("table"), "rb").read() if os.path.exists(at("table")) else None
out = sys.stdout.buffer

def put(data):
    with open(at("table"), "wb") as file:
        file.write(data)

def end(code, said=""):
    sys.stderr.write(said)
    out.flush()
    os._exit(code) if code >= 0 else os.kill(os.getpid(), -code)

if fault == "hangs":
    time.sleep(60)
if fault == "slow":
    time.sleep(0.1)
if operation == "list":
    if fault == "silent":
        end(1)
    if fault.startswith("cut"):  # cut:EXIT CODE
        out.write(table[:20])
        end(int(fault[3:]))
    if fault.startswith("says"):  # says EXIT CODE WORDS
        _, code, words = fault.split(" ", 2)
        end(int(code), words + "\n")
    if fault == "warns":
        out.write(table)
        end(0, "crontab: read error\n")
    if fault == "changes":
        out.write(table + b"# %d\n" % nth)
        end(0)
    if table is None:
        end(1, "no crontab for ana\n")
    out.write(table)
    end(0)
if len(sys.argv[1]) > 99:
    end(1, sys.argv[1][:99] + ": No such file or directory\n")
data = open(sys.argv[1], "rb").read()
if fault == "refuses":
    end(1, "errors in crontab file, can't install.\n")
if fault == "halves":
    put(data[:30])
    end(1, "No space left on device\n")
if fault == "loses":
    put(b"".join(data.splitlines(True)[1:]))
elif fault == "alters":
    put(data.replace(b"backup", b"back up"))
elif fault == "empties":
    put(b"")
elif fault == "drops-ours":
    put(b"".join(line for line in data.splitlines(True) if b"companion" not in line))
elif fault == "races":
    put(data + b"7 7 * * * somebody-else\n")
elif fault != "ignores":
    put(data)
end(0)
'''


class FakeCrontab:
    """A `crontab` command of its own folder, with the state beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir(parents=True)
        command = self.bin / "crontab"
        command.write_text(FAKE.replace("PYTHON", sys.executable))
        command.chmod(0o755)

    @property
    def table(self) -> bytes | None:
        path = self.folder / "table"
        return path.read_bytes() if path.exists() else None

    @table.setter
    def table(self, raw: bytes) -> None:
        (self.folder / "table").write_bytes(raw)

    def fail(self, fault: str) -> None:
        """`list:2:silent`: the second listing from now on fails; `*` for every one."""
        (self.folder / "calls").write_text("")
        (self.folder / "fault").write_text(fault)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split() if path.exists() else []


def split_as_cron(line: bytes, *, pairs: bool = False) -> tuple[bytes, bytes]:
    """Command and standard input of one crontab line, as cron takes them.

    A backslash hides a percent sign, in some versions (`pairs`) also a backslash; the first bare
    percent sign ends the command.
    """
    fields = line.rstrip(b"\n").split(None, 5) if not line.startswith(b"@") else line.split(None, 1)
    rest, command, at = fields[-1], bytearray(), 0
    while at < len(rest):
        two = rest[at:at + 2]
        if two == b"\\%" or (pairs and two == b"\\\\"):
            command += two[1:]
            at += 2
        elif rest[at:at + 1] == b"\\":
            command += two
            at += 2
        elif rest[at:at + 1] == b"%":
            return bytes(command), rest[at + 1:].replace(b"%", b"\n")
        else:
            command += rest[at:at + 1]
            at += 1
    return bytes(command), b""


def run_as_cron(line: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a line with cron's shell, folder, environment and locale."""
    command, fed = split_as_cron(line)
    environ = {"HOME": "/", "LOGNAME": "ana", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    return subprocess.run([b"/bin/sh", b"-c", command], cwd="/", env=environ, input=fed,
                          capture_output=True, timeout=120, check=False)


def lay_program(folder: Path) -> Path:
    """A checkout of the program in `folder`: it is its own data home."""
    import install_schedule
    for name in ("memory", "logs", "reports"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for module in (companion, install_schedule):
        shutil.copy(str(module.__file__), folder)
    (folder / "pyproject.toml").write_text("")
    return folder


ARTICLES = [{"id": 1, "title": "First", "url": "https://dev.to/ana/first", "comments_count": 50,
             "public_reactions_count": 31, "positive_reactions_count": 31, "page_views_count": 7,
             "published_at": "2026-11-01T08:00:00Z", "user": {"username": "ana"}}]


class _Dev(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(ARTICLES).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve_dev() -> Iterator[str]:
    """The address of a DEV that has one article."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Dev)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
