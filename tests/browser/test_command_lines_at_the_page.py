"""`mcc login` as a person meets it: a code on the command line, the page that asks, and a token at the end."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from mcc.testing.served import Served
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.test_every_page import RUN
from tests.browser.test_every_page import axe as axe
from tests.forking import popen

MCC = [sys.executable, "-m", "mcc.cli.main"]
CODE = re.compile(r"/device .* the code ([A-Z]{4}-[A-Z]{4})$")
HOSTILE = "<img src=x onerror=alert(1)> \u202eecalp a ta ccm"


@pytest.fixture
def environment(served: Served, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "MCC_URL": served.url}


@contextmanager
def logging_in(environment: dict[str, str]) -> "Iterator[tuple[popen.Popen, str]]":
    """`mcc login` under way, and its code."""
    process = popen.Popen([*MCC, "login", "--name", "laptop"], env=environment, stdout=-1, stderr=-1, text=True)
    assert process.stderr is not None
    told = CODE.search(process.stderr.readline().strip())
    assert told is not None
    try:
        yield process, told[1]
    finally:
        process.communicate(timeout=60)


def test_a_command_line_is_let_in_by_its_code(open_page: OpenPage, environment: dict[str, str], axe: Path) -> None:
    page = open_page("device", script=axe)
    with logging_in(environment) as (process, code):
        page.get_by_label("The code that mcc login shows").fill(code.lower())
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("laptop, from 127.0.0.1, asks to act as you")
        assert page.evaluate(RUN) == []
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status")).to_contain_text("asks to act as you: approved.")
    assert process.returncode == 0
    me = popen.run([*MCC, "me"], env=environment, capture_output=True, text=True)
    assert "operator" in me.stdout and "'laptop'" in me.stdout


def test_who_denies_it_lets_nobody_in(open_page: OpenPage, environment: dict[str, str]) -> None:
    page = open_page("device")
    with logging_in(environment) as (process, code):
        page.get_by_label("The code that mcc login shows").fill(code)
        page.get_by_role("button", name="Look").click()
        page.get_by_role("button", name="Deny").click()
        expect(page.get_by_role("status")).to_contain_text("asks to act as you: denied.")
    assert process.returncode == 1


def test_a_hostile_name_is_text_and_a_wrong_code_is_told(open_page: OpenPage, served: Served, axe: Path) -> None:
    asked = httpx.post(f"{served.url}/api/v1/login/device", json={"client": HOSTILE})
    page = open_page("device", "dark", PHONE, axe)
    field = page.get_by_label("The code that mcc login shows")
    field.fill("BBBB-BBBB")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no command line waits with this code")
    field.fill(asked.json()["user_code"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("<img src=x onerror=alert(1)> RLOecalp")
    expect(page.locator("main img")).to_have_count(0)
    # What it calls itself stands out from what the page says: it could say something else about the address.
    expect(page.locator("main b")).to_have_text("<img src=x onerror=alert(1)> RLOecalp a ta ccm")
    assert page.evaluate(RUN) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # What is decided is what was looked at: no other code can be typed meanwhile.
    expect(field).to_have_count(0)
