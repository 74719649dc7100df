"""The port through which the agents of an order come to write in its workspace, one order at a time."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

ASK_SECONDS = 1.0

KnownFiles: TypeAlias = Mapping[str, Collection[str]]
"""By path in the workspace: the SHA-256 (hex) of every content that agents have read or left there; "" for no file."""


@dataclass(frozen=True, slots=True)
class WriteHold:
    """The order is alone in writing in the workspace `key`, after it waited for `waited_seconds`, for `holder` last."""

    key: str
    waited_seconds: float = 0.0
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class HoldRefused:
    """Another order is in the way; `message` says which, in a sentence without its full stop."""

    message: str


class WriteAccess(Protocol):
    """The order's access to its workspace, under this claim."""

    async def acquire(self) -> WriteHold | HoldRefused:
        """Try once; a hold lasts until the claim ends. Who is refused stands in a line until it has the hold or
        withdraws. Raises `JournalError`."""

    def withdraw(self) -> None:
        """Leave the line: no agent wants to write any more."""

    async def changed(self, known: KnownFiles) -> Sequence[str]:
        """Those of the known files that somebody else has changed since."""


@dataclass(slots=True)
class SharedWriting:
    """What the agents of one turn share about it. `held`: the journal says that the order writes, under this claim.
    `wanting`: how many calls wait for that, which ask again every `ask_seconds`."""

    access: WriteAccess
    ask_seconds: float = ASK_SECONDS
    held: bool = False
    wanting: int = 0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
