"""Command lines that ask to be let in: decided once, by somebody with a right, and given one token, on every store."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.login import DeviceQuestion, DeviceState, LoginError
from mcc.contracts.people import ApiToken, Person, PersonChange
from mcc.contracts.token_text import new_token
from mcc.store.database.errors import SpentCode, TooManyLogins, TooManyTokens
from mcc.store.database.tables import ONE_TIME
from mcc.store.people.devices import MOST_LOGINS, NewSecret
from mcc.store.people.tokens import MOST_TOKENS
from tests.conformance.store.scene import Scene
from tests.conformance.store.test_people_and_tokens import added, digest, right, signed_in, token

DEVICE, CODE = digest("device"), digest("BCDFGHJK")


def asked(scene: Scene, device: str = DEVICE, code: str = CODE) -> None:
    scene.store.devices.ask(device, code, client="mcc on a laptop", address="10.1.2.3", seconds=600)


def decided(scene: Scene, person: Person, state: DeviceState = "approved") -> DeviceQuestion:
    signin_id = signed_in(scene, person)
    return scene.store.devices.decide(CODE, state, by=Actor(person.principal, "page"), signin_id=signin_id)


def redeemed(scene: Scene, device: str = DEVICE) -> tuple[ApiToken | LoginError, str]:
    """What the command line gets, and the digest of what would be its token."""
    secret = new_token("personal")
    return scene.store.devices.redeem(device, NewSecret(secret, digest(secret)), days=90), digest(secret)


def test_who_is_let_in_gets_one_token_with_the_rights_of_the_role_but_admin(scene: Scene) -> None:
    ann = added(scene, Role.ADMIN)
    asked(scene)
    assert redeemed(scene)[0] == "authorization_pending"
    question = scene.store.devices.question(CODE)
    assert (question.client, question.address, question.state) == ("mcc on a laptop", "10.1.2.3", "pending")
    assert decided(scene, ann).state == "approved"
    made, known_by = redeemed(scene)
    assert isinstance(made, ApiToken)
    assert (made.kind, made.principal, made.name) == ("personal", ann.principal, "mcc on a laptop")
    assert set(made.scopes) == set(AccessScope) - {AccessScope.ADMIN}
    assert right(scene, known_by).principal == ann.principal
    assert redeemed(scene)[0] == "expired_token"
    assert [note.kind for note in scene.store.audit.list(2)] == ["token.made", "token.approved"]


def test_of_polls_that_come_at_once_exactly_one_gets_a_token(scene: Scene) -> None:
    ann = added(scene)
    asked(scene)
    decided(scene, ann)
    at_once = Barrier(6)

    def polled(_: int) -> ApiToken | LoginError:
        at_once.wait()
        return redeemed(scene)[0]

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(polled, range(6)))
    assert sorted(str(answer) for answer in answers if isinstance(answer, str)) == ["expired_token"] * 5
    assert len(scene.store.tokens.list(ann.principal).items) == 1


def test_of_two_who_decide_at_once_one_does(scene: Scene) -> None:
    ann = added(scene)
    signin, at_once = signed_in(scene, ann), Barrier(2)
    asked(scene)

    def decide(state: DeviceState) -> bool:
        at_once.wait()
        try:
            scene.store.devices.decide(CODE, state, by=Actor(ann.principal, "page"), signin_id=signin)
        except SpentCode:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        approved, denied = threads.map(decide, ("approved", "denied"))
    assert approved != denied
    assert isinstance(redeemed(scene)[0], ApiToken) == approved


def test_who_is_refused_gets_nothing(scene: Scene) -> None:
    asked(scene)
    decided(scene, added(scene), "denied")
    assert [redeemed(scene)[0] for _ in range(2)] == ["access_denied", "expired_token"]
    assert [note.kind for note in scene.store.audit.list(1)] == ["token.denied"]


@pytest.mark.parametrize("end", ["disabled", "disabled and enabled", "removed", "signed out"])
def test_who_lets_a_command_line_in_and_loses_the_right_has_let_nobody_in(scene: Scene, end: str) -> None:
    ann = added(scene)
    asked(scene)
    decided(scene, ann)
    if end == "removed":
        scene.store.people.remove(ann.id, by=Actor(OPERATOR))
    elif end == "signed out":
        scene.store.signins.end_all(ann.principal, by=Actor(OPERATOR))
    else:
        scene.store.people.change(ann.id, PersonChange(disabled=True), by=Actor(OPERATOR))
    if end == "disabled and enabled":
        scene.store.people.change(ann.id, PersonChange(disabled=False), by=Actor(OPERATOR))
    assert redeemed(scene)[0] == "access_denied"
    assert scene.store.tokens.list(ann.principal).items == []


def test_the_role_counts_that_the_person_has_when_the_token_is_made(scene: Scene) -> None:
    ann = added(scene, Role.OPERATOR)
    asked(scene)
    decided(scene, ann)
    scene.store.people.change(ann.id, PersonChange(role=Role.VIEWER), by=Actor(OPERATOR))
    made, _ = redeemed(scene)
    assert isinstance(made, ApiToken) and made.scopes == (AccessScope.READ,)


def test_what_nobody_decides_in_time_is_over(scene: Scene) -> None:
    ann = added(scene)
    asked(scene)
    scene.clock.advance(600)
    with pytest.raises(SpentCode):
        scene.store.devices.question(CODE)
    with pytest.raises(SpentCode):
        decided(scene, ann)
    assert redeemed(scene)[0] == "expired_token"
    asked(scene, digest("another"), digest("another code"))
    left = sa.select(ONE_TIME.c.digest)
    kept = scene.store.database.read(lambda connection: connection.execute(left).scalars().all())
    assert set(kept) == {digest("another"), digest("another code")}


def test_codes_that_never_were_are_refused_without_writing(scene: Scene) -> None:
    said: list[str] = []
    sa.event.listen(scene.store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    with pytest.raises(SpentCode):
        scene.store.devices.decide(CODE, "approved", by=Actor(OPERATOR), signin_id="")
    assert redeemed(scene)[0] == "expired_token"
    assert said and not [each for each in said if "DELETE" in each or "UPDATE" in each or "IMMEDIATE" in each]


def test_a_secret_of_another_kind_is_no_code(scene: Scene) -> None:
    scene.store.signins.offer(CODE, OPERATOR, seconds=600)
    with pytest.raises(SpentCode):
        scene.store.devices.question(CODE)
    assert redeemed(scene, CODE)[0] == "expired_token"


def test_only_so_many_wait_at_a_time(scene: Scene) -> None:
    at = scene.store.database.clock.now()
    until = int(at.timestamp() * 1_000_000) + 1_000_000
    rows = [
        {"digest": digest(str(number)), "kind": "device", "data_json": "{}", "expires_at": until}
        for number in range(MOST_LOGINS)
    ]
    scene.store.database.write(lambda connection: connection.execute(sa.insert(ONE_TIME), rows))
    with pytest.raises(TooManyLogins):
        asked(scene)
    scene.clock.advance(1)
    asked(scene)


def test_who_has_too_many_tokens_may_revoke_one_and_be_let_in(scene: Scene) -> None:
    ann = added(scene)
    first, *_ = [token(scene, ann.principal)[0] for _ in range(MOST_TOKENS)]
    asked(scene)
    decided(scene, ann)
    with pytest.raises(TooManyTokens):
        redeemed(scene)
    scene.store.tokens.revoke(first.id, by=Actor(ann.principal))
    assert isinstance(redeemed(scene)[0], ApiToken)


def test_what_a_command_line_calls_itself_is_kept_as_it_is(scene: Scene) -> None:
    ann, name = added(scene), '"}</b> \u202e\U0001f600\0"principal":"operator"'
    scene.store.devices.ask(DEVICE, CODE, client=name, address="::1", seconds=600)
    assert scene.store.devices.question(CODE).client == decided(scene, ann).client == name
    made, _ = redeemed(scene)
    assert isinstance(made, ApiToken) and (made.name, made.principal) == (name, ann.principal)
