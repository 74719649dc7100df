"""Makes the pictures of the docs: `python -m tests.browser.pictures`, from seeded orders and a clock that is set.

Everything on them was written by a drone that is driven by hand, so that they can be made again after each change of
the page, and show the same.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mcc.contracts.blocks import TextBlock
from mcc.contracts.callers import Actor
from mcc.contracts.changes import ChangedFile, Changes
from mcc.contracts.entry import Origin
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked, ShownPreview
from mcc.contracts.journal import AgentFinished, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.permission import SavedRule, Why
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import Served
from tests.browser.conftest import CHROMIUM, PHONE, link
from tests.browser.seeds import child, child_of

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = (1280, 800)
COLOURS = 256
MOST_BYTES = 150_000

PATCH = """--- a/roman/convert.py
+++ b/roman/convert.py
@@ -8,9 +8,9 @@
 def to_roman(number: int) -> str:
-    if number > 3999:
-        raise ValueError(number)
+    if not 0 < number < 4000:
+        raise OutOfRange(f"{number} has no Roman numeral: 1 to 3999 have one")
     numeral = ""
     for value, letters in PAIRS:
-        while number > value:
+        while number >= value:
             numeral += letters
             number -= value
     return numeral
--- a/tests/test_convert.py
+++ b/tests/test_convert.py
@@ -20,2 +20,8 @@
 def test_four_is_written_by_subtraction() -> None:
     assert to_roman(4) == "IV"
+
+
+@pytest.mark.parametrize("number", [0, -1, 4000])
+def test_what_has_no_numeral_is_refused(number: int) -> None:
+    with pytest.raises(OutOfRange):
+        to_roman(number)
"""

ANSWER = """The four failing tests pass. `to_roman` compared with `>` where it had to compare with `>=`, so that
**each exact value lost its last letter**.

| tests | before | now |
| --- | --- | --- |
| `test_convert.py` | 4 of 31 fail | all pass |

Zero and negative numbers are refused as well, with a test for each."""


@dataclass(frozen=True, slots=True)
class Telling:
    """An order that is told step by step, each of which takes its time."""

    clock: FakeClock
    held: HeldOrder

    def says(self, text: str, seconds: float, origin: Origin | None = None, at_round: int = 1) -> None:
        self.held.write(ModelStarted(round=at_round, attempt=1, model="sonnet"), origin=origin)
        self.clock.advance(seconds)
        self.held.write(
            ModelReplied(
                round=at_round,
                attempt=1,
                model="sonnet",
                blocks=(TextBlock(text=text),),
                finish_reason="stop",
                usage=Usage(
                    input_tokens=4_300 * at_round,
                    cached_input_tokens=3_900 * at_round,
                    output_tokens=int(60 * seconds),
                    cost_usd=0.0031 * seconds,
                    model_calls=1,
                ),
                first_token_ms=640.0,
            ),
            origin=origin,
        )

    def calls(
        self, call_id: str, name: str, given: dict[str, object], seconds: float, content: str, origin: Origin
    ) -> None:
        self.held.write(
            ToolStarted(call_id=call_id, round=1, index=0, name=name, arguments=given, idempotent=True), origin=origin
        )
        self.clock.advance(seconds)
        self.held.write(
            ToolFinished(call_id=call_id, name=name, content=content, is_error=False, seconds=seconds), origin=origin
        )

    def hires(self, call_id: str, agent: str, title: str) -> Origin:
        self.held.write(
            ToolStarted(call_id=call_id, round=1, index=0, name=f"subagent_{agent}", arguments={}, idempotent=False)
        )
        return child_of(self.held, call_id, agent, title)

    def reports(self, call_id: str, agent: str, answer: str) -> None:
        origin = child(self.held, call_id, agent)
        self.held.write(AgentFinished(status=RecordStatus.COMPLETED, answer=answer), origin=origin)
        self.held.write(
            ToolFinished(call_id=call_id, name=f"subagent_{agent}", content=answer, is_error=False, seconds=30.0)
        )

    def ends(self, answer: str, changes: Changes | None = None) -> None:
        self.held.finish(answer, changes)
        self.clock.advance(20)


def begin(store: Store, clock: FakeClock, drone: HandDrone, prompt: str, *labels: str) -> Telling:
    new = NewOrder(prompt=prompt, labels=labels, model="sonnet")
    placed = store.orders.place(new, by=Actor("operator"), on_ask="wait").order
    clock.advance(2)
    held = drone.claim(placed.id)
    held.start()
    return Telling(clock, held)


def mended(store: Store, clock: FakeClock, drone: HandDrone) -> str:
    """An order that has ended, with two subagents, a diff and an answer."""
    told = begin(store, clock, drone, "Mend the failing tests of roman", "roman", "nightly")
    told.says("Four tests fail, all in `to_roman`. I have its rules looked up while I look at the code.", 6)
    scout = told.hires("hire-scout", "scout", "Find every caller of to_roman")
    told.says("I search for the callers first.", 4, scout)
    for number, name in enumerate(("convert.py", "cli.py", "dates.py")):
        told.calls(f"read-{number}", "read_file", {"path": f"roman/{name}"}, 0.6, "…", scout)
    review = told.hires("hire-review", "reviewer", "Check the rules of subtraction")
    told.says("Six pairs subtract: IV, IX, XL, XC, CD, CM.", 9, review)
    told.says("Three callers, and none of them passes zero.", 8, scout, at_round=2)
    told.reports("hire-scout", "scout", "Three callers.")
    told.calls("tests", "run_shell", {"command": "pytest -q tests/test_convert.py"}, 11, "31 passed", review)
    told.says("All 31 tests agree with the rules now.", 5, review, at_round=2)
    told.reports("hire-review", "reviewer", "The rules hold.")
    told.calls("edit", "edit_file", {"path": "roman/convert.py"}, 1.5, "done", told.held.master)
    told.says(ANSWER, 12, at_round=2)
    files = (
        ChangedFile(path="roman/convert.py", change="modified", added=3, removed=3),
        ChangedFile(path="tests/test_convert.py", change="modified", added=6),
    )
    diff = store.texts.keep(PATCH, owner=told.held.id)
    told.ends(ANSWER, Changes(workspace="/srv/roman", base="3f9c2d1a", branch="main", files=files, diff=diff))
    return told.held.id


def asking(store: Store, clock: FakeClock, drone: HandDrone) -> str:
    """An order whose agent asks for a command, and another one with a question."""
    told = begin(store, clock, drone, "Publish version 2.4 of wordwrap", "wordwrap")
    told.says("The tests pass and the changelog is written. What is left is the tag, and pushing it.", 7)
    command = "git tag -a v2.4.0 -m 'wordwrap 2.4.0' && git push origin v2.4.0"
    told.held.write(
        ApprovalRequested(
            approval_id="approval-1",
            call_id="push",
            tool="run_shell",
            arguments={"command": command, "timeout_seconds": 60},
            effects="execute",
            digest="digest-1",
            preview=ShownPreview(kind="text", text=command),
            why=Why(layer="operator", key="run_shell"),
            would_save=SavedRule(key="run_shell", when='args.command.startsWith("git tag")'),
        )
    )
    clock.advance(40)
    other = begin(store, clock, drone, "Explain the house to a newcomer", "docs")
    other.says("Two pages could hold it.", 5)
    other.held.write(
        QuestionAsked(
            question_id="question-1",
            call_id="ask",
            question="Which page shall it stand on?",
            choices=("docs/the-house.md", "docs/where-to-change.md"),
            default="docs/the-house.md",
        )
    )
    return told.held.id


def working(store: Store, clock: FakeClock, drone: HandDrone) -> str:
    """An order at work, with one subagent that has reported and one that has not."""
    told = begin(store, clock, drone, "Find out why cmark is slow on long lists", "cmark")
    told.says("I let one agent measure, and another one read what the parser does with each line.", 6)
    reader = told.hires("hire-reader", "scout", "Read how list items are parsed")
    told.says("I read the block parser.", 5, reader)
    for number, name in enumerate(("blocks.c", "node.c", "iterator.c", "utf8.c")):
        told.calls(f"parse-{number}", "read_file", {"path": f"src/{name}"}, 0.4, "…", reader)
    told.says("Each new line walks the whole chain of open lists: that is quadratic.", 9, reader, at_round=2)
    told.reports("hire-reader", "scout", "Quadratic in the depth.")
    meter = told.hires("hire-meter", "general", "Measure 10, 100 and 1,000 levels")
    told.says("First the three inputs, then five runs of each.", 4, meter)
    told.calls("make", "run_shell", {"command": "python bench/lists.py --levels 10,100,1000"}, 14, "…", meter)
    told.held.write(ModelStarted(round=2, attempt=1, model="sonnet"), origin=meter)
    clock.advance(3)
    return told.held.id


def seed(store: Store, clock: FakeClock) -> Mapping[str, str]:
    """Orders in all groups, by what they are for."""
    drone = HandDrone(store, agents=("master", "scout", "reviewer", "general"), models=("sonnet",))
    done = mended(store, clock, drone)
    for prompt in ("Translate the how-to pages into German", "List what changed since version 2.3"):
        told = begin(store, clock, drone, prompt, "docs")
        told.says("Done.", 21)
        told.ends("Done.")
    asks = asking(store, clock, drone)
    works = working(store, clock, drone)
    store.orders.place(NewOrder(prompt="Write the release notes", model="sonnet"), by=Actor("operator"), on_ask="wait")
    return {"DONE": done, "ASKS": asks, "WORKS": works}


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture `name`.png of the page at `path`, once `ready` has seen that it is drawn."""

    name: str
    path: str
    ready: Callable[[Page], None]
    theme: str = "light"
    size: tuple[int, int] = SIZE


def text(words: str) -> Callable[[Page], None]:
    return lambda page: expect(page.get_by_role("main").get_by_text(words).first).to_be_visible()


def approvable(page: Page) -> None:
    expect(page.get_by_role("button", name="Approve once").first).to_be_enabled()


def commented(page: Page) -> None:
    patch = page.get_by_role("region", name="Changes of roman/convert.py")
    patch.get_by_role("button", name="Comment on line 10").last.click()
    page.keyboard.insert_text("Say which range in the message of the other two as well.")
    page.get_by_role("button", name="Send as the next turn").wait_for()


SHOTS = (
    Shot("inbox", "", approvable),
    Shot("inbox-phone", "?item=approval-1", approvable, size=PHONE),
    Shot("orders", "orders", text("Write the release notes")),
    Shot("order", "orders/WORKS", text("First the three inputs")),
    Shot("order-dark", "orders/DONE", text("each exact"), theme="dark"),
    Shot("timeline", "orders/DONE?tab=timeline", text("Check the rules of subtraction")),
    Shot("changes", "orders/DONE?tab=changes", commented),
)


def main() -> int:
    if CHROMIUM is None:
        print("There is no Chromium: install it, and try again.", file=sys.stderr)
        return 2
    PLACE.mkdir(exist_ok=True)
    clock = FakeClock(datetime.now(UTC).replace(hour=9, minute=20, second=0, microsecond=0))
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = temporary_store(clock)
        orders = seed(store, clock)
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        with Served(store, Path(folder)) as served:
            for shot in SHOTS:
                take(browser, served, shot, orders, clock)
        browser.close()
        store.close()
    return 0


def take(browser: Browser, served: Served, shot: Shot, orders: Mapping[str, str], clock: FakeClock) -> None:
    context = browser.new_context(
        viewport={"width": shot.size[0], "height": shot.size[1]},
        color_scheme="dark" if shot.theme == "dark" else "light",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.clock.set_fixed_time(clock.now())
    page.goto(link(served))
    page.wait_for_selector("nav.rail", state="attached")
    path = shot.path
    for name, order_id in orders.items():
        path = path.replace(name, order_id)
    page.goto(f"{served.url}/{path}")
    shot.ready(page)
    file = PLACE / f"{shot.name}.png"
    page.screenshot(path=file)
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, optimize=True
        )
    size = file.stat().st_size
    print(f"{file.name}: {size:,} bytes")
    assert size <= MOST_BYTES, f"{file.name} is larger than {MOST_BYTES:,} bytes"
    context.close()


if __name__ == "__main__":
    raise SystemExit(main())
