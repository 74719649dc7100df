"""Replies: where the answer of an order goes back to, once it has ended."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Field, StringConstraints

from mcc.contracts.shape import Closed

PLACES = {"forge": "forges", "slack": "slack", "linear": "linear"}
"""The keys that say where a reply goes, each with the tables of mcc.toml of which it names one."""

TableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,30}$")]
ProjectPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$", max_length=300)
]
"""No part of it is `.` or `..`; `team/.github` and `team/-x` are projects."""


class ForgeReply(Closed):
    """A comment on an issue or a request of a project at [forges.NAME]. `merge_request`: at GitLab, which numbers the
    two apart, it is on a request."""

    forge: TableName
    project: ProjectPath
    number: Annotated[int, Field(ge=1, le=10**12, strict=True)]
    merge_request: bool = False

    @property
    def endpoint(self) -> str:
        """The table that says where it is sent, `forges.hub`: the endpoint of its delivery."""
        return f"{PLACES['forge']}.{self.forge}"


class SlackReply(Closed):
    """A message in the channel of this id at [slack.NAME], in the thread of the message with this timestamp."""

    slack: TableName
    channel: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9]{1,30}$")]
    thread: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}\.[0-9]{1,20}$")] | None = None

    @property
    def endpoint(self) -> str:
        return f"{PLACES['slack']}.{self.slack}"


class LinearReply(Closed):
    """A comment on an issue of [linear.NAME], by its id or its short name, `ENG-12`."""

    linear: TableName
    issue: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,99}$")]

    @property
    def endpoint(self) -> str:
        return f"{PLACES['linear']}.{self.linear}"


ReplyTarget: TypeAlias = ForgeReply | SlackReply | LinearReply

_CLASSES: Mapping[str, type[ReplyTarget]] = {"forge": ForgeReply, "slack": SlackReply, "linear": LinearReply}


def reply_target(fields: Mapping[str, Any]) -> ReplyTarget:
    """Where these fields say that a reply goes. Raises `ValidationError`."""
    kind = next((key for key in PLACES if key in fields), "forge")
    return _CLASSES[kind].model_validate(fields)


def is_reply(endpoint_id: str) -> bool:
    """Whether deliveries of this endpoint are replies."""
    return endpoint_id.partition(".")[0] in PLACES.values() and "." in endpoint_id
