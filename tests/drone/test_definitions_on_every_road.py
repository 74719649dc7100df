"""Every field of an agent definition means the same in `drone.Agent`, in a runner and in an order, or is refused."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import drone
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.guards import NamedModels
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.order_context import OrderContext
from drone.settings import Settings
from drone.tools.catalog import Toolbox
from drone.tools.frame.own import OwnTools
from drone.tools.frame.tool import FunctionTool, FunctionTools, ToolContext
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.record import ChatRecord
from mcc.definitions.scopes import UsableAgents
from mcc.transcript.messages import AssistantMessage


@dataclass
class Run:
    """What a road showed: the requests of each model, the egress lists of each tool call, the agent's own record."""

    first: ScriptedModel
    second: ScriptedModel
    egress: list[Any] = field(default_factory=list)
    record: ChatRecord | None = None

    @property
    def ask(self) -> Ask:
        """The first request, of whichever model was asked."""
        return (self.first.asks or self.second.asks)[0]

    @property
    def tools(self) -> set[str]:
        """The names of the tools that its model saw, of those that every road could give."""
        return {spec.name for spec in self.ask.tools} & {"look", "dig", "submit_result", "subagent"}

    def outputs(self) -> list[str]:
        assert self.record is not None
        return [step.content for step in self.record.steps if step.kind == "tool"]


def tools(run: Run) -> tuple[FunctionTool, FunctionTool]:
    """Two tools, the first of which remembers with which lists of hosts it was called."""

    @drone.tool(idempotent=True)
    async def look(context: ToolContext) -> str:
        """Look around."""
        run.egress.append(tuple(map(tuple, context.egress)))
        return "a garden"

    @drone.tool(idempotent=True)
    async def dig() -> str:
        """Dig a hole."""
        return "a hole"

    return FunctionTool(look), FunctionTool(dig)


Road = Callable[[AgentDefinition, Run, Path], Awaitable[None]]


async def by_agent(definition: AgentDefinition, run: Run, folder: Path) -> None:
    models = {"first/model": run.first, "second/model": run.second}
    runner = drone.InProcessRunner({"first": run.first}, definitions=[HELPER]) if definition.spawns else None
    agent = drone.Agent(definition, model=models, tools=FunctionTools(tools(run)), subagent_runner=runner)
    journal = MemoryJournal("order")
    await agent.run("go", agent.turn(journal))
    run.record = journal.fold.record()


async def by_runner(definition: AgentDefinition, run: Run, folder: Path) -> None:
    models = {"first/model": run.first, "second/model": run.second}
    runner = drone.InProcessRunner(models, definitions=[definition, HELPER], tools=FunctionTools(tools(run)))
    result = await runner.run_isolated(definition.name, "go")
    if result.record is None:
        raise ValueError(result.error)
    run.record = result.record


async def by_order(definition: AgentDefinition, run: Run, folder: Path) -> None:
    crew = Crew(
        Settings(workspace_roots=(str(folder),)),
        Definitions(UsableAgents({definition.name: definition, "helper": HELPER, "verify": JUDGE})),
        NamedModels({"first/model": run.first, "second/model": run.second}),  # type: ignore[arg-type]
        Toolbox.found(own=OwnTools(tuple((one, "a test") for one in tools(run)))),
    )
    order = order_from("go", folder, definition.name)
    journal = MemoryJournal(order.id)
    await crew.run(order, OrderContext(journal))
    run.record = journal.fold.record()


JUDGE = Definitions.load().get("verify")
HELPER = AgentDefinition(name="helper", prompt="Help.", result="text")
ROADS = {"Agent": by_agent, "runner": by_runner, "order": by_order}


def plays(*lines: Said) -> ScriptedModel:
    """Says the lines one after the other, and the last one again."""

    def say(ask: Ask) -> Said:
        said = sum(isinstance(message, AssistantMessage) for message in ask.messages)
        return lines[min(said, len(lines) - 1)]

    return ScriptedModel(say, name="first/model")


def use(name: str, **arguments: object) -> Line:
    return Line(calls=(call(name, **arguments),))


async def taken(road: str, folder: Path, *lines: Said, **fields: Any) -> Run:
    run = Run(plays(*lines), ScriptedModel(lambda ask: "Second.", name="second/model"))
    definition = AgentDefinition(**{"name": "worker", "prompt": "Work.", "result": "text", **fields})
    await ROADS[road](definition, run, folder)
    return run


SHOWN: dict[str, tuple[dict[str, Any], tuple[Said, ...], Callable[[Run], object], object]] = {
    "tools": ({"tools": ("look",)}, ("Done.",), lambda run: run.tools, {"look"}),
    "tools that are none": ({"tools": ()}, ("Done.",), lambda run: run.tools, set()),
    "tools not named do not run": (
        {"tools": ("look",)},
        (use("dig"), "Done."),
        lambda run: ["a hole" in output for output in run.outputs()],
        [False],
    ),
    "disallowed_tools": ({"disallowed_tools": ("dig",)}, ("Done.",), lambda run: run.tools, {"look"}),
    "spawns": ({"spawns": ("helper",)}, ("Done.",), lambda run: "subagent" in run.tools, True),
    "model": (
        {"model": "second/model"},
        ("First.",),
        lambda run: (run.record and run.record.answer, run.record and run.record.model and run.record.model.requested),
        ("Second.", "second/model"),
    ),
    "temperature": ({"temperature": 0.25}, ("Done.",), lambda run: run.ask.temperature, 0.25),
    "thinking": ({"thinking": "low"}, ("Done.",), lambda run: run.ask.thinking, "low"),
    "max_output_tokens": ({"max_output_tokens": 77}, ("Done.",), lambda run: run.ask.max_output_tokens, 77),
    "limits": (
        {"limits": {"rounds": 2}},
        (use("look"),),
        lambda run: len(run.first.asks),
        3,  # the last reply, which runs no tool, comes on top
    ),
    "egress": ({"egress": ("a.example",)}, (use("look"), "Done."), lambda run: run.egress, [(("a.example",),)]),
    "permission": (
        {"permission": {"dig": "deny"}},
        (use("dig"), "Done."),
        lambda run: ["a hole" in output for output in run.outputs()],
        [False],
    ),
    "result": (
        {"result": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
        (use("submit_result", n=4),),
        lambda run: run.record and run.record.result,
        {"n": 4},
    ),
    "rules": (
        {"result": {"type": "object", "properties": {"n": {"type": "integer"}}}, "rules": ({"cel": "result.n > 1"},)},
        (use("submit_result", n=1), use("submit_result", n=2)),
        lambda run: run.record and run.record.result,
        {"n": 2},
    ),
    "verify": (
        {"verify": {"rubric": "It rhymes."}},
        ("No.", use("submit_result", passed=False, points=["Rhyme."]), "Yes."),
        lambda run: any("It rhymes." in str(ask.messages[0]) for ask in run.first.asks),
        True,
    ),
    "guidelines": (
        {"guidelines": ("Be brief.",)},
        ("Done.",),
        lambda run: "- Be brief." in run.ask.system,
        True,
    ),
    "prompt": ({"prompt": "Sing."}, ("Done.",), lambda run: run.ask.system.startswith("Sing."), True),
    "name": ({"name": "singer"}, ("Done.",), lambda run: run.record and run.record.agent, "singer"),
}
"""Field → values, the model's lines, what is looked at, and what it is where the field counts."""


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("case", SHOWN)
async def test_a_field_means_the_same_on_every_road(case: str, road: str, tmp_path: Path) -> None:
    fields, lines, seen, right = SHOWN[case]
    run = await taken(road, tmp_path, *lines, **fields)
    assert seen(run) == right


def test_no_field_of_a_definition_is_left_out() -> None:
    # What it does, for who may hire it (drone/agent/subagents), and long talks (tests/drone/agent/compaction).
    elsewhere = {"description", "compaction"}
    told = {case.split()[0] for case in SHOWN} | set(REFUSED)
    assert told | elsewhere == set(AgentDefinition.model_fields)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "passes_on": ({"passes_on": ("look",), "spawns": ("helper",)}, "passes_on"),
    "isolation": ({"isolation": "worktree"}, "isolation"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_only_orders_and_runners_can_keep_is_refused_by_name(case: str, tmp_path: Path) -> None:
    fields, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        await taken("Agent", tmp_path, "Never.", **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": ("nope",)}, "There is no tool or tool group 'nope'"),
        ({"tools": ("read_file",)}, "names tools that it was not given: read_file"),
        ({"disallowed_tools": ("nope",)}, "There is no tool or tool group 'nope'"),
        ({"spawns": ("helper",)}, "nobody runs them"),
        ({"model": "third/model"}, "names the model third/model, and is given first/model"),
        ({"verify": {"agent": "judge"}}, "verified by judge"),
    ],
)
def test_an_agent_that_cannot_be_what_its_definition_says_is_not_made(fields: dict[str, Any], words: str) -> None:
    definition = AgentDefinition(**{"name": "worker", "prompt": "Work.", **fields})
    with pytest.raises(ValueError, match=words):
        drone.Agent(definition, model=plays("Never."), tools=FunctionTools(tools(Run(plays(), plays()))))


def test_what_is_no_model_is_no_model() -> None:
    with pytest.raises(TypeError, match="3 is none of them"):
        drone.Agent(HELPER, model=3)  # type: ignore[arg-type]
