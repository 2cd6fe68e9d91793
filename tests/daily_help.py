"""A home with a clock that is set by hand, for the tests of the daily check."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stub_dev import entry

import companion

START = datetime(2026, 11, 27, 8, 5, tzinfo=UTC)
PROCESS = companion.Process(4711, "cron")


class Clock:
    """The time, moved by hand and a millisecond by each look, and random bytes that follow from it."""

    def __init__(self, now: datetime = START) -> None:
        self.now, self.drawn = now, 0

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def move(self, **by: float) -> None:
        self.now += timedelta(**by)

    def entropy(self, n: int) -> bytes:
        self.drawn += 1
        return hashlib.sha256(f"{self.now} {self.drawn}".encode()).digest()[:n]


def open_home(root: Path, clock: Clock, **settings: object) -> companion.Home:
    settings = {"dev_username": "samplewriter", **settings}
    home = companion.Home(root, companion.Settings(**settings), now=clock, entropy=clock.entropy)
    home.make()
    return home


def reading(home: companion.Home, rows: list[dict], tries: int = 1, age_s: int = 0, url: str = ""):
    """A load function that gives these list entries."""

    def load() -> companion.Fetch:
        found = [companion.build_article(row) for row in rows]
        return companion.Fetch(
            companion.sort_articles(a for a in found if a),
            companion.build_receipt(home.now(), home.entropy),
            companion.format_at(home.now()),
            tries,
            url or companion.build_articles_url(home.settings),
            found.count(None),
            age_s,
        )

    return load


def failing(kind: type = companion.DevBusy, detail: str = "it answered 429, too many requests"):
    def load() -> companion.Fetch:
        raise kind(detail)

    return load


def check(home: companion.Home, rows: list[dict] | None = None, load=None, **fetch) -> companion.DailyOutcome:
    return companion.run_daily(home, load or reading(home, rows, **fetch), process=PROCESS)


def ten(**first: object) -> list[dict]:
    """Ten articles, 1 the newest, a day apart."""
    return [
        entry(n, **{"title": f"Article {n}", "days": n, **(first if n == 1 else {})}) for n in range(1, 11)
    ]


def reports(home: companion.Home) -> list[str]:
    return [path.read_text() for path in sorted(home.reports.glob("*.md"), key=companion._report_order)]


def observations(home: companion.Home) -> list[str]:
    records = companion.Records(home)
    records.refresh()
    return [r.text for r in records.all() if r.kind == "observation"]


def section(text: str, heading: str) -> str:
    """The text of one section of a report."""
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].strip("\n")
