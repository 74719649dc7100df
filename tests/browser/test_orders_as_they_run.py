"""An order from its prompt to its end, watched in the page: its agents as they work, and what a person tells them."""

import re

from playwright.sync_api import Page, expect

from mcc.contracts.journal import AgentFinished, ToolFinished, ToolStarted
from mcc.contracts.record import RecordStatus
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.seeds import ask, call, child, child_of, place, say

PROMPT = "Look at it from two sides"


def hire_two(held: HeldOrder) -> None:
    held.start()
    held.write(ToolStarted(call_id="hire", round=1, index=0, name="subagents_run", arguments={}, idempotent=False))
    for agent, title in (("scout", "Its structure"), ("review", "Its faults")):
        say(held, f"{agent} begins.", child_of(held, "hire", agent, title))


def both_report(held: HeldOrder) -> None:
    for agent in ("scout", "review"):
        origin = child(held, "hire", agent)
        say(held, f"{agent} has looked.", origin, at_round=2)
        held.write(AgentFinished(status=RecordStatus.COMPLETED, answer="looked"), origin=origin)
    held.write(ToolFinished(call_id="hire", name="subagents_run", content="two reports", is_error=False))
    say(held, "Two sides, one answer.", at_round=2)


def lines(page: Page) -> list[str]:
    """The entries that have a row, in their order."""
    return [str(line) for line in page.locator(".line").evaluate_all("(rows) => rows.map((row) => row.id)")]


def test_an_order_is_placed_by_keys_and_its_two_subagents_are_watched(store: Store, open_page: OpenPage) -> None:
    page = open_page("orders")
    page.keyboard.press("c")
    page.get_by_label("What is to be done").fill(PROMPT)
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile("/orders/[0-9a-f-]{36}$"))
    held = HandDrone(store).claim(page.url.rpartition("/")[2])
    hire_two(held)
    log = page.get_by_role("log")
    for agent, title in (("scout", "Its structure"), ("review", "Its faults")):
        row = log.get_by_role("button", name=re.compile(title))
        expect(row).to_have_attribute("aria-expanded", "true")
        expect(log).to_contain_text(f"{agent} begins.")
    both_report(held)
    expect(log).to_contain_text("Two sides, one answer.")
    held.finish("Two sides, one answer.")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    live = lines(page)
    page.reload()
    expect(log).to_contain_text("Two sides, one answer.")
    # What is over looks as it did live: the two agents are folded now, so theirs are not drawn.
    assert set(lines(page)) <= set(live) and len(live) == len(set(live))


def test_one_of_two_subagents_is_cancelled(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    hire_two(held)
    page = open_page(f"orders/{held.id}")
    page.get_by_role("button", name="Cancel it").first.click()
    page.get_by_role("dialog", name="Cancel scout?").get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    (control,) = store.controls.of_order(held.id)
    assert (control.kind, control.record_id) == ("cancel", child(held, "hire", "scout").record_id)


def test_an_order_is_cancelled_only_when_one_has_said_so_twice(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    held.start()
    page = open_page(f"orders/{held.id}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert store.controls.of_order(held.id) == []
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert [control.kind for control in store.controls.of_order(held.id)] == ["cancel"]


def test_a_message_is_sent_to_one_agent_and_its_way_is_shown(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    hire_two(held)
    review = str(child(held, "hire", "review").record_id)
    page = open_page(f"orders/{held.id}")
    page.keyboard.press("m")
    page.get_by_label("To", exact=True).select_option(review)
    page.get_by_label("Message review").fill("Look at the tests as well")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").get_by_text("written")).to_be_visible()
    (control,) = store.controls.of_order(held.id)
    assert (control.kind, control.record_id) == ("steer", review)


def test_what_an_order_was_at_an_entry_is_replayed_and_forked_from_there(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    hire_two(held)
    both_report(held)
    reported = held.seq
    say(held, "And one more thing.", at_round=3)
    held.finish("And one more thing.")
    page = open_page(f"orders/{held.id}?tab=timeline")
    page.get_by_label("now").fill(str(reported))
    page.wait_for_url(re.compile(f"at={reported}"))
    page.get_by_role("link", name="Conversation").click()
    expect(page.get_by_role("log")).to_contain_text("Two sides, one answer.")
    expect(page.get_by_role("log")).not_to_contain_text("And one more thing.")
    page.get_by_role("button", name="Fork").click()
    page.get_by_label("What it shall hear next").fill("Look once more")
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.wait_for_url(lambda url: held.id not in url)
    forked = store.orders.get(page.url.rpartition("/")[2])
    assert forked.origin is not None and forked.origin.order_id == held.id


def test_all_of_it_is_done_by_keys(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    hire_two(held)
    ask(held, "approval-1", "ls")
    page = open_page("")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Orders")).to_be_visible()
    expect(page.get_by_text(PROMPT)).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(".order.cursor")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/orders/{held.id}")
    expect(page.get_by_role("log")).to_contain_text("review begins.")
    page.keyboard.press("t")
    page.wait_for_url("**tab=timeline")
    page.keyboard.press("1")
    with page.expect_response(re.compile("/pause$")):
        page.keyboard.press("p")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Orders")).to_be_visible()
    assert [control.kind for control in store.controls.of_order(held.id)] == ["pause"]
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_role("button", name="Close").press("Enter")
    page.keyboard.press("g")
    page.keyboard.press("i")
    asked = page.get_by_role("region", name="master asks for run_shell")
    expect(asked).to_have_attribute("aria-busy", "false")
    page.keyboard.press("a")
    # It was all that waited.
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    (item,) = store.inbox.list(None, limit=50).items
    assert item.status == "approved"


def test_a_call_is_approved_on_a_phone_from_the_order_that_waits(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    held.start()
    call(held, "look", "read_file", {"path": "README.md"})
    ask(held, "approval-1", "ls")
    page = open_page(f"orders/{held.id}", size=PHONE)
    page.get_by_role("link", name="Decide").click()
    asked = page.get_by_role("region", name="master asks for run_shell")
    expect(asked).to_have_attribute("aria-busy", "false")
    asked.get_by_role("button", name="Approve once").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_agents_that_nobody_sees_ask_for_no_rows_and_catch_up_once_they_are_seen(
    store: Store, open_page: OpenPage
) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    held.start()
    held.write(ToolStarted(call_id="hire", round=1, index=0, name="subagents_run", arguments={}, idempotent=False))
    origins = [child_of(held, "hire", f"agent-{number}", f"Side {number} of it") for number in range(60)]
    for number, origin in enumerate(origins):
        say(held, f"Number {number} begins.", origin)
    asked: list[str] = []
    page = open_page()
    page.on("request", lambda request: asked.extend(re.findall(r"/rows\?record=([^&]+)", request.url)))
    page.goto(page.url.rstrip("/") + f"/orders/{held.id}")
    log, first = page.get_by_role("log"), str(origins[0].record_id)
    expect(log).to_contain_text("Number 59 begins.")
    assert first not in asked
    top = log.get_by_role("button", name="Side 0 of it")
    top.scroll_into_view_if_needed()
    expect(log).to_contain_text("Number 0 begins.")
    page.get_by_role("button", name="To the end").click()
    # What is written while it is out of sight: the last agent shows that the page has heard of it.
    last = log.get_by_role("button", name="Side 59 of it")
    expect(last).to_be_in_viewport()
    before = asked.count(first)
    say(held, "Number 0 goes on.", origins[0], at_round=2)
    say(held, "Number 59 goes on.", origins[59], at_round=2)
    expect(log).to_contain_text("Number 59 goes on.")
    assert asked.count(first) == before and "Number 0 goes on." not in log.inner_text()
    top.scroll_into_view_if_needed()
    expect(log).to_contain_text("Number 0 goes on.")


def test_in_the_list_an_order_that_needs_a_person_says_so_while_it_runs(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, PROMPT))
    held.start()
    page = open_page("orders")
    expect(page.get_by_role("rowgroup", name="Working").get_by_role("img", name="works")).to_be_visible()
    ask(held, "approval-1", "ls")
    asking = page.get_by_role("rowgroup", name="Needs input")
    expect(asking.get_by_role("img", name="waits for a decision")).to_be_visible()
    expect(asking).to_contain_text("1 approval")
