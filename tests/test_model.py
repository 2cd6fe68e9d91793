"""Section 12: the way to Ollama, against a stand-in that misbehaves in every known way."""
from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_ollama import (
    StubModel,
    StubOllama,
    answer,
    breaks_off,
    endless,
    error_line,
    junk_line,
    no_end,
    no_tools,
    silent,
    status,
    thinks,
    tool_call,
    waits_for,
)

import companion
from companion import (
    Failure,
    Gauge,
    Installed,
    Interrupted,
    Model,
    ModelMissing,
    ModelUnreachable,
    Piece,
    PromptTooLong,
    Refused,
    Reply,
    ServerDown,
    ServerError,
    ServerSilent,
    Settings,
    StreamBroken,
    ThinkSplitter,
    ToolCall,
    check_local,
    find_embed_model,
    find_silent_cut,
    find_text_call,
    is_looping,
    mend_line,
    mend_lines,
    normalise_host,
    same_model,
)

QWEN, SMOL = "qwen2.5-coder:1.5b", "smollm2:135m"
HELLO = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello?"}]
TOOLS = [{"type": "function", "function": {
    "name": name, "description": "Search the records.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}},
                   "required": ["query"]}}} for name in ("recall", "read_mission")]
SHORT = {"/api/chat": 0.05, "/api/tags": 0.05, "/api/embed": 0.05, "/api/show": 5}


@pytest.fixture
def stub() -> Iterator[StubOllama]:
    with StubOllama() as server:
        yield server


@pytest.fixture
def ask(stub: StubOllama) -> Iterator[Asker]:
    asker = Asker(stub)
    yield asker
    asker.close()


class Asker:
    """Makes models on the stub and closes them."""

    def __init__(self, stub: StubOllama) -> None:
        self.stub, self.made = stub, list[Model]()
        self.pieces: list[Piece] = []

    def model(self, name: str = QWEN, limits: Any = None, **settings: Any) -> Model:
        wanted = Settings(model=name, **{"host": self.stub.host} | settings)
        self.made.append(Model(wanted, limits_s=limits or companion.LIMITS_S))
        return self.made[-1]

    def __call__(self, *script: Any, name: str = QWEN, tools: Any = (), limits: Any = None,
                 **settings: Any) -> Reply:
        self.stub.then(*script)
        return self.model(name, limits, **settings).chat(HELLO, tools, on_piece=self.pieces.append)

    def shown(self, kind: str) -> list[str]:
        return [piece.text for piece in self.pieces if piece.kind == kind]

    def close(self) -> None:
        for model in self.made:
            model.close()


# --- P13: which address, which model -----------------------------------------------------------

@pytest.mark.parametrize(("text", "host"), [
    ("", "http://127.0.0.1:11434"), ("0.0.0.0", "http://127.0.0.1:11434"),
    (":11434", "http://127.0.0.1:11434"), (":8080", "http://127.0.0.1:8080"),
    ("[::]", "http://127.0.0.1:11434"), ("[::]:99", "http://127.0.0.1:99"),
    ("0.0.0.0:11500", "http://127.0.0.1:11500"), ("localhost", "http://127.0.0.1:11434"),
    ("http://localhost:1/", "http://127.0.0.1:1"), ("[::1]:5", "http://[::1]:5"),
    ("127.0.0.1", "http://127.0.0.1:11434"), ("myhost", "http://myhost:11434"),
    ("http://h:1/", "http://h:1"), ("http://h", "http://h:80"), ("https://h", "https://h:443"),
])
def test_p13_every_form_of_ollama_host(text: str, host: str) -> None:
    assert normalise_host(text) == host


@pytest.mark.parametrize("host", [
    "http://127.0.0.1:11434", "http://127.9.9.9:1", "http://[::1]:11434", "https://127.0.0.1:443",
    "http://[::ffff:127.0.0.1]:1",
])
def test_p13_loopback_by_address(host: str) -> None:
    check_local(host, "llama3.2", allow_remote=False)


@pytest.mark.parametrize("host", [
    "http://192.168.1.7:11434", "http://ollama.example:80", "http://localhost:11434",
    "http://127.0.0.1.example.com:80", "http://127.1:80", "http://2130706433:80",
    "http://0x7f000001:80", "http://[fe80::1]:80", "http://[::ffff:10.0.0.1]:80",
    "http://0.0.0.0:11434", "http://[::]:11434",
])
def test_p13_anything_else_is_refused_until_allowed(host: str) -> None:
    with pytest.raises(Refused, match="--allow-remote"):
        check_local(host, "llama3.2", allow_remote=False)
    check_local(host, "llama3.2", allow_remote=True)


@pytest.mark.parametrize("host", [
    "http://127.0.0.1@example.com:80", "http://example.com#@127.0.0.1:80",
    "http://example.com\\@127.0.0.1:80", "ftp://127.0.0.1:80", "127.0.0.1:80", "http://127.0.0.1",
    "http://127.0.0.1:80/x", "http://127.0.0.1:80\n", "",
])
def test_p13_an_address_that_two_parsers_could_read_differently_is_never_used(host: str) -> None:
    for allowed in (False, True):
        with pytest.raises(Refused):
            check_local(host, "llama3.2", allow_remote=allowed)


@pytest.mark.parametrize("model", ["sample:cloud", "sample:120b-cloud", "Sample:Cloud", "u/x:1b-cloud"])
def test_p13_cloud_models_in_both_forms_are_refused(ask: Asker, model: str) -> None:
    with pytest.raises(Refused, match="another machine"):
        ask.model(model).chat(HELLO)
    with pytest.raises(Refused, match="another machine"):
        ask.model().use(model)
    with pytest.raises(Refused, match="another machine"):
        ask.model().embed(model, ["x"])
    assert isinstance(ask.model(model).warm(HELLO), Refused)
    assert ask.stub.asked == []
    check_local(ask.stub.host, "cloudy:7b", allow_remote=False)


def test_p13_a_local_name_for_a_model_that_runs_elsewhere_is_refused(ask: Asker) -> None:
    ask.stub.models.append(StubModel("mine:latest", 1, "x", ("completion",), 4096, "https://far.example"))
    with pytest.raises(Refused, match="cloud model"):
        ask(name="mine")
    assert ask.stub.chats == []
    assert ask(name="mine", allow_remote=True).text == "Fine."


def test_p13_no_proxy_no_key_no_redirect(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    with StubOllama() as other:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other.host)
        monkeypatch.setenv("OLLAMA_API_KEY", "sk-very-secret")
        ask.stub.instead["/api/tags"] = status(302, b"", Location=f"{other.host}/api/tags")
        assert ask(answer("Blue.")).text == "Blue."
        with pytest.raises(ServerError):
            ask.model().load_installed()
        assert other.asked == []
    for asked in ask.stub.asked:
        assert "sk-very-secret" not in repr(asked)
        assert asked.header("Authorization") is None


def test_p13_no_resolver_is_asked(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    names: list[Any] = []
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: names.append(a[0]) or real(*a, **k))
    ask()
    with pytest.raises(Refused):
        ask(host="http://localhost:1")
    assert set(names) <= {"127.0.0.1"}


def test_making_a_model_imports_and_connects_nothing() -> None:
    code = ("import sys, companion; companion.Model(companion.Settings()); "
            "print([m for m in ('ollama', 'httpx', 'pydantic') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=companion.__file__.rpartition("/")[0])
    assert done.stdout.strip() == "[]"


def test_certificates_are_checked_wherever_they_matter() -> None:
    import ssl
    for host, wanted in (("https://127.0.0.1:1", ssl.CERT_REQUIRED),
                         ("HTTPS://127.0.0.1:1", ssl.CERT_REQUIRED),
                         ("http://127.0.0.1:1", ssl.CERT_NONE)):
        transport: Any = companion.build_transport(host, {})
        assert transport.inner._pool._ssl_context.verify_mode == wanted
        transport.close()


def test_one_client_for_all(ask: Asker) -> None:
    model = ask.model()
    model.load_installed()
    first = model._open()
    model.chat(HELLO)
    assert model._open() is first


# --- What is sent --------------------------------------------------------------------------------

def test_every_call_sends_the_same_bytes_but_for_the_last_message(ask: Asker) -> None:
    model = ask.model()
    model.warm(HELLO[:1], TOOLS)
    model.chat(HELLO, TOOLS)
    model.chat([*HELLO[:1], {"role": "user", "content": "Other?"}], TOOLS)
    model.chat(HELLO, TOOLS, format={"type": "object"})
    warm, one, two, three = (asked.body for asked in ask.stub.chats)
    assert one["options"] == two["options"] == three["options"] == {"num_ctx": 8192, "num_predict": 600, "temperature": 0.2}
    assert warm["options"] == {"num_ctx": 8192, "num_predict": 1, "temperature": 0.2}
    assert one["keep_alive"] == warm["keep_alive"] == "30m"
    assert three.pop("format") == {"type": "object"} and three == one
    assert ask.stub.chats[1].raw.replace(b"Hello?", b"Other?") == ask.stub.chats[2].raw
    assert warm["tools"] == one["tools"] and warm["messages"] == one["messages"][:1]
    assert "think" not in one


def test_the_window_is_the_smaller_of_setting_and_model(ask: Asker) -> None:
    ask(name=SMOL, num_ctx=32000, num_predict=600)
    ask(num_ctx=1024, num_predict=8000)
    assert [asked.body["options"] for asked in ask.stub.chats] == [
        {"num_ctx": 8192, "num_predict": 600, "temperature": 0.2}, {"num_ctx": 1024, "num_predict": 512, "temperature": 0.2}]


def test_words_that_no_request_can_carry_are_replaced(ask: Asker) -> None:
    ask.model().chat([{"role": "user", "content": "a \ud800 \x00 🦊"}, {
        "role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "recall", "arguments": "not \udfff an object"}}]}])
    first, second = ask.stub.chats[0].body["messages"]
    assert first["content"] == "a ? \x00 🦊"
    assert second["tool_calls"][0]["function"]["arguments"] == {"not an object": "not ? an object"}


@pytest.mark.parametrize(("name", "thinking", "flag"), [
    ("thinker", "hidden", None), ("thinker", "dim", True), ("thinker", "off", False), (QWEN, "dim", None)])
def test_thinking_is_asked_for_only_where_the_model_can(ask: Asker, name: str, thinking: str,
                                                        flag: bool | None) -> None:
    ask(name=name, thinking=thinking)
    assert ask.stub.chats[0].body.get("think") is flag


# --- Answers ----------------------------------------------------------------------------------------

def test_a_plain_answer(ask: Asker) -> None:
    reply = ask(answer("It is blue."))
    assert (reply.text, reply.calls, reply.complete, reply.trouble) == ("It is blue.", (), True, "")
    assert (reply.done_reason, reply.answer_tokens) == ("stop", 4)
    assert reply.prompt_tokens > 10 and reply.prompt_s == pytest.approx(0.27, abs=0.01)
    assert 0 < reply.first_token_s <= reply.total_s
    assert ask.pieces[0] == Piece("loading", f"loading {QWEN}")
    assert ask.shown("text") == ["It", " is", " blue."] and ask.shown("tokens") == ["1", "2", "3"]


def test_the_first_call_says_loading_and_later_ones_reading(ask: Asker) -> None:
    model = ask.model()
    for _ in range(2):
        model.chat(HELLO, on_piece=ask.pieces.append)
    assert ask.shown("loading") == [f"loading {QWEN}", "reading"]


def test_times_come_from_the_clock_that_was_handed_in(stub: StubOllama) -> None:
    ticks = iter(range(100))
    model = Model(Settings(model=QWEN, host=stub.host), clock=lambda: float(next(ticks)))
    reply = model.chat(HELLO)
    model.close()
    assert (reply.first_token_s, reply.total_s) == (1.0, 2.0)


@pytest.mark.parametrize("arguments", [
    {"query": "blue"}, {}, "blue", None, 7, ["blue"], {"not an object": 1, "x": 2}])
def test_a_tool_call_with_any_arguments(ask: Asker, arguments: Any) -> None:
    reply = ask(tool_call("recall", arguments), tools=TOOLS)
    assert reply.calls == (ToolCall("recall", arguments),)
    assert reply.complete and reply.trouble == ""


def test_odd_tool_calls_are_carried_not_crashed_on(ask: Asker) -> None:
    stub = ask.stub
    stub.then(lambda wire: (wire.message(calls=["x", {"function": 5}, {"function": {"name": 9}}]),
                            wire.end()))
    reply = ask(tools=TOOLS)
    assert [call.name for call in reply.calls] == ["", "", ""] and reply.complete


def test_several_calls_after_some_words(ask: Asker) -> None:
    reply = ask(tool_call("recall", {"query": "a"}, ("read_mission", {}), before="One moment."))
    assert reply.text == "One moment."
    assert [call.name for call in reply.calls] == ["recall", "read_mission"]


def test_a_model_known_to_take_no_tools_gets_none_and_it_is_told_once(ask: Asker) -> None:
    model = ask.model(SMOL)
    assert model.warm(HELLO, TOOLS) is None
    for _ in range(2):
        assert model.chat(HELLO, TOOLS, on_piece=ask.pieces.append).text == "Fine."
    assert all("tools" not in asked.body or not asked.body["tools"] for asked in ask.stub.chats)
    assert len(ask.stub.chats) == 3
    assert len(ask.shown("notice")) == 1 and SMOL in ask.shown("notice")[0]
    assert model.load_tool_support() is False


def test_a_server_that_does_not_tell_is_asked_once_more_without_tools(ask: Asker) -> None:
    ask.stub.instead["/api/show"] = status(404, b"404 page not found", "text/plain")
    model = ask.model()
    ask.stub.then(no_tools(QWEN))
    for _ in range(2):
        assert model.chat(HELLO, TOOLS, on_piece=ask.pieces.append).text == "Fine."
    assert [bool(asked.body.get("tools")) for asked in ask.stub.chats] == [True, False, False]
    assert len(ask.shown("notice")) == 1
    assert len([asked for asked in ask.stub.asked if asked.path == "/api/show"]) == 1
    assert model.load_tool_support() is False


def test_capabilities_and_limits_as_the_server_tells_them(ask: Asker) -> None:
    model = ask.model()
    assert model.load_tool_support() is True and model.load_tool_support(SMOL) is False
    assert model.load_context_limit() == 32768 and model.load_context_limit(SMOL) == 8192
    ask.stub.instead["/api/show"] = status(200, {"details": {}})
    assert model.load_tool_support("thinker") is None and model.load_context_limit("thinker") is None


# --- What goes wrong before an answer ---------------------------------------------------------------

def test_a_missing_model_names_the_command_and_what_is_there(ask: Asker) -> None:
    with pytest.raises(ModelMissing) as caught:
        ask(name="nope")
    assert "`ollama pull nope`" in str(caught.value)
    assert QWEN in str(caught.value) and "embed" not in str(caught.value)
    ask.stub.models.clear()
    with pytest.raises(ModelMissing, match="No chat model is installed"):
        ask(name="nope\x1b[2J")
    ask.stub.models.append(StubModel("nope:latest", 1, "x", ("completion",), 4096))
    assert ask(name="nope").text == "Fine."


def test_a_model_pulled_during_the_session_is_found(ask: Asker) -> None:
    model = ask.model("late")
    with pytest.raises(ModelMissing):
        model.chat(HELLO)
    ask.stub.models.append(StubModel("late:latest", 1, "x", ("completion", "tools"), 2048))
    assert model.chat(HELLO).text == "Fine." and model.num_ctx == 2048


def test_server_down_is_one_sentence_on_every_path() -> None:
    with StubOllama() as gone:
        host = gone.host
    model = Model(Settings(model=QWEN, host=host))
    said = set()
    for act in (lambda: model.chat(HELLO), model.load_installed, model.load_tool_support,
                model.unload, lambda: model.embed("all-minilm", ["x"])):
        with pytest.raises(ServerDown) as caught:
            act()
        said.add(str(caught.value))
    said.add(str(model.warm(HELLO)))
    assert said == {f"Ollama does not answer at {host}. Start it with `ollama serve`."}
    assert ServerDown.exit_code == 3


def test_server_down_between_two_turns_and_up_again(ask: Asker) -> None:
    model = ask.model()
    model.chat(HELLO)
    ask.stub.then(lambda wire: wire.hang_up())
    with pytest.raises(ModelUnreachable):
        model.chat(HELLO)
    assert model.chat(HELLO).text == "Fine."


@pytest.mark.parametrize(("behaviour", "words"), [
    (status(500, {"error": "model requires more system memory (5.6 GiB) than is available"}), "5.6 GiB"),
    (status(503, b"<html>\x1b[2Jbusy</html>", "text/html"), r"<html>\\x1b[2Jbusy</html>"),
    (status(500, b""), "no reason given"), (status(500, b"7"), "7"), (status(500, b'["x"]'), "x"),
    (status(404, b"404 page not found", "text/plain"), "404 page not found"),
    (status(302, b"", Location="http://127.0.0.1:1/"), "no reason given"),
    (error_line("llama runner process has terminated"), "llama runner process"),
])
def test_an_error_instead_of_an_answer_gives_the_servers_own_words(ask: Asker, behaviour: Any,
                                                                   words: str) -> None:
    with pytest.raises(ServerError) as caught:
        ask(behaviour)
    assert words.replace("\\\\", "\\") in str(caught.value)
    assert "\x1b" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["/api/tags", "/api/embed"])
@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"models": 5}', b"", b"\xff\xfe"])
def test_something_else_at_the_address_is_said_so(ask: Asker, path: str, body: bytes) -> None:
    ask.stub.instead[path] = status(200, body)
    model = ask.model()
    with pytest.raises(ServerError, match="does not speak as Ollama does"):
        model.load_installed() if path == "/api/tags" else model.embed("all-minilm", ["x"])


def test_silence_before_the_first_piece_is_bounded(ask: Asker) -> None:
    with pytest.raises(ServerSilent):
        ask(silent(), limits=SHORT)
    assert ask.stub.client_gone.wait(5)


def test_a_cold_start_is_waited_for_and_shown(ask: Asker) -> None:
    loaded = threading.Event()
    ask.stub.then(waits_for(loaded, answer("Blue.")))

    def on_piece(piece: Piece) -> None:
        ask.pieces.append(piece)
        if piece.kind == "loading":
            loaded.set()

    assert ask.model().chat(HELLO, on_piece=on_piece).text == "Blue."
    assert ask.pieces[0].kind == "loading"


# --- What goes wrong in an answer -------------------------------------------------------------------

@pytest.mark.parametrize(("behaviour", "words"), [
    (error_line("llama runner\r\nprocess \x1b[31mhas terminated", before="It is"),
     r"llama runner\x0d process \x1b[31mhas terminated"),
    (error_line({"code": 5}, before="It is"), '{"code":5}'),
    (error_line(["a"], before="It is"), '["a"]'), (error_line(7, before="It is"), "7"),
    (error_line("7", before="It is"), "7"), (error_line('{"x": 1}', before="It is"), '{"x": 1}'),
    (junk_line(b"<html>oops", before="It is"), "<html>oops"),
    (junk_line(b"17", before="It is"), "17"), (junk_line(b"[1, 2]", before="It is"), "[1, 2]"),
    (junk_line(b"null", before="It is"), "null"), (junk_line(b"\xff\xfe", before="It is"), "\ufffd"),
    (junk_line(b"[" * 100_000, before="It is"), "[[["),
    (breaks_off("It is"), "closed the connection"), (silent("It is"), "fell silent"),
])
def test_a_broken_stream_keeps_what_had_arrived(ask: Asker, behaviour: Any, words: str) -> None:
    with pytest.raises(StreamBroken) as caught:
        ask(behaviour, limits=SHORT)
    reply = caught.value.reply
    assert (reply.text, reply.complete, reply.done_reason) == ("It is", False, "broken")
    assert words in str(caught.value) and words in reply.trouble
    assert "\x1b" not in str(caught.value) and "\n" not in str(caught.value)
    assert ask.model().chat(HELLO).text == "Fine."


def test_blank_lines_and_unknown_fields_are_no_trouble(ask: Asker) -> None:
    assert ask(junk_line(b"  ", before="It is", after=" blue.")).text == "It is blue."
    odd = b'{"message":{"content":5,"thinking":[],"tool_calls":{},"x":1},"done":"yes","eval_count":"9"}'
    reply = ask(junk_line(odd, before="It is", after=" blue."))
    assert (reply.text, reply.complete, reply.calls) == ("It is blue.", True, ())


def test_a_stream_without_its_end_mark(ask: Asker) -> None:
    reply = ask(no_end("It is"))
    assert (reply.text, reply.complete, reply.done_reason) == ("It is", False, "no_end")
    assert "end mark" in reply.trouble


def test_nothing_after_the_end_mark_counts(ask: Asker) -> None:
    def act(wire: Any) -> None:
        wire.message("Blue.")
        wire.line({"message": {"content": ""}, "done": True, "done_reason": "stop"})
        wire.message(" And more.")
        wire.wait_gone()
    assert ask(act, limits=SHORT).text == "Blue."


def test_thinking_only_says_what_happened_and_how_to_change_it(ask: Asker) -> None:
    reply = ask(thinks("hm " * 20, reason="length"), name="thinker")
    assert reply.text == "" and reply.thinking.startswith("hm hm")
    assert "ran out of tokens while it was thinking" in reply.trouble
    assert "num_predict" in reply.trouble and "600" in reply.trouble
    assert ask.shown("text") == [] and ask.shown("thinking")
    assert "only thought" in ask(thinks("hm"), name="thinker").trouble


def test_an_empty_and_a_cut_answer_are_said_so(ask: Asker) -> None:
    assert "empty answer" in ask(answer("")).trouble
    reply = ask(answer("It is", reason="length"))
    assert reply.complete and "cut off" in reply.trouble and "num_predict" in reply.trouble


@pytest.mark.parametrize("tags", [False, True])
def test_thinking_is_never_part_of_the_answer(ask: Asker, tags: bool) -> None:
    reply = ask(thinks("let me see", "It is blue.", tags=tags), name="thinker")
    assert (reply.text, reply.thinking) == ("It is blue.", "let me see")
    assert "".join(ask.shown("text")) == "It is blue."


@given(st.lists(st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "a", " ", "<", "\n"])))
def test_the_splitter_does_the_same_wherever_the_pieces_are_cut(words: list[str]) -> None:
    whole = "".join(words)
    results = set()
    for pieces in ([whole], words, list(whole)):
        splitter, thinking, text = ThinkSplitter(), "", ""
        for thought, said in [*map(splitter.split, pieces), splitter.flush()]:
            thinking, text = thinking + thought, text + said
        results.add((thinking, text))
    assert len(results) == 1
    if not whole.lstrip().startswith("<think>"):
        assert results == {("", whole)}


def test_a_loop_is_stopped_and_said(ask: Asker) -> None:
    reply = ask(endless("I am sorry, I do not know that. ", numbered=False))
    assert reply.done_reason == "looping" and "repeat itself" in reply.trouble
    assert not reply.complete and len(reply.text) < 600
    assert ask.stub.client_gone.wait(5)


def test_text_without_end_is_stopped_at_a_limit_of_our_own(ask: Asker) -> None:
    reply = ask(endless(), num_predict=50)
    assert reply.done_reason == "limit" and "past its limit" in reply.trouble
    assert reply.answer_tokens <= 2 * 50 + 65
    assert ask.stub.client_gone.wait(5)


def test_a_line_without_end_is_stopped(ask: Asker) -> None:
    def act(wire: Any) -> None:
        wire.message("It is")
        while not wire.stub.stopped.is_set():
            wire.raw(b"x" * 65536)
    with pytest.raises(StreamBroken, match="a line without end"):
        ask(act)
    assert ask.stub.client_gone.wait(5)


def test_a_body_without_end_is_stopped() -> None:
    endless_bytes = iter(lambda: b"x" * 100_000, b"")
    assert len(companion._read_body(endless_bytes, 1_000_000)) == 1_000_000


def test_lines_are_found_wherever_the_bytes_are_cut() -> None:
    line = '{"message":{"content":"blåbær 🦊"},"done":false}\n'.encode()
    whole = list(mend_lines([line * 3]))
    assert len(whole) == 3 and list(mend_lines(bytes([b]) for b in line * 3)) == whole
    assert list(mend_lines([line, b'{"message"'])) == whole[:1]


@settings(max_examples=60, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(
                        st.sampled_from(["message", "content", "thinking", "tool_calls", "function",
                                         "name", "arguments", "done", "done_reason", "error",
                                         "eval_count"]), inner), max_leaves=12))
def test_whatever_the_line_holds_the_client_can_read_it(value: Any) -> None:
    from ollama import ChatResponse, ResponseError
    part = json.loads(mend_line(json.dumps(value).encode()))
    if "error" in part:
        assert isinstance(ResponseError(part["error"]).error, str)
    else:
        ChatResponse(**part)


# --- Stopping ---------------------------------------------------------------------------------------

def test_ctrl_c_in_mid_stream_closes_the_connection_and_keeps_the_text(ask: Asker) -> None:
    ask.stub.then(silent("It is"))

    def on_piece(piece: Piece) -> None:
        if piece == Piece("tokens", "2"):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        ask.model().chat(HELLO, on_piece=on_piece)
    assert isinstance(caught.value, Interrupted)
    assert (caught.value.reply.text, caught.value.reply.complete) == ("It is", False)
    assert ask.stub.client_gone.wait(5)
    assert ask.model().chat(HELLO).text == "Fine."


@pytest.mark.parametrize("before", ["", "It is"])
def test_ctrl_c_while_waiting_for_the_server(ask: Asker, before: str) -> None:
    def act(wire: Any) -> None:
        for word in before.split():
            wire.message(word)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        wire.wait_gone()
    with pytest.raises(Interrupted) as caught:
        ask(act)
    assert caught.value.reply.done_reason == "interrupted"
    assert ask.stub.client_gone.wait(5)


def test_a_caller_can_stop_the_stream(ask: Asker) -> None:
    ask.stub.then(silent("It is blue and"))
    model = ask.model()
    reply = model.chat(HELLO, on_piece=ask.pieces.append, should_stop=lambda: len(ask.shown("text")) >= 2)
    assert (reply.text, reply.complete, reply.done_reason, reply.trouble) == ("It is", False, "stopped", "")
    assert ask.stub.client_gone.wait(5)


def test_an_error_of_the_callers_own_stays_its_own(ask: Asker) -> None:
    def on_piece(piece: Piece) -> None:
        if piece.kind == "text":
            raise ValueError("the screen")
    ask.stub.then(silent("It is"))
    with pytest.raises(ValueError, match="the screen"):
        ask.model().chat(HELLO, on_piece=on_piece)
    assert ask.stub.client_gone.wait(5)


def test_a_question_during_the_warming_waits_for_it(ask: Asker) -> None:
    ready, replies = threading.Event(), list[Reply]()
    ask.stub.then(waits_for(ready, answer("x")), answer("Blue."))
    model = ask.model()
    warming = threading.Thread(target=model.warm, args=(HELLO,))
    warming.start()
    while not ask.stub.chats:
        assert ask.stub.arrived.acquire(timeout=5)
    asking = threading.Thread(target=lambda: replies.append(model.chat(HELLO)))
    asking.start()
    while ask.stub.arrived.acquire(timeout=0.1):
        assert len(ask.stub.chats) == 1
    ready.set()
    warming.join(5)
    asking.join(5)
    assert replies[0].text == "Blue." and len(ask.stub.chats) == 2


def test_warming_says_nothing_and_raises_nothing(ask: Asker, capsys: pytest.CaptureFixture[str]) -> None:
    for behaviour in (silent(), breaks_off(), breaks_off("x"), error_line("x"), junk_line(b"x")):
        ask.stub.then(behaviour)
        assert isinstance(ask.model(limits=SHORT).warm(HELLO), ModelUnreachable)
    assert isinstance(ask.model("nope").warm(HELLO), ModelMissing)
    assert ask.model().warm(HELLO) is None
    assert capsys.readouterr() == ("", "")


def test_unloading_frees_the_model(ask: Asker) -> None:
    ask.model().unload()
    sent = ask.stub.asked[-1]
    assert sent.path == "/api/generate" and sent.body["model"] == QWEN
    assert sent.body["keep_alive"] == 0 and not sent.body.get("prompt")


# --- Embeddings ---------------------------------------------------------------------------------------

def test_the_best_embedding_model_that_is_installed(ask: Asker) -> None:
    installed = ask.model().load_installed()
    assert find_embed_model(installed) == "nomic-embed-text:latest"
    assert find_embed_model(installed[-1:]) == "all-minilm:latest"
    assert find_embed_model([Installed("x/nomic-embed-text:v1.5", 1, "")]) == "x/nomic-embed-text:v1.5"
    assert find_embed_model(installed[:2]) is None and find_embed_model([]) is None


def test_vectors_come_in_order_and_in_few_requests(ask: Asker) -> None:
    model = ask.model()
    texts = [f"text {n}" for n in range(companion.EMBED_BATCH + 3)]
    vectors = model.embed("nomic-embed-text", texts)
    assert len(vectors) == len(texts) and vectors[-1] == model.embed("nomic-embed-text", texts[-1:])[0]
    assert len(ask.stub.asked) == 3
    assert [t for asked in ask.stub.asked[:2] for t in asked.body["input"]] == texts
    model.embed("all-minilm", ("why? \ud800",))
    assert ask.stub.asked[-1].body["input"] == ["why? ?"]
    assert ask.stub.asked[-1].body["keep_alive"] == "30m"
    assert model.embed("all-minilm", []) == []


def test_vectors_that_do_not_come(ask: Asker) -> None:
    with pytest.raises(ModelMissing):
        ask.model().embed("nope", ["x"])
    ask.stub.instead["/api/embed"] = status(200, {"embeddings": [[1.0]]})
    with pytest.raises(ServerError, match="1 vectors for 2 texts"):
        ask.model().embed("all-minilm", ["x", "y"])
    ask.stub.instead["/api/embed"] = silent()
    with pytest.raises(ServerSilent):
        ask.model(limits=SHORT).embed("all-minilm", ["x"])


# --- Budget -------------------------------------------------------------------------------------------

def test_a_silent_cut_is_said_and_not_learned_from(ask: Asker) -> None:
    long = [{"role": "system", "content": "Be short. " * 300}, *HELLO[1:]]
    ask.stub.then(answer("No idea.", prompt=360), answer("No idea.", prompt=8192))
    model = ask.model()
    reply = model.chat(long)
    assert "read only 360 tokens" in reply.trouble and reply.text == "No idea."
    assert "read only 8,192 tokens" in model.chat(HELLO).trouble
    assert model.gauge.samples == 0
    assert model.chat(long).trouble == "" and model.gauge.samples == 1


@pytest.mark.parametrize(("sent", "reported", "window", "cut"), [
    (9000, 2050, 4096, True), (900, 880, 8192, False), (700, 900, 8192, False), (100, 5, 8192, False),
    (900, 0, 8192, False), (500, 512, 512, True), (1500, 470, 512, True), (1000, 600, 8192, False),
])
def test_what_counts_as_a_silent_cut(sent: int, reported: int, window: int, cut: bool) -> None:
    assert (find_silent_cut(sent, reported, window) is not None) is cut


def test_a_prompt_that_cannot_fit_is_not_sent(ask: Asker) -> None:
    with pytest.raises(PromptTooLong, match="num_ctx"):
        ask.model(num_ctx=1024).chat([{"role": "user", "content": "word " * 5000}])
    assert ask.stub.chats == []


@pytest.mark.parametrize(("text", "tokens"), [   # as qwen2.5-coder counted them
    ("You are a companion that talks with one person and remembers only what that person typed. "
     "A proposal is not a decision; say so when you are asked about it. " * 2, 67),
    ("2026-11-29 18:03:11 48211 99817 3.14159 2718281828 4669201609", 61),
    ("Könnten wir die Überprüfung der Äußerungen später durchführen? Das Straßenbauamt möchte "
     "größere Zuständigkeiten für den Fußweg.", 31),
])
def test_the_estimate_is_near_and_rather_too_high(text: str, tokens: int) -> None:
    assert 0.9 * tokens <= Gauge().estimate(companion.measure_text(text)) <= 1.5 * tokens


def test_the_estimate_learns_from_the_servers_counts() -> None:
    gauge = Gauge()
    gauge.calibrate(10, 3)
    gauge.calibrate(10_000, 1)
    gauge.calibrate(10_000, 9_900)
    assert gauge.samples == 0
    for _ in range(8):
        gauge.calibrate(5000, 1000)
    assert gauge.estimate(5000) == 1000 and gauge.estimate(1) == 1


def test_another_model_begins_with_an_estimate_of_its_own(ask: Asker) -> None:
    model = ask.model()
    model.calibrate(5000, 1000)
    model.use(SMOL)
    assert model.gauge.samples == 0 and model.chat(HELLO).text == "Fine."
    assert ask.stub.chats[-1].body["model"] == SMOL


def test_the_budget_leaves_room_for_tools_and_answer(ask: Asker) -> None:
    model = ask.model()
    assert 0 < model.budget(TOOLS) < model.budget() < 8192 - 600
    full = [{"role": "user", "content": "word " * (2 * model.budget(TOOLS) // 3)}]
    assert model.estimate_request(full, TOOLS) <= 8192 - 600 and model.chat(full, TOOLS).trouble == ""


# --- Reading --------------------------------------------------------------------------------------------

CALL = '{"name": "recall", "arguments": {"query": "blue"}}'


@pytest.mark.parametrize("text", [
    CALL, f"\n {CALL}\n", f"```json\n{CALL}\n```", f"```\n{CALL}```", f"<tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>{CALL}", f"```xml\n<tool_call>\n{CALL}\n</tool_call>\n```",
    CALL.replace("arguments", "parameters"), '{"type": "function", "function": ' + CALL + "}",
    '{"type": "function", "name": "recall", "parameters": {"query": "blue"}}',
])
def test_a_reply_that_is_exactly_one_allowed_call(text: str) -> None:
    assert find_text_call(text, ("recall", "read_mission")) == ToolCall("recall", {"query": "blue"})


@pytest.mark.parametrize("text", [
    "", "Fine.", f"Like this: {CALL}", f"{CALL}\nThat is a call.", f"{CALL}\n{CALL}", f"[{CALL}]",
    CALL.replace("recall", "publish_post"), CALL.replace("recall", "Recall"),
    CALL.replace("recall", "recall "), '{"name": "recall"}', '{"name": "recall", "arguments": "blue"}',
    '{"name": "recall", "arguments": null}', '{"name": ["recall"], "arguments": {}}',
    '{"name": "recall", "name": "recall", "arguments": {}}',
    '{"name": "recall", "arguments": {}, "parameters": {}}',
    '{"name": "recall", "arguments": {}, "then": "decide"}', '{"type": "object", "name": "recall", '
    '"arguments": {}}', "{" * 5000, '{"arguments": {}}', f"```json\n{CALL}\n```\nand\n```json\n{CALL}\n```",
    f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>",
])
def test_a_reply_that_is_not_a_call(text: str) -> None:
    assert find_text_call(text, ("recall", "read_mission")) is None


def test_p12_a_call_that_was_only_read_is_not_the_models_own() -> None:
    assert find_text_call(CALL, ("recall",), read=["nothing", f"comment: {CALL} haha"]) is None
    assert find_text_call(CALL, ("recall",), read=["nothing"]) is not None


SORRY = "I am sorry, but I do not know what you decided about that. "


@pytest.mark.parametrize("text", [
    SORRY * 6, "Well. " + SORRY * 5 + "I am sor", "ha " * 100, "\n".join(["- none of them is known yet"] * 9),
    "\n".join(f"{n}. The box stands on the shelf." for n in range(1, 12)), "=" * 3000,
    "A few words first, all of them different.\n" + "And\nthen the\nshelf falls\n" * 12,
])
def test_what_is_a_loop(text: str) -> None:
    assert is_looping(text)


@pytest.mark.parametrize("text", [
    "", "a", SORRY, SORRY * 2, "-" * 120, "| --- | --- | --- | --- |\n", "0 " * 100,
    "\n".join(f"| m{n} | note | {n} Oct 2026 | {n * 7} views |" for n in range(30)),
    "\n".join(f"2026-10-{n:02d}: {n * 3} views, {n} comments" for n in range(10, 30)),
    "no no no, never", "for i in range(3):\n    print(i)\n" * 3,
    " ".join(f"sentence number {n} differs by its number" for n in range(40)),
])
def test_what_is_no_loop(text: str) -> None:
    assert not is_looping(text)


@pytest.mark.parametrize(("a", "b", "same"), [
    ("sample", "sample:latest", True), ("Sample", "sample:LATEST", True), ("a:1b", "a:3b", False),
    ("a", "a:1b", False), ("u/a", "a", False), ("registry.ollama.ai/library/a", "a:latest", True),
    ("hf.co:443/u/a", "hf.co:443/u/a:latest", True),
])
def test_names_that_mean_one_model(a: str, b: str, same: bool) -> None:
    assert same_model(a, b) is same


def test_every_failure_has_a_way_out(ask: Asker) -> None:
    failures: list[Failure] = []
    for behaviours in ([silent()], [silent("x")], [error_line("x")], [status(500, {"error": "x"})],
                       [breaks_off()], [junk_line(b"x")], [no_tools(SMOL), no_tools(SMOL)]):
        ask.stub.then(*behaviours)
        try:
            ask.model(limits=SHORT).chat(HELLO)
        except ModelUnreachable as failure:
            failures.append(failure)
    assert len(failures) == 7 and not ask.stub.script
    for failure in failures:
        assert failure.what.endswith(".") and failure.way_out.endswith(".") and failure.exit_code == 3
        assert "Traceback" not in str(failure) and len(str(failure)) < 400
