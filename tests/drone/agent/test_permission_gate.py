"""The permission gate: what is denied and why, what a person is asked, and that only what was approved runs."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import drone
from drone.agent.permission_gate import MAX_REQUESTS
from drone.agent.ports.inbox_item import SHOWN_BYTES, shown_arguments
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.report import Report
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.scripted import Author, Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, ToolFailed, tool
from mcc.contracts.approvals import AnyItem, ApprovalItem, NewDecision
from mcc.contracts.entry import Entry
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested
from mcc.contracts.journal import Outcome, ToolFinished, ToolStarted
from mcc.contracts.permission import PermissionRule
from mcc.contracts.shape import to_json
from mcc.redaction import Redactor

ORDER = "order-1"
ASK: dict[str, Any] = {"publish": "ask"}
PUBLISH = Line(calls=(call("publish", text="Hello"),))


@dataclass
class World:
    """A page that can be published, by calls that a person may have to approve."""

    said: Callable[[AnyItem], Any] = lambda item: True
    permission: dict[str, Any] = field(default_factory=lambda: dict(ASK))
    published: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    page: str = "page 1"
    items: list[AnyItem] = field(default_factory=list)
    journal: MemoryJournal = field(default_factory=lambda: MemoryJournal(ORDER))
    tools: tuple[Callable[..., object], ...] = ()
    anybody: bool = True
    limits: drone.Limits | None = None

    def _would(self, text: str) -> drone.Preview:
        if text == "broken":
            raise ToolFailed("There is nothing to publish.")
        return drone.Preview("text", f"{text} on {self.page}")

    @tool(effects="write", preview=_would)
    def publish(self, text: str) -> str:
        """Publish a text."""
        self.published.append(f"{text} on {self.page}")
        return "published"

    @tool(effects="write")
    def note(self, text: str) -> str:
        """Note a text."""
        self.noted.append(f"{text} after {len(self.published)}")
        return "noted"

    @tool(effects="read", idempotent=True)
    def look(self) -> str:
        """Look."""
        return self.page

    def answer(self, item: AnyItem) -> Any:
        self.items.append(item)
        return self.said(item)

    async def run(self, script: Iterable[Said] | Author, left: Iterable[Entry] | None = None) -> Report:
        definition = drone.AgentDefinition(name="master", prompt="You work.", permission=self.permission)
        self.model = ScriptedModel(script)
        agent = drone.Agent(
            definition,
            model=self.model,
            tools=FunctionTools([self.publish, self.note, self.look, *self.tools]),
            limits=self.limits,
        )
        tree = None if left is None else Tree.of(left)
        turn = agent.turn(self.journal, tree, self.answer if self.anybody else None)
        return await agent.run(Task("Go.", turn.root or root_record_id(ORDER)), turn)

    def facts(self, *kinds: type[Fact]) -> list[Any]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, kinds)]

    @property
    def told(self) -> list[str]:
        return [one.content for one in self.facts(ToolFinished)]


async def test_a_denied_call_has_no_effect_and_its_model_is_told_why() -> None:
    world = World(permission={"publish": (PermissionRule(then="deny", message="Publishing is for people."),)})
    assert (await world.run([PUBLISH, "done"])).completed
    assert world.published == [] and world.items == []
    [told] = world.told
    assert "publish" in told and "Publishing is for people" in told
    assert world.facts(ToolFinished)[0].outcome is Outcome.DENIED


async def test_an_allowed_call_runs_and_nobody_is_asked() -> None:
    world = World(permission={"*": "allow"})
    await world.run([PUBLISH, "done"])
    assert world.published == ["Hello on page 1"] and world.items == []
    assert world.facts(ToolStarted)[0].approval_id is None


async def test_an_approved_call_begins_after_its_decision_and_uses_it_up() -> None:
    world = World(said=lambda item: NewDecision(decision="approve", note="Fine."))
    await world.run([PUBLISH, "done"])
    assert world.published == ["Hello on page 1"]
    kinds = [entry.kind for entry in world.journal.entries]
    assert kinds.index("approval.requested") < kinds.index("approval.decided") < kinds.index("tool.started")
    [asked], [decided], [started] = (world.facts(one) for one in (ApprovalRequested, ApprovalDecided, ToolStarted))
    assert started.approval_id == asked.approval_id == decided.approval_id
    assert (decided.digest, decided.note, decided.why) == (asked.digest, "Fine.", asked.why)
    [item] = world.items
    assert isinstance(item, ApprovalItem)
    assert (item.tool, item.arguments, item.effects) == ("publish", {"text": "Hello"}, "write")
    assert item.preview is not None and item.preview.text == "Hello on page 1"
    assert item.why is not None and (item.why.layer, item.why.key) == ("agent", "publish")


async def test_a_call_that_a_person_denies_is_not_run_and_the_note_is_told() -> None:
    world = World(said=lambda item: NewDecision(decision="deny", note="Not before Monday."))
    await world.run([PUBLISH, "done"])
    assert world.published == [] and "Not before Monday." in world.told[0]
    assert [fact.approval_id for fact in world.facts(ToolStarted)] == [None]


async def test_where_nobody_can_be_asked_a_call_is_denied_at_once() -> None:
    world = World(anybody=False)
    await world.run([PUBLISH, "done"])
    assert world.published == [] and "nobody is asked" in world.told[0]
    assert world.facts(ApprovalRequested) == []


async def test_a_call_that_cannot_be_done_bothers_nobody() -> None:
    world = World()
    await world.run([Line(calls=(call("publish", text="broken"), call("publish", way="x"))), "done"])
    assert world.items == [] and world.published == []
    assert world.told[0] == "There is nothing to publish." and "`way` is not an argument" in world.told[1]


async def test_what_would_do_something_else_by_now_is_asked_anew_and_says_what_differs() -> None:
    world = World()

    def said(item: AnyItem) -> bool:
        if len(world.items) == 1:
            world.page = "page 2"
        return True

    world.said = said
    await world.run([PUBLISH, "done"])
    assert world.published == ["Hello on page 2"]
    first, second = world.items
    assert isinstance(first, ApprovalItem) and isinstance(second, ApprovalItem)
    assert first.again is None and first.digest != second.digest
    assert second.again is not None and "page 1" in second.again and "page 2" in second.again
    assert world.facts(ToolStarted)[0].approval_id == second.id


async def test_what_changes_between_the_approval_and_the_beginning_is_asked_anew() -> None:
    decided = asyncio.Event()

    @tool(effects="read")
    async def crawl() -> str:
        """Hold the only place until the call beside it is approved."""
        await decided.wait()
        world.page = "page 2"
        return "there"

    def said(item: AnyItem) -> bool:
        asyncio.get_running_loop().call_later(0.01, decided.set)
        return True

    world = World(said=said, tools=(crawl,), limits=drone.Limits(parallel_tool_calls=1))
    await world.run([Line(calls=(call("crawl"), call("publish", text="Hello"))), "done"])
    assert world.published == ["Hello on page 2"] and len(world.items) == 2


async def test_an_approval_that_stands_lets_the_next_call_like_it_run() -> None:
    world = World(said=lambda item: NewDecision(decision="approve", remember="order"))
    await world.run([PUBLISH, PUBLISH, Line(calls=(call("publish", text="Other"),)), "done"])
    assert len(world.published) == 3 and len(world.items) == 2
    assert [fact.approval_id is None for fact in world.facts(ToolStarted)] == [False, True, False]


async def test_a_call_that_is_never_twice_the_same_is_not_asked_for_ever() -> None:
    world = World()

    def said(item: AnyItem) -> bool:
        world.page = f"page {len(world.items) + 1}"
        return True

    world.said = said
    await world.run([PUBLISH, "done"])
    assert world.published == [] and len(world.items) == MAX_REQUESTS
    assert world.facts(ToolFinished)[0].outcome is Outcome.DENIED


async def test_ordered_calls_wait_behind_one_that_is_asked_for_and_others_do_not() -> None:
    going = asyncio.Event()
    looked = asyncio.Event()

    @tool(effects="read")
    async def see() -> str:
        """See."""
        looked.set()
        return "seen"

    async def said(item: AnyItem) -> bool:
        await looked.wait()
        assert world.noted == ["before after 0"]
        assert [one.name for one in world.facts(ToolStarted)] == ["note", "see"]
        going.set()
        return True

    world = World(said=said, tools=(see,))
    calls = (call("note", text="before"), call("publish", text="Hello"), call("note", text="behind"), call("see"))
    await world.run([Line(calls=calls), "done"])
    assert going.is_set() and world.noted == ["before after 0", "behind after 1"]


async def test_calls_side_by_side_are_asked_for_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    @tool(effects="network")
    async def fetch(url: str) -> str:
        """Fetch."""
        return url

    async def said(item: AnyItem) -> bool:
        await both.wait()
        return True

    world = World(said=said, permission={"fetch": "ask"}, tools=(fetch,))
    async with asyncio.timeout(5):
        await world.run([Line(calls=(call("fetch", url="a"), call("fetch", url="b"))), "done"])
    assert sorted(world.told) != [] and len(world.items) == 2


async def test_an_approver_that_breaks_lets_nothing_run() -> None:
    def said(item: AnyItem) -> bool:
        raise LookupError("no terminal")

    world = World(said=said)
    assert (await world.run([PUBLISH, "done"])).completed
    assert world.published == [] and "no terminal" in world.told[0]


async def test_a_call_is_taken_off_the_allowance_once_however_often_it_is_asked_for() -> None:
    world = World()

    def said(item: AnyItem) -> bool:
        world.page = "page 2" if len(world.items) < 3 else world.page
        return True

    world.said = said
    report = await world.run([PUBLISH, PUBLISH, "done"])
    assert report.usage.tool_calls == 2 and len(world.published) == 2


def author(ask: Any) -> Line:
    return PUBLISH if len(ask.messages) == 1 else Line("done")


def after(whole: World, left: list[Entry], **more: Any) -> World:
    """Another process that resumes the turn from these entries."""
    journal = MemoryJournal(ORDER, entries=left)
    journal.texts.update(whole.journal.texts)
    return World(journal=journal, **more)


async def test_a_turn_that_breaks_off_at_any_entry_publishes_at_most_once_for_each_approval() -> None:
    whole = World()
    await whole.run(author)
    entries = list(whole.journal.entries)
    assert whole.published == ["Hello on page 1"]
    for cut in range(1, len(entries)):
        left = entries[:cut]
        kinds = {entry.kind for entry in left}
        again = after(whole, left)
        assert (await again.run(author, left)).completed, cut
        assert again.published == ([] if "tool.started" in kinds else ["Hello on page 1"]), cut
        assert len(again.items) == (0 if "approval.decided" in kinds else 1), cut
        assert len(again.facts(ApprovalRequested)) == len(again.facts(ToolStarted)) == 1
        assert again.facts(ToolStarted)[0].approval_id == again.facts(ApprovalRequested)[0].approval_id
        lost = "tool.started" in kinds and "tool.finished" not in kinds
        assert again.facts(ToolFinished)[0].outcome is (Outcome.OUTCOME_UNKNOWN if lost else Outcome.OK), cut


async def test_what_was_approved_before_a_break_is_checked_again_after_it() -> None:
    whole = World()
    await whole.run(author)
    kinds = [entry.kind for entry in whole.journal.entries]
    left = whole.journal.entries[: kinds.index("approval.decided") + 1]
    again = after(whole, left, page="page 7", said=lambda item: False)
    await again.run(author, left)
    [item] = again.items
    assert isinstance(item, ApprovalItem) and item.again is not None and "page 7" in item.again
    assert again.published == []


def test_long_arguments_are_shown_cut_and_huge_ones_not_at_all() -> None:
    assert shown_arguments({"text": "a" * 3_000, "n": [1, {"deep": "b"}]}) == {
        "text": "a" * 2_000 + "[… 1,000 more characters]",
        "n": [1, {"deep": "b"}],
    }
    huge = shown_arguments({f"k{number}": "x" * 1_900 for number in range(1_000)})
    assert len(to_json(huge)) < SHOWN_BYTES and huge["k0"] == "[too long to be shown here]"
    nested: Any = "x"
    for _ in range(200):
        nested = [nested]
    assert len(to_json(shown_arguments({"nested": nested}))) < 200


async def test_secrets_in_a_preview_are_not_shown() -> None:
    world = World()
    world.page = "hush-hush-secret"
    definition = drone.AgentDefinition(name="master", prompt="You work.", permission=ASK)
    tools = drone.Redacted(FunctionTools([world.publish]), Redactor(["hush-hush-secret"]))
    agent = drone.Agent(definition, model=ScriptedModel([PUBLISH, "done"]), tools=tools)
    await agent.run("Go.", approver=world.answer)
    [item] = world.items
    assert isinstance(item, ApprovalItem) and item.preview is not None
    assert "hush" not in item.preview.text and world.published
