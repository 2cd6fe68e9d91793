"""A stand-in for DEV on loopback: threaded, scripted answer by answer, with every fault it can show.

    with StubDev() as dev:
        dev.script(status(503, html_page()), articles([entry(1)]))

Each request takes the next answer; the last one stays. A request without our own User-Agent gets 403
before any answer, as the real edge does. `dev.requests` keeps (path, headers) of every request.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SAMPLE = {
    "type_of": "article",
    "id": 2900417,
    "title": "Why [/etc/hosts] still wins: notes on <name> & friends",
    "description": "A short look at name resolution.",
    "slug": "why-etchosts-still-wins-4k2p",
    "url": "https://dev.to/samplewriter/why-etchosts-still-wins-4k2p",
    "comments_count": 50,
    "public_reactions_count": 31,
    "published_timestamp": "2026-11-27T08:15:00Z",
    "published_at": "2026-11-27T08:15:00Z",
    "created_at": "2026-11-26T19:02:11Z",
    "edited_at": None,
    "cover_image": None,
    "collection_id": None,
    "crossposted_at": None,
    "tag_list": ["networking", "linux"],
    "tags": "networking, linux",
    "user": {"name": "Sample Writer", "username": "samplewriter"},
}

NASTY_TITLES = (
    "clear \x1b[2J\x1b[H the screen",
    "a return\rChecked: all fine",
    "back\b\b\b\bspace and bell \x07",
    "8-bit \x9b31m csi",
    "clip \x1b]52;c;aGk=\x07 board",
    "bidi \u202egnp.exe",
    "zero\u200bwidth and tag \U000e0041",
    "lone \ud800 surrogate",
    "line\nbreak\u2028and paragraph\u2029",
    "emoji 🦊 and 漢字 and e\u0301",
    "markup [/red] [bold] :100: [link=x]y[/link]",
    "`code` | pipe | <script>alert(1)</script>",
    "![x](http://tracker.invalid/x.png)",
    "# heading",
    "    indented",
    "nul \x00 byte",
    "x" * 5000,
    "",
    "   ",
)


def entry(id: int = 2900417, **changes: object) -> dict[str, object]:
    """One list entry; `days=N` puts its date N days before 27 Nov 2026."""
    days = changes.pop("days", None)
    made = dict(SAMPLE, id=id)
    if days is not None:
        from datetime import UTC, datetime, timedelta

        when = datetime(2026, 11, 27, 8, 15, tzinfo=UTC) - timedelta(days=int(str(days)))
        made["published_timestamp"] = made["published_at"] = f"{when:%Y-%m-%dT%H:%M:%SZ}"
    return {**made, **changes}


def html_page(title: str = "Just a moment...") -> bytes:
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>\x1b[2J</body></html>".encode()


# An answer is a function of the request handler. These make them.


def _send(handler, code, body, headers):
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name, value)
    if "Transfer-Encoding" not in headers and "Content-Length" not in headers:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def status(code, body=b"", **headers):
    """Any status with any body; header names with _ for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: _send(handler, code, body, {"Content-Type": "text/html", **named})


def raw(body, **headers):
    """200 with these bytes as JSON."""
    return status(200, body, **{"Content_Type": "application/json; charset=utf-8", **headers})


def articles(entries, **headers):
    """200 with a list. Lone surrogates travel as \\u escapes, as they would from a real server."""
    return raw(json.dumps(entries).encode(), **headers)


def busy(retry_after=None):
    return status(429, b"Retry later\n", **({} if retry_after is None else {"Retry_After": retry_after}))


def half_body(entries):
    """Says how long the list is and hangs up in the middle of it."""

    def answer(handler):
        body = json.dumps(entries).encode()
        _send(
            handler,
            200,
            body[: len(body) // 2],
            {"Content-Type": "application/json", "Content-Length": str(len(body))},
        )
        handler.close_connection = True

    return answer


def half_chunks(entries):
    """The same in chunks, without the closing one."""

    def answer(handler):
        body = json.dumps(entries).encode()[:100]
        _send(
            handler,
            200,
            b"%x\r\n%s\r\n" % (len(body), body),
            {"Content-Type": "application/json", "Transfer-Encoding": "chunked"},
        )
        handler.close_connection = True

    return answer


def cut_json(entries):
    """A whole answer whose JSON is half."""
    body = json.dumps(entries).encode()
    return raw(body[: len(body) // 2])


def huge_body(size=200_000_000, declare=True):
    """`size` bytes, made as they are sent. The handler notes how many left before the client hung up."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        if declare:
            handler.send_header("Content-Length", str(size))
        handler.end_headers()
        piece, sent = b" " * 65536, 0
        handler.wfile.write(b"[")
        try:
            while sent < size:
                handler.wfile.write(piece)
                sent += len(piece)
        except OSError:
            pass
        handler.server.stub.sent = sent
        handler.close_connection = True

    return answer


def bomb(size=200_000_000):
    """A small compressed body that unpacks to `size` bytes, sent though identity was asked for."""

    def answer(handler):
        import zlib

        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        block = b" " * 1_000_000
        body = b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()
        _send(handler, 200, body, {"Content-Type": "application/json", "Content-Encoding": "gzip"})

    return answer


def silence():
    """Takes the request and never answers (until the stub closes)."""

    def answer(handler):
        handler.server.stub.closing.wait(30)
        handler.close_connection = True

    return answer


def _dribble(handler, first):
    handler.wfile.write(first)
    try:
        while not handler.server.stub.closing.wait(0.02):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    except OSError:
        pass
    handler.close_connection = True


def dribble_body():
    """A byte of the body now and then, for ever."""
    return lambda handler: _dribble(
        handler, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999\r\n\r\n["
    )


def dribble_header():
    """A byte of a header now and then: no read of it ever times out."""
    return lambda handler: _dribble(handler, b"HTTP/1.1 200 OK\r\nX-Slow: ")


def redirect(target, code=302):
    return status(code, b"", Location=target)


def hang_up():
    """Closes without a word."""

    def answer(handler):
        handler.close_connection = True

    return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        stub = self.server.stub
        stub.requests.append((self.path, dict(self.headers)))
        if not self.headers.get("User-Agent", "").startswith("companion/"):
            answer = status(403, b"")
        else:
            answer = stub.next_answer()
        try:
            answer(self)
        except OSError:
            self.close_connection = True

    def log_message(self, format, *args):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass


class StubDev:
    """The server. `url` is what dev_url should be."""

    def __init__(self):
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.stub = self
        self._answers = [articles([])]
        self._lock = threading.Lock()
        self.requests = []
        self.sent = 0
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def script(self, *answers):
        """What the next requests get; the last answer stays."""
        with self._lock:
            self._answers = list(answers)

    def next_answer(self):
        with self._lock:
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    """Run by hand or from another process: `stub_dev.py ENTRIES.json [PORTFILE]` serves that file,
    read again for each request, until it is killed."""
    import sys

    path = Path(sys.argv[1])
    stub = StubDev()
    stub.script(lambda handler: articles(json.loads(path.read_text()))(handler))
    print(stub.url, flush=True)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(stub.url)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
