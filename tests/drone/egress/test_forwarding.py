"""What the proxy forwards, to which servers, and how it refuses."""

import asyncio
import gzip
import ssl
from collections.abc import Sequence

import pytest

from drone.egress.http1 import MessageHead, chunk
from drone.egress.plan import ConfiguredSecret, EgressPlan
from tests.drone.egress.servers import PUBLIC, authority_of, host, proxy, secured

ALLOWED = EgressPlan(allow=("a.test:80", "*.b.test:443", "a.test:443"))
TOKEN = "ghp_0123456789abcdef"


def get(url: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {url} HTTP/1.1", "Host: evil.test", *headers, "Connection: close", "", "")).encode()


async def test_a_request_goes_to_the_address_that_was_checked_and_names_its_host() -> None:
    async with host() as there, proxy(ALLOWED, there) as served:
        said = await served.say(get("http://a.test/x?y", "Proxy-Authorization: Basic eDp5", "X-One: two"))
    assert said.startswith(b"HTTP/1.1 200") and b"X-One: two" in said
    ((head, _),) = there.asked
    assert head.start_line[1] == b"/x?y" and head.all_of(b"host") == [b"a.test"]
    assert not head.all_of(b"proxy-authorization")
    assert [str(one) for one in served.dialled] == [f"{PUBLIC}:80"]


REFUSED = [
    (get("http://evil.test/"), "evil.test:80", 403),
    (get("http://a.test:8080/"), "a.test:8080", 403),
    (get("http://b.test/"), "b.test:80", 403),
    (b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", "evil.test:443", 403),
    (b"CONNECT b.test:443 HTTP/1.1\r\n\r\n", "b.test:443", 403),
    (b"CONNECT 127.0.0.1:6379 HTTP/1.1\r\n\r\n", "127.0.0.1:6379", 403),
    (b"CONNECT 2130706433:443 HTTP/1.1\r\n\r\n", "2130706433:443", 400),
    (get("file:///etc/passwd"), "file:///etc/passwd", 400),
    (get("http://user:pw@a.test/"), "http://user:pw@a.test/", 400),
]


@pytest.mark.parametrize(("request_", "name", "status"), REFUSED, ids=[one[1] for one in REFUSED])
async def test_a_host_that_is_not_allowed_is_reported_and_not_contacted(
    request_: bytes, name: str, status: int
) -> None:
    async with host() as there, proxy(ALLOWED, there) as served:
        said = await served.say(request_)
        assert served.access.denied == [name]
    assert said.startswith(b"HTTP/1.1 %d" % status)
    assert not there.connections and not served.dialled


async def test_a_name_that_is_not_allowed_is_not_even_looked_up() -> None:
    asked = []

    async def resolve(name: str) -> Sequence[str]:
        asked.append(name)
        return [PUBLIC]

    async with host() as there, proxy(ALLOWED, there, resolve=resolve) as served:
        await served.say(get("http://secret-in-a-name.evil.test/"))
        await served.say(b"CONNECT secret.evil.test:443 HTTP/1.1\r\n\r\n")
    assert asked == []


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1"])
async def test_an_allowed_name_with_a_private_address_is_refused(address: str) -> None:
    async def resolve(name: str) -> Sequence[str]:
        return [PUBLIC, address]

    async with host() as there, proxy(ALLOWED, there, resolve=resolve) as served:
        assert (await served.say(get("http://a.test/"))).startswith(b"HTTP/1.1 403")
        assert (await served.say(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")
    assert not there.connections


async def test_a_name_that_changes_to_a_private_address_is_refused_on_the_next_connection() -> None:
    answers = [[PUBLIC], ["127.0.0.1"]]

    async def resolve(name: str) -> Sequence[str]:
        return answers.pop(0)

    async with host() as there, proxy(ALLOWED, there, resolve=resolve) as served:
        assert (await served.say(get("http://a.test/1"))).startswith(b"HTTP/1.1 200")
        assert (await served.say(get("http://a.test/2"))).startswith(b"HTTP/1.1 403")
    assert there.connections == 1


async def test_an_order_only_drops_names() -> None:
    async with host() as there, proxy(ALLOWED, there, only=[["a.test", "evil.test"], ["*.b.test"]]) as served:
        for url in ("http://a.test/", "http://evil.test/"):
            assert (await served.say(get(url))).startswith(b"HTTP/1.1 403")
    async with host() as there, proxy(ALLOWED, there, only=[["a.test"]]) as served:
        assert (await served.say(get("http://a.test/"))).startswith(b"HTTP/1.1 200")


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with host() as there, proxy(ALLOWED, there) as served:
        body = b"POST http://a.test/1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"abc") + b"0\r\n\r\n"
        said = await served.say(body + get("http://a.test/2"))
    assert said.count(b"HTTP/1.1 200") == 2
    assert [(head.start_line[1], body) for head, body in there.asked] == [(b"/1", b"abc"), (b"/2", b"")]
    assert there.connections == 1


async def test_an_ambiguous_request_is_not_forwarded() -> None:
    smuggled = (
        b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil"
    )
    async with host() as there, proxy(ALLOWED, there) as served:
        assert (await served.say(smuggled)).startswith(b"HTTP/1.1 400")
    assert not there.asked


BROKEN = [
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n",
]


@pytest.mark.parametrize("answer", BROKEN, ids=range(len(BROKEN)))
async def test_an_ambiguous_answer_is_not_forwarded(answer: bytes) -> None:
    async with host(lambda head, body: answer) as there, proxy(ALLOWED, there) as served:
        assert (await served.say(get("http://a.test/"))).startswith(b"HTTP/1.1 502")


async def test_other_hosts_are_tunnelled_untouched() -> None:
    vouched, secure = authority_of("x.b.test")
    async with host(secure=secure) as there, proxy(ALLOWED, there) as served:
        reader, writer = await secured(served, "x.b.test", vouched)
        writer.write(b"GET /in HTTP/1.1\r\nHost: x.b.test\r\nAccept-Encoding: br\r\nX: mcc_stand_in\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
    assert there.asked[0][0].all_of(b"accept-encoding") == [b"br"]


SWAPPING = EgressPlan(
    allow=("a.test:443", "x.b.test:443"), secrets=(ConfiguredSecret("GITHUB_TOKEN", TOKEN, ("a.test:443",)),)
)


def authorized(name: str, token: str, *more: str) -> bytes:
    lines = ("GET / HTTP/1.1", f"Host: {name}", f"Authorization: Bearer {token}", *more, "", "")
    return "\r\n".join(lines).encode()


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the joined body of a chunked answer."""
    head, body = await reader.readuntil(b"\r\n\r\n"), b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return head, body


async def test_the_declared_host_gets_the_secret_and_the_program_only_its_stand_in() -> None:
    vouched, secure = authority_of("a.test")
    async with host(secure=secure) as there, proxy(SWAPPING, there, trust=vouched) as served:
        given = served.access.order.grant
        stand_in = given.stand_ins["GITHUB_TOKEN"]
        reader, writer = await secured(served, "a.test", given.certificate)
        for _ in range(2):
            writer.write(authorized("a.test", stand_in, "Accept-Encoding: gzip, br", "Range: bytes=0-9"))
            head, body = await answered(reader)
            assert b"200 OK" in head
            assert TOKEN.encode() not in head + body and stand_in.encode() in body
        writer.close()
    (sent, _), _ = there.asked
    assert sent.all_of(b"authorization") == [b"Bearer " + TOKEN.encode()]
    assert sent.all_of(b"accept-encoding") == [b"identity"] and not sent.all_of(b"range")
    assert there.connections == 1


async def test_a_host_that_is_not_declared_gets_the_stand_in() -> None:
    vouched, secure = authority_of("x.b.test")
    async with host(secure=secure) as there, proxy(SWAPPING, there) as served:
        stand_in = served.access.order.grant.stand_ins["GITHUB_TOKEN"]
        reader, writer = await secured(served, "x.b.test", vouched)
        writer.write(authorized("x.b.test", stand_in))
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert there.asked[0][0].all_of(b"authorization") == [b"Bearer " + stand_in.encode()]


@pytest.mark.parametrize("named", ["evil.test", "x.b.test", "a.test:8443", "a.test\r\nHost: evil.test"])
async def test_the_secret_does_not_go_to_another_host_at_the_same_address(named: str) -> None:
    vouched, secure = authority_of("a.test")
    async with host(secure=secure) as there, proxy(SWAPPING, there, trust=vouched) as served:
        given = served.access.order.grant
        reader, writer = await secured(served, "a.test", given.certificate)
        writer.write(authorized(named, given.stand_ins["GITHUB_TOKEN"]))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 421")
        writer.close()
    assert not there.asked


async def test_the_secret_does_not_go_to_a_server_with_an_untrusted_certificate() -> None:
    _, secure = authority_of("a.test")
    async with host(secure=secure) as there, proxy(SWAPPING, there) as served:
        given = served.access.order.grant
        reader, writer = await secured(served, "a.test", given.certificate)
        writer.write(authorized("a.test", given.stand_ins["GITHUB_TOKEN"]))
        said = await reader.read()
        writer.close()
    assert said.startswith(b"HTTP/1.1 502") and b"not trusted" in said
    assert not there.asked


async def test_the_authority_of_an_order_vouches_for_its_hosts_alone() -> None:
    _, secure = authority_of("x.b.test")
    async with host(secure=secure) as there, proxy(SWAPPING, there) as served:
        certificate = served.access.order.grant.certificate
        with pytest.raises(ssl.SSLCertVerificationError):
            await secured(served, "x.b.test", certificate)
        with pytest.raises(ssl.SSLCertVerificationError):
            authority = served.access.order.authority
            assert authority is not None
            foreign = authority.context("evil.test")
            async with host(secure=foreign) as evil:
                context = ssl.create_default_context(cadata=certificate)
                await asyncio.open_connection("127.0.0.1", evil.port, ssl=context, server_hostname="evil.test")
    assert not there.asked


def packed(head: MessageHead, body: bytes) -> bytes:
    said = gzip.compress(b"token " + TOKEN.encode())
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said)


def in_brotli(head: MessageHead, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc"


async def test_an_unasked_compressed_answer_is_inflated_and_cleaned() -> None:
    vouched, secure = authority_of("a.test")
    async with host(packed, secure) as there, proxy(SWAPPING, there, trust=vouched) as served:
        given = served.access.order.grant
        reader, writer = await secured(served, "a.test", given.certificate)
        writer.write(authorized("a.test", "x"))
        head, body = await answered(reader)
        writer.close()
    assert b"ncoding: gzip" not in head
    assert body == b"token " + given.stand_ins["GITHUB_TOKEN"].encode()


async def test_an_answer_with_an_unknown_encoding_is_not_forwarded() -> None:
    vouched, secure = authority_of("a.test")
    async with host(in_brotli, secure) as there, proxy(SWAPPING, there, trust=vouched) as served:
        reader, writer = await secured(served, "a.test", served.access.order.grant.certificate)
        writer.write(authorized("a.test", "x"))
        assert (await reader.read()).startswith(b"HTTP/1.1 502")
        writer.close()
    assert there.asked


@pytest.mark.parametrize("value", ["", "short", "two\r\nlines-of-secret"])
async def test_an_unusable_secret_gets_no_stand_in(value: str) -> None:
    plan = EgressPlan(allow=("a.test:443",), secrets=(ConfiguredSecret("GITHUB_TOKEN", value, ("a.test:443",)),))
    async with host() as there, proxy(plan, there) as served:
        given = served.access.order.grant
    assert not given.stand_ins and not given.certificate
    assert "GITHUB_TOKEN" in given.problem
