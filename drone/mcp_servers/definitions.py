"""Definitions of a server's tools: named, cleaned, bounded, and told apart by their digest."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drone.agent.messages import ToolSpec
from drone.mcp_servers.words import one_line, seen, seen_in
from mcc.configuration.mcp_servers import SEPARATOR, McpServer
from mcc.contracts.shape import digest, to_json

GROUP = "mcp"
LONGEST_NAME = 64
"""Characters of a tool's name that every provider takes."""

MOST_TOOLS = 500
MOST_BYTES = 64 * 1024
"""Of one definition."""

MOST_DESCRIPTION = 4_000
_MARK = 8
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server defines it. `own_name` is the server's, `spec` what agents see of it.

    `digest` is over all that the server said of it, also what is not shown.
    """

    server: str
    own_name: str
    spec: ToolSpec
    digest: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers: the tools that can be used, and by name what is wrong with the others."""

    tools: Mapping[str, Definition] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def listing(server: str, config: McpServer, tools: Iterable[Mapping[str, Any]]) -> Listing:
    """The definitions of `tools`, JSON objects as the protocol has them, by the names that agents call them by."""
    found: dict[str, Definition] = {}
    problems: dict[str, str] = {}
    for number, tool in enumerate(tools):
        if number == MOST_TOOLS:
            problems[f"{server}{SEPARATOR}…"] = f"the server has more than {MOST_TOOLS} tools; the others are left out"
            break
        name = name_of(server, str(tool.get("name", "")))
        if name in found or name in problems:
            problems.setdefault(name, "the server has two tools of this name; the first is used")
            continue
        try:
            found[name] = defined(server, config, name, tool)
        except ValueError as problem:
            problems[name] = f"its definition {problem}"
    return Listing(found, problems)


def defined(server: str, config: McpServer, name: str, tool: Mapping[str, Any]) -> Definition:
    """Raises ValueError with the end of a sentence: what is wrong with the definition."""
    said = {key: tool[key] for key in _PINNED if tool.get(key) is not None}
    size = len(to_json(said))
    if size > MOST_BYTES:
        raise ValueError(f"has {size:,} bytes, and {MOST_BYTES:,} at most are shown to a model")
    parameters = seen_in(tool.get("inputSchema"))
    if not isinstance(parameters, dict):
        raise ValueError("has no schema of its arguments")
    own_name = str(tool["name"])
    effects = config.effects_of(own_name)
    spec = ToolSpec(
        name=name,
        description=_description(tool),
        parameters={"type": "object", **parameters},
        group=GROUP,
        idempotent=effects in ("none", "read"),
        effects=effects,
    )
    return Definition(server, own_name, spec, f"sha256:{digest(said)}")


def name_of(server: str, tool: str) -> str:
    """`server__tool` as every provider takes it: other characters and what is too long give way to a short digest."""
    whole = f"{server}{SEPARATOR}{tool}"
    legal = "".join(char if char in _LEGAL else "_" for char in whole)
    if legal == whole and tool and len(whole) <= LONGEST_NAME:
        return whole
    mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    return f"{legal[: LONGEST_NAME - _MARK - 1]}_{mark}"


def _description(tool: Mapping[str, Any]) -> str:
    title, said = tool.get("title"), tool.get("description")
    description = seen(said, MOST_DESCRIPTION).strip() if isinstance(said, str) else ""
    name = one_line(title, 200) if isinstance(title, str) else ""
    return description or name or "The server does not say what it does."
