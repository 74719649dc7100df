"""This room is for rights that only shrink: what a workspace's agent file keeps of what an operator allows."""

from collections.abc import Mapping
from typing import Literal

from mcc.contracts.agents import AgentDefinition, AgentLimits
from mcc.definitions.groups import TOOL_GROUPS, GroupTable, expanded

Permission = Literal["allow", "ask", "deny"]
_STRICTNESS: Mapping[Permission, int] = {"allow": 0, "ask": 1, "deny": 2}


def narrowed(wanted: AgentDefinition, allowed: AgentDefinition, groups: GroupTable = TOOL_GROUPS) -> AgentDefinition:
    """`wanted` with no tool, spawn, limit or permission beyond `allowed`'s; prompt, rules and model are its own.

    Rules and disallowed tools of `allowed` stay in force beside those of `wanted`.
    """
    return wanted.model_copy(
        update={
            "tools": _tools(wanted, allowed, groups),
            "disallowed_tools": tuple(sorted({*wanted.disallowed_tools, *allowed.disallowed_tools})),
            "spawns": tuple(name for name in wanted.spawns if name in allowed.spawns),
            "limits": _limits(wanted.limits, allowed.limits),
            "permission": _permission(wanted.permission, allowed.permission),
            "rules": (*allowed.rules, *(rule for rule in wanted.rules if rule not in allowed.rules)),
        }
    )


def _tools(wanted: AgentDefinition, allowed: AgentDefinition, groups: GroupTable) -> tuple[str, ...] | None:
    if allowed.tools is None:
        return wanted.tools
    asked = allowed.tools if wanted.tools is None else wanted.tools
    both = expanded(asked, groups) & expanded(allowed.tools, groups)
    return tuple(sorted(both | (set(asked) & set(allowed.tools))))


def _limits(wanted: AgentLimits, allowed: AgentLimits) -> AgentLimits:
    smaller = {}
    for name in AgentLimits.model_fields:
        values = [value for value in (getattr(wanted, name), getattr(allowed, name)) if value is not None]
        smaller[name] = min(values, default=None)
    return AgentLimits(**smaller)


def _permission(wanted: Mapping[str, Permission], allowed: Mapping[str, Permission]) -> dict[str, Permission]:
    """The stricter word for each pattern; a pattern that only `wanted` names may not loosen, so it cannot be allow."""
    strict = dict(allowed)
    for pattern, word in wanted.items():
        known = allowed.get(pattern)
        if known is None and word != "allow":
            strict[pattern] = word
        elif known is not None:
            strict[pattern] = max(known, word, key=_STRICTNESS.__getitem__)
    return strict
