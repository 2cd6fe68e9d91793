#!/usr/bin/env python3
"""Put Companion's daily check into cron, show it, take it out.

    install_schedule.py                                  the same as status
    install_schedule.py install [--at HH:MM] [--catch-up]
    install_schedule.py status
    install_schedule.py remove
    --home DIR   another data home        --dry-run   say what would change, change nothing

The crontab holds other people's work, so this program treats it as bytes that are not its own:

1  A listing counts only if the command ended well, said nothing on the side and ended its last line.
   "no crontab for NAME" is the one message that means an empty table. Anything else stops here.
2  Our lines are found by their mark at the end of the line, nothing else; one line for each mark.
3  All other lines keep their bytes and their order, which is checked before anything is written.
4  The table as it was is kept in logs/ first, and the table is listed again just before the write.
5  After the write it is read back. If a line of another is missing, the old table is put back.

python-crontab builds the line and reads it back; it neither lists nor writes the table.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import companion
from companion import Failure, Home, Refused, clean_text, plural

if TYPE_CHECKING:
    import argparse
    import subprocess

DAILY = "companion-daily"
CATCH_UP = "companion-catch-up"
FLAGS: Mapping[str, str] = {DAILY: "--daily", CATCH_UP: "--daily --if-due"}  # mark -> what it runs
COMMAND_LIMIT = 998  # bytes; the cron of Debian and macOS takes no longer command
CRONTAB_TIMEOUT_S = 30.0
UNCHANGED = "The crontab was not changed."


class TableUnknown(Failure):
    """What is in the crontab is not known for certain, so it is left alone."""


# --- The line ------------------------------------------------------------------------------------
# One line that runs in cron's empty environment, from any folder, in locale C, for any path.


def quote_word(text: str) -> str:
    """`text` as one word for sh, in a form that cron and python-crontab leave alone too.

    cron reads backslash-percent (and in some versions two backslashes) as an escape even inside
    quotes, and the library takes a blank and # for the beginning of a comment. An empty pair of
    quotes between the two characters means nothing to sh and keeps them apart.
    """
    if re.fullmatch(r"[A-Za-z0-9_@+=:,./-]+", text):
        return text
    quoted = "'" + text.replace("'", "'\"'\"'") + "'"
    return re.sub(r"\\(?=[\\%])|(?=#)", lambda found: found[0] + "''", quoted)


def check_path(path: Path, what: str) -> str:
    """The path as text. Raises Refused where a crontab line cannot hold it."""
    text = str(path)
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise Refused(f"The path of {what} has a line break or another control character in it: "
                      f"{clean_text(text)!r}.", "A line of a crontab cannot hold it; rename the folder.")
    return text


def build_command(python: Path, program: Path, home: Path, flags: str) -> str:
    """The shell command of one line: run from the program's folder, problems into logs/cron.log.

    What the check prints is in its report already, so only what it says on standard error is kept:
    cron.log is empty as long as all is well, and holds no words that would have to be forgotten.
    """
    log = quote_word(check_path(home / "logs" / "cron.log", "the data home"))
    run = " ".join((
        quote_word(check_path(python, "Python")), "-X utf8 -m companion --home",
        quote_word(check_path(home, "the data home")), flags))
    failed = 'echo "companion: the check ended with exit code $? on $(date)"'
    folder = quote_word(check_path(program, "the program"))
    return f"umask 077; {{ cd {folder} && {run} >/dev/null || {failed}; }} >>{log} 2>&1"


def load_library() -> Any:
    """The python-crontab module. Raises Failure with the command that installs it."""
    from importlib import import_module
    try:
        return import_module("crontab")
    except ImportError as error:
        raise Failure("The package python-crontab is not installed.",
                      f"Run: {sys.executable} -m pip install python-crontab") from error


def build_slices(spec: str) -> Any:
    """The library's reading of the time fields. Raises Refused when they are none."""
    try:
        return load_library().CronSlices(" ".join(spec.split()))
    except (ValueError, KeyError) as error:
        raise Refused(f"The time {clean_text(spec)!r} in your crontab cannot be understood: {error}.",
                      "Mend it with crontab -e, or give the hour with --at HH:MM.") from error


def check_line(line: str, spec: str, command: str, mark: str) -> None:
    """Raises Refused when the line would not be read back as what was meant."""
    library = load_library()
    item = library.CronItem.from_line(line, cron=library.CronTab(tab=""))
    if "\n" in line or not item.is_valid() or (item.command, item.comment) != (command, mark):
        raise Refused("These paths cannot be written into a crontab line that is read back the same.",
                      "Rename the folder to plain letters and try again.")
    size = len(os.fsencode(line[len(spec):].lstrip()))
    if size > COMMAND_LIMIT:
        raise Refused(f"The line would have a command of {size} bytes; cron takes {COMMAND_LIMIT}.",
                      "Move the program or its data home to a shorter path.")


def build_line(spec: str, command: str, mark: str) -> bytes:
    """The line with its end. The time fields stay as they are written; the library does the rest."""
    slices = build_slices(spec)
    item = load_library().CronTab(tab="").new(command=command, comment=mark)
    item.setall(slices.render())
    rendered: str = item.render()
    line = spec + rendered.removeprefix(item.slices.render())
    check_line(line, spec, command, mark)
    return os.fsencode(line) + b"\n"


# --- The table as bytes --------------------------------------------------------------------------
# Nothing here reads or writes. Lines are bytes between line feeds; what they hold is not our business.

_OWN = re.compile(
    rb"(?P<off>[ \t]*#[# \t]*)?"
    rb"[ \t]*(?P<spec>@[a-z]+|[0-9*,/~-]+[ \t]+[0-9*,/~-]+(?:[ \t]+[^ \t#]+){3})"
    rb"[ \t]+(?P<command>[^ \t].*?)[ \t]+#[ \t]*(?P<mark>companion-daily|companion-catch-up)[ \t\r]*\n?",
    re.DOTALL)
_VARIABLE = re.compile(rb"[ \t]*[\"']?[A-Za-z_][A-Za-z0-9_]*[\"']?[ \t]*=")


class OwnLine(NamedTuple):
    """One of our lines as it stands in the table; `enabled` is False when it is commented out."""

    mark: str
    spec: str
    enabled: bool
    command: str
    number: int  # counted from 0


def split_lines(raw: bytes) -> list[bytes]:
    """Lines with their ends, cut at line feeds only."""
    return re.findall(rb"[^\n]*\n|[^\n]+", raw)


def find_own(line: bytes, number: int = 0) -> OwnLine | None:
    """Our line, by its mark. A remark that happens to end with the mark is not one."""
    found = _OWN.fullmatch(line)
    if found is None:
        return None
    return OwnLine(found["mark"].decode(), os.fsdecode(found["spec"]), not found["off"],
                   os.fsdecode(found["command"]).replace("\\%", "%"), number)


def list_own(raw: bytes) -> list[OwnLine]:
    """Our lines; those that are switched on come first."""
    own = [find_own(line, number) for number, line in enumerate(split_lines(raw))]
    return sorted((line for line in own if line), key=lambda line: not line.enabled)


def list_others(raw: bytes) -> list[bytes]:
    """Everybody else's lines, in order."""
    return [line for line in split_lines(raw) if find_own(line) is None]


def build_table(raw: bytes, wanted: Mapping[str, bytes]) -> bytes:
    """`raw` with exactly the `wanted` lines (mark -> line) of ours in it.

    A line that is there is replaced where it stands. A new one goes to the end, but to the top of
    a table that sets variables: SHELL, CRON_TZ or PATH act on the lines below them.
    """
    kept = {own.mark: own.number for own in reversed(list_own(raw)) if own.mark in wanted}
    lines: list[bytes] = []
    for number, line in enumerate(split_lines(raw)):
        own = find_own(line)
        if own is None:
            lines.append(line)
        elif kept.get(own.mark) == number:
            lines.append(wanted[own.mark])
    at = 0 if any(_VARIABLE.match(line) for line in lines) else len(lines)
    lines[at:at] = [line for mark, line in wanted.items() if mark not in kept]
    return b"".join(lines)


def find_variables_above(raw: bytes, number: int) -> list[str]:
    """Names of the variables that the table sets above line `number`."""
    above = [line for line in split_lines(raw)[:number] if _VARIABLE.match(line)]
    return [os.fsdecode(line.split(b"=")[0]).strip(" \t\"'") for line in above]


def keeps_others(before: bytes, after: bytes) -> bool:
    """True when every line of another in `before` is in `after`, in order."""
    remaining = iter(list_others(after))
    return all(line in remaining for line in list_others(before))


def is_as_meant(back: bytes, meant: bytes) -> bool:
    """True when our lines are as meant and no line of another is missing.

    More lines of others are no fault: somebody may have added one in the same second, and putting
    the old table back would lose it.
    """
    ours = [[line for line in split_lines(raw) if find_own(line)] for raw in (back, meant)]
    return ours[0] == ours[1] and keeps_others(meant, back)


# --- The crontab command -------------------------------------------------------------------------
# Listing and replacing. Whatever is not certain leaves the table as it is.

_NO_TABLE = re.compile(rb"(crontab: )?no crontab for [^\s:]+\s*", re.IGNORECASE)

# What the command says -> what it means and the way out.
_REFUSALS: Sequence[tuple[bytes, str, str]] = (
    (b"operation not permitted", "macOS did not let this terminal use crontab",
     "Give the terminal, and /usr/sbin/cron, Full Disk Access in System Settings, Privacy & Security."),
    (b"not allowed to use", "this account is not allowed to use crontab",
     "Ask the administrator to add it to cron.allow, or to take it out of cron.deny."),
    (b"permission denied", "this account may not use crontab here",
     "Ask the administrator to let this account use crontab."),
)
_OTHER_WAY = ("Run `crontab -l`: if it shows your table, try again; if you have none, make an empty one "
              "with `crontab -e`, save it, and try again.")


class Table(NamedTuple):
    """The table as listed; `exists` is False where the account has none."""

    raw: bytes
    exists: bool


def run_crontab(argument: str, folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the first `crontab` of PATH in locale C. Raises Failure when it cannot be run or hangs."""
    import subprocess
    environ = {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}
    try:
        return subprocess.run(["crontab", argument], cwd=folder, stdin=subprocess.DEVNULL, env=environ,
                              capture_output=True, timeout=CRONTAB_TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise Failure(f"There is no crontab command on this machine. {UNCHANGED}",
                      "Install cron (Debian: apt-get install cron), or let another scheduler run "
                      "`companion.py --daily`.") from error
    except subprocess.TimeoutExpired as error:
        raise TableUnknown(f"crontab did not answer within {CRONTAB_TIMEOUT_S:.0f} seconds. {UNCHANGED}",
                           "Find out what it waits for, then try again.") from error
    except OSError as error:
        raise Failure(f"crontab could not be run: {error.strerror}. {UNCHANGED}",
                      "Ask the administrator to let this account use crontab.") from error


def build_refusal(what: str, result: subprocess.CompletedProcess[bytes],
                  way_out: str = _OTHER_WAY) -> TableUnknown:
    """The failure for a command that ended badly, or said something that is not understood."""
    said = clean_text(result.stderr.decode("utf-8", "replace")).strip().rstrip(".")
    for words, meaning, remedy in _REFUSALS:
        if words in result.stderr.lower():
            return TableUnknown(f"{what}: {meaning} ({said}). {UNCHANGED}", remedy)
    if result.returncode < 0:
        how = f"crontab was killed by signal {-result.returncode} after {len(result.stdout)} bytes"
    else:
        how = f"crontab ended with exit code {result.returncode}"
    said = f"said: {said}" if said else "gave no reason"
    return TableUnknown(f"{what}: {how} and {said}. {UNCHANGED}", way_out)


def check_listing(raw: bytes) -> None:
    """Raises TableUnknown for a listing that may be cut off or not letter for letter."""
    if raw and not raw.endswith(b"\n"):
        raise TableUnknown(
            f"The listing of the crontab stops in the middle of a line, after {len(raw)} bytes. {UNCHANGED}",
            "Either it was cut off, or the last line has no end and cron ignores it: open the table with "
            "`crontab -e`, look, save, and try again.")
    if re.search(rb"\\r\n", raw):
        # Debian's crontab lists a carriage return as these two letters: written back, they would
        # stay letters and the job of another would end in a stray r.
        raise TableUnknown(
            rf"A line of the crontab ends in \r, perhaps the end of a Windows line. {UNCHANGED}",
            "crontab does not list such a line letter for letter: take the end off with `crontab -e`, "
            "and try again.")


def load_table() -> Table:
    """The account's table. Raises TableUnknown unless it is certain that this is all of it."""
    result = run_crontab("-l")
    if result.returncode == 1 and not result.stdout and _NO_TABLE.fullmatch(result.stderr):
        return Table(b"", False)
    if result.returncode or result.stderr:
        raise build_refusal("The crontab could not be listed", result)
    check_listing(result.stdout)
    return Table(result.stdout, True)


def keep_copy(home: Home, table: Table) -> Path | None:
    """Keep the table as it was in logs/, with the time in its name; None where there was none."""
    if not table.exists:
        return None
    stem = f"crontab_{companion.local_time(home.now()):%Y-%m-%d_%H%M%S}"
    taken = {path.name for path in companion.list_files(home.logs, "crontab_")}
    names = (f"{stem}{'' if n == 1 else f'_{n}'}.txt" for n in range(1, len(taken) + 2))
    path = home.logs / next(name for name in names if name not in taken)
    with home.lock(home.logs):
        companion.replace_bytes(path, table.raw)
    return path


def write_table(home: Home, raw: bytes) -> None:
    """Give the whole table to crontab as a file: half a pipe would be taken for a whole table."""
    path = home.logs / f".crontab.tmp-{os.getpid()}"
    with home.lock(home.logs):  # so that nobody takes the file for a dead writer's
        companion.replace_bytes(path, raw)
        try:
            # Debian's crontab takes no name over 99 bytes
            name = str(path) if len(os.fsencode(path)) < 100 else path.name
            result = run_crontab(name, home.logs)
        finally:
            companion.remove_file(path)
    if result.returncode:
        raise build_refusal("crontab did not take the new table", result, "See what it says, and try again.")


def verify_table(meant: bytes) -> str | None:
    """What is wrong with the table after a write; None when it is as meant."""
    try:
        back = load_table()
    except Failure as failure:
        return failure.what
    if is_as_meant(back.raw, meant):
        return None
    missing = [line for line in list_others(meant) if line not in list_others(back.raw)]
    return f"{plural(len(missing), 'line')} of others missing" if missing else "our line is not as written"


def restore_table(home: Home, before: Table, fault: str, copy: Path | None) -> Failure:
    """Put the table back after a write that went wrong. Returns the failure that tells how it went."""
    what = f"After the write the crontab was not what was meant ({fault.rstrip('.')})"
    kept = f" It is also kept in {copy}." if copy else ""
    try:
        write_table(home, before.raw)
    except Failure as failure:
        left: str | None = f"putting the old table back failed too ({failure.what.rstrip('.')})"
    else:
        left = verify_table(before.raw)
        left = left and f"the old table was written back, but is not seen there ({left.rstrip('.')})"
    if left is None:
        return Failure(f"{what}; the table is again as it was.{kept}", "Look at `crontab -l`.")
    return Failure(f"{what}; {left}.{kept}", f"Look at `crontab -l`; `crontab {quote_word(str(copy))}` "
                   "puts it back." if copy else "Look at `crontab -l`; there was no table before.")


def replace_table(home: Home, before: Table, after: bytes) -> Path | None:
    """Make `after` the account's table and prove it. Returns the copy of the table as it was."""
    if not keeps_others(before.raw, after) or len(list_others(before.raw)) != len(list_others(after)):
        raise TableUnknown(f"The new table would not keep every line of others. {UNCHANGED}",
                           "Please report this with your `crontab -l`.")
    copy = keep_copy(home, before)
    if load_table() != before:
        raise TableUnknown(f"The crontab changed while this ran, or is not listed the same twice. "
                           f"{UNCHANGED}", "Try again when nobody else edits it.")
    try:
        write_table(home, after)
    except Failure as failure:
        if verify_table(before.raw) is None:
            raise
        raise restore_table(home, before, failure.what, copy) from failure
    fault = verify_table(after)
    if fault is not None:
        raise restore_table(home, before, fault, copy)
    return copy


# --- Settings ------------------------------------------------------------------------------------
# cron has no environment of the owner's: what only the environment holds goes into companion.toml.


def check_settings(home: Home, values: Mapping[str, str]) -> None:
    """Raises Refused when companion.toml cannot take these values; writes nothing."""
    path = home.root / "companion.toml"
    companion.build_toml(path, companion.load_bytes(path), values, "")


def build_settings_to_copy(home: Home, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Settings that only the environment holds, and names where it differs from the file."""
    path = home.root / "companion.toml"
    table = companion.load_toml(path, companion.load_bytes(path))
    names = [name for variable, name in companion.ENVIRONMENT.items() if environ.get(variable)]
    values = {name: str(getattr(home.settings, name)) for name in names}
    copied = {name: value for name, value in values.items() if name not in table}
    stored = companion.build_settings(table, {}, {})
    return copied, [name for name in names if name in table and values[name] != getattr(stored, name)]


# --- Times ---------------------------------------------------------------------------------------
# When a line fires next, on the owner's clock, across clock changes.


class Times(NamedTuple):
    """The time fields of a line as sets; weekday 0 is Sunday."""

    minutes: list[int]
    hours: list[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool  # day and weekday are both given: one of them is enough, that is cron's rule


def build_times(spec: str) -> Times | None:
    """The fields of `spec`; None for @reboot, which has no time."""
    if spec == "@reboot":
        return None
    slices = build_slices(spec)
    minutes, hours, days, months, weekdays = (sorted(map(int, part)) for part in slices)
    either = not any(str(slices[part]).startswith("*") for part in (2, 4))
    return Times(minutes, hours, frozenset(days), frozenset(months), frozenset(weekdays), either)


def is_on_day(times: Times, day: date) -> bool:
    """True when the line fires on that day."""
    matches = (day.day in times.days, day.isoweekday() % 7 in times.weekdays)
    return day.month in times.months and (any(matches) if times.either else all(matches))


def build_moment(naive: datetime) -> datetime:
    """The moment of a local time. One that the clock skips is the change itself: cron catches up then."""
    readings = (naive.replace(fold=fold).timestamp() for fold in (0, 1))
    change, late = (datetime.fromtimestamp(reading, UTC) for reading in sorted(readings))
    if companion.local_time(change).replace(tzinfo=None) == naive:
        return change
    while companion.local_time(change).utcoffset() != companion.local_time(late).utcoffset():
        change += timedelta(minutes=1)
    return change


def find_next(spec: str, now: datetime) -> datetime | None:
    """The first moment after `now` at which a line with these time fields fires, in UTC."""
    times = build_times(spec)
    today = companion.local_time(now).date()
    for offset in range(366 * 8 if times else 0):  # the longest wait is for a 29th of February
        day = today + timedelta(days=offset)
        if times is None or not is_on_day(times, day):
            continue
        moments = (build_moment(datetime.combine(day, clock_time(hour, minute)))
                   for hour in times.hours for minute in times.minutes)
        after = [moment for moment in moments if moment > now]
        if after:
            return min(after)
    return None


def find_hour(spec: str) -> str | None:
    """The first time of the day at which a line fires, as HH:MM; None for @reboot."""
    times = build_times(spec)
    return f"{times.hours[0]:02d}:{times.minutes[0]:02d}" if times else None


def parse_hour(text: str) -> str:
    """`8:05` as `08:05`. Raises Refused for anything that is no time of day."""
    found = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", text)
    if found is None:
        raise Refused(f"{clean_text(text)!r} is no time of day.", "Give it as HH:MM, such as 08:00.")
    return f"{int(found[1]):02d}:{found[2]}"


# --- Surroundings --------------------------------------------------------------------------------
# Whether anything here would start a line at all.

DAEMONS = frozenset({"cron", "crond", "fcron", "cronie"})


def find_daemon(proc: Path) -> bool | None:
    """True when a cron daemon runs, None where that cannot be seen (macOS starts cron by itself)."""
    if not (proc / "self").exists():
        return None
    for path in proc.glob("[0-9]*/comm"):
        try:
            if path.read_text(errors="replace").strip() in DAEMONS:
                return True
        except OSError:  # the process has ended meanwhile
            continue
    return False


# The folders that macOS keeps cron out of.
PROTECTED = ("Desktop", "Documents", "Downloads", "Library/Mobile Documents")


def build_notices(home: Path, user_home: Path, python: str, environ: Mapping[str, str],
                  platform: str, daemon: bool | None) -> list[str]:
    """What may keep the line from running, one sentence each with the way out."""
    notices = []
    if daemon is False:
        notices.append("No cron daemon seems to be running, so nothing will start the check. "
                       "Start it (Debian: service cron start).")
    if platform == "darwin" and any(home.is_relative_to(user_home / name) for name in PROTECTED):
        notices.append("macOS keeps cron out of this folder. Move it, or give /usr/sbin/cron Full Disk "
                       "Access in System Settings, Privacy & Security.")
    if re.search(r"/uv/(environments|archive|builds)-v\d+/", python):
        notices.append("This Python lies in uv's cache and may be cleaned away. Install with a Python "
                       "that stays.")
    if environ.get("TZ"):
        notices.append("TZ is set here, but cron goes by the machine's own time zone.")
    return notices


def list_notices(home: Home) -> list[str]:
    """The notices for this machine."""
    return build_notices(home.root, Path.home(), sys.executable, os.environ, sys.platform,
                         find_daemon(Path("/proc")))


# --- What is shown -------------------------------------------------------------------------------
# Lines of text, one a line of the screen; nothing here reads the table or writes.


class Options(NamedTuple):
    """The command line; `at` is HH:MM or None."""

    at: str | None
    catch_up: bool
    dry_run: bool


class Answer(NamedTuple):
    """What a command has to say."""

    exit_code: int
    lines: list[str]


def render_line(line: bytes) -> str:
    """One line of a crontab for the screen."""
    return clean_text(os.fsdecode(line)).rstrip()


def find_line_home(command: str) -> str | None:
    """The data home that a line names."""
    import shlex
    try:
        words = shlex.split(command)
        return words[words.index("--home") + 1]
    except (ValueError, IndexError):
        return None


NAMES: Mapping[str, str] = {DAILY: "Daily check", CATCH_UP: "Catch-up"}


def render_next(line: OwnLine, now: datetime) -> str:
    """When a line fires next, in words."""
    if not line.enabled:
        return "switched off with a # in the crontab"
    try:
        moment = find_next(line.spec, now)
    except Refused as refused:
        return str(refused)
    if moment is None:
        return "at the next start of the machine" if line.spec == "@reboot" else "never"
    return f"next on {companion.render_moment(companion.format_at(moment))}"


def render_oddities(home: Home, raw: bytes, line: OwnLine) -> list[str]:
    """Why a line of ours may not do what it looks like."""
    lines, named = [], find_line_home(line.command)
    if named is not None and named != str(home.root):
        lines.append(f"  It is for {named}, not for this data home. Install again to change that.")
    above = find_variables_above(raw, line.number)
    if above:
        lines.append(f"  The table sets {', '.join(above)} above this line, and that acts on it.")
    return lines


def render_schedule(home: Home, raw: bytes) -> list[str]:
    """Our lines with their next time, and what is odd about them."""
    own = sorted(list_own(raw), key=lambda line: line.mark != DAILY)
    lines = [part for line in own for part in (
        f"{NAMES[line.mark]}: {render_next(line, home.now())}",
        f"  {render_line(split_lines(raw)[line.number])}", *render_oddities(home, raw, line))]
    if not any(line.mark == DAILY for line in own):
        lines.insert(0, "No daily check is scheduled. `install_schedule.py install` does it.")
    return lines


def render_found(home: Home, own: Sequence[OwnLine], options: Options) -> list[str]:
    """What an install does to lines that were there already."""
    lines = []
    daily = [line for line in own if line.mark == DAILY]
    if daily and options.at is None:
        lines.append(f"The time that was there is kept: {daily[0].spec}")
    elsewhere = {find_line_home(line.command) for line in daily} - {str(home.root)}
    lines += [f"It takes the place of the line for {name}." for name in sorted(filter(None, elsewhere))]
    if daily and not daily[0].enabled:
        lines.append("The line was switched off with a #; it is on again.")
    if len(daily) > 1:
        lines.append(f"There were {len(daily)} lines of ours; one is left.")
    return lines


def render_table_kept(before: Table, copy: Path | None) -> list[str]:
    """That the rest is untouched, and where the copy is."""
    others = len(list_others(before.raw))
    told = [f"Lines of others: {others}, all unchanged."] if others else []
    return [*told, f"The table as it was: {copy}"] if copy else told


def render_settings(copied: Iterable[str], differing: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """What was copied into companion.toml, and where it and the environment differ."""
    names = ", ".join(copied)
    lines = [f"Copied into companion.toml, because only the environment held it: {names}."] if names else []
    if environ.get("COMPANION_HOME"):
        lines.append("COMPANION_HOME need not be copied: the line itself names the data home.")
    return lines + [f"{name}: the environment and companion.toml differ; cron will use companion.toml."
                    for name in differing]


def render_dry_run(before: bytes, after: bytes, values: Mapping[str, str]) -> Answer:
    """What would change, with nothing changed."""
    old, new = ([line for line in split_lines(raw) if find_own(line)] for raw in (before, after))
    lines = [f"- {render_line(line)}" for line in old if line not in new]
    lines += [f"+ {render_line(line)}" for line in new if line not in old]
    lines += [f"companion.toml: {name} = {companion.quote_toml(value)}" for name, value in values.items()]
    return Answer(0, [*(lines or ["Nothing would change."]), "Dry run: nothing was changed."])


def render_at(at: str) -> str:
    """A UTC text on the owner's clock; the text itself if it is none."""
    try:
        return companion.render_moment(at)
    except ValueError:
        return at


def render_run(run: companion.CheckRun) -> str:
    """One check on one line."""
    outcome = run.status or f"no end recorded, last step {run.step}"
    reason = f": {companion.shorten(run.reason, 100)}" if run.reason else ""
    by = f" · started by {run.started_by}" if run.started_by else ""
    return companion.clean_line(f"{render_at(run.at)} · {outcome}{reason}{by}")


def render_runs(runs: Sequence[companion.CheckRun]) -> list[str]:
    """The last ten checks, newest first, with their outcome."""
    return ["Last checks:" if runs else "No check has run yet.",
            *(f"  {render_run(run)}" for run in reversed(runs[-10:]))]


def render_days_missed(home: Home) -> list[str]:
    """When the last good check was, and the days of the last month that nobody looked at."""
    state, readings = companion.build_check_state(home), companion.load_readings(home)
    missed = [day for before, after in pairwise(readings) for day in companion.list_missed_days(
        before.at, companion.local_day(companion.parse_at(after.at)))]
    month = companion.local_day(home.now()) - timedelta(days=30)
    days = [companion.render_date(day) for day in (*missed, *state.missed) if day >= month]
    lines = [companion.render_check_state(state)]
    return [*lines, f"Not looked at in the last 30 days: {', '.join(days)}."] if days else lines


# --- Commands ------------------------------------------------------------------------------------
# Each returns its exit code and what to print.


def find_lock_folder(home: Home) -> Path:
    """The folder whose lock two installs share, whatever data homes they have."""
    folder = Path(os.path.expanduser("~"))
    return folder if folder.is_dir() else home.root


def find_program(home: Home) -> Path:
    """The folder to run from. A package folder would put every package before the standard library."""
    folder = Path(companion.__file__).resolve().parent
    return home.root if folder.name in ("site-packages", "dist-packages") else folder


def find_spec(own: Sequence[OwnLine], mark: str) -> str | None:
    """The time fields of our line with that mark."""
    return next((line.spec for line in own if line.mark == mark), None)


def check_starts(python: Path, program: Path) -> None:
    """Raises Refused when the check would not even start under cron: no environment, other folder."""
    import subprocess
    command = [str(python), "-X", "utf8", "-c", "import companion, requests"]
    result = subprocess.run(command, cwd=program if program.is_dir() else "/", capture_output=True,
                            env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, check=False)
    if result.returncode:
        said = clean_text(result.stderr.decode("utf-8", "replace")).strip().split("\n")[-1]
        raise Refused(f"Started by cron the daily check would fail: {said}. {UNCHANGED}",
                      f"Install what is missing for {python}, or run this with the Python that has it.")


def choose_spec(own: Sequence[OwnLine], at: str | None, stored: str) -> str:
    """The time fields of the daily line: the owner's stay, and with `at` only hour and minute change."""
    here = find_spec(own, DAILY)
    if here is not None and at is None:
        build_slices(here)
        return here
    hour, minute = map(int, parse_hour(at or stored).split(":"))
    days = "* * *" if here is None or here.startswith("@") else here.split(None, 2)[2]
    return f"{minute} {hour} {days}"


def choose_catch_up_spec(own: Sequence[OwnLine], daily: str) -> str:
    """Hourly, half an hour away from the daily line; the owner's own minute stays."""
    here = find_spec(own, CATCH_UP)
    if here is not None:
        return here
    hour = find_hour(daily) or "00:00"
    return f"{(int(hour[3:]) + 30) % 60} * * * *"


def build_wanted(home: Home, own: Sequence[OwnLine], options: Options) -> dict[str, bytes]:
    """Our lines as they should be, by mark."""
    python, program = Path(os.path.abspath(sys.executable)), find_program(home)
    specs = {DAILY: choose_spec(own, options.at, home.settings.schedule_at)}
    if options.catch_up or any(line.mark == CATCH_UP for line in own):
        specs[CATCH_UP] = choose_catch_up_spec(own, specs[DAILY])
    check_starts(python, program)
    return {mark: build_line(spec, build_command(python, program, home.root, FLAGS[mark]), mark)
            for mark, spec in specs.items()}


# Written above what goes into companion.toml.
COPIED = "copied from the environment by install_schedule.py, for cron has none"
SCHEDULED = "the hour of the daily check, kept by install_schedule.py"


def apply_install(home: Home, before: Table, after: bytes, copied: Mapping[str, str],
                  hour: str) -> Path | None:
    """Settings first, then the table, last the hour: whatever moment this stops, none of them lies."""
    home.make()
    companion.append_bytes(home.logs / "cron.log", b"")
    companion.save_settings(home, copied, COPIED)
    copy = replace_table(home, before, after) if after != before.raw else None
    companion.save_settings(home, {"schedule_at": hour}, SCHEDULED)
    return copy


def cmd_install(home: Home, options: Options, environ: Mapping[str, str]) -> Answer:
    """Schedule the daily check; with `catch_up` also an hourly look whether one was missed."""
    copied, differing = build_settings_to_copy(home, environ)
    with companion.lock_folder(find_lock_folder(home)):
        before = load_table()
        own = list_own(before.raw)
        after = build_table(before.raw, build_wanted(home, own, options))
        new = list_own(after)
        hour = find_hour(find_spec(new, DAILY) or "") or home.settings.schedule_at
        check_settings(home, {**copied, "schedule_at": hour})
        if options.dry_run:
            return render_dry_run(before.raw, after, {**copied, "schedule_at": hour})
        copy = apply_install(home, before, after, copied, hour)
    done = "is in the crontab now." if after != before.raw else "was in the crontab already, just so."
    lines = [f"The daily check {done}", *render_schedule(home, after), *render_found(home, own, options),
             *render_table_kept(before, copy), *render_settings(copied, differing, environ)]
    if not home.settings.dev_username and "dev_username" not in copied:
        lines.append("No DEV account is set, so each check will only say that: put dev_username = \"NAME\" into "
                     f"{home.root / 'companion.toml'}.")
    return Answer(0, [*lines, *list_notices(home)])


def cmd_remove(home: Home, options: Options) -> Answer:
    """Take every line of ours out."""
    with companion.lock_folder(find_lock_folder(home)):
        before = load_table()
        after = build_table(before.raw, {})
        if after == before.raw:
            return Answer(0, ["No daily check is scheduled; there is nothing to remove."])
        if options.dry_run:
            return render_dry_run(before.raw, after, {})
        home.make()
        copy = replace_table(home, before, after)
    return Answer(0, ["The daily check is no longer scheduled. companion.toml keeps its hour.",
                      *render_table_kept(before, copy)])


def cmd_status(home: Home) -> Answer:
    """The line, the next time, the last runs, the days missed. What cannot be read is said, not guessed."""
    try:
        exit_code, lines = 0, render_schedule(home, load_table().raw)
    except Failure as failure:
        exit_code, lines = failure.exit_code, [str(failure)]
    runs = render_runs(companion.list_runs(home))
    return Answer(exit_code, [*lines, *render_days_missed(home), *runs, *list_notices(home)])


# --- Command line --------------------------------------------------------------------------------
# The only place that prints.


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    import argparse
    parser = argparse.ArgumentParser(
        prog="install_schedule.py",
        description="Put Companion's daily check into cron, show it, take it out.")
    parser.add_argument("action", nargs="?", default="status", choices=["install", "status", "remove"],
                        help="status, if none is given")
    parser.add_argument("--at", metavar="HH:MM", help="install: the hour of the check")
    parser.add_argument("--catch-up", action="store_true",
                        help="install: also look every hour whether a check was missed")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, change nothing")
    parser.add_argument("--home", metavar="DIR", help="the data home")
    return parser


def open_home(flag: str | None, environ: Mapping[str, str]) -> Home:
    """The data home as companion.py would find it, with an absolute path."""
    root = Path(os.path.abspath(companion.find_root(flag, environ, Path(companion.__file__).resolve())))
    return Home(root, companion.load_settings(root, environ, {}))


def run_action(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    """Do what the command line says."""
    if arguments.action != "install" and (arguments.at or arguments.catch_up):
        raise Refused("--at and --catch-up go with install.", "Try: install_schedule.py install --at 08:00")
    at = None if arguments.at is None else parse_hour(arguments.at)
    options = Options(at, arguments.catch_up, arguments.dry_run)
    home = open_home(arguments.home, environ)
    if arguments.action == "install":
        return cmd_install(home, options, environ)
    return cmd_remove(home, options) if arguments.action == "remove" else cmd_status(home)


def show(text: str, file: TextIO | None = None) -> None:
    """Print one line, whatever is in it and whatever the terminal can show."""
    file = file or sys.stdout
    encoding = file.encoding or "utf-8"
    print(clean_text(text).encode(encoding, "backslashreplace").decode(encoding), file=file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one action; the exit code."""
    try:
        answer = run_action(build_parser().parse_args(argv), os.environ)
    except Failure as failure:
        show(str(failure), sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130
    try:
        for line in answer.lines:
            show(line)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader had seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return answer.exit_code


if __name__ == "__main__":
    sys.exit(main())
