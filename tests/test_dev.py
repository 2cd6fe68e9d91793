"""The DEV reading against every fault its server can show (P7, P12, P13; R-41 to R-48)."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import stub_dev as stub
from stub_dev import StubDev, entry

import companion

NOW = datetime(2026, 11, 29, 9, 5, tzinfo=UTC)


@pytest.fixture
def dev():
    with StubDev() as server:
        yield server


class Waits:
    """A sleep that only notes how long it was asked for."""

    def __init__(self):
        self.all = []

    def __call__(self, seconds):
        self.all.append(seconds)


def load(dev, *answers, waits=None, name="samplewriter", **kwargs):
    if answers:
        dev.script(*answers)
    settings = companion.Settings(dev_username=name, dev_url=dev.url)
    return companion.load_articles(
        settings, lambda: NOW, waits or Waits(), entropy=lambda n: b"\x7f\x3a"[:n], **kwargs
    )


def fail(dev, *answers, **kwargs):
    with pytest.raises(companion.DevFailed) as caught:
        load(dev, *answers, **kwargs)
    failure = caught.value
    text = str(failure)
    assert text == companion.clean_line(text) and len(text) < 300, text
    assert "<html" not in text.lower()
    assert failure.exit_code == 1 and failure.what.endswith(".") and failure.way_out.endswith(".")
    return failure


def test_a_good_reading_has_all_fields(dev):
    fetch = load(dev, stub.articles([entry(comments_count=51)]))
    article = fetch.articles[0]
    assert article == companion.Article(
        2900417,
        "Why [/etc/hosts] still wins: notes on <name> & friends",
        "https://dev.to/samplewriter/why-etchosts-still-wins-4k2p",
        "2026-11-27T08:15:00.000Z",
        51,
        31,
        ("networking", "linux"),
        "A short look at name resolution.",
    )
    assert fetch.receipt == "r20261129-090500-7f3a" and fetch.fetched_at == "2026-11-29T09:05:00.000Z"
    assert fetch.tries == 1 and fetch.url.endswith("/api/articles?username=samplewriter&per_page=10")


def test_the_request_carries_our_name_and_no_secret_of_the_environment(dev, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login owner password hunter2\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    load(dev, stub.articles([entry()]))
    path, headers = dev.requests[0]
    assert path == "/api/articles?username=samplewriter&per_page=10"
    assert headers["User-Agent"] == f"companion/{companion.VERSION}"
    assert headers["Accept"] == "application/vnd.forem.api-v1+json"
    assert headers["Accept-Encoding"] == "identity"
    assert "Authorization" not in headers and "Cookie" not in headers


def test_without_our_user_agent_the_stub_blocks(dev):
    import requests

    assert requests.get(dev.url, timeout=5).status_code == 403


def test_403_is_blocked_and_not_an_empty_day(dev):
    failure = fail(dev, stub.status(403))
    assert type(failure) is companion.DevRefused and "blocked" in failure.what
    assert len(dev.requests) == 1


@pytest.mark.parametrize("code", [400, 401, 404, 410, 418])
def test_other_refusals_are_not_repeated(dev, code):
    failure = fail(dev, stub.status(code, stub.html_page()))
    assert type(failure) is companion.DevRefused and str(code) in failure.what
    assert len(dev.requests) == 1


RETRY_AFTER = [  # header, waits that are asked for
    (None, [1.0, 2.0, 4.0]),
    ("3", [3.0, 3.0, 4.0]),
    ("0", [1.0, 2.0, 4.0]),
    (format_datetime(NOW + timedelta(seconds=7), usegmt=True), [7.0, 7.0, 7.0]),
    (format_datetime(NOW - timedelta(days=1), usegmt=True), [1.0, 2.0, 4.0]),
    ("soon", [1.0, 2.0, 4.0]),
    ("-5", [1.0, 2.0, 4.0]),
    ("", [1.0, 2.0, 4.0]),
    ("1e3", [1.0, 2.0, 4.0]),
    ("86400", []),
    ("9" * 400, [1.0, 2.0, 4.0]),
    ("999999999999", []),
    ("Mon, 99 Foo 2026", [1.0, 2.0, 4.0]),
    (format_datetime(NOW + timedelta(days=9), usegmt=True), []),
    ("٣", [1.0, 2.0, 4.0]),
]


@pytest.mark.parametrize(("value", "expected"), RETRY_AFTER)
def test_429_waits_as_asked_but_never_long(dev, value, expected):
    waits = Waits()
    if value == "٣":
        assert companion.build_retry_after(value, NOW) is None
        return
    failure = fail(dev, stub.busy(value), waits=waits)
    assert type(failure) is companion.DevBusy and "429" in failure.what
    assert waits.all == expected and failure.tries == len(expected) + 1
    assert len(dev.requests) == len(expected) + 1 <= companion.DEV_TRIES


def test_429_then_a_list_is_a_good_reading(dev):
    waits = Waits()
    fetch = load(dev, stub.busy("2"), stub.busy(), stub.articles([entry()]), waits=waits)
    assert fetch.tries == 3 and waits.all == [2.0, 2.0] and len(fetch.articles) == 1


TROUBLE = {
    "html_503": stub.status(503, stub.html_page()),
    "html_500": stub.status(500, stub.html_page()),
    "html_200": stub.status(200, stub.html_page()),
    "empty_body": stub.raw(b""),
    "object": stub.raw(b'{"error": "not found", "status": 404}'),
    "null": stub.raw(b"null"),
    "half_body": stub.half_body([entry()]),
    "half_chunks": stub.half_chunks([entry()]),
    "cut_json": stub.cut_json([entry()]),
    "not_utf8": stub.raw(b'["\xff\xfe"]'),
    "deep": stub.raw(b"[" * 500_000),
    "hang_up": stub.hang_up(),
    "nan": stub.raw(b"NaN"),
    "long_number": stub.raw(b"[" + b"9" * 100_000 + b"]"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_an_answer_that_is_no_list_is_repeated_then_told(dev, name):
    waits = Waits()
    failure = fail(dev, TROUBLE[name], waits=waits)
    assert type(failure) is companion.DevTrouble
    assert failure.tries == companion.DEV_TRIES == len(dev.requests) and waits.all == [1.0, 2.0, 4.0]
    assert failure.what.startswith("The article list on DEV could not be looked at: ")


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_that_passes_is_a_good_reading(dev, name):
    assert load(dev, TROUBLE[name], stub.articles([entry()])).tries == 2


def test_a_body_of_200_mb_is_left_after_2(dev):
    before = time.monotonic()
    failure = fail(dev, stub.huge_body())
    assert type(failure) is companion.DevTooLarge and len(dev.requests) == 1
    assert "2,000,000 bytes" in failure.what and time.monotonic() - before < 5
    deadline = time.monotonic() + 5
    while not dev.sent and time.monotonic() < deadline:
        os.sched_yield()
    assert 0 < dev.sent < 20_000_000


def test_a_body_without_a_length_is_limited_too(dev):
    assert type(fail(dev, stub.huge_body(declare=False))) is companion.DevTooLarge


def test_a_body_that_unpacks_to_200_mb_is_limited_too(dev):
    assert type(fail(dev, stub.bomb(20_000_000))) is companion.DevTooLarge


@pytest.mark.parametrize("answer", [stub.silence, stub.dribble_body, stub.dribble_header])
def test_a_server_that_never_finishes_is_left_in_time(dev, answer):
    before = time.monotonic()
    failure = fail(dev, answer(), budget_s=0.25)
    assert type(failure) is companion.DevSlow and time.monotonic() - before < 1.5


def test_the_whole_is_bounded_not_only_one_try(dev):
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    failure = fail(dev, stub.busy("25"), waits=sleep, monotonic=lambda: now[0])
    assert failure.tries == 3 and now[0] == 50.0


def test_nobody_listening_is_told():
    settings = companion.Settings(dev_username="x", dev_url="http://127.0.0.1:9")
    with pytest.raises(companion.DevTrouble, match="no connection"):
        companion.load_articles(settings, lambda: NOW, Waits())


def test_no_secure_connection_is_told(dev):
    settings = companion.Settings(dev_username="x", dev_url=dev.url.replace("http:", "https:"))
    with pytest.raises(companion.DevTrouble, match="no secure connection"):
        companion.load_articles(settings, lambda: NOW, Waits())
    assert dev.requests == []


def test_a_server_that_takes_too_long_for_one_try_is_asked_again(dev, monkeypatch):
    monkeypatch.setattr(companion, "DEV_TIMEOUTS_S", (1.0, 0.1))
    assert load(dev, stub.silence(), stub.articles([entry()])).tries == 2
    assert "did not answer" in fail(dev, stub.silence()).what


def test_an_unknown_name_is_not_a_quiet_day(dev):
    failure = fail(dev, stub.articles([]), name="samplewritr")
    assert type(failure) is companion.NoArticles and len(dev.requests) == 1
    assert "no articles under that name, check it" in failure.what and "samplewritr" in failure.what


def test_three_articles_are_three(dev):
    assert len(load(dev, stub.articles([entry(n, days=n) for n in (1, 2, 3)])).articles) == 3


def test_no_account_set(dev):
    assert type(fail(dev, name=None)) is companion.DevSetup
    assert type(fail(dev, name="  ")) is companion.DevSetup
    assert type(fail(dev, name="a/../b?x=1\x1b[2J")) is companion.DevSetup
    assert dev.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "http://dev.to",
        "http://192.168.1.4:3000",
        "ftp://127.0.0.1",
        "dev.to",
        "",
        "https://",
        "https://u:p@dev.to",
        "http://127.0.0.1.example.org",
        "file:///etc/passwd",
        "https://dev.to:99999",
        "http://[::1",
        "http://localhost.evil",
    ],
)
def test_an_address_that_is_neither_https_nor_this_machine_is_refused(address):
    settings = companion.Settings(dev_username="x", dev_url=address)
    with pytest.raises(companion.DevSetup):
        companion.load_articles(settings, lambda: NOW, Waits())


@pytest.mark.parametrize(
    "address",
    ["https://dev.to", "https://dev.to/", "http://127.0.0.1:80", "http://[::1]:8", "http://localhost:3000"],
)
def test_addresses_that_are_allowed(address):
    url = companion.build_articles_url(companion.Settings(dev_username="@x", dev_url=address))
    assert re.fullmatch(r"https?://[^/]+/api/articles\?username=x&per_page=10", url)


def test_no_redirect_to_another_host(dev):
    with StubDev() as other:
        other.script(stub.articles([entry()]))
        for target in (
            other.url + "/api/articles",
            "http://localhost:1/x",
            "https://example.invalid/",
            "//evil.invalid",
            "file:///etc/passwd",
            "",
            "javascript:1",
        ):
            assert type(fail(dev, stub.redirect(target))) is companion.DevRedirected
        assert other.requests == []


def test_a_redirect_on_the_same_host_is_followed_a_few_times(dev):
    assert load(dev, stub.redirect("/elsewhere"), stub.articles([entry()])).tries == 1
    assert dev.requests[-1][0] == "/elsewhere"
    dev.requests.clear()
    fail(dev, *(stub.redirect(f"/{n}") for n in range(9)))
    assert len(dev.requests) == 4


def test_drafts_and_null_fields(dev):
    rows = [
        entry(1, published_timestamp="", published_at=None),
        entry(2, comments_count=None, public_reactions_count=None),
        {"id": 3},
        {
            "id": 4,
            "title": None,
            "url": None,
            "tag_list": None,
            "tags": None,
            "published_timestamp": 5,
            "comments_count": "7",
            "public_reactions_count": -1,
            "description": None,
        },
    ]
    found = {a.id: a for a in load(dev, stub.articles(rows)).articles}
    assert found[1].published_timestamp is None
    assert (found[2].comments_count, found[2].public_reactions_count) == (None, None)
    assert found[3] == companion.Article(3, "(no title)", "", None, None, None, (), "")
    assert found[4] == companion.Article(4, "(no title)", "", None, None, None, (), "")


def test_counts_that_are_no_counts_are_none(dev):
    rows = (
        '[{"id":1,"comments_count":true,"public_reactions_count":1.0},{"id":2,"comments_count":1e400,'
        '"public_reactions_count":99999999999999},{"id":3,"comments_count":0,"public_reactions_count":NaN}]'
    )
    found = {
        a.id: (a.comments_count, a.public_reactions_count)
        for a in load(dev, stub.raw(rows.encode())).articles
    }
    assert found == {1: (None, None), 2: (None, None), 3: (0, None)}


def test_entries_that_are_no_articles_are_counted(dev):
    fetch = load(dev, stub.articles([5, None, "x", [], {"id": True}, {"id": "7"}, {"id": -1}, {}, entry(9)]))
    assert [a.id for a in fetch.articles] == [9] and fetch.unreadable == 8


def test_equal_dates_are_in_a_stable_order_whatever_the_list_says(dev):
    rows = [entry(n) for n in (5, 9, 7)]
    orders = {
        tuple(a.id for a in load(dev, stub.articles(list(row))).articles)
        for row in (rows, rows[::-1], rows[1:] + rows[:1])
    }
    assert orders == {(9, 7, 5)}


def test_newest_first_drafts_last_ten_at_most_each_id_once(dev):
    rows = [entry(1, published_timestamp=None, published_at=None)] + [entry(n, days=n) for n in range(2, 15)]
    fetch = load(dev, stub.articles(rows[::-1] + [entry(2, days=2)]))
    assert [a.id for a in fetch.articles] == list(range(2, 12))


def test_dates_in_other_forms(dev):
    found = {
        a.id: a.published_timestamp
        for a in load(
            dev,
            stub.articles(
                [
                    entry(1, published_timestamp="2026-11-27T10:15:00+02:00"),
                    entry(2, published_timestamp="yesterday", published_at=None),
                    entry(3, published_timestamp="2026-11-27", published_at=None),
                    entry(4, published_timestamp="0001-01-01T00:00:00+14:00", published_at=None),
                ]
            ),
        ).articles
    }
    assert found == {1: "2026-11-27T08:15:00.000Z", 2: None, 3: None, 4: None}


def test_text_that_was_read_is_cleaned_at_the_door(dev):
    rows = [
        entry(n + 1, title=t, description=t, url=f"https://dev.to/x\x1b{n}", tag_list=[t])
        for n, t in enumerate(stub.NASTY_TITLES)
    ]
    articles = [companion.build_article(row) for row in json.loads(json.dumps(rows))]
    for article in articles:
        for text in (article.title, article.url, article.description, *article.tags):
            assert text == companion.clean_line(text) and len(text) <= 300
            text.encode("utf-8")  # no surrogate is left
    titles = [a.title for a in articles]
    assert r"clear \x1b[2J\x1b[H the screen" in titles
    assert "markup [/red] [bold] :100: [link=x]y[/link]" in titles
    assert all(len(t) <= companion.TITLE_WIDTH for t in titles) and titles[-1] == "(no title)"


def test_the_age_of_the_edge_copy_is_kept(dev):
    assert load(dev, stub.articles([entry()], Age="7200")).age_s == 7200
    assert load(dev, stub.articles([entry()], Age="old")).age_s == 0


def test_the_cache_asks_once_a_minute_failures_included(dev):
    now, dev_answers = [0.0], [stub.articles([entry()]), stub.status(403), stub.articles([entry(8)])]
    dev.script(*dev_answers)
    cache = companion.ArticleCache(lambda: load(dev), monotonic=lambda: now[0])
    assert cache.load() is cache.load() and len(dev.requests) == 1
    now[0] = 60.0
    for _ in range(3):
        with pytest.raises(companion.DevRefused):
            cache.load()
    assert len(dev.requests) == 2
    now[0] = 120.0
    assert cache.load().articles[0].id == 8


def test_the_text_for_the_model_names_fields_and_receipt(dev):
    text = companion.build_articles_text(load(dev, stub.articles([entry(1), entry(2, comments_count=None)])))
    assert "receipt r20261129-090500-7f3a" in text and "comments_count 50, public_reactions_count 31" in text
    assert "comments_count not given" in text and len(text.splitlines()) == 3


def test_requests_is_not_loaded_by_the_file_itself():
    import subprocess
    import sys

    names = ("requests", "urllib3", "threading", "email")
    code = f"import sys, companion; print([m for m in {names} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(companion.__file__)},
    )
    assert out.stdout.strip() in ("[]", "['threading']")
