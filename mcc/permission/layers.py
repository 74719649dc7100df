"""Layers of permission: which keys fit a call, compiled conditions, and the layer of each mode."""

import functools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from mcc.contracts.permission import Effects, LayerName, Mode, Permission, PermissionRule, Why, Word
from mcc.contracts.tool_groups import TOOL_GROUPS
from mcc.rules.errors import ExpressionError, Fault, StepsExhausted
from mcc.rules.expression import Expression
from mcc.rules.kinds import Shape, list_shape, text_shape
from mcc.rules.patterns import Pattern
from mcc.rules.rule import ARGUMENTS, rule_expression

ALL = "*"
SHELL = "run_shell"

STEPS = 100_000
"""Most evaluation steps for the conditions of one layer on one call."""

KEPT = 1_024
"""Size of the caches of compiled conditions and globs."""

_WHOLE = Shape(frozenset({int}))
NAMES: Mapping[str, Shape] = {
    "args": ARGUMENTS,
    "tool": text_shape(),
    "group": text_shape(*TOOL_GROUPS, likely=True),
    "effects": text_shape(*get_args(Effects)),
    "agent": text_shape(),
    "depth": _WHOLE,
    "mode": text_shape(*get_args(Mode)),
    "profile": text_shape(),
    "workspace": text_shape(),
    "argv": list_shape(text_shape()),
    "parts": _WHOLE,
}
"""The names that a condition may use, with what is known of their values."""


@functools.lru_cache(maxsize=KEPT)
def condition(cel: str) -> Expression:
    """The compiled condition. Raises `ExpressionError`. The first call in a process loads the grammar (about 0.3 s)."""
    return rule_expression(cel, NAMES)


@dataclass(slots=True)
class Facts:
    """The input for the conditions of one layer: values by name, and the evaluation steps left.

    `plain` False: it is not known for certain what the call does, so no rule may allow it.
    """

    values: Mapping[str, Any]
    plain: bool = True
    steps: int = STEPS

    def holds(self, cel: str) -> bool | None:
        """Whether the condition holds; None where it has no boolean value or cannot be evaluated."""
        try:
            made = condition(cel)
            frame = made.frame(self.values, self.steps)
        # No error may leave a condition: one that cannot be evaluated has no value, and `_decide_by` takes the strict
        # side.
        except (ExpressionError, KeyError, RecursionError):
            return None
        try:
            value = made.value(frame)
        except (Fault, StepsExhausted, RecursionError):
            value = None
        # Also after a fault: steps that were taken are gone.
        self.steps = max(0, frame.steps)
        # A condition whose value is a number or text says nothing; Python's own truth of it would be a guess.
        return value if value is True or value is False else None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a layer on a call, and why."""

    word: Word
    why: Why


@dataclass(frozen=True, slots=True)
class Layer:
    """Permission from one source. `consents` False: the layer may only restrict; its allows are ignored."""

    name: LayerName
    permission: Permission
    consents: bool = True

    def compile(self) -> None:
        """Compile all conditions in advance. An invalid one is ignored here; it has no value when judged."""
        for rules in self.permission.values():
            for rule in () if isinstance(rules, str) else rules:
                if rule.when is not None:
                    with suppress(ExpressionError):
                        condition(rule.when)

    def decide(self, tool: str, group: str, facts: Facts) -> Decision | None:
        """The decision on the call; None where no key decides. A key none of whose rules holds does not."""
        for keys in keys_for(self.permission, tool, group):
            found = [one for key in keys if (one := self._decide_by(key, facts)) is not None]
            if found:
                strict = max(found, key=lambda one: STRICTNESS[one.word])
                return strict if self.consents or strict.word != "allow" else None
        return None

    def _decide_by(self, key: str, facts: Facts) -> Decision | None:
        rules = self.permission[key]
        if isinstance(rules, str):
            return Decision(rules, Why(layer=self.name, key=key)) if rules != "allow" or facts.plain else None
        for rule in rules:
            if rule.then == "allow" and not facts.plain:
                continue
            holds = True if rule.when is None else facts.holds(rule.when)
            # Where it cannot be known whether a rule holds, it holds for deny and ask: doubt makes stricter, never
            # milder.
            if holds or (holds is None and rule.then != "allow"):
                return Decision(rule.then, Why(layer=self.name, key=key, when=rule.when, message=rule.message))
        return None


STRICTNESS: Mapping[Word, int] = {"allow": 0, "ask": 1, "deny": 2}


def keys_for(permission: Permission, tool: str, group: str) -> Iterator[tuple[str, ...]]:
    """The keys that fit a call, the most specific first; keys of one rank together, such as globs of one length."""
    if tool in permission:
        yield (tool,)
    globs = [key for key in permission if is_glob(key) and glob(key).fullmatch(tool)]
    for length in sorted({len(key) for key in globs}, reverse=True):
        yield tuple(key for key in globs if len(key) == length)
    if group and group != tool and group in permission:
        yield (group,)
    # Other groups that contain the tool. Not for the shell: it is in both of its groups, and only its own one applies.
    if tool != SHELL and (
        wider := tuple(key for key in permission if key not in (tool, group) and tool in TOOL_GROUPS.get(key, ()))
    ):
        yield wider
    if everything := tuple(key for key in permission if not key.strip(ALL)):
        yield everything


def fits(key: str, tool: str, group: str) -> bool:
    """Whether the key applies to calls of this tool."""
    return any(True for _ in keys_for({key: "allow"}, tool, group))


def is_glob(key: str) -> bool:
    return ("*" in key or "?" in key) and bool(key.strip(ALL))


@functools.lru_cache(maxsize=KEPT)
def glob(key: str) -> Pattern:
    """The pattern of a glob: `*` is any number of characters, `?` exactly one."""
    written = "".join({"*": ".*", "?": "."}.get(one, f"\\{one}" if one in ".-" else one) for one in key)
    return Pattern(written, across=True)


_READ_ONLY = "The order is in mode plan, in which nothing is changed: read, and say what should be done."
_NO_WRITING = "The order is in mode test, in which no file is written and nothing committed: run tests, and report."

MODES: Mapping[Mode, Permission] = {
    "develop": {},
    "plan": {"*": (PermissionRule(when='!(effects in ["none", "read"])', then="deny", message=_READ_ONLY),)},
    "build": {"git_commit": "ask"},
    "test": {
        "workspace_write": (PermissionRule(then="deny", message=_NO_WRITING),),
        "git_write": (PermissionRule(then="deny", message=_NO_WRITING),),
        "deliver": (PermissionRule(then="deny", message=_NO_WRITING),),
    },
    "ship": {
        "*": (PermissionRule(when='effects == "irreversible"', then="ask"),),
        "git_write": (PermissionRule(when='effects == "irreversible"', then="ask"), PermissionRule(then="allow")),
    },
}
"""The permission that each mode adds to an order."""


def layer_of(mode: Mode) -> Layer:
    return Layer("mode", MODES[mode])
