"""What all drones know of MCP servers: which definitions count, and the tokens that one of them refreshes for all."""

from collections.abc import Mapping
from typing import Any

from drone.mcp_servers.server_state import StoredToken
from drone.worker.loop import AsyncStore


class StorePins:
    """A `drone.mcp_servers.server_state.Pins`. Raises `StoreUnavailable`; unreadable approvals do not count."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        return await self._store.once(lambda store: store.mcp_servers.seen(server, digests))

    async def approved(self, server: str) -> Mapping[str, str]:
        return await self._store.once(lambda store: store.mcp_servers.approved(server))


class StoreTokens:
    """A `drone.mcp_servers.server_state.Tokens`. Raises `StoreUnavailable`."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def load(self, server: str) -> StoredToken | None:
        kept = await self._store.once(lambda store: store.mcp_servers.token(server))
        return None if kept is None else StoredToken(kept.token, kept.version)

    async def save(self, server: str, token: Mapping[str, Any]) -> None:
        await self._store.once(lambda store: store.mcp_servers.put_token(server, token))

    async def hold(self, server: str, version: int, who: str, seconds: float) -> bool:
        return await self._store.once(lambda store: store.mcp_servers.hold_token(server, version, who, seconds))

    async def let_go(self, server: str, who: str) -> None:
        await self._store.once(lambda store: store.mcp_servers.release_token(server, who))
