"""Replies in a channel of Slack, and on an issue of Linear: both answer errors in words of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from mcc.configuration.replies import LinearTable, SlackTable
from mcc.contracts.ids import derived_id
from mcc.contracts.replies import LinearReply, SlackReply
from mcc.forges.wire import ForgeBusy, ForgeRefused, ForgeWire, words_of
from mcc.triggers.payload import MADE_BY_US
from mcc.webhooks.reply_places import CLOCKS_APART, MOST_PAGES, NEWEST
from mcc.webhooks.reply_text import ReplyText

SLACK_CHARACTERS = 39_000
"""Of one message; Slack cuts those of more than 40,000."""

_BUSY = ("ratelimited", "rate_limited", "service_unavailable", "team_added_to_org")
_BROKEN = ("fatal_error", "internal_error", "request_timeout")
"""Errors after which a message may be there all the same."""

_LINEAR_KEY = "lin_api_"
_ADD = """mutation Reply($input: CommentCreateInput!) { commentCreate(input: $input) { success } }"""
_FIND = """query Replies($issue: String!, $filter: CommentFilter!, $most: Int!) {
  issue(id: $issue) { comments(first: $most, filter: $filter) { nodes { id } } }
}"""


@dataclass(frozen=True, slots=True)
class SlackMessages:
    """The messages of a channel, or of a thread in it."""

    wire: ForgeWire
    target: SlackReply

    @classmethod
    def at(
        cls, table: SlackTable, token: str, transport: httpx.AsyncBaseTransport, target: SlackReply
    ) -> "SlackMessages":
        headers = {"accept": "application/json", "authorization": f"Bearer {token}"}
        return cls(ForgeWire(table.api, headers, transport), target)

    async def has(self, reply: ReplyText, since: datetime) -> bool:
        oldest = f"{(since - CLOCKS_APART).timestamp():.6f}"
        asked: dict[str, object] = {"channel": self.target.channel, "oldest": oldest, "limit": NEWEST}
        asked["include_all_metadata"] = "true"
        method = "/conversations.history"
        if self.target.thread is not None:
            method, asked["ts"] = "/conversations.replies", self.target.thread
        for _ in range(MOST_PAGES):
            said = self._checked(await self.wire.get(method, asked))
            messages, following = said.get("messages"), said.get("response_metadata")
            if isinstance(messages, list) and any(_is_of(message, reply) for message in messages):
                return True
            cursor = following.get("next_cursor") if isinstance(following, dict) else None
            if not cursor:
                break
            asked["cursor"] = cursor
        return False

    async def add(self, reply: ReplyText) -> None:
        thread = {} if self.target.thread is None else {"thread_ts": self.target.thread}
        message = {
            "channel": self.target.channel,
            "text": reply.in_chat(SLACK_CHARACTERS),
            "metadata": {"event_type": MADE_BY_US, "event_payload": {"order": reply.order_id}},
            "unfurl_links": False,
            "unfurl_media": False,
            **thread,
        }
        self._checked(await self.wire.send("POST", "/chat.postMessage", message))

    @staticmethod
    def _checked(said: Any) -> Mapping[str, Any]:
        """What it answered, which says in words whether it did what it was asked for."""
        if not isinstance(said, dict) or not isinstance(said.get("ok"), bool):
            raise ForgeRefused("What Slack answered is not understood: is this the address of its methods?", 200)
        if said["ok"]:
            return said
        error = str(said.get("error"))[:200]
        sentence = f"Slack answered {error}"
        if error in (*_BUSY, *_BROKEN):
            raise ForgeBusy(f"{sentence}.", status=429 if error in _BUSY else None)
        needed = f" (it needs {said['needed']})"[:200] if isinstance(said.get("needed"), str) else ""
        raise ForgeRefused(f"{sentence}{needed}.", 400)


def _is_of(message: Any, reply: ReplyText) -> bool:
    metadata = message.get("metadata") if isinstance(message, dict) else None
    if not isinstance(metadata, dict) or metadata.get("event_type") != MADE_BY_US:
        return False
    payload = metadata.get("event_payload")
    return isinstance(payload, dict) and payload.get("order") == reply.order_id


@dataclass(frozen=True, slots=True)
class LinearComments:
    """The comments on an issue."""

    wire: ForgeWire
    target: LinearReply

    @classmethod
    def at(
        cls, table: LinearTable, token: str, transport: httpx.AsyncBaseTransport, target: LinearReply
    ) -> "LinearComments":
        # Keys of people stand alone, tokens of applications behind a word.
        credential = token if token.startswith(_LINEAR_KEY) else f"Bearer {token}"
        return cls(ForgeWire(table.api, {"accept": "application/json", "authorization": credential}, transport), target)

    async def has(self, reply: ReplyText, since: datetime) -> bool:
        # By its id too: Linear may write the mark otherwise than it was sent.
        ours = {"or": [{"id": {"eq": comment_id(reply)}}, {"body": {"contains": reply.mark}}]}
        answered = await self._ask(_FIND, {"issue": self.target.issue, "filter": ours, "most": NEWEST})
        issue = answered.get("issue")
        comments = issue.get("comments") if isinstance(issue, dict) else None
        nodes = comments.get("nodes") if isinstance(comments, dict) else None
        if not isinstance(nodes, list):
            raise ForgeRefused("What Linear answered is not understood: is this the address of its API?", 200)
        return bool(nodes)

    async def add(self, reply: ReplyText) -> None:
        new = {"id": comment_id(reply), "issueId": self.target.issue, "body": reply.markdown}
        made = (await self._ask(_ADD, {"input": new})).get("commentCreate")
        if not isinstance(made, dict) or made.get("success") is not True:
            raise ForgeRefused("Linear has not made the comment, and does not say why.", 400)

    async def _ask(self, query: str, variables: Mapping[str, object]) -> Mapping[str, Any]:
        try:
            said = await self.wire.send("POST", "", {"query": query, "variables": variables})
        except ForgeRefused as refused:
            # It tells this by a 400.
            if "rate limit" in str(refused).lower():
                raise ForgeBusy(str(refused), status=429) from refused
            raise
        errors = said.get("errors") if isinstance(said, dict) else None
        if errors:
            raise ForgeRefused(f"Linear refuses this{words_of({'errors': errors})}.", 400)
        answered = said.get("data") if isinstance(said, dict) else None
        if not isinstance(answered, dict):
            raise ForgeRefused("What Linear answered is not understood: is this the address of its API?", 200)
        return answered


def comment_id(reply: ReplyText) -> str:
    """The id of the comment with this reply, in the form of version 4, which Linear takes."""
    derived = derived_id("linear", reply.order_id)
    return f"{derived[:14]}4{derived[15:]}"
