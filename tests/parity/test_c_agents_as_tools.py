"""Section C: agents as tools, depth, reuse, steering, budgets. One test for each thing such systems do."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import drone
from drone.agent.ports.model import (
    Ask,
    ModelError,
)
from drone.agent.turns.toolset import Output, StartedCall
from drone.models.retry import Fallback, Retrying, RetryPolicy
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.schema import ToolDeclarationError
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from drone.tools.frame.wrappers import Redacted
from mcc.contracts.callers import Actor
from mcc.contracts.control import Control
from mcc.contracts.fence import unfenced
from mcc.contracts.fold import Fold
from mcc.contracts.journal import BudgetWarned, ControlApplied
from mcc.contracts.order import NewOrder
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.redaction import Redactor
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.transcript.messages import ToolSpec, UserMessage
from tests.parity.world import World, calls, piece, team


def helper(script: Sequence[Said], **more: Any) -> drone.Agent:
    definition = drone.AgentDefinition(name="helper", prompt="Help.")
    return drone.Agent(definition, model=ScriptedModel(script), **more)


async def test_an_agent_is_an_ordinary_tool_of_one_input_or_of_a_schema() -> None:
    plain = drone.SubAgentTool(drone.SubAgent(helper(["It is 4."]), name="maths", description="Does sums."))
    fields = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    shaped = drone.SubAgentTool(
        drone.SubAgent(helper(["Sunny."]), name="weather", description="Knows the weather."), parameters=fields
    )
    (spec,) = plain.specs()
    assert (spec.name, spec.parameters["required"]) == ("maths", ["input"])
    lines: list[Said] = [calls(call("maths", input="2+2"), call("weather", city="Bern")), "4, and sunny."]
    journal = drone.MemoryJournal("order")
    agent = helper(lines, tools=[plain, shaped])
    report = await agent.run("What is it?", agent.turn(journal))
    assert report.text == "4, and sunny."
    record = journal.fold.record()
    assert record is not None
    assert [(child.answer, child.depth) for child in record.subagent_history] == [("It is 4.", 1), ("Sunny.", 1)]


async def test_a_session_keeps_the_transcript_over_several_sends_until_it_is_reset() -> None:
    agent = helper(["Hello Ann.", "You are Ann.", "I do not know."])
    session = drone.SubAgentSession(drone.SubAgent(agent, name="helper", description="Helps."))
    assert (await session.send("I am Ann.")).text == "Hello Ann."
    assert (await session.send("Who am I?")).text == "You are Ann."
    assert session.turns == 2 and len(session.transcript) == 4
    assert [entry.kind for entry in session.journal.entries].count("agent.reused") == 1
    session.reset()
    assert session.turns == 0 and len(session.transcript) == 0
    await session.send("Who am I?")
    assert isinstance(agent.model, ScriptedModel) and len(agent.model.asks[-1].messages) == 1


async def test_beyond_the_depth_nobody_is_asked_and_the_error_has_a_name(tmp_path: Path) -> None:
    nest = "---\nname: nest\nspawns: [nest]\ntools: [delegation]\nresult: text\n---\nDelegate."
    master = "---\nname: master\nspawns: [nest]\ntools: [delegation]\nresult: text\n---\nDelegate."

    def play(task: str, replies: int, ask: Ask) -> Said:
        can = {one.name for one in ask.tools}
        if replies or "subagent" not in can:
            return "The bottom."
        return calls(call("subagent", agent_type="nest", prompt=f"{task}+"))

    world = World(tmp_path, play, agents={"nest": nest, "master": master})
    assert (await world.run("go", "depth=2")).status is OrderStatus.SUCCEEDED
    assert max(record.depth for record in world.records()) == 2
    never = drone.SubAgent(helper([], limits=drone.Limits(depth=0)))
    with pytest.raises(drone.DepthExceeded):
        await never.invoke("go")
    with pytest.raises(drone.DepthExceeded):
        await drone.SubAgentSession(never).send("go")
    inner = drone.SubAgentTool(drone.SubAgent(helper([]), name="inner", description="Never asked."))
    outer = helper([calls(call("inner", input="x")), "Refused."], tools=[inner], limits=drone.Limits(depth=0))
    journal = drone.MemoryJournal("order")
    assert (await outer.run("go", outer.turn(journal))).text == "Refused."
    record = journal.fold.record()
    assert record is not None and record.subagent_history == ()
    assert "depth" in next(unfenced(step.content) for step in record.steps if step.kind == "tool")


async def test_start_completion_reuse_and_failure_of_a_child_are_entries_on_the_parents_journal(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "bad":
            return ModelError("The provider is gone.")
        if task != "go":
            return f"Answer {replies}."
        if replies == 0:
            return calls(*(call("subagent", agent_type="explore", prompt=prompt) for prompt in ("good", "bad")))
        if replies == 1:
            child = next(one for one in world.record.subagent_history if one.prompt == "good")
            return calls(call("subagent_send", record_id=child.id, message="And more?"))
        return "Done."

    world = World(tmp_path, play)
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    ends = {(record.prompt, record.status.value) for record in world.records() if record.depth == 1}
    assert ends == {("good", "completed"), ("bad", "failed"), ("And more?", "completed")}
    assert world.kinds().count("agent.started") == world.kinds().count("agent.finished") == 4
    assert world.kinds().count("agent.reused") == 1
    again = next(record for record in world.records() if record.prompt == "And more?")
    assert again.continues == next(record.id for record in world.records() if record.prompt == "good")


async def test_a_childs_limit_is_an_error_result_that_says_it_stopped_short(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else calls(call("subagent", agent_type="explore", prompt="look"))
        return Line(text=f"Saw {replies}.", calls=(call("list_files", path=".", depth=replies + 1),))

    world = World(tmp_path, play)
    assert (await world.run("go", "subagent_rounds=2")).status is OrderStatus.SUCCEEDED
    (result,) = world.results()
    assert result.is_error and "rounds" in result.content and "Saw 2." in result.content


async def test_steering_at_checkpoints_pause_resume_inject_redirect_and_narrow() -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look."""
        await steering.pause()
        await steering.steer("Count the cats.", redirect=True)
        await steering.steer("Mind the dog.", remove_tools=("look",))
        resumed.append(asyncio.create_task(steering.resume()))
        return "a garden"

    resumed: list[asyncio.Task[object]] = []
    model = ScriptedModel([calls(call("look")), "Two cats."])
    agent = drone.Agent(drone.AgentDefinition(name="helper", prompt="Help."), model=model, tools=[look])
    journal = drone.MemoryJournal("order")
    turn = agent.turn(journal)
    steering = drone.Steering(turn)
    assert (await agent.run("Look around.", turn)).text == "Two cats."
    applied = [entry.data for entry in journal.entries if isinstance(entry.data, ControlApplied)]
    assert [fact.control for fact in applied] == ["pause", "resume", "steer", "steer"]
    assert all(control.applied_seq is not None for control in steering.asked)
    last = model.asks[-1]
    steered = last.messages[-1]
    assert isinstance(steered, UserMessage) and steered.text.endswith("Z] Mind the dog.")
    assert [spec.name for spec in last.tools] == ["look"]
    assert "Count the cats." in steered.text and "task" in steered.text


async def test_steering_sets_metadata_which_tools_see_and_models_do_not() -> None:
    seen: list[dict[str, object]] = []

    @tool(idempotent=True)
    async def look(context: ToolContext) -> str:
        """Look."""
        await steering.set_metadata({"ticket": "OPS-18", "owner": None})
        seen.append({**context.metadata})
        return "a garden"

    model = ScriptedModel([calls(call("look")), calls(call("look")), "Done."])
    agent = drone.Agent(drone.AgentDefinition(name="helper", prompt="Help."), model=model, tools=[look])
    journal = drone.MemoryJournal("order")
    turn = agent.turn(journal)
    steering = drone.Steering(turn)
    running = asyncio.create_task(agent.run("Look around.", turn))
    early = await steering.set_metadata({"ticket": "OPS-17", "owner": "ann", "tries": [1]})
    assert (await running).text == "Done."
    assert seen == [{"ticket": "OPS-18", "tries": [1]}] * 2
    record = journal.fold.record()
    assert record is not None and record.metadata == seen[-1]
    (first, *_) = [entry for entry in journal.entries if isinstance(entry.data, ControlApplied)]
    assert isinstance(first.data, ControlApplied)
    assert early.applied_seq == first.seq and first.data.metadata == {"ticket": "OPS-17", "owner": "ann", "tries": [1]}
    assert not any("OPS-1" in str(ask) for ask in model.asks)
    full = await drone.Steering(agent.turn(drone.MemoryJournal("other"))).set_metadata({"k": "x" * 16_000})
    assert "16,000" in str(full.refused)


async def test_steering_does_only_what_its_allowlist_names_but_for_the_cancel_of_all() -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look."""
        asked.extend([await steering.pause(), await steering.remove_tools("look")])
        asked.append(await steering.set_metadata({"a": 1}))
        return "a garden"

    asked: list[Control] = []
    agent = helper([calls(call("look")), "Done."], tools=[look])
    turn = agent.turn(drone.MemoryJournal("order"))
    steering = drone.Steering(turn, takes=["set_metadata"])
    assert (await agent.run("Look around.", turn)).text == "Done."
    assert [control.refused is None for control in asked] == [False, False, True]
    assert "takes no pause" in str(asked[0].refused) and "set_metadata" in str(asked[0].refused)
    nothing = agent.turn(drone.MemoryJournal("another"))
    cancelled = await drone.Steering(nothing, takes=()).cancel(reason="enough")
    assert cancelled.applied_seq is not None
    with pytest.raises(ValueError, match="stop"):
        drone.Steering(nothing, takes=["stop"])


async def test_cancelling_one_child_leaves_its_siblings_and_the_parent_is_told(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Any:
        if task == "slow":
            return _never()
        if task == "cancel":
            slow = next(record.id for record in world.records() if record.prompt == "slow")
            return _cancelled(turn, slow)
        if task == "go":
            return "Done." if replies else calls(*(call("helper", input=prompt) for prompt in ("slow", "cancel")))
        return "good"

    world = World(tmp_path, play)
    helper_tool = drone.SubAgentTool(
        drone.SubAgent(drone.Agent(drone.AgentDefinition(name="helper", prompt="Help."), model=world.model))
    )
    master = drone.Agent(drone.AgentDefinition(name="master", prompt="Lead."), model=world.model, tools=[helper_tool])
    world.journal = drone.MemoryJournal("order")
    turn = master.turn(world.journal)
    report = await master.run("go", turn)
    assert report.completed
    ends = {record.prompt: record.status for record in world.records() if record.depth == 1}
    assert ends == {"slow": RecordStatus.CANCELLED, "cancel": RecordStatus.COMPLETED}
    results = {step.is_error: unfenced(step.content) for step in world.results()}
    assert "cancelled" in results[True]


async def _cancelled(turn: Any, record_id: str) -> Said:
    control = await drone.Steering(turn).cancel(record_id=record_id)
    return f"cancelled at {control.applied_seq}"


class Silent:
    def delta(self, kind: str, text: str, call: object = None) -> None: ...

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    async def retried(self, error: str, wait_seconds: float) -> None:
        self.told.append(("retried", wait_seconds))

    async def fell_back(self, source: str, target: str, error: str) -> None:
        self.told.append((f"{source}→{target}", 0.0))

    async def not_sent(self, what: str) -> None:
        pass

    def billed(self, usage: Usage) -> None:
        pass

    async def go_ahead(self) -> None:
        pass


async def test_retry_with_growing_waits_then_fall_back_in_order_all_journaled() -> None:
    now, waits = 0.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        waits.append(seconds)

    down = ScriptedModel([ModelError("busy", retryable=True, status=503)] * 9, name="first/model")
    ladder = Retrying(down, policy=RetryPolicy(10.0), clock=lambda: now, sleep=sleep, jitter=lambda: 1.0)
    model = Fallback([ladder, ScriptedModel(["Here."], name="second/model")])
    agent = drone.Agent(drone.AgentDefinition(name="helper", prompt="Help."), model=model)
    journal = drone.MemoryJournal("order")
    report = await agent.run("go", agent.turn(journal))
    assert report.text == "Here." and waits == [0.5, 1.0, 2.0, 4.0]
    kinds = [entry.kind for entry in journal.entries]
    assert kinds.count("model.retried") == 4 and kinds.count("model.fell_back") == 1


async def test_retry_after_is_honoured_and_an_empty_cut_reply_is_asked_again_with_twice_the_room() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    lines: list[Said] = [
        ModelError("slow down", retryable=True, retry_after=90.0, status=429),
        Line(text="", finish_reason="length", usage=Usage(output_tokens=2_000, model_calls=1)),
        "Here.",
    ]
    inner, ask = ScriptedModel(lines), Ask(system="", messages=[], seconds=1_000)
    reply = await Retrying(inner, sleep=sleep, jitter=lambda: 0.0).ask(ask, Silent())
    assert (reply.text, waits) == ("Here.", [90.0])
    assert inner.asks[-1].max_output_tokens == 4_000
    late = ScriptedModel([ModelError("slow down", retryable=True, retry_after=500.0, status=429)])
    with pytest.raises(ModelError):
        await Retrying(late, sleep=sleep).ask(ask, Silent())


@tool
async def open_door(door: str) -> str:
    """Open a door.

    Args:
        door: which one.
    """
    raise LookupError(f"there is no door {door}")


async def test_unknown_tools_and_bad_arguments_go_back_to_the_model() -> None:
    lines: list[Said] = [
        calls(call("opn_door", door="x"), call("open_door", dor="x"), call("open_door", door="x")),
        "No door.",
    ]
    journal = drone.MemoryJournal("order")
    agent = helper(lines, tools=[open_door])
    assert (await agent.run("go", agent.turn(journal))).text == "No door."
    record = journal.fold.record()
    assert record is not None
    unknown, wrong, broke = [unfenced(step.content) for step in record.steps if step.kind == "tool"]
    assert "open_door" in unknown and "door" in wrong and "there is no door x" in broke


async def test_an_identical_failure_is_nudged_at_the_second_time_and_halts_at_the_third() -> None:
    journal = drone.MemoryJournal("order")
    agent = helper([calls(call("open_door", door="x"))] * 9, tools=[open_door])
    report = await agent.run("go", agent.turn(journal))
    assert report.status is RecordStatus.BLOCKED and report.rounds == 3
    assert [getattr(e.data, "name", "") for e in journal.entries if e.kind == "agent.step"].count("nudge") == 1


async def test_any_failure_is_nudged_at_the_fourth_and_halts_at_the_sixth() -> None:
    lines = [calls(call("open_door", door=f"{number}")) for number in range(9)]
    report = await helper(lines, tools=[open_door]).run("go")
    assert report.status is RecordStatus.BLOCKED and report.rounds == 6


async def test_the_same_output_halts_at_the_fourth() -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look."""
        return "a garden"

    report = await helper([calls(call("look"))] * 9, tools=[look]).run("go")
    assert report.status is RecordStatus.BLOCKED and report.rounds == 4


async def test_a_result_of_more_than_fifty_thousand_tokens_is_a_preview_with_a_handle(tmp_path: Path) -> None:
    @tool(idempotent=True)
    async def dump() -> str:
        """Say everything."""
        return "begin " + "x" * 300_000 + " end"

    journal = drone.MemoryJournal("order")
    agent = helper([calls(call("dump")), "Long."], tools=[dump])
    await agent.run("go", agent.turn(journal))
    record = journal.fold.record()
    assert record is not None
    step = next(step for step in record.steps if step.kind == "tool")
    assert (
        len(unfenced(step.content)) < 21_000
        and unfenced(step.content).startswith("begin")
        and step.artifact is not None
    )
    assert len(journal.texts[step.artifact]) == 300_010


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("output_tokens=120", FailureReason.LIMIT_REACHED),
        ("total_tokens=2700", FailureReason.BUDGET_EXHAUSTED),
        ("cost_usd=0.15", FailureReason.BUDGET_EXHAUSTED),
        ("input_tokens=2100", FailureReason.BUDGET_EXHAUSTED),
        ("cached_input_tokens=400", FailureReason.BUDGET_EXHAUSTED),
        ("reasoning_tokens=70", FailureReason.BUDGET_EXHAUSTED),
    ],
)
async def test_budgets_hold_for_the_whole_tree_with_a_warning_before(
    limit: str, reason: FailureReason, tmp_path: Path
) -> None:
    spent = Usage(
        input_tokens=90, cached_input_tokens=20, output_tokens=5, reasoning_tokens=3, model_calls=1, cost_usd=0.006
    )

    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go" and replies == 0:
            pieces = [call("subagent", agent_type="explore", prompt=prompt) for prompt in "ab"]
            return Line(calls=tuple(pieces), usage=spent)
        return Line(calls=(call("list_files", path=".", depth=replies + 1),), usage=spent)

    world = World(tmp_path, play)
    outcome = await world.run("go", limit)
    assert (outcome.status, outcome.reason) == (OrderStatus.FAILED, reason)
    (warned, *_) = [entry.data for entry in world.entries if isinstance(entry.data, BudgetWarned)]
    assert warned.used is not None and 0.7 <= warned.used / warned.allowed < 1 and not warned.landing
    name, _, most = limit.partition("=")
    allowed = float(most) / (spent.total_tokens if name == "total_tokens" else getattr(spent, name))
    calls_made = world.record.usage_total.model_calls
    assert calls_made <= allowed + 3, "at most one call over for each running agent"


@pytest.mark.parametrize("policy", ["collect", "fail_fast", "quorum", "best_effort"])
async def test_map_reduce_collects_fails_fast_takes_a_quorum_or_does_its_best(policy: str, tmp_path: Path) -> None:
    failed = asyncio.Event()

    async def waits() -> Said:
        if policy == "fail_fast":
            await asyncio.Event().wait()
        return "good"

    def play(task: str, replies: int, ask: Ask) -> Any:
        if task == "bad":
            failed.set()
            return ModelError("It is down.")
        if task == "slow":
            return waits() if policy != "quorum" else _never()
        if task != "go":
            return "good"
        more: dict[str, Any] = {"quorum": 1} if policy == "quorum" else {}
        return "Done." if replies else team(piece("bad"), piece("slow"), piece("third"), policy=policy, **more)

    world = World(tmp_path, play)
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    (step,) = world.results()
    agents = json.loads(unfenced(step.content))["agents"]
    assert [agent["id"] for agent in agents] == ["bad", "slow", "third"]
    statuses = [agent["status"] for agent in agents]
    assert statuses[0] == "blocked" and "It is down." in agents[0]["summary"]
    if policy in ("collect", "best_effort"):
        assert statuses[1:] == ["completed", "completed"]
        assert step.is_error is (policy == "collect")
    if policy == "quorum":
        assert statuses[2] == "completed" and statuses[1] == "blocked" and not step.is_error
    if policy == "fail_fast":
        assert statuses[1] == "blocked" and step.is_error


async def _never() -> Said:
    await asyncio.Event().wait()
    return ""


async def test_tools_that_write_run_in_the_order_of_the_reply_and_all_others_side_by_side() -> None:
    both, order = asyncio.Event(), list[str]()
    waiting = 0

    @tool(idempotent=True, effects="read")
    async def look(at: str) -> str:
        """Look.

        Args:
            at: where
        """
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both.set()
        await both.wait()
        return at

    @tool(effects="write")
    async def put(what: str) -> str:
        """Put.

        Args:
            what: it
        """
        order.append(f"begin {what}")
        for _ in range(9 if what == "a" else 1):
            await asyncio.sleep(0)
        order.append(f"end {what}")
        return what

    wanted = calls(call("put", what="a"), call("look", at="x"), call("put", what="b"), call("look", at="y"))
    assert (await helper([wanted, "Done."], tools=[look, put]).run("go")).text == "Done."
    assert order == ["begin a", "end a", "begin b", "end b"]


async def test_a_tool_caps_what_a_model_is_told_of_its_result_and_the_whole_is_kept() -> None:
    @tool(idempotent=True, effects="read", max_result=500)
    async def dump() -> str:
        """Say everything."""
        return "begin " + "x" * 3_000 + " end"

    journal = drone.MemoryJournal("order")
    agent = helper([calls(call("dump")), "Long."], tools=[dump])
    await agent.run("go", agent.turn(journal))
    record = journal.fold.record()
    assert record is not None
    step = next(step for step in record.steps if step.kind == "tool")
    told = unfenced(step.content)
    assert len(told) <= 500 and told.startswith("begin x") and told.endswith(" end") and step.artifact is not None
    assert len(journal.texts[step.artifact]) == 3_010


def test_what_only_reads_is_decided_by_what_a_tool_says_of_itself() -> None:
    with pytest.raises(ToolDeclarationError, match="only reads, and this one may write"):
        tool(group="workspace_read", effects="write")
    with pytest.raises(ToolDeclarationError, match="max_result"):
        tool(max_result=10)

    @tool(group="workspace_read", idempotent=True, seconds=5, effects="read")
    async def look() -> str:
        """Look."""
        return ""

    @tool(effects="irreversible")
    async def send() -> str:
        """Send."""
        return ""

    reads, sends = FunctionTools([look, send]).specs()
    assert (reads.only_reads, reads.may_write, reads.is_ordered, reads.seconds) == (True, False, False, 5)
    assert (sends.only_reads, sends.may_write, sends.is_ordered) == (False, True, True)


class Growing:
    """A tool set that has one tool more after each call."""

    def __init__(self) -> None:
        self.count = 1

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(ToolSpec(f"step_{number}", "Go on.", {"type": "object"}) for number in range(self.count))

    async def call(self, call: StartedCall) -> Output:
        self.count += 1
        return Output("The key is topsecret-1234.")


async def test_redaction_and_dynamic_tools_are_wrappers_and_tool_sets_like_others() -> None:
    model = ScriptedModel([calls(call("step_0")), calls(call("step_1")), "Done."])
    agent = drone.Agent(
        drone.AgentDefinition(name="helper", prompt="Help."),
        model=model,
        tools=Redacted(Growing(), Redactor(["topsecret-1234"])),
    )
    journal = drone.MemoryJournal("order")
    assert (await agent.run("go", agent.turn(journal))).completed
    assert [len(ask.tools) for ask in model.asks] == [1, 2, 3]
    assert not any("topsecret" in entry.model_dump_json() for entry in journal.entries)


async def test_a_response_cache_is_a_model_around_a_model() -> None:
    model = ScriptedModel(["Once.", "Twice."])
    cached = drone.CachedModel(model)
    agent = drone.Agent(drone.AgentDefinition(name="helper", prompt="Help."), model=cached)
    journals = [drone.MemoryJournal(f"order {number}") for number in range(2)]
    reports = [await agent.run("the same", agent.turn(journal)) for journal in journals]
    assert [report.text for report in reports] == ["Once.", "Once."] and len(model.asks) == 1
    first, second = (journal.fold.record() for journal in journals)
    assert first is not None and second is not None
    (step,) = [step for step in second.steps if step.kind == "model"]
    assert step.request_id.startswith("cached:") and second.usage.model_calls == 0 and first.usage.model_calls == 1
    assert (await agent.run("another")).text == "Twice."


async def test_structured_output_is_asked_for_by_a_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    lines = [calls(call("submit_result", count="three")), calls(call("submit_result", count=3))]
    world = World(tmp_path, lambda task, replies, ask: lines[replies])
    outcome = await world.run("go", result_schema=schema)
    assert outcome.status is OrderStatus.SUCCEEDED and outcome.result == {"count": 3}


async def test_the_journal_of_an_order_is_durable_history_from_which_the_record_folds(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else team(piece("a"), piece("b"))
        return f"{task} is here."

    world = World(tmp_path, play)
    await world.run()
    store = temporary_store()
    placed = store.orders.place(NewOrder(prompt="go"), by=Actor("ann"))
    held = HandDrone(store).claim(placed.order.id)
    for entry in world.entries:
        held.write(entry.data, origin=entry.origin)
    kept = store.journal.read(placed.order.id, limit=10_000)
    assert [entry.seq for entry in kept] == list(range(1, len(kept) + 1))
    record = Fold.of(placed.order.id, kept).record()
    assert record is not None
    assert [child.answer for child in record.subagent_history] == ["a is here.", "b is here."]
    assert _timeless(record) == _timeless(world.record)


def _timeless(record: ChatRecord) -> Any:
    """What a record says, without times and numbers of entries, which a journal of its own has."""
    own = {"order_id", "session_id", "seq", "at", "started_at", "finished_at", "seconds", "number", "index"}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in own}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return plain(record.model_dump(mode="json"))
