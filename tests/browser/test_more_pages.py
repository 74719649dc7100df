"""Pages about the installation, two attempts side by side, many orders at once, and the way to everything by name."""

import base64
import re

from playwright.sync_api import expect

from mcc.contracts.blocks import ImageBlock
from mcc.contracts.drones import Capability
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.browser.conftest import OpenPage
from tests.browser.seeds import answer_usage, ask, place, say, seed, seed_document

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_the_doctor_says_what_is_broken_and_what_to_do(open_page: OpenPage) -> None:
    page = open_page("doctor")
    found = page.get_by_role("main")
    expect(found).to_contain_text("mcc up makes it, or mcc db upgrade")
    expect(page.get_by_text("nothing is broken")).to_be_visible()
    with page.expect_response(re.compile("/doctor$")) as looked:
        page.get_by_role("button", name="Look again").click()
    assert looked.value.ok


def test_repairs_are_made_once_somebody_has_agreed(open_page: OpenPage) -> None:
    page = open_page("")
    finding = {"what": "leases", "state": "broken", "detail": "a lease <b>hangs</b>", "advice": "", "fix": "leases"}
    told = {"ok": False, "findings": [finding], "repairs": [], "unrepaired": None, "at": "2026-01-01T00:00:00Z"}
    mended = {**told, "ok": True, "findings": [], "repairs": [{"fix": "leases", "detail": "ended it", "done": True}]}
    page.route("**/api/v1/doctor", lambda route: route.fulfill(json=told))
    page.route("**/api/v1/doctor/fix", lambda route: route.fulfill(json=mended))
    page.get_by_role("link", name="Doctor").click()
    expect(page.get_by_text("a lease <b>hangs</b>")).to_be_visible()
    page.get_by_role("button", name="Repair…").click()
    page.get_by_role("dialog", name="Make 1 repair?").get_by_role("button", name="Repair").click()
    expect(page.get_by_role("status").get_by_text("ended it")).to_be_visible()


def test_tools_stand_below_the_server_that_offers_them_with_what_is_wrong(store: Store, open_page: OpenPage) -> None:
    digest = f"sha256:{'ab' * 32}"
    HandDrone(
        store,
        tools=(
            Capability(name="read_file"),
            Capability(name="tracker_open", server="tracker", tokens=120, digest=digest, state="usable"),
            Capability(
                name="tracker_close", server="tracker", tokens=80, digest=digest, state="changed", problem="it changed"
            ),
        ),
    )
    page = open_page("mcp-servers")
    found = page.get_by_role("main")
    expect(found).to_contain_text("2 tools, 200 tokens")
    expect(found).to_contain_text("ab" * 6)
    expect(found).not_to_contain_text("read_file")
    found.get_by_text("it changed", exact=True).click()
    expect(found.get_by_role("button", name="Approve its new definition")).to_be_visible()


def test_pictures_and_long_texts_of_an_order_stand_with_its_changes(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, "Draw it"))
    held.start()
    picture = store.texts.keep(PIXEL, owner=held.id)
    long = store.texts.keep("all of it", owner=held.id)
    shown = ImageBlock(artifact=picture, media_type="image/png", name="shot.png", bytes=len(base64.b64decode(PIXEL)))
    held.write(
        ToolStarted(call_id="draw", round=1, index=0, name="screenshot", arguments={}, idempotent=True),
        ToolFinished(call_id="draw", name="screenshot", content="cut", is_error=False, artifact=long, images=(shown,)),
    )
    held.finish()
    page = open_page(f"orders/{held.id}?tab=changes")
    drawn = page.get_by_role("img", name="shot.png")
    expect(drawn).to_be_visible()
    expect(drawn).to_have_js_property("naturalWidth", 1)
    with page.expect_download() as saved:
        page.get_by_role("link", name="screenshot, the whole text").click()
    assert saved.value.path().read_text() == "all of it"


def test_two_orders_are_picked_as_a_range_and_compared(store: Store, open_page: OpenPage) -> None:
    drone = HandDrone(store)
    for answer in ("The first way.", "The second way."):
        held = drone.claim(place(store, answer))
        held.start()
        say(held, answer)
        held.finish(answer)
    page = open_page("orders")
    expect(page.get_by_role("row").filter(has_text="The first way.")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    bulk = page.get_by_role("toolbar", name="Selected orders")
    expect(bulk).to_contain_text("2 selected")
    bulk.get_by_role("link", name="Compare").click()
    page.wait_for_url("**/orders/*/vs/*")
    attempts = page.get_by_role("region", name=re.compile("^Order "))
    expect(attempts).to_have_count(2)
    expect(attempts.filter(has_text="The first way.")).to_have_count(1)
    expect(attempts.filter(has_text="The second way.")).to_have_count(1)


def test_everything_is_reached_by_its_name(store: Store, open_page: OpenPage) -> None:
    seeded, document = seed(store), seed_document(store)
    page = open_page("")
    for name, address in (
        ("Translate the how-to pages · orders", f"**/orders/{seeded.queued}"),
        ("a dry valley · documents", f"**/documents/{document}"),
        ("Drones", "**/drones"),
    ):
        page.keyboard.press("Control+k")
        choice = page.locator(f'datalist option[value^="{name}"]').first
        choice.wait_for(state="attached")
        page.get_by_label("Page, order, session, document or agent").fill(str(choice.get_attribute("value")))
        page.keyboard.press("Enter")
        page.wait_for_url(address)
    # What has no such name is searched for.
    page.keyboard.press("Control+k")
    page.get_by_label("Page, order, session, document or agent").fill("ducks")
    page.keyboard.press("Enter")
    page.wait_for_url("**/orders?text=ducks")


def test_an_address_that_is_no_text_says_that_there_is_no_page(open_page: OpenPage) -> None:
    page = open_page("")
    page.evaluate("history.pushState(null, '', '/%ff'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_text("There is no page at this address.")).to_be_visible()


def test_what_orders_used_is_told_by_day_and_key(open_page: OpenPage) -> None:
    page = open_page("usage")
    # As the service answers it, before any order has ended.
    expect(page.get_by_text("No order ended in these days.")).to_be_visible()
    answer_usage(page)
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.keyboard.press("g")
    page.keyboard.press("u")
    scout = page.get_by_role("row").filter(has_text="scout")
    for text in ("8", "20.0 k", "75 %", "$0.5", "and unknown"):
        expect(scout).to_contain_text(text)
    drawn = page.get_by_role("img", name="Dollars a day").locator("rect")
    expect(drawn).to_have_count(30)
    heights = drawn.evaluate_all("(bars) => bars.map((bar) => Math.round(bar.getAttribute('height')))")
    assert heights[-3:] == [150, 0, 150] and sum(heights) == 300
    page.get_by_role("button", name="model").click()
    page.wait_for_url("**/usage?by=model")
    # Tokens have their names, where they are known.
    page.route("**/api/v1/tokens?**", lambda route: route.fulfill(json={"items": [{"id": "scout", "name": "nightly"}]}))
    page.get_by_role("button", name="token").click()
    expect(page.get_by_role("row").filter(has_text="nightly")).to_contain_text("20.0 k")
    page.get_by_role("button", name="7", exact=True).click()
    expect(drawn).to_have_count(7)


def test_all_that_waits_is_in_the_inbox_and_not_its_first_page_alone(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, "Ask often"))
    held.start()
    for number in range(203):
        ask(held, f"approval-{number}", "ls")
    page = open_page("")
    expect(page.get_by_role("main").locator("button.entry")).to_have_count(203)


def test_what_is_pressed_stays_under_the_pointer_while_rows_come(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, "Say much"))
    held.start()
    for number in range(1, 40):
        say(held, f"Reply {number}.", at_round=number)
    page = open_page(f"orders/{held.id}")
    log = page.get_by_role("log")
    line = log.locator(".line").last
    expect(line).to_contain_text("Reply 39.")
    box = line.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 90, box["y"] + box["height"] / 2)
    page.mouse.down()
    top = log.evaluate("(log) => log.scrollTop")
    for number in range(40, 60):
        say(held, f"Reply {number}.", at_round=number)
    expect(log).to_contain_text("Reply 59.")
    assert log.evaluate("(log) => log.scrollTop") == top
    page.mouse.up()
    expect(log.get_by_text("Reply 59.")).to_be_in_viewport()


def test_a_retry_of_failures_says_how_many_it_takes(store: Store, open_page: OpenPage) -> None:
    ids = [place(store, "Fail") for _ in range(5)]
    alike = {"fingerprint": "ab" * 6, "reason": "internal", "agent": "master", "detail": "gone", "count": 9}
    alike |= {"first_at": "2026-01-01T00:00:00Z", "last_at": "2026-01-02T00:00:00Z"}
    page = open_page("")
    page.route("**/api/v1/failures", lambda route: route.fulfill(json={"items": [{**alike, "orders": ids}]}))
    page.goto(f"{page.url}orders?by=failure")
    expect(page.get_by_role("main")).to_contain_text("×9")
    with page.expect_response(re.compile("orders:bulk$")) as asked:
        page.get_by_role("button", name="Retry the newest 5").click()
    assert len(asked.value.json()["items"]) == 5


def test_no_time_of_the_timeline_is_cut_at_its_end(store: Store, open_page: OpenPage) -> None:
    seeded = seed(store)
    page = open_page(f"orders/{seeded.done}?tab=timeline")
    axis = page.locator("svg.axis")
    expect(axis.locator("text").first).to_be_visible()
    ends = axis.evaluate(
        """(svg) => [...svg.querySelectorAll("text")].map(
            (text) => text.getBoundingClientRect().right - svg.getBoundingClientRect().right)"""
    )
    assert max(ends) <= 0


def test_filters_are_saved_as_a_view_and_come_back_by_its_name(store: Store, open_page: OpenPage) -> None:
    seed(store)
    page = open_page("orders?label=docs&status=queued")
    page.get_by_role("button", name="Save view").click()
    page.get_by_role("dialog").get_by_label("Name").fill("Später? 100 % & mehr")
    page.keyboard.press("Enter")
    view = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Später? 100 % & mehr")
    expect(page.get_by_role("button", name="Save view")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("s")
    view.click()
    expect(view).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("row").filter(has_text="Translate the how-to pages")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Explain this repository")).to_have_count(0)
