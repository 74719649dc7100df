"""A Chromium that is signed in to an installation, and what it notes of itself while it shows a page."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from playwright.async_api import Browser, BrowserContext, CDPSession, Page, async_playwright

from benchmarks.service import Installation

SIZE = {"width": 1440, "height": 900}
GAP_MS = 25
"""A frame is dropped where two follow each other by more than this."""

NOTES = """
    window.noted = { first: null, gaps: [], shown: {} };
    new MutationObserver(() => {
        if (noted.first === null && document.querySelector(".line")) noted.first = performance.now();
        for (const entry of document.querySelectorAll(".entry:not([data-noted])")) {
            entry.dataset.noted = "";
            noted.shown[entry.id] ??= Date.now();
        }
    }).observe(document, { childList: true, subtree: true });
"""
"""When the first row of an order was there, in milliseconds since the address was asked for; when each item of the
inbox was there."""

FRAMES = """() => {
    noted.gaps = [];
    let before = performance.now();
    const next = (now) => { noted.gaps.push(now - before); before = now; requestAnimationFrame(next); };
    requestAnimationFrame(next);
}"""


@dataclass(frozen=True, slots=True)
class Work:
    """What a page's process has done so far: seconds of its main thread, bytes of its heap."""

    seconds: float
    heap: int


@dataclass
class Window:
    """A page, and the bytes that came over the network for it."""

    page: Page
    devtools: CDPSession
    bytes: int = 0
    requests: int = 0
    largest: int = 0

    @classmethod
    async def of(cls, context: BrowserContext) -> "Window":
        page = await context.new_page()
        window = cls(page, await context.new_cdp_session(page))
        window.devtools.on("Network.loadingFinished", window._finished)
        await window.devtools.send("Network.enable")
        await window.devtools.send("Performance.enable")
        return window

    def _finished(self, event: dict[str, float]) -> None:
        size = int(event["encodedDataLength"])
        self.bytes += size
        self.requests += 1
        self.largest = max(self.largest, size)

    async def work(self) -> Work:
        answer = await self.devtools.send("Performance.getMetrics")
        metrics = {metric["name"]: metric["value"] for metric in answer["metrics"]}
        return Work(metrics["TaskDuration"], int(metrics["JSHeapUsedSize"]))

    async def dropped(self, seconds: float) -> float:
        """The share of frames that are dropped during the next `seconds`."""
        await self.page.evaluate(FRAMES)
        await self.page.wait_for_timeout(1_000 * seconds)
        gaps: list[float] = await self.page.evaluate("noted.gaps")
        frames = 60 * seconds
        lost = sum(gap / (1_000 / 60) - 1 for gap in gaps if gap > GAP_MS)
        return lost / frames


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise RuntimeError("there is no Chromium: `make system-deps` installs it")
    async with async_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        yield await playwright.chromium.launch(executable_path=path, args=options)


async def signed_in(browser: Browser, here: Installation) -> BrowserContext:
    """A browser profile of its own that is signed in."""
    context = await browser.new_context(viewport={"width": SIZE["width"], "height": SIZE["height"]})
    await context.add_init_script(NOTES)
    page = await context.new_page()
    await page.goto(here.client.post("/signin/links", json={}).raise_for_status().json()["url"])
    await page.wait_for_selector("nav.rail")
    await page.close()
    return context


def origin(here: Installation) -> str:
    return str(here.client.base_url).partition("/api/")[0]
