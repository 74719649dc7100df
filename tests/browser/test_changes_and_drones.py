"""What an order changed, comments on its lines, and a drone that is told to take no orders."""

import pytest
from playwright.sync_api import expect

from mcc.contracts.changes import ChangedFile, Changes
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.browser.conftest import PHONE, WIDE, OpenPage
from tests.browser.seeds import place

DIFF = """--- a/app.py
+++ b/app.py
@@ -1,3 +1,4 @@
 import os
-print("old")
+print("new")
+print("\u202eevil")
 # end
"""


def changed_order(store: Store) -> str:
    held = HandDrone(store).claim(place(store, "Change it"))
    held.start()
    digest = store.texts.keep(DIFF, owner=held.id)
    files = (ChangedFile(path="app.py", change="modified", added=2, removed=1),)
    held.finish(changes=Changes(workspace="/w", base="abc", files=files, diff=digest))
    return held.id


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_comments_on_lines_become_the_next_turn(size: tuple[int, int], store: Store, open_page: OpenPage) -> None:
    order = changed_order(store)
    page = open_page(f"orders/{order}?tab=changes", size=size)
    patch = page.get_by_role("region", name="Changes of app.py")
    expect(patch).to_contain_text("U+202E")
    patch.get_by_role("button", name="Comment on line 2").last.click()
    expect(patch.get_by_role("textbox")).to_be_focused()
    # It is kept by the service, for whichever browser goes on.
    with page.expect_response(lambda answer: "other words" in (answer.request.post_data or "")) as kept:
        page.keyboard.insert_text("Say it in other words.")
    assert kept.value.ok
    page.reload()
    expect(patch.get_by_role("textbox")).to_have_value("Say it in other words.")
    page.get_by_role("button", name="Send as the next turn").click()
    page.wait_for_url(lambda url: order not in url)
    turn = store.orders.get(page.url.rpartition("/")[2])
    assert turn.session_id == store.orders.get(order).session_id
    assert "app.py:2 (new)" in turn.prompt and "Say it in other words." in turn.prompt
    expect(page.get_by_role("main")).to_contain_text("Say it in other words.")


def test_a_drone_is_told_to_take_no_orders_and_to_take_them_again(store: Store, open_page: OpenPage) -> None:
    HandDrone(store)
    page = open_page("drones")
    page.get_by_role("button", name="Drain", exact=True).click()
    page.get_by_role("button", name="Drain it").click()
    page.get_by_role("button", name="Stop draining").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop draining").click()
    expect(page.get_by_role("button", name="Drain", exact=True)).to_be_visible()
