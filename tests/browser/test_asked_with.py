"""What a model call was asked with, in the page: its parts fold, are text, and are marked as far as cached."""

import json

from playwright.sync_api import expect

from mcc.contracts.blocks import blocks_of
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.browser.conftest import OpenPage
from tests.browser.seeds import place

HOSTILE = "<img src=x onerror=document.title='taken'>\u202e"


def test_a_call_shows_what_it_was_asked_with(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, HOSTILE))
    tools = [{"name": "read_file", "description": "Reads.", "parameters": {}}]
    held.start(setup=json.dumps({"system": "Be brief. " * 100, "tools": tools}))
    used = Usage(model_calls=1, input_tokens=100, cached_input_tokens=50)
    for number in (1, 2):
        held.write(
            ModelStarted(round=number, attempt=1, model="offline"),
            ModelReplied(
                round=number, attempt=1, model="offline", blocks=blocks_of("Word."), finish_reason="stop", usage=used
            ),
        )
    page = open_page(f"orders/{held.id}?tab=calls")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    calls = page.locator("details.journal")
    expect(calls).to_have_count(2)
    # Entries of other kinds follow the last call; there is nothing to go on to.
    expect(page.get_by_role("button", name="Go on")).to_have_count(0)
    calls.nth(1).locator("summary").first.click()
    parts = calls.nth(1).locator("details")
    expect(parts.locator("summary")).to_have_text(["system", "tools", "user 3", "assistant 5"])
    assert [url.rpartition("/")[2] for url in asked if "/calls/" in url] == ["6"], "only what is looked at is asked for"
    marked = parts.evaluate_all("(parts) => parts.map((part) => part.classList.contains('cached'))")
    assert marked == [True, False, False, False], "half of it was in the cache, and the system prompt is more than that"
    parts.nth(2).locator("summary").click()
    expect(parts.nth(2)).to_contain_text("<img src=x onerror=document.title='taken'>RLO")
    assert page.locator("#app img").count() == 0
