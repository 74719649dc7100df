"""Several tabs of one browser: one stream for all, an end of the sign-in that all hear of, and a service that was
upgraded under them."""

import json
import re
from itertools import pairwise

from playwright.sync_api import BrowserContext, Page, Route, expect

from mcc.contracts.callers import Actor
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served
from tests.browser.conftest import AWAY, OpenPage
from tests.browser.seeds import place, say
from tests.waiting import until

MARK, MARKED = "document.documentElement.dataset.older = 1", "html[data-older]"
"""A mark on the page, which is gone once it was loaded again."""

ENDED = re.compile(r"status of 401")


def beside(page: Page, path: str = "") -> Page:
    """Another tab of the same browser."""
    tab = page.context.new_page()
    tab.goto(f"{page.url.partition('/')[0]}//{page.url.split('/')[2]}/{path}")
    tab.wait_for_selector("nav.rail", state="attached")
    return tab


def test_eight_tabs_share_one_stream_and_another_takes_it_over(
    store: Store, served: Served, open_page: OpenPage
) -> None:
    held = HandDrone(store).claim(place(store, "Watch me from eight sides"))
    held.start()
    first = open_page(f"orders/{held.id}")
    tabs = [first, *(beside(first, f"orders/{held.id}") for _ in range(7))]
    for number, (leader, heir) in enumerate(pairwise([*tabs, tabs[-1]]), 1):
        say(held, f"Words of round {number}.", at_round=number)
        for tab in tabs[number - 1 :]:
            expect(tab.get_by_role("log")).to_contain_text(f"Words of round {number}.")
        until(lambda: served.viewers == 1, "one stream is open")
        if leader is not heir:
            # It reads for all; another one goes on in its place.
            leader.close()


def test_all_tabs_are_told_that_their_sign_in_has_ended(
    store: Store, open_page: OpenPage, expected: list[re.Pattern[str]]
) -> None:
    expected.append(ENDED)
    first = open_page("orders")
    second = beside(first, "orders")
    # As another process of the service would.
    (signin,) = store.signins.of_principal("operator")
    store.signins.end(signin.id, by=Actor("operator"))
    for tab in (first, second):
        expect(tab.get_by_role("dialog", name="Signed out")).to_be_visible()


def test_who_signs_out_in_one_tab_is_signed_out_in_all(open_page: OpenPage, expected: list[re.Pattern[str]]) -> None:
    expected.append(ENDED)
    first = open_page("orders")
    second = beside(first, "me")
    second.get_by_role("button", name="Sign out").click()
    expect(second.get_by_role("heading", name="Sign in to MCC")).to_be_visible()
    expect(first.get_by_role("dialog", name="Signed out")).to_be_visible()


def upgrade(context: BrowserContext) -> None:
    """Let the service say from now on that its page is of another build."""

    def me(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=json.dumps({**answer.json(), "build": "f" * 12}))

    context.route("**/api/v1/me", me)
    hello = 'event: hello\ndata: {"version": "9", "build": "ffffffffffff"}\n\n'
    context.route("**/api/v1/stream*", lambda route: route.fulfill(body=hello, content_type="text/event-stream"))


def test_a_page_of_an_older_version_loads_the_new_one_once_by_itself(
    served: Served, open_page: OpenPage, expected: list[re.Pattern[str]]
) -> None:
    expected.append(AWAY)
    page = open_page("orders")
    page.evaluate(MARK)
    upgrade(page.context)
    served.call(served.app.state.service.feed.end_streams)
    expect(page.locator(MARKED)).to_have_count(0)
    # A service that goes on naming another build is not followed for ever: then it is a person who decides.
    expect(page.get_by_text("This page is older than the service.")).to_be_visible()
    page.evaluate(MARK)
    page.get_by_role("link", name="Inbox").first.click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    expect(page.locator(MARKED)).to_have_count(1)


def test_a_page_of_an_older_version_waits_for_what_is_being_written(
    served: Served, open_page: OpenPage, expected: list[re.Pattern[str]]
) -> None:
    expected.append(AWAY)
    page = open_page("orders/new")
    prompt = page.get_by_label("What is to be done")
    prompt.fill("Half of a sent")
    page.evaluate(MARK)
    upgrade(page.context)
    served.call(served.app.state.service.feed.end_streams)
    expect(page.get_by_text("This page is older than the service.")).to_be_visible()
    expect(page.get_by_role("button", name="Reload")).to_be_visible()
    expect(page.locator(MARKED)).to_have_count(1)
    expect(prompt).to_have_value("Half of a sent")
    prompt.fill("")
    expect(page.locator(MARKED)).to_have_count(0)
