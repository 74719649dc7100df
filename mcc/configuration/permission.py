"""The tables [permission] and [approvals]: what the operator says of tool calls, and of asking for them."""

from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from mcc.contracts.permission import OnAsk, Permission, PermissionKey, WordOrRules
from mcc.permission.declared import problems, problems_of

Glob = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


def _no_slip(key: str) -> str:
    for problem in problems({key: "deny"}):
        raise ValueError(problem.sentence)
    return key


def _usable(rules: WordOrRules) -> WordOrRules:
    for problem in problems_of(rules):
        raise ValueError(f"rule [{problem.place[0]}].when: {problem.sentence}")
    return rules


class OperatorPermission(BaseModel):
    """The table [permission]: `protected` are globs of paths that no tool writes, beside the fixed list; every other
    key is one of permission."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[
        Annotated[PermissionKey, AfterValidator(_no_slip)], Annotated[WordOrRules, AfterValidator(_usable)]
    ]

    protected: tuple[Glob, ...] = ()

    @property
    def rules(self) -> Permission:
        return cast(Permission, self.model_extra or {})


class Approvals(BaseModel):
    """The table [approvals]: for how long a call waits for a person, and what becomes of it in orders that do not say;
    `on_ask` None: as whoever placed the order can be asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expire_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = 86_400
    on_ask: OnAsk | None = None
