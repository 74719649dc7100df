"""The permission of an agent: its layers of rules, and the effects of its tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mcc.contracts.entry import Origin
from mcc.contracts.permission import Effects, Mode, OnAsk, Permission, SavedRule
from mcc.permission.judging import PermissionRequest, Ruling, judge
from mcc.permission.layers import Layer, layer_of
from mcc.transcript.messages import ToolSpec


@dataclass(frozen=True, slots=True)
class Permits:
    """The permission of one agent of an order. `on_ask`: what happens to a call that needs a person's approval."""

    layers: tuple[Layer, ...] = ()
    mode: Mode = "develop"
    on_ask: OnAsk = "wait"
    workspace: str = ""

    @classmethod
    def of_order(cls, operator: Permission, mode: Mode, order: Permission, on_ask: OnAsk, workspace: str) -> "Permits":
        """The layers that apply to all agents of an order."""
        layers = (Layer("operator", operator), layer_of(mode), Layer("order", order))
        return cls(tuple(layer for layer in layers if layer.permission), mode, on_ask, workspace)

    def compile(self) -> None:
        """Compile all conditions in advance. Blocks: call it in a thread."""
        for layer in self.layers:
            layer.compile()

    def of(self, own: Sequence[Layer]) -> "Permits":
        """The permission of a child whose agent file contains `own`; the parent's own layers also apply to it."""
        above = (replace(layer, name="ancestor") if layer.name == "agent" else layer for layer in self.layers)
        return replace(self, layers=(*above, *(layer for layer in own if layer.permission)))

    def below(self, above: "Permits") -> "Permits":
        """The same, additionally restricted by the permission of the agent that runs this one."""
        named = [replace(layer, name="ancestor") if layer.name == "agent" else layer for layer in above.layers]
        return Permits(
            (*(layer for layer in named if layer not in self.layers), *self.layers),
            above.mode if self.mode == "develop" else self.mode,
            "deny" if "deny" in (above.on_ask, self.on_ask) else "wait",
            self.workspace or above.workspace,
        )

    def judge(self, request: PermissionRequest, grants: Sequence[SavedRule] = ()) -> Ruling:
        """The decision on a call; `grants`: approvals that people have let stand. Never raises."""
        return judge(request, self.layers, grants)

    def request(
        self, spec: ToolSpec, arguments: Mapping[str, object], origin: Origin, profile: str = ""
    ) -> PermissionRequest:
        """The input of `judge` for a call of a tool by the agent at `origin`."""
        return PermissionRequest(
            tool=spec.name,
            group=spec.group,
            effects=effects_of(spec),
            arguments=arguments,
            agent=origin.agent or "",
            depth=origin.depth or 0,
            mode=self.mode,
            profile=profile,
            workspace=self.workspace,
        )


_OF_GROUPS: Mapping[str, Effects] = {
    "coordination": "none",
    "delegation": "none",
    "finish": "none",
    "shell_read": "execute",
    "shell_write": "execute",
    "mcp": "irreversible",
}


def is_background_safe(spec: ToolSpec) -> bool:
    """Whether an agent in the background may call it: its parent goes on meanwhile, and nobody may be watching."""
    return spec.background_safe and effects_of(spec) != "irreversible"


def effects_of(spec: ToolSpec) -> Effects:
    """The most that a call may do: as its tool declares, else by its group, else `execute`."""
    if spec.effects is not None:
        return spec.effects
    known = _OF_GROUPS.get(spec.group)
    if known is not None:
        return known
    return "read" if spec.group.endswith("_read") else "write" if spec.group.endswith("_write") else "execute"
