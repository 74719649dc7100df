"""Findings about Redis: refused writes, lost messages, publicly known holes, garbage in queues."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcc.doctor.finding import FIX_COMMAND, Finding
from mcc.doctor.redis import REMOVED, QueueSeen, RedisSeen
from mcc.doctor.snapshot import Node

Version = tuple[int, ...]

KEEPS = "noeviction"
FULL_PART = 0.9
STILL = "orders are kept and still run, seconds later"
REFUSALS = {
    "OOM": f"its memory is full, so it takes nothing more; {STILL}",
    "READONLY": f"it is a replica that can only be read; {STILL}",
    "MISCONF": f"it cannot save to its disk, and so refuses to be written; {STILL}",
    "NOPERM": f"this account may not write; {STILL}",
}
ADVICE = {
    "OOM": "raise maxmemory, or remove what else is kept there",
    "READONLY": "name the primary in MCC_REDIS_URL",
    "MISCONF": "make room on its disk, and see its log",
    "NOPERM": "give the account the rights to keys mcc:* (ACL SETUSER)",
}


@dataclass(frozen=True, slots=True)
class Hole:
    """`fixed`: the first good release of each line; a line between these that is not named was never fixed."""

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
"""From the advisories of both projects. A distribution may fix an older release without changing its number."""


def redis_findings(seen: RedisSeen) -> Iterator[Finding]:
    """No finding when Redis is well."""
    if seen.refusal:
        yield _refused(seen.refusal)
    elif seen.memory_limit and seen.memory_used >= FULL_PART * seen.memory_limit:
        detail = f"{seen.memory_used / seen.memory_limit:.0%} of its memory are used"
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
        yield Finding("redis", "warning", detail, advice)
    for queue in seen.queues:
        yield from _queue(queue)
    for name, length in (seen.strays or {}).items():
        detail = f"list {name} holds {length} messages, and no queue of this name is declared"
        advice = f"declare it (MCC_QUEUES), or remove it: redis-cli DEL mcc:{name}; its orders are found by other ways"
        yield Finding("messages", "warning", detail, advice)


def _refused(refusal: str) -> Finding:
    code = refusal.split()[0]
    detail = REFUSALS.get(code, f"it refuses to be written: {refusal}")
    return Finding("redis", "broken", detail, ADVICE.get(code, "see its log and configuration"))


def _holes_in(server: str, version: str) -> Sequence[Hole]:
    """The holes that a release came out with; none for a version that cannot be read."""
    parts = version.split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return ()
    numbers = tuple(map(int, parts))
    return [hole for hole in KNOWN if hole.server == server and hole.is_in(numbers)]


def _queue(queue: QueueSeen) -> Iterator[Finding]:
    if queue.garbage:
        detail = f"{queue.garbage} of {queue.length} messages in queue {queue.name} name no order"
        advice = f"drones drop them; {FIX_COMMAND} moves them to {REMOVED}. Who else writes there?"
        yield Finding("messages", "warning", detail, advice, fix="messages")
    for key in queue.wrong_keys:
        detail = f"{key} is no list, so no drone can read queue {queue.name}"
        yield Finding("messages", "broken", detail, f"{FIX_COMMAND} renames it. Who else writes there?", fix="messages")


def abandoned(canaries: Sequence[str], nodes: Sequence[Node] | None) -> Sequence[str]:
    """The canaries of drones that no longer answer; none when Celery could not be asked."""
    if nodes is None:
        return []
    owned = {queue for node in nodes for queue in node.queues}
    return [name for name in canaries if name not in owned]


def canary_findings(names: Sequence[str]) -> Iterator[Finding]:
    """`names`: abandoned canaries."""
    if names:
        detail = f"queues of single drones that no drone reads any more: {len(names)} ({', '.join(sorted(names)[:3])})"
        advice = f"Redis forgets them after five minutes; {FIX_COMMAND} removes them now"
        yield Finding("messages", "warning", detail, advice, fix="messages")
