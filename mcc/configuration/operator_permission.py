"""The tables [permission] and [approvals]: what tools may do, and how long a call waits for a person."""

from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from mcc.configuration import protected_names
from mcc.contracts.permission import OnAsk, Permission, PermissionKey, WordOrRules
from mcc.permission.declared import problems, problems_of


def _permission_key(key: str) -> str:
    for problem in problems({key: "deny"}):
        raise ValueError(problem.sentence)
    return key


def _unprotected(glob: str) -> str:
    if (problem := protected_names.problem_of(glob)) is not None:
        raise ValueError(problem)
    return glob


def _permission_rules(rules: WordOrRules) -> WordOrRules:
    for problem in problems_of(rules):
        raise ValueError(f"rule [{problem.place[0]}].when: {problem.sentence}")
    return rules


Glob = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class OperatorPermission(BaseModel):
    """The table [permission]. `protected` are globs of paths that no tool may write, besides the built-in list;
    `unprotected` are globs of names that are taken out of that list. Every other key is a permission rule."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[
        Annotated[PermissionKey, AfterValidator(_permission_key)],
        Annotated[WordOrRules, AfterValidator(_permission_rules)],
    ]

    protected: tuple[Glob, ...] = ()
    unprotected: tuple[Annotated[Glob, AfterValidator(_unprotected)], ...] = ()

    @property
    def rules(self) -> Permission:
        return cast(Permission, self.model_extra or {})


class ApprovalSettings(BaseModel):
    """The table [approvals]: how long a call waits for a person's decision, for how many days an order waits for
    answers to questions without a deadline, and the default `on_ask` of orders.

    `on_ask` None: "wait" for attended orders, "deny" for all others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    expire_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = 86_400
    wait_days: Annotated[int, Field(ge=1, le=365)] = 30
    on_ask: OnAsk | None = None
