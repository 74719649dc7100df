"""The libraries that the page brings along: what was pinned, with licences, and importable without anything else."""

import hashlib
import json
import re
from importlib.resources import files
from typing import TypedDict

from scripts.vendor import PACKAGES, as_page_module

CONSOLE = files("mcc.console")
VENDOR = CONSOLE / "vendor"
IMPORTS = re.compile(r"""\b(?:from|import)\s*\(?\s*["']([\w./@-]+)["']""")


class Listed(TypedDict):
    name: str
    version: str
    license: str
    integrity: str
    file: str
    sha256: str


def listing() -> list[Listed]:
    modules: list[Listed] = json.loads((VENDOR / "vendor.json").read_text("utf-8"))
    return modules


def test_each_vendored_module_is_the_one_that_was_packed_from_the_pinned_package() -> None:
    pinned = {
        (package.name, package.version, f"sha512-{package.integrity}", file)
        for package in PACKAGES
        for file in package.modules.values()
    }
    assert {(module["name"], module["version"], module["integrity"], module["file"]) for module in listing()} == pinned
    for module in listing():
        assert hashlib.sha256((VENDOR / module["file"]).read_bytes()).hexdigest() == module["sha256"]


def test_each_vendored_package_has_its_licence_beside_it_and_no_file_is_there_that_nobody_listed() -> None:
    names = {module["name"] for module in listing()}
    expected = {module["file"] for module in listing()} | {f"{name}.LICENSE.txt" for name in names} | {"vendor.json"}
    assert {entry.name for entry in VENDOR.iterdir()} == expected


def test_every_import_of_the_page_names_one_of_its_files() -> None:
    rooms = {"island": ("vendor", "island", "annex"), "annex": ("annex",), "vendor": ("vendor",)}
    sources = {
        room: {
            entry.name: entry.read_text("utf-8") for entry in (CONSOLE / room).iterdir() if entry.name.endswith(".js")
        }
        for room in rooms
    }
    assert len(sources["vendor"]) == len(listing())
    # Of the annex, the island loads the one script.
    beside = {room: {f"./{name}" for each in rooms[room] for name in sources[each]} for room in rooms}
    beside["annex"] |= {f"../island/{name}" for name in sources["island"]}
    missing = {
        (name, imported)
        for room, files in sources.items()
        for name, source in files.items()
        for imported in IMPORTS.findall(source)
        if imported not in beside[room]
    }
    assert missing == set()


def test_a_packed_module_imports_relatively_and_names_no_source_map() -> None:
    source = 'import{h}from"preact";export{h as k};\n//# sourceMappingURL=hooks.mjs.map'
    assert as_page_module(source) == 'import{h}from"./preact.js";export{h as k};\n'
