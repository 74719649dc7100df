"""Connections lead to the master: a wrong server is left, with all older connections, and asked once more elsewhere."""

from collections import Counter
from collections.abc import Callable

import pytest
import redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from mcc.contracts.wire import Wake
from mcc.dispatch.broker import DispatchUnavailable, RedisAt, connect, connect_async, make_app, translated
from mcc.dispatch.guarded import Trust, UnknownMaster, WrongServer, is_misplaced
from mcc.dispatch.hearing import Hearing
from mcc.dispatch.links import async_client, client
from mcc.dispatch.publisher import AsyncPublisher, Publisher
from tests.drone.worker.real_redis import RealRedis
from tests.mcc.dispatch.resp import NUMBER, OK, READONLY, Server, address_of, bulk, sentinel
from tests.waiting import until

ERRORS = (
    *("READONLY x", "MASTERDOWN x", "MOVED 1 127.0.0.1:1", "CLUSTERDOWN x", "NOREPLICAS x", "UNBLOCKED x", "LOADING x"),
)
OTHERS = ("OOM x", "MISCONF x", "WRONGTYPE x", "NOSCRIPT x", "NOPERM x")


def at_sentinels(*sentinels: Server) -> RedisAt:
    return RedisAt(f"sentinel://{','.join(f'127.0.0.1:{one.port}' for one in sentinels)}/main")


def once(first: bytes, then: bytes = OK) -> Callable[[list[str]], bytes]:
    """An answer, and another one from then on."""
    left = [first]
    return lambda _: left.pop() if left else then


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_the_connection_is_answered_by_a_new_one(error: str) -> None:
    with Server(answers={"SET": once(f"-{error}\r\n".encode())}) as server, connect(RedisAt(server.url)) as client:
        assert client.set("a", "1") is True
        assert len(server.named("SET")) == 2
        until(lambda: len(server.open) == 1, "the first connection is closed")


@pytest.mark.parametrize("error", ERRORS)
async def test_an_error_of_the_connection_is_answered_by_a_new_one_on_an_event_loop_too(error: str) -> None:
    with Server(answers={"SET": once(f"-{error}\r\n".encode())}) as server:
        async with connect_async(RedisAt(server.url)) as client:
            assert await client.set("a", "1") is True
        assert len(server.named("SET")) == 2


@pytest.mark.parametrize("error", OTHERS)
def test_an_error_of_the_moment_is_not_asked_about_again(error: str) -> None:
    with Server(answers={"SET": f"-{error}\r\n".encode()}) as server, connect(RedisAt(server.url)) as client:
        with pytest.raises(ResponseError):
            client.set("a", "1")
        assert len(server.named("SET")) == 1
    assert not is_misplaced(ResponseError(error))


def test_what_says_it_twice_is_a_sentence() -> None:
    with Server(answers={"SET": READONLY}) as server, connect(RedisAt(server.url)) as client:
        with pytest.raises(DispatchUnavailable, match="Redis answers, but no master of it"), translated():
            client.set("a", "1")
        assert len(server.named("SET")) == 2


def test_with_a_connection_all_older_ones_are_left_and_no_newer_one() -> None:
    trust = Trust()
    assert trust.covers(1.0)
    trust.withdraw(5.0)
    trust.withdraw(3.0)
    assert [trust.covers(opened_at) for opened_at in (3.0, 5.0, 5.1)] == [False, False, True]


def test_idle_connections_of_the_same_pool_go_with_it() -> None:
    with Server() as server, connect(RedisAt(server.url)) as client:
        pool = client.connection_pool
        older, newer = pool.get_connection(), pool.get_connection()
        pool.release(older)
        pool.release(newer)
        server.answers["SET"] = once(READONLY)
        client.set("a", "1")
        client.set("a", "2")
        again = [pool.get_connection(), pool.get_connection()]
        assert all(one.is_connected for one in again) and len(server.named("SET")) == 3
        assert not older.outdated and not newer.outdated, "both were opened anew"


@pytest.mark.parametrize("role", ["replica", "slave", "handshake"])
def test_a_server_that_is_no_master_is_not_connected_to(role: str) -> None:
    with Server(role) as server, connect(RedisAt(server.url)) as client:
        with pytest.raises(WrongServer, match="which cannot be written"):
            client.set("a", "1")
        assert server.named("SET") == []


def test_where_the_greeting_has_no_role_the_server_is_asked_for_it() -> None:
    role = b"*1\r\n" + bulk("slave")
    with Server("", {"ROLE": role}) as server, connect(RedisAt(server.url)) as client:
        with pytest.raises(WrongServer):
            client.ping()
        server.answers["ROLE"] = b"-NOPERM this user has no permissions to run the 'role' command\r\n"
        assert client.ping(), "who may not ask learns it from the first write"


def test_a_sentinel_that_leads_to_a_replica_is_passed_over() -> None:
    with (
        Server() as master,
        Server("replica") as demoted,
        sentinel(address_of(demoted.port)) as liar,
        sentinel(address_of(master.port)) as honest,
    ):
        with connect(at_sentinels(liar, honest)) as client:
            assert client.set("a", "1") and client.set("a", "2")
            client.connection_pool.disconnect()
            assert client.set("a", "3")
        assert len(master.named("SET")) == 3 and demoted.commands == []
        assert len(liar.named("SENTINEL")) == 1, "who was right is asked first from then on"


async def test_a_sentinel_that_lies_or_is_away_is_passed_over_on_an_event_loop() -> None:
    with Server() as master, sentinel(address_of(1)) as liar, sentinel(address_of(master.port)) as honest:
        address = RedisAt(f"sentinel://127.0.0.1:1,127.0.0.1:{liar.port},127.0.0.1:{honest.port}/main")
        async with connect_async(address) as client:
            assert await client.set("a", "1")
        assert len(master.named("SET")) == 1


def test_a_connection_that_was_lost_asks_the_sentinels_again() -> None:
    with Server() as old, Server() as new, sentinel(address_of(old.port)) as watching:
        with connect(at_sentinels(watching)) as client:
            client.set("a", "1")
            watching.answers["SENTINEL"] = address_of(new.port)
            old.answers["SET"] = READONLY
            assert client.set("a", "2")
        assert len(new.named("SET")) == 1


def test_the_errors_name_every_sentinel_and_what_it_said() -> None:
    nowhere = b"*-1\r\n"
    with Server("replica") as demoted, sentinel(address_of(demoted.port)) as liar, sentinel(nowhere) as ignorant:
        with connect(at_sentinels(liar, ignorant)) as client, pytest.raises(WrongServer) as found:
            client.ping()
        said = str(found.value)
        assert "no Sentinel leads to a master 'main'" in said and "is a replica" in said and "of this name" in said
        with connect(at_sentinels(ignorant)) as client, pytest.raises(UnknownMaster):
            client.ping()


def test_nothing_is_published_at_a_server_that_is_a_replica_now() -> None:
    with Server(answers={"DEL": once(READONLY, b":0\r\n")}) as server:
        publisher = Publisher(RedisAt(server.url))
        assert publisher.wake("i", Wake(order_id="o", control_seq=1))
        publisher.close()
        assert Counter(words[0] for words in server.commands) == {"DEL": 2, "PUBLISH": 2}


async def test_nothing_is_published_at_a_replica_from_an_event_loop_either() -> None:
    with Server(answers={"DEL": once(READONLY, b":0\r\n")}) as server:
        publisher = AsyncPublisher(RedisAt(server.url, "other:"))
        assert await publisher.call(["i"])
        server.answers["DEL"] = READONLY
        assert not await publisher.call(["i"])
        await publisher.close()
        assert server.named("DEL")[0] == ["DEL", "other:nothing"]
        assert {words[1] for words in server.named("PUBLISH")} == {"other:control:i"}


def test_celery_s_messages_to_all_are_sent_by_a_master() -> None:
    with Server(answers={"DEL": READONLY}) as server:
        app = make_app(RedisAt(server.url), ["default"], seconds=1.0)
        with app.connection_for_write() as connection, pytest.raises(redis.ConnectionError):
            connection.default_channel._put_fanout("celery.pidbox", {}, "")
        app.close()
        assert server.named("PUBLISH") == []


def test_celery_s_senders_leave_a_replica_too() -> None:
    with Server(answers={"LPUSH": once(READONLY, NUMBER)}) as server:
        app = make_app(RedisAt(server.url), ["default"], seconds=1.0)
        app.send_task("x", queue="default", retry=False, ignore_result=True)
        app.close()
        assert len(server.named("LPUSH")) == 2


async def test_a_subscription_that_the_master_does_not_have_is_given_up(real_redis: RealRedis) -> None:
    url = real_redis.url
    nobody = b"*2\r\n" + bulk("mcc:listener:x") + b":0\r\n"
    with Server(answers={"PUBSUB": nobody}) as master:
        async with connect_async(RedisAt(url)) as here, connect_async(RedisAt(master.url)) as there:
            async with here.pubsub() as pubsub:
                opened = Hearing(there, pubsub, "mcc:", ping_seconds=0.0)
                await opened.begin(["mcc:a"])
                with pytest.raises(WrongServer, match="at another server"):
                    for _ in range(3):
                        await opened.next(1.0)
            async with here.pubsub() as pubsub:
                well = Hearing(here, pubsub, "mcc:", ping_seconds=0.0)
                await well.begin(["mcc:a"])
                found = [await well.next(1.0) for _ in range(3)]
                assert [one["channel"] for one in found if one] == [b"mcc:a"], "its own channel is no message"


def hung_up(_: list[str]) -> bytes:
    """The server ends the connection in the place of an answer."""
    raise ConnectionResetError


def test_a_server_that_ends_each_connection_while_it_is_made_is_away_and_is_not_asked_for_ever() -> None:
    options = {"health_check_interval": 10, "retry": Retry(NoBackoff(), 1)}
    with Server(answers={"PING": hung_up}) as server, client(server.url, **options) as link:
        with pytest.raises(redis.ConnectionError):
            link.ping()
        assert len(server.named("PING")) < 20


async def test_a_server_that_hangs_up_is_not_asked_for_ever_on_an_event_loop_either() -> None:
    with Server(answers={"PING": hung_up}) as server:
        options = {"health_check_interval": 10, "retry": AsyncRetry(NoBackoff(), 1)}
        async with async_client(server.url, **options) as link:
            with pytest.raises(redis.ConnectionError):
                await link.ping()
        assert len(server.named("PING")) < 20
