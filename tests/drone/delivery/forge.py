"""Forges on loopback, as strict as GitHub, GitLab and Gitea: they know the branches of real repositories, refuse what
those refuse, and in the words of each."""

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.drone.checkouts.git_server import QuietServer

TOKEN = "a-token-of-the-forge"
GITHUB_BODY = 65_536

Json = dict[str, Any]


class Refusal(Exception):
    def __init__(self, status: int, body: Json) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


@dataclass
class Failing:
    """An answer in place of the next one. `status` 0: the connection is cut. `after`: the request is carried out."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = field(default_factory=lambda: {"message": "not now"})
    after: bool = False


@dataclass
class FakeForge:
    """A forge of this kind whose repositories are the bare ones below `root`. `asked`: method and path of each request.
    `requests` by number, with the fields that all kinds have. `threads`: the comments on `issues/7` of team/shop, the
    oldest first; nobody comments on those that are `locked`. `commands`: what lines of comments have told GitLab."""

    kind: str
    root: Path
    port: int = 0
    scheme: str = "http"
    token: str = TOKEN
    asked: list[str] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    requests: dict[int, Json] = field(default_factory=dict)
    threads: dict[str, list[Json]] = field(default_factory=dict)
    locked: set[str] = field(default_factory=set)
    commands: list[str] = field(default_factory=list)
    failing: list[Failing] = field(default_factory=list)
    hear: Callable[[int], None] = lambda number: None

    @property
    def prefix(self) -> str:
        return {"github": "", "gitlab": "/api/v4", "gitea": "/api/v1"}[self.kind]

    @property
    def api(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{self.prefix}"

    def add(self, branch: str, base: str = "main", *, state: str = "open", body: str = "", fork: str = "") -> int:
        """A request that somebody else has opened, from a `fork` or from the project itself."""
        number = max(self.requests, default=0) + 1
        self.requests[number] = {
            "number": number,
            "title": "theirs",
            "body": body,
            "state": state,
            "head": branch,
            "base": base,
            "draft": False,
            "fork": fork,
            "project": "team/shop",
        }
        return number

    def git(self, project: str, *arguments: str) -> str:
        done = subprocess.run(
            ("git", "-C", str(self.root / project), *arguments), capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    def answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, object]:
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        if not url.path.startswith(f"{self.prefix}/"):
            raise Refusal(404, {"message": "404 Not Found"})
        self._authorize(headers)
        body = json.loads(raw) if raw else {}
        if raw and headers.get("content-type") != "application/json":
            raise Refusal(415, {"message": "Unsupported Media Type"})
        parts = url.path.removeprefix(f"{self.prefix}/").split("/")
        if self.kind == "gitlab":
            project, rest = unquote(parts[1]), parts[2:]
            known = parts[0] == "projects" and rest[:1] in (["merge_requests"], ["issues"])
        else:
            project, rest = "/".join(map(unquote, parts[1:3])), parts[3:]
            known = parts[0] == "repos" and rest[:1] in (["pulls"], ["issues"])
        if not known or not (self.root / project).is_dir():
            raise Refusal(404, {"message": "Not Found"})
        if rest[2:] == ["notes" if self.kind == "gitlab" else "comments"]:
            return self._commented(method, "/".join(rest[:2]), query, body)
        if rest[0] == "issues":
            raise Refusal(404, {"message": "Not Found"})
        match method, rest[1:]:
            case "GET", []:
                return 200, [self._shown(item) for item in self._listed(project, query)]
            case "POST", []:
                return 201, self._shown(self._opened(project, body))
            case "PATCH" | "PUT", [number] if method == ("PUT" if self.kind == "gitlab" else "PATCH"):
                return (201 if self.kind == "gitea" else 200), self._shown(self._changed(project, int(number), body))
        raise Refusal(405, {"message": "Method Not Allowed"})

    def say(self, thread: str, body: str, minutes: float = 0.0) -> None:
        """A comment by somebody, made and last changed that many minutes from now."""
        at = datetime.now(UTC) + timedelta(minutes=minutes)
        comments = self.threads.setdefault(thread, [])
        comments.append({"id": len(comments) + 1, "body": body, "at": at})

    def _commented(self, method: str, thread: str, query: Mapping[str, str], body: Json) -> tuple[int, object]:
        comments = self.threads.get(thread)
        if comments is None:
            raise Refusal(404, {"message": "Not Found"})
        if method == "GET":
            return 200, self._page_of(comments, query)
        if method != "POST" or body.keys() != {"body"}:
            raise Refusal(405 if method != "POST" else 422, {"message": "Validation Failed"})
        text = body["body"]
        if thread in self.locked:
            raise Refusal(403, {"message": "Unable to create comment because issue is locked."})
        if not text.strip():
            raise Refusal(400 if self.kind == "gitlab" else 422, {"message": "Note can't be blank"})
        if self.kind == "github" and len(text) > GITHUB_BODY:
            error = {"resource": "IssueComment", "code": "unprocessable", "message": "Body is too long"}
            raise Refusal(422, {"message": "Validation Failed", "errors": [error]})
        if self.kind == "gitlab":
            self.commands += [line for line in text.splitlines() if line.startswith("/")]
        self.say(thread, text)
        return 201, {"id": comments[-1]["id"], "body": text}

    def _page_of(self, comments: list[Json], query: Mapping[str, str]) -> list[Json]:
        """GitHub and Gitea list the oldest first, whatever they are asked; Gitea knows no pages here."""
        listed = [*comments]
        if self.kind == "gitlab":
            listed.sort(key=lambda item: item["at"], reverse=query.get("sort", "desc") == "desc")
        elif since := query.get("since"):
            listed = [item for item in listed if item["at"] >= datetime.fromisoformat(since)]
        size, page = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        if self.kind != "gitea":
            listed = listed[(page - 1) * size : page * size]
        return [{"id": item["id"], "body": item["body"]} for item in listed]

    def _authorize(self, headers: Mapping[str, str]) -> None:
        if not headers.get("user-agent"):
            raise Refusal(403, {"message": "Request forbidden by administrative rules: send a User-Agent"})
        wanted = f"token {self.token}" if self.kind == "gitea" else f"Bearer {self.token}"
        if headers.get("authorization") != wanted:
            raise Refusal(401, {"message": "Bad credentials"})
        if self.kind == "github" and headers.get("x-github-api-version") != "2022-11-28":
            raise Refusal(400, {"message": "X-GitHub-Api-Version is not supported"})

    def _listed(self, project: str, query: Mapping[str, str]) -> list[Json]:
        items = [item for item in self.requests.values() if item["project"] == project]
        if query.get("state") != "all":
            items = [item for item in items if item["state"] == "open"]
        items.sort(key=lambda item: -item["number"])
        if self.kind == "github":
            owner, _, branch = query["head"].partition(":")
            items = [item for item in items if item["head"] == branch and self._home(item).startswith(f"{owner}/")]
        elif self.kind == "gitlab":
            items = [item for item in items if item["head"] == query["source_branch"]]
        size = min(int(query.get("per_page", query.get("limit", 30))), 50 if self.kind == "gitea" else 100)
        page = int(query.get("page", 1))
        return items[(page - 1) * size : page * size]

    @staticmethod
    def _home(item: Json) -> str:
        return str(item["fork"] or item["project"])

    def _opened(self, project: str, body: Json) -> Json:
        source, target, text = self._fields()
        head, base, title = body.get(source), body.get(target), body.get("title")
        if not title or not head or not base:
            raise Refusal(422, {"message": "Validation Failed", "errors": [{"code": "missing_field"}]})
        if len(body.get(text) or "") > GITHUB_BODY:
            raise Refusal(422, {"message": "Validation Failed", "errors": [{"message": "body is too long"}]})
        for branch, name in ((head, source), (base, target)):
            if not self.git(project, "rev-parse", "--verify", f"refs/heads/{branch}"):
                self._refuse_branch(name)
        if self.git(project, "rev-list", "--count", head, f"^{base}") == "0":
            message = f"No commits between {base} and {head}"
            raise Refusal(422, {"message": "Validation Failed", "errors": [{"message": message}]})
        twin = [item for item in self.requests.values() if self._is_twin(item, project, head, base)]
        if twin:
            self._refuse_twin(project, head, twin[0]["number"])
        number = self.add(head, base, body=body.get(text) or "")
        self.requests[number] |= {"title": title, "draft": bool(body.get("draft")), "project": project}
        return self.requests[number]

    def _is_twin(self, item: Json, project: str, head: str, base: str) -> bool:
        same = (item["project"], item["head"], item["base"], item["fork"]) == (project, head, base, "")
        return same and item["state"] == "open"

    def _fields(self) -> tuple[str, str, str]:
        if self.kind == "gitlab":
            return "source_branch", "target_branch", "description"
        return "head", "base", "body"

    def _refuse_branch(self, name: str) -> None:
        if self.kind == "github":
            raise Refusal(422, {"message": "Validation Failed", "errors": [{"field": name, "code": "invalid"}]})
        if self.kind == "gitlab":
            raise Refusal(400, {"message": {"base": [f"{name} does not exist"]}})
        raise Refusal(404, {"message": "The target couldn't be found."})

    def _refuse_twin(self, project: str, head: str, number: int) -> None:
        if self.kind == "github":
            owner = project.partition("/")[0]
            message = f"A pull request already exists for {owner}:{head}."
            error = {"resource": "PullRequest", "code": "custom", "message": message}
            raise Refusal(422, {"message": "Validation Failed", "errors": [error]})
        if self.kind == "gitlab":
            said = f"Another open merge request already exists for this source branch: !{number}"
            raise Refusal(409, {"message": [said]})
        raise Refusal(409, {"message": f"pull request already exists for these targets [id: {number}]"})

    def _changed(self, project: str, number: int, body: Json) -> Json:
        item = self.requests.get(number)
        if item is None or item["project"] != project:
            raise Refusal(404, {"message": "Not Found"})
        text = self._fields()[2]
        if body.keys() - {text, "title", "state"}:
            raise Refusal(422, {"message": "Validation Failed"})
        item["body"] = body.get(text, item["body"])
        return item

    def _shown(self, item: Json) -> Json:
        sha = self.git(item["project"], "rev-parse", "--verify", f"refs/heads/{item['head']}")
        if self.kind == "gitlab":
            return {
                "iid": item["number"],
                "id": 1_000 + item["number"],
                "web_url": f"https://forge.example.org/{item['project']}/-/merge_requests/{item['number']}",
                "state": {"open": "opened"}.get(item["state"], item["state"]),
                "title": item["title"],
                "description": item["body"] or None,
                "source_branch": item["head"],
                "target_branch": item["base"],
                "source_project_id": 8 if item["fork"] else 7,
                "target_project_id": 7,
                "sha": sha,
            }
        merged: Json = {"merged_at": "2026-01-02T03:04:05Z" if item["state"] == "merged" else None}
        if self.kind == "gitea":
            merged = {"merged": item["state"] == "merged"}
        return {
            "number": item["number"],
            "html_url": f"https://forge.example.org/{item['project']}/pull/{item['number']}",
            "state": "open" if item["state"] == "open" else "closed",
            "title": item["title"],
            "body": item["body"] or (None if self.kind == "github" else ""),
            "draft": item["draft"],
            **merged,
            "head": {"ref": item["head"], "sha": sha, "repo": {"full_name": self._home(item)}},
            "base": {"ref": item["base"], "repo": {"full_name": item["project"]}},
        }


@contextmanager
def fake_forge(kind: str, root: Path, context: ssl.SSLContext | None = None) -> Iterator[FakeForge]:
    """A forge of this kind for the bare repositories below `root`; with a context, its API is served over https."""
    forge = FakeForge(kind, root)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            forge.asked.append(f"{self.command} {self.path}")
            forge.hear(len(forge.asked))
            raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            forge.heard.append(raw)
            fails = forge.failing.pop(0) if forge.failing else None
            status, body, headers = 200, b"", dict[str, str]()
            if fails is None or fails.after:
                lower = {name.lower(): value for name, value in self.headers.items()}
                try:
                    status, answer = forge.answer(self.command, self.path, lower, raw)
                except Refusal as refusal:
                    status, answer = refusal.status, refusal.body
                body = json.dumps(answer).encode()
            if fails is not None:
                if not fails.status:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, body, headers = fails.status, json.dumps(fails.body).encode(), dict(fails.headers)
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, ValueError):
                self.close_connection = True

    server = QuietServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        forge.scheme = "https"
    forge.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
