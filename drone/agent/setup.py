"""The set-up of an agent: what its model is asked with in every round, kept for whoever takes over."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from drone.agent.messages import ToolSpec
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import EXPLAINED
from mcc.contracts.limits import Limits
from mcc.contracts.order import EarlierTurn
from mcc.contracts.record import ModelChoice
from mcc.contracts.shape import to_json


def system_prompt(
    prompt: str, missing: Sequence[str], guidelines: Sequence[str], guidance: str, *, shows_fences: bool = False
) -> str:
    """The parts that are there, in an order that never changes, so that providers can cache it.

    `missing` are tools that the agent was to have; those that it has are told by their schemas alone. `guidance` is the
    gate's. `shows_fences`: what strangers may have written may be shown to the model.
    """
    listed = "".join(f"\n- {line}" for line in guidelines)
    lacking = f"Not available here: {', '.join(missing)}. Do without, and say so where it matters." if missing else ""
    explained = EXPLAINED if shows_fences else ""
    parts = (prompt, lacking, explained, f"Guidelines:{listed}" if listed else "", guidance)
    return "\n\n".join(part for part in parts if part)


def kept_setup(
    system: str,
    specs: Sequence[ToolSpec],
    model: ModelChoice,
    limits: Limits,
    definition: AgentDefinition,
    owed: object,
    session: Sequence[EarlierTurn],
) -> str:
    """As JSON: system prompt, tools, model, limits, the definition in force without its prompt, what its gate asks, and
    the turns of the session that it was shown.
    """
    tools = [
        {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
            "group": spec.group,
            "idempotent": spec.idempotent,
            "seconds": spec.seconds,
        }
        for spec in specs
    ]
    return to_json(
        {
            "system": system,
            "tools": tools,
            "model": model,
            "limits": limits,
            "definition": definition.model_copy(update={"prompt": ""}),
            "gate": owed,
            "session": tuple(session),
        }
    ).decode()


@dataclass(slots=True)
class SetUp:
    """What a run began with: system prompt, tools, earlier turns, spellings of its workspace's path.

    `withheld`: tools that came with a later version.
    """

    system: str
    specs: tuple[ToolSpec, ...]
    session: tuple[EarlierTurn, ...] = ()
    withheld: frozenset[str] = field(default=frozenset())
    roots: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, there: Sequence[ToolSpec]) -> "SetUp":
        """What `kept_setup` made, on a drone that has the tools `there` now. Raises ValueError.

        A tool that is no longer there is told as it was: whoever calls it is answered that it cannot be used.
        """
        kept = json.loads(text)
        if not isinstance(kept, Mapping):
            raise ValueError("the set-up is no JSON object")
        live = {spec.name: spec for spec in there}
        try:
            specs = tuple(_merged(tool, live.get(tool["name"])) for tool in kept["tools"])
            system = str(kept["system"])
            session = tuple(EarlierTurn.model_validate(turn) for turn in kept.get("session", ()))
        except (KeyError, TypeError) as error:
            raise ValueError(f"the set-up lacks {error}") from error
        gate = kept.get("gate")
        roots = tuple(map(str, gate.get("roots", ()))) if isinstance(gate, Mapping) else ()
        return cls(system, specs, session, frozenset(live) - {spec.name for spec in specs}, roots)

    def now(self, there: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The tools of the next round: those from the beginning, and what the tool set has added since."""
        known = {spec.name for spec in self.specs} | self.withheld
        return (*self.specs, *(spec for spec in there if spec.name not in known))


def _merged(kept: Mapping[str, object], live: ToolSpec | None) -> ToolSpec:
    """What the model was told, with what the runtime knows of the tool now."""
    parameters = kept["parameters"]
    if not isinstance(parameters, Mapping):
        raise ValueError("a tool's parameters are no JSON object")
    name, description = str(kept["name"]), str(kept["description"])
    if live is None:
        return ToolSpec(name, description, parameters, group=str(kept.get("group", "")))
    if (live.description, to_json(live.parameters)) == (description, to_json(parameters)):
        return live
    return replace(live, description=description, parameters=parameters, encoded={})
