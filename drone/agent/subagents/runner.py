"""The port `SubagentRunner`, which runs single agents, and delegation tools that use such a runner."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from drone.agent.agent import AgentRuntime
from drone.agent.ports.model import Ask, Listener, ModelError, Reply
from drone.agent.subagents.assignments import GROUP, SUBAGENT, SUBAGENTS_RUN
from drone.agent.subagents.children import Wanted
from drone.agent.subagents.delegation import Delegation
from drone.agent.subagents.offers import offers
from drone.agent.turns.call_ends import refusal
from drone.agent.turns.toolset import Output, StartedCall
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blocks import TextBlock
from mcc.contracts.limits import Limits
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from mcc.contracts.similar import hints_keywords
from mcc.contracts.usage import Usage
from mcc.permission.layers import Layer
from mcc.transcript.messages import ToolSpec, UserMessage


@hints_keywords
@dataclass(frozen=True, slots=True)
class ForkResult:
    """The outcome of a run. `error`: a sentence why it stopped early or never began, None for a run that ended well.

    `usage`: that of the agent and its descendants. `turns`: number of the agent's own replies. `model`: the model used.
    `record`: the whole run, None when it never began. `result`: what a gate accepted (JSON, or an object
    of the definition's pydantic class).
    """

    text: str = ""
    usage: Usage = Usage()
    turns: int = 0
    model: str = ""
    error: str | None = None
    result: object = None
    record: ChatRecord | None = field(default=None, repr=False)

    @property
    def tokens(self) -> int:
        return self.usage.total_tokens


class SubagentRunner(Protocol):
    """Runs one agent that sees only its task."""

    async def run_isolated(
        self,
        agent_name: str,
        task: str,
        system_prompt: str | None = None,
        model: str | None = None,
        tools: Sequence[str] | None = None,
        cwd: str | Path | None = None,
        depth: int = 0,
    ) -> ForkResult:
        """Run an agent to its end. Failures, also wrong arguments, are in the result; only CancelledError is raised.

        `system_prompt` and `model` None: the definition's. `tools`: names and groups out of the definition's; None =
        the definition's own, all that the runner has where it names none; empty = none. `cwd`: where file tools work,
        relative to the runner's workspace and never outside of it.
        `depth`: that of the caller, 0 = a root; the agent itself is one deeper.
        """


@hints_keywords
class Fork(NamedTuple):
    """The arguments of one `run_isolated`."""

    agent_name: str
    task: str
    system_prompt: str | None = None
    model: str | None = None
    tools: Sequence[str] | None = None
    cwd: str | Path | None = None
    depth: int = 0


class _Elsewhere:
    """Presents a runner's agent as a model that replies with its result, so that a run elsewhere is journaled, limited,
    paused and cancelled like one in this process."""

    def __init__(self, runner: SubagentRunner, wanted: Wanted) -> None:
        self._runner = runner
        self._wanted = wanted
        self.name = f"runner/{wanted.agent_type}"

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        wanted = self._wanted
        task = "\n\n".join(message.text for message in ask.messages if isinstance(message, UserMessage))
        tools, depth = wanted.groups, wanted.depth - 1
        brought = await self._runner.run_isolated(wanted.agent_type, task, None, wanted.model, tools, None, depth)
        if brought.error is not None:
            so_far = f" What it had so far:\n{brought.text}" if brought.text else ""
            listener.billed(brought.usage)
            raise ModelError(f"{brought.error}{so_far}")
        text = brought.text if brought.result is None else to_json(brought.result).decode()
        return Reply((TextBlock(text=text),), usage=brought.usage, model=brought.model)


def restraints(layers: Iterable[Layer], egress: Sequence[Sequence[str]]) -> str:
    """What binds an agent and those below it, and what a runner, whose agents have a tree of their own, is not told:
    "permission", "egress", both, or "". Rules for delegation itself are kept where the calls are made."""
    keys = {key for layer in layers for key in layer.permission}
    return " and ".join(["permission"] * bool(keys - {GROUP, SUBAGENT, SUBAGENTS_RUN}) + ["egress"] * bool(egress))


@hints_keywords
class DelegationTools:
    """The tools `subagent` and `subagents_run` with agents that `runner` runs; `offered`: their names with the
    descriptions that models see.

    Each run is a record below its caller, within the limits of the caller's turn. Its spending counts once it has
    ended. An agent whose permission or egress would have to hold for them as well is refused. Raises ValueError for a
    name that is not valid for an agent.
    """

    def __init__(self, runner: SubagentRunner, offered: Mapping[str, str], *, limits: Limits | None = None) -> None:
        self._runner = runner
        self._offered = dict(offered)
        self._limits = limits or Limits()
        self._definitions = {name: AgentDefinition(name=name, result="text") for name in offered}
        shown = offers(self._offered, self._limits.subagents_per_call) if offered else ()
        self._specs = tuple(
            replace(spec, seconds=self._limits.wall_seconds) for spec in shown if spec.name in (SUBAGENT, SUBAGENTS_RUN)
        )

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: StartedCall) -> Output:
        if call.turn is None:
            return refusal("This tool works only within the run of an agent.")
        if lost := restraints(call.turn.permits[call.origin.record_id or ""].layers, call.egress):
            return refusal(f"{call.name} was not run: {lost} of this agent would not hold for those that it runs.")
        names = [spec.name for spec in self._specs]
        below = Delegation(call.turn, self._offered, self._hired, depth=call.origin.depth, tools=names)
        return await below.call(call)

    def _hired(self, wanted: Wanted) -> AgentRuntime:
        model = _Elsewhere(self._runner, wanted)
        return AgentRuntime(self._definitions[wanted.agent_type], model=model, limits=self._limits)
