"""The doctor's view of Redis: reads queues, memory and rights within bounds, makes findings, and removes garbage."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import redis

from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.wire import KEY_PREFIX, RUN_ORDER_TASK
from mcc.dispatch.broker import PRIORITY_SEPARATOR, RedisAt, connect, queue_keys, translated
from mcc.dispatch.fit import unfit
from mcc.findings.finding import FIX_COMMAND, Finding
from mcc.findings.snapshot import CeleryNode

REMOVED = "doctor.removed"
"""Under its prefix, the list that garbage is moved to: the newest `REMOVED_MOST` messages, for `REMOVED_SECONDS`."""

REMOVED_MOST, REMOVED_SECONDS = 1_000, 7 * 86_400
CANARY = "canary."
"""Prefix of the name of a queue that belongs to a single drone."""

MESSAGES = 1_000
"""How many messages of a list are read at most."""

KEYS = 5_000
"""How many keys are scanned at most for lists that belong to no declared queue."""

PROBE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A declared queue. `length`: its messages. `garbage`: those that name no order. `wrong_keys`: its keys that hold
    something other than a list."""

    name: str
    length: int
    garbage: int = 0
    wrong_keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RedisSeen:
    """What was found in Redis. `server`: "redis" or "valkey", with its `version`; "" where INFO does not say.

    `unfit`: what it lacks, as sentences, "" for nothing; nothing else is then known. `prefix`: of all keys.
    `refusal`: the error of a trial write, "" for none. `policy` "", `memory_limit` 0: unknown or not set. `strays`:
    lengths of the lists that belong to no declared queue, by name. `canaries`: queues of single drones.
    """

    server: str = ""
    version: str = ""
    prefix: str = KEY_PREFIX
    unfit: str = ""
    refusal: str = ""
    policy: str = ""
    memory_used: int = 0
    memory_limit: int = 0
    queues: Sequence[QueueSeen] = ()
    strays: Mapping[str, int] | None = None
    canaries: Sequence[str] = ()
    private: bool = False
    """It was reached by a Unix socket."""


def look_at(at: RedisAt, queues: Sequence[str], installation: str | None = None, *, seconds: float) -> RedisSeen:
    """Look at Redis and the declared `queues`, and whether `installation`, the id of a database, may use it.

    Writes keys that expire. Raises `DispatchUnavailable`.
    """
    if problem := unfit(at, installation, seconds=seconds):
        return RedisSeen(unfit=problem)
    with translated(), connect(at, seconds=seconds) as link:
        memory = _info(link, "memory")
        server, version = _server_version(link)
        strays, canaries = _undeclared_lists(link, queues, at.prefix)
        return RedisSeen(
            private=at.url.startswith("unix:"),
            server=server,
            version=version,
            prefix=at.prefix,
            refusal=_write_error(link, at.prefix),
            policy=str(memory.get("maxmemory_policy", "")),
            memory_used=int(memory.get("used_memory", 0)),
            memory_limit=int(memory.get("maxmemory", 0)),
            queues=[_queue(link, queue, at.prefix) for queue in queues],
            strays=strays,
            canaries=canaries,
        )


def clear(at: RedisAt, queues: Sequence[str], canaries: Sequence[str], *, seconds: float) -> int:
    """Move garbage out of `queues` and delete `canaries`. Answers how many messages and keys were removed.

    Raises `DispatchUnavailable`.
    """
    with translated(), connect(at, seconds=seconds) as link:
        moved = sum(_clear_key(link, key, at.prefix) for queue in queues for key in queue_keys(queue, at.prefix))
        names = [key for canary in canaries for key in queue_keys(canary, at.prefix)]
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


def _server_version(link: redis.Redis) -> tuple[str, str]:
    server = _info(link, "server")
    if "valkey_version" in server:
        return "valkey", str(server["valkey_version"])
    return ("redis", str(server["redis_version"])) if "redis_version" in server else ("", "")


def _info(link: redis.Redis, section: str) -> Mapping[str, Any]:
    """A section of INFO; empty where the account may not read it, as with some hosted Redis."""
    try:
        answer: Any = link.info(section)
        return answer if isinstance(answer, dict) else {}
    except redis.ResponseError:
        return {}


def _write_error(link: redis.Redis, prefix: str) -> str:
    try:
        # Only a write shows it: PING is answered by a Redis that is full, read-only or cannot save.
        link.set(f"{prefix}doctor.{fresh_id()}", "probe", ex=PROBE_SECONDS)
    except redis.ResponseError as error:
        # redis-py removes this code from the beginning of the error's text.
        return f"OOM {error}" if isinstance(error, redis.exceptions.OutOfMemoryError) else str(error)
    return ""


def _queue(link: redis.Redis, queue: str, prefix: str) -> QueueSeen:
    wrong = tuple(key for key in queue_keys(queue, prefix) if _type(link, key) not in ("list", "none"))
    keys = [key for key in queue_keys(queue, prefix) if key not in wrong]
    length = sum(_int(link.llen(key)) for key in keys)
    garbage = sum(order_in(message) is None for key in keys for message in _messages(link, key))
    return QueueSeen(queue, length, garbage, wrong)


def _messages(link: redis.Redis, key: str) -> Sequence[bytes]:
    found: Any = link.lrange(key, 0, MESSAGES - 1)
    return list(found)


def _undeclared_lists(link: redis.Redis, queues: Sequence[str], prefix: str) -> tuple[dict[str, int], Sequence[str]]:
    declared = {key for queue in queues for key in queue_keys(queue, prefix)} | {f"{prefix}{REMOVED}"}
    strays: dict[str, int] = {}
    canaries: dict[str, None] = {}
    # SCAN, and only so many: KEYS would stop a shared Redis for everybody while it runs.
    for raw_key in islice(link.scan_iter(match=f"{prefix}*", count=500, _type="list"), KEYS):
        key = raw_key.decode("utf-8", "backslashreplace")
        name = key.removeprefix(prefix).partition(PRIORITY_SEPARATOR)[0]
        if name.startswith(CANARY):
            canaries[name] = None
        # Mailboxes of Celery's own remote control look like queues.
        elif key not in declared and not name.endswith("celery.pidbox"):
            strays[name] = strays.get(name, 0) + _int(link.llen(key))
    return strays, list(canaries)


def _clear_key(link: redis.Redis, key: str, prefix: str) -> int:
    kind = _type(link, key)
    if kind == "none":
        return 0
    if kind != "list":
        # Renamed, not deleted: whoever wrote it may want it back.
        link.rename(key, f"{prefix}{REMOVED}.{key.removeprefix(prefix)}")
        return 1
    return sum(
        _remove(link, key, message, f"{prefix}{REMOVED}")
        for message in _messages(link, key)
        if order_in(message) is None
    )


def _remove(link: redis.Redis, key: str, message: bytes, removed: str) -> int:
    """Move one message to the list `removed`. LREM decides the race with a worker that takes the same message."""
    if not _int(link.lrem(key, 1, message)):  # type: ignore[arg-type]
        return 0
    with link.pipeline() as together:
        together.rpush(removed, message)
        together.ltrim(removed, -REMOVED_MOST, -1)
        together.expire(removed, REMOVED_SECONDS)
        together.execute()
    return 1


def _type(link: redis.Redis, key: str) -> str:
    answer: Any = link.type(key)
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def _int(answer: Any) -> int:
    return int(answer)


Version = tuple[int, ...]

KEEPS = "noeviction"
FULL_PART = 0.9
STILL = "orders are kept and still run, seconds later"
REFUSALS = {
    "OOM": f"its memory is full, so it takes nothing more; {STILL}",
    "MISCONF": f"it cannot save to its disk, and so refuses to be written; {STILL}",
}
ADVICE = {
    "OOM": "raise maxmemory, or remove what else is kept there",
    "MISCONF": "make room on its disk, and see its log",
}


@dataclass(frozen=True, slots=True)
class Hole:
    """A known vulnerability, in releases from `since` on. `fixed`: the first good release of each release line; a line
    before the last of them that is not named was never fixed."""

    name: str
    server: str
    what: str
    since: Version
    fixed: Sequence[Version]

    def is_in(self, version: Version) -> bool:
        if version < self.since:
            return False
        line = version[:2]
        of_line = [release for release in self.fixed if release[:2] == line]
        return version < of_line[0] if of_line else line < max(self.fixed)[:2]


SCRIPTS = "a script may run foreign code in the server"
KNOWN = (
    Hole("CVE-2025-49844", "redis", SCRIPTS, (0,), ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2))),
    Hole("CVE-2025-49844", "valkey", SCRIPTS, (0,), ((7, 2, 11), (8, 0, 6), (8, 1, 4))),
    Hole("CVE-2026-23479", "redis", "a client with a login may run foreign code in the server", (7, 2), ((8, 6, 3),)),
)
"""From the security advisories of both projects. A distribution may fix an older release without a new number."""


def redis_findings(seen: RedisSeen) -> Iterator[Finding]:
    """What is wrong with Redis and its queues; no finding when all is well."""
    if seen.unfit:
        detail, _, advice = seen.unfit.partition(": ")
        yield Finding("redis", "broken", detail, advice.removesuffix("."))
        return
    if seen.refusal:
        code = seen.refusal.split()[0]
        detail = REFUSALS.get(code, f"it refuses to be written: {seen.refusal}")
        yield Finding("redis", "broken", detail, ADVICE.get(code, "see its log and configuration"))
    elif seen.memory_limit and seen.memory_used >= FULL_PART * seen.memory_limit:
        detail = f"{seen.memory_used / seen.memory_limit:.0%} of its memory is used"
        yield Finding("redis", "warning", detail, ADVICE["OOM"])
    if seen.policy not in ("", KEEPS):
        detail = f"maxmemory-policy is {seen.policy}: when memory runs out it throws messages away"
        advice = f"orders are safe, only late; CONFIG SET maxmemory-policy {KEEPS}"
        yield Finding("redis", "warning", detail, advice)
    if holes := _holes_in(seen.server, seen.version):
        names = "; ".join(f"{hole.name}: {hole.what}" for hole in holes)
        detail = f"{seen.server} {seen.version} may have known holes ({names})"
        advice = (
            "update it, unless your distribution has mended them under this number; "
            "a redis-server on PATH is taken before the one that comes along"
        )
        if seen.private:
            # Only processes of its own user reach it, and those may run anything anyway.
            yield Finding("redis", "ok", f"{detail}, which nobody else can reach: it listens on a private socket alone")
        else:
            yield Finding("redis", "warning", detail, advice)
    for queue in seen.queues:
        yield from _queue_findings(queue, f"{seen.prefix}{REMOVED}")
    for name, length in (seen.strays or {}).items():
        detail = f"list {name} holds {length} messages, and no queue of this name is declared"
        remove = f"redis-cli DEL {seen.prefix}{name}"
        advice = f"declare it (MCC_QUEUES), or remove it: {remove}; its orders are found by other ways"
        yield Finding("messages", "warning", detail, advice)


def _holes_in(server: str, version: str) -> Sequence[Hole]:
    """The known vulnerabilities of a release; none for a version that cannot be parsed."""
    parts = version.split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return ()
    numbers = tuple(map(int, parts))
    return [hole for hole in KNOWN if hole.server == server and hole.is_in(numbers)]


def _queue_findings(queue: QueueSeen, removed: str) -> Iterator[Finding]:
    if queue.garbage:
        detail = f"{queue.garbage} of {queue.length} messages in queue {queue.name} name no order"
        advice = f"drones drop them; {FIX_COMMAND} moves them to {removed}. Who else writes there?"
        yield Finding("messages", "warning", detail, advice, fix="messages")
    for key in queue.wrong_keys:
        detail = f"{key} is no list, so no drone can read queue {queue.name}"
        yield Finding("messages", "broken", detail, f"{FIX_COMMAND} renames it. Who else writes there?", fix="messages")


def abandoned(canaries: Sequence[str], nodes: Sequence[CeleryNode] | None) -> Sequence[str]:
    """The canary queues of drones that no longer answer; none when Celery could not be queried."""
    if nodes is None:
        return []
    owned = {queue for node in nodes for queue in node.queues}
    return [name for name in canaries if name not in owned]


def canary_findings(names: Sequence[str]) -> Iterator[Finding]:
    """A finding about abandoned canary queues, if there are any."""
    if names:
        detail = f"queues of single drones that no drone reads any more: {len(names)} ({', '.join(sorted(names)[:3])})"
        advice = f"Redis forgets them after five minutes; {FIX_COMMAND} removes them now"
        yield Finding("messages", "warning", detail, advice, fix="messages")
