"""Passwords in addresses: a raw one that was cut is refused without a part of it, and none is shown."""

import pytest

from mcc.addresses import is_loopback, unreadable, without_password
from mcc.addresses.redis import redis_problem, sentinel_address

RAW = (
    "redis://:p@ss/w#rd@cache:6379/0",
    "redis://:pass/word@cache:6379/0",
    "redis://:pass#word@cache:6379/0",
    "redis://:pass?word@cache:6379/0",
    "redis://:pass@word@cache:6379/0",
    "redis://:pa[ss]word@cache/0",
    "redis://:passworé℀@cache#",
    "redis://mcc:password/0",
    "redis://cache:password",
    "rediss://:pass word@cache/0",
    "redis://:password#",
    "redis://cache/password",
    "redis://cache:6379/0?password",
    "postgresql://mcc:p@ssword@db/mcc",
    "postgresql://mcc:pass/word@db/mcc",
    "postgresql+psycopg://mcc:pass#word@db/mcc",
    "postgresql://mcc:pass?word@db:5432/mcc",
    "sentinel://:pass/word@one:26379,two/main",
)


@pytest.mark.parametrize("address", RAW)
def test_a_password_that_was_cut_is_refused_and_nothing_of_it_is_said(address: str) -> None:
    numbered = address.startswith("redis")
    said = unreadable(address, numbered=numbered)
    assert "encode @ / # as %40 %2F %23" in said
    for part in ("pass", "word", "p@", "ss", "rd@", "cache", "db/"):
        assert part not in said.replace("password", "")


@pytest.mark.parametrize(
    "address",
    [
        "redis://:p%40ss%2Fw%23r%25d:%3F&x@cache:6379/0",
        "redis://user:a:b@[::1]:6379/15?ssl_cert_reqs=none",
        "redis://cache",
        "unix:///run/mcc/redis.sock?db=2",
        "redis+socket://:word@/run/redis.sock?virtual_host=1",
        "postgresql://h1:5432,h2:5433/db?target_session_attrs=read-write",
        "postgresql://u@/db?host=h1:5433&host=h2:5432",
        "postgresql:///mcc?host=/run/postgresql&options=-c search_path%3Dx",
    ],
)
def test_an_address_whose_parts_are_encoded_is_read(address: str) -> None:
    assert unreadable(address, numbered=address.startswith("redis:")) == ""


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://:word@cache:6379/0", "redis://:***@cache:6379/0"),
        ("postgresql://mcc:word@a,b/db?sslpassword=word&x=1", "postgresql://mcc:***@a,b/db?sslpassword=***&x=1"),
        ("sentinel://u:word@a,b/main?sentinel_password=word", "sentinel://u:***@a,b/main?sentinel_password=***"),
        ("redis://user@cache/0", "redis://user@cache/0"),
        ("sqlite:////data/mcc.db", "sqlite:////data/mcc.db"),
        ("default", "default"),
    ],
)
def test_an_address_is_shown_without_its_passwords(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_the_parts_of_the_address_of_sentinels() -> None:
    url = (
        "sentinels://mcc:p%40ss@one:26380,[::1]/main?db=3&sentinel_username=s&sentinel_password=a+b%2F&ssl_ca_certs=/ca"
    )
    assert redis_problem(url) == ""
    found = sentinel_address(url)
    assert found is not None and [str(one) for one in found.hosts] == ["one:26380", "[::1]:26379"]
    assert (found.name, found.db, found.username, found.password, found.tls) == ("main", 3, "mcc", "p@ss", True)
    assert (found.sentinel_username, found.sentinel_password) == ("s", "a+b/")
    assert found.tls_options == {"ssl_ca_certs": "/ca"} and "p@ss" not in repr(found)
    assert sentinel_address("redis://one/0") is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://one", "begins with one of redis://, rediss://, unix://, redis+socket://, sentinel://, sentinels://"),
        ("sentinel://one:26379", "ends with the name of the master"),
        ("sentinel://one/main/0", "ends with the name of the master"),
        ("sentinel:///main", "the hosts of the Sentinels cannot be read"),
        ("sentinel://one,/main", "the hosts of the Sentinels cannot be read"),
        ("sentinel://one/main?db=x", "db is the number of a database"),
        ("sentinel://one/main?password=x", "may stand db, sentinel_username, sentinel_password"),
        ("redis", "begins with one of"),
    ],
)
def test_an_address_of_another_form_is_refused_by_a_sentence(url: str, said: str) -> None:
    assert said in redis_problem(url)


def test_which_hosts_are_this_machine() -> None:
    here = ("localhost", "LOCALHOST.", "127.0.0.1", "127.255.0.3", "::1", "[::1]", "::ffff:127.0.0.1")
    elsewhere = ("", "127.1", "localhost.example", "evil.localhost", "10.0.0.1", "0.0.0.0", "::", "mcc.example")
    assert all(map(is_loopback, here)) and not any(map(is_loopback, elsewhere))
