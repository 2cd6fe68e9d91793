"""Kill a writer at each of its file-system effects, until one run survives.

    points = kill_at_every_effect(make_home, act, check)

For N = 1, 2, 3 … `make_home()` gives a fresh folder, `act(folder)` runs in a forked child that dies at
its Nth effect (os._exit(9): no cleanup, no exception, no flush), and `check(folder, kill)` looks at
what is left, in the parent. The product has no hook for this: the child replaces os.write and its
like, and an audit hook sees everything that opens, renames, removes, cuts or creates a file, by
whatever function. A write is also cut in half: the first half reaches the file, then the child dies.

An effect counts if it is on a regular file or a folder (not on a terminal, a pipe or /dev/null).
Nothing is really synced: a dead process loses no page of the kernel's, and the tests stay fast.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DIED = 9
FAILED = 70
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
AUDITED = {
    "os.rename",
    "os.remove",
    "os.truncate",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
}


class Kill(NamedTuple):
    """Where a child died: effect number from 1, its name, and whether half a write got through."""

    number: int
    is_torn: bool
    effect: str = ""


class _Counter:
    """Counts the effects of this process and ends it at the chosen one."""

    def __init__(self, number: int, is_torn: bool, note: int) -> None:
        self.number, self.is_torn, self.note, self.seen = number, is_torn, note, 0

    def meet(self, effect: str, half: Callable[[], object] | None = None) -> None:
        self.seen += 1
        if self.seen != self.number:
            return
        if self.is_torn:
            if half is None:
                return  # only a write can be torn; this point was killed before
            half()
        self._end(effect)

    def _end(self, effect: str) -> None:
        _real_write(self.note, effect.encode())
        os._exit(DIED)


_real_write, _real_pwrite = os.write, os.pwrite


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _install(counter: _Counter) -> None:
    """Put the counter in the way of every effect of this (forked) process."""

    def write(descriptor, data):
        if _is_file(descriptor):
            view = memoryview(data)
            counter.meet(f"write {len(view)}", lambda: _real_write(descriptor, view[: len(view) // 2]))
        return _real_write(descriptor, data)

    def pwrite(descriptor, data, offset):
        counter.meet("pwrite", lambda: _real_pwrite(descriptor, data[: len(data) // 2], offset))
        return _real_pwrite(descriptor, data, offset)

    def fsync(descriptor):
        counter.meet("fsync")

    def hook(event, arguments):
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITE_FLAGS:
            if str(arguments[0]) not in ("/dev/null", "/dev/tty"):
                counter.meet(f"open {os.path.basename(str(arguments[0]))}")
        elif event in AUDITED:
            counter.meet(f"{event} {os.path.basename(str(arguments[0]))}")

    os.write, os.pwrite, os.fsync, os.fdatasync = write, pwrite, fsync, fsync
    sys.addaudithook(hook)


def _run_child(act: Callable[[Path], object], home: Path, number: int, is_torn: bool, note: int) -> None:
    code = FAILED
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _install(_Counter(number, is_torn, note))
        act(home)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def kill_once(act: Callable[[Path], object], home: Path, number: int, is_torn: bool = False) -> Kill | None:
    """Run `act` in a child that dies at its `number`th effect; None if it survived."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_child(act, home, number, is_torn, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        effect = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, DIED), f"the child failed by itself with {code} before effect {number}; see stderr"
    return None if code == 0 else Kill(number, is_torn, effect)


def kill_at_every_effect(
    make_home: Callable[[], Path],
    act: Callable[[Path], object],
    check: Callable[[Path, Kill], None],
    *,
    torn: bool = True,
    limit: int = 3000,
) -> list[Kill]:
    """All kill points of `act`, each one checked. Raises AssertionError naming the point.

    With `torn` each write is met twice: nothing of it written, and its first half written.
    """
    kills: list[Kill] = []
    for number in range(1, limit):
        kill = _kill_and_check(make_home, act, check, number, False)
        if kill is None:
            return kills
        kills.append(kill)
        if torn and "write" in kill.effect.split()[0]:
            half = _kill_and_check(make_home, act, check, number, True)
            kills += [half] if half else []
    raise AssertionError(f"no run survived after {limit} kill points")


def _kill_and_check(
    make_home: Callable[[], Path],
    act: Callable[[Path], object],
    check: Callable[[Path, Kill], None],
    number: int,
    is_torn: bool,
) -> Kill | None:
    home = make_home()
    kill = kill_once(act, home, number, is_torn)
    if kill is not None:
        try:
            check(home, kill)
        except BaseException as error:
            error.add_note(f"killed at {kill}")
            raise
    shutil.rmtree(home, ignore_errors=True)
    return kill


class HomeMaker:
    """Fresh copies of a prepared folder: `HomeMaker(tmp_path, template)()`."""

    def __init__(self, where: Path, template: Path) -> None:
        self.where, self.template, self.count = where, template, 0

    def __call__(self) -> Path:
        self.count += 1
        return Path(shutil.copytree(self.template, self.where / f"home{self.count}"))
