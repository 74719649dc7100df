"""Addresses of databases: lists of hosts as libpq writes them, and the settings in their options."""

import pytest
from sqlalchemy.engine import make_url

from mcc.configuration.database import UnreadableOptions, settings_in, with_hosts_in_query
from mcc.store.database.connections import normal_url


@pytest.mark.parametrize(
    ("url", "hosts", "ports"),
    [
        ("postgresql://u:p%2C@h1:5432,h2:5433/db?sslmode=require", "h1,h2", "5432,5433"),
        ("postgresql://h1,h2:5433/db", "h1,h2", ",5433"),
        ("postgresql://u@h1,h2/db", "h1,h2", None),
        ("postgresql://u@[::1]:5432,[fe80::1]/db", "::1,fe80::1", "5432,"),
        ("postgresql+psycopg://h1:1,h2:2,h3:3?target_session_attrs=any", "h1,h2,h3", "1,2,3"),
    ],
)
def test_a_list_of_hosts_goes_to_libpq_as_it_is(url: str, hosts: str, ports: str | None) -> None:
    made = normal_url(url)
    assert made.query["host"] == hosts and made.query.get("port") == ports
    assert made.host is None
    assert ("sslmode" in url) == ("sslmode" in made.query)
    assert made.database == ("db" if "/db" in url else "")
    assert made.username == ("u" if "u" in url.partition("@")[0].rpartition("/")[2] and "@" in url else None)


@pytest.mark.parametrize(
    "url", ["postgresql://u:p,w@h/db", "postgresql:///db?host=a,b&port=1,2", "sqlite:////a,b.db", "postgresql://h/d,b"]
)
def test_any_other_address_stays_as_it_is(url: str) -> None:
    assert with_hosts_in_query(url) == url
    assert make_url(url)


def test_an_address_whose_port_is_no_number_is_refused_with_what_to_write() -> None:
    with pytest.raises(ValueError, match="write sqlite:///PATH or postgresql://"):
        normal_url("postgresql://host:port/db")


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", {}),
        ("-c search_path=mccs", {"search_path": "mccs"}),
        ("-csearch_path=mccs --work-mem=7MB", {"search_path": "mccs", "work_mem": "7MB"}),
        (r"-c search_path=a,\ b  -c x.y=1", {"search_path": "a, b", "x.y": "1"}),
        (r"-c a=\\", {"a": "\\"}),
    ],
)
def test_options_are_read_as_the_server_reads_them(options: str, settings: dict[str, str]) -> None:
    assert settings_in(options) == settings


@pytest.mark.parametrize("options", ["-e", "-c", "-c search_path", "search_path=x", "--", "-c =x"])
def test_options_that_are_no_settings_are_named(options: str) -> None:
    with pytest.raises(UnreadableOptions, match="only settings"):
        settings_in(options)
