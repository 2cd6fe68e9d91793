"""The schedule with a real cron daemon and this account's own table, which is put back afterwards."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from schedule_tools import lay_program, serve_dev

pytestmark = pytest.mark.cron

# Jobs of others; none of them ever fires. SHELL would keep a line below it from running.
OTHERS = (b"# jobs of others\n\nSHELL=/bin/false\n0 0 31 2 * backup 100\\% --name 'caf\xe9'  \n"
          b"\t0 0 30 2 *\techo # companion-daily-2\n#0 1 * * * off\n")
ODD_NAME = "Ana's 100%done \\%d \\\\ #2 \"x\" $HOME é"
WAIT_S = 130.0


def crontab(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["crontab", *arguments], capture_output=True, check=False,
                          env={**os.environ, "LC_ALL": "C"})


@pytest.fixture
def table(tmp_path: Path) -> Iterator[None]:
    """This account's crontab holds OTHERS; afterwards it is as it was."""
    if shutil.which("cron") is None or shutil.which("crontab") is None:
        if os.environ.get("CI"):
            pytest.fail("cron is not installed: apt-get install cron")
        pytest.skip("NOT TESTED: no cron daemon is installed here (apt-get install cron)")
    before = crontab("-l")
    assert before.returncode == 0 or before.stderr.startswith(b"no crontab for "), before.stderr
    kept = tmp_path / "table"
    kept.write_bytes(OTHERS)
    assert crontab(str(kept)).returncode == 0
    try:
        yield
    finally:
        kept.write_bytes(before.stdout)
        assert crontab(*([str(kept)] if before.returncode == 0 else ["-r"])).returncode == 0


@pytest.fixture
def daemon(table: None) -> Iterator[None]:
    """A cron daemon without an environment; one that runs already will do."""
    process = subprocess.Popen(["cron", "-f", "-L", "15"], cwd="/", stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    time.sleep(0.5)
    said = process.stderr.read() if process.poll() is not None and process.stderr else b""
    assert process.returncode is None or b"can't lock" in said, said
    yield
    process.terminate()
    process.communicate(timeout=10)


def schedule(program: Path, *arguments: str, environ: dict[str, str] | None = None) -> str:
    result = subprocess.run([sys.executable, program / "install_schedule.py", *arguments], text=True,
                            capture_output=True, cwd="/", env={**os.environ, **(environ or {})}, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def wait_for(found: Callable[[], bool], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while not found() and time.monotonic() < deadline:
        time.sleep(0.5)
    return found()


def read_events(program: Path) -> list[dict[str, str]]:
    path = program / "logs" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def soon() -> str:
    """The next minute, or the one after it when that is only seconds away."""
    return f"{datetime.now() + timedelta(seconds=75):%H:%M}"


def test_a_real_cron_runs_the_line_and_others_keep_theirs(daemon: None, tmp_path: Path) -> None:
    program = lay_program(tmp_path / ODD_NAME)
    with serve_dev() as address:
        said = schedule(program, "install", "--at", soon(), "--catch-up",
                        environ={"DEV_USERNAME": "ana", "DEV_URL": address})
        assert "dev_username" in said and "No cron daemon" not in said
        wait_for(lambda: any(event["event"] == "daily_stop" for event in read_events(program)), WAIT_S)
    events = read_events(program)
    start, stop = (next((event for event in events if event["event"] == name), {})
                   for name in ("daily_start", "daily_stop"))
    log = (program / "logs" / "cron.log").read_text()
    assert stop.get("status") == "ok", (events, log, crontab("-l").stdout)
    assert start["started_by"].split(" ← ")[-1] == "cron", start
    report, = (program / "reports").glob("*.md")
    assert "cron" in report.read_text() and log == ""
    assert "· ok · started by " in schedule(program, "status")
    schedule(program, "remove")
    assert crontab("-l").stdout == OTHERS


def test_windows_lines_of_others_survive_the_real_crontab(table: None, tmp_path: Path) -> None:
    """Debian's crontab lists a carriage return as two letters; writing that back would break the job."""
    lines = tmp_path / "windows"
    lines.write_bytes(b"0 0 31 2 * backup\r\n")
    assert crontab(str(lines)).returncode == 0
    shown = crontab("-l").stdout
    program = lay_program(tmp_path / "program")
    result = subprocess.run([sys.executable, program / "install_schedule.py", "install"], text=True,
                            capture_output=True, cwd="/", check=False)
    if shown == lines.read_bytes():
        assert result.returncode == 0 and crontab("-l").stdout.startswith(shown)
    else:
        assert result.returncode == 1 and "Windows line" in result.stderr
        assert crontab("-l").stdout == shown
    spool = Path("/var/spool/cron/crontabs") / getpass.getuser()
    if os.access(spool, os.R_OK):
        assert lines.read_bytes() in spool.read_bytes()
