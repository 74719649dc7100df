"""A server's tool definitions: names that providers accept, cleaned texts, limits on size, and digests."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drone.agent.messages import ToolSpec
from drone.tools.display_text import one_line, visible, visible_json
from mcc.configuration.mcp_servers import SEPARATOR, McpServer
from mcc.contracts.shape import digest, to_json

GROUP = "mcp"
LONGEST_NAME = 64
"""The longest tool name, in characters, that every provider accepts."""

MOST_TOOLS = 500
MOST_BYTES = 64 * 1024
"""The largest definition, as JSON."""

MOST_DESCRIPTION = 4_000
_MARK = 8
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server defines it. `own_name` is its name on the server, `spec` is what agents see.

    `digest` covers the server's whole definition, also the parts that agents do not see.
    """

    server: str
    own_name: str
    spec: ToolSpec
    digest: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that a server offers: usable ones by name, and the problems of the others by name."""

    tools: Mapping[str, Definition] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def listing(server: str, config: McpServer, tools: Iterable[Mapping[str, Any]]) -> Listing:
    """The definitions of `tools`, which are the protocol's JSON objects, by the names that agents use."""
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
            found[name] = definition(server, config, name, tool)
        except ValueError as problem:
            problems[name] = f"its definition {problem}"
    return Listing(found, problems)


def definition(server: str, config: McpServer, name: str, tool: Mapping[str, Any]) -> Definition:
    """The definition of one tool. Raises ValueError, whose message is the end of a sentence about the definition."""
    pinned = {key: tool[key] for key in _PINNED if tool.get(key) is not None}
    size = len(to_json(pinned))
    if size > MOST_BYTES:
        raise ValueError(f"has {size:,} bytes, and {MOST_BYTES:,} at most are shown to a model")
    parameters = visible_json(tool.get("inputSchema"))
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
    return Definition(server, own_name, spec, f"sha256:{digest(pinned)}")


def name_of(server: str, tool: str) -> str:
    """`server__tool` as a name that every provider accepts: with a short digest if characters had to be replaced or
    cut."""
    whole = f"{server}{SEPARATOR}{tool}"
    legal = "".join(char if char in _LEGAL else "_" for char in whole)
    if legal == whole and tool and len(whole) <= LONGEST_NAME:
        return whole
    mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    return f"{legal[: LONGEST_NAME - _MARK - 1]}_{mark}"


def _description(tool: Mapping[str, Any]) -> str:
    title, text = tool.get("title"), tool.get("description")
    description = visible(text, MOST_DESCRIPTION).strip() if isinstance(text, str) else ""
    name = one_line(title, 200) if isinstance(title, str) else ""
    return description or name or "The server does not say what it does."
