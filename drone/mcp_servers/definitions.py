"""A server's tool definitions: names that providers accept, cleaned texts, limits on size, and digests."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drone.tools.frame.display_text import one_line, visible, visible_json
from mcc.configuration.mcp_servers import SEPARATOR, McpServer
from mcc.contracts.shape import digest, to_json
from mcc.transcript.messages import ToolSpec

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
class ToolListing:
    """The tools that a server offers: usable ones by name, and the problems of the others by name."""

    tools: Mapping[str, Definition] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def listing(server: str, config: McpServer, tools: Iterable[object]) -> ToolListing:
    """The definitions of `tools`, which are JSON as the server sent it, by the names that agents use.

    Each tool is judged by itself. One that is sent again with the same definition counts once.
    """
    definitions: dict[str, Definition] = {}
    problems: dict[str, str] = {}
    for number, tool in enumerate(tools):
        if number == MOST_TOOLS:
            problems[f"{server}{SEPARATOR}…"] = f"the server has more than {MOST_TOOLS} tools; the others are left out"
            break
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            problems[f"{server}{SEPARATOR}…{number + 1}"] = f"tool {number + 1} of its list has no name"
            continue
        name = name_of(server, tool["name"])
        try:
            made = definition(server, config, name, tool)
        except ValueError as problem:
            problems.setdefault(name, f"its definition {problem}")
            continue
        if definitions.setdefault(name, made).digest != made.digest:
            problems.setdefault(name, "the server has two tools of this name; the first is used")
    return ToolListing(definitions, problems)


def definition(server: str, config: McpServer, name: str, tool: Mapping[str, Any]) -> Definition:
    """The definition of one tool. Raises ValueError, whose message is the end of a sentence about the definition."""
    # Not the whole object: what a server adds of its own, such as a time, would make each listing another definition.
    pinned = {key: tool[key] for key in _PINNED if tool.get(key) is not None}
    size = len(to_json(pinned))
    if size > MOST_BYTES:
        raise ValueError(f"has {size:,} bytes, and {MOST_BYTES:,} at most are shown to a model")
    own_name = str(tool["name"])
    effects = config.effects_of(own_name)
    spec = ToolSpec(
        name=name,
        description=_description(tool),
        parameters=_parameters(visible_json(tool.get("inputSchema"))),
        group=GROUP,
        idempotent=effects in ("none", "read"),
        effects=effects,
    )
    return Definition(server, own_name, spec, f"sha256:{digest(pinned)}")


def _parameters(schema: object) -> dict[str, Any]:
    """The schema of a tool's arguments, which need not say that they are an object. Raises ValueError."""
    if not isinstance(schema, dict):
        found = "" if schema is None else f", but {_cut(schema)}"
        raise ValueError(f"has no schema of its arguments{found}")
    kind, properties, required = schema.get("type"), schema.get("properties"), schema.get("required")
    if kind is not None and kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ValueError(f"wants arguments of the type {_cut(kind)}, and arguments are an object")
    if properties is not None and not isinstance(properties, dict):
        raise ValueError(f"lists its arguments in something that is no object: {_cut(properties)}")
    made = {"type": "object", **schema, **({} if kind == "object" else {"type": "object"})}
    if properties is None:
        made.pop("properties", None)
    elif not all(isinstance(one, dict | bool) for one in properties.values()):
        made["properties"] = {key: one if isinstance(one, dict | bool) else {} for key, one in properties.items()}
    if required is None or not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        made.pop("required", None)
    return made


def _cut(value: object) -> str:
    return one_line(value if isinstance(value, str) else to_json(value).decode("utf-8", "replace"), 100)


def name_of(server: str, tool: str) -> str:
    """`server__tool` as a name that every provider accepts: with a short digest if characters had to be replaced or
    cut."""
    name = f"{server}{SEPARATOR}{tool}"
    legal = "".join(char if char in _LEGAL else "_" for char in name)
    if legal == name and tool and len(name) <= LONGEST_NAME:
        return name
    # Two tools whose names differ only in what was replaced or cut keep different names.
    mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    return f"{legal[: LONGEST_NAME - _MARK - 1]}_{mark}"


def _description(tool: Mapping[str, Any]) -> str:
    title, text = tool.get("title"), tool.get("description")
    description = visible(text, MOST_DESCRIPTION).strip() if isinstance(text, str) else ""
    name = one_line(title, 200) if isinstance(title, str) else ""
    return description or name or "The server does not say what it does."
