"""The tools of one run: those that its model is shown with every request, and those of them that may be called now."""

from drone.agent.control.agent_control import AgentControl
from drone.agent.gates.gate import RunGate
from drone.agent.parts import AgentParts
from drone.agent.state.record import RecordState
from mcc.transcript.messages import ToolSpec
from mcc.transcript.setup import Setup
from mcc.transcript.transcript import VALIDATE


class OfferedTools:
    """`names`: the tools that are known by now, deferred ones included."""

    def __init__(
        self, agent: AgentParts, state: RecordState, agent_control: AgentControl, finish: RunGate | None
    ) -> None:
        self._tools = agent.tools
        self._state = state
        self._agent_control = agent_control
        self._finish = finish
        self.finish_specs = finish.specs() if finish else ()
        self.names: dict[str, ToolSpec] = {spec.name: spec for spec in (*agent.specs, *agent.tools.specs())}
        self._setup: Setup | None = None

    def use_setup(self, setup: Setup) -> None:
        """Show the tools that a resumed run, or the turn before, was shown."""
        self._setup = setup
        self.names |= {spec.name: spec for spec in setup.specs}

    def shown(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is shown. Neither a removed tool nor the last reply takes any away, as that would
        move the beginning of the request; tool sets that change and tools that are found add some."""
        offered = (*self._tools.specs(), *self.finish_specs)
        if self._setup is not None:
            offered = self._setup.current_specs(offered)
        self.names = {spec.name: spec for spec in offered}
        # Found tools come last, in the order they were found, so that the provider's cached prefix stays valid.
        searched = (self.names[name] for name in self._state.conversation.found if name in self.names)
        return (*(spec for spec in offered if not spec.deferred), *(spec for spec in searched if spec.deferred))

    def usable(self) -> tuple[ToolSpec, ...]:
        """Those of the shown tools that may be called now: none that a person removed, and with the last reply only
        those that submit a result."""
        shown = self.shown()
        if self._state.spending.landing is not None:
            shown = tuple(filter(self.submits, shown))
        return tuple(filter(self.is_available, shown)) if self._agent_control.has_removed_tools else shown

    def is_available(self, spec: ToolSpec) -> bool:
        """Whether the tool has not been removed. Finish tools cannot be removed: without them a run could not end."""
        owned = self._finish is not None and self._finish.owns(spec.name)
        return owned or self._agent_control.allows(spec.name, spec.group)

    def submits(self, spec: ToolSpec) -> bool:
        """Whether the tool submits a result: all that an agent may do with its last reply."""
        return self._finish is not None and self._finish.owns(spec.name) and spec.name != VALIDATE
