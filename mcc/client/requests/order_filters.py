"""Filters of lists of orders, as arguments of both clients."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias, TypedDict

Values: TypeAlias = str | Sequence[str] | None


class MoreFilters(TypedDict, total=False):
    """`model`: the requested one until the order has ended, then the one that its master began with. `drone`: the name
    of the drone that runs it, or held it last. `who`: the principal that placed it. `fingerprint`: what failures of one
    cause have in common. `group`: needs_input, working or done. `text`: words of their prompts and answers."""

    model: Values
    drone: Values
    who: Values
    fingerprint: Values
    until: datetime | None
    group: str | None
    text: str | None


class AllFilters(MoreFilters, total=False):
    status: Values
    session_id: Values
    label: Values
    agent: Values
    workspace: str | None
    kind: str | None
    since: datetime | None
    part: str | None
