"""The killer itself: it must see every effect, or its word counts for nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from killer import Kill, kill_at_every_effect, kill_once


@pytest.fixture
def make(tmp_path):
    return lambda: Path(tempfile.mkdtemp(dir=tmp_path))


def effects(make, act):
    return [
        (k.effect.split()[0], k.is_torn) for k in kill_at_every_effect(make, act, lambda home, kill: None)
    ]


def test_every_way_to_write_is_seen(make):
    def act(home):
        descriptor = os.open(home / "a", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"12345678")
        os.fsync(descriptor)
        os.ftruncate(descriptor, 2)
        os.close(descriptor)
        (home / "b").write_text("x")
        os.replace(home / "a", home / "c")
        (home / "c").unlink()
        (home / "d").mkdir()
        (home / "d").rmdir()

    assert effects(make, act) == [
        ("open", False),
        ("write", False),
        ("write", True),
        ("fsync", False),
        ("os.truncate", False),
        ("open", False),
        ("os.rename", False),
        ("os.remove", False),
        ("os.mkdir", False),
        ("os.rmdir", False),
    ]


def test_the_child_dies_before_the_effect_and_with_half_a_write(make):
    def act(home):
        descriptor = os.open(home / "a", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"12345678")

    home = make()
    assert kill_once(act, home, 1).effect == "open a" and not (home / "a").exists()
    assert kill_once(act, home, 2) == Kill(2, False, "write 8") and (home / "a").read_bytes() == b""
    assert kill_once(act, home, 2, True) == Kill(2, True, "write 8") and (home / "a").read_bytes() == b"1234"
    assert kill_once(act, home, 3) is None and (home / "a").read_bytes() == b"12345678"


def test_reading_and_devices_do_not_count(make):
    def act(home):
        Path("/dev/null").write_text("x")
        list(home.iterdir())
        os.close(os.open(home, os.O_RDONLY))
        reader, writer = os.pipe()
        os.write(writer, b"x")

    assert effects(make, act) == []


def test_a_child_that_fails_by_itself_is_no_kill(make, capfd):
    with pytest.raises(AssertionError, match="failed by itself"):
        kill_at_every_effect(make, lambda home: 1 / 0, lambda home, kill: None)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_check_that_fails_names_the_point(make):
    def check(home, kill):
        assert not (home / "a").exists()

    def act(home):
        (home / "a").write_text("x")
        (home / "b").mkdir()

    with pytest.raises(AssertionError) as caught:
        kill_at_every_effect(make, act, check)
    assert "os.mkdir b" in caught.value.__notes__[0]


def test_the_parent_is_left_as_it_was(make):
    before = os.write, os.fsync
    kill_once(lambda home: (home / "a").write_text("x"), make(), 1)
    assert (os.write, os.fsync) == before
