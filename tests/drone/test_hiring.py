"""Hiring: what an agent of an order gets, what it does not get, and how its record shows both."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.permits import Permits
from drone.agent.spending.budget import Budget
from drone.agent.subagents.children import CannotHire, Wanted
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Turn
from drone.definitions import Definitions
from drone.hiring import Hiring, ModelNames, Parent, Terms
from drone.models.registry import Models
from drone.models.scripted import Line, ScriptedModel, call
from drone.settings import Settings
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from mcc.contracts.limits import Limits
from mcc.contracts.order import ModelSettings, Rule
from mcc.definitions.scopes import AgentFile, installed
from mcc.transcript.messages import ToolSpec

THERE = {"read_file": "workspace_read", "read_artifact": "workspace_read", "git_diff": "diff_read"}
WRITES = {"write_file": "workspace_write", "run_shell": "shell_write"}


class Bench:
    """A tool set whose tools answer their own name."""

    def __init__(self, tools: dict[str, str]) -> None:
        self._specs = [ToolSpec(name, f"{name} does it. And more.", {}, group) for name, group in tools.items()]

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: StartedCall) -> Output:
        return Output(f"{call.name} ran")


def file(name: str, *lines: str) -> AgentFile:
    return AgentFile(name, f"{name}.md", "\n".join(("---", f"name: {name}", *lines, "---", f"Be {name}.")).encode())


def hiring(
    *files: AgentFile, limits: Limits | None = None, terms: Terms | None = None, roles: dict[str, str] | None = None
) -> Hiring:
    turn = Turn.begun(MemoryJournal("order"), Budget(limits or Limits()))
    models = Models(Settings(data_dir=Path("/nowhere")))
    return Hiring(Definitions(installed(files)), models, turn, terms or Terms(), names=ModelNames(roles=roles or {}))


def child(
    here: Hiring, kind: str, tools: dict[str, str] | None = None, groups: tuple[str, ...] | None = None
) -> AgentRuntime:
    parent = Parent(ScriptedModel(["x"]), Bench(tools or {**THERE, **WRITES}))
    return here.child(Wanted(kind, 1, groups), parent)


def names(agent: AgentRuntime) -> list[str]:
    return [spec.name for spec in agent.specs]


def notes(agent: AgentRuntime, name: str) -> list[str]:
    return [note.message for note in agent.hired.notes if note.name == name]


SCOUT = file("scout", "tools: [workspace_read, diff_read, tasks_read]", "result: text")


def test_an_agents_record_names_its_tools_and_the_missing_ones() -> None:
    agent = child(hiring(SCOUT), "scout")
    assert notes(agent, "provisioned") == [
        "provisioned 3 tools: read_file, read_artifact, git_diff; not available here: tasks_read"
    ]
    assert "Not available here: tasks_read." in agent.system


async def test_groups_narrow_the_tools_of_a_role_and_are_enforced_at_the_call() -> None:
    agent = child(hiring(SCOUT), "scout", groups=("diff_read",))
    assert names(agent) == ["git_diff"]
    refused = await agent.tools.call(StartedCall("1", "read_file", {}, Origin()))
    assert refused.outcome is Outcome.DENIED and "git_diff" in refused.content


def test_groups_never_give_a_role_what_its_file_does_not() -> None:
    agent = child(hiring(SCOUT), "scout", groups=("diff_read", "workspace_write"))
    assert names(agent) == ["git_diff"]
    assert "not available here: workspace_write" in notes(agent, "provisioned")[0]


@pytest.mark.parametrize("groups", [("workspce_read",), ("web_read",), ("nonsense", "web_read")])
def test_groups_that_give_no_tool_are_refused_with_the_reason(groups: tuple[str, ...]) -> None:
    with pytest.raises(CannotHire, match=r"^No tool is left for scout: ") as refused:
        child(hiring(SCOUT), "scout", groups=groups)
    said = str(refused.value)
    assert said.endswith("Choose from workspace_read, diff_read, or leave allowed_tool_groups out.")
    assert ("there is no tool group" in said) is (groups != ("web_read",))
    assert ("scout has no tool of web_read here" in said) is ("web_read" in groups)


def test_an_unknown_group_is_reported_with_the_nearest() -> None:
    agent = child(hiring(SCOUT), "scout", groups=("diff_read", "workspce_read"))
    assert notes(agent, "unknown_tool_group") == [
        "there is no tool group 'workspce_read'; did you mean 'workspace_read'?"
    ]
    assert names(agent) == ["git_diff"]


def test_run_group_and_shell_writes_are_never_in_chosen_groups_and_the_finish_tools_always() -> None:
    lead = file("lead", "spawns: [lead]", "result: report")
    groups = ("delegation", "shell_write", "diff_read")
    assert names(child(hiring(lead), "lead", groups=groups)) == ["git_diff", "submit_result"]
    assert "run_shell" not in names(child(hiring(lead), "lead", groups=("finish",)))
    assert "run_shell" in names(child(hiring(lead), "lead"))


class Shell(Bench):
    """A shell that answers how it was called, beside the other tools."""

    def __init__(self) -> None:
        super().__init__(THERE)
        ours = ToolSpec("run_shell", "Run it.", {}, "shell_write", effects="execute", reads_as="shell_read")
        self._specs.append(ours)

    async def call(self, call: StartedCall) -> Output:
        return Output("read-only" if call.read_only else "workspace-write")


async def has_shell(definition: str, depth: int = 0, groups: tuple[str, ...] | None = None) -> str:
    """How the shell runs commands for an agent of this file; nothing where the agent gets no shell."""
    here = hiring(file("one", definition, "result: text", "spawns: []"))
    parent = Parent(ScriptedModel(["x"]), Shell())
    agent = here.child(Wanted("one", depth, groups), parent) if depth else here.master("one", None, Shell())
    [*found] = [spec for spec in agent.tools.specs() if spec.name == "run_shell"]
    ran = await agent.tools.call(StartedCall("1", "run_shell", {}, Origin()))
    said = {"shell_read": "read-only", "shell_write": "workspace-write"}
    assert [said[spec.group] for spec in found] == ([] if ran.is_error else [ran.content])
    assert [spec.may_write for spec in found] == [spec.group == "shell_write" for spec in found]
    return "nothing" if ran.is_error else ran.content


@pytest.mark.parametrize(
    ("definition", "master", "child"),
    [
        ("tools: [shell_write]", "workspace-write", "read-only"),
        ("tools: [shell_read]", "read-only", "read-only"),
        ("tools: [shell_read, shell_write]", "workspace-write", "read-only"),
        ("tools: [run_shell]", "read-only", "read-only"),
        ("guidelines: []", "workspace-write", "read-only"),
        ("tools: [workspace_read]", "nothing", "nothing"),
        ("disallowed_tools: [shell_write]", "nothing", "nothing"),
        ("tools: [shell_read]\ndisallowed_tools: [shell_write]", "read-only", "read-only"),
        ("tools: [shell_read, shell_write]\ndisallowed_tools: [run_shell]", "nothing", "nothing"),
    ],
)
async def test_commands_write_only_where_the_file_says_so_and_never_beside_the_parent(
    definition: str, master: str, child: str
) -> None:
    assert await has_shell(definition) == master
    assert await has_shell(definition, depth=1) == child


async def test_chosen_groups_give_commands_that_read_at_most() -> None:
    assert await has_shell("tools: [shell_write]", 1, ("shell_read",)) == "read-only"
    with pytest.raises(CannotHire, match="no tool of shell_write here"):
        await has_shell("tools: [shell_write]", 1, ("shell_write",))


def test_the_record_says_that_commands_do_not_write() -> None:
    here = hiring(file("one", "tools: [shell_write]", "result: text"))
    agent = here.child(Wanted("one", 1), Parent(ScriptedModel(["x"]), Shell()))
    assert notes(agent, "provisioned") == ["provisioned 1 tool: run_shell; not available here: shell_write"]


def test_no_tools_is_none_and_left_out_is_the_parents() -> None:
    none = child(hiring(file("bare", "tools: []", "result: text")), "bare")
    assert names(none) == []
    assert notes(none, "provisioned") == ["provisioned 0 tools"]
    every = child(hiring(file("all", "disallowed_tools: [write_file]", "result: text")), "all")
    assert names(every) == ["read_file", "read_artifact", "git_diff", "run_shell"]


def test_a_role_gets_only_what_its_parent_has() -> None:
    writer = file("writer", "tools: [workspace_read, workspace_write]", "result: text")
    agent = child(hiring(writer), "writer", tools=THERE)
    assert names(agent) == ["read_file", "read_artifact"]
    assert "not available here: workspace_write" in notes(agent, "provisioned")[0]


async def test_children_may_get_tools_that_their_parent_passes_on_without_having_them() -> None:
    lead_file = file(
        "lead",
        "tools: [workspace_read, delegation]",
        "passes_on: [workspace_write, diff_read]",
        "spawns: [writer]",
        "result: text",
    )
    here = hiring(lead_file, file("writer", "tools: [workspace_write, diff_read, shell_write]", "result: text"))
    hires = call("subagent", agent_type="writer", prompt="Write it")
    model, bench = ScriptedModel([Line(calls=(hires,)), "Written.", "Done."]), Bench({**THERE, **WRITES})
    lead = here.child(Wanted("lead", 1), Parent(model, bench))
    assert names(lead)[:2] == ["read_file", "read_artifact"]
    refused = await lead.tools.call(StartedCall("1", "write_file", {}, Origin()))
    assert refused.is_error and "There is no tool 'write_file' here" in refused.content
    assert (await lead.run("go", here.turn)).completed
    [writer] = [ask for ask in model.asks if "Be writer." in ask.system]
    assert [tool.name for tool in writer.tools] == ["git_diff", "write_file"]


def test_a_child_may_hire_only_agents_that_its_parent_may_hire() -> None:
    here = hiring(
        file("master", "spawns: [lead]"),
        file("lead", "spawns: [lead, worker]", "result: text"),
        file("worker", "result: text"),
    )
    parent = Parent(ScriptedModel(["x"]), Bench(THERE), spawns=frozenset({"lead"}))
    agent = here.child(Wanted("lead", 1), parent)
    [shown] = [spec.parameters for spec in agent.specs if spec.name == "subagent"]
    assert shown["properties"]["agent_type"]["enum"] == ["lead"]  # type: ignore[index]


def test_a_child_has_only_the_delegation_tools_of_its_parent_and_none_at_the_depth_limit() -> None:
    lead = file("lead", "spawns: [lead]", "result: text")
    parent = Parent(ScriptedModel(["x"]), Bench({}), delegation=frozenset({"subagent"}))
    here = hiring(lead, limits=Limits(depth=2))
    assert names(here.child(Wanted("lead", 1), parent)) == ["subagent"]
    assert names(here.child(Wanted("lead", 2), parent)) == []


def test_an_agent_that_delegates_can_read_whole_reports_without_any_other_tool_to_read() -> None:
    lead = file("lead", "tools: [delegation]", "spawns: [lead]", "result: text")
    assert names(child(hiring(lead), "lead"))[0] == "read_artifact"
    strict = file("lead", "tools: [delegation]", "spawns: [lead]", "disallowed_tools: [read_artifact]")
    assert "read_artifact" not in names(child(hiring(strict), "lead"))


def test_an_agent_is_told_of_missing_tools_only_and_its_tools_are_only_in_the_schemas() -> None:
    agent = child(hiring(SCOUT), "scout")
    assert "Not available here: tasks_read." in agent.system and "git_diff" not in agent.system
    assert agent.system == child(hiring(SCOUT), "scout").system


def test_a_subagent_owes_the_shipped_report_unless_its_file_says_text() -> None:
    assert child(hiring(file("any")), "any").gate is not None
    assert child(hiring(file("any", "result: text")), "any").gate is None


def test_an_orders_schema_and_rules_bind_only_the_master() -> None:
    terms = Terms({"type": "object", "required": ["answer"]}, (Rule(cel="result.answer == 42"),))
    here = hiring(file("master", "result: text"), file("any", "result: text"), terms=terms)
    master = here.master("master", "offline", Bench(THERE))
    assert master.gate is not None and "result.answer == 42" in master.system
    assert '"result_schema":{"type":"object"' in master.setup and "result.answer == 42" in master.setup
    assert child(here, "any").gate is None


@pytest.mark.parametrize(
    "terms", [Terms(rules=(Rule(cel="result. =="),)), Terms(result_schema={"type": "strnig"})], ids=["rule", "schema"]
)
def test_terms_that_cannot_be_checked_are_refused_before_any_model_is_asked(terms: Terms) -> None:
    with pytest.raises(CannotHire, match="cannot be checked"):
        hiring(file("master"), terms=terms).master("master", "offline", Bench({}))


def test_a_model_is_chosen_by_name_and_an_unknown_one_is_reported() -> None:
    here = hiring(SCOUT)
    parent = Parent(ScriptedModel(["x"], name="scripted/parent"), Bench(THERE))
    own = here.child(Wanted("scout", 1, model="offline"), parent)
    assert own.model.name == "offline"
    assert here.child(Wanted("scout", 1), parent).model.name == "scripted/parent"
    with pytest.raises(CannotHire, match="Did you mean offline"):
        here.child(Wanted("scout", 1, model="oflline"), parent)


def test_a_role_has_its_model_unless_order_call_or_file_names_one() -> None:
    roles = {"scout": "openai/cheap", "keen": "openai/cheap", "master": "openai/cheap"}
    here = hiring(SCOUT, file("keen", "model: offline", "result: text"), file("master"), roles=roles)
    parent = Parent(ScriptedModel(["x"], name="scripted/parent"), Bench(THERE))
    scout = here.child(Wanted("scout", 1), parent)
    assert (scout.model.name, scout.hired.requested_model) == ("openai/cheap", "openai/cheap")
    assert here.child(Wanted("scout", 1, model="offline"), parent).model.name == "offline"
    assert here.child(Wanted("keen", 1), parent).model.name == "offline"
    assert here.master("master", None, Bench({})).model.name == "openai/cheap"
    assert here.master("master", "offline", Bench({})).model.name == "offline"


def asked(agent: AgentRuntime) -> dict[str, object]:
    return dict(agent.model_settings.given)


def test_model_settings_of_the_order_precede_those_of_the_file_and_these_those_of_the_parent() -> None:
    here = hiring(
        file("master", "thinking: low", "temperature: 0.1", "max_output_tokens: 900", "spawns: [scout, keen]"),
        SCOUT,
        file("keen", "thinking: max", "result: text"),
        file("same", "thinking: inherit", "result: text"),
    )
    said = ModelSettings(thinking="high", service_tier="flex")
    master = here.master("master", "offline", Bench(THERE), wanted=said)
    assert asked(master) == {"thinking": "high", "temperature": 0.1, "max_output_tokens": 900, "service_tier": "flex"}
    parent = Parent(master.model, Bench(THERE), model_settings=master.model_settings)
    assert asked(here.child(Wanted("scout", 1), parent)) == asked(master)
    assert asked(here.child(Wanted("same", 1), parent)) == asked(master)
    assert asked(here.child(Wanted("keen", 1), parent)) == {**asked(master), "thinking": "max"}


def test_settings_of_a_chosen_models_table_precede_the_parents() -> None:
    names = ModelNames(roles={"scout": "offline"}, own_settings={"offline": ("thinking",)})
    here = replace(hiring(SCOUT, file("other", "result: text")), names=names)
    parent = Parent(
        ScriptedModel(["x"]), Bench(THERE), model_settings=ModelSettings(thinking="high", service_tier="flex")
    )
    assert asked(here.child(Wanted("scout", 1), parent)) == {"service_tier": "flex"}
    assert asked(here.child(Wanted("other", 1), parent)) == {"service_tier": "flex", "thinking": "high"}


def test_a_level_of_thinking_that_a_model_does_not_accept_is_refused_with_the_accepted_ones() -> None:
    here = hiring(file("master"))
    with pytest.raises(CannotHire, match=r"openai/o3 does not take thinking max; it takes low, medium, high\."):
        here.master("master", "openai/o3", Bench({}), wanted=ModelSettings(thinking="max"))
    assert asked(here.master("master", "openai/o3", Bench({}), wanted=ModelSettings(thinking="low")))
    assert asked(here.master("master", "openai/nobody-knows", Bench({}), wanted=ModelSettings(thinking="max")))


async def test_requested_and_effective_tools_and_model_are_in_the_record() -> None:
    agent = child(hiring(SCOUT), "scout", groups=("diff_read",))
    turn = agent.turn()
    await agent.run("look", turn)
    record = turn.journal.journal.fold.record()  # type: ignore[attr-defined]
    assert (record.tools_requested, record.tools) == (("diff_read",), ("git_diff",))
    assert (record.model.requested, record.model.effective) == ("inherit", "scripted/model")
    assert record.definition_digest == agent.definition_digest


def test_a_workspaces_warnings_begin_the_masters_record() -> None:
    here = hiring(file("master"))
    near = Hiring(here.definitions.nearer([file("odd", "tone: x")]), here.models, here.turn)
    master = near.master("master", "offline", Bench({}))
    assert ["'tone' is not a key" in note for note in notes(master, "definition_warning")] == [True]


def test_problems_of_a_workspaces_files_take_a_bounded_number_of_bounded_entries() -> None:
    here = hiring(file("master"))
    many = "\n".join(f"key_{index}: x" for index in range(300))
    long = f"tools: [{'x' * 20_000}]"
    near = here.definitions.nearer([file("odd", long), *(file(f"odd_{index}", many) for index in range(20))])
    master = Hiring(near, here.models, here.turn).master("master", "offline", Bench({}))
    told = notes(master, "definition_warning")
    assert len(told) == 101 and told[-1].startswith("And ") and max(map(len, told)) == 1_000
    assert any("290 more keys do not belong in an agent file" in note for note in told)


def test_permissions_of_an_agent_are_those_of_order_mode_and_all_files_above_it() -> None:
    lead = file("lead", "tools: [workspace_read, delegation]", "spawns: [scout]", "permission: {git_diff: deny}")
    scout = file("scout", "tools: [workspace_read, diff_read]", "permission: {read_file: ask}", "result: text")
    base = Permits.of_order({"*": "allow"}, "plan", {"read_artifact": "ask"}, "wait", "/w")
    here = replace(hiring(lead, scout), permits=base)
    parent = Parent(ScriptedModel(["x"]), Bench(THERE), permits=base.of(here.definitions.known.permission("lead")))
    permits = here.child(Wanted("scout", 1), parent).permits
    assert [layer.name for layer in permits.layers] == ["operator", "mode", "order", "ancestor", "agent"]

    def word(name: str, group: str) -> tuple[str, str]:
        spec = ToolSpec(name, "", {}, group)
        ruling = permits.judge(permits.request(spec, {}, Origin(record_id="r", agent="scout", depth=1)))
        return ruling.word, ruling.why.layer

    assert word("git_diff", "diff_read") == ("deny", "ancestor")
    assert word("read_file", "workspace_read") == ("ask", "agent")
    assert word("read_artifact", "workspace_read") == ("ask", "order")
    assert word("write_file", "workspace_write") == ("deny", "mode")
    assert word("list_files", "workspace_read") == ("allow", "operator")
