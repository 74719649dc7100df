"""One layer of permission, ready to judge: its keys by how near they are to a call, its conditions compiled; the layer
that each mode is."""

import functools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from mcc.contracts.drones import Effects
from mcc.contracts.permission import LayerName, Mode, Permission, PermissionRule, Why, Word
from mcc.contracts.tool_groups import TOOL_GROUPS
from mcc.rules.errors import Exhausted, Fault, RuleError
from mcc.rules.expression import Expression
from mcc.rules.kinds import Shape, of_items, text
from mcc.rules.patterns import Pattern
from mcc.rules.rule import ARGUMENTS, read_rule

ALL = "*"
SHELL = "run_shell"

STEPS = 100_000
"""Steps that the conditions of one layer may take for one call."""

KEPT = 1_024
"""Conditions that stay compiled, the last used ones."""

_WHOLE = Shape(frozenset({int}))
NAMES: Mapping[str, Shape] = {
    "args": ARGUMENTS,
    "tool": text(),
    "group": text(*TOOL_GROUPS, likely=True),
    "effects": text(*get_args(Effects)),
    "agent": text(),
    "depth": _WHOLE,
    "mode": text(*get_args(Mode)),
    "profile": text(),
    "workspace": text(),
    "argv": of_items(text()),
    "parts": _WHOLE,
}
"""What a condition may name, and what is known of each."""


def condition(cel: str) -> Expression:
    """Raises `RuleError`. Kept for reuse; the first of a process loads the grammar (about 0.3 s)."""
    return _condition(cel)


@functools.lru_cache(maxsize=KEPT)
def _condition(cel: str) -> Expression:
    return read_rule(cel, NAMES)


@dataclass(slots=True)
class Facts:
    """What the conditions of one layer are held against: values by name, and the steps that are left.

    `plain` False: what the call does is not known for certain, so that nothing allows it.
    """

    values: Mapping[str, Any]
    plain: bool = True
    steps: int = STEPS

    def holds(self, cel: str) -> bool | None:
        """None where the condition has no value."""
        try:
            made = condition(cel)
            frame = made.frame(self.values, self.steps)
        except (RuleError, KeyError, RecursionError):
            return None
        try:
            found = made.value(frame)
        except (Fault, Exhausted, RecursionError):
            found = None
        self.steps = max(0, frame.steps)
        return found if found is True or found is False else None


@dataclass(frozen=True, slots=True)
class Found:
    """What a layer says of a call, and why."""

    word: Word
    why: Why


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says. `consents` False: it may only narrow, and what it allows counts as nothing said."""

    name: LayerName
    permission: Permission
    consents: bool = True

    def compile(self) -> None:
        """Read its conditions; one that cannot be used has no value whenever it is asked for one."""
        for rules in self.permission.values():
            for rule in () if isinstance(rules, str) else rules:
                if rule.when is not None:
                    with suppress(RuleError):
                        condition(rule.when)

    def says(self, tool: str, group: str, facts: Facts) -> Found | None:
        """What it says of the call; None where it says nothing. A key whose rules do not hold leaves it to the next."""
        for keys in fitting(self.permission, tool, group):
            found = [one for key in keys if (one := self._of_key(key, facts)) is not None]
            if found:
                strict = max(found, key=lambda one: STRICTNESS[one.word])
                return strict if self.consents or strict.word != "allow" else None
        return None

    def _of_key(self, key: str, facts: Facts) -> Found | None:
        rules = self.permission[key]
        if isinstance(rules, str):
            return Found(rules, Why(layer=self.name, key=key)) if rules != "allow" or facts.plain else None
        for rule in rules:
            if rule.then == "allow" and not facts.plain:
                continue
            holds = True if rule.when is None else facts.holds(rule.when)
            if holds or (holds is None and rule.then != "allow"):
                return Found(rule.then, Why(layer=self.name, key=key, when=rule.when, message=rule.message))
        return None


STRICTNESS: Mapping[Word, int] = {"allow": 0, "ask": 1, "deny": 2}


def fitting(permission: Permission, tool: str, group: str) -> Iterator[tuple[str, ...]]:
    """The keys that fit a call, the most specific first; those of one rank together: globs of one length."""
    if tool in permission:
        yield (tool,)
    globs = [key for key in permission if is_glob(key) and glob(key).fullmatch(tool)]
    for length in sorted({len(key) for key in globs}, reverse=True):
        yield tuple(key for key in globs if len(key) == length)
    if group and group != tool and group in permission:
        yield (group,)
    if wider := tuple(key for key in permission if key not in (tool, group) and _holds(key, tool)):
        yield wider
    if everything := tuple(key for key in permission if not key.strip(ALL)):
        yield everything


def fits(key: str, tool: str, group: str) -> bool:
    """Whether the key is about calls of this tool."""
    return any(True for _ in fitting({key: "allow"}, tool, group))


def _holds(key: str, tool: str) -> bool:
    """Whether a group has this tool besides its own group. Of a shell, its own group alone says what it may."""
    return tool != SHELL and tool in TOOL_GROUPS.get(key, ())


def is_glob(key: str) -> bool:
    return ("*" in key or "?" in key) and bool(key.strip(ALL))


@functools.lru_cache(maxsize=KEPT)
def glob(key: str) -> Pattern:
    """`*` is any number of characters of a name, `?` one of them."""
    written = "".join({"*": ".*", "?": "."}.get(one, f"\\{one}" if one in ".-" else one) for one in key)
    return Pattern(written, across=True)


_READ_ONLY = "The order is in mode plan, in which nothing is changed: read, and say what should be done."
_NO_WRITING = "The order is in mode test, in which no file is written and nothing is committed: run tests, and report."

MODES: Mapping[Mode, Permission] = {
    "develop": {},
    "plan": {"*": (PermissionRule(when='!(effects in ["none", "read"])', then="deny", message=_READ_ONLY),)},
    "build": {"git_commit": "ask"},
    "test": {
        "workspace_write": (PermissionRule(then="deny", message=_NO_WRITING),),
        "git_write": (PermissionRule(then="deny", message=_NO_WRITING),),
    },
    "ship": {
        "*": (PermissionRule(when='effects == "irreversible"', then="ask"),),
        "git_write": (PermissionRule(when='effects == "irreversible"', then="ask"), PermissionRule(then="allow")),
    },
}
"""What each mode adds to the permission of an order, in the same grammar as everybody else's."""


def layer_of(mode: Mode) -> Layer:
    return Layer("mode", MODES[mode])
