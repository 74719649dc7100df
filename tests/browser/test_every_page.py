"""Every page, light and dark, wide and on a phone: drawn, without a complaint, and without a fault of accessibility."""

from pathlib import Path

import pytest

from mcc.contracts.callers import Role
from mcc.store.store import Store
from tests.browser.conftest import PHONE, WIDE, OpenPage, or_skip
from tests.browser.door_seeds import add_runs, add_schedule, deliver, seed_deliveries, seed_webhooks
from tests.browser.seeds import add_person, add_token, answer_usage, seed, seed_document

ROOT = Path(__file__).parents[2]
SHOWS = {
    "": "master asks for run_shell",
    "orders": "Explain this repository",
    "orders/new": "What is to be done",
    "orders/DONE": "It counts ducks.",
    "orders/DONE?tab=timeline": "Structure and entry points",
    "orders/DONE?tab=changes": "It changed nothing.",
    "orders/DONE?tab=journal": "agent.started",
    "orders/DONE?tab=calls": "model.started",
    "orders/ASKING": "Decide",
    "orders/QUEUED": "Translate the how-to pages",
    "orders?by=failure": "Nothing failed.",
    "sessions": "1 turn",
    "agents": "The agent master.",
    "tools": "read_file",
    "models": "offline",
    "orders/DONE/vs/ASKING": "It counts ducks.",
    "documents": "a dry valley",
    "documents/DOCUMENT": "bed-3",
    "documents/DOCUMENT?node=%2Fbed-1": "What grows without rain",
    "documents/DOCUMENT?node=%2Fbed-2": "Use steps of five.",
    "mcp-servers": "No MCP server.",
    "schedules": "on Monday to Friday, at 02:30",
    "schedules?id=SCHEDULE": "Report for {date}",
    "schedules?id=SCHEDULE&edit=1": "When as many are",
    "schedules?id=new": "each day at 02:30",
    "webhooks": "the receiver answered 410",
    "webhooks?id=WEBHOOK": "Rotate its secret",
    "triggers": "/hooks/forge/issues",
    "triggers?name=issues": "it tells of what this service wrote itself",
    "orders/DELIVERED": "opened by this delivery",
    "usage": "75 % from cache",
    "doctor": "mcc db upgrade",
    "drones": "at work, of 20 slots",
    "people": "Ada",
    "tokens": "the nightly job",
    "audit": "person.added",
    "me": "As the system",
    "device": "The code that mcc login shows",
}
"""A text of each page that is there once it is drawn."""

GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
RUN = """axe.run().then((found) => found.violations.map(
  (each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join(", ")}`))"""
RUN_ON_COLOURS = RUN.replace("axe.run()", "axe.run({ runOnly: ['color-contrast', 'link-in-text-block'] })")
"""In another theme, only these rules can find something else."""

EXAMINED = {
    "ok": True,
    "findings": [
        {"what": "database", "state": "warning", "detail": "", "advice": "mcc up makes it, or mcc db upgrade"}
    ],
    "repairs": [],
    "at": "2026-01-01T00:00:00Z",
}
"""What the page of the doctor is told here, where nobody has to look anew."""


@pytest.fixture(scope="session")
def axe() -> Path:
    kept = sorted((ROOT / ".venv").glob("axe-core-*.js"))
    if not kept:
        or_skip("axe-core is not there: scripts/axe-core says why")
    return kept[-1]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_page_is_drawn_and_axe_finds_nothing_in_either_theme(
    size: tuple[int, int], axe: Path, store: Store, open_page: OpenPage
) -> None:
    seeded, document = seed(store), seed_document(store)
    add_person(store, "Ada", Role.OPERATOR)
    add_token(store, "the nightly job")
    schedule, webhook = add_schedule(store), seed_webhooks(store)
    add_runs(store, schedule, seeded.done)
    seed_deliveries(store)
    named = {"DONE": seeded.done, "ASKING": seeded.asking, "QUEUED": seeded.queued, "DOCUMENT": document}
    named |= {"SCHEDULE": schedule, "WEBHOOK": webhook, "DELIVERED": deliver(store)}
    page = open_page("", "light", size, axe)
    answer_usage(page)
    page.route("**/api/v1/doctor", lambda route: route.fulfill(json=EXAMINED))
    found = {}
    for path, text in SHOWS.items():
        address = path
        for name, wanted in named.items():
            address = address.replace(name, wanted)
        page.emulate_media(color_scheme="light")
        page.evaluate(GO, f"/{address}")
        page.locator("main").get_by_text(text).first.wait_for()
        found[path, "light"] = page.evaluate(RUN)
        page.emulate_media(color_scheme="dark")
        found[path, "dark"] = page.evaluate(RUN_ON_COLOURS)
    assert {path: faults for path, faults in found.items() if faults} == {}
