"""The condition without the program: the rule and the record in the prompt, nothing else.

This is what the program is measured against: one bare /api/chat call per item, to a model
that has the whole record and the rule in front of it, and nobody to check what it says.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from evalset import Item, Line, build_lines, said_before

RULE = """You are Companion, the assistant of one owner. Answer the owner's question from the \
record below, in one to three sentences.

Rules:
- Only a decision on record is decided. A proposal is not a decision, however it leans: say that \
it is undecided. Never say "yes", "no" or "not yet" for it.
- A decision that was replaced or taken back is no longer current. Say what holds now.
- A note from a helper is unconfirmed. Say so, and never tell it as the owner's own words.
- A preference on record is the owner's, not yours.
- If the record says nothing about the question, say that there is no record of it.
"""


class ModelTrouble(RuntimeError):
    """The model server did not answer as it should."""


class Answer(NamedTuple):
    """What one bare call gave."""

    text: str
    seconds: float
    prompt_tokens: int
    answer_tokens: int


def host_url(host: str) -> str:
    """OLLAMA_HOST in any of its forms as a URL without a slash at the end."""
    text = host.strip() or "127.0.0.1:11434"
    if "://" not in text:
        text = f"http://{text}"
    if text.count(":") < 2:
        text += ":11434"
    return text.replace("0.0.0.0", "127.0.0.1").rstrip("/")


def call_server(host: str, path: str, body: dict[str, Any] | None, limit_s: float) -> Any:
    """One request to the model server, never through a proxy; ModelTrouble."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        host_url(host) + path, data=data, headers={"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=limit_s) as answer:
            return json.loads(answer.read().decode())
    except urllib.error.HTTPError as error:
        raise ModelTrouble(f"{path}: {error.code} {error.read()[:200]!r}") from error
    except (OSError, ValueError) as error:
        raise ModelTrouble(f"{path}: {error}") from error


def find_server(host: str) -> str | None:
    """The version of the server, or None when nothing answers."""
    try:
        return str(call_server(host, "/api/version", None, 3.0).get("version"))
    except ModelTrouble:
        return None


def render_line(line: Line) -> str:
    """One record as the bare prompt shows it: id, standing, author, words."""
    who = "by the owner"
    standing = {"decision": "decision", "proposal": "proposal, undecided"}.get(line.kind, line.kind)
    if line.author != "owner":
        who, standing = f"by the helper {line.author.split(':', 1)[1]}", "note, UNCONFIRMED"
    if line.state == "replaced":
        standing = f"decision, replaced by {line.by}, no longer current"
    if line.state == "undone":
        standing = f"decision, taken back, undecided again (reason: {line.by})"
    return f"- {line.id} ({standing}, {who}): {line.text}"


def build_messages(item: Item) -> list[dict[str, str]]:
    """The messages of the bare call for an item of the standing set."""
    record = "\n".join(render_line(line) for line in build_lines(item["setup"]))
    messages = [{"role": "system", "content": f"{RULE}\nRecord:\n{record}\n"}]
    for sentence in said_before(item["setup"]):
        messages.append({"role": "user", "content": sentence})
        messages.append({"role": "assistant", "content": "I see."})
    messages.append({"role": "user", "content": item["question"]})
    return messages


def ask_bare(item: Item, model: str, host: str, tokens: int = 120) -> Answer:
    """One answer of the instructions-only condition, the same at every run (temperature 0)."""
    began = time.monotonic()
    body = {
        "model": model,
        "messages": build_messages(item),
        "stream": False,
        "options": {"temperature": 0, "seed": 7, "num_predict": tokens, "num_ctx": 2048},
    }
    reply = call_server(host, "/api/chat", body, 180.0)
    return Answer(
        str(reply.get("message", {}).get("content", "")).strip(),
        round(time.monotonic() - began, 3),
        int(reply.get("prompt_eval_count", 0)),
        int(reply.get("eval_count", 0)),
    )
