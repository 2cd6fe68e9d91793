#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "ollama>=0.6,<0.7",
#     "prompt-toolkit>=3.0.50,<4",
#     "python-crontab>=3.2,<4",
#     "requests>=2.32,<3",
#     "rich>=14,<16",
# ]
# ///
"""Companion: a terminal companion on a local model that cannot put words in its owner's mouth.

What happens to a line that the owner types:

    keyboard -> entry -> command?  yes -> ledger line (hash-chained) -> read back -> "saved"
                         no  -> recall -> ON RECORD, worded by code, shown at once
                                       -> model, with read-only tools
                                       -> check of its prose -> shown, retried once, or withheld

The promises. The code that keeps one, the test that attacks it and its line in --selftest carry its number.

P1   The model has no tool that writes. Its tools are an allowlist; other names are refused and logged.
P2   Only what the owner typed becomes the owner's record, and only /decide makes a decision.
P3   Every record names its author and the code path that wrote it; the code stamps both.
P4   What a helper or an import wrote stays unconfirmed until the owner confirms it.
P5   Nothing but a decision record is called decided; the standing shown is looked up by code.
P6   The busiest writer cannot push out the owner's words: each kind has a window of its own.
P7   The daily report says only what was fetched, and says what was not looked at.
P8   A change is recorded exactly once, whatever moment the machine dies.
P9   A ledger tells fine, torn, shortened, rolled back and rewritten apart, and says what it cannot know.
P10  Forgotten means gone: ledgers, logs, chats, input history, reports and every later prompt.
P11  Every record has a lifetime; a lapsed one is not recalled.
P12  Text that was only read is data: labelled, cleaned, unable to change a record or the screen.
P13  The owner's words stay on this machine unless the owner says otherwise.

What is not promised: a program that runs as the owner can open a terminal and type; a false line that the
owner confirms stays false; on a machine that is the owner's alone the record is evidence, not proof.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

# --- 1. Settings ---------------------------------------------------------------------------------
# Names, defaults and limits, and how a settings table becomes one value. Keeps P6 and P11 (windows
# and lifetimes are data here). It must not read or write a file.

VERSION = "0.1.0"

DEFAULT_LIFETIMES: Mapping[str, int] = {  # days; decisions do not lapse (P11)
    "preference": 365, "proposal": 180, "note": 180, "confirmed": 90, "unconfirmed": 7,
    "observation": 30,
}
DEFAULT_WINDOWS: Mapping[str, int] = {"observation": 30, "unconfirmed": 10}  # newest N in a prompt (P6)
LIMITS: Mapping[str, tuple[int, int]] = {
    "num_ctx": (1024, 1_048_576), "num_predict": (16, 8192),
}
THINKING_MODES = ("hidden", "dim")
ENVIRONMENT: Mapping[str, str] = {  # environment variable -> setting
    "COMPANION_MODEL": "model", "OLLAMA_HOST": "host", "DEV_USERNAME": "dev_username",
    "DEV_URL": "dev_url",
}


class Settings(NamedTuple):
    """Everything the owner can set. Lifetimes are days, windows are numbers of records."""

    model: str = "llama3.2"
    host: str = "http://127.0.0.1:11434"
    dev_username: str | None = None
    dev_url: str = "https://dev.to"
    num_ctx: int = 8192
    num_predict: int = 600
    keep_alive: str = "30m"
    warm: bool = True
    thinking: str = "hidden"
    embed_model: str = ""
    keep_chat: bool = True
    allow_remote: bool = False
    color: bool = True
    debug: bool = False
    schedule_at: str = "08:00"
    windows: Mapping[str, int] = DEFAULT_WINDOWS
    lifetimes: Mapping[str, int] = DEFAULT_LIFETIMES


def build_settings(table: Mapping[str, Any], environ: Mapping[str, str],
                   flags: Mapping[str, Any]) -> Settings:
    """Settings from companion.toml's `table`, overridden by `environ`, overridden by `flags`.

    Raises ValueError naming the setting that is wrong and what it may be.
    """
    values: dict[str, Any] = {}
    for name, value in table.items():
        values[name] = _build_value(name, value)
    for variable, name in ENVIRONMENT.items():
        if environ.get(variable):
            values[name] = environ[variable]
    values |= {name: value for name, value in flags.items() if value is not None}
    if "host" in values:
        values["host"] = normalise_host(values["host"])
    return Settings(**values)


def _build_value(name: str, value: Any) -> Any:
    """One setting of the file, checked for type and range."""
    default = Settings._field_defaults.get(name, _build_value)
    if default is _build_value:
        raise ValueError(f"companion.toml has no setting called {name!r}")
    if name in ("windows", "lifetimes"):
        return _build_numbers(name, value, default)
    wanted = str if default is None else type(default)
    if type(value) is not wanted:
        raise ValueError(f"companion.toml: {name} must be {_TYPE_NAMES[wanted]}, not {value!r}")
    if name in LIMITS and int(value) not in range(LIMITS[name][0], LIMITS[name][1] + 1):
        raise ValueError("companion.toml: {} must be from {} to {}".format(name, *LIMITS[name]))
    if name == "thinking" and value not in THINKING_MODES:
        raise ValueError("companion.toml: thinking must be \"hidden\" or \"dim\"")
    return value


_TYPE_NAMES = {str: "a text in quotes", int: "a whole number", bool: "true or false"}


def _build_numbers(name: str, value: Any, default: Mapping[str, int]) -> Mapping[str, int]:
    """A table of whole numbers over its defaults."""
    if not isinstance(value, dict) or not set(value) <= set(default):
        raise ValueError(f"companion.toml: {name} may hold {', '.join(default)}")
    if any(type(n) is not int or n < 1 for n in value.values()):
        raise ValueError(f"companion.toml: the numbers in {name} must be whole and at least 1")
    return {**default, **value}


def normalise_host(text: str) -> str:
    """OLLAMA_HOST in any of its forms as a full address; a wildcard means loopback (P13)."""
    scheme, rest = text.strip().split("://", 1) if "://" in text else ("", text.strip())
    rest = rest.rstrip("/")
    host, port = _split_port(rest)
    if host in ("", "0.0.0.0", "::", "localhost"):
        host = "127.0.0.1"
    port = port or {"http": "80", "https": "443"}.get(scheme, "11434")
    if not port.isdigit() or not 0 < int(port) < 65536 or not re.fullmatch(r"[\w.:-]+", host):
        raise ValueError(f"the Ollama address {text!r} cannot be read; use one like 127.0.0.1:11434")
    return f"{scheme or 'http'}://{'[' + host + ']' if ':' in host else host}:{port}"


def _split_port(text: str) -> tuple[str, str]:
    """`host:port` or `[v6]:port` or either without the port."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, port.removeprefix(":")
    if text.count(":") > 1:
        return text, ""
    host, _, port = text.partition(":")
    return host, port


def find_root(flag: str | None, environ: Mapping[str, str], program: Path) -> Path:
    """The data home: the flag, $COMPANION_HOME, a checkout's own folder, the user data folder."""
    if flag or environ.get("COMPANION_HOME"):
        return Path(flag or environ["COMPANION_HOME"]).expanduser().absolute()
    if (program.parent / "pyproject.toml").exists() and (program.parent / "memory").exists():
        return program.parent
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "companion"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "companion"


# --- 2. Failures ---------------------------------------------------------------------------------
# Every failure that the owner can meet: one sentence, a way out, an exit code. Children that belong
# to one section stand there. It must not print.


class Failure(Exception):
    """Something that could not be done: `what` happened and the `way_out`, each one sentence."""

    exit_code = 1

    def __init__(self, what: str, way_out: str = "") -> None:
        super().__init__(what, way_out)
        self.what, self.way_out = what, way_out

    def __str__(self) -> str:
        return f"{self.what} {self.way_out}".strip()


class Refused(Failure):
    """Wrong use, or something that the program does not do."""

    exit_code = 2


class ModelUnreachable(Failure):
    """No model can be asked."""

    exit_code = 3


class LedgerDamaged(Failure):
    """A ledger cannot be trusted and takes no new line."""

    exit_code = 4


class StorageFailed(Failure):
    """A file could not be read or written; nothing was changed."""


# --- 3. Plain helpers ----------------------------------------------------------------------------
# Canonical JSON, digests, cleaning of text, times. Keeps the cleaning half of P12. No I/O here, but
# for the local time zone.

# Characters that move the cursor, hide, reorder or carry unseen text. New line and tab stay.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(f"[{_HIDDEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_HIDDEN}\x7f]")


def _render_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _render_json_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xd800 + (code >> 10):04x}\\u{0xdc00 + (code & 0x3ff):04x}"


def clean_text(text: str) -> str:
    """`text` with every control, bidi, zero-width and tag character shown as an escape (P12)."""
    return _UNSAFE.sub(_render_escape, text)


def clean_line(text: str) -> str:
    """`clean_text` on one line: every run of white space becomes one blank."""
    return " ".join(clean_text(text).split())


def merge_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined, so that writing and reading it gives it back."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") \
        if re.search("[\ud800-\udbff][\udc00-\udfff]", text) else text


def shorten(text: str, width: int) -> str:
    """At most `width` characters, an ellipsis where something was cut."""
    return text if len(text) <= width else text[:width - 1].rstrip() + "…"


def plural(n: int, word: str) -> str:
    """`1 record`, `3 records`, `2 replies`."""
    if n == 1:
        return f"{n} {word}"
    return f"{n} {word[:-1]}ies" if re.search("[^aeiou]y$", word) else f"{n} {word}s"


def canonical_json(value: Any) -> str:
    """The one form that is hashed: sorted keys, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def dump_json(value: Any, indent: int | None = None) -> str:
    """JSON for a file that a person reads: letters as they are, no raw control character (P12)."""
    return _UNSAFE_IN_JSON.sub(_render_json_escape,
                               json.dumps(value, ensure_ascii=False, indent=indent))


def digest(text: str) -> str:
    """`sha256:` and 64 hex digits over the UTF-8 form of `text`."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parse_json(raw: bytes) -> Any:
    """The value of one JSON text; ValueError for anything that is none."""
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def format_at(when: datetime) -> str:
    """UTC to the millisecond: `2026-11-29T18:03:11.482Z`."""
    when = when.astimezone(UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"


def parse_at(text: str) -> datetime:
    """The aware time of `format_at`; ValueError when it is none."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    return when.astimezone(UTC)


def local_time(when: datetime) -> datetime:
    """`when` on the owner's clock."""
    return when.astimezone()


def local_day(when: datetime) -> date:
    """The owner's calendar day at `when`."""
    return local_time(when).date()


def render_date(day: date) -> str:
    """`5 Oct 2026`, in English whatever the locale."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def render_day(at: str) -> str:
    """The owner's day of a UTC time or of a bare `2027-05-28`; the text itself if it is neither."""
    try:
        return render_date(date.fromisoformat(at) if len(at) == 10 else local_day(parse_at(at)))
    except ValueError:
        return clean_line(at)


# --- 4. Durable files ----------------------------------------------------------------------------
# Append, replace, remove, lock, sync: the only section that writes. Keeps the file half of P8. Every
# file is 0600 and every folder 0700 from its first byte; links and special files are refused.

FILE_LIMIT = 1 << 30  # a ledger past one GiB is not read into memory


class Home:
    """The data home with what the outside gives: a clock, random bytes, and a place for notices."""

    def __init__(self, root: Path, settings: Settings | None = None, *,
                 now: Callable[[], datetime] = lambda: datetime.now(UTC),
                 entropy: Callable[[int], bytes] = os.urandom,
                 notice: Callable[[str], None] = lambda text: None) -> None:
        self.root, self.settings = root, settings or Settings()
        self.memory, self.logs, self.reports = root / "memory", root / "logs", root / "reports"
        self.now, self.entropy, self.notice = now, entropy, notice
        self._depth: dict[Path, int] = {}

    def make(self) -> None:
        """Create the three folders, or tighten them. Raises StorageFailed."""
        for folder in (self.root, self.memory, self.logs, self.reports):
            make_folder(folder, tighten=folder != self.root)

    @contextmanager
    def lock(self, folder: Path, wait_s: float = 20.0) -> Iterator[None]:
        """Hold `folder` alone; may be nested. Memory comes before logs, so that none waits in a ring."""
        self._depth[folder] = self._depth.get(folder, 0) + 1
        try:
            if self._depth[folder] > 1:
                yield
                return
            with lock_folder(folder, wait_s=wait_s, on_wait=lambda: self.notice(
                    "Waiting for another companion that is writing …")):
                yield
        finally:
            self._depth[folder] -= 1


def _storage_failure(path: Path, error: OSError, verb: str) -> StorageFailed:
    return StorageFailed(f"{path} could not be {verb}: {error.strerror or error}.",
                         "Nothing was lost; free the disk or mend the permissions, then try again.")


def make_folder(path: Path, *, tighten: bool = True) -> None:
    """Create `path` with 0700, or tighten it. A link or a file in its place is refused."""
    try:
        if path.is_symlink() and tighten:
            raise StorageFailed(f"{path} is a link.", "Put a real folder in its place.")
        if not path.exists():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not path.is_dir():
            raise StorageFailed(f"{path} is not a folder.", "Move it away and start again.")
        elif tighten and path.stat().st_mode & 0o077 and path.stat().st_uid == os.getuid():
            path.chmod(0o700)
    except OSError as error:
        raise _storage_failure(path, error, "created") from error


def check_regular(path: Path) -> os.stat_result | None:
    """The state of a regular file, None where there is none; StorageFailed for anything else."""
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _storage_failure(path, error, "read") from error
    if (state.st_mode & 0o170000) != 0o100000:
        raise StorageFailed(f"{path} is not a regular file.",
                            "Move it away; companion opens neither links nor devices here.")
    return state


def load_bytes(path: Path, limit: int | None = None, start: int = 0) -> bytes:
    """The bytes of a regular file from `start`, b"" where there is none, at most `limit` of them."""
    if check_regular(path) is None:
        return b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            file.seek(start)
            return file.read(FILE_LIMIT if limit is None else limit)
    except OSError as error:
        raise _storage_failure(path, error, "read") from error


def _open_to_write(path: Path, flags: int) -> int:
    """A descriptor on a regular file with mode 0600, old ones tightened."""
    check_regular(path)
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_CREAT, 0o600)
    if os.fstat(descriptor).st_mode & 0o177:
        os.fchmod(descriptor, 0o600)
    return descriptor


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


def sync_folder(folder: Path) -> None:
    """Make a created, renamed or removed name in `folder` outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_bytes(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Add `data` at the end of `path`. A write that does not fit is taken back. Raises StorageFailed."""
    try:
        is_new = check_regular(path) is None
        descriptor = _open_to_write(path, os.O_WRONLY | os.O_APPEND)
        try:
            before = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, data)
                if sync:
                    os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)
        if is_new and sync:
            sync_folder(path.parent)
    except OSError as error:
        raise _storage_failure(path, error, "written") from error


def append_line(path: Path, text: str, *, sync: bool = True) -> None:
    """Add one line to a log. Half a line that a crash left is closed first, never glued to this one."""
    state = check_regular(path)
    torn = state is not None and state.st_size > 0 and load_bytes(path, 1, state.st_size - 1) != b"\n"
    append_bytes(path, (b"\n" if torn else b"") + text.encode("utf-8", "surrogatepass") + b"\n",
                 sync=sync)


def replace_bytes(path: Path, data: bytes) -> None:
    """Put `data` in place of `path` at one stroke: a reader sees the old or the new, whole."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        check_regular(path)
        remove_file(temporary)
        descriptor = _open_to_write(temporary, os.O_WRONLY | os.O_EXCL)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        remove_file(temporary)
        raise _storage_failure(path, error, "written") from error


def truncate_file(path: Path, size: int) -> None:
    """Cut `path` to `size` bytes."""
    try:
        descriptor = _open_to_write(path, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _storage_failure(path, error, "cut") from error


def remove_file(path: Path) -> bool:
    """Remove `path`; False where there was none. Raises StorageFailed."""
    try:
        os.unlink(path)
        return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _storage_failure(path, error, "removed") from error


def list_files(folder: Path, pattern: str = "*") -> list[Path]:
    """Regular files of `folder` that match, by name; an absent folder has none."""
    return sorted(p for p in folder.glob(pattern) if p.is_file() and not p.is_symlink())


def remove_leftovers(home: Home) -> None:
    """Remove temporary files of writers that died (they may hold words that were forgotten, P10)."""
    for folder in (home.root, home.memory, home.logs, home.reports):
        with home.lock(folder):
            for path in list_files(folder, ".*.tmp-*"):
                remove_file(path)


@contextmanager
def lock_folder(path: Path, wait_s: float = 20.0, on_wait: Callable[[], None] | None = None, *,
                clock: Callable[[], float] = time.monotonic,
                sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold `path` alone among all companions. Waits at most `wait_s`, saying so after half a second."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _storage_failure(path, error, "locked") from error
    try:
        _wait_for_lock(descriptor, path, wait_s, on_wait, clock, sleep)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, path: Path, wait_s: float, on_wait: Callable[[], None] | None,
                   clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    started, told = clock(), on_wait is None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            waited = clock() - started
        if waited >= wait_s:
            raise StorageFailed(f"Another companion has held {path} for {waited:.0f} seconds.",
                                "Close it, then try again; nothing was written.")
        if not told and waited > 0.5 and on_wait is not None:
            told = True
            on_wait()
        sleep(0.01)


def load_settings(root: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Settings of the home at `root`. Raises Refused naming the setting that is wrong."""
    raw = load_bytes(root / "companion.toml", 1 << 20)
    table: dict[str, Any] = {}
    try:
        if raw:
            import tomllib
            table = tomllib.loads(raw.decode("utf-8"))
        return build_settings(table, environ, flags)
    except ValueError as error:
        raise Refused(f"{str(error).rstrip('.')}.", f"Mend {root / 'companion.toml'} or the variable.") \
            from error


def log_event(home: Home, event: str, *, sync: bool = False, **facts: Any) -> None:
    """Add one line to logs/events.jsonl. It holds ids, names and counts, never the owner's words (P10)."""
    entry = {"at": format_at(home.now()), "event": event, **facts}
    with home.lock(home.logs):
        append_line(home.logs / "events.jsonl", dump_json(entry), sync=sync)


# --- 5. Ledger -----------------------------------------------------------------------------------
# The append-only files and their proof: format, parse, append, erase, verify. Keeps P8, P9, and the
# redactable chain of P10. Write order: line, fsync, heads.json, event. It never repairs silently:
# a torn tail is set aside and told; damage anywhere else is only reported.

LINE_FIELDS = (
    "seq", "at", "op", "id", "target", "kind", "text", "evidence", "author", "path", "input",
    "session", "turn", "source", "expires", "replaces", "salt", "text_digest", "evidence_digest",
    "prev", "hash",
)
WORDS = ("text", "evidence", "salt")  # erased by forget; the hash reaches them through digests
LEDGERS = ("memory", "decisions")
VERDICTS = ("fine", "torn", "shortened", "rolled back", "rewritten")
FINGERPRINT = re.compile(r"chain (memory|decisions) (\d+) (sha256:[0-9a-f]{16,64})")
UNKNOWABLE = (
    "A ledger that was put back to an earlier moment together with heads.json, the event log and "
    "the reports cannot be told from an honest one; a fingerprint kept elsewhere can."
)


class Line(TypedDict):
    """One ledger line; LINE_FIELDS is its order in the file."""

    seq: int
    at: str
    op: str
    id: str | None
    target: str | None
    kind: str | None
    text: str | None
    evidence: str | None
    author: str
    path: str
    input: str
    session: str | None
    turn: int | None
    source: dict[str, Any] | None
    expires: str | None
    replaces: str | None
    salt: str | None
    text_digest: str | None
    evidence_digest: str | None
    prev: str
    hash: str


class Draft(NamedTuple):
    """What a writer wants to add; number, time, salt and hashes are put in by the ledger."""

    op: str
    author: str
    path: str
    has_id: bool = False
    target: str | None = None
    kind: str | None = None
    text: str | None = None
    evidence: str | None = None
    input: str = "none"
    session: str | None = None
    turn: int | None = None
    source: dict[str, Any] | None = None
    expires: str | None = None
    replaces: str | None = None


class Head(NamedTuple):
    """Number and hash of a ledger's last line."""

    seq: int
    hash: str


class Witness(NamedTuple):
    """A head as it was seen elsewhere; `hash` may be its beginning only."""

    where: str
    seq: int
    hash: str


class Fault(NamedTuple):
    """One damaged line of a file, counted from 1."""

    line: int
    why: str


class Verdict(NamedTuple):
    """What can be said of a ledger. `line` and `witness` name where it went wrong, or are None."""

    verdict: str
    line: int | None
    witness: str | None
    detail: str

    @property
    def is_sound(self) -> bool:
        """True if the ledger may be used and added to."""
        return self.verdict in ("fine", "torn")


def build_empty_head(name: str) -> Head:
    """What the first line of a ledger follows: the two ledgers begin differently."""
    return Head(0, digest(f"companion ledger {name}"))


def format_line(line: Line) -> bytes:
    """The line's bytes without the line feed, in the file's key order. `parse_line` is its inverse."""
    return dump_json({name: line[name] for name in LINE_FIELDS}).encode("utf-8")  # type: ignore[literal-required]


def parse_line(raw: bytes) -> Line:
    """The line of one file line. ValueError says why it is none."""
    value = parse_json(raw)
    if not isinstance(value, dict) or tuple(value) != LINE_FIELDS:
        raise ValueError("the fields are not those of a ledger line")
    for name, kinds in _FIELD_TYPES.items():
        if type(value[name]) not in kinds:
            raise ValueError(f"{name} has the wrong type")
    return value  # type: ignore[return-value]


_TEXT_OR_NONE = (str, type(None))
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(LINE_FIELDS, _TEXT_OR_NONE), "seq": (int,), "turn": (int, type(None)),
    "source": (dict, type(None)),
    **dict.fromkeys(("at", "op", "author", "path", "input", "prev", "hash"), (str,)),
}


def build_hash(line: Line) -> str:
    """The hash over every field but the words, the salt and itself."""
    return digest(canonical_json({name: value for name, value in line.items()
                                  if name not in WORDS and name != "hash"}))


def build_words_digest(salt: str | None, words: str | None) -> str | None:
    """Digest of salt and words; null words have a null digest."""
    return None if words is None else digest(f"{salt}{words}")


def build_line(draft: Draft, head: Head, new_id: str | None, at: str, salt: str) -> Line:
    """The line that follows `head`."""
    text = None if draft.text is None else merge_surrogates(draft.text)
    evidence = None if draft.evidence is None else merge_surrogates(draft.evidence)
    used = None if text is None and evidence is None else salt
    line = Line(
        seq=head.seq + 1, at=at, op=draft.op, id=new_id, target=draft.target, kind=draft.kind,
        text=text, evidence=evidence, author=draft.author, path=draft.path, input=draft.input,
        session=draft.session, turn=draft.turn, source=draft.source, expires=draft.expires,
        replaces=draft.replaces, salt=used, text_digest=build_words_digest(used, text),
        evidence_digest=build_words_digest(used, evidence), prev=head.hash, hash="")
    line["hash"] = build_hash(line)
    return line


def find_own_fault(line: Line, raw: bytes) -> str | None:
    """Why this line cannot be trusted by itself, or None."""
    if format_line(line) != raw:
        return "it is not in the form that this program writes"
    if line["hash"] != build_hash(line):
        return "its hash does not match its fields"
    for name in ("text", "evidence"):
        words, kept = line[name], line[f"{name}_digest"]  # type: ignore[literal-required]
        if words is not None and build_words_digest(line["salt"], words) != kept:
            return f"its {name} does not match the digest"
    if line["salt"] is not None and line["text"] is None and line["evidence"] is None:
        return "it has a salt and no words"
    return None


def find_link_fault(line: Line, head: Head) -> str | None:
    """Why this line does not follow `head`, or None."""
    if line["seq"] != head.seq + 1:
        return f"number {line['seq']} follows number {head.seq}"
    return None if line["prev"] == head.hash else "it does not follow the line before it"


def lost_words(line: Line) -> bool:
    """True if the line once had words and has none now."""
    return (line["text"] is None and line["text_digest"] is not None) or \
        (line["evidence"] is None and line["evidence_digest"] is not None)


def build_forgotten(lines: Iterable[Line]) -> set[str]:
    """The ids that a forget line names."""
    return {line["target"] for line in lines if line["op"] == "forget" and line["target"]}


def is_forgotten(line: Line, forgotten: set[str]) -> bool:
    """True if a forget line covers the words of this one: its own id, or a reason about that id."""
    return line["id"] in forgotten or (line["op"] == "undecide" and line["target"] in forgotten)


def parse_id(record_id: str | None) -> int:
    """The number in `m12` or `d3`, 0 for anything else."""
    return int(record_id[1:]) if record_id and re.fullmatch(r"[md][1-9][0-9]{0,9}", record_id) else 0


class Ledger:
    """One ledger file as last read. `lines` are the trustworthy ones, `faults` name the others.

    Made by the records section; every writer goes through `append_all` or `erase`.
    """

    def __init__(self, home: Home, name: str) -> None:
        self.home, self.name = home, name
        self.path = home.memory / f"{name}.jsonl"
        self._forget_all()

    def _forget_all(self) -> None:
        self.lines: list[Line] = []
        self.faults: list[Fault] = []
        self.hashes: dict[int, str] = {}
        self.head = build_empty_head(self.name)
        self.torn = b""
        self.generation = getattr(self, "generation", 0) + 1  # rises when known lines may have changed
        self._taken, self._count, self._state = 0, 0, (0, 0, 0)
        self._ids = 0

    def refresh(self, *, full: bool = False, appended: bool = False) -> None:
        """Take in what was written since the last call; everything if known bytes may have changed.

        `full` checks every line; else memory is checked from its last witnessed head on (P9).
        `appended` says that the caller holds the lock and only added to what was just read.
        """
        state = self._find_state()
        if not full and state == self._state:
            return
        if full or not appended and self._may_differ(state):
            self._forget_all()
        self._state = state
        data = load_bytes(self.path, start=self._taken)
        whole, _, self.torn = data.rpartition(b"\n")
        if _:
            self._take(whole.split(b"\n"), self._find_trusted(full))
            self._taken += len(whole) + 1

    def _may_differ(self, state: tuple[int, int, int]) -> bool:
        """True if bytes already taken in may be other ones now; decisions are always read anew (P9)."""
        grown = state[1] > self._taken + len(self.torn)
        return self.name == "decisions" or state[0] != self._state[0] or not grown

    def _find_state(self) -> tuple[int, int, int]:
        found = check_regular(self.path)
        return (found.st_ino, found.st_size, found.st_mtime_ns) if found else (0, 0, 0)

    def _find_trusted(self, full: bool) -> int:
        """The number up to which lines need no check: those that heads.json has witnessed."""
        if full or self.name == "decisions" or self._taken:
            return 0
        kept = load_heads(self.home).get(self.name)
        return kept.seq if kept else 0

    def _take(self, raws: list[bytes], trusted: int) -> None:
        for raw in raws:
            self._count += 1
            try:
                line = parse_line(raw)
            except ValueError as error:
                self.faults.append(Fault(self._count, f"it cannot be read: {error}"))
                continue
            why = find_own_fault(line, raw) if line["seq"] > trusted else None
            link = find_link_fault(line, self.head)
            if why or link:
                self.faults.append(Fault(self._count, why or link or ""))
            if not why:
                self.lines.append(line)
            self.head = Head(line["seq"], line["hash"])
            self.hashes[line["seq"]] = line["hash"]
            self._ids = max(self._ids, parse_id(line["id"]))

    def list_faults(self) -> list[Fault]:
        """All faults, those among them that only the whole file shows: words gone without a forget."""
        forgotten = build_forgotten(self.lines)
        gone = [Fault(line["seq"], "its words are gone and no forget line says why")
                for line in self.lines if lost_words(line) and not is_forgotten(line, forgotten)]
        return sorted(self.faults + gone)

    def list_unfinished(self) -> list[Line]:
        """Lines that a forget line names and that still have their words."""
        forgotten = build_forgotten(self.lines)
        return [line for line in self.lines if line["salt"] and is_forgotten(line, forgotten)]

    def verify(self, *, full: bool = False) -> Verdict:
        """The verdict over the file and its witnesses; `full` re-reads everything. Writes nothing."""
        self.refresh(full=full)
        return build_verdict(self, find_witnesses(self.home, self.name, full=full))

    def append_all(self, drafts: Sequence[Draft]) -> list[Line]:
        """Add lines durably and return them as read back.

        Raises LedgerDamaged for decisions that are not sound, StorageFailed when nothing was saved.
        """
        with self.home.lock(self.home.memory):
            self._prepare()
            built = self._build_lines(drafts)
            append_bytes(self.path, b"".join(format_line(line) + b"\n" for line in built))
            self.refresh(appended=True)
            if built and self.lines[-len(built):] != built:
                raise StorageFailed(f"{self.path} does not hold what was written to it.",
                                    "Check the disk; run `companion --verify`.")
            self.save_head()
        return built

    def _prepare(self) -> None:
        """Under the lock: read the tail, refuse unsound decisions, set a torn tail aside."""
        self.refresh()
        if self.name == "decisions":
            check_sound(self.verify())
        if self.torn:
            self._set_torn_aside()

    def _build_lines(self, drafts: Sequence[Draft]) -> list[Line]:
        at, head, ids, built = format_at(self.home.now()), self.head, self._ids, list[Line]()
        for draft in drafts:
            ids += draft.has_id
            new_id = f"{self.name[0]}{ids}" if draft.has_id else None
            line = build_line(draft, head, new_id, at, self.home.entropy(16).hex())
            head = Head(line["seq"], line["hash"])
            built.append(line)
        return built

    def _set_torn_aside(self) -> None:
        kept = self.path.with_name(f"{self.path.name}.torn-{self.home.now():%Y%m%dT%H%M%SZ}")
        replace_bytes(kept, self.torn)
        truncate_file(self.path, self._taken)
        log_event(self.home, "torn_tail", ledger=self.name, kept=kept.name, size=len(self.torn))
        self.home.notice(f"A half-written last line of {self.path.name} was set aside as {kept.name}.")
        self.torn = b""

    def save_head(self) -> None:
        """Put the head into heads.json, then into the event log."""
        save_head(self.home, self.name, self.head)
        log_event(self.home, "ledger_append", sync=True, ledger=self.name, seq=self.head.seq,
                  hash=self.head.hash)

    def erase(self) -> int:
        """Null the words of every line that a forget line names; how many were (P10).

        The other lines keep their bytes, and the chain still verifies.
        """
        with self.home.lock(self.home.memory):
            self.refresh()
            doomed = {line["seq"] for line in self.list_unfinished()}
            if doomed:
                replace_bytes(self.path, b"\n".join(
                    _erase_raw(raw, doomed) for raw in load_bytes(self.path).split(b"\n")))
                self.refresh()
            return len(doomed)


def _erase_raw(raw: bytes, doomed: set[int]) -> bytes:
    try:
        line = parse_line(raw)
    except ValueError:
        return raw
    if line["seq"] not in doomed:
        return raw
    line["text"] = line["evidence"] = line["salt"] = None
    return format_line(line)


def check_sound(verdict: Verdict) -> None:
    """Raise LedgerDamaged unless decisions may be used (P9)."""
    if not verdict.is_sound:
        raise LedgerDamaged(f"The decisions file is {verdict.verdict}: {verdict.detail}.",
                            "Nothing was added. `/verify` shows more, `/verify --accept decisions` "
                            "makes the file as it is the new base.")


def load_heads(home: Home) -> dict[str, Head]:
    """The heads in memory/heads.json; those that cannot be read are left out."""
    heads = {}
    for name, entry in _load_heads_table(home).items():
        if isinstance(entry, dict) and type(entry.get("seq")) is int and isinstance(
                entry.get("hash"), str):
            heads[name] = Head(entry["seq"], entry["hash"])
    return heads


def _load_heads_table(home: Home) -> dict[str, Any]:
    try:
        table = parse_json(load_bytes(home.memory / "heads.json", 1 << 20) or b"{}")
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def save_head(home: Home, name: str, head: Head, accepted_at: str | None = None) -> None:
    """Write one head into heads.json, keeping the other and the time of the last acceptance."""
    table = _load_heads_table(home)
    before = table.get(name)
    kept = before.get("accepted_at") if isinstance(before, dict) else None
    table[name] = {"seq": head.seq, "hash": head.hash, "at": format_at(home.now()),
                   "accepted_at": accepted_at or kept}
    replace_bytes(home.memory / "heads.json", dump_json(table, indent=1).encode() + b"\n")


def render_fingerprint(name: str, head: Head) -> str:
    """`chain decisions 3 sha256:0123456789abcdef`: short enough to note, a witness for `verify`."""
    return f"chain {name} {head.seq} {head.hash[:23]}"


def find_witnesses(home: Home, name: str, *, full: bool = False) -> list[Witness]:
    """Every copy of this ledger's head: heads.json, the event log, reports (newest unless `full`)."""
    heads = load_heads(home)
    found = [Witness("heads.json", *heads[name])] if name in heads else []
    found += _find_event_witnesses(home, name, full)
    entry = _load_heads_table(home).get(name)
    since = (entry.get("accepted_at") if isinstance(entry, dict) else None) or ""
    for path in list_files(home.reports, "*.md")[0 if full else -3:]:
        if format_at(datetime.fromtimestamp(path.stat().st_mtime, UTC)) < since:
            continue
        text = load_bytes(path, 1 << 20).decode("utf-8", "replace")
        found += [Witness(f"report {path.name}", int(seq), kept)
                  for which, seq, kept in FINGERPRINT.findall(text) if which == name]
    return found


def _find_event_witnesses(home: Home, name: str, full: bool) -> list[Witness]:
    """Heads in the event log since the file was last accepted as a new base."""
    path = home.logs / "events.jsonl"
    state = check_regular(path)
    start = 0 if full or state is None else max(0, state.st_size - (1 << 16))
    found: list[Witness] = []
    for raw in load_bytes(path, start=start).split(b"\n"):
        if b'"ledger_a' not in raw or name.encode() not in raw:
            continue
        witness = _parse_event_witness(raw, name)
        if witness and b'"ledger_accepted"' in raw:
            found = []
        found += [witness] if witness else []
    return found


def _parse_event_witness(raw: bytes, name: str) -> Witness | None:
    try:
        event = parse_json(raw)
        if event["ledger"] == name and event["event"] in ("ledger_append", "ledger_accepted"):
            return Witness("event log", int(event["seq"]), str(event["hash"]))
    except (ValueError, KeyError, TypeError):
        return None
    return None


def build_verdict(ledger: Ledger, witnesses: Sequence[Witness]) -> Verdict:
    """One of VERDICTS from what the file shows and what the witnesses saw."""
    last = ledger.head.seq
    for fault in ledger.list_faults():
        return Verdict("rewritten", fault.line, None, f"line {fault.line}: {fault.why}")
    for witness in witnesses:
        kept = ledger.hashes.get(witness.seq, "")
        if 0 < witness.seq <= last and not kept.startswith(witness.hash):
            return Verdict("rewritten", witness.seq, witness.where,
                           f"line {witness.seq} is not the one that {witness.where} saw")
    ahead = max(witnesses, key=lambda witness: witness.seq, default=Witness("", 0, ""))
    if ahead.seq > last:
        return _build_behind(ledger.head, ahead, witnesses)
    if ledger.torn:
        return Verdict("torn", ledger._count + 1, None,
                       "the last line was cut by a crash; it will be set aside")
    return Verdict("fine", None, None, plural(last, "line"))


def _build_behind(head: Head, ahead: Witness, witnesses: Sequence[Witness]) -> Verdict:
    """Fewer lines than a witness saw: cut off, or put back together with heads.json."""
    kept = next((w.seq for w in witnesses if w.where == "heads.json"), 0)
    heads_agree = kept == head.seq
    return Verdict("rolled back" if heads_agree else "shortened", head.seq + 1, ahead.where,
                   f"it ends at line {head.seq}, {ahead.where} saw {plural(ahead.seq, 'line')}")


# --- 6. Records ----------------------------------------------------------------------------------
# What the lines mean: records, standing, windows, lifetimes, and the only functions that add lines.
# Keeps P2, P3, P4, P5, P6, P11. The author follows from the path; nobody passes one in.

OWNER_KINDS = ("preference", "proposal", "note")
KINDS = (*OWNER_KINDS, "observation")
AUTHORS: Mapping[str, str] = {  # code path -> who wrote it (P3)
    "repl:/remember": "owner", "repl:/decide": "owner", "repl:/undecide": "owner",
    "repl:/confirm": "owner", "repl:/discard": "owner", "repl:/renew": "owner",
    "repl:/forget": "owner", "cli:--forget": "unrecorded", "cli:--note": "helper",
    "daily:check": "code", "chat:start": "code", "import:legacy": "unrecorded",
}
STANDINGS = ("decided", "reversed", "undecided", "unconfirmed", "preference", "note", "observed",
             "no_record")
KIND_STANDING: Mapping[str, str] = {
    "decision": "decided", "preference": "preference", "proposal": "undecided", "note": "note",
    "observation": "observed",
}
RESERVED_NAMES = frozenset(("owner", "code", "helper", "unrecorded", "companion"))
TEXT_LIMIT = 100_000
_OPEN_NOTE = re.compile(
    r"\b(?:open question|undecided|un(?:settled|resolved)|still open|up in the air|no decision"
    r"|(?:not|never|nothing(?: is|'s)?|n['’]t)(?: \w+){0,2} (?:decided|settled|made up))\b|\?\s*$", re.I)


class Origin(NamedTuple):
    """Where the owner's words came from: `input` is typed, pasted or none."""

    input: str = "none"
    session: str | None = None
    turn: int | None = None


class Record(NamedTuple):
    """One thing remembered or decided, with everything that later lines did to it.

    `state` is live, lapsed, discarded, forgotten, undone or replaced; `standing` one of STANDINGS.
    """

    id: str
    kind: str
    text: str | None
    evidence: str | None
    author: str
    path: str
    input: str
    at: str
    session: str | None
    turn: int | None
    source: Mapping[str, Any] | None
    expires: str | None
    replaces: str | None
    replaced_by: str | None
    state: str
    confirmed: bool
    confirmed_at: str | None
    ended_at: str | None
    reason: str | None
    standing: str


def build_record(line: Line) -> Record:
    """The record that an `add` or `decide` line begins."""
    kind = "decision" if line["op"] == "decide" else line["kind"] or "note"
    confirmed = line["author"] in ("owner", "code")
    return Record(
        id=line["id"] or "", kind=kind, text=line["text"], evidence=line["evidence"],
        author=line["author"], path=line["path"], input=line["input"], at=line["at"],
        session=line["session"], turn=line["turn"], source=line["source"], expires=line["expires"],
        replaces=line["replaces"], replaced_by=None, state="live", confirmed=confirmed,
        confirmed_at=None, ended_at=None, reason=None,
        standing=build_standing(kind, line["text"] or "", confirmed))


def build_standing(kind: str, text: str, confirmed: bool) -> str:
    """What may be said of a live record (DESIGN: a proposal, however leaning, is undecided)."""
    if not confirmed:
        return "unconfirmed"
    if kind == "note" and _OPEN_NOTE.search(text):
        return "undecided"
    return KIND_STANDING[kind]


def apply_line(records: dict[str, Record], line: Line) -> str | None:
    """Let one line act on the records; why it could not, or None."""
    if line["op"] in ("add", "decide"):
        return _begin_record(records, line)
    target = records.get(line["target"] or "")
    if target is None:
        return f"{line['op']} names {line['target']}, which does not exist"
    act = _ACTS.get(line["op"])
    if act is None:
        return f"unknown act {line['op']!r}"
    records[target.id] = act(target, line)
    return None


def _begin_record(records: dict[str, Record], line: Line) -> str | None:
    if not line["id"] or line["id"] in records:
        return f"the id {line['id']} is missing or taken"
    if line["op"] == "add" and line["kind"] not in KINDS:
        return f"unknown kind {line['kind']!r}"
    record = records[line["id"]] = build_record(line)
    replaced = records.get(record.replaces or "")
    if replaced is not None and replaced.state in ("live", "lapsed"):
        standing = "reversed" if replaced.kind == "decision" else replaced.standing
        records[replaced.id] = replaced._replace(
            state="replaced", replaced_by=record.id, ended_at=record.at, standing=standing)
    return None


def _act_confirm(record: Record, line: Line) -> Record:
    return record._replace(confirmed=True, confirmed_at=line["at"], expires=line["expires"],
                           standing=build_standing(record.kind, record.text or "", True))


def _act_end(state: str) -> Callable[[Record, Line], Record]:
    return lambda record, line: record._replace(state=state, ended_at=line["at"])


def _act_undecide(record: Record, line: Line) -> Record:
    return record._replace(state="undone", standing="reversed", ended_at=line["at"],
                           reason=line["text"])


def _act_renew(record: Record, line: Line) -> Record:
    state = "live" if record.state == "lapsed" else record.state
    return record._replace(expires=line["expires"], state=state, ended_at=None)


def _act_forget(record: Record, line: Line) -> Record:
    return record._replace(text=None, evidence=None, reason=None, state="forgotten",
                           standing="no_record", ended_at=line["at"])


_ACTS: Mapping[str, Callable[[Record, Line], Record]] = {
    "confirm": _act_confirm, "discard": _act_end("discarded"), "lapse": _act_end("lapsed"),
    "renew": _act_renew, "undecide": _act_undecide, "forget": _act_forget,
}


def is_due(record: Record, today: date) -> bool:
    """True if a live record has reached the end of its lifetime (P11)."""
    return record.state == "live" and bool(record.expires) and str(record.expires) <= str(today)


class Records:
    """Both ledgers and what they mean. `refresh` before use; the writers below do it themselves."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.memory, self.decisions = Ledger(home, "memory"), Ledger(home, "decisions")
        self._known: dict[str, dict[str, Record]] = {"memory": {}, "decisions": {}}
        self._applied = {"memory": (0, 0), "decisions": (0, 0)}  # generation, lines
        self.oddities: list[str] = []  # lines that are sound and mean nothing to this version
        self.decisions_verdict = Verdict("fine", None, None, "")

    def refresh(self) -> None:
        """Read what is new. Decisions are verified in full each time their file changed (P9)."""
        before = self._applied["decisions"]
        for ledger in (self.memory, self.decisions):
            ledger.refresh()
            self._apply(ledger)
        if self._applied["decisions"] != before or before == (0, 0) \
                or not self.decisions_verdict.is_sound:
            self.decisions_verdict = self.decisions.verify()

    def _apply(self, ledger: Ledger) -> None:
        generation, done = self._applied[ledger.name]
        records = self._known[ledger.name]
        if generation != ledger.generation:
            records.clear()
            done = 0
        for line in ledger.lines[done:]:
            oddity = apply_line(records, line)
            if oddity:
                self.oddities.append(f"{ledger.path.name} line {line['seq']}: {oddity}")
        self._applied[ledger.name] = (ledger.generation, len(ledger.lines))

    def all(self) -> list[Record]:
        """Every record, memory first, in ledger order."""
        return [*self._known["memory"].values(), *self._known["decisions"].values()]

    def find(self, record_id: str) -> Record | None:
        """The record called `m12` or `d3`."""
        return self._known["memory"].get(record_id) or self._known["decisions"].get(record_id)

    def get(self, record_id: str) -> Record:
        """The record called `record_id`; Refused if there is none."""
        record = self.find(record_id)
        if record is None:
            raise Refused(f"There is no record {clean_line(record_id)!r}.",
                          "/memory and /decisions list what there is.")
        return record

    def live(self) -> list[Record]:
        """What may be recalled today: live, not due, with words; decisions only from a sound file."""
        today = local_day(self.home.now())
        return [record for record in self.all() if record.state == "live" and record.text is not None
                and not is_due(record, today)
                and (record.kind != "decision" or self.decisions_verdict.is_sound)]

    def recallable(self) -> list[Record]:
        """`live` and the decisions that were taken back or replaced, for these are asked about too."""
        sound = self.decisions_verdict.is_sound
        return self.live() + [r for r in self._known["decisions"].values()
                              if sound and r.state in ("undone", "replaced") and r.text is not None]

    def waiting(self) -> list[Record]:
        """Live records that the owner has neither confirmed nor discarded (P4)."""
        return [record for record in self.live() if not record.confirmed]

    def due_soon(self) -> list[Record]:
        """Live records that lapse within a week, or within a third of their lifetime if less."""
        today = local_day(self.home.now())
        return [r for r in self.live() if r.expires and _lapses_soon(r, today)]

    def windowed(self) -> list[Record]:
        """Live records for a prompt, in ledger order: the owner's in full, others the newest N (P6)."""
        live, windows = self.live(), self.home.settings.windows
        observed = [r for r in live if r.kind == "observation"]
        waiting = [r for r in live if not r.confirmed and r.kind != "observation"]
        dropped = {r.id for r in (*observed[:-windows["observation"]],
                                  *waiting[:-windows["unconfirmed"]])}
        return [r for r in live if r.id not in dropped]

    def line_of(self, record_id: str) -> Line:
        """The ledger line that began a record."""
        ledger = self.decisions if record_id.startswith("d") else self.memory
        return next(line for line in ledger.lines if line["id"] == record_id)

    def acts_on(self, record_id: str) -> list[Line]:
        """The lines that name a record as their target, oldest first."""
        return [line for ledger in (self.memory, self.decisions) for line in ledger.lines
                if line["target"] == record_id]


def _lapses_soon(record: Record, today: date) -> bool:
    end = date.fromisoformat(str(record.expires))
    begun = local_day(parse_at(record.confirmed_at or record.at))
    return (end - today).days <= min(7, max(1, (end - begun).days // 3))


def build_expiry(home: Home, lifetime: str) -> str:
    """The local day on which something written now with this lifetime lapses."""
    return str(local_day(home.now()) + timedelta(days=home.settings.lifetimes[lifetime]))


def check_words(text: str, what: str) -> str:
    """`text` without white space at its ends. Refused if empty or longer than a record may be."""
    text = text.strip()
    if not text:
        raise Refused(f"{what} needs some words.", "Write them after it on the same line.")
    if len(text) > TEXT_LIMIT:
        raise Refused(f"That is {len(text):,} characters; a record holds at most {TEXT_LIMIT:,}.",
                      "Keep the long text in a file of yours and remember where it is.")
    return text


def check_helper_name(name: str) -> str:
    """`helper:NAME`. Refused for reserved names, look-alikes and characters that could mislead (P4)."""
    plain = re.sub(r"[._-]", "", name).translate(str.maketrans("01", "ol"))
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,31}", name) or plain in RESERVED_NAMES:
        raise Refused(f"{clean_line(shorten(name, 60))!r} cannot be a helper's name.",
                      "Use 1 to 32 of a-z, 0-9, dot, dash and underscore, and no word such as owner.")
    return f"helper:{name}"


def check_input(origin: Origin, what: str) -> None:
    """Only keys make the owner's record: Refused for anything that was not typed or pasted there (P2)."""
    if origin.input not in ("typed", "pasted"):
        raise Refused(f"{what} must be typed at the keyboard.", "Start the chat in a terminal.")


def remember(records: Records, kind: str, text: str, origin: Origin,
             replaces: str | None = None) -> Record:
    """Add the owner's own memory line and return the record as read back (P2, P3)."""
    check_input(origin, "/remember")
    if kind not in OWNER_KINDS:
        raise Refused(f"/remember does not keep the kind {clean_line(kind)!r}.",
                      f"Kinds: {', '.join(OWNER_KINDS)}; a decision is made with /decide.")
    draft = Draft("add", AUTHORS["repl:/remember"], "repl:/remember", True, kind=kind,
                  text=check_words(text, "/remember"), replaces=replaces,
                  expires=build_expiry(records.home, kind), **origin._asdict())
    return _add_one(records, records.memory, draft)


def decide(records: Records, text: str, origin: Origin, replaces: str | None = None) -> Record:
    """Add a decision; `replaces` names the standing decision that it takes the place of (P2, P5)."""
    check_input(origin, "/decide")
    records.refresh()
    if replaces is not None:
        check_standing_decision(records, replaces)
    draft = Draft("decide", AUTHORS["repl:/decide"], "repl:/decide", True, kind="decision",
                  text=check_words(text, "/decide"), replaces=replaces, **origin._asdict())
    return _add_one(records, records.decisions, draft)


def check_standing_decision(records: Records, record_id: str) -> Record:
    """The decision `record_id`, which must still stand. Refused otherwise."""
    record = records.get(record_id)
    if record.kind != "decision":
        raise Refused(f"{record.id} is a {record.kind}, not a decision.", "/decisions lists them.")
    if record.state != "live":
        how = {"replaced": f"was replaced by {record.replaced_by}", "undone": "was taken back",
               "forgotten": "was forgotten"}.get(record.state, record.state)
        raise Refused(f"{record.id} no longer stands: it {how}.", "/decisions lists what stands.")
    return record


def undecide(records: Records, record_id: str, reason: str, origin: Origin) -> Record:
    """Take a standing decision back; the reason is kept with it."""
    check_input(origin, "/undecide")
    records.refresh()
    target = check_standing_decision(records, record_id)
    words = check_words(reason, "/undecide dN") if reason.strip() else None
    return _act_on(records, Draft("undecide", AUTHORS["repl:/undecide"], "repl:/undecide",
                                  target=target.id, text=words, **origin._asdict()))


def confirm(records: Records, record_id: str, origin: Origin) -> Record:
    """The owner vouches for a helper's or an imported line; it stays credited to its author (P4)."""
    check_input(origin, "/confirm")
    target = _get_waiting(records, record_id, "/confirm")
    return _act_on(records, Draft("confirm", AUTHORS["repl:/confirm"], "repl:/confirm",
                                  target=target.id, expires=build_expiry(records.home, "confirmed"),
                                  **origin._asdict()))


def discard(records: Records, record_id: str, origin: Origin) -> Record:
    """Drop a line that waits for confirmation; its words stay readable in the file."""
    check_input(origin, "/discard")
    target = _get_waiting(records, record_id, "/discard")
    return _act_on(records, Draft("discard", AUTHORS["repl:/discard"], "repl:/discard",
                                  target=target.id, **origin._asdict()))


def _get_waiting(records: Records, record_id: str, what: str) -> Record:
    records.refresh()
    record = records.get(record_id)
    if record.confirmed or record.state != "live":
        state = "already confirmed" if record.confirmed else record.state
        raise Refused(f"{what} acts on lines that wait; {record.id} is {state}.",
                      "/memory waiting lists those that do; /forget erases any line.")
    return record


def renew(records: Records, record_id: str, origin: Origin) -> Record:
    """Give a live or lapsed record a new lifetime (P11)."""
    check_input(origin, "/renew")
    records.refresh()
    record = records.get(record_id)
    if record.kind == "decision" or record.state not in ("live", "lapsed"):
        why = "does not lapse" if record.kind == "decision" else f"is {record.state}"
        raise Refused(f"{record.id} {why}, so there is nothing to renew.", "/memory shows the rest.")
    return _act_on(records, Draft("renew", AUTHORS["repl:/renew"], "repl:/renew", target=record.id,
                                  expires=build_expiry(records.home, find_lifetime(record)),
                                  **origin._asdict()))


def find_lifetime(record: Record) -> str:
    """The name of the lifetime that a record has."""
    if not record.confirmed:
        return "unconfirmed"
    return "confirmed" if record.confirmed_at else record.kind


def add_note(records: Records, name: str, text: str) -> Record:
    """A helper's line: unconfirmed, never the owner's, whatever it is called from (P4)."""
    draft = Draft("add", check_helper_name(name), "cli:--note", True, kind="note",
                  text=check_words(text, "--note"), expires=build_expiry(records.home, "unconfirmed"))
    return _add_one(records, records.memory, draft)


def observe(records: Records, notes: Sequence[tuple[str, dict[str, Any]]]) -> list[Record]:
    """Add the daily check's observations `(text, source)`; a source key already there is skipped (P8).

    A source holds ids and a key, never words: it is under the hash and cannot be erased.
    """
    with records.home.lock(records.home.memory):
        records.refresh()
        known = {r.source["key"] for r in records.all() if r.source and "key" in r.source}
        expires = build_expiry(records.home, "observation")
        drafts = [Draft("add", AUTHORS["daily:check"], "daily:check", True, kind="observation",
                        text=text, source=source, expires=expires)
                  for text, source in notes if source["key"] not in known]
        return _add_all(records, records.memory, drafts)


def write_lapses(records: Records, path: str) -> list[Record]:
    """Write the lapse lines that are due today, each once (P11). `path` is a key of AUTHORS."""
    with records.home.lock(records.home.memory):
        records.refresh()
        today = local_day(records.home.now())
        due = [record for record in records.all() if is_due(record, today)]
        if due:
            records.memory.append_all([Draft("lapse", AUTHORS[path], path, target=r.id) for r in due])
            records.refresh()
        return due


Sweep = Callable[[str, list[str]], None]  # takes an id and its words out of every other file


def forget(records: Records, record_id: str, path: str, origin: Origin, sweep: Sweep,
           scope: str = "words") -> Record:
    """Erase a record everywhere; returns it as it was (P10).

    The forget line comes first and the words leave the ledger last, so that a killed run is finished
    at the next start. `scope` (words or traces) says how far `sweep` goes; the line keeps it for that.
    """
    with records.home.lock(records.home.memory):
        records.refresh()
        record = records.get(record_id)
        if record.state == "forgotten":
            raise Refused(f"{record.id} was forgotten already.")
        ledger = records.decisions if record.kind == "decision" else records.memory
        ledger.append_all([Draft("forget", AUTHORS[path], path, target=record.id,
                                 source={"scope": scope}, **origin._asdict())])
        _finish_ledger(ledger, lambda record_id, words, scope: sweep(record_id, words))
        records.refresh()
    return record


def finish_forgets(records: Records, sweep: Callable[[str, list[str], str], None]) -> list[str]:
    """Finish what a killed `forget` began; the ids that were still there (P8, P10)."""
    done: list[str] = []
    for ledger in (records.memory, records.decisions):
        ledger.refresh()
        if ledger.list_unfinished():
            with records.home.lock(records.home.memory):
                done += _finish_ledger(ledger, sweep)
    records.refresh()
    return done


def _finish_ledger(ledger: Ledger, sweep: Callable[[str, list[str], str], None]) -> list[str]:
    """Sweep the words of every forget line that is not finished, then erase them from the ledger."""
    words: dict[str, list[str]] = {}
    for line in ledger.list_unfinished():
        kept = words.setdefault(line["id"] or line["target"] or "", [])
        kept += [text for text in (line["text"], line["evidence"]) if text]
    scopes = {line["target"]: (line["source"] or {}).get("scope", "words")
              for line in ledger.lines if line["op"] == "forget"}
    for record_id, texts in words.items():
        sweep(record_id, texts, scopes[record_id])
    ledger.erase()
    return list(words)


def _add_one(records: Records, ledger: Ledger, draft: Draft) -> Record:
    return _add_all(records, ledger, [draft])[0]


def _add_all(records: Records, ledger: Ledger, drafts: Sequence[Draft]) -> list[Record]:
    lines = ledger.append_all(drafts) if drafts else []
    records.refresh()
    return [records.get(line["id"] or "") for line in lines]


def _act_on(records: Records, draft: Draft) -> Record:
    ledger = records.decisions if (draft.target or "").startswith("d") else records.memory
    ledger.append_all([draft])
    records.refresh()
    return records.get(draft.target or "")


def import_legacy(records: Records, source_name: str, data: bytes) -> tuple[list[Record], list[str]]:
    """Take in an older memory.jsonl: (records added, what was skipped and why, by line number).

    The wording found there becomes `text`, the owner's sentence `evidence`; the author is
    unrecorded and every line waits for confirmation (P4). A second run adds nothing.
    """
    with records.home.lock(records.home.memory):
        records.refresh()
        old = [line for line in records.memory.lines if line["path"] == "import:legacy"]
        known = {(line["text"], line["evidence"]) for line in old}
        places = {(line["source"] or {}).get("line") for line in old if lost_words(line)
                  and (line["source"] or {}).get("file") == source_name}
        drafts, skipped = list[Draft](), list[str]()
        for number, raw in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
            if not raw.strip() or number in places:
                continue
            try:
                draft = _build_import(records.home, json.loads(raw), source_name, number)
            except (ValueError, RecursionError) as error:
                skipped.append(f"line {number}: {error}")
                continue
            if (draft.text, draft.evidence) not in known:
                known.add((draft.text, draft.evidence))
                drafts.append(draft)
        return _add_all(records, records.memory, drafts), skipped


def _build_import(home: Home, value: Any, source_name: str, number: int) -> Draft:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    text = value.get("text") or value.get("content") or value.get("memory")
    evidence = value.get("evidence")
    if not isinstance(text, str) or not text.strip() or not isinstance(evidence, str | None):
        raise ValueError("it has no text")
    if len(text) + len(evidence or "") > TEXT_LIMIT:
        raise ValueError("it is too long")
    kind = value["kind"] if value.get("kind") in OWNER_KINDS else "note"
    return Draft("add", AUTHORS["import:legacy"], "import:legacy", True, kind=kind, text=text,
                 evidence=evidence or None, source={"file": source_name, "line": number},
                 expires=build_expiry(home, "unconfirmed"))


def build_listing(records: Records, record: Record) -> dict[str, Any]:
    """The `--memory --json` form: the ledger line with the record's standing and state."""
    return {**records.line_of(record.id), "standing": record.standing, "state": record.state}


# --- 7. Events and chat log ----------------------------------------------------------------------
# Reading the event log, keeping the talk, and sweeping forgotten words out of every file that is no
# ledger. Keeps P10. Events hold no words of the owner; the chat log does, and is swept.

# Words too common for two of them in a row to betray a record.
COMMON_WORDS = frozenset(
    """
about above after again against also always another anything around because been before being below
between both could does doing done down during each either else even every first from further give
given goes going gone good have having here hers herself himself into itself just keep know last less
like long made make many maybe more most much must myself need never next note nothing once only open
other over owner please really right said same should since some something soon still such sure take
talk tell than that thats their them then there these they thing things think this those though time
today tomorrow under until upon very want wants well were what when where which while will with within
without would year years your yours decided decide decision remember record records
""".split()  # noqa: SIM905
)


class Trace(NamedTuple):
    """A line of a file that is not the record's words but betrays it. `line` counts from 1."""

    path: Path
    line: int
    excerpt: str
    why: str


def load_events(home: Home, tail: int | None = None) -> list[dict[str, Any]]:
    """Events, oldest first; the last `tail` bytes only if given. Lines that cannot be read are left out."""
    return _load_log(home.logs / "events.jsonl", tail)


def load_chat(home: Home, tail: int | None = None) -> list[dict[str, Any]]:
    """Lines of the chat log, oldest first."""
    return _load_log(home.logs / "chat.jsonl", tail)


def _load_log(path: Path, tail: int | None) -> list[dict[str, Any]]:
    state = check_regular(path)
    start = max(0, state.st_size - tail) if state and tail else 0
    found = []
    for raw in load_bytes(path, start=start).split(b"\n"):
        try:
            value = parse_json(raw)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def log_chat(home: Home, role: str, text: str, **facts: Any) -> None:
    """Keep one line of the talk, with author, path and input; nothing if the owner keeps no chat."""
    if home.settings.keep_chat:
        entry = {"at": format_at(home.now()), "role": role, "text": merge_surrogates(text), **facts}
        with home.lock(home.logs):
            append_line(home.logs / "chat.jsonl", dump_json(entry), sync=False)


def build_phrase_pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """Matches each phrase however its white space was broken and its hidden characters shown."""
    forms = {form for phrase in phrases for form in (phrase, clean_text(phrase))
             if len(form.strip()) > 3}  # "no" stands in every file and tells nothing
    parts = []
    for form in sorted(forms, key=len, reverse=True):
        part = r"\s+".join(re.escape(word) for word in form.split())
        parts.append(rf"(?<!\w){part}(?!\w)" if len(form) < 8 else part)
    return re.compile("|".join(parts) or r"(?!)", re.I)


def sweep_home(home: Home, record_id: str, phrases: list[str], scope: str = "words") -> list[str]:
    """Take a record's words out of every file of the home but the ledgers; the names of files changed.

    With scope `traces` the lines that `find_traces` lists go too (P10).
    """
    traces = find_traces(home, record_id, phrases) if scope == "traces" else []
    changed = []
    for folder in (home.memory, home.logs, home.reports):
        with home.lock(folder):
            for path in list_files(folder, "*") + list_files(folder, ".*"):
                lines = {trace.line for trace in traces if trace.path == path}
                if path.name not in ("memory.jsonl", "decisions.jsonl", "heads.json") and \
                        _sweep_file(path, record_id, phrases, lines):
                    changed.append(str(path.relative_to(home.root)))
    return changed


def _sweep_file(path: Path, record_id: str, phrases: list[str], doomed: set[int]) -> bool:
    """Sweep one file; True if it changed. What a crash left of a line goes whole."""
    data = load_bytes(path)
    if ".torn-" in path.name or ".tmp-" in path.name:
        return _holds_fragment(data, record_id, phrases) and remove_file(path)
    pattern, mark = build_phrase_pattern(phrases), f"[forgotten {record_id}]"
    text = data.decode("utf-8", "surrogateescape")
    if path.suffix == ".json":
        swept = _sweep_line(text, pattern, mark, indent=1)
    else:
        lines = text.split("\n")
        swept = "\n".join(_remove_line(line, mark) if number in doomed
                          else _sweep_line(line, pattern, mark) for number, line in enumerate(lines, 1))
        swept = pattern.sub(mark, swept)  # a phrase of several lines
    if swept == text:
        return False
    replace_bytes(path, swept.encode("utf-8", "surrogateescape"))
    return True


def _holds_fragment(data: bytes, record_id: str, phrases: list[str]) -> bool:
    text = data.decode("utf-8", "replace")
    starts = [dump_json(phrase)[1:-1][:8] for phrase in phrases]
    return f'"{record_id}"' in text or any(start in text for start in starts)


def _sweep_line(line: str, pattern: re.Pattern[str], mark: str, indent: int | None = None) -> str:
    """One line of text or JSON without the phrase; the same string when it is not there."""
    try:
        value = json.loads(line) if line[:1] in "{[" else None
    except (ValueError, RecursionError):
        value = None
    if value is None:
        return pattern.sub(mark, line)
    swept = _sweep_value(value, pattern, mark)
    return line if swept == value else dump_json(swept, indent=indent)


def _sweep_value(value: Any, pattern: re.Pattern[str], mark: str) -> Any:
    if isinstance(value, str):
        return pattern.sub(mark, value)
    if isinstance(value, list):
        return [_sweep_value(item, pattern, mark) for item in value]
    if isinstance(value, dict):
        return {pattern.sub(mark, name): _sweep_value(item, pattern, mark)
                for name, item in value.items()}
    return value


def _remove_line(line: str, mark: str) -> str:
    """A line that betrays a record, emptied; a line of a JSON log keeps who and when."""
    try:
        value = json.loads(line)
    except ValueError:
        return mark
    if not isinstance(value, dict):
        return mark
    kept = {name: item for name, item in value.items() if name in _KEPT_IN_LOGS}
    return dump_json({**kept, "text": mark})


_KEPT_IN_LOGS = ("at", "event", "role", "session", "turn", "author", "path", "input", "ids")


def find_traces(home: Home, record_id: str, phrases: list[str]) -> list[Trace]:
    """Lines of the talk and of the input history that betray a record without being its words.

    A turn whose block or sources held the id; a line that shares with the record a number of three
    digits or more, or two rare words in a row.
    """
    clues = build_clues(phrases)
    exact = build_phrase_pattern(phrases)
    found = []
    for path in (home.logs / "chat.jsonl", home.logs / "history"):
        for number, raw in enumerate(load_bytes(path).decode("utf-8", "replace").split("\n"), 1):
            why = _find_betrayal(raw, record_id, clues)
            if why:
                excerpt = exact.sub("…", _line_words(raw))
                found.append(Trace(path, number, shorten(clean_line(excerpt), 70), why))
    return found


def build_clues(phrases: Iterable[str]) -> list[re.Pattern[str]]:
    """Patterns for long numbers and for pairs of rare words in a row."""
    found = []
    for phrase in phrases:
        found += [rf"(?<!\d){number}(?!\d)" for number in re.findall(r"\d{3,}", phrase)]
        words = re.findall(r"\w+", phrase.lower())
        found += [rf"\b{a}\W+{b}\b" for a, b in zip(words, words[1:], strict=False)
                  if _is_rare(a) and _is_rare(b)]
    return [re.compile(clue, re.I) for clue in dict.fromkeys(found)]


def _is_rare(word: str) -> bool:
    return len(word) > 3 and word not in COMMON_WORDS


def _line_words(raw: str) -> str:
    try:
        value = json.loads(raw)
    except ValueError:
        return raw
    return str(value.get("text", "")) if isinstance(value, dict) else raw


def _find_betrayal(raw: str, record_id: str, clues: Sequence[re.Pattern[str]]) -> str:
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    if isinstance(value, dict) and record_id in (*value.get("ids", ()), *value.get("sources", ())):
        return f"this turn held {record_id}"
    words = raw if not isinstance(value, dict) else " ".join(
        item for item in value.values() if isinstance(item, str))
    for clue in clues:
        match = clue.search(words)
        if match:
            return f"shares “{clean_line(match[0])}”"
    return ""


