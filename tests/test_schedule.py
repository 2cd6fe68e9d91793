"""The schedule: a line that really runs, and a crontab in which no line of another is ever lost."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_tools import FakeCrontab, lay_program, run_as_cron, serve_dev, split_as_cron

import companion
import install_schedule as schedule

JOBS = (b"# my jobs\n15 3 * * * backup /home --quiet\n*/5 * * * * sync-mail\n"
        b"0 6 * * 1 report 100\\%\n@weekly tidy\n")
VARIABLES = ("DEV_USERNAME", "DEV_URL", "OLLAMA_HOST", "COMPANION_MODEL", "COMPANION_HOME", "TZ")
ODD_NAMES = ("100%done", "Ana's Notes #2 (2026)", "a b  c", 'say "hi" $HOME `id`', "back\\slash",
             "odd\\%d", "two\\\\%%", "#start", " #", "café ☕", "-dash", "semi;&|<>*?[x]!~{a,b}", "a:b=c",
             "end\\")


class Desk:
    """An account with a fake crontab and a data home, driven through the command line."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.fake = FakeCrontab(folder / "account")
        self.home = folder / "home"
        self.home.mkdir()
        self.capsys = capsys
        self.out = ""

    def run(self, *arguments: str) -> int:
        code = schedule.main([*arguments, "--home", str(self.home)])
        said = self.capsys.readouterr()
        self.out = said.out + said.err
        return code

    def install(self, *arguments: str) -> bytes:
        """Install, which must work; our daily line."""
        assert self.run("install", *arguments) == 0, self.out
        return self.own()[0]

    def own(self) -> list[bytes]:
        return [line for line in schedule.split_lines(self.fake.table or b"") if b" -m companion " in line]

    @property
    def toml(self) -> str:
        return (self.home / "companion.toml").read_text()

    def copies(self) -> list[Path]:
        return sorted((self.home / "logs").glob("crontab_*"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    desk = Desk(tmp_path, capsys)
    monkeypatch.setenv("PATH", f"{desk.fake.bin}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    desk.fake.table = JOBS
    return desk


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks that change on 29 March and 25 October 2026."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def read_events(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "logs" / "events.jsonl").read_text().splitlines()]


# --- The line ---


@pytest.mark.parametrize("name", [
    "Ana's Notes #2 (2026)", "100%done", "odd\\%d two\\\\%% end\\", 'say "hi" $HOME `id` #;&|<>*?[x]!~{a,b}',
    " #café ☕ a:b=c"])
def test_line_runs_as_cron_runs_it(desk: Desk, tmp_path: Path, name: str,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    program = lay_program(tmp_path / name)
    monkeypatch.setenv("DEV_USERNAME", "ana")
    with serve_dev() as address:
        monkeypatch.setenv("DEV_URL", address)
        install = subprocess.run([sys.executable, program / "install_schedule.py", "install"], cwd="/",
                                 capture_output=True, text=True, check=False)
        assert install.returncode == 0, install.stderr
        result = run_as_cron(desk.own()[0])
    log = (program / "logs" / "cron.log").read_bytes()
    assert (result.returncode, result.stdout, result.stderr, log) == (0, b"", b"", b"")
    stops = [event for event in read_events(program) if event["event"] == "daily_stop"]
    assert [event["status"] for event in stops] == ["ok"]
    assert list((program / "reports").glob("*.md"))


def test_percent_sign_has_one_backslash(desk: Desk, tmp_path: Path) -> None:
    desk.home = tmp_path / "100%done"
    line = desk.install()
    assert b"100\\%done" in line and b"\\\\" not in line
    assert split_as_cron(line) == split_as_cron(line, pairs=True)
    assert str(desk.home).encode() in split_as_cron(line)[0]


@given(st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cc", "Cs"]), min_size=1,
               max_size=40) | st.text("\\%#' \"$`a", min_size=1, max_size=20))
@settings(max_examples=400, deadline=None)
def test_any_path_reaches_the_shell_as_it_is(text: str) -> None:
    quoted = schedule.quote_word(text)
    line = schedule.build_line("0 8 * * *", f"run {quoted} >>{quoted}", schedule.DAILY)
    for pairs in (False, True):
        command, fed = split_as_cron(line, pairs=pairs)
        assert not fed
        assert shlex.split(command.decode(), comments=True) == ["run", text, f">>{text}"]


def test_sh_agrees_about_the_quoting() -> None:
    words = " ".join(schedule.quote_word(name) for name in ODD_NAMES)
    shown = subprocess.run(["/bin/sh", "-c", f"printf '%s\\n' {words} # mark"], capture_output=True,
                           text=True, check=True)
    assert shown.stdout.split("\n")[:-1] == list(ODD_NAMES)


def test_path_that_is_no_utf8_is_kept_byte_for_byte() -> None:
    path = os.fsdecode(b"/tmp/caf\xe9")
    line = schedule.build_line("0 8 * * *", f"cd {schedule.quote_word(path)}", schedule.DAILY)
    assert b"cd '/tmp/caf\xe9' # companion-daily\n" in line


@pytest.mark.parametrize("name", ["new\nline", "bell\a", "tab\t", "cr\r"])
def test_control_character_in_a_path_is_refused(desk: Desk, tmp_path: Path, name: str) -> None:
    desk.home = tmp_path / name
    assert desk.run("install") == 2
    assert "control character" in desk.out and desk.fake.table == JOBS


def test_line_too_long_for_cron_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.home = tmp_path.joinpath(*["d" * 100] * 5)
    assert desk.run("install") == 2
    assert "998" in desk.out and desk.fake.table == JOBS and not desk.home.exists()


def test_long_path_does_not_reach_crontab(desk: Desk, tmp_path: Path) -> None:
    desk.home = tmp_path / ("d" * 60) / ("e" * 60)
    assert str(desk.home).encode() in desk.install()


@pytest.mark.parametrize(("name", "text", "seen"), [
    ("requests.py", "raise ImportError('gone')\n", b"gone"),
    ("companion.py", "raise ImportError('damaged')\n", b"damaged"),
])
def test_failed_start_leaves_one_dated_line(desk: Desk, tmp_path: Path, name: str, text: str,
                                            seen: bytes) -> None:
    program = lay_program(tmp_path / "program")
    (program / "companion.toml").write_text('dev_username = "ana"\ndev_url = "http://127.0.0.1:9"\n')
    subprocess.run([sys.executable, program / "install_schedule.py", "install"], check=True,
                   capture_output=True)
    (program / name).write_text(text)
    result = run_as_cron(desk.own()[0])
    log = (program / "logs" / "cron.log").read_bytes()
    dated = [line for line in log.splitlines() if line.startswith(b"companion: the check ended")]
    assert len(dated) == 1 and b"exit code 1 on " in dated[0]
    assert str(datetime.now().year).encode() in dated[0]
    assert seen in log and (result.stdout, result.stderr) == (b"", b"")


def test_lost_program_and_lost_python_are_dated_too(desk: Desk) -> None:
    for python, program, code in (("/no/python", "/", b"127"), (sys.executable, "/no/folder", b"2")):
        (desk.home / "logs").mkdir(exist_ok=True)
        command = schedule.build_command(Path(python), Path(program), desk.home, "--daily")
        run_as_cron(schedule.build_line("0 8 * * *", command, schedule.DAILY))
        assert b"exit code " + code + b" on " in (desk.home / "logs" / "cron.log").read_bytes()
    assert stat.S_IMODE((desk.home / "logs" / "cron.log").stat().st_mode) == 0o600


def test_a_package_folder_is_not_run_from(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    home = companion.Home(desk.home)
    assert schedule.find_program(home) == Path(str(companion.__file__)).resolve().parent
    monkeypatch.setattr(companion, "__file__", "/venv/lib/python3.11/site-packages/companion.py")
    assert schedule.find_program(home) == desk.home


def test_check_that_would_not_start_is_not_installed(desk: Desk, tmp_path: Path) -> None:
    program = lay_program(tmp_path / "program")
    (program / "requests.py").write_text("raise ImportError('no requests here')\n")
    result = subprocess.run([sys.executable, program / "install_schedule.py", "install"], check=False,
                            capture_output=True, text=True)
    assert result.returncode == 2 and "no requests here" in result.stderr and desk.fake.table == JOBS


# --- The table ---


@pytest.mark.parametrize(("fault", "said"), [
    ("list:*:silent", "exit code 1 and gave no reason"),
    ("list:*:cut-9", "killed by signal 9 after 20 bytes"),
    ("list:*:cut-15", "killed by signal 15 after 20 bytes"),
    ("list:*:cut1", "exit code 1 and gave no reason"),
    ("list:*:cut0", "stops in the middle of a line, after 20 bytes"),
    ("list:2:silent", "gave no reason"),
    ("list:*:says 1 keine Crontab für ana", "keine Crontab für ana"),
    ("list:*:says 1 crontab: no existe ningún crontab para ana", "no existe"),
    ("list:*:says 1 no crontab for ana: Input/output error", "Input/output error"),
    ("list:*:says 0 no crontab for ana", "no crontab for ana"),
    ("list:*:says 2 no crontab for ana", "exit code 2"),
    ("list:*:warns", "read error"),
    ("list:*:changes", "changed while this ran"),
    ("list:*:says 1 crontab: tmp/tmp.44: Operation not permitted", "Full Disk Access"),
    ("list:*:says 1 You (ana) are not allowed to use this program (crontab)", "cron.allow"),
])
@pytest.mark.parametrize("action", ["install", "remove"])
def test_doubtful_listing_leaves_the_table_alone(desk: Desk, fault: str, said: str, action: str) -> None:
    ours = desk.install()
    desk.fake.table = JOBS + ours.replace(b"0 8", b"0 7")
    desk.fake.fail(fault)
    assert desk.run(action, *(["--at", "09:00"] if action == "install" else [])) == 1
    assert said in desk.out and "not changed" in desk.out
    assert desk.fake.table == JOBS + ours.replace(b"0 8", b"0 7") and "write" not in desk.fake.calls


def test_no_table_is_an_empty_table(desk: Desk) -> None:
    (desk.fake.folder / "table").unlink()
    line = desk.install()
    assert desk.fake.table == line and not desk.copies()
    assert desk.run("remove") == 0 and desk.fake.table == b""


OTHERS = {
    "jobs": JOBS,
    "windows": b"15 3 * * * backup\r\n# x\r\n",
    "latin-1": b"# caf\xe9 \xff\xfe\n15 3 * * * caf\xe9\n",
    "nul": b"# a\0b\n",
    "blank lines": b"\n\n  \n15 3 * * * backup  \n\n",
    "remarks": b"# see below: # companion-daily\n# the companion-daily line is mine\n#companion-daily\n",
    "lookalikes": b"0 8 * * * other # companion-daily-2\n0 8 * * * echo '# companion-daily' x\n",
    "variables": b"SHELL=/bin/false\nCRON_TZ=Asia/Tokyo\n15 3 * * * backup\n",
    "carriage return inside": b"15 3 * * * a\rb\n",
    "empty": b"",
    "one line feed": b"\n",
    "header": b"# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (x)\n",
}


@pytest.mark.parametrize("raw", OTHERS.values(), ids=list(OTHERS))
def test_other_lines_keep_every_byte(desk: Desk, raw: bytes) -> None:
    desk.fake.table = raw
    line = desk.install("--catch-up")
    assert desk.fake.table in (raw + b"".join(desk.own()), b"".join(desk.own()) + raw)
    copy, = desk.copies()
    assert copy.read_bytes() == raw and stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert str(copy) in desk.out
    assert desk.install() == line
    assert desk.run("remove") == 0 and desk.fake.table == raw


def test_variables_of_others_do_not_act_on_our_line(desk: Desk) -> None:
    desk.fake.table = OTHERS["variables"]
    line = desk.install()
    assert desk.fake.table == line + OTHERS["variables"]
    desk.fake.table = OTHERS["variables"] + line
    assert desk.run("status") == 0 and "sets SHELL, CRON_TZ above this line" in desk.out


def test_listing_that_may_have_changed_a_line_end_is_refused(desk: Desk) -> None:
    desk.fake.table = b"15 3 * * * backup\\r\n"  # Debian lists a carriage return like this
    assert desk.run("install") == 1
    assert "Windows line" in desk.out and desk.fake.table == b"15 3 * * * backup\\r\n"


def test_install_twice_edit_the_hour_move_the_folder_is_one_line(desk: Desk, tmp_path: Path) -> None:
    first = desk.install("--at", "08:00")
    assert desk.install() == first and "at 08:00" not in desk.out.split("\n")[1]
    desk.fake.table = (desk.fake.table or b"").replace(b"0 8 * * *", b"30 9 * * *")
    desk.install()
    assert len(desk.own()) == 1 and desk.own()[0].startswith(b"30 9 * * * ") and "is kept" in desk.out
    assert 'schedule_at = "09:30"' in desk.toml
    desk.home.rename(tmp_path / "moved")
    desk.home = tmp_path / "moved"
    assert desk.run("status") == 0 and f"is for {tmp_path / 'home'}, not for this data home" in desk.out
    line = desk.install()
    assert len(desk.own()) == 1 and line.startswith(b"30 9 * * * ") and b"/moved" in line
    assert f"takes the place of the line for {tmp_path / 'home'}" in desk.out
    assert desk.run("remove") == 0 and desk.fake.table == JOBS


@pytest.mark.parametrize(("here", "at", "left", "hour"), [
    ("30 9 * * 1-5", None, "30 9 * * 1-5", "09:30"),
    ("30 9 * * 1-5", "10:05", "5 10 * * 1-5", "10:05"),
    ("30\t9 * *  mon", "7:00", "0 7 * *  mon", "07:00"),
    ("*/20 9,18 * * *", None, "*/20 9,18 * * *", "09:00"),
    ("@daily", None, "@daily", "00:00"),
    ("@daily", "06:15", "15 6 * * *", "06:15"),
    ("@reboot", None, "@reboot", "08:00"),
    ("0 0 * * *", None, "0 0 * * *", "00:00"),
])
def test_owners_time_is_kept(desk: Desk, here: str, at: str | None, left: str, hour: str) -> None:
    line = desk.install()
    desk.fake.table = JOBS + line.replace(b"0 8 * * *", here.encode())
    line = desk.install(*(["--at", at] if at else []))
    assert line.startswith(left.encode() + b" umask") and desk.fake.table == JOBS + line
    assert f'schedule_at = "{hour}"' in desk.toml


def test_time_that_is_none_is_refused(desk: Desk) -> None:
    bad = desk.install().replace(b"0 8 * * *", b"61 8 * * *")
    desk.fake.table = JOBS + bad
    assert desk.run("install") == 2 and "61 8 * * *" in desk.out and "--at" in desk.out
    assert desk.fake.table == JOBS + bad
    assert desk.run("status") == 0 and "cannot be understood" in desk.out
    assert desk.install("--at", "8:00").startswith(b"0 8 * * * ")


def test_line_switched_off_is_switched_on_again(desk: Desk) -> None:
    line = desk.install("--at", "07:10")
    desk.fake.table = b"#" + line + JOBS
    assert desk.run("status") == 0 and "switched off" in desk.out
    assert desk.install() == line and "it is on again" in desk.out
    assert desk.fake.table == line + JOBS


def test_several_lines_of_ours_become_one(desk: Desk) -> None:
    line = desk.install()
    desk.fake.table = b"# " + line.replace(b"0 8", b"0 5") + JOBS + line + line
    desk.install()
    assert desk.fake.table == JOBS + line and "3 lines of ours" in desk.out


def test_catch_up_is_a_second_line_and_stays(desk: Desk) -> None:
    desk.install("--at", "08:40", "--catch-up")
    daily, hourly = desk.own()
    assert daily.startswith(b"40 8 * * * ") and hourly.startswith(b"10 * * * * ")
    assert b"--daily --if-due" in hourly and hourly.endswith(b" # companion-catch-up\n")
    desk.install("--at", "09:00")
    assert desk.own()[1] == hourly
    assert desk.run("status") == 0 and "Catch-up: next on" in desk.out
    assert desk.run("remove") == 0 and desk.fake.table == JOBS


@pytest.mark.parametrize(("fault", "said"), [
    ("write:1:refuses", "did not take the new table"),
    ("write:1:halves", "table is again as it was"),
    ("write:1:loses", "1 line of others missing"),
    ("write:1:alters", "1 line of others missing"),
    ("write:1:empties", "5 lines of others missing"),
    ("write:1:ignores", "our line is not as written"),
    ("write:1:drops-ours", "our line is not as written"),
    ("list:3:silent", "gave no reason"),
    ("list:3:cut0", "middle of a line"),
])
def test_write_that_goes_wrong_is_undone(desk: Desk, fault: str, said: str) -> None:
    desk.fake.fail(fault)
    assert desk.run("install") == 1
    assert said in desk.out and desk.fake.table == JOBS
    assert desk.copies()[0].read_bytes() == JOBS
    assert sorted(path.name for path in (desk.home / "logs").iterdir()) == ["cron.log", desk.copies()[0].name]


def test_table_that_cannot_be_put_back_is_named(desk: Desk) -> None:
    desk.fake.fail("write:*:empties")
    assert desk.run("install") == 1
    assert f"`crontab {desk.copies()[0]}` puts it back" in desk.out
    assert "but is not seen there (5 lines of others missing)" in desk.out


def test_line_added_in_the_same_second_is_not_lost(desk: Desk) -> None:
    desk.fake.fail("write:1:races")
    desk.install()
    assert b"somebody-else" in (desk.fake.table or b"") and len(desk.own()) == 1


def test_missing_or_hanging_crontab_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.fake.fail("list:*:hangs")
    monkeypatch.setattr(schedule, "CRONTAB_TIMEOUT_S", 0.3)
    assert desk.run("install") == 1 and "did not answer" in desk.out
    monkeypatch.setenv("PATH", str(desk.fake.folder))
    for action in ("install", "remove", "status"):
        assert desk.run(action) == 1
        assert "no crontab command" in desk.out and "companion.py --daily" in desk.out
    assert desk.fake.table == JOBS


def test_installs_at_once_leave_one_line(desk: Desk, tmp_path: Path) -> None:
    desk.fake.fail("write:*:slow")
    program = lay_program(tmp_path / "program")
    running = [subprocess.Popen([sys.executable, program / "install_schedule.py", "install", "--home",
                                 tmp_path / f"home{n % 2}"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE) for n in range(4)]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert len(desk.own()) == 1 and desk.fake.table == JOBS + desk.own()[0]


SOME_LINES = st.lists(st.one_of(
    st.sampled_from([b"0 8 * * * run # companion-daily", b"#0 8 * * * run # companion-daily",
                     b"5 * * * * run # companion-catch-up", b"A=b", b"", b"# companion-daily"]),
    st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")))).map(
        lambda lines: b"".join(line + b"\n" for line in lines))


@given(SOME_LINES, st.booleans())
@settings(max_examples=500, deadline=None)
def test_building_a_table_moves_nobody(raw: bytes, catch_up: bool) -> None:
    wanted = {schedule.DAILY: b"1 9 * * * new # companion-daily\n"}
    if catch_up:
        wanted[schedule.CATCH_UP] = b"31 * * * * new # companion-catch-up\n"
    after = schedule.build_table(raw, wanted)
    assert schedule.list_others(after) == schedule.list_others(raw)
    ours = [line for line in schedule.split_lines(after) if schedule.find_own(line)]
    assert sorted(ours) == sorted(wanted.values())
    assert schedule.build_table(after, wanted) == after
    assert schedule.build_table(after, {}) == b"".join(schedule.list_others(raw))
    assert schedule.is_as_meant(after, after) and schedule.keeps_others(raw, after)


# --- Settings ---


def test_settings_of_the_environment_are_copied(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEV_USERNAME", 'a"n\\a')
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:1234")
    monkeypatch.setenv("COMPANION_MODEL", "llama3.2")
    monkeypatch.setenv("COMPANION_HOME", str(desk.home))
    desk.install("--at", "06:00")
    assert "only the environment held it: model, host, dev_username." in desk.out
    assert "COMPANION_HOME need not be copied" in desk.out
    stored = companion.load_settings(desk.home, {}, {})
    assert (stored.dev_username, stored.host, stored.model, stored.schedule_at) == (
        'a"n\\a', "http://127.0.0.1:1234", "llama3.2", "06:00")
    before = desk.toml
    desk.install()
    assert desk.toml == before and "Copied" not in desk.out
    assert stat.S_IMODE((desk.home / "companion.toml").stat().st_mode) == 0o600


MINE = ('# mine\r\nmodel = "mine"  # best\r\nthinking = """hidden"""\r\n'
        "schedule_at = '07:00'  # before coffee\r\n\r\n[windows]\r\nobservation = 5 # few\r\n")


def test_rest_of_the_settings_file_is_not_disturbed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.home / "companion.toml").write_text(MINE, newline="")
    monkeypatch.setenv("COMPANION_MODEL", "other")
    monkeypatch.setenv("DEV_USERNAME", "ana")
    assert desk.install().startswith(b"0 7 * * * ")
    desk.install("--at", "08:15")
    raw = (desk.home / "companion.toml").read_bytes().decode()
    assert raw.endswith(MINE.replace("'07:00'", '"08:15"')) and 'dev_username = "ana"\r\n' in raw
    assert "model: the environment and companion.toml differ; cron will use companion.toml" in desk.out
    assert companion.load_settings(desk.home, {}, {}).windows["observation"] == 5


@pytest.mark.parametrize("raw", ["model = \n", "model = 3\n", 'schedule_at = "25:99"\n', "\xff"])
def test_unreadable_settings_stop_before_the_table(desk: Desk, raw: str) -> None:
    (desk.home / "companion.toml").write_bytes(raw.encode("latin-1"))
    assert desk.run("install") == 2
    assert desk.fake.table == JOBS and (desk.home / "companion.toml").read_bytes() == raw.encode("latin-1")


def test_a_value_that_cannot_be_changed_safely_is_left(desk: Desk) -> None:
    (desk.home / "companion.toml").write_text('"schedule_at" = "07:00"\n')
    assert desk.run("install", "--at", "09:00") == 2
    assert 'schedule_at = "09:00"' in desk.out and desk.fake.table == JOBS
    text = 'keep_alive = """\nschedule_at = "01:00"\n"""\nschedule_at="07:00"\n'
    (desk.home / "companion.toml").write_text(text)
    desk.install("--at", "09:00")
    assert desk.toml == text.replace("07:00", "09:00")


@given(st.dictionaries(st.sampled_from(["model", "dev_username"]), st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20)))
def test_values_come_back_from_toml(values: dict[str, str]) -> None:
    import tomllib
    raw = companion.build_toml(Path("x"), b"[windows]\nobservation = 1\n", values, "remark")
    assert tomllib.loads(raw.decode()) == {**values, "windows": {"observation": 1}}


# --- Times ---


@pytest.mark.parametrize(("spec", "now", "then"), [
    ("0 8 * * *", "2026-11-29 07:59", "2026-11-29 08:00"),
    ("0 8 * * *", "2026-11-29 08:00", "2026-11-30 08:00"),
    ("30 9 * * 1-5", "2026-11-28 10:00", "2026-11-30 09:30"),
    ("0 8 13 * 5", "2026-11-01 00:00", "2026-11-06 08:00"),
    ("0 8 */10 * 5", "2026-12-01 09:00", "2026-12-11 08:00"),
    ("0 8 29 2 *", "2026-11-29 00:00", "2028-02-29 08:00"),
    ("0 0 * * 7", "2026-11-28 00:00", "2026-11-29 00:00"),
    ("@daily", "2026-11-28 00:00", "2026-11-29 00:00"),
    ("30 2 * * *", "2026-03-28 12:00", "2026-03-29 03:00"),  # 02:30 does not exist: cron catches up
    ("30 2 * * *", "2026-03-29 12:00", "2026-03-30 02:30"),
    ("30 2 * * *", "2026-10-24 12:00", "2026-10-25 02:30"),
    ("0 8 * * *", "2026-03-28 09:00", "2026-03-29 08:00"),
    ("0 8 * * *", "2026-10-24 09:00", "2026-10-25 08:00"),
])
def test_next_time(zone: None, spec: str, now: str, then: str) -> None:
    found = schedule.find_next(spec, datetime.fromisoformat(now).astimezone(UTC))
    assert found is not None and f"{companion.local_time(found):%Y-%m-%d %H:%M}" == then


def test_the_repeated_hour_counts_once(zone: None) -> None:
    first = schedule.find_next("30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert schedule.find_next("30 2 * * *", first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_times_that_never_come() -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    assert schedule.find_next("@reboot", now) is None and schedule.find_next("0 0 31 2 *", now) is None


# --- Status, dry run, command line ---


def write_runs(home: Path, runs: list[tuple[datetime, str]]) -> None:
    """Checks as the event log and the readings hold them; an empty status is a start without a stop."""
    (home / "logs").mkdir(exist_ok=True)
    (home / "memory").mkdir(exist_ok=True)
    for number, (at, status) in enumerate(runs):
        log = companion.Home(home, now=lambda at=at: at)  # type: ignore[misc]
        companion.log_event(log, "daily_start", run=f"c{number}", started_by="cron (7)")
        if status:
            companion.log_event(log, "daily_stop", run=f"c{number}", status=status)
        if status == "ok":
            reading = companion.Reading(companion.format_at(at), f"r{number}", {})
            companion.append_line(home / "memory" / "readings.jsonl",
                                  companion.format_reading(reading).decode())


def test_no_arguments_mean_status(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANION_HOME", str(desk.home))
    assert schedule.main([]) == 0
    out = desk.capsys.readouterr().out
    assert "No daily check is scheduled" in out and "No check has run yet" in out
    assert desk.fake.table == JOBS and not list(desk.home.iterdir())


def test_status_shows_line_next_time_runs_and_missed_days(desk: Desk) -> None:
    now = datetime.now(UTC)
    days = [now - timedelta(days=back) for back in range(12)]
    write_runs(desk.home, [(days[11], "ok")] * 9 + [(days[8], "ok"), (days[4], "failed"), (days[0], "")])
    line = desk.install("--at", "00:00")
    assert desk.run("status") == 0
    assert line.decode().strip() in desk.out and "Daily check: next on " in desk.out
    assert desk.out.count(" · started by cron (7)") == 10
    assert desk.out.count("no end recorded, last step start") == 1 and " · failed · " in desk.out
    missed = next(line for line in desk.out.splitlines() if line.startswith("Not looked at"))
    names = [companion.render_date(companion.local_day(day)) for day in days]
    assert [names.index(name) for name in missed[:-1].split(": ")[1].split(", ")] == [
        10, 9, 7, 6, 5, 4, 3, 2, 1, 0]
    assert "it is late" in desk.out


def test_status_says_what_it_can_when_the_table_cannot_be_read(desk: Desk) -> None:
    write_runs(desk.home, [(datetime.now(UTC), "ok")])
    desk.fake.fail("list:*:silent")
    assert desk.run("status") == 1
    assert "gave no reason" in desk.out and " · ok" in desk.out
    assert "No daily check is scheduled" not in desk.out


def test_text_in_the_log_cannot_change_the_screen(desk: Desk) -> None:
    (desk.home / "logs").mkdir()
    (desk.home / "logs" / "events.jsonl").write_text(json.dumps(
        {"at": "x\x1b[2J", "event": "daily_start", "started_by": "\x1b]52;c;AA\x07"}) + "\n")
    assert desk.run("status") == 0 and "\x1b" not in desk.out and "\x07" not in desk.out


def test_a_terminal_that_cannot_show_it_gets_escapes(desk: Desk) -> None:
    write_runs(desk.home, [(datetime.now(UTC), "ok ☕")])
    result = subprocess.run([sys.executable, schedule.__file__, "--home", desk.home], capture_output=True,
                            env={**os.environ, "PYTHONIOENCODING": "latin-1"}, check=False)
    assert result.returncode == 0 and b"ok \\u2615" in result.stdout and not result.stderr


def test_dry_run_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEV_USERNAME", "ana")
    assert desk.run("install", "--at", "06:30", "--catch-up", "--dry-run") == 0
    assert "+ 30 6 * * * " in desk.out and 'dev_username = "ana"' in desk.out
    assert desk.fake.table == JOBS and not list(desk.home.iterdir()) and desk.fake.calls == ["list"]
    desk.install()
    before = desk.fake.table
    assert desk.run("remove", "--dry-run") == 0 and "- 0 8 * * * " in desk.out
    assert desk.fake.table == before


def test_nothing_to_remove(desk: Desk) -> None:
    assert desk.run("remove") == 0 and "nothing to remove" in desk.out
    assert desk.fake.table == JOBS and "write" not in desk.fake.calls


@pytest.mark.parametrize("arguments", [["status", "--at", "08:00"], ["remove", "--catch-up"],
                                       ["install", "--at", "24:00"], ["install", "--at", "8"],
                                       ["install", "--at", "08:00; rm"], ["--at", "08:00"]])
def test_wrong_use_is_refused(desk: Desk, arguments: list[str]) -> None:
    assert desk.run(*arguments) == 2 and desk.fake.table == JOBS


def test_notices() -> None:
    ana = Path("/Users/ana")
    said = schedule.build_notices(ana / "Documents" / "c", ana, "/x/uv/environments-v2/y/bin/python",
                                  {"TZ": "Asia/Tokyo"}, "darwin", None)
    assert [word in " ".join(said) for word in ("Full Disk Access", "uv's cache", "TZ", "daemon")] == [
        True, True, True, False]
    assert schedule.build_notices(ana, ana, "/usr/bin/python3", {}, "linux", True) == []
    assert "service cron start" in schedule.build_notices(ana, ana, "/p", {}, "linux", False)[0]


def test_daemon_is_looked_up_in_proc(tmp_path: Path) -> None:
    assert schedule.find_daemon(tmp_path) is None
    for name, comm in (("self", "x"), ("12", "bash"), ("acpi", "cron")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "comm").write_text(comm + "\n")
    assert schedule.find_daemon(tmp_path) is False
    (tmp_path / "12" / "comm").write_text("crond\n")
    assert schedule.find_daemon(tmp_path) is True


def test_import_is_light() -> None:
    code = ("import sys, install_schedule; heavy = {'crontab', 'subprocess', 'argparse', 'tomllib', "
            "'requests', 'rich', 'ollama', 'prompt_toolkit'} & set(sys.modules); "
            "sys.exit(repr(heavy) if heavy else 0)")
    folder = str(Path(str(schedule.__file__)).parent)
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0


def test_installing_without_an_account_says_so(desk: Desk) -> None:
    desk.install()
    assert "No DEV account is set" in desk.out
    (desk.home / "companion.toml").write_text('dev_username = "ana"\n')
    desk.install()
    assert "No DEV account" not in desk.out
