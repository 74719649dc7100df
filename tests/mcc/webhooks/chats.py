"""Slack and Linear on loopback, as strict as they are: errors in words of their own, with a 200 and a 400."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from mcc.configuration.replies import LinearTable, SlackTable
from mcc.webhooks.replying import ReplyTables

Json = dict[str, Any]
SLACK_TOKEN, LINEAR_KEY = "xoxb-a-token-of-the-app", "lin_api_a-key-of-a-person"
THREAD_TS = "1700000000.000100"
ISSUE = "5f3a6d1e-1111-4222-8333-444455556666"


@dataclass
class ChatFailure:
    """An answer in place of the next one. `status` 0: the connection is cut. `after`: the request is carried out."""

    status: int
    body: Json = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    after: bool = False


@dataclass
class FakeChat:
    """`asked`: the method or the operation of each request. `failing`: what is answered in place of the truth."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    failing: list[ChatFailure] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Json]:
        raise NotImplementedError

    @property
    def tables(self) -> ReplyTables:
        raise NotImplementedError


@dataclass
class FakeSlack(FakeChat):
    """A channel C1 whose bot is a member of it. `messages`: the oldest first."""

    messages: list[Json] = field(default_factory=list)
    scopes: set[str] = field(default_factory=lambda: {"chat:write", "channels:history"})

    @property
    def tables(self) -> ReplyTables:
        table = SlackTable.model_validate({"token_env": "TEAM_TOKEN", "api": self.address})
        return ReplyTables(
            slack={"team": table}, variables={"slack.team": "TEAM_TOKEN"}, tokens={"slack.team": SLACK_TOKEN}
        )

    def say(self, text: str, thread: str | None = None, metadata: Json | None = None, at: float | None = None) -> None:
        number = len(self.messages)
        stamp = f"{1_900_000_000 + number if at is None else at:.6f}"
        self.messages.append({"ts": stamp, "text": text, "thread_ts": thread, "metadata": metadata})

    def answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Json]:
        url = urlsplit(target)
        self.asked.append(url.path[1:])
        if headers.get("authorization") != f"Bearer {SLACK_TOKEN}":
            return 200, {"ok": False, "error": "invalid_auth"}
        if url.path == "/chat.postMessage" and method == "POST":
            return self._posted(json.loads(raw))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path in ("/conversations.replies", "/conversations.history") and method == "GET":
            return self._read(query, query.get("ts") if url.path.endswith("replies") else None)
        return 200, {"ok": False, "error": "unknown_method"}

    def _posted(self, body: Json) -> tuple[int, Json]:
        if body["channel"] != "C1":
            return 200, {"ok": False, "error": "channel_not_found"}
        if not body.get("text"):
            return 200, {"ok": False, "error": "no_text"}
        if len(body["text"]) > 40_000:
            return 200, {"ok": False, "error": "msg_too_long"}
        metadata = body.get("metadata")
        if metadata is not None and set(metadata) != {"event_type", "event_payload"}:
            return 200, {"ok": False, "error": "invalid_metadata_format"}
        self.say(body["text"], body.get("thread_ts"), metadata)
        return 200, {"ok": True, "channel": "C1", "ts": self.messages[-1]["ts"]}

    def _read(self, query: Mapping[str, str], thread: str | None) -> tuple[int, Json]:
        """History lists the newest first, a thread the oldest, after the message that it hangs on."""
        if "channels:history" not in self.scopes:
            return 200, {"ok": False, "error": "missing_scope", "needed": "channels:history"}
        listed = [each for each in self.messages if each["thread_ts"] == thread]
        listed = [each for each in listed if float(each["ts"]) >= float(query.get("oldest", 0))]
        if thread is None:
            listed.reverse()
        start, size = int(query.get("cursor", 0)), min(int(query.get("limit", 100)), 1_000)
        shown = [{**each} for each in listed[start : start + size]]
        if query.get("include_all_metadata") != "true":
            shown = [{**each, "metadata": None} for each in shown]
        following = str(start + size) if start + size < len(listed) else ""
        parent = [{"ts": thread, "text": "the question"}] if thread else []
        return 200, {"ok": True, "messages": [*parent, *shown], "response_metadata": {"next_cursor": following}}


@dataclass
class FakeLinear(FakeChat):
    """The issue ENG-12. `comments`: by their ids. `keeps_marks` False: comments in HTML are lost."""

    comments: dict[str, str] = field(default_factory=dict)
    keeps_marks: bool = True

    @property
    def tables(self) -> ReplyTables:
        table = LinearTable.model_validate({"token_env": "ACME_KEY", "api": f"{self.address}/graphql"})
        return ReplyTables(
            linear={"acme": table}, variables={"linear.acme": "ACME_KEY"}, tokens={"linear.acme": LINEAR_KEY}
        )

    def answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Json]:
        body = json.loads(raw)
        is_mutation = body["query"].startswith("mutation")
        self.asked.append("mutation" if is_mutation else "query")
        if headers.get("authorization") != LINEAR_KEY:
            return 401, {"errors": [{"message": "Authentication required, not authenticated"}]}
        if (method, target) != ("POST", "/graphql"):
            return 404, {"errors": [{"message": "Not found"}]}
        variables = body["variables"]
        issue = variables["input"]["issueId"] if is_mutation else variables["issue"]
        if issue not in (ISSUE, "ENG-12"):
            return 200, {"errors": [{"message": "Entity not found: Issue"}], "data": None}
        return (200, self._commented(variables["input"])) if is_mutation else (200, self._found(variables))

    def _commented(self, new: Json) -> Json:
        if UUID(new["id"]).version != 4:
            return {"errors": [{"message": "Argument Validation Error: id must be a UUID of version 4"}], "data": None}
        if new["id"] in self.comments:
            return {"errors": [{"message": "Entity Comment with id already exists"}], "data": None}
        body = new["body"] if self.keeps_marks else new["body"].partition("-->\n")[2]
        self.comments[new["id"]] = body
        return {"data": {"commentCreate": {"success": True}}}

    def _found(self, variables: Json) -> Json:
        by_id, by_text = variables["filter"]["or"]
        fitting = [
            {"id": name}
            for name, body in self.comments.items()
            if name == by_id["id"]["eq"] or by_text["body"]["contains"] in body
        ]
        return {"data": {"issue": {"comments": {"nodes": fitting[: variables["most"]]}}}}


@contextmanager
def serving(chat: FakeChat) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            fails = chat.failing.pop(0) if chat.failing else None
            status, body, headers = 200, dict[str, Any](), dict[str, str]()
            if fails is None or fails.after:
                lower = {name.lower(): value for name, value in self.headers.items()}
                status, body = chat.answer(self.command, self.path, lower, raw)
            if fails is not None:
                if not fails.status:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, body, headers = fails.status, fails.body, dict(fails.headers)
            said = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(said)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = _serve

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    chat.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
