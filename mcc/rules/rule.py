"""This room is for a CEL rule on its way to use: parsed, its names and size checked, kept ready."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from mcc.contracts.order import Rule
from mcc.rules.errors import RuleError
from mcc.rules.expression import Expression, expression

VARIABLES = frozenset({"result", "task", "receipts", "children", "usage"})
"""What a rule over an agent's result may name."""

KEPT = 512
"""Rules that stay compiled, the last used ones."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule that can be checked. Shared by threads; keeps nothing of any check."""

    expression: Expression
    message: str

    @property
    def cel(self) -> str:
        return self.expression.text


def compiled(rule: Rule, variables: Iterable[str] = VARIABLES) -> CompiledRule:
    """`rule` ready to be checked; `variables` are the names that it may use.

    Raises `RuleError` for CEL that cannot be read, unknown names and functions, kinds that cannot fit together, and
    what is too large to be bounded. Kept for reuse: asking again costs nothing. The first call of a process loads the
    grammar (about 0.3 s).
    """
    return CompiledRule(_expression(rule.cel, frozenset(variables)), rule.message)


@functools.lru_cache(maxsize=KEPT)
def _expression(cel: str, variables: frozenset[str]) -> Expression:
    made = expression(cel, variables)
    if made.top.kind not in (None, "bool"):
        raise RuleError(f"a rule must be true or false, and this is {made.top.kind}; compare it with something")
    return made
