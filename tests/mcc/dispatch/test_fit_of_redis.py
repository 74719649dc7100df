"""Whether a Redis is fit: each lack is a sentence that says what to do, and what is only away is no lack."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from mcc.contracts.ids import fresh_id
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, connect
from mcc.dispatch.fit import installation_of, known_installation, occupy, unfit
from mcc.dispatch.nudge import Nudger
from mcc.testing import temporary_store
from tests.drone.worker.real_redis import RealRedis
from tests.mcc.dispatch.resp import Server, bulk, sentinel


@pytest.fixture
def link(real_redis: RealRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(real_redis.url) as client:
        client.flushall()
        yield client
        client.flushall()
        client.acl_deluser("poor")


def told(**sections: str) -> bytes:
    """INFO's answer."""
    return bulk("".join(f"{name}:{value}\r\n" for name, value in sections.items()))


def test_a_redis_of_today_lacks_nothing_and_is_left_as_it_was(real_redis: RealRedis, link: redis.Redis) -> None:
    assert unfit(RedisAt(real_redis.url)) == ""
    keys = link.keys("*")
    assert isinstance(keys, list) and all(0 < link.ttl(key) <= 5 for key in keys)


def test_a_replica_is_named_and_so_is_what_to_name_instead(real_redis: RealRedis, link: redis.Redis) -> None:
    link.replicaof("127.0.0.1", "9")
    try:
        said = unfit(RedisAt(real_redis.url))
    finally:
        link.replicaof("NO", "ONE")
    assert "is a replica" in said and "name its master" in said and "sentinel://" in said


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        ("~mcc:* &mcc:* +@all -publish -brpop", "PUBLISH, BRPOP"),
        ("~mcc:* &mcc:* +@all -@scripting", "SCRIPT LOAD, EVALSHA"),
        ("~mcc:* &mcc:* +@read +@connection", "SET, DEL"),
        ("~other:* &mcc:* +@all", "SET, GET"),
        ("~mcc:* &other:* +@all", "PUBLISH, SUBSCRIBE"),
    ],
)
def test_commands_keys_and_channels_that_an_account_lacks_are_found_by_trying(
    real_redis: RealRedis, link: redis.Redis, granted: str, missing: str
) -> None:
    link.execute_command("ACL", "SETUSER", "poor", "reset", "resetchannels", "on", ">word", *granted.split())
    said = unfit(RedisAt(real_redis.url.replace("unix://", "unix://poor:word@")))
    assert all(name in said for name in missing.split(", "))
    assert "ACL SETUSER NAME ~mcc:* &mcc:*" in said and "word" not in said


def test_an_account_with_the_documented_rights_lacks_nothing(real_redis: RealRedis, link: redis.Redis) -> None:
    rights = "resetkeys ~mcc:* allchannels +@all -@admin -@dangerous +info +role -@scripting +evalsha +script|load"
    link.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">word", *rights.split(), "+script|exists")
    assert unfit(RedisAt(real_redis.url.replace("unix://", "unix://poor:word@"))) == ""


def test_a_refused_login_is_told_apart_from_a_server_that_is_away(real_redis: RealRedis, link: redis.Redis) -> None:
    said = unfit(RedisAt(real_redis.url.replace("unix://", "unix://poor:secret@")))
    assert "refuses the login" in said and "secret" not in said
    with pytest.raises(DispatchUnavailable):
        unfit(RedisAt("redis://127.0.0.1:1/0"))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"INFO": told(cluster_enabled="1", redis_version="7.2.1")}, "part of a cluster"),
        ({"INFO": told(redis_version="5.0.14")}, "is 5.0.14, and MCC needs 6.0 or newer"),
        ({"ROLE": b"*1\r\n" + bulk("slave")}, "is a replica"),
        ({"ROLE": b"-NOPERM x\r\n", "INFO": told(role="slave")}, "is a replica"),
        ({"ROLE": b"*1\r\n" + bulk("sentinel")}, "is a Sentinel: write sentinel://HOST:26379/NAME"),
    ],
)
def test_a_server_of_another_kind_is_named(answers: dict[str, bytes], said: str) -> None:
    with Server("", answers) as server:
        assert said in unfit(RedisAt(server.url))


def test_sentinels_that_watch_no_master_of_the_name_are_a_lack_and_those_that_find_none_are_not() -> None:
    with sentinel(b"*-1\r\n") as watching:
        at = RedisAt(f"sentinel://127.0.0.1:{watching.port}/main")
        assert "names no master that its Sentinels watch" in unfit(at)
        watching.answers["SENTINEL"] = b"*2\r\n" + bulk("127.0.0.1") + bulk("1")
        with pytest.raises(DispatchUnavailable):
            unfit(at)


def test_two_installations_need_a_prefix_each(real_redis: RealRedis, link: redis.Redis) -> None:
    one, other = fresh_id(), fresh_id()
    at, elsewhere = RedisAt(real_redis.url), RedisAt(real_redis.url, "two:")
    assert unfit(at, one) == "" and unfit(at, one) == ""
    said = unfit(at, other)
    assert "Another installation" in said and "give each a prefix of its own (MCC_REDIS_PREFIX)" in said
    assert unfit(elsewhere, other) == ""
    assert link.get("mcc:installation") == one.encode() and link.get("two:installation") == other.encode()
    link.delete("mcc:installation")
    assert unfit(at, other) == "", "whose processes are gone, and with them its claim"


def test_a_claim_lasts_while_somebody_renews_it(real_redis: RealRedis, link: redis.Redis) -> None:
    with connect(RedisAt(real_redis.url)) as client:
        assert occupy(client, "mcc:", "one") == ""
        client.expire("mcc:installation", 5)
        assert occupy(client, "mcc:", "two") == "one"
        assert client.ttl("mcc:installation") <= 5
        assert occupy(client, "mcc:", "one") == "" and client.ttl("mcc:installation") > 200


def test_whoever_nudges_renews_the_claim_of_its_database(real_redis: RealRedis, link: redis.Redis) -> None:
    with closing(temporary_store()) as store:
        assert known_installation(store) is None
        nudger = Nudger(RedisAt(real_redis.url, "three:"), ["default"])
        nudger.nudge_claimable(store)
        nudger.close()
        named = installation_of(store)
        assert installation_of(store) == known_installation(store) == named
        assert link.get("three:installation") == named.encode()


def test_nudges_of_one_installation_are_not_seen_by_another(real_redis: RealRedis, link: redis.Redis) -> None:
    one, other = (Nudger(RedisAt(real_redis.url, prefix), ["default"]) for prefix in ("mcc:", "two:"))
    order_id = fresh_id()
    assert one.nudge(order_id) and other.nudge(order_id), "each remembers its own"
    one.nudge(fresh_id())
    assert one.lengths() == {"default": 2} and other.lengths() == {"default": 1}
    one.close()
    other.close()
    keys = link.keys("*")
    assert {bytes(key).partition(b":")[0] for key in keys if isinstance(key, bytes)} == {b"mcc", b"two"}
