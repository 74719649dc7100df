"""Checks of declared permission: invalid conditions, and keys that look like misspelled names."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mcc.contracts.permission import Permission, PermissionRule, Word
from mcc.contracts.similar import close_matches
from mcc.contracts.tool_groups import TOOL_GROUPS
from mcc.permission.layers import condition, is_glob
from mcc.rules.errors import ExpressionError

SLIP = 0.85
"""Similarity (0 to 1) to a known name from which an unknown key counts as a misspelling."""

CHARACTERS = 20_000
"""Most characters of CEL in one order or agent file; compiling that much takes up to about half a second."""


@dataclass(frozen=True, slots=True)
class PermissionProblem:
    """`place` is the path within the permission, such as `("run_shell", 1, "when")`."""

    place: tuple[str | int, ...]
    sentence: str

    @property
    def where(self) -> str:
        """The place as text, such as `run_shell[1].when`."""
        key, *inside = self.place
        return str(key) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in inside)


def problems(permission: Permission, tools: Collection[str] = ()) -> Iterator[PermissionProblem]:
    """The problems, in the order of the permission. `tools` are known names beside the built-in ones.

    Other tools may exist, so an unknown name is only a problem if it looks like a misspelled known one.
    """
    known = {*TOOL_GROUPS, *(tool for group in TOOL_GROUPS.values() for tool in group), *tools}
    for key, rules in permission.items():
        # Globs are not compared: they are meant to fit names that nobody knows yet, such as those of MCP servers.
        near = [] if key in known or not key.strip("*") or is_glob(key) else close_matches(key, known, cutoff=SLIP)
        if near:
            yield PermissionProblem((key,), f"there is no tool or group {key!r}; did you mean {near[0]!r}?")
        yield from (PermissionProblem((key, *problem.place), problem.sentence) for problem in problems_of(rules))


def problems_of(rules: Word | tuple[PermissionRule, ...]) -> Iterator[PermissionProblem]:
    """Problems of the conditions of one key."""
    if isinstance(rules, str):
        return
    for index, rule in enumerate(rules):
        if rule.when is None:
            continue
        try:
            condition(rule.when)
        except ExpressionError as error:
            yield PermissionProblem((index, "when"), str(error))


def characters(permission: Permission) -> int:
    """The total characters of its conditions."""
    rules = (rule for one in permission.values() if not isinstance(one, str) for rule in one)
    return sum(len(rule.when or "") for rule in rules)
