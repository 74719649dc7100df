"""The script as it is sent: with short names, but for those that mean something of a browser's."""

import re
from pathlib import Path

from mcc.console.files import installed
from mcc.console.joining import joined
from tests.browser.conftest import OpenPage

ISLAND = Path(__file__).parents[2] / "mcc" / "console" / "island"
NAMES = """() => {
    const names = [];
    for (let of = window; of; of = Object.getPrototypeOf(of)) names.push(...Object.getOwnPropertyNames(of));
    return names;
}"""


def test_no_name_of_a_browser_is_taken_for_one_of_ours(open_page: OpenPage) -> None:
    ours = joined({module.stem: module.read_text() for module in ISLAND.glob("*.js")})
    sent = installed().files["app.js"].content.decode()
    names = set(open_page().evaluate(NAMES))
    assert {"history", "document"} < names
    stood = {name for name in names if re.search(rf"(?<![.\w'\"#/-]){re.escape(name)}\b(?!['\"/-])", ours)}
    declared = r"(?:(?:const|let|function|class) [^=;(]*|[(,{{\[]\s*){}\s*[,)}}\]=(]"
    stood = {name for name in stood if not re.search(declared.format(re.escape(name)), ours)}
    assert {"fetch", "location"} < stood
    assert {name for name in stood if not re.search(rf"\b{re.escape(name)}\b", sent)} == set()
