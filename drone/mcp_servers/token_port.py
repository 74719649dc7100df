"""Where what servers let the drones in with is kept, and who refreshes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class StoredToken:
    """JSON, and the number of its version."""

    token: Mapping[str, Any]
    version: int


class Tokens(Protocol):
    """Safe for several drones at once."""

    async def load(self, server: str) -> StoredToken | None: ...

    async def save(self, server: str, token: Mapping[str, Any]) -> None:
        """A new version, which nobody holds."""

    async def hold(self, server: str, version: int, who: str, seconds: float) -> bool:
        """Whether `who` alone may refresh this version for so long; False: another one does, or did."""

    async def let_go(self, server: str, who: str) -> None: ...


class MemoryTokens:
    """For a runtime without a database: as long as it runs."""

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
