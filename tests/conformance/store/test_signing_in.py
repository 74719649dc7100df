"""Links that count once, sign-ins and their ends, and what the page remembers, on every store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import OPERATOR, Actor, Role, Signin
from mcc.store.database.errors import SpentLink, UnknownSignin
from tests.conformance.store.scene import Scene

HOURS = 720.0


def digest(number: int) -> str:
    return f"{number:064x}"


def signed_in(scene: Scene, number: int, principal: str = OPERATOR, *, hours: float = HOURS) -> Signin:
    scene.store.signins.offer(digest(number), principal, seconds=600)
    return scene.store.signins.redeem(digest(number), digest(1_000 + number), hours=hours, agent="b", address="::1")


def test_a_link_signs_in_as_whom_it_was_made_for_and_the_audit_says_so(scene: Scene) -> None:
    expires_at = scene.store.signins.offer(digest(1), "ann", seconds=600)
    assert expires_at == scene.clock.now() + timedelta(seconds=600)
    agent = "Browser \ud83d\0"
    signin = scene.store.signins.redeem(digest(1), digest(2), hours=2, agent=agent, address="10.1.2.3")
    assert (signin.principal, signin.agent) == ("ann", agent)
    assert signin.expires_at == scene.clock.now() + timedelta(hours=2)
    right = scene.store.rights.find(digest(2))
    assert right is not None and (right.signin, right.role, right.ended) == (signin, Role.VIEWER, "")
    (note,) = scene.store.audit.list()
    assert (note.kind, note.principal) == ("signin.ok", "ann")
    assert note.detail == {"signin": signin.id, "by": "link", "address": "10.1.2.3"}


def test_a_link_counts_once_however_many_use_it_at_once(scene: Scene) -> None:
    scene.store.signins.offer(digest(1), OPERATOR, seconds=600)
    at_once = Barrier(6)

    def redeemed(number: int) -> bool:
        at_once.wait()
        try:
            scene.store.signins.redeem(digest(1), digest(10 + number), hours=1, agent="", address="")
        except SpentLink:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(redeemed, range(6))) == 1
    assert len(scene.store.signins.of_principal(OPERATOR)) == 1


def test_a_link_that_is_too_old_or_never_was_signs_nobody_in(scene: Scene) -> None:
    scene.store.signins.offer(digest(1), OPERATOR, seconds=600)
    scene.clock.advance(600)
    for number in (1, 2):
        with pytest.raises(SpentLink):
            scene.store.signins.redeem(digest(number), digest(3), hours=1, agent="", address="")
    assert scene.store.rights.find(digest(3)) is None


def test_a_code_that_never_was_is_refused_without_writing(scene: Scene) -> None:
    said: list[str] = []
    sa.event.listen(scene.store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    with pytest.raises(SpentLink):
        scene.store.signins.redeem(digest(1), digest(2), hours=1, agent="", address="")
    assert said and not [statement for statement in said if "DELETE" in statement or "IMMEDIATE" in statement]


def test_a_sign_in_counts_until_it_expires(scene: Scene) -> None:
    signin = signed_in(scene, 1, hours=1)
    assert scene.store.rights.ended([signin.id, "nobody"]) == {"nobody": "this sign-in has ended"}
    scene.clock.advance(3_600)
    right = scene.store.rights.find(digest(1_001))
    assert right is not None and right.ended == "this sign-in has expired"
    assert scene.store.rights.ended([signin.id]) == {signin.id: "this sign-in has expired"}
    assert scene.store.signins.of_principal(OPERATOR) == []


def test_whoever_signs_in_removes_what_has_expired(scene: Scene) -> None:
    old = signed_in(scene, 1, hours=1)
    scene.clock.advance(3_600)
    signed_in(scene, 2)
    # Its row is gone, not only passed over: an earlier time does not bring it back.
    scene.clock.advance(-3_600)
    assert old.id not in {signin.id for signin in scene.store.signins.of_principal(OPERATOR)}


def test_a_sign_in_is_ended_by_its_principal_alone(scene: Scene) -> None:
    first, second = signed_in(scene, 1), signed_in(scene, 2)
    for signin_id, principal in ((first.id, "ann"), ("nobody", OPERATOR), ("\0", OPERATOR)):
        with pytest.raises(UnknownSignin):
            scene.store.signins.end(signin_id, by=Actor(principal))
    scene.store.signins.end(first.id, by=Actor(OPERATOR))
    assert scene.store.rights.find(digest(1_001)) is None
    assert scene.store.signins.of_principal(OPERATOR) == [second]
    with pytest.raises(UnknownSignin):
        scene.store.signins.end(first.id, by=Actor(OPERATOR))
    assert [note.kind for note in scene.store.audit.list()] == ["signout", "signin.ok", "signin.ok"]


def test_when_a_browser_was_last_seen_is_written_at_most_each_minute(scene: Scene) -> None:
    signin = signed_in(scene, 1)
    right = scene.store.rights.find(digest(1_001))
    assert right is not None
    scene.clock.advance(59)
    scene.store.rights.seen(right)
    assert [each.last_seen_at for each in scene.store.signins.of_principal(OPERATOR)] == [signin.created_at]
    scene.clock.advance(2)
    scene.store.rights.seen(right)
    assert [each.last_seen_at for each in scene.store.signins.of_principal(OPERATOR)] == [scene.clock.now()]


def test_preferences_are_replaced_as_a_whole_and_kept_per_principal(scene: Scene) -> None:
    assert scene.store.signins.preferences(OPERATOR) == {}
    for preferences in ({"theme": "dark", "n": [1, None, "\ud83d"]}, {"keys": False}):
        scene.store.signins.prefer(OPERATOR, preferences)
        assert scene.store.signins.preferences(OPERATOR) == preferences
    assert scene.store.signins.preferences("ann") == {}
