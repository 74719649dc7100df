"""What is wrong with permission where it is declared: conditions that cannot be used, keys that look like slips."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mcc.contracts.permission import Permission, PermissionRule, Word
from mcc.contracts.tool_groups import TOOL_GROUPS
from mcc.permission.layers import condition, is_glob
from mcc.rules.errors import RuleError, alike

SLIP = 0.85
"""How alike a key that nobody knows is to a name that it was probably meant to be."""

CHARACTERS = 20_000
"""CEL of all conditions that one order, or one agent file, brings; reading it takes up to about half a second."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`place` leads from the permission to what is wrong: `("run_shell", 1, "when")`."""

    place: tuple[str | int, ...]
    sentence: str

    @property
    def where(self) -> str:
        """`run_shell[1].when`."""
        key, *inside = self.place
        return str(key) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in inside)


def problems(permission: Permission, tools: Collection[str] = ()) -> Iterator[Problem]:
    """What is wrong with it, in its order. `tools` are names that are known beside those of this version; a tool of
    another name may still exist, unless its name looks like a slip of one that is known."""
    known = {*TOOL_GROUPS, *(tool for group in TOOL_GROUPS.values() for tool in group), *tools}
    for key, rules in permission.items():
        if key not in known and key.strip("*") and not is_glob(key) and (near := alike(key, known, cutoff=SLIP)):
            yield Problem((key,), f"there is no tool or group {key!r}; did you mean {near[0]!r}?")
        yield from (Problem((key, *one.place), one.sentence) for one in problems_of(rules))


def problems_of(rules: Word | tuple[PermissionRule, ...]) -> Iterator[Problem]:
    """What is wrong with the conditions of one key."""
    if isinstance(rules, str):
        return
    for index, rule in enumerate(rules):
        if rule.when is None:
            continue
        try:
            condition(rule.when)
        except RuleError as error:
            yield Problem((index, "when"), str(error))


def characters(permission: Permission) -> int:
    """How much CEL it brings."""
    rules = (rule for one in permission.values() if not isinstance(one, str) for rule in one)
    return sum(len(rule.when or "") for rule in rules)
