"""The files of the page: one script, one space of names, a build that changes with each of them."""

import re
from pathlib import Path

import pytest

from mcc.console.files import console_in, installed

IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([\w./@-]+)["']""")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    for name, text in {
        "templates/shell.html": "<!doctype html>",
        "island/app.js": 'import { Inbox } from "./inbox.js";',
        "island/inbox.js": 'import { h } from "./preact.js";\nexport const Inbox = h;',
        "annex/people.js": 'import { Inbox } from "../island/inbox.js";\nexport const People = Inbox;',
        "static/icon.svg": "<svg/>",
        "static/page.css": "body {}",
        "vendor/preact.js": "var n=1;export{n as h};",
        "vendor/preact.LICENSE": "MIT",
        "vendor/vendor.json": "[]",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_was_vendored_and_what_is_ours_is_one_script_and_the_annex_another(room: Path) -> None:
    console = console_in(room)
    assert console.scripts == ("app.js",)
    assert set(console.files) == {"app.js", "annex.js", "page.css", "icon.svg"}
    script = console.files["app.js"].content.decode()
    assert script == "const $preact=(()=>{var n=1;return{h:n}})();\nlet{h}=$preact;let ee=h;\nexport{ee};"
    assert console.files["annex.js"].content.decode() == 'import{ee}from"./app.js";let et=ee;'


@pytest.mark.parametrize("name", ["app.js", "annex.js"])
def test_a_name_that_two_files_have_is_refused(name: str, room: Path) -> None:
    (room / "static" / name).write_text("")
    with pytest.raises(ValueError, match=name):
        console_in(room)


@pytest.mark.parametrize(
    "name", ["templates/shell.html", "static/page.css", "vendor/preact.js", "island/inbox.js", "annex/people.js"]
)
def test_the_build_changes_with_each_file(room: Path, name: str) -> None:
    before = console_in(room).build
    assert re.fullmatch("[0-9a-f]{12}", before) and console_in(room).build == before
    (room / name).write_text(f"{(room / name).read_text()}\n0;")
    assert console_in(room).build != before


def test_the_build_changes_when_contents_move_between_files(room: Path) -> None:
    before = console_in(room).build
    (room / "static" / "page.css").rename(room / "static" / "main.css")
    assert console_in(room).build != before


def test_the_two_scripts_import_one_another_and_nothing_else() -> None:
    assert IMPORT.findall(installed().files["app.js"].content.decode()) == ["./annex.js"]
    assert IMPORT.findall(installed().files["annex.js"].content.decode()) == ["./app.js"]


def test_all_scripts_together_are_small_enough_to_be_loaded_at_once() -> None:
    console = installed()
    sizes = {name: len(console.files[name].compressed or b"") for name in console.scripts}
    assert 0 < sum(sizes.values()) <= 40 * 1024, sizes


def test_the_script_that_is_loaded_later_is_small_as_well() -> None:
    later = installed().files["annex.js"].compressed
    assert later is not None and 0 < len(later) <= 16 * 1024


def test_our_modules_are_short_enough_to_be_read() -> None:
    modules = sorted((Path(__file__).parents[3] / "mcc" / "console").glob("[ia]*/*.js"))
    assert {"app.js", "annex.js"} <= {module.name for module in modules}
    for module in modules:
        lines = module.read_text().splitlines()
        assert len(lines) <= 400, module.name
        assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == [], module.name
