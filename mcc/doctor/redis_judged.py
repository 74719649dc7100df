"""This room is for judging what Redis holds: whether it can be written, what it throws away, what lies about."""

from collections.abc import Iterator, Sequence

from mcc.doctor.chart import Node
from mcc.doctor.finding import Finding
from mcc.doctor.known_holes import holes_in
from mcc.doctor.redis_seen import REMOVED, QueueSeen, RedisSeen
from mcc.doctor.words import FIX

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


def redis_of(seen: RedisSeen) -> Iterator[Finding]:
    """Nothing when it is well."""
    if seen.refusal:
        yield _refused(seen.refusal)
    elif seen.memory_limit and seen.memory_used >= FULL_PART * seen.memory_limit:
        detail = f"{seen.memory_used / seen.memory_limit:.0%} of its memory are used"
        yield Finding("redis", "warning", detail, ADVICE["OOM"])
    if seen.policy not in ("", KEEPS):
        detail = f"maxmemory-policy is {seen.policy}: when memory runs out it throws messages away"
        advice = f"orders are safe, only late; CONFIG SET maxmemory-policy {KEEPS}"
        yield Finding("redis", "warning", detail, advice)
    if holes := holes_in(seen.server, seen.version):
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


def _queue(queue: QueueSeen) -> Iterator[Finding]:
    if queue.garbage:
        detail = f"{queue.garbage} of {queue.length} messages in queue {queue.name} name no order"
        advice = f"drones drop them; {FIX} moves them to {REMOVED}. Who else writes there?"
        yield Finding("messages", "warning", detail, advice, fix="messages")
    for key in queue.wrong_keys:
        detail = f"{key} is no list, so no drone can read queue {queue.name}"
        yield Finding("messages", "broken", detail, f"{FIX} renames it. Who else writes there?", fix="messages")


def ownerless(canaries: Sequence[str], nodes: Sequence[Node] | None) -> Sequence[str]:
    """Queues of drones that are no more; none when Celery could not be asked."""
    if nodes is None:
        return []
    owned = {queue for node in nodes for queue in node.queues}
    return [name for name in canaries if name not in owned]


def canaries_of(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        detail = f"queues of single drones that no drone reads any more: {len(names)} ({', '.join(sorted(names)[:3])})"
        advice = f"Redis forgets them after five minutes; {FIX} removes them now"
        yield Finding("messages", "warning", detail, advice, fix="messages")
