"""A browser, a service beside it, and a page that is signed in. Whatever the browser complains of fails the test."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from mcc.contracts.callers import OPERATOR
from mcc.feed.feed import Pace
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import Served
from tests.browser.door_seeds import FORGES, TRIGGER, TRIGGER_SECRET
from tests.processes import GROUP

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDE, PHONE = (1440, 900), (390, 844)

REFUSED = re.compile(r"status of (409|410)")
AWAY = re.compile(r"net::ERR_|status of 50\d")
"""What a browser says of a service that is not there."""

# Its 5 seconds are too few where other tests have the processors.
expect.set_options(timeout=30_000)

OpenPage = Callable[..., Page]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No more than two browsers at once: four of them take longer together, and what waits for a page waits in vain."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    files = sorted({item.path for item in here})
    for item in here:
        if item.get_closest_marker(GROUP) is None:
            item.add_marker(pytest.mark.group(f"browser {files.index(item.path) % 2}"))


def or_skip(missing: str) -> None:
    """In CI, what a test of the page needs has to be there."""
    if "CI" in os.environ:
        pytest.fail(missing)
    pytest.skip(missing)


class Browsers:
    """At most one browser, for all tests of this folder that follow each other."""

    def __init__(self) -> None:
        self._started: Browser | None = None
        self._stack = ExitStack()

    def one(self) -> Browser:
        """Skips where there is no Chromium."""
        if self._started is None or not self._started.is_connected():
            self.close()
            self._started = self._start()
        return self._started

    def close(self) -> None:
        self._started = None
        self._stack.close()

    def _start(self) -> Browser:
        if CHROMIUM is None:
            or_skip("there is no Chromium")
        playwright = self._stack.enter_context(sync_playwright())
        # Its own sandbox cannot be made by root, as whom tests in containers run.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        self._stack.callback(started.close)
        return started


BROWSERS = pytest.StashKey[Browsers]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Until it is closed, its event loop runs in this thread, and no other test may have one."""
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        item.session.stash.setdefault(BROWSERS, Browsers()).close()


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Browser:
    return request.session.stash.setdefault(BROWSERS, Browsers()).one()


@pytest.fixture
def store() -> Iterator[Store]:
    made = temporary_store()
    yield made
    made.close()


class Hooked(Served):
    trigger_secrets = MappingProxyType({"issues": (TRIGGER_SECRET,)})


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    settings = ServiceSettings.model_validate({"data_dir": tmp_path, "triggers": {"issues": TRIGGER}, "forges": FORGES})
    # A fifth as often as elsewhere: several tabs look for seconds, and each look costs.
    pace = Pace(poll_seconds=0.2, poll_without_hints_seconds=0.1)
    with Hooked(store, tmp_path, settings=settings, pace=pace) as service:
        yield service


@pytest.fixture
def expected() -> list[re.Pattern[str]]:
    """What a browser may complain of. What the service refuses (409, 410), it calls an error of its own."""
    return [REFUSED]


@pytest.fixture
def open_page(browser: Browser, served: Served, expected: list[re.Pattern[str]]) -> Iterator[OpenPage]:
    """`open_page(path, theme="dark", size=PHONE, who="person:…")`: the page at this address, signed in by a link."""
    complaints: list[str] = []
    contexts = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(known.search(message.text) for known in expected):
            complaints.append(f"{message.type}: {message.text} {message.location}")

    def opened(
        path: str = "",
        theme: str = "light",
        size: tuple[int, int] = WIDE,
        script: Path | None = None,
        who: str = OPERATOR,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if theme == "dark" else "light",
            # Colours on their way from one to the other have the contrast of neither.
            reduced_motion="reduce",
        )
        contexts.append(context)
        if script is not None:
            context.add_init_script(path=script)
        context.on("console", note)
        context.on("weberror", lambda thrown: complaints.append(f"thrown: {thrown.error}"))
        # As its page does it, which would be drawn three times until the one that is wanted is there.
        said = {"code": link(served, who).partition("#")[2]}
        context.request.post(f"{served.url}/api/v1/signin", data=said, fail_on_status_code=True)
        page = context.new_page()
        page.goto(f"{served.url}/{path}")
        page.wait_for_selector("nav.rail", state="attached")
        return page

    yield opened
    for context in contexts:
        # A request may still be on its way through one of them.
        context.unroute_all(behavior="ignoreErrors")
        context.close()
    assert complaints == []


def link(served: Served, who: str = OPERATOR) -> str:
    """A link that signs in once as this principal."""
    operator = {"Authorization": f"Bearer {served.token}"}
    made = httpx.post(f"{served.url}/api/v1/signin/links", json={"principal": who}, headers=operator)
    made.raise_for_status()
    return str(made.json()["url"])
