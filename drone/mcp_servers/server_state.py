"""The ports through which drones share what they know of servers: pinned definitions and OAuth tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Pins(Protocol):
    """The digests of approved tool definitions. Safe for several drones at once."""

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        """Record the digests that a server offers now, by its own tool names; returns the approved ones.

        All definitions of a server that was never seen before are approved: its table in the configuration is the
        operator's consent. What such a server changes or adds later is not, until a person approves it.
        """

    async def approved(self, server: str) -> Mapping[str, str]:
        """The approved digests; none for a server that was never seen."""


class MemoryPins:
    """Pins for a runtime without a database, lost at its end."""

    def __init__(self) -> None:
        self._pinned: dict[str, dict[str, str]] = {}

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        return self._pinned.setdefault(server, dict(digests))

    async def approved(self, server: str) -> Mapping[str, str]:
        return self._pinned.get(server, {})


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A server's tokens and client registration as JSON, and the number of this version."""

    token: Mapping[str, Any]
    version: int


class OAuthTokenStore(Protocol):
    """The OAuth tokens of servers, and the lock of the drone that refreshes one. Safe for several drones at once."""

    async def load(self, server: str) -> StoredToken | None: ...

    async def save(self, server: str, token: Mapping[str, Any]) -> None:
        """Save a new version, which releases the lock."""

    async def hold(self, server: str, version: int, who: str, seconds: float) -> bool:
        """Try to lock this version for `who`, for so long; False if another drone holds the lock or a newer one exists.

        Only the holder may refresh the token.
        """

    async def let_go(self, server: str, who: str) -> None:
        """Release the lock, if `who` holds it."""


class MemoryTokens:
    """Tokens for a runtime without a database, lost at its end."""

    def __init__(self) -> None:
        self._kept: dict[str, StoredToken] = {}
        self._held: dict[str, str] = {}

    async def load(self, server: str) -> StoredToken | None:
        return self._kept.get(server)

    async def save(self, server: str, token: Mapping[str, Any]) -> None:
        known = self._kept.get(server)
        self._kept[server] = StoredToken(dict(token), known.version + 1 if known else 1)
        self._held.pop(server, None)

    async def hold(self, server: str, version: int, who: str, seconds: float) -> bool:
        known = self._kept.get(server)
        if known is None or known.version != version or server in self._held:
            return False
        self._held[server] = who
        return True

    async def let_go(self, server: str, who: str) -> None:
        if self._held.get(server) == who:
            del self._held[server]
