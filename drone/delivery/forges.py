"""The APIs of GitHub, GitLab, and Gitea or Forgejo: requests to merge a branch, found, opened and changed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, assert_never
from urllib.parse import quote

import httpx

from mcc.configuration.forges import Forge
from mcc.forges.wire import ForgeRefused, ForgeWire, forge_wire

RequestState = Literal["open", "closed", "merged"]

MOST_PAGES = 20
PAGE = 50
"""How many requests are looked through where a forge cannot be asked for those of a branch."""

_CONFLICTS = (409, 422)
_MOST_NUMBER, _MOST_ADDRESS = 2**53, 2_000


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A request to merge the branch, as the forge has it. All of its texts may be by others."""

    number: int
    url: str
    state: RequestState
    body: str
    base: str
    commit: str


@dataclass(frozen=True, slots=True)
class NewMergeRequest:
    branch: str
    base: str
    title: str
    body: str
    draft: bool = False


class AlreadyOpen(Exception):
    """The forge says that there is such a request already."""


class ForgeClient(Protocol):
    """One project at a forge. Each method raises `ForgeBusy` and `ForgeRefused`."""

    async def requests(self, branch: str) -> Sequence[MergeRequest]:
        """The requests for this branch of the project itself, newest first; none of a branch of a fork."""

    async def open(self, new: NewMergeRequest) -> MergeRequest:
        """Raises `AlreadyOpen` as well."""

    async def change(self, number: int, body: str) -> MergeRequest: ...


def client_of(
    forge: Forge,
    project: str,
    token: str,
    transport: httpx.AsyncBaseTransport,
    failed: Callable[[int], None] = lambda status: None,
) -> ForgeClient:
    """The client for a project of a configured forge. `failed`: as `ForgeWire` has it."""
    wire = forge_wire(forge, token, transport, failed)
    match forge.kind:
        case "github":
            return GitHubProject(wire, project)
        case "gitlab":
            return GitLabProject(wire, project)
        case "gitea":
            return GiteaProject(wire, project)
        case _:
            assert_never(forge.kind)


@dataclass(frozen=True, slots=True)
class GitHubProject:
    """A repository at GitHub, or at a GitHub Enterprise Server."""

    wire: ForgeWire
    project: str

    @property
    def _pulls(self) -> str:
        return f"/repos/{quote(self.project)}/pulls"

    async def requests(self, branch: str) -> Sequence[MergeRequest]:
        owner = self.project.partition("/")[0]
        asked = {"head": f"{owner}:{branch}", "state": "all", "sort": "created", "direction": "desc", "per_page": 100}
        listed = _listed(await self.wire.get(self._pulls, asked))
        return [_pull(item) for item in listed if _is_of(item, branch, self.project)]

    async def open(self, new: NewMergeRequest) -> MergeRequest:
        body = {"title": new.title, "head": new.branch, "base": new.base, "body": new.body, "draft": new.draft}
        try:
            return _pull(await self.wire.send("POST", self._pulls, body))
        except ForgeRefused as refused:
            raise _conflict(refused) from refused

    async def change(self, number: int, body: str) -> MergeRequest:
        return _pull(await self.wire.send("PATCH", f"{self._pulls}/{number}", {"body": body}))


@dataclass(frozen=True, slots=True)
class GitLabProject:
    """A project at GitLab."""

    wire: ForgeWire
    project: str

    @property
    def _requests(self) -> str:
        return f"/projects/{quote(self.project, safe='')}/merge_requests"

    async def requests(self, branch: str) -> Sequence[MergeRequest]:
        asked = {"source_branch": branch, "state": "all", "order_by": "created_at", "sort": "desc", "per_page": 100}
        listed = _listed(await self.wire.get(self._requests, asked))
        return [
            self._request(item)
            for item in listed
            if item.get("source_branch") == branch and item.get("source_project_id") == item.get("target_project_id")
        ]

    async def open(self, new: NewMergeRequest) -> MergeRequest:
        title = f"Draft: {new.title}" if new.draft else new.title
        body = {
            "source_branch": new.branch,
            "target_branch": new.base,
            "title": title,
            "description": new.body,
        }
        try:
            return self._request(await self.wire.send("POST", self._requests, body))
        except ForgeRefused as refused:
            raise _conflict(refused) from refused

    async def change(self, number: int, body: str) -> MergeRequest:
        return self._request(await self.wire.send("PUT", f"{self._requests}/{number}", {"description": body}))

    @staticmethod
    def _request(item: object) -> MergeRequest:
        said = _object(item)
        state = _text(said, "state")
        return MergeRequest(
            _number(said, "iid"),
            _address(said, "web_url"),
            "merged" if state == "merged" else "closed" if state == "closed" else "open",
            _text(said, "description"),
            _text(said, "target_branch"),
            _text(said, "sha"),
        )


@dataclass(frozen=True, slots=True)
class GiteaProject:
    """A repository at Gitea or Forgejo. They list no requests by their branch, so the newest are looked through."""

    wire: ForgeWire
    project: str

    @property
    def _pulls(self) -> str:
        return f"/repos/{quote(self.project)}/pulls"

    async def requests(self, branch: str) -> Sequence[MergeRequest]:
        fitting: list[Mapping[str, Any]] = []
        for page in range(1, MOST_PAGES + 1):
            asked = {"state": "all", "sort": "recentupdate", "page": page, "limit": PAGE}
            listed = _listed(await self.wire.get(self._pulls, asked))
            fitting += (item for item in listed if _is_of(item, branch, self.project))
            if not listed or any(item.get("state") == "open" for item in fitting):
                break
        return sorted(map(_pull, fitting), key=lambda request: -request.number)

    async def open(self, new: NewMergeRequest) -> MergeRequest:
        title = f"WIP: {new.title}" if new.draft else new.title
        body = {"title": title, "head": new.branch, "base": new.base, "body": new.body}
        try:
            return _pull(await self.wire.send("POST", self._pulls, body))
        except ForgeRefused as refused:
            raise _conflict(refused) from refused

    async def change(self, number: int, body: str) -> MergeRequest:
        return _pull(await self.wire.send("PATCH", f"{self._pulls}/{number}", {"body": body}))


def _conflict(refused: ForgeRefused) -> Exception:
    """What a refused opening means: there is such a request already, or what is asked for is wrong."""
    is_there = refused.status in _CONFLICTS and "already exists" in str(refused).lower()
    return AlreadyOpen(str(refused)) if is_there or refused.status == 409 else refused


def _is_of(item: Mapping[str, Any], branch: str, project: str) -> bool:
    """Whether a pull request is for the branch of the project itself."""
    head = item.get("head")
    repository = head.get("repo") if isinstance(head, dict) else None
    if not isinstance(head, dict) or not isinstance(repository, dict):
        return False
    return head.get("ref") == branch and str(repository.get("full_name", "")).lower() == project.lower()


def _pull(item: object) -> MergeRequest:
    """A pull request as GitHub and Gitea have it."""
    said = _object(item)
    is_merged = bool(said.get("merged") or said.get("merged_at"))
    return MergeRequest(
        _number(said, "number"),
        _address(said, "html_url"),
        "merged" if is_merged else "closed" if _text(said, "state") == "closed" else "open",
        _text(said, "body"),
        _text(_object(said.get("base")), "ref"),
        _text(_object(said.get("head")), "sha"),
    )


def _listed(answer: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(answer, list):
        raise ForgeRefused("What the forge answered is no list of requests: is this the address of its API?")
    return [item for item in answer if isinstance(item, dict)]


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ForgeRefused("What the forge answered is not understood: is this the address of its API?")
    return value


def _number(said: Mapping[str, Any], name: str) -> int:
    number = said.get(name)
    if type(number) is not int or not 0 < number < _MOST_NUMBER:
        raise ForgeRefused(f"What the forge answered has no {name}: is this the address of its API?")
    return number


def _address(said: Mapping[str, Any], name: str) -> str:
    """What people follow; "" for what is no address of the web."""
    address = _text(said, name)
    return address if address.startswith(("https://", "http://")) and len(address) <= _MOST_ADDRESS else ""


def _text(said: Mapping[str, Any], name: str) -> str:
    text = said.get(name)
    return text if isinstance(text, str) else ""
