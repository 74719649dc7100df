"""Whatever agents, tools and models write is text: it draws nothing, runs nothing, loads nothing, hides nothing."""

import json
import re
import sys
import unicodedata

from playwright.sync_api import expect

from mcc.contracts.invisible import count_invisible
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.browser.conftest import OpenPage
from tests.browser.seeds import call, place, say

HOSTILE = (
    "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>",
    "[a](javascript:document.title='taken') ![b](https://pictures.example/b.png)",
    "<svg onload=document.title='taken'>",
    "\x1b[31mred\x1b[0m \u202ecod.exe",
    "اسم المستخدم שם",
    "😀" * 10_000,
    "x" * 1_000_000,
)


def test_hostile_texts_are_shown_as_texts(store: Store, open_page: OpenPage) -> None:
    held = HandDrone(store).claim(place(store, HOSTILE[0]))
    held.start()
    for number, text in enumerate(HOSTILE, 1):
        say(held, text, at_round=number)
        call(held, f"call-{number}", HOSTILE[2], {"path": text[:5_000]}, text)
    held.finish(HOSTILE[1])
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{page.url}orders/{held.id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x")
    page.get_by_role("log").get_by_text("اسم").first.wait_for()
    for fold in page.get_by_role("log").locator("summary").all():
        fold.click()
    assert page.title() == "Order · MCC"
    assert page.locator("#app img, #app script, #app svg[onload], #app a[href^=javascript]").count() == 0
    assert [url for url in asked if "example" in url] == []


def test_the_page_marks_the_same_characters_as_hidden_as_the_service_counts(open_page: OpenPage) -> None:
    page = open_page()
    module = page.evaluate("document.querySelector('script[type=module]').src")
    source = page.evaluate("(url) => fetch(url).then((answer) => answer.text())", module)
    body, flags = re.search(r"=/(\(\?!\[ .+?)/(gu);", source).groups()  # type: ignore[union-attr]
    by_page = page.evaluate(
        """([body, flags, last]) => {
            const hidden = new RegExp(body, flags.replace("g", ""));
            const found = [];
            for (let code = 0; code <= last; code += 1) if (hidden.test(String.fromCodePoint(code))) found.push(code);
            return found;
        }""",
        [body, flags, sys.maxunicode],
    )
    by_service = {code for code in range(sys.maxunicode + 1) if count_invisible(chr(code))}
    # Characters that one of the two, of an older Unicode, does not know yet are hidden for it.
    unknown = {code for code in by_service if unicodedata.category(chr(code)) == "Cn"}
    assert set(by_page) - unknown == by_service - unknown
    assert json.dumps(sorted(set(by_page) - by_service)) == "[]"
