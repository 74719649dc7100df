"""One try of a reply: to which host it goes, with which token, and what its answer means."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

import httpx

from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.forges import Forge
from mcc.configuration.replies import LinearTable, SlackTable
from mcc.contracts.replies import ForgeReply, LinearReply, ReplyTarget, SlackReply
from mcc.forges.wire import CheckedRoutes, ForgeBusy, ForgeRefused, forge_wire
from mcc.redaction import Redactor
from mcc.settings import ServiceSettings, reply_tokens
from mcc.store.doors.messages import OutgoingReply
from mcc.webhooks.reply_chat import LinearComments, SlackMessages
from mcc.webhooks.reply_places import ForgeComments, ReplyPlace
from mcc.webhooks.reply_text import ReplyText
from mcc.webhooks.sending import RETRY_AFTER_SECONDS, WebhookAnswer

REPLY_SECONDS = 30.0
"""For a search and a comment: ended long before the hold on a delivery ends, after which another service may try."""


class CannotReply(Exception):
    """A reply that cannot be sent as the service is configured now; the message is a sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class ReplyTables:
    """The tables of mcc.toml to which replies go, with their tokens by their endpoints, `forges.hub`, and the
    variables that should hold them. `public_url`: where the page of the service is, "" for nowhere. `failed` is told
    the forge and the status of each of its errors."""

    forges: Mapping[str, Forge] = field(default_factory=dict)
    slack: Mapping[str, SlackTable] = field(default_factory=dict)
    linear: Mapping[str, LinearTable] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    public_url: str = ""
    failed: Callable[[str, int], None] = lambda forge, status: None

    @classmethod
    def of(cls, settings: ServiceSettings, failed: Callable[[str, int], None]) -> "ReplyTables":
        return cls(
            settings.forges,
            settings.slack,
            settings.linear,
            settings.reply_variables,
            reply_tokens(settings),
            settings.public_url or "",
            failed,
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The hosts that these tables name."""
        of_forges = (endpoint for forge in self.forges.values() for endpoint in forge.endpoints)
        return (*of_forges, *(table.endpoint for tables in (self.slack, self.linear) for table in tables.values()))

    def place(self, target: ReplyTarget, transport: httpx.AsyncBaseTransport) -> ReplyPlace:
        """Raises `CannotReply`."""
        if target.endpoint not in self.variables:
            raise CannotReply(f"mcc.toml has no table [{target.endpoint}] any more")
        token = self.tokens.get(target.endpoint)
        if not token:
            variable = self.variables[target.endpoint]
            raise CannotReply(f"{variable}, which has the token of [{target.endpoint}], is not set for the service")
        match target:
            case ForgeReply():
                forge = self.forges[target.forge]
                wire = forge_wire(forge, token, transport, partial(self.failed, target.forge))
                return ForgeComments.at(forge, wire, target)
            case SlackReply():
                return SlackMessages.at(self.slack[target.slack], token, transport, target)
            case LinearReply():
                return LinearComments.at(self.linear[target.linear], token, transport, target)
            case _:
                assert_never(target)


class ReplySender:
    """Sends replies, each by connections of its own to addresses that the rule has checked."""

    def __init__(self, tables: ReplyTables, rule: AddressRule, *, try_seconds: float = REPLY_SECONDS) -> None:
        self._tables = tables
        self._rule = rule
        self._try_seconds = try_seconds

    async def send(self, reply: OutgoingReply, redactor: Redactor, *, may_be_there: bool) -> WebhookAnswer:
        """`may_be_there`: it is looked for before it is written."""
        routes = CheckedRoutes(self._rule)
        try:
            async with asyncio.timeout(self._try_seconds):
                return await self._send(reply, redactor, self._tables.place(reply.target, routes), may_be_there)
        except CannotReply as problem:
            return WebhookAnswer(None, str(problem))
        except TimeoutError:
            return WebhookAnswer(None, f"no answer within {self._try_seconds:g} s", unsure=True)
        except ForgeBusy as busy:
            pause = min(busy.seconds or 0.0, RETRY_AFTER_SECONDS)
            return WebhookAnswer(busy.status, str(busy), pause, unsure=busy.may_be_done)
        except ForgeRefused as refused:
            # Nothing was sent, as an address is forbidden now, or what came back is not from its API.
            if refused.status < 300:
                return WebhookAnswer(None, str(refused), unsure=refused.status > 0)
            return WebhookAnswer(refused.status, str(refused), is_final=True)
        finally:
            await routes.aclose()

    async def _send(
        self, reply: OutgoingReply, redactor: Redactor, place: ReplyPlace, may_be_there: bool
    ) -> WebhookAnswer:
        text = await asyncio.to_thread(ReplyText.of, reply.happening, self._tables.public_url, redactor)
        if not (may_be_there and await place.has(text, reply.happening.at)):
            await place.add(text)
        return WebhookAnswer(200, "")
