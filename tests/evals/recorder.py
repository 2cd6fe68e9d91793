"""A window on loopback between the program and the model server: it passes everything on and keeps
what the model wrote, so that the first draft is known even where the program asked once more.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from conditions import host_url

KEPT_HEADERS = ("content-type", "content-length")


class Recorder:
    """`host` is what the program is told; `texts` are the replies of /api/chat since `begin`.

    With `keeps_vectors` a text is embedded once: --ask starts anew each time and has a second for its
    vectors, a chat that has been open for a minute has them all.
    """

    def __init__(self, upstream: str, keeps_vectors: bool = False) -> None:
        where = urlsplit(host_url(upstream))
        self.address = (where.hostname or "127.0.0.1", where.port or 80)
        self.texts: list[str] = []
        self.keeps_vectors = keeps_vectors
        self.vectors: dict[tuple[str, str], list[float]] = {}
        self.turn = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.recorder = self
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def begin(self) -> None:
        """A new question: what an earlier one still brings is not kept."""
        self.turn += 1
        self.texts.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def find_draft(self) -> str | None:
        """The first reply that is prose: no tool call, also none written as text."""
        return next((text for text in self.texts if text.strip() and not is_call(text)), None)


def is_call(text: str) -> bool:
    """The whole reply is one JSON object with a name: a tool call written as text."""
    try:
        value = json.loads(text.strip().removeprefix("<tool_call>").removesuffix("</tool_call>"))
    except ValueError:
        return False
    return isinstance(value, dict) and "name" in value


def read_chat(lines: list[bytes]) -> str:
    """The text of a streamed or whole /api/chat reply."""
    parts = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("message"), dict):
            parts.append(str(value["message"].get("content") or ""))
    return "".join(parts)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    recorder: Recorder

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A program that hung up is no trouble of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        recorder = self.server.recorder
        if self.path == "/api/embed" and recorder.keeps_vectors:
            return self._embed(json.loads(body))
        turn, done = recorder.turn, threading.Event()
        line = http.client.HTTPConnection(*recorder.address, timeout=600)
        line.request(self.command, self.path, body or None, {"Content-Type": "application/json"})
        threading.Thread(target=self._hang_up_with_client, args=(line, done), daemon=True).start()
        reply = line.getresponse()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() in KEPT_HEADERS:
                self.send_header(name, value)
        self.end_headers()
        lines: list[bytes] = []
        try:
            for piece in reply:
                lines.append(piece)
                self.wfile.write(piece)
                self.wfile.flush()
        finally:
            done.set()
            line.close()
            if self.path == "/api/chat" and turn == recorder.turn and not wants_form(body):
                recorder.texts.append(read_chat(lines))

    def _embed(self, asked: dict[str, Any]) -> None:
        """Vectors from memory; those that are missing are asked for upstream, in one request."""
        recorder = self.server.recorder
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        missing = [text for text in dict.fromkeys(texts) if (asked["model"], text) not in recorder.vectors]
        if missing:
            line = http.client.HTTPConnection(*recorder.address, timeout=600)
            line.request("POST", self.path, json.dumps({**asked, "input": missing}), {"Content-Type": "application/json"})
            found = json.loads(line.getresponse().read())
            line.close()
            recorder.vectors |= {(asked["model"], text): vector
                                 for text, vector in zip(missing, found["embeddings"], strict=True)}
        vectors = [recorder.vectors[asked["model"], text] for text in texts]
        reply = json.dumps({"model": asked["model"], "embeddings": vectors}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def _hang_up_with_client(self, line: http.client.HTTPConnection, done: threading.Event) -> None:
        """When the program gives up, give up upstream too: the model must not go on for nobody."""
        while not done.wait(0.2):
            try:
                gone = select.select([self.connection], [], [], 0)[0] and not self.connection.recv(
                    1, socket.MSG_PEEK
                )
            except (OSError, ValueError):
                gone = True
            if gone and line.sock is not None and not done.is_set():
                line.sock.shutdown(socket.SHUT_RDWR)
                return


def wants_form(body: bytes) -> bool:
    """A call that asks for a JSON form (the picking of ids) is no answer."""
    try:
        value = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and bool(value.get("format"))
