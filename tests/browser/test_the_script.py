"""The scripts as they are sent: with short names, but for those that mean something of a browser's."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mcc.console.files import installed
from mcc.console.joining import joined
from tests.browser.conftest import AWAY, OpenPage

CONSOLE = Path(__file__).parents[2] / "mcc" / "console"
NAMES = """() => {
    const names = [];
    for (let of = window; of; of = Object.getPrototypeOf(of)) names.push(...Object.getOwnPropertyNames(of));
    return names;
}"""


def test_no_name_of_a_browser_is_taken_for_one_of_ours(open_page: OpenPage) -> None:
    island, annex = (
        {module.stem: module.read_text() for module in (CONSOLE / room).glob("*.js")} for room in ("island", "annex")
    )
    ours = joined(island) + joined(annex, before=island)
    sent = "".join(installed().files[name].content.decode() for name in ("app.js", "annex.js"))
    names = set(open_page().evaluate(NAMES))
    assert {"history", "document"} < names
    stood = {name for name in names if re.search(rf"(?<![.\w'\"#/-]){re.escape(name)}\b(?!['\"/-])", ours)}
    declared = r"(?:(?:const|let|function|class) [^=;(]*|[(,{{\[]\s*){}\s*[,)}}\]=(]"
    stood = {name for name in stood if not re.search(declared.format(re.escape(name)), ours)}
    assert {"fetch", "location"} < stood
    assert {name for name in stood if not re.search(rf"\b{re.escape(name)}\b", sent)} == set()


@pytest.fixture
def expected() -> list[re.Pattern[str]]:
    """Here a script is away."""
    return [AWAY]


def test_the_annex_is_loaded_with_the_first_of_its_pages_and_its_absence_is_told(open_page: OpenPage) -> None:
    page = open_page("")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.reload()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert "app.js" in asked and "annex.js" not in asked
    page.route("**/annex.js", lambda route: route.abort())
    page.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("status")).to_contain_text("cannot be loaded")
    page.unroute("**/annex.js")
    page.get_by_role("button", name="Load it again").click()
    expect(page.get_by_text("No order ended in these days.")).to_be_visible()
    page.get_by_role("link", name="Drones").click()
    expect(page.get_by_role("main")).to_contain_text("No drone is there")
    assert asked.count("annex.js") == 2
