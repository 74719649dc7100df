"""People, their tokens, and what ends with them, on every store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from threading import Barrier

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import OPERATOR, PERSON, SCOPES_OF, SERVICE, AccessScope, Actor, Role
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder, WhenBusy
from mcc.contracts.people import ApiToken, NewApiToken, NewPerson, Person, PersonChange
from mcc.contracts.shape import now
from mcc.contracts.token_text import new_token
from mcc.store.database.errors import BadCursor, SpentLink, StoreError, TooManyTokens, UnknownPerson, UnknownToken
from mcc.store.database.tables import API_TOKENS, AUDIT
from mcc.store.people.owners import NOBODY, Thing
from mcc.store.people.rights import Right
from mcc.store.people.tokens import MOST_A_DAY, MOST_TOKENS
from mcc.store.rows.audit import AuditFilter
from tests.conformance.store.scene import Scene

READ, WRITE = AccessScope.READ, AccessScope.WRITE


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def added(scene: Scene, role: Role = Role.MEMBER, name: str = "Ann") -> Person:
    return scene.store.people.add(NewPerson(name=name, role=role, email="ann@example.com"), by=Actor(OPERATOR))


def token(scene: Scene, by: str, *scopes: AccessScope, days: int | None = 90) -> tuple[ApiToken, str]:
    """The token as listed, and the digest by which it is found."""
    secret = new_token("personal")
    new = NewApiToken(name="laptop", scopes=scopes or (READ, WRITE), expires_in_days=days)
    return scene.store.tokens.make(secret, digest(secret), new, by=Actor(by)), digest(secret)


def service(scene: Scene, role: Role, *scopes: AccessScope) -> tuple[ApiToken, str]:
    secret = new_token("service")
    new = NewApiToken(name="deploy", kind="service", role=role, scopes=scopes, expires_in_days=None)
    return scene.store.tokens.make(secret, digest(secret), new, by=Actor(OPERATOR)), digest(secret)


def signed_in(scene: Scene, person: Person, cookie: str = "cookie") -> str:
    """The id of the new sign-in."""
    scene.store.signins.offer(digest(f"link of {cookie}"), person.principal, seconds=600)
    made = scene.store.signins.redeem(digest(f"link of {cookie}"), digest(cookie), hours=1, agent="", address="")
    return made.id


def right(scene: Scene, known_by: str) -> Right:
    held = scene.store.rights.find(known_by)
    assert held is not None
    return held


def kinds(scene: Scene) -> list[str]:
    return [note.kind for note in scene.store.audit.list()]


def test_a_person_is_read_back_as_they_were_added(scene: Scene) -> None:
    name = "<b>Ann</b> \u202e\U0001f600\0"
    person = added(scene, name=name)
    assert (person.name, person.email, person.role, person.disabled) == (name, "ann@example.com", Role.MEMBER, False)
    assert scene.store.people.get(person.id) == person and scene.store.people.list().items == [person]
    (note,) = scene.store.audit.list()
    assert (note.kind, note.principal) == ("person.added", OPERATOR)
    assert note.detail == {"person": person.principal, "role": "member"}


@pytest.mark.parametrize("unknown", ["nobody", "0197f000-0000-7000-8000-000000000000", "\0"])
def test_who_is_not_there_is_not_changed(scene: Scene, unknown: str) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: scene.store.people.change(unknown, PersonChange(role=Role.ADMIN), by=Actor(OPERATOR)),
        lambda: scene.store.people.remove(unknown, by=Actor(OPERATOR)),
        lambda: scene.store.signins.offer(digest("x"), f"person:{unknown}", seconds=600),
    )
    for call in calls:
        with pytest.raises(UnknownPerson):
            call()
    assert scene.store.audit.list() == []


def test_a_right_is_the_role_less_what_the_token_lacks_and_follows_the_role(scene: Scene) -> None:
    person = added(scene, Role.OPERATOR)
    _, known_by = token(scene, person.principal, READ, WRITE)
    held = right(scene, known_by)
    assert (held.principal, held.name, held.role) == (person.principal, "Ann", Role.OPERATOR)
    assert held.scopes == frozenset({READ, WRITE}) and held.ended == ""
    signed_in(scene, person)
    assert right(scene, digest("cookie")).scopes == SCOPES_OF[Role.OPERATOR]
    scene.store.people.change(person.id, PersonChange(role=Role.VIEWER), by=Actor(OPERATOR))
    assert right(scene, known_by).scopes == {READ} == right(scene, digest("cookie")).scopes
    note = scene.store.audit.list(1)[0]
    assert (note.kind, note.detail) == (
        "person.role",
        {"person": person.principal, "role": "viewer", "was": "operator"},
    )


def test_a_service_token_is_a_principal_with_a_role_of_its_own(scene: Scene) -> None:
    made, known_by = service(scene, Role.MEMBER, READ)
    held = right(scene, known_by)
    assert (held.principal, held.name, held.role) == (f"service:{made.id}", "deploy", Role.MEMBER)
    assert held.scopes == {READ} and held.expires_at is None


def test_a_token_of_the_operator_has_no_more_than_it_was_made_for(scene: Scene) -> None:
    _, known_by = token(scene, OPERATOR, READ)
    assert (right(scene, known_by).principal, right(scene, known_by).scopes) == (OPERATOR, frozenset({READ}))


def test_of_a_token_only_its_digest_and_its_beginning_are_kept(scene: Scene) -> None:
    secret = new_token("personal")
    scene.store.tokens.make(secret, digest(secret), NewApiToken(name="x", scopes=(READ,)), by=Actor(OPERATOR))
    (listed,) = scene.store.tokens.list().items
    assert listed.prefix == secret[:9] and listed.prefix.startswith("mccp_")
    dumped = scene.store.database.read(lambda one: str(one.execute(sa.text("SELECT * FROM api_tokens")).all()))
    assert secret[9:20] not in dumped


def test_a_token_counts_until_it_expires(scene: Scene) -> None:
    made, known_by = token(scene, OPERATOR, days=1)
    assert right(scene, known_by).ended == "" and scene.store.rights.ended([made.id]) == {}
    scene.clock.advance(24 * 3_600)
    assert right(scene, known_by).ended == "this token has expired"
    assert scene.store.rights.ended([made.id]) == {made.id: "this token has expired"}


def test_a_token_is_revoked_by_whose_it_is_or_by_who_may_revoke_any(scene: Scene) -> None:
    ann, bob = added(scene), added(scene, name="Bob")
    made, known_by = token(scene, ann.principal)
    for token_id, by in ((made.id, bob.principal), ("nothing", ann.principal), ("\0", OPERATOR)):
        with pytest.raises(UnknownToken):
            scene.store.tokens.revoke(token_id, by=Actor(by), anybodys=by == OPERATOR)
    scene.store.tokens.revoke(made.id, by=Actor(OPERATOR), anybodys=True)
    assert right(scene, known_by).ended == "this token was revoked"
    scene.store.tokens.revoke(made.id, by=Actor(ann.principal))
    assert kinds(scene).count("token.revoked") == 1


def test_no_more_tokens_of_one_maker_count_than_are_allowed(scene: Scene) -> None:
    for _ in range(MOST_TOKENS - 1):
        token(scene, OPERATOR)
    last, _ = token(scene, OPERATOR)
    with pytest.raises(TooManyTokens):
        token(scene, OPERATOR)
    scene.store.tokens.revoke(last.id, by=Actor(OPERATOR))
    token(scene, OPERATOR)


def test_tokens_that_were_revoked_are_bounded_too(scene: Scene) -> None:
    ann = added(scene)
    made, _ = token(scene, ann.principal)
    scene.store.tokens.revoke(made.id, by=Actor(ann.principal))

    def copied(connection: sa.Connection) -> None:
        row = connection.execute(sa.select(API_TOKENS)).mappings().one()
        others = [{**row, "id": f"{number}", "digest": f"{number}"} for number in range(MOST_A_DAY - 1)]
        connection.execute(sa.insert(API_TOKENS), others)

    scene.store.database.write(copied)
    with pytest.raises(TooManyTokens, match="24 hours"):
        token(scene, ann.principal)
    token(scene, OPERATOR)
    scene.clock.advance(24 * 3_600 + 1)
    token(scene, ann.principal)


def test_a_name_that_is_changed_and_the_role_of_a_service_are_noted(scene: Scene) -> None:
    person = added(scene)
    for name in ("Ann", "Anna", "Anna"):
        scene.store.people.change(person.id, PersonChange(name=name), by=Actor(OPERATOR))
    service(scene, Role.MEMBER, READ)
    made, renamed, _ = scene.store.audit.list()
    assert (renamed.kind, renamed.detail) == ("person.renamed", {"person": person.principal})
    assert (made.kind, made.detail["role"]) == ("token.made", "member")


def test_who_is_disabled_is_signed_out_and_gets_tokens_back_but_no_sign_in(scene: Scene) -> None:
    person = added(scene)
    made, known_by = token(scene, person.principal)
    signin_id = signed_in(scene, person)
    scene.store.signins.offer(digest("unused"), person.principal, seconds=600)
    changed = scene.store.people.change(person.id, PersonChange(disabled=True), by=Actor(OPERATOR))
    assert set(changed.credentials) == {made.id, signin_id} and changed.why == "this person is disabled"
    assert right(scene, known_by).ended == "this person is disabled"
    ended = scene.store.rights.ended([made.id, signin_id])
    assert ended == {made.id: "this person is disabled", signin_id: "this sign-in has ended"}
    scene.store.people.change(person.id, PersonChange(disabled=False), by=Actor(OPERATOR))
    assert right(scene, known_by).ended == ""
    assert scene.store.rights.find(digest("cookie")) is None
    with pytest.raises(SpentLink):
        scene.store.signins.redeem(digest("unused"), digest("c"), hours=1, agent="", address="")
    assert kinds(scene)[:2] == ["person.enabled", "person.disabled"]


def test_a_link_that_was_made_while_somebody_is_disabled_signs_nobody_in(scene: Scene) -> None:
    person = added(scene)
    scene.store.people.change(person.id, PersonChange(disabled=True), by=Actor(OPERATOR))
    scene.store.signins.offer(digest("link"), person.principal, seconds=600)
    with pytest.raises(SpentLink):
        scene.store.signins.redeem(digest("link"), digest("c"), hours=1, agent="", address="")
    assert scene.store.rights.find(digest("c")) is None


def test_of_who_is_removed_the_id_stays_and_nothing_else(scene: Scene) -> None:
    person = added(scene)
    made, known_by = token(scene, person.principal)
    signin_id = signed_in(scene, person)
    gone = scene.store.people.remove(person.id, by=Actor(OPERATOR))
    assert (gone.person.name, gone.person.email, gone.person.removed) == ("", None, True)
    assert set(gone.credentials) == {made.id, signin_id}
    assert scene.store.people.list().items == [] and right(scene, known_by).ended == "this token was revoked"
    (name,) = scene.store.people.names([person.principal])
    assert (name.name, name.gone) == ("", True)
    # Neither the audit nor anything else has kept the name.
    assert "Ann" not in str([note.detail for note in scene.store.audit.list()])
    with pytest.raises(UnknownPerson):
        token(scene, person.principal)
    with pytest.raises(UnknownPerson):
        scene.store.people.change(person.id, PersonChange(name="Eve"), by=Actor(OPERATOR))


def test_a_link_races_the_end_of_its_person_and_no_sign_in_is_left(scene: Scene) -> None:
    person = added(scene)
    scene.store.signins.offer(digest("link"), person.principal, seconds=600)
    at_once = Barrier(2)

    def redeem() -> None:
        at_once.wait()
        with suppress(StoreError):
            scene.store.signins.redeem(digest("link"), digest("c"), hours=1, agent="", address="")

    def disable() -> None:
        at_once.wait()
        scene.store.people.change(person.id, PersonChange(disabled=True), by=Actor(OPERATOR))

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(redeem), threads.submit(disable)]:
            done.result()
    assert scene.store.rights.find(digest("c")) is None


def test_all_sign_ins_of_somebody_are_ended_together(scene: Scene) -> None:
    ann, bob = added(scene), added(scene, name="Bob")
    first, second = signed_in(scene, ann, "1"), signed_in(scene, ann, "2")
    other = signed_in(scene, bob, "3")
    assert set(scene.store.signins.end_all(ann.principal, by=Actor(OPERATOR))) == {first, second}
    assert scene.store.signins.end_all(ann.principal, by=Actor(OPERATOR)) == []
    assert [each.id for each in scene.store.signins.of_principal(bob.principal)] == [other]
    assert kinds(scene)[0] == "signout"


def test_when_a_token_was_used_is_written_at_most_each_minute_and_its_person_was_seen_then(scene: Scene) -> None:
    person = added(scene)
    _, known_by = token(scene, person.principal)
    held = right(scene, known_by)
    scene.store.rights.seen(held)
    first = scene.clock.now()
    scene.clock.advance(59)
    scene.store.rights.seen(held)
    assert [each.last_used_at for each in scene.store.tokens.list(person.principal).items] == [first]
    scene.clock.advance(2)
    scene.store.rights.seen(held)
    assert right(scene, known_by).seen_at == scene.clock.now() == scene.store.people.get(person.id).last_seen_at


def test_principals_are_named_in_the_sequence_in_which_they_are_asked_for(scene: Scene) -> None:
    person, (made, _) = added(scene), service(scene, Role.VIEWER, READ)
    scene.store.tokens.revoke(made.id, by=Actor(OPERATOR), anybodys=True)
    asked = ["doctor", person.principal, made.principal, OPERATOR, "person:nobody"]
    named = scene.store.people.names(asked)
    assert [(each.principal, each.name, each.kind, each.gone) for each in named] == [
        ("doctor", "doctor", "service", False),
        (person.principal, "Ann", "person", False),
        (made.principal, "deploy", "service", True),
        (OPERATOR, OPERATOR, "operator", False),
        ("person:nobody", "person:nobody", "person", True),
    ]


def test_things_are_told_whose_they_are(scene: Scene) -> None:
    order = scene.store.orders.place(NewOrder(prompt="x"), by=Actor("ann")).order
    owners = scene.store.owners.owners
    assert owners(Thing.ORDER, [order.id, "nothing", "\0"]) == {order.id: "ann"}
    assert owners(Thing.SESSION, [order.session_id]) == {order.session_id: "ann"}
    assert owners(Thing.DOCUMENT, [order.id]) == owners(Thing.ITEM, ["x"]) == owners(Thing.GRANT, [order.id]) == {}


@pytest.mark.parametrize("malformed", ["", "\0", "nobody"])
def test_a_malformed_id_is_nobody_s(scene: Scene, malformed: str) -> None:
    for look in (
        lambda: scene.store.people.get(malformed),
        lambda: scene.store.signins.end_all(PERSON + malformed, by=Actor(OPERATOR)),
    ):
        with pytest.raises(UnknownPerson):
            look()
    asked = [PERSON + malformed, SERVICE + malformed]
    assert [each.name for each in scene.store.people.names(asked)] == asked


def test_a_turn_in_the_session_of_another_is_nobody_s(scene: Scene) -> None:
    session = scene.store.orders.place(NewOrder(prompt="x"), by=Actor("ann")).order.session_id
    turns = [
        scene.store.orders.place(NewOrder(prompt="x", session_id=session), by=Actor(who)).order.id
        for who in ("ann", "bob")
    ]
    owners = scene.store.owners.owners
    assert owners(Thing.TURN, [*turns, "nothing"]) == {turns[0]: "ann", turns[1]: NOBODY}
    assert owners(Thing.SESSION_OF_ITEM, ["nothing"]) == {}


def test_only_controls_of_others_orders_are_noted(scene: Scene) -> None:
    order = scene.store.orders.place(NewOrder(prompt="x"), by=Actor("ann")).order
    scene.store.controls.request(order.id, ControlKind.PAUSE, NewControl(), by=Actor("ann"))
    assert scene.store.audit.of_order(order.id) == []
    scene.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("bob"))
    (note,) = scene.store.audit.of_order(order.id)
    assert (note.kind, note.principal, note.detail["kind"]) == ("control", "bob", "cancel")


@pytest.mark.parametrize(
    ("when_busy", "kinds"),
    [
        (WhenBusy.ENQUEUE, []),
        (WhenBusy.STEER, [("control", "steer")]),
        (WhenBusy.INTERRUPT, [("control", "cancel")]),
        (WhenBusy.ROLLBACK, [("order.rolled_back", None), ("control", "cancel")]),
    ],
)
def test_a_turn_that_acts_on_the_order_of_another_is_noted(
    scene: Scene, when_busy: WhenBusy, kinds: list[tuple[str, str | None]]
) -> None:
    order = scene.store.orders.place(NewOrder(prompt="x"), by=Actor("ann")).order
    scene.hold(order.id)
    turn = NewOrder(prompt="y", session_id=order.session_id, when_busy=when_busy)
    scene.store.orders.place(turn, by=Actor("bob"), anybodys=True)
    notes = scene.store.audit.of_order(order.id)
    assert [(note.kind, note.detail.get("kind")) for note in notes] == kinds
    assert {note.principal for note in notes} <= {"bob"}


def test_the_audit_is_found_by_all_that_is_given_a_page_at_a_time(scene: Scene) -> None:
    # Ids have the time of the machine, by which a list bounds what it looks at.
    scene.clock.advance((now() - scene.clock.now()).total_seconds())
    order = scene.place()
    start = scene.clock.now()
    for number in range(6):
        who, kind = ("ann", "even") if number % 2 == 0 else ("bob", "odd")
        scene.store.audit.note(kind, by=Actor(who), order_id=order.id if number > 3 else None, detail={"n": number})
        scene.clock.advance(10)

    def numbers(**asked: object) -> list[object]:
        return [note.detail["n"] for note in scene.store.audit.find(AuditFilter(**asked)).items]  # type: ignore[arg-type]

    assert numbers() == [5, 4, 3, 2, 1, 0]
    assert numbers(who="ann") == numbers(kind="even") == [4, 2, 0]
    assert numbers(order_id=order.id) == [5, 4] and numbers(who="bob", order_id=order.id) == [5]
    middle = scene.clock.now() - (scene.clock.now() - start) / 2
    assert (numbers(since=middle), numbers(until=middle)) == ([5, 4, 3], [2, 1, 0])
    assert numbers(since=datetime(1, 1, 1, tzinfo=UTC), until=datetime(9999, 12, 31, tzinfo=UTC)) == [5, 4, 3, 2, 1, 0]
    assert numbers(who="\0") == []
    page = scene.store.audit.find(AuditFilter(limit=4))
    rest = scene.store.audit.find(AuditFilter(limit=4, cursor=page.next_cursor))
    assert [note.detail["n"] for note in (*page.items, *rest.items)] == [5, 4, 3, 2, 1, 0]
    assert rest.next_cursor is None


@pytest.mark.parametrize("harm", [sa.update(AUDIT).values(principal="eve"), sa.delete(AUDIT)], ids=["changed", "gone"])
def test_the_audit_is_only_ever_added_to(scene: Scene, harm: sa.Executable) -> None:
    scene.store.audit.note("kind", by=Actor("ann"), detail={})
    with pytest.raises(StoreError):
        scene.store.database.write(lambda connection: connection.execute(harm))
    assert [note.principal for note in scene.store.audit.list()] == ["ann"]


def test_people_and_tokens_are_read_a_page_at_a_time(scene: Scene) -> None:
    people = [added(scene, name=f"Person {number}") for number in range(5)]
    scene.store.people.remove(people[1].id, by=Actor(OPERATOR))
    first = scene.store.people.list(limit=2)
    assert [person.name for person in first.items] == ["Person 0", "Person 2"]
    rest = scene.store.people.list(cursor=first.next_cursor, limit=2)
    assert ([person.name for person in rest.items], rest.next_cursor) == (["Person 3", "Person 4"], None)
    ids = [token(scene, each.principal)[0].id for each in (people[0], people[2], people[0], people[0])]
    newest = scene.store.tokens.list(people[0].principal, limit=2)
    assert [each.id for each in newest.items] == [ids[3], ids[2]]
    oldest = scene.store.tokens.list(people[0].principal, cursor=newest.next_cursor, limit=2)
    assert ([each.id for each in oldest.items], oldest.next_cursor) == ([ids[0]], None)
    assert [each.id for each in scene.store.tokens.list(cursor=ids[2]).items] == [ids[1], ids[0]]
    for cursor in ("2", "\0"):
        with pytest.raises(BadCursor):
            scene.store.people.list(cursor=cursor)
        with pytest.raises(BadCursor):
            scene.store.tokens.list(cursor=cursor)
