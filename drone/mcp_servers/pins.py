"""Digests of definitions that count: those that were seen first, and those that a person approved since."""

from collections.abc import Mapping
from typing import Protocol


class Pins(Protocol):
    """Safe for several drones at once."""

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        """Note what a server offers now, by its own names; answers the digests that count.

        All of a server that was never seen count from now on: its table is the operator's consent. What such a server
        changes or adds later does not, until a person approves it.
        """

    async def approved(self, server: str) -> Mapping[str, str]:
        """The digests that count, none of a server that was never seen."""


class MemoryPins:
    """For a runtime without a database: what was seen first counts as long as it runs."""

    def __init__(self) -> None:
        self._pinned: dict[str, dict[str, str]] = {}

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        return self._pinned.setdefault(server, dict(digests))

    async def approved(self, server: str) -> Mapping[str, str]:
        return self._pinned.get(server, {})
