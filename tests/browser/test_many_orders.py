"""Orders placed with files, and many of them at once: picked, cancelled, placed again, found by a saved view; and
what a person is told who looks elsewhere."""

import json
import re
from typing import Any
from urllib.parse import unquote

import httpx
from playwright.sync_api import FilePayload, Page, expect

from mcc.contracts.status import OrderStatus
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served
from tests.browser.conftest import OpenPage
from tests.browser.seeds import ask, place

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100"
    "18dd8db00000000049454e44ae426082"
)

SPY = """
    window.told = [];
    Object.defineProperty(document, "hidden", { get: () => window.isElsewhere ?? false });
    window.Notification = class extends Notification {
        constructor(title, options) { super(title, options); window.told.push(options.body); }
    };
"""
"""Notes what the browser is asked to show, which it shows outside of the page. A browser without windows hides none: it
is told which page is hidden."""


def statuses(store: Store, ids: list[str]) -> set[OrderStatus]:
    return {store.orders.get(order_id).status for order_id in ids}


def picked(page: Page, prompts: list[str]) -> None:
    for prompt in prompts:
        page.get_by_role("row", name=prompt).get_by_role("checkbox").check()
    expect(page.get_by_text(f"{len(prompts)} selected")).to_be_visible()


def test_an_order_is_placed_with_files_and_without_the_one_that_was_left_out(
    store: Store, served: Served, open_page: OpenPage
) -> None:
    HandDrone(store)
    page = open_page("orders/new")
    page.get_by_label("What is to be done").fill("Read what is attached")
    picture = FilePayload(name="شعار.png", mimeType="image/png", buffer=PNG)
    notes = FilePayload(name="notes & <b>.txt", mimeType="text/plain", buffer="Zeile für Zeile".encode())
    wrong = FilePayload(name="wrong.txt", mimeType="text/plain", buffer=b"not this one")
    page.locator("input[type=file]").set_input_files([picture, notes, wrong])
    page.get_by_role("button", name="Leave out wrong.txt").click()
    expect(page.get_by_role("button", name="Leave out")).to_have_count(2)
    page.get_by_role("button", name="Place order").click()
    page.wait_for_url(re.compile("/orders/[0-9a-f-]{36}$"))
    order = store.orders.get(page.url.rpartition("/")[2])
    operator = {"Authorization": f"Bearer {served.token}"}
    files = [httpx.get(f"{served.url}/api/v1/artifacts/{each}", headers=operator) for each in order.attachments]
    assert [file.content for file in files] == [PNG, "Zeile für Zeile".encode()]
    names = [file.headers["content-disposition"].partition("UTF-8''")[2] for file in files]
    assert [unquote(name) for name in names] == ["شعار.png", "notes & <b>.txt"]


def test_many_are_cancelled_and_placed_again_at_once(store: Store, open_page: OpenPage) -> None:
    ids = [place(store, f"Count to {number}") for number in ("one", "two", "three")]
    page = open_page("orders")
    picked(page, ["Count to one", "Count to two"])
    bar = page.get_by_role("toolbar", name="Selected orders")
    bar.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog", name="Cancel 2 orders?").get_by_role("button", name="Cancel them").click()
    expect(page.get_by_text("2 orders told to end.")).to_be_visible()
    assert statuses(store, ids[:2]) == {OrderStatus.CANCELLED} and statuses(store, ids[2:]) == {OrderStatus.QUEUED}
    # One of these has not ended, so there is nothing to repeat of it.
    done = page.get_by_role("rowgroup", name="Done")
    expect(done.get_by_role("row", name="Count to")).to_have_count(2)
    picked(page, ["Count to one", "Count to three"])
    bar.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("1 order placed again. Refused: 1 order.")).to_be_visible()
    expect(page.get_by_role("rowgroup", name="Working").get_by_role("row", name="Count to")).to_have_count(2)


def test_a_view_is_saved_found_again_in_another_browser_and_shows_what_fits(store: Store, open_page: OpenPage) -> None:
    place(store, "Write the docs")
    drone = HandDrone(store)
    drone.claim(place(store, "Read the docs")).start()
    page = open_page("orders")
    page.keyboard.press("f")
    filtered = page.get_by_role("dialog", name="Filter")
    filtered.get_by_label("is", exact=True).fill("queued")
    filtered.get_by_role("button", name="Add").click()
    expect(page.get_by_text("Read the docs")).to_have_count(0)
    page.get_by_role("button", name="Save view").click()
    saved = page.get_by_role("dialog", name="Save view")
    for name in ("now/later", "..", "."):
        saved.get_by_label("Name").fill(name)
        saved.get_by_role("button", name="Save").click()
        expect(saved.get_by_role("alert")).to_have_text("A name is not . or .. and has no / in it.")
    saved.get_by_label("Name").fill("Wartet noch: \u201eeins\u201c & zwei")
    saved.get_by_role("button", name="Save").click()
    name = "Wartet noch: \u201eeins\u201c & zwei"
    expect(page.get_by_role("link", name=name)).to_be_visible()
    elsewhere = open_page("")
    elsewhere.get_by_role("link", name=name).click()
    elsewhere.wait_for_url("**/orders?status=queued")
    expect(elsewhere.get_by_text("Write the docs")).to_be_visible()
    expect(elsewhere.get_by_text("Read the docs")).to_have_count(0)


def test_who_looks_elsewhere_is_told_when_something_waits(store: Store, open_page: OpenPage) -> None:
    page = open_page("me")
    page.context.grant_permissions(["notifications"])
    page.context.add_init_script(SPY)
    with page.expect_response(lambda answer: answer.request.method == "PATCH") as kept:
        page.get_by_label("Tell me when something waits for me").check()
    preferences: dict[str, Any] = json.loads(kept.value.text())["preferences"]
    assert preferences == {"notify": True}
    page.reload()
    expect(page.get_by_label("Tell me when something waits for me")).to_be_checked()
    held = HandDrone(store).claim(place(store, "Ask me"))
    held.start()
    ask(held, "approval-1", "ls")
    expect(page).to_have_title("(1) You · MCC")
    # Whoever looks at the page sees it there.
    assert page.evaluate("told") == []
    page.evaluate("isElsewhere = true; document.dispatchEvent(new Event('visibilitychange'))")
    ask(held, "approval-2", "ls -l")
    expect(page).to_have_title("(2) You · MCC")
    assert page.evaluate("told") == ["2 waiting for you"]
