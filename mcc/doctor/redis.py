"""Redis as the doctor sees it: a bounded look at its queues, memory and rights, and the removal of garbage."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import redis

from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.wire import KEY_PREFIX, RUN_ORDER_TASK
from mcc.dispatch.broker import PRIORITY_SEPARATOR, queue_keys
from mcc.dispatch.connection import connect, translated

REMOVED = f"{KEY_PREFIX}doctor.removed"
"""The list that garbage is moved to: the newest `REMOVED_MOST` messages, for `REMOVED_SECONDS`."""

REMOVED_MOST, REMOVED_SECONDS = 1_000, 7 * 86_400
CANARY = "canary."
"""What the name of a queue of a single drone begins with."""

MESSAGES = 1_000
"""How many messages of a list are read."""

KEYS = 5_000
"""How many keys are looked at in search of lists of no declared queue."""

PROBE_SECONDS = 5
CODES: Mapping[type[Exception], str] = {
    redis.exceptions.OutOfMemoryError: "OOM",
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.NoPermissionError: "NOPERM",
}
"""The codes that redis-py takes off the beginning of an error."""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A declared queue: the number of its messages, of those that name no order, and its keys that are no lists."""

    name: str
    length: int
    garbage: int = 0
    wrong_keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RedisSeen:
    """`server`: "redis" or "valkey" with its `version`, "" where INFO does not tell.

    `refusal`: the error of a trial write; `policy` "" and `memory_limit` 0: unknown, or none. `strays`: lists of queues
    that are not declared, with their lengths; `canaries`: queues of single drones.
    """

    server: str = ""
    version: str = ""
    refusal: str = ""
    policy: str = ""
    memory_used: int = 0
    memory_limit: int = 0
    queues: Sequence[QueueSeen] = ()
    strays: Mapping[str, int] | None = None
    canaries: Sequence[str] = ()


def look_at(url: str, queues: Sequence[str], *, seconds: float) -> RedisSeen:
    """Raises `DispatchUnavailable`."""
    with translated(), connect(url, seconds=seconds) as link:
        link.ping()
        memory = _info(link, "memory")
        server, version = _program(link)
        strays, canaries = _others(link, queues)
        return RedisSeen(
            server=server,
            version=version,
            refusal=_refusal(link),
            policy=str(memory.get("maxmemory_policy", "")),
            memory_used=int(memory.get("used_memory", 0)),
            memory_limit=int(memory.get("maxmemory", 0)),
            queues=[_queue(link, queue) for queue in queues],
            strays=strays,
            canaries=canaries,
        )


def clear(url: str, queues: Sequence[str], canaries: Sequence[str], *, seconds: float) -> int:
    """Move garbage out of `queues` and delete `canaries`; answers how many messages and keys went.

    Raises `DispatchUnavailable`.
    """
    with translated(), connect(url, seconds=seconds) as link:
        moved = sum(_clear_key(link, key) for queue in queues for key in queue_keys(queue))
        names = [key for canary in canaries for key in queue_keys(canary)]
        return moved + (_int(link.delete(*names)) if names else 0)


def order_in(message: bytes | str) -> str | None:
    """The id of the order that a message in a queue names; None for garbage."""
    try:
        envelope = json.loads(message)
        if envelope["headers"]["task"] != RUN_ORDER_TASK:
            return None
        body = envelope["body"]
        if envelope["properties"].get("body_encoding") == "base64":
            body = base64.b64decode(body)
        [order_id] = json.loads(body)[0]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None
    return order_id if isinstance(order_id, str) and is_identifier(order_id) else None


def _program(link: redis.Redis) -> tuple[str, str]:
    server = _info(link, "server")
    if "valkey_version" in server:
        return "valkey", str(server["valkey_version"])
    return ("redis", str(server["redis_version"])) if "redis_version" in server else ("", "")


def _info(link: redis.Redis, section: str) -> Mapping[str, Any]:
    """A section of INFO; empty where the account may not ask for it, as with some hosted Redis."""
    try:
        answer: Any = link.info(section)
        return answer if isinstance(answer, dict) else {}
    except redis.ResponseError:
        return {}


def _refusal(link: redis.Redis) -> str:
    try:
        link.set(f"{KEY_PREFIX}doctor.{fresh_id()}", "probe", ex=PROBE_SECONDS)
    except redis.ResponseError as error:
        code = next((code for kind, code in CODES.items() if isinstance(error, kind)), "")
        return f"{code} {error}".strip()
    return ""


def _queue(link: redis.Redis, queue: str) -> QueueSeen:
    wrong = tuple(key for key in queue_keys(queue) if _type(link, key) not in ("list", "none"))
    keys = [key for key in queue_keys(queue) if key not in wrong]
    length = sum(_int(link.llen(key)) for key in keys)
    garbage = sum(order_in(message) is None for key in keys for message in _messages(link, key))
    return QueueSeen(queue, length, garbage, wrong)


def _messages(link: redis.Redis, key: str) -> Sequence[bytes]:
    found: Any = link.lrange(key, 0, MESSAGES - 1)
    return list(found)


def _others(link: redis.Redis, queues: Sequence[str]) -> tuple[dict[str, int], Sequence[str]]:
    declared = {key for queue in queues for key in queue_keys(queue)}
    strays: dict[str, int] = {}
    canaries: dict[str, None] = {}
    for key in islice(_lists(link), KEYS):
        name = key.removeprefix(KEY_PREFIX).partition(PRIORITY_SEPARATOR)[0]
        if name.startswith(CANARY):
            canaries[name] = None
        elif key not in declared and key != REMOVED and not name.endswith("celery.pidbox"):
            strays[name] = strays.get(name, 0) + _int(link.llen(key))
    return strays, list(canaries)


def _lists(link: redis.Redis) -> Iterator[str]:
    for key in link.scan_iter(match=f"{KEY_PREFIX}*", count=500, _type="list"):
        yield key.decode("utf-8", "backslashreplace")


def _clear_key(link: redis.Redis, key: str) -> int:
    kind = _type(link, key)
    if kind == "none":
        return 0
    if kind != "list":
        link.rename(key, f"{REMOVED}.{key.removeprefix(KEY_PREFIX)}")
        return 1
    return sum(_remove(link, key, message) for message in _messages(link, key) if order_in(message) is None)


def _remove(link: redis.Redis, key: str, message: bytes) -> int:
    """Move one message; LREM decides between the doctor and a worker that takes the same message."""
    if not _int(link.lrem(key, 1, message)):  # type: ignore[arg-type]
        return 0
    with link.pipeline() as together:
        together.rpush(REMOVED, message)
        together.ltrim(REMOVED, -REMOVED_MOST, -1)
        together.expire(REMOVED, REMOVED_SECONDS)
        together.execute()
    return 1


def _type(link: redis.Redis, key: str) -> str:
    answer: Any = link.type(key)
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def _int(answer: Any) -> int:
    return int(answer)
