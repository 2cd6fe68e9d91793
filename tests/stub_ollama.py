"""A stand-in for an Ollama server on loopback: scripted, threaded, recording every request.

    with StubOllama() as stub:
        stub.then(answer("Blue."), breaks_off("It is"))     # the next answers of /api/chat, in order
        … ask stub.host …
        stub.chats[0].body["messages"]                      # what was sent; .raw and .headers too

Lines, headers and errors have the forms that a real Ollama 0.9.3 gave. Without a script it answers
like the real one would: 404 for a model it does not have, 400 for tools that a model cannot take,
`Fine.` for the rest. Nothing here sleeps; what must wait, waits for an event or for the client to go.
"""
from __future__ import annotations

import hashlib
import json
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

AT = "2026-11-29T19:32:52.486434814Z"
NDJSON, JSON, TEXT = "application/x-ndjson", "application/json; charset=utf-8", "text/plain"


class Asked(NamedTuple):
    """One request as it came: header names in the client's own case, the body byte for byte."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    raw: bytes
    body: Any

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)


class StubModel(NamedTuple):
    name: str
    size: int
    family: str
    capabilities: tuple[str, ...]
    context: int
    remote_host: str = ""


MODELS = (
    StubModel("qwen2.5-coder:1.5b", 1117322446, "qwen2", ("completion", "tools"), 32768),
    StubModel("smollm2:135m", 98363052, "llama", ("completion",), 8192),
    StubModel("thinker:latest", 522653767, "qwen3", ("completion", "tools", "thinking"), 40960),
    StubModel("nomic-embed-text:latest", 274290835, "nomic-bert", ("embedding",), 2048),
    StubModel("all-minilm:latest", 45949638, "bert", ("embedding",), 512),
)


class Wire:
    """The server's end of one answer."""

    def __init__(self, handler: BaseHTTPRequestHandler, stub: StubOllama, asked: Asked) -> None:
        self.handler, self.stub, self.asked = handler, stub, asked
        self.started = False

    def start(self, status: int = 200, kind: str = NDJSON, **headers: str) -> None:
        self.started = True
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()

    def raw(self, data: bytes) -> None:
        """Some bytes of a streamed body, as one chunk."""
        if not self.started:
            self.start()
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()

    def line(self, value: Any) -> None:
        self.raw(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    def finish(self) -> None:
        self.handler.wfile.write(b"0\r\n\r\n")
        self.handler.wfile.flush()

    def whole(self, value: Any, status: int = 200, kind: str = JSON, **headers: str) -> None:
        """A body that is not streamed: bytes as they are, else JSON."""
        data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def hang_up(self) -> None:
        """Close the connection where it stands."""
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)

    def wait_gone(self) -> None:
        """Wait until the client has closed the connection, or the stub is stopped."""
        ready, _, _ = select.select([self.handler.connection, self.stub.wake], [], [], 60)
        if self.handler.connection in ready:
            self.stub.client_gone.set()
        self.handler.close_connection = True

    # the real server's lines

    def message(self, content: str = "", thinking: str = "", calls: Iterable[Any] = ()) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = list(calls)
        self.line({"model": self.asked.body["model"], "created_at": AT, "message": message,
                   "done": False})

    def end(self, reason: str = "stop", tokens: int = 1, prompt: int | None = None) -> None:
        prompt = count_tokens(self.asked.body) if prompt is None else prompt
        self.line({"model": self.asked.body["model"], "created_at": AT,
                   "message": {"role": "assistant", "content": ""}, "done_reason": reason,
                   "done": True, "total_duration": 10240584672, "load_duration": 9406864713,
                   "prompt_eval_count": prompt, "prompt_eval_duration": 270514994,
                   "eval_count": tokens, "eval_duration": 561898370})
        self.finish()


Behaviour = Callable[[Wire], None]


def count_tokens(body: Any) -> int:
    """What a tokenizer might count for a request; near to the real one for prose and dates."""
    text = "".join(str(m.get("content") or "") for m in body["messages"])
    text += "".join(json.dumps(tool) for tool in body.get("tools") or ())
    units = len(text.encode("utf-8", "replace")) + 3 * sum(c.isdigit() for c in text)
    return units * 10 // 38 + 5 * len(body["messages"]) + 8


def cut_words(text: str) -> list[str]:
    """`text` in pieces of about a token."""
    pieces = text.split(" ")
    return [pieces[0], *(" " + piece for piece in pieces[1:])] if text else []


# What /api/chat may do. Each takes what it says before the accident as `before`.

def answer(text: str, *, reason: str = "stop", pieces: Iterable[str] | None = None,
           prompt: int | None = None) -> Behaviour:
    """A plain streamed answer; `prompt` makes the server's count a lie."""
    def act(wire: Wire) -> None:
        words = list(pieces) if pieces is not None else cut_words(text)
        for word in words:
            wire.message(word)
        wire.end(reason, len(words) + 1, prompt)
    return act


def tool_call(name: Any, arguments: Any, *more: tuple[Any, Any], before: str = "") -> Behaviour:
    """One or more calls in the tool channel; `arguments` may be anything."""
    def act(wire: Wire) -> None:
        for word in cut_words(before):
            wire.message(word)
        for n, a in ((name, arguments), *more):
            wire.message(calls=[{"function": {"name": n, "arguments": a}}])
        wire.end(tokens=20)
    return act


def thinks(thinking: str, text: str = "", *, reason: str = "stop", tags: bool = False) -> Behaviour:
    """Thinking first, in its own field or, with `tags`, as <think> in the answer as older servers do."""
    def act(wire: Wire) -> None:
        for word in cut_words(f"<think>{thinking}</think>{text}" if tags else thinking):
            wire.message(word) if tags else wire.message(thinking=word)
        for word in () if tags else cut_words(text):
            wire.message(word)
        wire.end(reason, 600)
    return act


def error_line(words: Any, *, before: str = "") -> Behaviour:
    """200, then an error where a piece is due."""
    def act(wire: Wire) -> None:
        for word in cut_words(before):
            wire.message(word)
        wire.line({"error": words})
        wire.finish()
    return act


def junk_line(line: bytes, *, before: str = "", after: str = "") -> Behaviour:
    """A line that is not what the protocol says; then the answer goes on."""
    def act(wire: Wire) -> None:
        for word in cut_words(before):
            wire.message(word)
        wire.raw(line + b"\n")
        for word in cut_words(after):
            wire.message(word)
        wire.end()
    return act


def breaks_off(before: str = "") -> Behaviour:
    """The connection is cut in mid-stream."""
    def act(wire: Wire) -> None:
        wire.start()
        for word in cut_words(before):
            wire.message(word)
        wire.hang_up()
    return act


def no_end(before: str) -> Behaviour:
    """The stream ends as if all were well, but without its `done` line."""
    def act(wire: Wire) -> None:
        for word in cut_words(before):
            wire.message(word)
        wire.finish()
    return act


def silent(before: str = "") -> Behaviour:
    """Says `before`, then nothing more until the client goes away."""
    def act(wire: Wire) -> None:
        for word in cut_words(before):
            wire.message(word)
        wire.wait_gone()
    return act


def waits_for(event: threading.Event, then: Behaviour) -> Behaviour:
    """Silent until `event` is set (a cold start), then does `then`."""
    def act(wire: Wire) -> None:
        event.wait(60)
        then(wire)
    return act


def endless(word: str = "on and on ", *, numbered: bool = True) -> Behaviour:
    """Text without end, whatever num_predict says, until the client goes away."""
    def act(wire: Wire) -> None:
        n = 0
        try:
            while not wire.stub.stopped.is_set():
                n += 1
                wire.message(f"{word}{hashlib.sha256(str(n).encode()).hexdigest()[:9]} "
                             if numbered else word)
        except OSError:
            wire.stub.client_gone.set()
    return act


def status(code: int, body: Any, kind: str = JSON, **headers: str) -> Behaviour:
    """A status of its own with a body of its own."""
    return lambda wire: wire.whole(body, code, kind, **headers)


def not_found(model: str) -> Behaviour:
    return status(404, {"error": f'model "{model}" not found, try pulling it first'})


def no_tools(model: str) -> Behaviour:
    return status(400, {"error": f"registry.ollama.ai/library/{model} does not support tools"})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True      # else each answer waits 40 ms for an acknowledgement
    server: Any

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the screen of a test run."""

    def do_GET(self) -> None:
        self.take(b"")

    def do_POST(self) -> None:
        self.take(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def take(self, raw: bytes) -> None:
        stub: StubOllama = self.server.stub
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        asked = Asked(self.command, self.path, list(self.headers.items()), raw, body)
        wire = Wire(self, stub, asked)
        try:
            stub.answer(asked)(wire)
        except OSError:     # the client went away, which some tests want
            stub.client_gone.set()
            self.close_connection = True


class StubOllama:
    """The server. `host` is its address; the recorded requests are in `asked`, those of /api/chat in
    `chats`. `client_gone` is set when a client closed the connection before its answer was whole."""

    def __init__(self, *script: Behaviour, models: Iterable[StubModel] = MODELS) -> None:
        self.models = list(models)
        self.script: deque[Behaviour] = deque(script)
        self.always: Behaviour = answer("Fine.")
        self.instead: dict[str, Behaviour] = {}     # path -> what that path does
        self.asked: list[Asked] = []
        self.arrived = threading.Semaphore(0)       # one for every request
        self.client_gone, self.stopped = threading.Event(), threading.Event()
        self.wake, self._waker = socket.socketpair()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=True)
        self._server.daemon_threads = True
        self._server.stub = self  # type: ignore[attr-defined]
        self.port = int(self._server.server_address[1])
        self.host = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> StubOllama:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopped.set()
        self._waker.send(b"x")
        self._server.shutdown()
        self._server.server_close()
        self.wake.close()
        self._waker.close()

    def then(self, *script: Behaviour) -> None:
        """The next answers of /api/chat; when they are used up, `always`."""
        self.script.extend(script)

    @property
    def chats(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == "/api/chat"]

    def find_model(self, name: str) -> StubModel | None:
        name = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
        return next((model for model in self.models if model.name == name), None)

    def answer(self, asked: Asked) -> Behaviour:
        """Record a request and say what to do with it."""
        with self._lock:
            self.asked.append(asked)
            behaviour = self.instead.get(asked.path) or self._usual(asked)
        self.arrived.release()
        return behaviour

    def _usual(self, asked: Asked) -> Behaviour:
        if asked.path in FIXED:
            return FIXED[asked.path](self)
        if asked.path not in MODEL_PATHS:
            return status(404, b"404 page not found", TEXT)
        name = str((asked.body or {}).get("model"))
        model = self.find_model(name)
        if model is None:
            words = f"model '{name}' not found" if asked.path in ("/api/show", "/api/generate") else \
                f'model "{name}" not found, try pulling it first'
            return status(404, {"error": words})
        return MODEL_PATHS[asked.path](self, asked, model)

    def _chat(self, asked: Asked, model: StubModel) -> Behaviour:
        if asked.body.get("tools") and "tools" not in model.capabilities:
            return no_tools(model.name)
        if asked.body.get("think") and "thinking" not in model.capabilities:
            return status(400, {"error": f"{model.name} does not support thinking"})
        if not asked.body.get("messages"):
            return status(200, {"model": model.name, "created_at": AT, "message": {
                "role": "assistant", "content": ""}, "done_reason": "load", "done": True})
        return self.script.popleft() if self.script else self.always

    def _tags(self) -> Behaviour:
        return status(200, {"models": [
            {"name": m.name, "model": m.name, "modified_at": AT, "size": m.size, "digest": "51078779",
             "details": {"parent_model": "", "format": "gguf", "family": m.family,
                         "families": [m.family], "parameter_size": "1.8B",
                         "quantization_level": "Q4_K_M"},
             **({"remote_host": m.remote_host, "remote_model": m.name} if m.remote_host else {})}
            for m in self.models]})

    def _show(self, asked: Asked, model: StubModel) -> Behaviour:
        return status(200, {
            "modelfile": f"FROM {model.name}\n", "template": "{{ .Prompt }}",
            "details": {"format": "gguf", "family": model.family, "families": [model.family]},
            "model_info": {"general.architecture": model.family, "general.languages": None,
                           f"{model.family}.context_length": model.context},
            "capabilities": list(model.capabilities), "modified_at": AT,
            **({"remote_host": model.remote_host} if model.remote_host else {})})

    def _embed(self, asked: Asked, model: StubModel) -> Behaviour:
        texts = asked.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        size = 768 if "nomic" in model.name else 384
        return status(200, {"model": model.name, "embeddings": [build_vector(t, size) for t in texts],
                            "total_duration": 1, "load_duration": 1, "prompt_eval_count": 7})

    def _generate(self, asked: Asked, model: StubModel) -> Behaviour:
        reason = "unload" if asked.body.get("keep_alive") == 0 else "load"
        return status(200, {"model": model.name, "created_at": AT, "response": "", "done": True,
                            "done_reason": reason})


def build_vector(text: str, size: int) -> list[float]:
    """A vector that texts with the same words share in part; the same in every run."""
    vector = [0.0] * size
    for word in text.lower().split():
        vector[int(hashlib.sha256(word.encode("utf-8", "replace")).hexdigest(), 16) % size] += 1.0
    length = sum(x * x for x in vector) ** 0.5 or 1.0
    return [x / length for x in vector]


FIXED: dict[str, Callable[[StubOllama], Behaviour]] = {
    "/": lambda stub: status(200, b"Ollama is running", TEXT),
    "/api/version": lambda stub: status(200, {"version": "0.9.3"}),
    "/api/tags": StubOllama._tags,
    "/api/ps": lambda stub: status(200, {"models": []}),
}
MODEL_PATHS: dict[str, Callable[[StubOllama, Asked, StubModel], Behaviour]] = {
    "/api/chat": StubOllama._chat, "/api/show": StubOllama._show,
    "/api/embed": StubOllama._embed, "/api/generate": StubOllama._generate,
}
