"""Canonical spelling of hosts, ports and URLs, and allow lists of hosts."""

import pytest

from mcc.addresses import AddressRefused, Endpoint, HostList, endpoint_of, host_of, services_in, url_of


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.de", "xn--bcher-kva.de"),
        ("ⓛocalhost", "localhost"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
        ("93.184.216.34", "93.184.216.34"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_a_host_has_one_spelling(written: str, meant: str) -> None:
    assert host_of(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        *("", ".", "a..b", "-a.b", "a b", "a%2eb", "a/b", "1.2.3", "0x7f.1", "010.0.0.1", "[::1", "::1]"),
        *("fe80::1%eth0", "a" * 64 + ".de", ".".join(["a" * 60] * 5), "\ud800", "x\x00y", "[1.2.3.4]x"),
    ],
)
def test_what_is_no_host_is_refused(written: str) -> None:
    with pytest.raises(AddressRefused):
        host_of(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("a.de:8080", Endpoint("a.de", 8080)), ("[::1]:1", Endpoint("::1", 1)), ("::1", Endpoint("::1", 443))],
)
def test_an_endpoint_is_a_host_and_a_port(written: str, meant: Endpoint) -> None:
    assert endpoint_of(written, 443) == meant


@pytest.mark.parametrize("written", ["a.de", "a.de:", "a.de:0", "a.de:65536", "a.de:http", "a.de:٤٤", "a.de:-1"])
def test_an_endpoint_needs_a_port_that_there_is(written: str) -> None:
    with pytest.raises(AddressRefused):
        endpoint_of(written)


def test_a_url_is_written_as_it_is_sent() -> None:
    url = url_of("HTTPS://Bücher.de.:443/ä b%20c".replace(" ", "%20") + "?q=ü&x=%3D#part")
    assert str(url) == "https://xn--bcher-kva.de/%C3%A4%20b%20c?q=%C3%BC&x=%3D"
    assert url.authority == "xn--bcher-kva.de"
    assert url_of("http://a.de:443/").authority == "a.de:443"


@pytest.mark.parametrize(
    ("entry", "covered", "not_covered"),
    [
        ("a.de", ["a.de:443", "a.de:80"], ["a.de:8080", "b.a.de:443", "xa.de:443"]),
        ("a.de:8080", ["a.de:8080"], ["a.de:443"]),
        ("*.a.de:443", ["b.a.de:443", "c.b.a.de:443"], ["a.de:443", "xa.de:443", "b.a.de:80", "a.de.evil.com:443"]),
        ("*", ["a.de:443", "93.184.216.34:80"], ["a.de:22"]),
        ("*:8443", ["a.de:8443"], ["a.de:443"]),
        ("A.DE.", ["a.de:443"], []),
        ("[2001:db8::1]:443", ["[2001:db8:0::1]:443"], ["[2001:db8::2]:443"]),
    ],
)
def test_a_list_covers_what_it_names(entry: str, covered: list[str], not_covered: list[str]) -> None:
    hosts = HostList([entry])
    assert all(hosts.covers(endpoint_of(one)) for one in covered)
    assert not any(hosts.covers(endpoint_of(one)) for one in not_covered)


@pytest.mark.parametrize("entry", ["*.10.0.0.1", "**", "a.*.de", "https://a.de", "*.", "a.de:*", "*:x"])
def test_a_list_refuses_what_it_would_not_understand(entry: str) -> None:
    with pytest.raises(AddressRefused):
        HostList([entry])


def test_an_empty_list_covers_nothing() -> None:
    assert not HostList() and not HostList().covers(Endpoint("a.de", 443))


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("postgresql://u:p@h1:5433,h2/db", ["h1:5433", "h2:5432"]),
        ("postgresql://u@/db?host=h1:5433&host=h2", ["h1:5433", "h2:5432"]),
        ("postgresql:///db?host=h1,h2&port=1,2", ["h1:1", "h2:2"]),
        ("postgresql:///db?host=h1,::1&port=5433", ["h1:5433", "[::1]:5433"]),
        ("postgresql:///db?hostaddr=10.0.0.1", ["10.0.0.1:5432"]),
        ("postgresql:///db?host=/var/run/postgresql", []),
        ("postgresql:///db", ["localhost:5432"]),
        ("sqlite:////tmp/mcc.db", []),
    ],
)
def test_every_host_of_a_database_is_a_service_of_this_installation(address: str, found: list[str]) -> None:
    assert [str(one) for one in services_in([address, None])] == found
