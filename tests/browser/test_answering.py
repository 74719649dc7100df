"""What waits for a person, answered in the page: by keys and by hand, bound to what was shown, with nothing hidden."""

import re

from playwright.sync_api import expect

from mcc.store.store import Store
from mcc.testing.served import Served
from tests.browser.conftest import PHONE, OpenPage, link
from tests.browser.seeds import ask, seed


def decision_of(store: Store, approval_id: str) -> str | None:
    (item,) = [item for item in store.inbox.list(None, limit=50).items if item.id == approval_id]
    return item.status


def test_a_call_is_approved_by_a_key_and_what_it_hides_stands_there_as_marks(store: Store, open_page: OpenPage) -> None:
    seed(store)
    page = open_page("")
    asked = page.get_by_role("region", name="master asks for run_shell")
    expect(asked.locator("pre")).to_have_text("gitNBSPpush RLOylno tset aPDFESC[2K")
    expect(asked).to_contain_text("4 characters here would not show in a terminal")
    expect(asked.get_by_role("button", name="Approve once")).to_be_enabled()
    # It has to have been seen for half a second: until then the key does nothing.
    expect(asked).to_have_attribute("aria-busy", "false")
    # What is marked as seen, because it was looked at, keeps its place and the focus.
    expect(page.locator(".entry[aria-current=true]")).not_to_contain_class("unseen")
    expect(page.locator(".box.focused")).to_have_attribute("aria-label", re.compile("master asks for run_shell"))
    page.keyboard.press("a")
    expect(asked).to_contain_text("Approved")
    assert decision_of(store, "approval-1") == "approved"


def test_a_click_approves_what_it_is_on_although_another_of_the_order_had_the_focus(
    store: Store, open_page: OpenPage
) -> None:
    seed(store)
    page = open_page("?item=question-1")
    asked = page.get_by_role("region", name="master asks for run_shell")
    expect(page.locator(".box.focused")).to_have_attribute("aria-label", re.compile("Which changelog"))
    expect(asked).to_have_attribute("aria-busy", "false")
    asked.get_by_role("button", name="Approve once").hover()
    page.mouse.down()
    expect(page.locator(".box.focused")).to_have_attribute("aria-label", re.compile("master asks for run_shell"))
    page.mouse.up()
    expect(asked).to_contain_text("Approved")
    assert decision_of(store, "approval-1") == "approved"


def test_a_call_that_changed_since_it_was_shown_is_not_approved(store: Store, open_page: OpenPage) -> None:
    seed(store)
    page = open_page("")
    # As if the agent asked for something else in the meantime: what is sent names another digest.
    page.route("**/api/v1/approvals/*", lambda route: route.continue_(post_data='{"decision":"approve","digest":"x"}'))
    asked = page.get_by_role("region", name="master asks for run_shell")
    expect(asked).to_have_attribute("aria-busy", "false")
    asked.get_by_role("button", name="Approve once").click()
    expect(asked.get_by_role("alert")).to_be_visible()
    assert decision_of(store, "approval-1") == "pending"


def test_a_long_call_is_approved_only_after_all_of_it_was_shown(store: Store, open_page: OpenPage) -> None:
    ask(seed(store).held, "approval-2", "\n".join(f"echo {number}" for number in range(100)))
    page = open_page("?item=approval-2")
    asked = page.get_by_role("region", name="master asks for run_shell").last
    approve = asked.get_by_role("button", name="Approve once")
    expect(approve).to_be_disabled()
    asked.get_by_role("button", name="60 more lines: show them").click()
    expect(approve).to_be_enabled()
    expect(asked.locator("pre")).to_contain_text("echo 50")


def test_a_question_is_answered_on_a_phone(store: Store, open_page: OpenPage) -> None:
    seed(store)
    page = open_page("", size=PHONE)
    page.get_by_role("button", name="Which changelog").click()
    asked = page.get_by_role("region", name="Which changelog")
    asked.get_by_label("docs/changes.md").check()
    asked.get_by_role("button", name="Answer").click()
    expect(asked).to_contain_text("Answered")
    assert decision_of(store, "question-1") == "answered"


def test_a_link_signs_in_once_and_leaves_nothing_in_the_address(
    store: Store, served: Served, open_page: OpenPage, expected: list[re.Pattern[str]]
) -> None:
    expected.append(re.compile("status of 401"))  # what the page looks up meanwhile, without its cookie
    page = open_page("")
    used = link(served)
    page.goto(used)
    page.wait_for_selector("nav.rail")
    assert page.url == f"{served.url}/"
    page.context.clear_cookies()
    page.goto(used)
    expect(page.get_by_role("alert")).to_contain_text("used already")
    assert "#" not in page.url
