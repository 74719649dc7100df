"""A right that has ended: what was known of it is forgotten, and its event streams end, in every process."""

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from mcc.api.access.credentials import KEPT_SECONDS, KnownRights, digest_of
from mcc.api.access.open_credentials import OpenCredentials
from mcc.contracts.callers import ALL_SCOPES, OPERATOR, AccessScope, Actor, Role
from mcc.contracts.people import NewApiToken, NewPerson
from mcc.contracts.token_text import new_token
from mcc.store.database.errors import StoreUnavailable
from mcc.store.people.rights import Right
from mcc.testing import temporary_store
from mcc.testing.served import Served
from tests.mcc.api.signing import V1


def right(id: str) -> Right:
    return Right(id, OPERATOR, OPERATOR, Role.ADMIN, ALL_SCOPES)


class Database:
    """Rights by digest, and how often each was asked for."""

    def __init__(self) -> None:
        self.rights: dict[str, Right] = {"a": right("1"), "b": right("2")}
        self.asked: list[str] = []
        self.at = 0.0

    async def find(self, digest: str) -> Right | None:
        self.asked.append(digest)
        return self.rights.get(digest)


async def test_what_was_looked_up_is_believed_for_two_seconds_unknown_ones_too() -> None:
    database = Database()
    known = KnownRights(database.find, monotonic=lambda: database.at)
    for _ in range(3):
        assert await known.find("a") == (database.rights["a"], not database.asked[1:])
        assert (await known.find("x"))[0] is None
    assert database.asked == ["a", "x"]
    del database.rights["a"]
    database.at = KEPT_SECONDS
    assert (await known.find("a"))[0] is None


async def test_what_is_forgotten_is_looked_up_at_once() -> None:
    database = Database()
    known = KnownRights(database.find, monotonic=lambda: database.at)
    await known.find("a")
    await known.find("b")
    del database.rights["a"]
    known.forget(["1"])
    assert (await known.find("a"))[0] is None
    await known.find("b")
    assert database.asked == ["a", "b", "a"]


async def test_an_end_during_a_look_up_is_not_covered_by_its_answer() -> None:
    database = Database()

    async def ended_meanwhile(digest: str) -> Right | None:
        read = await database.find(digest)
        known.forget(["1"])
        return read

    known = KnownRights(ended_meanwhile, monotonic=lambda: database.at)
    await known.find("a")
    del database.rights["a"]
    assert (await known.find("a"))[0] is None


async def test_ten_thousand_are_kept_and_no_more() -> None:
    database = Database()
    known = KnownRights(database.find, monotonic=lambda: database.at)
    for number in range(10_001):
        await known.find(str(number))
    database.asked.clear()
    await known.find("10000")
    await known.find("0")
    assert database.asked == ["0"]


async def test_one_question_for_all_streams_ends_those_whose_sign_in_has_ended() -> None:
    asked: list[Collection[str]] = []
    forgotten: list[Collection[str]] = []

    async def which_ended(credential_ids: Collection[str]) -> Mapping[str, str]:
        asked.append(credential_ids)
        return {"2": "this token was revoked"}

    opened = OpenCredentials(which_ended, forgotten.append)
    with opened.watched("1") as one, opened.watched("2") as two, opened.watched("2") as again:
        await opened.look()
        assert (one.done(), two.done(), again.done()) == (False, True, True)
        assert two.result() == "this token was revoked"
    assert asked == [{"1", "2"}] and forgotten == [["2"]]
    await opened.look()
    assert len(asked) == 1, "nobody watches any more"


async def test_a_database_that_is_away_ends_no_stream() -> None:
    async def away(_: Collection[str]) -> Mapping[str, str]:
        raise StoreUnavailable("away")

    opened = OpenCredentials(away, lambda _: None)
    with opened.watched("1") as one:
        await opened.look()
        assert not one.done()


def signed_in(served: Served) -> httpx.Client:
    """A browser at this service."""
    operator = {"Authorization": f"Bearer {served.token}"}
    code = httpx.post(f"{served.url}{V1}/signin/links", json={}, headers=operator).json()["url"].partition("#")[2]
    browser = httpx.Client(base_url=served.url, headers={"Sec-Fetch-Site": "same-origin"}, timeout=20)
    signed = browser.post(f"{V1}/signin", json={"code": code})
    browser.headers["MCC-CSRF"] = signed.json()["csrf"]
    return browser


@pytest.mark.parametrize("where", ["here", "in another process"])
def test_a_stream_ends_with_its_sign_in_and_says_so(tmp_path: Path, where: str) -> None:
    store = temporary_store()
    with Served(store, tmp_path) as served, Served(store, tmp_path) as other, closing(signed_in(served)) as browser:
        with browser.stream("GET", f"{V1}/events") as stream:
            lines = stream.iter_lines()
            assert "event: snapshot" in iter(lines)
            at = served if where == "here" else other
            cookie = {"Cookie": f"mcc-{at.port}={next(iter(browser.cookies.values()))}"}
            left = httpx.post(f"{at.url}{V1}/signout", headers={**browser.headers, **cookie})
            assert left.status_code == 200
            rest = list(lines)
        assert "event: signed_out" in rest and rest[-2].startswith('data: {"why":')
        assert browser.get(f"{V1}/events").status_code == 401
    store.close()


@pytest.mark.parametrize("end", ["revoked", "disabled"])
@pytest.mark.parametrize("where", ["here", "in another process"])
def test_a_stream_by_a_token_ends_with_it_and_says_why(tmp_path: Path, where: str, end: str) -> None:
    store = temporary_store()
    person = store.people.add(NewPerson(name="Ann", role=Role.VIEWER), by=Actor(OPERATOR))
    secret = new_token("personal")
    new = NewApiToken(name="x", scopes=(AccessScope.READ,))
    token = store.tokens.make(secret, digest_of(secret), new, by=Actor(person.principal))
    with Served(store, tmp_path) as served, Served(store, tmp_path) as other:
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.stream("GET", f"{served.url}{V1}/events", headers=headers, timeout=20) as stream:
            lines = stream.iter_lines()
            assert "event: snapshot" in iter(lines)
            at, operator = served if where == "here" else other, {"Authorization": f"Bearer {served.token}"}
            if end == "revoked":
                done = httpx.delete(f"{at.url}{V1}/tokens/{token.id}", headers=operator)
            else:
                path = f"{at.url}{V1}/people/{person.id}"
                done = httpx.patch(path, json={"disabled": True}, headers=operator)
            assert done.is_success
            rest = list(lines)
        assert "event: signed_out" in rest and end in rest[-2]
        refused = httpx.get(f"{served.url}{V1}/events", headers=headers)
        assert refused.status_code == 401 and end in refused.json()["detail"]
    store.close()


def test_a_stream_by_the_operator_s_token_does_not_end_with_anybodys_sign_in(tmp_path: Path) -> None:
    store = temporary_store()
    with Served(store, tmp_path) as served, closing(signed_in(served)) as browser:
        operator = {"Authorization": f"Bearer {served.token}"}
        with httpx.stream("GET", f"{served.url}{V1}/events", headers=operator) as stream:
            lines = stream.iter_lines()
            assert "event: snapshot" in iter(lines)
            assert browser.post(f"{V1}/signout").status_code == 200
            placed = httpx.post(f"{served.url}{V1}/orders", json={"prompt": "x"}, headers=operator)
            assert placed.status_code == 201
            assert "event: order.status" in iter(lines)
    store.close()


def test_the_combined_stream_ends_with_its_sign_in_too(tmp_path: Path) -> None:
    store = temporary_store()
    with (
        Served(store, tmp_path) as served,
        closing(signed_in(served)) as browser,
        browser.stream("GET", f"{V1}/stream") as stream,
    ):
        lines = stream.iter_lines()
        assert "event: hello" in iter(lines)
        assert browser.post(f"{V1}/signout").status_code == 200
        assert "event: signed_out" in list(lines)
    store.close()
