"""People whom a provider of identities vouches for, on every store: who they are, what they may, how they are signed
out."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import OPERATOR, PERSON, AccessScope, Actor, Role
from mcc.contracts.people import NewApiToken, NewPerson, PersonChange
from mcc.contracts.token_text import new_token
from mcc.store.database.errors import DisabledPerson, PersonOfProvider, SpentLogout
from mcc.store.people.identities import NewSignin, ProvidedPerson
from mcc.store.people.signins import Browser
from tests.conformance.store.scene import Scene

ISSUER = "https://id.example"
BY = Actor(OPERATOR, "api")


def digest(name: str) -> str:
    return name.encode().hex().ljust(64, "0")[:64]


def browser(cookie: str = "c", hours: float = 1) -> Browser:
    return Browser(digest(cookie), hours, "Browser/1", "10.1.2.3")


def provided(
    subject: str = "ann", role: Role = Role.MEMBER, *, name: str = "Ann", sid: str | None = None
) -> ProvidedPerson:
    return ProvidedPerson(ISSUER, subject, name, f"{subject}@example.com", role, sid)


def signed_in(scene: Scene, cookie: str = "c", **person: object) -> NewSignin:
    return scene.store.identities.sign_in(provided(**person), browser(cookie))  # type: ignore[arg-type]


def kinds(scene: Scene) -> list[str]:
    return [note.kind for note in reversed(scene.store.audit.list())]


def test_a_question_counts_once_and_for_its_time(scene: Scene) -> None:
    identities = scene.store.identities
    for name in ("one", "late"):
        identities.ask(digest(name), {"next": "/orders"}, seconds=600)
    assert identities.answered(digest("never")) is None
    assert identities.answered(digest("one")) == {"next": "/orders"}
    assert identities.answered(digest("one")) is None
    scene.clock.advance(600)
    assert identities.answered(digest("late")) is None


def test_an_answer_that_comes_many_times_at_once_counts_once(scene: Scene) -> None:
    scene.store.identities.ask(digest("one"), {}, seconds=600)
    at_once = Barrier(6)

    def answered(_: int) -> bool:
        at_once.wait()
        return scene.store.identities.answered(digest("one")) is not None

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(answered, range(6))) == 1


def test_a_question_that_nobody_asked_is_answered_without_writing(scene: Scene) -> None:
    said: list[str] = []
    sa.event.listen(scene.store.database.engine, "before_cursor_execute", lambda *sent: said.append(sent[2]))
    assert scene.store.identities.answered(digest("never")) is None
    assert said and not [statement for statement in said if "DELETE" in statement or "IMMEDIATE" in statement]


def test_who_comes_first_is_added_and_who_comes_again_is_the_same_by_issuer_and_subject(scene: Scene) -> None:
    first, _ = signed_in(scene, "a", sid="s")
    again, _ = signed_in(scene, "b", name="Ann Lee \ud83d\0")
    other, _ = scene.store.identities.sign_in(
        ProvidedPerson("https://other.example", "ann", "Ann", "ann@example.com", Role.MEMBER, None), browser("c")
    )
    bob, _ = signed_in(scene, "d", subject="bob", name="Ann Lee")
    assert first.principal == again.principal and len({first.principal, other.principal, bob.principal}) == 3
    person = scene.store.people.get(first.principal.removeprefix(PERSON))
    assert (person.name, person.by, person.role) == ("Ann Lee \ud83d\0", "oidc", Role.MEMBER)
    right = scene.store.rights.find(digest("a"))
    assert right is not None and (right.principal, right.role, right.by) == (first.principal, Role.MEMBER, "oidc")
    assert kinds(scene)[:3] == ["person.added", "signin.ok", "signin.ok"]
    # An e-mail address can be given to somebody else, so it says nothing of who somebody is.
    assert [note.detail.get("email") for note in scene.store.audit.list()] == [None] * 7


def test_somebody_who_signs_in_by_two_browsers_at_once_is_added_once(scene: Scene) -> None:
    at_once = Barrier(4)

    def enter(number: int) -> str:
        at_once.wait()
        return signed_in(scene, str(number)).signin.principal

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(enter, range(4)))) == 1
    assert len(scene.store.people.list().items) == 1 and kinds(scene).count("person.added") == 1


def test_the_role_that_groups_say_now_counts_for_all_that_the_person_has(scene: Scene) -> None:
    before, changed = signed_in(scene, "a", role=Role.ADMIN)
    assert not changed
    _, changed = signed_in(scene, "b", role=Role.VIEWER)
    assert list(changed) == [before.id]
    right = scene.store.rights.find(digest("a"))
    assert right is not None and right.role is Role.VIEWER
    note = next(note for note in scene.store.audit.list() if note.kind == "person.role")
    assert (note.principal, note.detail["role"], note.detail["was"]) == (before.principal, "viewer", "admin")


def test_a_disabled_person_is_not_signed_in_and_stays_as_they_were(scene: Scene) -> None:
    signin, _ = signed_in(scene, "a")
    person_id = signin.principal.removeprefix(PERSON)
    scene.store.people.change(person_id, PersonChange(disabled=True), by=BY)
    with pytest.raises(DisabledPerson):
        signed_in(scene, "b", role=Role.ADMIN, name="Root")
    person = scene.store.people.get(person_id)
    assert (person.role, person.name, person.disabled) == (Role.MEMBER, "Ann", True)
    assert scene.store.rights.find(digest("b")) is None


def test_what_the_provider_decides_is_changed_by_nobody_here(scene: Scene) -> None:
    signin, _ = signed_in(scene)
    person_id = signin.principal.removeprefix(PERSON)
    with pytest.raises(PersonOfProvider, match=r"https://id\.example"):
        scene.store.people.change(person_id, PersonChange(role=Role.ADMIN), by=BY)
    with pytest.raises(PersonOfProvider):
        scene.store.signins.offer(digest("link"), signin.principal, seconds=60, by=BY)
    assert scene.store.people.change(person_id, PersonChange(role=Role.MEMBER, name="A"), by=BY).person.name == "A"


def test_a_removed_person_is_nobody_to_the_provider_and_comes_back_as_somebody_new(scene: Scene) -> None:
    signin, _ = signed_in(scene, "a")
    scene.store.people.remove(signin.principal.removeprefix(PERSON), by=BY)
    assert scene.store.rights.find(digest("a")) is None
    with scene.store.database.engine.connect() as connection:
        kept = connection.execute(sa.text("SELECT issuer, subject FROM people")).all()
    assert [tuple(row) for row in kept] == [(None, None)]
    assert signed_in(scene, "b").signin.principal != signin.principal


def test_who_may_do_nothing_any_more_loses_sign_ins_and_tokens(scene: Scene) -> None:
    identities, secret = scene.store.identities, new_token("personal")
    signin, _ = signed_in(scene, "a")
    bob, _ = signed_in(scene, "b", subject="bob")
    new = NewApiToken(name="laptop", scopes=("read",))  # type: ignore[arg-type]
    token = scene.store.tokens.make(secret, digest("token"), new, by=Actor(signin.principal, "page"))
    assert identities.lose_right(ISSUER, "carl") == () and identities.lose_right("https://other.example", "ann") == ()
    assert set(identities.lose_right(ISSUER, "ann")) == {signin.id, token.id}
    assert set(scene.store.rights.ended([signin.id, token.id, bob.id])) == {signin.id, token.id}
    noted = len(kinds(scene))
    assert identities.lose_right(ISSUER, "ann") == () and len(kinds(scene)) == noted


@pytest.mark.parametrize("signed_out", [False, True])
def test_in_the_name_of_who_lost_the_right_nothing_is_placed_any_more(scene: Scene, signed_out: bool) -> None:
    signin, _ = signed_in(scene, "a")
    rights = scene.store.rights
    if signed_out:
        scene.store.signins.end(signin.id, by=Actor(signin.principal, "page"))
    assert AccessScope.WRITE in rights.standing(signin.principal).scopes
    scene.store.identities.lose_right(ISSUER, "ann")
    assert rights.standing(signin.principal).scopes == {AccessScope.READ}
    signed_in(scene, "b")
    assert AccessScope.WRITE in rights.standing(signin.principal).scopes


@pytest.mark.parametrize(
    ("subject", "sid", "ended"),
    [
        ("ann", None, {"ann 1", "ann 2", "ann without"}),
        (None, "1", {"ann 1", "bob 1"}),
        # One of which no session is known may be of any.
        ("ann", "1", {"ann 1", "ann without"}),
        ("ann", "9", {"ann without"}),
        ("carl", None, set()),
        (None, "9", set()),
    ],
)
def test_the_provider_signs_out_a_person_or_a_session(
    scene: Scene, subject: str | None, sid: str | None, ended: set[str]
) -> None:
    ids = {
        "ann 1": signed_in(scene, "1", sid="1").signin.id,
        "ann 2": signed_in(scene, "2", sid="2").signin.id,
        "ann without": signed_in(scene, "3").signin.id,
        "bob 1": signed_in(scene, "4", subject="bob", sid="1").signin.id,
    }
    other = ProvidedPerson("https://other.example", "ann", "Ann", None, Role.MEMBER, "1")
    ids["other 1"] = scene.store.identities.sign_in(other, browser("5")).signin.id
    linked = scene.store.people.add(NewPerson(name="Ann", role=Role.MEMBER), by=BY)
    scene.store.signins.offer(digest("link"), linked.principal, seconds=60, by=BY)
    ids["link"] = scene.store.signins.redeem(digest("link"), digest("6"), hours=1, agent="", address="").id
    out = scene.store.identities.log_out(digest("order"), ISSUER, subject=subject, sid=sid)
    assert set(out) == {ids[name] for name in ended}
    assert set(scene.store.rights.ended(list(ids.values()))) == {ids[name] for name in ended}
    assert kinds(scene).count("signout") == len({name.split()[0] for name in ended})


def test_a_logout_token_counts_once(scene: Scene) -> None:
    log_out = scene.store.identities.log_out
    signed_in(scene, "a")
    assert len(log_out(digest("order"), ISSUER, subject="ann", sid=None)) == 1
    again, _ = signed_in(scene, "b")
    with pytest.raises(SpentLogout):
        log_out(digest("order"), ISSUER, subject="ann", sid=None)
    assert scene.store.rights.ended([again.id]) == {}
    # Five minutes later no token of then is taken any more; its row goes after ten.
    scene.clock.advance(599)
    with pytest.raises(SpentLogout):
        log_out(digest("order"), ISSUER, subject="ann", sid=None)
