"""`subagents_run`: parallel or in a chain, with four policies, each failure reported at its place."""

import asyncio
import json
from collections import Counter

import pytest

from drone.agent.ports.journal import MemoryJournal, Unwritable
from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.agent.spending.budget import Budget
from drone.agent.subagents.assignments import BadAssignment, assignments_of
from drone.agent.subagents.offers import offers
from drone.agent.turns.turn import Turn
from drone.models.scripted import Author, Line, Said, by_prompt, call
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fence import fenced, unfenced
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import AgentStarted
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import RecordStatus
from tests.drone.agent.crowds import CRASHES, ORDER, Tree, piece, several
from tests.faults.simulation.leaping import leaping


def play(first: Line, **children: Said) -> Author:
    """The root agent's first reply, and the reply of the child with each task; `found <task>` by default."""

    def write(prompt: str, replies: int) -> Said:
        if prompt == "master":
            return "Done." if replies else first
        return children.get(prompt, f"found {prompt}")

    return by_prompt(write)


def never() -> Line:
    return Line(text="Too late.", gate=asyncio.Event())


async def test_reports_come_in_the_order_of_the_call_whoever_is_first() -> None:
    gate = asyncio.Event()

    def write(prompt: str, replies: int) -> Said:
        if prompt == "master":
            return "Done." if replies else several(piece("slow"), piece("quick"))
        if prompt == "quick":
            gate.set()
        return Line(text=f"found {prompt}", gate=gate)

    tree = Tree(by_prompt(write))
    assert (await tree.run()).text == "Done."
    assert [(one["id"], one["status"], one["summary"]) for one in tree.told()] == [
        ("slow", "completed", "found slow"),
        ("quick", "completed", "found quick"),
    ]
    (result,) = tree.results()
    assert not result.is_error
    assert result.subagent_ids == tuple(child_record_id(result.call_id, index) for index in range(2))
    assert {child.id for child in tree.record().subagent_history} == set(result.subagent_ids)
    assert {child.call_id for child in tree.record().subagent_history} == {result.call_id}


async def test_of_five_one_breaks_one_meets_its_limit_one_is_slow_and_every_report_is_there() -> None:
    """The slow one keeps its place while the others share the remaining two."""
    gate = asyncio.Event()

    def write(prompt: str, replies: int) -> Said:
        match prompt:
            case "master":
                five = [piece(name) for name in ("slow", "breaks", "endless", "good", "last")]
                return "Done." if replies else several(*five)
            case "slow":
                return Line(text="found slow", gate=gate)
            case "breaks":
                raise KeyError("choices")
            case "endless":
                return Line(text=f"Step {replies}.", calls=(call("subagent", agent_type="explore", prompt="more"),))
            case "last":
                gate.set()
        return f"found {prompt}"

    tree = Tree(by_prompt(write), Limits(subagent_rounds=2))
    assert (await tree.run()).completed
    told = {one["id"]: one for one in tree.told()}
    assert [one["id"] for one in tree.told()] == ["slow", "breaks", "endless", "good", "last"]
    assert {name for name, one in told.items() if one["status"] == "completed"} == {"slow", "good", "last"}
    assert "KeyError" in told["breaks"]["summary"]
    assert "rounds" in told["endless"]["summary"] and "Step 2." in told["endless"]["summary"]
    assert tree.results()[0].is_error
    assert len(tree.record().subagent_history) == 5


async def test_no_more_than_max_concurrency_work_at_once_and_the_others_wait() -> None:
    at_work, most = set[str](), 0
    two = asyncio.Event()

    async def author(ask: Ask) -> Said:
        nonlocal most
        prompt = ask.messages[0].text  # type: ignore[union-attr]
        if prompt == "master":
            return "Done." if len(ask.messages) > 1 else several(*map(piece, "abcde"), max_concurrency=2)
        at_work.add(prompt)
        most = max(most, len(at_work))
        if len(at_work) == 2:
            two.set()
        await two.wait()
        at_work.discard(prompt)
        return "found"

    tree = Tree(author, Limits(concurrency=4))
    assert (await tree.run()).completed
    assert most == 2 and len(tree.record().subagent_history) == 5


@pytest.mark.parametrize("places", [1, 2, 3])
async def test_a_deep_tree_never_waits_for_itself_and_keeps_the_trees_cap(places: int) -> None:
    at_work, most = Counter[str](), 0

    async def author(ask: Ask) -> Said:
        nonlocal most
        prompt = ask.messages[0].text  # type: ignore[union-attr]
        if prompt != "master":
            at_work[prompt] += 1
            most = max(most, at_work.total())
            await asyncio.sleep(0)
            at_work[prompt] -= 1
        if len(ask.messages) > 1 or len(prompt) > len("master") + 2:
            return f"found {prompt}"
        below = several(piece("x", task=prompt + "x"), piece("y", task=prompt + "y"))
        return Line(calls=(*below.calls, call("subagent", agent_type="explore", prompt=prompt + "z")))

    tree = Tree(author, Limits(concurrency=places, depth=3))
    assert (await tree.run()).completed
    assert most <= places
    assert tree.turn.budget.tree.spawned == 3 + 9 + 27


async def test_fail_fast_ends_the_others_and_keeps_what_was_finished() -> None:
    agents = [piece(name) for name in ("good", "slow", "bad", "late")]
    script = play(several(*agents, policy="fail_fast", max_concurrency=2), slow=never(), bad=ModelError("It is down."))
    tree = Tree(script)
    assert (await tree.run()).completed
    good, slow, bad, late = tree.told()
    assert (good["status"], good["summary"]) == ("completed", "found good")
    assert bad["status"] == "blocked" and "It is down." in bad["summary"]
    assert slow["status"] == "blocked" and "'bad' did not complete" in slow["summary"]
    assert late["status"] == "blocked" and late["summary"] == "Called off, because 'bad' did not complete."
    assert "record_id" in slow and "record_id" not in late
    statuses = {child.prompt: child.status for child in tree.record().subagent_history}
    assert statuses == {
        "good": RecordStatus.COMPLETED,
        "slow": RecordStatus.CANCELLED,
        "bad": RecordStatus.FAILED,
    }
    assert tree.results()[0].is_error


async def test_a_child_that_is_called_off_ends_with_all_that_hangs_below_it() -> None:
    first = several(piece("outer"), piece("bad"), policy="fail_fast")
    gate = asyncio.Event()

    def write(prompt: str, replies: int) -> Said:
        match prompt:
            case "master":
                return "Done." if replies else first
            case "outer":
                return several(piece("inner"))
            case "inner":
                gate.set()
                return never()
        return Line(error=ModelError("It is down."), gate=gate)

    tree = Tree(by_prompt(write))
    assert (await tree.run()).completed
    outer = next(child for child in tree.record().subagent_history if child.prompt == "outer")
    assert [outer.status, *(child.status for child in outer.subagent_history)] == [RecordStatus.CANCELLED] * 2


async def test_quorum_ends_the_others_once_enough_have_completed() -> None:
    agents = [piece(name) for name in ("slow", "bad", "one", "two", "late")]
    first = several(*agents, policy="quorum", quorum=2, max_concurrency=2)
    tree = Tree(play(first, slow=never(), bad=ModelError("It is down.")))
    assert (await tree.run()).completed
    status = {one["id"]: one["status"] for one in tree.told()}
    assert status == {"slow": "blocked", "bad": "blocked", "one": "completed", "two": "completed", "late": "blocked"}
    assert "2 of the agents have completed" in tree.told()[0]["summary"]
    assert not tree.results()[0].is_error
    assert [child.prompt for child in tree.record().subagent_history] == ["slow", "bad", "one", "two"]


async def test_a_quorum_that_was_missed_is_an_error_with_every_report() -> None:
    first = several(piece("bad"), piece("good"), policy="quorum", quorum=2)
    tree = Tree(play(first, bad=ModelError("It is down.")))
    assert (await tree.run()).completed
    assert tree.results()[0].is_error
    assert [one["status"] for one in tree.told()] == ["blocked", "completed"]


@pytest.mark.parametrize(("policy", "is_error"), [("collect", True), ("best_effort", False), (None, True)])
async def test_who_runs_on_after_a_failure_is_reported_and_the_policy_says_whether_it_is_an_error(
    policy: str | None, is_error: bool
) -> None:
    first = several(piece("bad"), piece("good"), policy=policy, max_concurrency=1)
    tree = Tree(play(first, bad=ModelError("It is down.")))
    assert (await tree.run()).completed
    assert [one["status"] for one in tree.told()] == ["blocked", "completed"]
    assert tree.results()[0].is_error is is_error


async def test_a_chain_hands_each_report_to_the_next() -> None:
    first = several(piece("a"), piece("b", task="after [{previous}]"), piece("c", task="{previous}!"), mode="chain")
    tree = Tree(play(first, a="one {previous} {0}"))
    assert (await tree.run()).completed
    first_child, second, third = tree.record().subagent_history
    before = fenced("one {previous} {0}", first_child.id)
    assert (first_child.prompt, second.prompt) == ("a", f"after [{before}]")
    assert third.prompt == f"{fenced(f'found after [{before}]', second.id)}!"
    assert not tree.results()[0].is_error


async def test_a_failure_in_the_middle_of_a_chain_ends_it_and_the_rest_is_reported_as_not_run() -> None:
    agents = [piece(name) for name in ("a", "bad", "c", "d")]
    tree = Tree(play(several(*agents, mode="chain"), bad=ModelError("It is down.")))
    assert (await tree.run()).completed
    a, bad, c, d = tree.told()
    assert (a["status"], bad["status"]) == ("completed", "blocked")
    assert c["summary"] == d["summary"] == "Not run, because 'bad' before it did not complete."
    assert [child.prompt for child in tree.record().subagent_history] == ["a", "bad"]
    assert tree.turn.budget.tree.spawned == 2


@pytest.mark.parametrize(
    ("asked", "agents", "note"),
    [
        (5, 5, "max_concurrency 5 was cut to 2: the order's limit concurrency."),
        (3, 3, "max_concurrency 3 was cut to 2: the order's limit concurrency."),
        (5, 2, None),
        (2, 5, None),
        (None, 5, None),
    ],
)
async def test_a_concurrency_that_the_order_cuts_is_told(asked: int | None, agents: int, note: str | None) -> None:
    tree = Tree(play(several(*map(piece, "abcde"[:agents]), max_concurrency=asked)), Limits(concurrency=2))
    assert (await tree.run()).completed
    assert json.loads(unfenced(tree.results()[0].content)).get("note") == note


async def test_the_time_of_each_agent_ends_that_one_and_keeps_what_the_others_brought() -> None:
    tree = Tree(play(several(piece("slow"), piece("quick"), item_seconds=0.2), slow=never()))
    assert (await tree.run()).completed
    slow, quick = tree.told()
    assert (slow["status"], quick["summary"]) == ("blocked", "found quick")
    assert "wall_seconds (0.2)" in slow["summary"]
    ended = next(one for one in tree.record().subagent_history if one.prompt == "slow")
    assert ended.status is RecordStatus.LIMIT_REACHED


async def test_the_time_of_the_whole_call_ends_who_works_and_lets_nobody_begin() -> None:
    asked = several(piece("quick"), piece("slow"), piece("late"), max_concurrency=1, total_seconds=0.2)
    tree = Tree(play(asked, slow=never()))
    assert (await tree.run()).completed
    quick, slow, late = tree.told()
    assert (quick["status"], slow["status"], late["status"]) == ("completed", "blocked", "blocked")
    assert "wall_seconds" in slow["summary"]
    assert late["summary"] == "Not run: the time of the whole call, total_seconds (0.2), is up."
    assert tree.turn.budget.tree.spawned == 2


@pytest.mark.parametrize("wrong", [0, -1, True, "5", 1e12])
def test_a_time_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(BadAssignment, match="item_seconds must be a number of seconds above 0"):
        assignments_of({"agents": [piece("a")], "item_seconds": wrong}, 5)


async def test_an_unknown_role_fails_for_itself_only() -> None:
    tree = Tree(play(several(piece("a", role="explorer"), piece("b"))))
    assert (await tree.run()).completed
    a, b = tree.told()
    assert a["status"] == "failed" and "'explorer'" in a["summary"] and "explore, general" in a["summary"]
    assert b["summary"] == "found b"
    assert tree.turn.budget.tree.spawned == 1


@pytest.mark.parametrize(
    ("broken", "words"),
    [({"model": "nobody"}, "There is no model 'nobody'."), ({"role": CRASHES}, "KeyError")],
)
async def test_who_cannot_be_hired_fails_for_itself_only(broken: dict[str, object], words: str) -> None:
    tree = Tree(play(several(piece("a", **broken), piece("b"))))
    assert (await tree.run()).completed
    a, b = tree.told()
    assert a["status"] == "failed" and words in a["summary"]
    assert b["status"] == "completed"


async def test_groups_and_model_of_an_entry_are_passed_on_to_whoever_hires() -> None:
    chosen = piece("a", allowed_tool_groups=["workspace_read", "workspace_reading"], model="fast")
    tree = Tree(play(several(chosen, piece("b", allowed_tool_groups=[], model=None))))
    assert (await tree.run()).completed
    assert [(wanted.groups, wanted.model) for wanted in tree.wanted] == [
        (("workspace_read", "workspace_reading"), "fast"),
        (None, None),
    ]


async def test_success_criteria_and_title_reach_the_child_and_its_record() -> None:
    tree = Tree(play(several(piece("a", title="The north", success_criteria=["It is found.", "It is named."]))))
    await tree.run()
    (child,) = tree.record().subagent_history
    assert child.prompt == "a\n\nYou are done when:\n- It is found.\n- It is named."
    assert child.title == "The north" == tree.told()[0]["display_name"]


async def test_more_agents_than_a_call_may_start_are_told_the_cap_and_none_is_started() -> None:
    tree = Tree(play(several(*(piece(f"a{number}") for number in range(12)))))
    assert (await tree.run()).completed
    (result,) = tree.results()
    assert result.is_error and "at most 5 agents, and this one asks for 12" in result.content
    assert tree.wanted == [] and tree.turn.budget.tree.spawned == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "agents must be a list of 1 to 5"),
        ({"agents": []}, "agents must be a list of 1 to 5"),
        ({"agents": "a"}, "agents must be a list of 1 to 5"),
        ({"agents": ["a"]}, "Agent 1: each agent is an object"),
        ({"agents": [piece("a"), piece("a")]}, "a is used twice"),
        ({"agents": [piece("a"), {"id": "b", "role": "explore"}]}, "Agent 2: task must be"),
        ({"agents": [piece("a" * 65)]}, "Agent 1: id must be a name of your own, up to 64"),
        ({"agents": [piece("a", tools=[])]}, "it does not know tools"),
        ({"agents": [piece("a", success_criteria=[1])]}, "success_criteria must be a list of texts"),
        ({"agents": [piece("a")], "mode": "serial"}, "mode must be one of parallel, chain"),
        ({"agents": [piece("a")], "mode": ["chain"]}, "mode must be one of parallel, chain"),
        ({"agents": [piece("a")], "max_concurrency": 0}, "max_concurrency must be a whole number"),
        ({"agents": [piece("a")], "max_concurrency": True}, "max_concurrency must be a whole number"),
        ({"agents": [piece("a")], "policy": "any"}, "policy must be one of collect, fail_fast, quorum, best_effort"),
        ({"agents": [piece("a")], "policy": "quorum"}, "how many of the 1 agents must complete"),
        ({"agents": [piece("a")], "policy": "quorum", "quorum": 2}, "how many of the 1 agents must complete"),
        ({"agents": [piece("a")], "quorum": 1}, "quorum goes with policy quorum"),
        ({"agents": [piece("a")], "wait": True}, "it does not know wait"),
        ({"agents": [piece("a", task="{previous}")], "mode": "chain"}, "leave {previous} out"),
        ({"agents": [piece("a"), piece("b", task="{previous}" * 900)], "mode": "chain"}, "{previous} 3 times at most"),
    ],
)
async def test_wrong_arguments_are_told_in_words_and_nobody_is_hired(arguments: dict[str, object], words: str) -> None:
    tree = Tree(play(Line(calls=(WantedCall("subagents_run", arguments),))))
    assert (await tree.run()).completed
    (result,) = tree.results()
    assert result.is_error and words in result.content
    assert tree.wanted == []


async def test_the_schema_for_models_names_what_a_model_can_judge_and_the_cap() -> None:
    tree = Tree(play(Line(text="Nothing to do.")), Limits(subagents_per_call=4))
    await tree.run()
    spec = next(spec for spec in tree.model.asks[0].tools if spec.name == "subagents_run")
    shown = json.loads(json.dumps(spec.parameters))
    agents = shown["properties"]["agents"]
    assert agents["maxItems"] == 4
    assert agents["items"]["properties"]["role"]["enum"] == ["explore", "general", CRASHES]
    assert set(agents["items"]["properties"]) == {"role", "task", "title", "success_criteria"}
    assert set(shown["properties"]) == {"agents", "mode"} and shown["required"] == ["agents"]
    chosen = offers({"explore": "Looks."}, 4, ["cheap", "dear"])[1].parameters["properties"]
    assert chosen["agents"]["items"]["properties"]["model"]["enum"] == ["cheap", "dear"]  # type: ignore[index]


def test_a_piece_without_an_id_is_named_by_its_place() -> None:
    asked = assignments_of({"agents": [{"role": "explore", "task": "a"}, {"role": "explore", "task": "b"}]}, 5)
    assert [agent.id for agent in asked.agents] == ["agent_1", "agent_2"] and asked.mode == "parallel"


async def test_a_fork_bomb_ends_orderly_within_the_spawns_of_the_tree() -> None:
    """Every agent requests five more, as long as it may."""

    def write(prompt: str, replies: int) -> Said:
        return "I stop here." if replies else several(*(piece(name, task=f"{prompt}{name}") for name in "abcde"))

    tree = Tree(by_prompt(write), Limits(spawns=30, depth=8))
    assert (await tree.run()).completed
    started = [entry for entry in tree.journal.entries if isinstance(entry.data, AgentStarted)]
    assert len(started) == 1 + 30 and tree.turn.budget.tree.spawned == 30
    assert max(entry.depth for entry in started) <= 8
    assert tree.record().usage_total.model_calls == 2 * 31
    everything = json.dumps([unfenced(result.content) for depth in range(9) for result in tree.results(depth)])
    assert "The limit spawns (30) is reached" in everything


async def test_at_the_depth_limit_the_call_is_denied_before_any_model_is_asked() -> None:
    tree = Tree(play(several(piece("a"))), Limits(depth=0))
    assert (await tree.run()).completed
    (result,) = tree.results()
    assert (result.outcome, result.content) == ("denied", "The limit depth (0) is reached: do this work yourself.")
    assert tree.wanted == [] and len(tree.model.asks) == 2


async def test_cancelling_one_child_leaves_its_siblings_and_is_told_in_its_place() -> None:
    gate = asyncio.Event()

    async def author(ask: Ask) -> Said:
        match ask.messages[0].text:  # type: ignore[union-attr]
            case "master":
                return "Done." if len(ask.messages) > 1 else several(piece("a"), piece("b"))
            case "a":
                gate.set()
                await asyncio.Event().wait()
        await gate.wait()
        (one,) = (child for child in tree.record_so_far() if child.prompt == "a")
        tree.turn.router.cancel(one.id, "not needed")
        return "found b"

    tree = Tree(author)
    assert (await tree.run()).completed
    a, b = tree.told()
    assert "not needed" in a["summary"] and b["status"] == "completed"


async def test_an_entry_of_a_child_that_cannot_be_written_ends_the_whole_tree() -> None:
    class Picky(MemoryJournal):
        async def write(self, origin: Origin, *facts: Fact) -> int:
            if origin.depth == 1 and any(isinstance(fact, ModelReplied) for fact in facts):
                raise Unwritable("no such character")
            return await super().write(origin, *facts)

    tree = Tree(play(several(piece("a"), piece("b"))))
    tree.turn = Turn.begun(Picky(ORDER), Budget(Limits()))
    with pytest.raises(Unwritable):
        await tree.run()


async def test_who_stops_the_turn_stops_all_of_them_and_is_not_swallowed() -> None:
    asked = asyncio.Event()

    async def author(ask: Ask) -> Said:
        if ask.messages[0].text == "master":  # type: ignore[union-attr]
            return several(*map(piece, "abcde"), max_concurrency=2)
        asked.set()
        await asyncio.Event().wait()
        return ""

    tree = Tree(author)
    running = asyncio.ensure_future(tree.run())
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await tree.journal.close(RecordStatus.CANCELLED, "stopped")
    assert {child.status for child in tree.record().subagent_history} == {RecordStatus.CANCELLED}


@leaping
async def test_when_the_wall_clock_ends_the_turn_its_children_are_closed_first() -> None:
    tree = Tree(play(several(piece("a"), piece("b")), a=never(), b=never()), Limits(wall_seconds=30))
    assert (await tree.run()).limit == "wall_seconds"
    ends = [entry.depth for entry in tree.journal.entries if entry.kind == "agent.finished"]
    assert ends == [1, 1, 0]


async def test_a_child_whose_call_is_refused_works_in_its_own_place_and_not_beside_it() -> None:
    at_work, most = 0, 0

    async def write(ask: Ask) -> Said:
        nonlocal at_work, most
        prompt, replies = ask.messages[0].text, len(ask.messages) // 2  # type: ignore[union-attr]
        if prompt == "master":
            return "Done." if replies else several(*map(piece, "abcd"), max_concurrency=4)
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        at_work -= 1
        return f"found {prompt}" if replies == 2 else Line(calls=(call("subagent", agent_type=f"nobody {replies}"),))

    tree = Tree(write, Limits(concurrency=1))
    assert (await tree.run()).completed
    assert {child.status for child in tree.record().subagent_history} == {RecordStatus.COMPLETED}
    assert most == 1
