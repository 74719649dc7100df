"""Connections behind Sentinels: the search for the server that is the master now."""

from typing import Any

from redis.exceptions import RedisError
from redis.utils import str_if_bytes

from mcc.dispatch.guarded import AsyncGuarded, Guarded, UnknownMaster, WrongServer


class _Finding:
    """What both kinds of connections behind Sentinels share: the search for a server that is a master."""

    connection_pool: Any

    def _sentinels(self) -> tuple[Any, ...]:
        return tuple(self.connection_pool.sentinel_manager.sentinels)

    def _found(self, sentinel: Any, address: tuple[str, int]) -> None:
        """Ask this Sentinel first from now on; connections of the pool to other servers do not go back into it."""
        sentinels = self.connection_pool.sentinel_manager.sentinels
        sentinels.remove(sentinel)
        sentinels.insert(0, sentinel)
        self.connection_pool.master_address = address

    def _not_found(self, failures: list[str]) -> WrongServer:
        name = self.connection_pool.service_name
        kind = UnknownMaster if all(failure.endswith(UNKNOWN) for failure in failures) else WrongServer
        return kind(f"no Sentinel leads to a master {name!r}: {'; '.join(dict.fromkeys(failures))}")


UNKNOWN = "it watches no master of this name"


def _address(answer: Any) -> tuple[str, int] | None:
    """The address in a Sentinel's answer; None where it watches no such master."""
    return (str_if_bytes(answer[0]), int(answer[1])) if answer else None


def _name(sentinel: Any) -> str:
    options = sentinel.connection_pool.connection_kwargs
    return f"Sentinel {options.get('host')}:{options.get('port')}"


class SentinelGuarded(Guarded, _Finding):
    """Asks one Sentinel after the other for the master until a server says that it is one: a Sentinel that has not seen
    the fail-over yet is passed over."""

    def _connect_retry(self) -> None:
        connection: Any = self
        if connection._sock:
            return
        failures: list[str] = []
        tried: set[tuple[str, int]] = set()
        for sentinel in self._sentinels():
            try:
                address = _address(sentinel.sentinel_get_master_addr_by_name(self.connection_pool.service_name))
                if address is None:
                    failures.append(f"{_name(sentinel)}: {UNKNOWN}")
                # Several Sentinels name the same server: a wrong one need not be asked again.
                elif address not in tried:
                    tried.add(address)
                    connection.connect_to(address)
                    return self._found(sentinel, address)
            except (RedisError, OSError) as problem:
                failures.append(f"{_name(sentinel)}: {problem}")
            finally:
                # Sentinels are asked rarely, and a kept connection might lead to one that is cut off by then.
                sentinel.connection_pool.disconnect()
        raise self._not_found(failures)


class AsyncFound(AsyncGuarded, _Finding):
    """Like `SentinelGuarded`, for an event loop."""

    async def _connect_retry(self) -> None:
        connection: Any = self
        if connection.is_connected:
            return
        failures: list[str] = []
        tried: set[tuple[str, int]] = set()
        for sentinel in self._sentinels():
            try:
                address = _address(await sentinel.sentinel_get_master_addr_by_name(self.connection_pool.service_name))
                if address is None:
                    failures.append(f"{_name(sentinel)}: {UNKNOWN}")
                elif address not in tried:
                    tried.add(address)
                    await connection.connect_to(address)
                    return self._found(sentinel, address)
            except (RedisError, OSError) as problem:
                failures.append(f"{_name(sentinel)}: {problem}")
            finally:
                await sentinel.connection_pool.disconnect()
        raise self._not_found(failures)
