"""Schedules, triggers, webhooks and deliveries in the page: what people see of them, and what they may do."""

import json
import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from mcc.console.files import installed
from mcc.contracts.callers import Role
from mcc.contracts.git_delivery import Deliver, GitDelivery
from mcc.contracts.order import OrderKind
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus, WaitingReason
from mcc.store.doors.delivery_lists import DeliveryFilter
from mcc.store.rows.values import Parking
from mcc.store.store import Store
from mcc.testing.served import Served
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.door_seeds import (
    HOSTILE,
    add_runs,
    add_schedule,
    delivered,
    on_git,
    seed_deliveries,
    seed_webhooks,
)
from tests.browser.seeds import add_person, place

REFUSED = re.compile(r"status of (409|410|422)")
GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"


@pytest.fixture
def expected() -> list[re.Pattern[str]]:
    """Here people write what the service refuses."""
    return [REFUSED]


def test_a_schedule_is_written_with_its_next_times_in_sight_and_runs_now(store: Store, open_page: OpenPage) -> None:
    page = open_page("schedules")
    page.get_by_role("button", name="Add a schedule").click()
    page.get_by_label("Name:").fill("nightly")
    page.get_by_label("Minute, hour").fill("15 7 * * MON-FRI")
    page.get_by_label("On the clock of").fill("Asia/Kolkata")
    upcoming = page.get_by_role("status").filter(has_text="Monday to Friday, at 07:15")
    expect(upcoming.get_by_role("row").nth(5)).to_contain_text("07:15:00")
    expect(upcoming.get_by_role("row").nth(1)).to_contain_text("01:45:00")
    page.get_by_label("Minute, hour").fill("0 0 30 2 *")
    expect(page.get_by_role("status").get_by_role("alert")).to_contain_text("no cron expression")
    page.get_by_role("button", name="At an interval").click()
    page.get_by_label("Minutes between").fill("30")
    expect(page.get_by_role("status")).to_contain_text("every 30 minutes")
    page.get_by_label("What is to be done").fill("Report for {dat}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").first).to_contain_text("dat")
    page.get_by_label("What is to be done").fill("Report for {date}")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="nightly", exact=True)).to_be_visible()
    (saved,) = store.schedules.list()
    assert (saved.name, saved.every_seconds, saved.cron) == ("nightly", 1_800, None)
    assert saved.order == {"prompt": "Report for {date}", "on_ask": "deny"}
    page.get_by_role("button", name="Run now").click()
    ran = page.get_by_role("status").filter(has_text="It ran just now")
    expect(ran.get_by_role("link", name=re.compile("^order "))).to_be_visible()
    (run,) = store.schedules.runs(saved.id).items
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("banner")).to_contain_text("paused")
    assert store.schedules.get(saved.id).paused
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("table").first.get_by_role("row")).to_have_count(6)
    ran.get_by_role("link").click()
    page.wait_for_url(f"**/orders/{run.order_id}")


def test_what_is_changed_of_a_schedule_leaves_the_rest_of_it_as_it_was(store: Store, open_page: OpenPage) -> None:
    until = (now() + timedelta(days=90)).replace(second=0, microsecond=0)
    late = {"policy": "all", "most": 7}
    made = add_schedule(store, until=until, catch_up=late, when_full="queue", jitter_seconds=30)
    before = store.schedules.get(made)
    page = open_page(f"schedules?id={made}")
    page.get_by_role("button", name="Change").click()
    page.get_by_label("What is to be done").fill("Another report for {date}")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/schedules?id={made}")
    expect(page.get_by_role("main")).to_contain_text("Another report")
    after = store.schedules.get(made)
    assert after.order == {**before.order, "prompt": "Another report for {date}", "on_ask": "deny"}
    kept = {"name", "cron", "zone", "until", "jitter_seconds", "catch_up", "max_running", "when_full", "session"}
    assert after.model_dump(include=kept) == before.model_dump(include=kept)


def test_an_order_that_is_being_written_becomes_a_schedule(store: Store, open_page: OpenPage) -> None:
    page = open_page("orders/new")
    page.get_by_label("What is to be done").fill("Look at the log")
    page.get_by_label("Labels").fill("nightly")
    page.get_by_role("button", name="Repeat…").click()
    page.get_by_label("Name:").fill("look")
    expect(page.get_by_label("What is to be done")).to_have_value("Look at the log")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="look", exact=True)).to_be_visible()
    (saved,) = store.schedules.list()
    assert saved.order == {"prompt": "Look at the log", "on_ask": "wait", "labels": ["nightly"]}
    # What was saved is not offered again.
    page.evaluate(GO, "/schedules?id=new")
    expect(page.get_by_label("What is to be done")).to_have_value("")


def test_an_order_on_a_git_address_says_whether_its_work_goes_back_there(open_page: OpenPage) -> None:
    page = open_page("orders/new")
    page.get_by_label("What is to be done").fill("Mend the shop")
    page.get_by_label("Workspace").fill("/home/shop")
    expect(page.get_by_label("Its work")).to_have_count(0)
    page.get_by_label("Workspace").fill("https://forge.example/team/shop")
    page.get_by_label("Its work").select_option("is pushed, and a request to merge it opened")
    with page.expect_request("**/api/v1/orders") as asked:
        page.get_by_role("button", name="Place order").click()
    assert (asked.value.post_data_json or {})["deliver"] == {"pull_request": True}
    # No such address is among those of this service.
    expect(page.get_by_role("alert").first).to_contain_text("forge.example")
    page.get_by_label("Its work").select_option("stays in its checkout")
    with page.expect_request("**/api/v1/orders") as asked:
        page.get_by_role("button", name="Place order").click()
    assert "deliver" not in (asked.value.post_data_json or {"deliver": True})


def test_runs_of_a_schedule_are_told_with_their_reasons_and_orders(store: Store, open_page: OpenPage) -> None:
    order = place(store, "A report")
    made = add_schedule(store)
    add_runs(store, made, order)
    page = open_page("schedules")
    row = page.get_by_role("row").filter(has_text="nightly-report")
    expect(row).to_contain_text("on Monday to Friday, at 02:30 30 2 * * 1-5 Europe/Berlin")
    expect(row).to_contain_text("placed")
    row.get_by_role("link", name="nightly-report").click()
    runs = page.get_by_role("table").last.get_by_role("row")
    expect(runs.nth(1).get_by_role("link")).to_have_attribute("href", re.compile(f"/orders/{order}$"))
    expect(runs.nth(2)).to_contain_text("refused workspace: there is no RLOgnp.eralodPDF.")
    expect(runs.nth(3)).to_contain_text("missed 3 runs from")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_url("**/schedules")
    expect(page.get_by_role("main")).to_contain_text("No order is placed again and again.")


def test_a_webhook_is_added_with_a_secret_that_is_shown_once_and_seen_to(store: Store, open_page: OpenPage) -> None:
    page = open_page("webhooks")
    page.get_by_role("button", name="Add a webhook").click()
    asked = page.get_by_role("dialog", name="Add a webhook")
    asked.get_by_label("Name").fill("chat")
    asked.get_by_label("Its address").fill("http://chat.example/")
    asked.get_by_label("order.finished").check()
    asked.get_by_text("Of some orders alone").click()
    asked.get_by_label("labels").fill("nightly, docs")
    asked.get_by_role("button", name="Add").click()
    expect(asked.get_by_role("alert")).to_contain_text("https")
    asked.get_by_label("Its address").fill("https://chat.example/hook?key=hidden")
    asked.get_by_role("button", name="Add").click()
    given = page.get_by_role("dialog", name="The secret of chat")
    first = given.locator("code").inner_text()
    assert re.fullmatch(r"whsec_[\w+/=]{44}", first)
    given.get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="chat")
    expect(row).to_contain_text("https://chat.example/hook?key=…order.finished labels: nightly, docs on")
    assert first not in page.content()
    row.get_by_role("link", name="chat").click()
    page.get_by_role("button", name="Rotate its secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    second = page.get_by_role("dialog", name="The secret of chat").locator("code").inner_text()
    assert second != first
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("main")).to_contain_text("signs too until")
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_role("row").filter(has_text="webhook.test")).to_contain_text("pending")
    page.get_by_role("button", name="Change").click()
    asked = page.get_by_role("dialog", name="Change chat")
    asked.get_by_label("approval.requested").check()
    asked.get_by_role("button", name="Change").click()
    expect(page.get_by_role("main")).to_contain_text("order.finished, approval.requested")
    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_role("button", name="Turn on")).to_be_visible()
    (made,) = [each for each in store.webhooks.endpoints.list() if each.name == "chat"]
    assert made.off_at is not None and made.url == "https://chat.example/hook?key=…"
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_url("**/webhooks")
    expect(page.get_by_role("row").filter(has_text="chat")).to_have_count(0)


def test_deliveries_are_shown_by_state_and_dead_ones_replayed(store: Store, open_page: OpenPage) -> None:
    endpoint = seed_webhooks(store)
    page = open_page("webhooks")
    expect(page.get_by_role("row").filter(has_text="pager").first).to_contain_text("the receiver answered 410")
    page.get_by_role("button", name="dead", exact=True).click()
    page.wait_for_url("**/webhooks?state=dead")
    rows = page.get_by_role("row").filter(has_text="webhook.test")
    expect(rows).to_have_count(2)
    told = rows.filter(has_text="500")
    expect(told).to_contain_text("RLOgnp.eralodPDF")
    assert HOSTILE not in page.get_by_role("main").inner_text()
    told.get_by_role("button", name="Replay").click()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="pager").click()
    page.get_by_role("button", name="Replay all dead").click()
    expect(page.get_by_role("status").filter(has_text="1 are tried again")).to_be_visible()
    states = [each.state.value for each in store.webhooks.lists.find(DeliveryFilter(endpoint=endpoint)).items]
    assert sorted(states) == ["delivered", "pending", "pending"]


def test_triggers_are_shown_with_what_their_deliveries_came_to(
    store: Store, served: Served, open_page: OpenPage
) -> None:
    seed_deliveries(store)
    page = open_page("triggers")
    row = page.get_by_role("row").filter(has_text="issues")
    expect(row).to_contain_text("github /hooks/forge/issues")
    expect(row).to_contain_text("forge hub, project team/shop, number {payload.n}")
    expect(row).to_contain_text("no match 1 own 1 refused 1")
    row.get_by_role("link", name="issues").click()
    page.wait_for_url("**/triggers?name=issues")
    expect(page.get_by_role("main")).to_contain_text(f"{served.url}/hooks/forge/issues")
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("refused workspace: there is no RLOgnp.eralodPDF.")


def test_doors_are_grey_to_those_who_may_not_and_told_who_may(store: Store, open_page: OpenPage) -> None:
    made = add_schedule(store)
    member = add_person(store, "Mia", Role.MEMBER)
    own = add_schedule(store, "of-mia", member)
    page = open_page("schedules", who=add_person(store, "Vera", Role.VIEWER))
    for path, names in {
        "schedules": ("Add a schedule",),
        f"schedules?id={made}": ("Run now", "Pause", "Change", "Remove"),
        "schedules?id=new": ("Save",),
        "orders/new": ("Repeat…",),
    }.items():
        page.evaluate(GO, f"/{path}")
        for name in names:
            button = page.get_by_role("button", name=re.compile(f"^{name}"))
            expect(button).to_be_disabled()
            expect(button).to_have_attribute("title", re.compile("operators and admins"))
    page.evaluate(GO, "/triggers?name=issues")
    expect(page.get_by_role("main")).to_contain_text("This is for operators and admins.")
    expect(page.get_by_role("link", name="Webhooks", exact=True)).to_have_count(0)
    page = open_page(f"schedules?id={own}", who=member)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.evaluate(GO, f"/schedules?id={made}")
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()


@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["wide", "phone"])
def test_an_order_shows_where_its_work_went_and_is_delivered_again(
    size: tuple[int, int], store: Store, open_page: OpenPage
) -> None:
    held = on_git(store)
    page = open_page(f"orders/{held.id}", size=size)
    shown = page.get_by_role("region", name="Delivery")
    expect(shown).to_contain_text("Its branch is pushed once its result is accepted, and a request opened.")
    held.finish("Mended.", delivery=delivered("https://forge.example/team/shop/pull/12", why=f"2 files {HOSTILE}"))
    expect(shown).to_contain_text("mcc/0190c9a2 → main")
    expect(shown).to_contain_text("2 files RLOgnp.eralodPDF")
    link = shown.get_by_role("link", name="#12")
    expect(link).to_have_attribute("href", "https://forge.example/team/shop/pull/12")
    expect(link).to_have_attribute("rel", re.compile("noopener"))
    shown.get_by_role("button", name="Deliver again…").click()
    asked = page.get_by_role("dialog", name="Deliver its work?")
    asked.get_by_label("Into which branch").fill("next")
    asked.get_by_role("button", name="Deliver", exact=True).click()
    page.wait_for_url(lambda url: held.id not in url and "/orders/" in url)
    again = store.orders.get(page.url.rpartition("/")[2])
    assert (again.kind, again.on_ask, again.deliver) == (
        OrderKind.DELIVER,
        "wait",
        Deliver(pull_request=True, base="next"),
    )


def test_the_address_of_a_request_is_a_link_only_where_it_is_one_of_the_web(store: Store, open_page: OpenPage) -> None:
    held = on_git(store)
    held.finish("Mended.", delivery=delivered("javascript:alert(1)"))
    shown = open_page(f"orders/{held.id}").get_by_role("region", name="Delivery")
    expect(shown).to_contain_text("#12 javascript:alert(1)")
    expect(shown.get_by_role("link")).to_have_count(0)


def test_an_order_that_waits_for_its_forge_says_until_when_and_goes_on_when_it_is_told(
    store: Store, open_page: OpenPage
) -> None:
    held = on_git(store)
    later = now() + timedelta(hours=1)
    reason = WaitingReason.DELIVERY
    store.claims.park(
        Parking(held.id, held.claim.epoch, held.seq, 0, reason, f"the forge answered 503 {HOSTILE}", later, tries=3)
    )
    page = open_page(f"orders/{held.id}")
    shown = page.get_by_role("region", name="Delivery")
    expect(shown).to_contain_text(re.compile(r"the forge answered 503 RLOgnp\.eralodPDF; try 3 at .*:\d\d"))
    shown.get_by_role("button", name="Try now").click()
    expect(shown.get_by_role("button", name="Try now")).to_have_count(0)
    assert store.orders.get(held.id).status is OrderStatus.QUEUED


def test_nobody_delivers_the_work_of_others_without_the_right(store: Store, open_page: OpenPage) -> None:
    held = on_git(store)
    held.finish("Mended.", delivery=GitDelivery(why="3 commits by others"))
    page = open_page(f"orders/{held.id}", who=add_person(store, "Mia", Role.MEMBER))
    shown = page.get_by_role("region", name="Delivery")
    expect(shown).to_contain_text("3 commits by others")
    button = shown.get_by_role("button", name="Deliver again…")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "It is not yours: this is for operators and admins.")


CRON = """([source, asked]) => {
    const { cronInWords, spanInWords } = new Function(`${source}; return { cronInWords, spanInWords };`)();
    return asked.map((each) => (typeof each === "number" ? spanInWords(each) : cronInWords(each)));
}"""


def test_timetables_are_told_in_words(open_page: OpenPage) -> None:
    words = {
        "30 2 * * *": "each day at 02:30",
        "30 2 * * 1-5": "on Monday to Friday, at 02:30",
        "0 6,18 * 3 sun": "on Sunday, in March, at 06:00 and 18:00",
        "*/15 9-17 * * MON-FRI": "on Monday to Friday, every 15 minutes, in hour 9 to 17",
        "0 */2 * * *": "at minute 0, every 2 hours",
        "5 * * * *": "at minute 5, of each hour",
        "0 0 13 * 5": "on day 13 of the month or on Friday, at 00:00",
        "0 0 */2 * 1": "every 2 days of the month and on Monday, at 00:00",
        "0 9 * * MON#2": "on MON#2, at 09:00",
        "* * * * *": "every minute",
        "@daily": "",
        "0 0 0 1 1 1": "",
    }
    source = str((installed().room / "annex" / "cron.js").read_text()).replace("export ", "")
    told = open_page("").evaluate(CRON, [source, [*words, 60, 5_400, 86_400]])
    assert json.dumps(told) == json.dumps([*words.values(), "every minute", "every 90 minutes", "every day"])
