"""Secrets are substituted in requests to their own hosts only, and removed from answers."""

import base64

import pytest

from drone.egress.secrets import MARK, Secret, Secrets
from mcc.addresses import Endpoint, HostList

VALUE, STAND_IN = b"ghp_0123456789abcdefghij/+", b"mcc_stand_in_00112233445566778899aabbccddeeff"
HOST, OTHER = Endpoint("api.example", 443), Endpoint("other.example", 443)
SECRETS = Secrets([Secret(VALUE, STAND_IN, HostList(["api.example:443"]))])


def test_a_secret_is_substituted_for_its_host_only() -> None:
    headers = [(b"Authorization", b"Bearer " + STAND_IN)]
    assert SECRETS.for_host(HOST).substituted(headers) == [(b"Authorization", b"Bearer " + VALUE)]
    for other in (OTHER, Endpoint("api.example", 80), Endpoint("x.api.example", 443)):
        assert not SECRETS.for_host(other)
        assert SECRETS.for_host(other).substituted(headers) == headers


def test_a_basic_password_is_substituted_too() -> None:
    login = base64.b64encode(b"user:" + STAND_IN)
    (named,) = SECRETS.substituted([(b"authorization", b"basic " + login)])
    assert base64.b64decode(named[1][6:]) == b"user:" + VALUE
    broken = [(b"Authorization", b"Basic *" + STAND_IN)]
    assert SECRETS.substituted(broken) == [(b"Authorization", b"Basic *" + VALUE)]


FORMS = [
    base64.b64encode(b"user:" + VALUE),
    VALUE.hex().encode(),
    VALUE.replace(b"/", b"%2F").replace(b"+", b"%2B"),
    VALUE[::-1],
]


@pytest.mark.parametrize("at", range(0, len(VALUE) + 20))
def test_a_secret_comes_back_as_its_stand_in_wherever_the_answer_is_cut(at: int) -> None:
    scrubber, text = SECRETS.scrubber(), b'{"you sent": "' + VALUE + b'"} ' + bytes(range(256))
    assert scrubber.feed(text[:at]) + scrubber.feed(text[at:]) + scrubber.end() == text.replace(VALUE, STAND_IN)


@pytest.mark.parametrize("form", FORMS, ids=["base64", "hex", "url", "backwards"])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_an_encoded_secret_does_not_come_back(form: bytes, size: int) -> None:
    scrubber, text = SECRETS.scrubber(), b"before " + form + b" after"
    said = b"".join(scrubber.feed(text[at : at + size]) for at in range(0, len(text), size)) + scrubber.end()
    assert said.startswith(b"before ") and said.endswith(b" after")
    assert MARK in said and form not in said and VALUE not in said


def test_headers_of_an_answer_are_clean_too() -> None:
    assert SECRETS.redacted([(b"X-Echo", b"a " + VALUE)]) == [(b"X-Echo", b"a " + STAND_IN)]


def test_a_long_secret_split_between_two_pieces_is_removed_completely() -> None:
    value = bytes(range(97, 123)) * 6
    scrubber = Secrets([Secret(value, STAND_IN, HostList(["*"]))]).scrubber()
    said = scrubber.feed(b"x" + value[:100]) + scrubber.feed(value[100:] + b"y") + scrubber.end()
    assert said[:1] == b"x" and said[-1:] == b"y" and b"abcdefgh" not in said


def test_without_secrets_nothing_is_held_back() -> None:
    scrubber = SECRETS.for_host(OTHER).scrubber()
    assert scrubber.feed(VALUE[:5]) == VALUE[:5] and scrubber.end() == b""
