"""Whether a Redis is fit for an installation: one check for service, drones, `mcc up` and doctor, a sentence per lack.

What is checked can only be mended by the operator. A Redis that is away, loads, or has a full memory is not unfit:
orders run without it, seconds later.
"""

from collections.abc import Callable, Mapping
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from mcc.addresses.redis import SENTINELS
from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.wire import installation_key
from mcc.dispatch.broker import RedisAt, client_url, connect, translated
from mcc.dispatch.guarded import UnknownMaster
from mcc.store.rows.values import KEEPER
from mcc.store.store import Store

OLDEST = (6, 0)
"""The first release with RESP3 and accounts."""

FIRST_USE = "installation.named"
"""Kind of the audit note whose id tells databases apart."""

KEPT_SECONDS = 300
"""How long a prefix stays taken after the last process of its installation."""

PROBE_SECONDS = 5


def installation_of(store: Store) -> str:
    """The id by which Redis knows the installation of this database; made at first use. Raises `StoreError`."""
    named = store.audit.first(FIRST_USE) or store.audit.note_once(FIRST_USE, by=Actor(KEEPER), detail={})
    return named.id


def known_installation(store: Store) -> str | None:
    """As `installation_of`; None where it was not made yet."""
    named = store.audit.first(FIRST_USE)
    return named.id if named else None


def occupy(link: redis.Redis, prefix: str, installation: str) -> str:
    """Take the prefix for `KEPT_SECONDS`, or for as long again. Answers the id of an installation that has it, ""
    where this one has. Raises redis-py's errors."""
    key = installation_key(prefix)
    if link.set(key, installation, nx=True, ex=KEPT_SECONDS):
        return ""
    holder: Any = link.get(key)
    if holder is not None and (other := _text(holder)) != installation:
        return other
    link.expire(key, KEPT_SECONDS)
    return ""


def unfit(at: RedisAt, installation: str | None = None, *, seconds: float = 1.0) -> str:
    """What this Redis lacks, as a sentence that ends with what to do; "" when it is fit.

    `installation` None: whose the prefix is does not matter. Changes nothing but keys of its own, which are gone
    seconds later. Raises `DispatchUnavailable` when it cannot be reached now.
    """
    try:
        with translated(), _link(at, seconds) as link:
            return _lack(link, at, installation)
    except _RefusedLogin as refused:
        return f"Redis at {at.shown} refuses the login ({refused}): correct user and password in MCC_REDIS_URL."


class _RefusedLogin(Exception):
    pass


def _link(at: RedisAt, seconds: float) -> redis.Redis:
    """A client that also stays at a server which is no master, to say so."""
    if at.url.partition("://")[0] in SENTINELS:
        return connect(at, seconds=seconds)
    made: redis.Redis = redis.Redis.from_url(
        client_url(at.url), socket_timeout=seconds, socket_connect_timeout=seconds, retry=Retry(NoBackoff(), 0)
    )
    return made


def _lack(link: redis.Redis, at: RedisAt, installation: str | None) -> str:
    try:
        link.ping()
    except AuthenticationError as refused:
        raise _RefusedLogin(str(refused)) from refused
    except UnknownMaster as unknown:
        return f"{at.shown} names no master that its Sentinels watch ({unknown}): correct NAME in MCC_REDIS_URL."
    except NoPermissionError:
        pass
    if problem := _role(link, at) or _kind(link, at) or _rights(link, at):
        return problem
    return "" if installation is None else _tenant(link, at, installation)


def _role(link: redis.Redis, at: RedisAt) -> str:
    try:
        answer: Any = link.execute_command("ROLE")
        role = _text(answer[0])
    except ResponseError:
        role = str(_info(link, "replication").get("role", "master"))
    match role:
        case "slave":
            return (
                f"Redis at {at.shown} is a replica, which cannot be written: name its master in MCC_REDIS_URL, or its "
                "Sentinels: sentinel://HOST:26379,HOST:26379/NAME."
            )
        case "sentinel":
            return f"{at.shown} is a Sentinel: write sentinel://HOST:26379/NAME, with the name of its master."
        case _:
            return ""


def _kind(link: redis.Redis, at: RedisAt) -> str:
    if int(_info(link, "cluster").get("cluster_enabled", 0)):
        return (
            f"Redis at {at.shown} is part of a cluster, over which Celery cannot work: name a Redis with "
            "cluster-enabled no, or one that Sentinels watch."
        )
    server = _info(link, "server")
    version = str(server.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if "valkey_version" not in server and numbers and numbers < OLDEST:
        return f"Redis at {at.shown} is {version}, and MCC needs {OLDEST[0]}.{OLDEST[1]} or newer: update it."
    return ""


def _rights(link: redis.Redis, at: RedisAt) -> str:
    """The commands that the account may not run, found out by running each."""
    key, channel = f"{at.prefix}fit.{fresh_id()}", f"{at.prefix}fit"
    missing = list(dict.fromkeys(name for name, run in _trials(link, key, channel).items() if not _may(run)))
    if not missing:
        return ""
    granted = " ".join(f"+{name.lower().replace(' ', '|')}" for name in missing)
    return (
        f"Redis at {at.shown} does not let this account run {', '.join(missing)} on keys and channels {at.prefix}*: "
        f"ACL SETUSER NAME ~{at.prefix}* &{at.prefix}* {granted}."
    )


def _trials(link: redis.Redis, key: str, channel: str) -> Mapping[str, Callable[[], object]]:
    """What MCC, drones and Celery need, by the name of the command, in an order in which each has what it needs."""

    def run(*parts: str | int) -> Callable[[], object]:
        return lambda: link.execute_command(*parts)

    def together() -> None:
        with link.pipeline(transaction=True) as pipeline:
            pipeline.get(key)
            pipeline.execute()

    def subscribe() -> None:
        with link.pubsub() as pubsub:
            pubsub.subscribe(channel)
            pubsub.get_message(timeout=PROBE_SECONDS)

    return {
        "SET": run("SET", key, "1", "EX", PROBE_SECONDS),
        "GET": run("GET", key),
        "MGET": run("MGET", key),
        "DEL": run("DEL", key),
        "LPUSH": run("LPUSH", key, "1"),
        "RPUSH": run("RPUSH", key, "1"),
        "EXPIRE": run("EXPIRE", key, PROBE_SECONDS),
        "LLEN": run("LLEN", key),
        "BRPOP": run("BRPOP", key, 1),
        "BLPOP": run("BLPOP", key, 1),
        "SADD": run("SADD", f"{key}.set", "1"),
        "SMEMBERS": run("SMEMBERS", f"{key}.set"),
        "SREM": run("SREM", f"{key}.set", "1"),
        "EXISTS": run("EXISTS", key),
        "SCRIPT LOAD": run("SCRIPT", "LOAD", "return 1"),
        "EVALSHA": run("EVALSHA", "0" * 40, 0),
        "MULTI": together,
        "PUBLISH": run("PUBLISH", channel, ""),
        "SUBSCRIBE": subscribe,
    }


def _may(run: Callable[[], object]) -> bool:
    try:
        run()
    except NoPermissionError:
        return False
    except ResponseError as error:
        return not str(error).startswith("NOPERM")
    return True


def _tenant(link: redis.Redis, at: RedisAt, installation: str) -> str:
    try:
        other = occupy(link, at.prefix, installation)
    except ResponseError:
        return ""
    if not other:
        return ""
    return (
        f"Another installation, which has a database of its own, uses the keys {at.prefix}* of Redis at {at.shown}: "
        "give each a prefix of its own (MCC_REDIS_PREFIX), or another Redis. The claim of an installation that is gone "
        f"ends within {KEPT_SECONDS // 60} minutes."
    )


def _info(link: redis.Redis, section: str) -> Mapping[str, Any]:
    """A section of INFO; empty where the account may not read it."""
    try:
        answer: Any = link.info(section)
    except RedisError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
