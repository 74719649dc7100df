"""Where replies are written: comments at GitHub, GitLab, Gitea or Forgejo."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote

from mcc.configuration.forges import Forge, ForgeKind
from mcc.contracts.replies import ForgeReply
from mcc.forges.wire import ForgeRefused, ForgeWire
from mcc.webhooks.reply_text import ReplyText

NEWEST = 100
"""So many comments are searched for one of ours."""

CLOCKS_APART = timedelta(hours=1)
"""By which the clock of another host may be behind: for so much longer than since the end of an order is looked back
where a host lists what is oldest first."""

MOST_PAGES = 5


class ReplyPlace(Protocol):
    """Where one reply is written. Each method raises `ForgeBusy` and `ForgeRefused`."""

    async def has(self, reply: ReplyText, since: datetime) -> bool:
        """Whether this reply, which was first sent at `since`, is among the newest there."""

    async def add(self, reply: ReplyText) -> None: ...


@dataclass(frozen=True, slots=True)
class ForgeComments:
    """The comments on an issue or a request."""

    wire: ForgeWire
    kind: ForgeKind
    target: ForgeReply

    @classmethod
    def at(cls, forge: Forge, wire: ForgeWire, target: ForgeReply) -> "ForgeComments":
        return cls(wire, forge.kind, target)

    @property
    def _path(self) -> str:
        project, number = self.target.project, self.target.number
        if self.kind == "gitlab":
            things = "merge_requests" if self.target.merge_request else "issues"
            return f"/projects/{quote(project, safe='')}/{things}/{number}/notes"
        return f"/repos/{quote(project)}/issues/{number}/comments"

    async def has(self, reply: ReplyText, since: datetime) -> bool:
        if self.kind == "gitlab":
            newest = {"sort": "desc", "order_by": "created_at", "per_page": NEWEST}
            return _is_among(reply, await self.wire.get(self._path, newest))
        # Both list the oldest first.
        asked = {"since": f"{since - CLOCKS_APART:%Y-%m-%dT%H:%M:%SZ}", "per_page": NEWEST, "limit": NEWEST}
        for page in range(1, MOST_PAGES + 1):
            listed = await self.wire.get(self._path, {**asked, "page": page})
            if _is_among(reply, listed):
                return True
            if len(listed) < NEWEST:
                break
        return False

    async def add(self, reply: ReplyText) -> None:
        await self.wire.send("POST", self._path, {"body": reply.markdown})


def _is_among(reply: ReplyText, listed: Any) -> bool:
    """Whether one of these comments begins as the reply does."""
    if not isinstance(listed, list):
        raise ForgeRefused("What the forge answered is no list of comments: is this the address of its API?", 200)
    texts = (item.get("body") for item in listed if isinstance(item, dict))
    return any(isinstance(text, str) and text.startswith(reply.mark) for text in texts)
