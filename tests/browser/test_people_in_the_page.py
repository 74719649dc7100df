"""People in the page: who may see to them, who may steer what, and what everybody else is told."""

import re

import pytest
from playwright.sync_api import expect

from mcc.contracts.callers import Actor, Role
from mcc.contracts.people import PersonChange
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.browser.conftest import AWAY, OpenPage
from tests.browser.seeds import add_person, place, say, seed, seed_document

REFUSED = re.compile(r"status of (401|403|409|410)")
HOSTILE = '<b onclick="1">\u202eBob\u2066 اسم'


@pytest.fixture
def expected() -> list[re.Pattern[str]]:
    """Here people ask for what they may not, and are signed out."""
    return [REFUSED, AWAY]


def test_an_admin_adds_a_person_whose_link_is_shown_once_and_signs_in(store: Store, open_page: OpenPage) -> None:
    page = open_page("people")
    page.get_by_role("button", name="Add a person").click()
    asked = page.get_by_role("dialog", name="Add a person")
    asked.get_by_label("Name").fill(HOSTILE)
    asked.get_by_label("Role").select_option("viewer")
    asked.get_by_role("button", name="Add", exact=True).click()
    given = page.get_by_role("dialog", name="A link for")
    url = given.locator("code").inner_text()
    given.get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="RLOBobLRI")
    expect(row.get_by_role("combobox")).to_have_value("viewer")
    assert url not in page.content()
    person = open_page()
    person.context.clear_cookies()
    person.goto(url)
    # In the rail too: a direction that is turned round would say another role.
    expect(person.locator(".foot")).to_contain_text("RLOBobLRI")
    expect(person.locator(".foot")).to_contain_text("· viewer")
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        row.get_by_role("combobox").select_option("member")
    person.goto(f"{person.url}me")
    expect(person.get_by_role("main")).to_contain_text("member: may read, write")


def test_a_viewer_sees_everything_and_is_told_who_may_do_what(store: Store, open_page: OpenPage) -> None:
    seeded, document = seed(store), seed_document(store)
    page = open_page("", who=add_person(store, "Vera", Role.VIEWER))
    page.get_by_role("button", name="All", exact=True).click()
    asked = page.get_by_role("region", name="master asks for run_shell")
    expect(asked).to_contain_text("ylno tset")
    expect(asked).to_contain_text("It is not yours: this is for operators and admins.")
    pages = {
        "": ("Approve once", "Deny"),
        f"orders/{seeded.asking}": ("Pause", "Cancel", "Send"),
        f"orders/{seeded.done}": ("Retry", "Fork", "Send"),
        "orders/new": ("Place order",),
        f"documents/{document}": ("Generate", "Undo", "Redo", "Add a child"),
        "drones": ("Drain",),
    }
    for path, names in pages.items():
        page.evaluate(
            "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", f"/{path}"
        )
        for name in names:
            button = page.get_by_role("button", name=re.compile(f"^{name}")).first
            expect(button).to_be_disabled()
            expect(button).to_have_attribute("title", re.compile("operators and admins"))
    for gone in ("People", "Audit", "Doctor"):
        expect(page.get_by_role("link", name=gone, exact=True)).to_have_count(0)
    # Whoever goes there by the address is told as well.
    page.goto(f"{page.url.partition('/drones')[0]}/people")
    expect(page.get_by_role("alert")).to_contain_text("which admins have")


def test_a_member_steers_own_orders_and_not_those_of_others(store: Store, open_page: OpenPage) -> None:
    member = add_person(store, "Mia", Role.MEMBER)
    drone = HandDrone(store)
    own, other = drone.claim(place(store, "Mine to steer", member)), drone.claim(place(store, "Another one"))
    for held in (own, other):
        held.start()
        say(held, "At work.")
    page = open_page("orders", who=member)
    expect(page.get_by_role("row").filter(has_text="Another one")).to_contain_text("operator")
    expect(page.get_by_role("row").filter(has_text="Mine to steer")).not_to_contain_text("Mia")
    page.get_by_role("button", name="Mine", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="Another one")).to_have_count(0)
    page.get_by_role("link", name="Mine to steer").click()
    page.get_by_role("textbox").fill("Look at the tests first")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status").filter(has_text="written")).to_be_visible()
    assert [(sent.principal, sent.door) for sent in store.controls.of_order(own.id)] == [(member, "page")]
    page.goto(f"{page.url.partition('/orders')[0]}/orders/{other.id}")
    expect(page.get_by_role("button", name="Pause")).to_be_disabled()
    expect(page.get_by_role("textbox")).to_be_disabled()
    page.keyboard.press("p")
    expect(page.get_by_role("log")).to_contain_text("At work.")
    assert store.controls.of_order(other.id) == []


def test_orders_of_a_person_are_found_by_the_name_that_is_shown(store: Store, open_page: OpenPage) -> None:
    who = add_person(store, "Ada", Role.MEMBER)
    place(store, "What she wants", who)
    place(store, "Another one")
    page = open_page("orders")
    expect(page.get_by_role("row").filter(has_text="What she wants")).to_contain_text("Ada")
    page.get_by_role("button", name="Filter").click()
    page.get_by_label("Field").select_option("who")
    page.get_by_label("is", exact=True).fill("Ada")
    page.get_by_role("button", name="Add").click()
    page.wait_for_url(f"**/orders?who={who.replace(':', '%3A')}")
    expect(page.get_by_role("row").filter(has_text="Another one")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="What she wants")).to_have_count(1)
    expect(page.locator(".token")).to_contain_text("Ada")


def test_who_is_disabled_at_work_is_signed_out_at_once(store: Store, open_page: OpenPage) -> None:
    who = add_person(store, "Max", Role.MEMBER)
    at_work = open_page("orders/new", who=who)
    at_work.get_by_label("What is to be done").fill("Half a sentence")
    admin = open_page("people")
    admin.get_by_role("row").filter(has_text="Max").get_by_role("button", name="Disable").click()
    expect(admin.get_by_role("row").filter(has_text="Max")).to_contain_text("disabled")
    expect(at_work.get_by_role("dialog", name="Signed out")).to_be_visible()
    expect(at_work.get_by_label("What is to be done")).to_have_value("Half a sentence")
    admin.get_by_role("row").filter(has_text="Max").get_by_role("button", name="Remove").click()
    admin.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(admin.get_by_role("row").filter(has_text="Max")).to_have_count(0)


def test_a_token_is_shown_once_and_revoked(store: Store, open_page: OpenPage) -> None:
    page = open_page("tokens")
    page.get_by_role("button", name="Make a token").click()
    asked = page.get_by_role("dialog", name="Make a token")
    asked.get_by_label("Name").fill("nightly")
    asked.get_by_label("Kind").select_option("service")
    asked.get_by_label("Its role").select_option("viewer")
    asked.get_by_label("write").uncheck()
    asked.get_by_label("Days until").fill("")
    asked.get_by_role("button", name="Make", exact=True).click()
    given = page.get_by_role("dialog", name="The token nightly")
    secret = given.locator("code").last.inner_text()
    assert re.fullmatch(r"mccs_\w{49}", secret)
    given.get_by_role("button", name="Close").click()
    # A service is a principal of its own.
    page.get_by_role("button", name="All", exact=True).click()
    row = page.get_by_role("row").filter(has_text="nightly")
    expect(row).to_contain_text("never")
    assert secret not in page.content()
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")


def test_the_audit_is_read_by_who_what_and_when(store: Store, open_page: OpenPage) -> None:
    who = add_person(store, HOSTILE, Role.OPERATOR)
    store.people.change(who.removeprefix("person:"), PersonChange(role=Role.MEMBER), by=Actor("operator"))
    for number in range(60):
        store.audit.note("note.deleted", by=Actor(who, "api"), detail={"number": number})
    page = open_page("audit")
    notes = page.get_by_role("region", name="What was done").get_by_role("row")
    expect(notes.filter(has_text="RLOBobLRI").first).to_contain_text("person")
    page.get_by_role("button", name="Go on").click()
    expect(notes.filter(has_text=re.compile(r"number 0\b"))).to_have_count(1)
    page.get_by_label("What", exact=True).fill("person.role")
    page.get_by_label("What", exact=True).press("Enter")
    expect(notes).to_have_count(2)
    page.get_by_label("Since").fill("2040-01-01T00:00")
    page.get_by_label("Since").press("Tab")
    expect(notes).to_have_count(1)


def test_what_is_left_of_ones_budget_stands_where_an_order_is_placed(open_page: OpenPage) -> None:
    page = open_page("")
    me = page.evaluate("fetch('/api/v1/me').then((answer) => answer.json())")
    left = {"owner": "operator", "day": "2026-01-01", "resets_at": "2026-01-02T00:00:00Z"}
    money = {"limit": 10, "spent": 2.5, "reserved": 1}
    me["budget"] = {**left, "usd": money, "orders": {"limit": 1_000, "used": 1}}
    page.route("**/api/v1/me", lambda route: route.fulfill(json=me))
    page.get_by_role("link", name="New order").first.click()
    expect(page.get_by_role("main")).to_contain_text("$6.5000 of $10.00 999 of 1,000 orders")
