"""What a run told its model before the conversation, as it is stored: system prompt and tools."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mcc.contracts.order import EarlierTurn
from mcc.contracts.shape import to_json
from mcc.transcript.messages import ToolSpec


@dataclass(slots=True)
class Setup:
    """The setup a run started with: system prompt, tools, spellings of its workspace's path. `session`: earlier turns
    that it was shown, in set-ups of versions that kept them there.

    `withheld`: tools that the drone has now and the run did not start with; they are not offered.
    """

    system: str
    specs: tuple[ToolSpec, ...]
    session: tuple[EarlierTurn, ...] = ()
    withheld: frozenset[str] = field(default=frozenset())
    roots: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, there: Sequence[ToolSpec]) -> "Setup":
        """Parse the result of `encoded_setup` on a drone that now has the tools `there`. Raises ValueError.

        A tool that no longer exists is still described to the model; calling it returns an error.
        """
        kept = json.loads(text)
        if not isinstance(kept, Mapping):
            raise ValueError("the set-up is no JSON object")
        live = {spec.name: spec for spec in there}
        offered = {spec.name for spec in there if not spec.deferred}
        try:
            specs = tuple(_merged(tool, live.get(tool["name"])) for tool in kept["tools"])
            system = str(kept["system"])
            session = tuple(EarlierTurn.model_validate(turn) for turn in kept.get("session", ()))
        except (KeyError, TypeError) as error:
            raise ValueError(f"the set-up lacks {error}") from error
        gate = kept.get("gate")
        roots = tuple(map(str, gate.get("roots", ()))) if isinstance(gate, Mapping) else ()
        return cls(system, specs, session, frozenset(offered) - {spec.name for spec in specs}, roots)

    def current_specs(self, there: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The tools of the next round: the original ones, and those the tool set has added during the run."""
        known = {spec.name for spec in self.specs} | self.withheld
        return (*self.specs, *(spec for spec in there if spec.name not in known))


def _merged(kept: Mapping[str, object], live: ToolSpec | None) -> ToolSpec:
    """The spec the model was shown, combined with what the runtime knows about the tool now."""
    parameters = kept["parameters"]
    if not isinstance(parameters, Mapping):
        raise ValueError("a tool's parameters are no JSON object")
    name, description = str(kept["name"]), str(kept["description"])
    if live is None:
        return ToolSpec(name, description, parameters, group=str(kept.get("group", "")))
    if (live.description, to_json(live.parameters)) == (description, to_json(parameters)):
        return replace(live, deferred=False) if live.deferred else live
    # Without the cached bytes, which are those of today's description.
    return replace(live, description=description, parameters=parameters, deferred=False, encoded={})
