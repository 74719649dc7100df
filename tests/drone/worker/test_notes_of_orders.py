"""Memory, plans and tasks: agents of two orders of one project use them on a real store."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from drone.agent.ports.journal import Fenced
from drone.agent.turns.toolset import Output, StartedCall
from drone.tools.frame.tool import FunctionTools
from drone.tools.notes import NO_INSTRUCTION, NOTE_TOOLS, OUT_OF_DATE, PENDING
from drone.worker.loop import AsyncStore
from drone.worker.order_ports import OrderNotes
from mcc.configuration.memory import Accepts, MemorySettings
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import Outcome
from mcc.contracts.notes import DecideNote
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.definitions.rights import TOOL_GROUPS
from mcc.store.store import Store
from mcc.store.work.notes import NoteStore
from mcc.testing import temporary_store


@dataclass
class Epoch:
    """The part of an order's journal that its notes use."""

    epoch: int

    def check_open(self) -> None: ...


@dataclass
class Agent:
    """An agent of a held order; each call has a new id, unless `again` names one."""

    order: WorkOrder
    tools: FunctionTools
    origin: Origin
    calls: list[str] = field(default_factory=list)

    async def uses(self, tool: str, /, *, again: str | None = None, **arguments: Any) -> Output:
        self.calls.append(again or fresh_id())
        return await self.tools.call(StartedCall(self.calls[-1], tool, arguments, self.origin))

    async def says(self, tool: str, /, **arguments: Any) -> str:
        output = await self.uses(tool, **arguments)
        assert not output.is_error, output.content
        return output.content


@dataclass
class Office:
    store: Store
    patient: AsyncStore
    accepts: Accepts = MemorySettings().accepts

    def agent(self, key: str | None = "the key of a workspace", **fields: Any) -> Agent:
        new = NewOrder.model_validate({"prompt": "do it", **fields})
        order = self.store.orders.place(new, by=Actor("someone")).order
        incarnation = str(uuid4())
        said = {"incarnation": incarnation, "name": "d", "pid": 7, "host": "h", "version": "1", "slots": 4}
        registration = Registration.model_validate({**said, "queues": ("default",)})
        self.store.leases.register(registration, lease_seconds=60)
        claim = self.store.claims.claim(order.id, incarnation=incarnation, claim_token="token", drone="d")
        assert claim is not None
        notes = OrderNotes(self.patient, Epoch(claim.epoch), order, key, lambda change: self.accepts(change))  # type: ignore[arg-type]
        return Agent(order, FunctionTools(NOTE_TOOLS, notes=notes), Origin(record_id=str(uuid4()), agent="general"))


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    store = temporary_store()
    patient = AsyncStore(store)
    yield Office(store, patient)
    patient.close()
    store.close()


async def test_another_order_finds_a_note_with_its_author_and_the_warning_that_it_is_no_instruction(
    office: Office,
) -> None:
    first, second = office.agent(), office.agent()
    assert await first.says("memory_write", name="build", content="make check takes a minute") == (
        "build is noted, version 1."
    )
    listed = await second.uses("memory_list")
    assert listed.untrusted is not False, "agents wrote it after reading what strangers wrote"
    assert listed.content.startswith(NO_INSTRUCTION)
    assert "- build (by general, last verified " in listed.content
    read = await second.says("memory_read", name="build")
    assert f"order {first.order.id}" in read and read.endswith("make check takes a minute")
    assert "make check" in await second.says("memory_search", query="CHECK")


async def test_the_same_content_verifies_a_note_and_other_content_makes_a_version(office: Office) -> None:
    agent = office.agent()
    await agent.says("memory_write", name="build", content="slow")
    assert await agent.says("memory_write", name="build", content="slow") == (
        "build is verified: it says this already."
    )
    assert await agent.says("memory_write", name="build", content="fast") == "build is noted, version 2."


async def test_a_call_that_a_lost_drone_completed_is_not_repeated(office: Office) -> None:
    agent = office.agent()
    await agent.says("task_create", title="Mend the build")
    again = await agent.uses("task_create", again=agent.calls[-1], title="Mend the build")
    assert again.content == "Task 1 is open."
    assert (await agent.says("task_list")).count("Mend the build") == 1


async def test_tasks_are_numbered_and_change_their_status(office: Office) -> None:
    agent = office.agent()
    await agent.says("task_create", title="Mend the build", detail="It fails since Monday.")
    await agent.says("task_create", title="Write the notes")
    assert await agent.says("task_update", id="1", status="done") == "Task 1 is done."
    listed = (await agent.says("task_list")).splitlines()
    assert listed[1].startswith("- 1 [done] Mend the build") and "since Monday" in listed[1]
    assert listed[2].startswith("- 2 [open] Write the notes")
    assert "Mend" not in await agent.says("task_list", status="open")


async def test_a_plan_is_written_and_read_whole(office: Office) -> None:
    agent = office.agent()
    await agent.says("plan_write", name="release", content="# Release\n\n1. Tag it")
    assert "- release" in await agent.says("plan_list") and "Release" in await agent.says("plan_list")
    assert (await agent.says("plan_read", name="release")).endswith("1. Tag it")


async def test_a_missing_note_is_answered_with_the_nearest_name(office: Office) -> None:
    agent = office.agent()
    await agent.says("memory_write", name="build", content="slow")
    for tool in ("memory_read", "memory_delete"):
        output = await agent.uses(tool, name="biuld")
        assert output.is_error and "Did you mean 'build'?" in output.content


@pytest.mark.parametrize("name", ["", "../etc", "a\nb", "x" * 101, "\u202eabc"])
async def test_an_invalid_name_is_refused_with_the_rule_for_names(office: Office, name: str) -> None:
    output = await office.agent().uses("memory_write", name=name, content="x")
    assert output.is_error and "A name has letters" in output.content


async def test_a_deleted_note_is_gone_for_agents(office: Office) -> None:
    agent = office.agent()
    await agent.says("memory_write", name="build", content="slow")
    assert await agent.says("memory_delete", name="build") == "build is deleted."
    assert "has no notes" in await agent.says("memory_list")
    assert "Nothing in this project's memory" in await agent.says("memory_search", query="slow")


async def test_an_agent_is_told_when_a_note_expires(office: Office) -> None:
    said = await office.agent().says("memory_write", name="build", content="slow", expires_days=2)
    assert "version 1, until 2" in said


async def test_orders_without_a_workspace_have_the_notes_of_their_session(office: Office) -> None:
    alone, other = office.agent(key=None), office.agent(key=None)
    await alone.says("memory_write", name="build", content="slow")
    assert "has no notes" in await other.says("memory_list")


async def test_a_cloned_repository_is_one_project_wherever_it_was_checked_out(office: Office) -> None:
    address = "https://git.example.org/team/shop"
    first = office.agent(key="one place", workspace=address)
    await first.says("plan_write", name="build", content="slow")
    assert "build" in await office.agent(key="another place", workspace=address).says("plan_list")
    said = await first.says("memory_write", name="build", content="slow")
    assert PENDING in said, "nobody on this machine wrote what a clone holds"


async def test_a_drone_that_lost_the_order_writes_no_note(office: Office) -> None:
    agent = office.agent()
    agent.tools = FunctionTools(
        NOTE_TOOLS,
        notes=OrderNotes(office.patient, Epoch(99), agent.order, "key", office.accepts),  # type: ignore[arg-type]
    )
    with pytest.raises(Fenced):
        await agent.uses("memory_write", name="build", content="slow")


async def test_a_memory_that_waits_is_marked_for_the_session_that_wrote_it(office: Office) -> None:
    office.accepts = MemorySettings(accept="people").accepts
    writer, other = office.agent(), office.agent()
    assert await writer.says("memory_write", name="build", content="make check") == (
        f"build is noted, version 1; it is {PENDING}."
    )
    for tool, asked in (("memory_list", {}), ("memory_search", {"query": "make"}), ("memory_read", {"name": "build"})):
        shown = await writer.uses(tool, **asked)
        assert PENDING in shown.content and "make check" in shown.content
        assert shown.tainted, "what nobody accepted taints whoever reads it"
        assert "make check" not in (await other.uses(tool, **asked)).content
    again = await writer.says("memory_write", name="build", content="make check")
    assert again == f"build says this already, in version 1, which is {PENDING}."
    office.store.notes.decide(
        DecideNote(project="the key of a workspace", name="build", version=1, decision="accept"), by=Actor("operator")
    )
    for agent in (writer, other):
        shown = await agent.uses("memory_read", name="build")
        assert "make check" in shown.content and PENDING not in shown.content and not shown.tainted


async def test_what_counts_is_shown_beside_what_waits(office: Office) -> None:
    agent = office.agent()
    await agent.says("memory_write", name="build", content="make check")
    office.accepts = MemorySettings(accept="people").accepts
    await agent.says("memory_write", name="build", content="make all")
    read = await agent.says("memory_read", name="build")
    assert read.index("make check") < read.index(PENDING) < read.index("make all")
    assert await agent.says("memory_write", name="build", content="make check") == "build says this already."
    assert await agent.says("memory_delete", name="build") == "build stays until a person agrees to delete it."
    assert "make check" in await office.agent().says("memory_read", name="build")


async def test_plans_and_tasks_wait_for_nobody(office: Office) -> None:
    office.accepts = MemorySettings(accept="people").accepts
    await office.agent().says("plan_write", name="release", content="Tag it")
    await office.agent().says("task_create", title="Tag it")
    assert "Tag it" in await office.agent().says("plan_list")
    assert "Tag it" in await office.agent().says("task_list")


async def test_a_rule_of_the_operator_accepts_some(office: Office) -> None:
    rule = 'name.startsWith("build") && agent == "general" && !tainted && size(text) < 100'
    office.accepts = MemorySettings(accept="rule", when=rule).accepts
    agent = office.agent()
    assert PENDING not in await agent.says("memory_write", name="build", content="make check")
    assert PENDING in await agent.says("memory_write", name="deploy", content="make check")
    assert PENDING in await agent.says("memory_write", name="build", content="x" * 100)


async def test_stale_memories_come_last_below_a_heading(office: Office) -> None:
    days = MemorySettings(stale_days=1e-9).stale_days
    stale = replace(office.store, notes=NoteStore(office.store.database, days))
    agent = office.agent()
    await agent.says("memory_write", name="a", content="make check")
    assert OUT_OF_DATE not in await agent.says("memory_list")
    office.patient.store = stale
    for tool, asked in (("memory_list", {}), ("memory_search", {"query": "make"}), ("memory_read", {"name": "a"})):
        shown = await agent.says(tool, **asked)
        assert shown.index(OUT_OF_DATE) < shown.index("make check")


async def test_without_a_service_there_are_no_notes() -> None:
    tools = FunctionTools(NOTE_TOOLS)
    output = await tools.call(StartedCall(fresh_id(), "memory_list", {}, Origin()))
    assert output.is_error and output.outcome is Outcome.ERROR and "an order of a service" in output.content


def test_every_tool_of_the_groups_is_there() -> None:
    groups = ("memory_read", "memory_write", "plans_read", "plans_write", "tasks_read", "tasks_write")
    assert {name for group in groups for name in TOOL_GROUPS[group]} == {spec.name for spec in _specs()}


def test_tools_that_read_are_in_a_group_that_reads() -> None:
    assert all((spec.effects == "read") == spec.group.endswith("_read") for spec in _specs())


def _specs() -> list[Any]:
    return list(FunctionTools(NOTE_TOOLS).specs())
