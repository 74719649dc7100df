"""Judging a tool call: the strictest word of all layers, of the strictest part of what it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcc.contracts.drones import Effects
from mcc.contracts.permission import Mode, SavedRule, Why, Word
from mcc.permission.layers import STRICTNESS, Facts, Found, Layer
from mcc.rules.errors import Fault
from mcc.rules.kinds import Plain


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that is to be judged. `effects` are the most that its tool may do; `profile` is how a program that it runs
    is walled in, "" where it runs none; `workspace` is the path of the directory that it works in, "" for none."""

    tool: str
    group: str = ""
    effects: Effects = "execute"
    arguments: Mapping[str, object] = field(default_factory=dict)
    agent: str = ""
    depth: int = 0
    mode: Mode = "develop"
    profile: str = ""
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What becomes of a call. `would_save` is what a person would let stand who allows it for longer, None where
    nothing can be; `told` is what the model is told of a call that is not allowed."""

    word: Word
    why: Why
    would_save: SavedRule | None = None
    told: str = ""


def judge(asked: Asked, layers: Sequence[Layer], grants: Sequence[SavedRule] = ()) -> Ruling:
    """The strictest word of `layers`, in whichever order they stand; where none of them says anything, that of the
    tool's effects. A grant makes an ask an allow, never a deny. Never raises. Blocks for milliseconds."""
    values, plain = _values(asked)
    found = [
        one for layer in layers if (one := layer.says(asked.tool, asked.group, Facts(values, plain=plain))) is not None
    ]
    strictest = max(found, key=lambda one: STRICTNESS[one.word], default=_by_effects(asked.effects))
    return Ruling(strictest.word, strictest.why)


def _by_effects(effects: Effects) -> Found:
    return Found("ask" if effects == "irreversible" else "allow", Why(layer="default"))


def _values(asked: Asked) -> tuple[Mapping[str, object], bool]:
    try:
        args = Plain().of(asked.arguments)
    except (Fault, RecursionError):
        return {}, False
    return {
        "args": args,
        "tool": asked.tool,
        "group": asked.group,
        "effects": asked.effects,
        "agent": asked.agent,
        "depth": asked.depth,
        "mode": asked.mode,
        "profile": asked.profile,
        "workspace": asked.workspace,
    }, True
