"""A runner of single agents inside another program: every argument counts, every failure is in the result."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import drone
from drone.agent.ports.model import Ask, ModelError
from drone.definitions import Definitions
from drone.models.scripted import Author, Line, Said, ScriptedModel, by_prompt, call
from mcc.contracts.fence import fenced, unfenced
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage


@drone.tool(idempotent=True)
async def look() -> str:
    """Look around."""
    return "a garden"


@drone.tool(idempotent=True)
async def dig() -> str:
    """Dig a hole."""
    return "a hole"


def definition(name: str, **more: Any) -> drone.AgentDefinition:
    return drone.AgentDefinition(name=name, prompt=f"You are {name}.", **{"result": "text", **more})


class Stage:
    """A runner with two tools and two agents, of whom `lead` may delegate to `helper`."""

    def __init__(self, script: Sequence[Said] | Author, workspace: Path | None = None, **limits: Any) -> None:
        self.model = ScriptedModel(script, name="first/model")
        self.other = ScriptedModel(script, name="second/model")
        self.runner = drone.InProcessRunner(
            {"first": self.model, "second": self.other},
            definitions=[definition("lead", spawns=("helper",)), definition("helper", guidelines=("Be brief.",))],
            tools=[look, dig],
            workspace=workspace,
            limits=drone.Limits(**limits),
        )
        self.port: drone.SubagentRunner = self.runner

    @property
    def tools(self) -> set[str]:
        """The tools of the first agent that ran."""
        return {spec.name for spec in self.model.asks[0].tools}


def use(name: str, **arguments: object) -> Line:
    return Line(calls=(call(name, **arguments),))


def echo(prompt: str, replies: int) -> Said:
    return f"did {prompt}"


async def test_a_run_answers_text_usage_turns_and_model_and_keeps_its_record() -> None:
    stage = Stage([use("look"), "A garden."])
    result = await stage.port.run_isolated("helper", "What is there?")
    assert (result.text, result.turns, result.model, result.error) == ("A garden.", 2, "first/model", None)
    assert (result.usage.model_calls, result.usage.tool_calls) == (2, 1)
    assert result.tokens == result.usage.total_tokens > 0
    assert result.record is not None and result.record.depth == 1
    assert result.record.usage_total == result.usage


async def test_usage_is_that_of_the_whole_subtree() -> None:
    def write(prompt: str, replies: int) -> Said:
        if prompt == "go":
            return "Done." if replies else use("subagent", agent_type="helper", prompt="look")
        return "found" if replies else use("look")

    result = await Stage(by_prompt(write)).port.run_isolated("lead", "go")
    assert (result.usage.model_calls, result.usage.tool_calls, result.turns) == (4, 2, 2)


async def test_no_list_of_tools_is_all_an_empty_one_none_and_names_are_those() -> None:
    every = Stage(by_prompt(echo))
    await every.port.run_isolated("lead", "go")
    assert {"look", "dig", "subagent", "subagents_run", "subagent_send", "read_artifact"} == every.tools
    none = Stage(by_prompt(echo))
    await none.port.run_isolated("lead", "go", tools=[])
    assert none.tools == set()
    some = Stage(by_prompt(echo))
    await some.port.run_isolated("lead", "go", tools=["dig", "workspace_read"])
    assert some.tools == {"dig", "read_artifact"}


async def test_a_tool_that_was_not_given_does_not_run() -> None:
    stage = Stage([use("dig"), "I could not."])
    result = await stage.port.run_isolated("helper", "go", tools=["look"])
    assert result.record is not None
    (step,) = [step for step in result.record.steps if step.kind == "tool"]
    assert step.is_error and "You have: look." in step.content


async def test_a_prompt_takes_the_place_of_the_definitions_own() -> None:
    stage = Stage(by_prompt(echo))
    await stage.port.run_isolated("helper", "go", system_prompt="You are someone else.", tools=[])
    assert stage.model.asks[0].system.startswith("You are someone else.")
    assert "Be brief." not in stage.model.asks[0].system
    await stage.port.run_isolated("helper", "go", tools=[])
    assert stage.model.asks[1].system.startswith("You are helper.") and "Be brief." in stage.model.asks[1].system


async def test_a_prompt_alone_makes_an_agent_under_a_new_name() -> None:
    result = await Stage(by_prompt(echo)).port.run_isolated("gardener", "go", system_prompt="You garden.")
    assert result.text == "did go" and result.record is not None and result.record.agent == "gardener"


async def test_the_model_is_the_one_that_is_named() -> None:
    stage = Stage(by_prompt(echo))
    result = await stage.port.run_isolated("helper", "go", model="second")
    assert result.model == "second/model" and stage.model.asks == [] and len(stage.other.asks) == 1


async def test_file_tools_work_where_the_call_says(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "note.txt").write_text("a note\n")
    (tmp_path / "top.txt").write_text("the top\n")
    read = Line(calls=(call("read_file", path="note.txt"), call("read_file", path="../top.txt")))
    stage = Stage([read, "Read."], tmp_path)
    result = await stage.port.run_isolated("helper", "go", cwd="inside")
    assert result.record is not None
    steps = [step for step in result.record.steps if step.kind == "tool"]
    top, note = sorted(steps, key=lambda step: str(step.arguments))
    assert "a note" in note.content and top.is_error and "the top" not in top.content
    for cwd in (tmp_path, str(tmp_path / "inside"), None):
        assert (await Stage(by_prompt(echo), tmp_path).port.run_isolated("helper", "go", cwd=cwd)).error is None


@pytest.mark.parametrize("cwd", ["..", "../..", "/", "way_out", "inside/way_out", "nowhere", "file.txt", "a\0b"])
async def test_no_directory_outside_of_the_workspace_is_ever_opened(cwd: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "inside").mkdir(parents=True)
    (workspace / "way_out").symlink_to(tmp_path)
    (workspace / "inside" / "way_out").symlink_to("../..")
    (workspace / "file.txt").write_text("a file\n")
    stage = Stage([], workspace)
    result = await stage.port.run_isolated("helper", "go", cwd=cwd)
    assert result.error is not None and result.record is None and stage.model.asks == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"agent_name": "helpr"}, "There is no agent 'helpr'"),
        ({"model": "third"}, "There is no model 'third'"),
        ({"tools": ["lok"]}, "There is no tool or tool group 'lok'"),
        ({"cwd": "."}, "no workspace"),
        ({"depth": 3}, "The limit depth (3) is reached"),
        ({"depth": 90}, "The limit depth (3) is reached"),
    ],
)
async def test_what_cannot_be_honoured_is_an_error_before_any_model_is_asked(
    arguments: dict[str, Any], words: str
) -> None:
    stage = Stage([])
    result = await stage.port.run_isolated(**{"agent_name": "helper", "task": "go", **arguments})
    assert result.error is not None and words in result.error
    assert (result.text, result.turns, result.record, stage.model.asks) == ("", 0, None, [])


async def test_who_runs_at_the_last_depth_has_nobody_to_delegate_to() -> None:
    stage = Stage(by_prompt(echo))
    result = await stage.port.run_isolated("lead", "go", depth=2)
    assert result.record is not None and result.record.depth == 3
    assert stage.tools.isdisjoint({"subagent", "subagents_run", "subagent_send"})


@pytest.mark.parametrize(
    ("said", "words"),
    [(ModelError("It is down."), "It is down."), (use("look"), "rounds")],
)
async def test_however_an_agent_stops_short_the_result_says_why(said: Said, words: str) -> None:
    result = await Stage(lambda ask: said, subagent_rounds=2).port.run_isolated("helper", "go")
    assert result.error is not None and words in result.error
    assert result.record is not None and result.record.finished_at is not None


async def test_an_agent_that_reports_that_it_is_blocked_has_brought_no_result() -> None:
    blocked = use("submit_result", status="blocked", summary="The gate is locked.")
    runner = drone.InProcessRunner(
        {"first": ScriptedModel([use("look"), blocked, blocked])},
        definitions=[definition("helper", result="report")],
        tools=[look],
    )
    result = await runner.run_isolated("helper", "go")
    assert (result.error, result.text) == ("The agent reports that it is blocked.", "The gate is locked.")
    assert result.record is not None and result.record.status is RecordStatus.BLOCKED


async def test_who_cancels_a_run_stops_it() -> None:
    asked = asyncio.Event()

    async def author(ask: Ask) -> Said:
        asked.set()
        await asyncio.Event().wait()
        return ""

    running = asyncio.ensure_future(Stage(author).port.run_isolated("helper", "go"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_runs_at_the_same_time_know_nothing_of_each_other() -> None:
    stage = Stage(by_prompt(echo))
    runs = (
        stage.port.run_isolated("helper", f"task {number}", f"Prompt {number}.", tools=["look"] if number % 2 else [])
        for number in range(10)
    )
    results = await asyncio.gather(*runs)
    assert [result.text for result in results] == [f"did task {number}" for number in range(10)]
    assert all(result.usage.model_calls == 1 for result in results)
    seen = {ask.system.partition(".")[0]: len(ask.tools) for ask in stage.model.asks}
    assert seen == {f"Prompt {number}": number % 2 for number in range(10)}


async def test_eight_in_parallel_four_at_a_time_and_one_failure_never_drops_the_others() -> None:
    at_work, most, four = 0, 0, asyncio.Event()

    async def author(ask: Ask) -> Said:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        if at_work == 4:
            four.set()
        await four.wait()
        at_work -= 1
        prompt = ask.messages[0].text  # type: ignore[union-attr]
        return ModelError("It is down.") if prompt == "task 3" else f"did {prompt}"

    stage = Stage(author)
    results = await stage.runner.run_parallel(drone.Fork("helper", f"task {number}") for number in range(8))
    assert [result.error is None for result in results] == [True] * 3 + [False] + [True] * 4
    assert results[7].text == "did task 7" and most == 4


async def test_a_chain_hands_on_what_was_found_and_ends_with_the_first_error() -> None:
    stage = Stage(by_prompt(lambda prompt, replies: ModelError("Down.") if "bad" in prompt else f"<{prompt}>"))
    chain = [("helper", "a"), ("helper", "b {previous}"), ("helper", "bad"), ("helper", "{previous}")]
    first, second, third, last = await stage.runner.run_chain(chain)
    assert (first.text, second.text, third.error) == ("<a>", f"<b {fenced('<a>', 'a')}>", "Down.")
    assert last.error == "Not run, because helper before it stopped short: Down." and last.record is None


async def test_the_shipped_agents_are_there_without_a_word_and_a_set_of_definitions_serves_too(tmp_path: Path) -> None:
    model = ScriptedModel(by_prompt(echo))
    shipped = drone.InProcessRunner({"m": model}, workspace=tmp_path)
    assert (await shipped.run_isolated("explore", "go")).text == "did go"
    runner = drone.InProcessRunner({"m": model}, definitions=Definitions.load())
    assert (await runner.run_isolated("explore", "go", tools=[])).text == "did go"


async def test_a_definitions_own_refusal_outlives_every_list_of_tools() -> None:
    model = ScriptedModel(by_prompt(echo))
    runner = drone.InProcessRunner(
        {"m": model}, definitions=[definition("helper", disallowed_tools=("dig",))], tools=[look, dig]
    )
    refused = await runner.run_isolated("helper", "go", tools=["look", "dig"])
    assert refused.error is not None and "helper may not have dig" in refused.error and model.asks == []
    await runner.run_isolated("helper", "go", tools=["look"])
    await runner.run_isolated("helper", "go")
    assert [[spec.name for spec in ask.tools] for ask in model.asks] == [["look"], ["read_artifact", "look"]]


async def test_a_result_that_a_gate_accepted_is_handed_on_as_it_is() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
    runner = drone.InProcessRunner(
        {"m": ScriptedModel([use("submit_result", answer=42)])}, definitions=[definition("maths", result=schema)]
    )
    result = await runner.run_isolated("maths", "go")
    assert result.result == {"answer": 42} and json.loads(result.text) == {"answer": 42}


async def test_a_runner_without_a_model_says_so() -> None:
    result = await drone.InProcessRunner({}).run_isolated("verify", "go")
    assert result.error == "There is no model here: give one."


async def test_figures_that_mean_nothing_are_refused_and_not_waited_for() -> None:
    stage = Stage(["Never said."])
    with pytest.raises(ValueError, match="at_once must be 1 or more, and is 0"):
        await stage.runner.run_parallel([("helper", "task")], at_once=0)
    assert (
        await stage.port.run_isolated("helper", "task", depth=-1)
    ).error == "The depth must be 0 or more, and is -1."
    assert stage.model.asks == []


class Foreign:
    """Another implementation of a runner: records its arguments, and fails on demand."""

    def __init__(self, **results: drone.ForkResult) -> None:
        self.asked: list[drone.Fork] = []
        self._results = results

    async def run_isolated(self, *arguments: Any) -> drone.ForkResult:
        fork = drone.Fork(*arguments)
        self.asked.append(fork)
        usage = Usage(input_tokens=7, output_tokens=3, model_calls=2)
        return self._results.get(fork.task, drone.ForkResult(text=f"did {fork.task}", usage=usage, model="far/model"))


def leading(runner: drone.SubagentRunner, *lines: Said, **more: Any) -> drone.Agent:
    lead = definition("lead", spawns=("archive", "harbour"))
    return drone.Agent(lead, model=ScriptedModel(lines), subagent_runner=runner, **more)


def told(agent: drone.Agent) -> list[str]:
    """The tool results that its model received."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    results = model.asks[-1].messages[-1].results  # type: ignore[union-attr]
    return [unfenced(result.content) for result in results]


async def test_an_agent_delegates_by_the_runner_that_it_is_given() -> None:
    foreign = Foreign()
    several = [{"role": "archive", "task": "a", "model": "fast"}, {"role": "harbour", "task": "b"}]
    agent = leading(foreign, use("subagents_run", agents=several), "Both.")
    journal = drone.MemoryJournal("order")
    assert (await agent.run("go", agent.turn(journal))).text == "Both."
    assert foreign.asked == [
        drone.Fork("archive", "a", None, "fast", None, None, 0),
        drone.Fork("harbour", "b", None, None, None, None, 0),
    ]
    assert [one["summary"] for one in json.loads(told(agent)[0])["agents"]] == ["did a", "did b"]
    record = journal.fold.record()
    assert record is not None
    assert [(child.agent, child.answer, child.depth) for child in record.subagent_history] == [
        ("archive", "did a", 1),
        ("harbour", "did b", 1),
    ]
    assert all(child.usage.total_tokens == 10 for child in record.subagent_history)
    assert record.usage_total.model_calls == 2 + 4


async def test_what_a_runner_could_not_do_is_a_blocked_result_that_says_why() -> None:
    foreign = Foreign(bad=drone.ForkResult("Half.", Usage(output_tokens=5, model_calls=1), error="The line is cut."))
    agent = leading(foreign, use("subagent", agent_type="harbour", prompt="bad"), "So be it.")
    journal = drone.MemoryJournal("order")
    assert (await agent.run("go", agent.turn(journal))).completed
    said = json.loads(told(agent)[0])
    assert said["status"] == "blocked" and "The line is cut." in said["summary"] and "Half." in said["summary"]
    assert journal.fold.usage.output_tokens >= 5


async def test_the_runners_agents_count_within_the_limits_of_the_callers_turn() -> None:
    foreign = Foreign()
    line = Line(
        calls=(call("subagent", agent_type="harbour", prompt="a"), call("subagent", agent_type="x", prompt="b"))
    )
    deep = leading(foreign, line, "Done.", limits=drone.Limits(depth=0))
    assert (await deep.run("go")).completed
    assert foreign.asked == [] and "depth (0)" in told(deep)[0]
    few = leading(foreign, use("subagents_run", agents=[{"role": "harbour", "task": t} for t in "ab"]), "Done.")
    turn = leading(foreign, limits=drone.Limits(spawns=1)).turn()
    assert (await few.run("go", turn)).completed
    assert len(foreign.asked) == 1 and "limit spawns (1)" in told(few)[0]


async def test_the_runner_in_this_process_is_one_of_them() -> None:
    stage = Stage(by_prompt(echo))
    tools = drone.DelegationTools(stage.runner, {"helper": "Helps."})
    assert [spec.name for spec in tools.specs()] == ["subagent", "subagents_run"]
    assert "- helper: Helps." in tools.specs()[0].description
    model = ScriptedModel([use("subagent", agent_type="helper", prompt="dig"), "Dug."])
    agent = drone.Agent(definition("lead"), model=model, tools=[tools])
    assert (await agent.run("go")).text == "Dug."
    assert told(agent)[0].startswith("did dig\n\nrecord_id: ")


BINDING: dict[str, dict[str, Any]] = {
    "permission": {"permission": {"run_shell": "deny"}},
    "egress": {"egress": ("a.example",)},
}


@pytest.mark.parametrize("field", BINDING)
def test_who_binds_those_below_it_cannot_leave_them_to_a_runner(field: str) -> None:
    lead = drone.AgentDefinition(name="lead", prompt="Lead.", spawns=("harbour",), **BINDING[field])
    with pytest.raises(ValueError, match=f"lead has {field}, which its runner does not keep for those in spawns"):
        drone.Agent(lead, model=ScriptedModel([]), subagent_runner=Foreign())


@pytest.mark.parametrize("field", BINDING)
async def test_what_binds_an_agent_from_above_is_never_lost_in_a_runner(field: str) -> None:
    foreign = Foreign()
    middle = leading(foreign, use("subagent", agent_type="harbour", prompt="go"), "Refused.")
    top = drone.AgentDefinition(name="top", prompt="Top.", result="text", **BINDING[field])
    script = ScriptedModel([use(middle.definition.name, input="go"), "Done."])
    await drone.Agent(top, model=script, tools=[drone.SubAgent(middle)]).run("go")
    assert foreign.asked == [] and f"{field} of this agent would not hold" in told(middle)[0]


async def test_a_rule_for_delegation_itself_is_kept_where_it_is_called() -> None:
    foreign = Foreign()
    lead = drone.AgentDefinition(name="lead", prompt="Lead.", spawns=("harbour",), permission={"subagent": "deny"})
    script = ScriptedModel([use("subagent", agent_type="harbour", prompt="go"), "Done."])
    agent = drone.Agent(lead, model=script, subagent_runner=foreign)
    assert (await agent.run("go")).completed
    assert foreign.asked == [] and told(agent)[0].startswith("Denied")


async def test_a_model_gets_no_group_that_the_definition_of_its_helper_lacks() -> None:
    stage = Stage(by_prompt(echo))
    asked = use("subagents_run", agents=[{"role": "helper", "task": "dig", "allowed_tool_groups": ["shell_write"]}])
    agent = drone.Agent(
        definition("lead"),
        model=ScriptedModel([asked, "Not so."]),
        tools=[drone.DelegationTools(stage.runner, {"helper": "Helps."})],
    )
    await agent.run("go")
    said = json.loads(told(agent)[0])["agents"][0]
    assert said["status"] == "blocked" and "shell_write" in said["summary"]


def test_a_runner_without_anybody_to_run_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="name agents in its spawns"):
        drone.Agent(definition("lone"), model=ScriptedModel([]), subagent_runner=Foreign())


async def test_an_agent_without_a_prompt_is_refused_unless_the_call_brings_one(tmp_path: Path) -> None:
    bare = drone.AgentDefinition(name="bare", result="text")
    runner = drone.InProcessRunner({"m": ScriptedModel(["Done."])}, definitions=[bare], workspace=tmp_path)
    refused = await runner.run_isolated("bare", "go")
    assert refused.error is not None and "bare has no prompt" in refused.error
    assert (await runner.run_isolated("bare", "go", system_prompt="You help.")).text == "Done."
