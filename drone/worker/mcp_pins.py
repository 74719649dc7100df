"""Which definitions of MCP servers' tools count, as the store of all drones has it."""

from collections.abc import Mapping

from drone.worker.loop import AsyncStore


class StorePins:
    """A `drone.mcp_servers.pins.Pins`. Raises `StoreUnavailable`: what cannot be known does not count."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        return await self._store.once(lambda store: store.mcp_servers.seen(server, digests))

    async def approved(self, server: str) -> Mapping[str, str]:
        return await self._store.once(lambda store: store.mcp_servers.approved(server))
