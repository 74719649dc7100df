"""The commands `mcc tools`: list tools and their cost in tokens, test MCP servers, approve their tools."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcc.cli.command import FAILED, USAGE, fail, print_pairs, print_wrapped, say
from mcc.cli.server import ServiceCall, list_by_default, service_command
from mcc.view.offers import print_offers
from mcc.view.output import clean

if TYPE_CHECKING:
    from mcc.contracts.answers import Offer

app = typer.Typer(help="Tools: what agents can be given; MCP servers.", rich_markup_mode=None)

Server = Annotated[str, typer.Argument(metavar="SERVER", help="The NAME of its table [mcp.NAME].")]


@service_command(app, "list")
def list_tools(call: ServiceCall) -> None:
    """Tools that the live drones have, what a call may do, and how many tokens showing one to a model costs; what is
    wrong with the others, and how much each MCP server costs.

    Example: mcc tools list
    """
    tools = call.client.tools.list()
    if call.printed({"items": tools}):
        return
    columns = ("NAME", "STATE", "EFFECTS", "TOKENS", "DRONES", "FROM", "DESCRIPTION")
    rows = [
        (tool, (tool.effects or "", tool.tokens, ",".join(tool.drones), _from(tool), tool.description))
        for tool in tools
    ]
    print_offers(columns, rows, empty="No tool: is there a drone?")
    for line in _servers(tools):
        print_wrapped(line)


list_by_default(app, list_tools)


@service_command(app, "test")
def test(
    call: ServiceCall,
    server: Server,
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Call this tool of it as well.")] = None,
    arguments: Annotated[str | None, typer.Argument(metavar="[JSON]", help="Its arguments, a JSON object.")] = None,
) -> None:
    """Let a drone connect to an MCP server: what it offers, and what a call of one of its tools brings.

    The call is yours: it is made at once, without approval. Exit code 1 when something is wrong.

    Example: mcc tools test tracker search_issues '{"query": "rounding"}'
    """
    values = _object(arguments)
    if tool is None:
        say("A drone asks the server what it offers.")
    answer = call.client.tools.test(server, tool, values)
    if not call.printed(answer):
        if answer.problem is not None:
            fail(answer.problem, FAILED)
        pairs = [("server", server), ("drone", answer.drone), ("protocol", answer.revision or "?")]
        print_pairs([*pairs, ("tools", str(answer.tools)), ("tokens", f"{answer.tokens:,}")])
        if answer.content is not None:
            print(f"\n{clean(answer.content)}")
    if answer.problem is not None or answer.is_error:
        raise typer.Exit(FAILED)


@service_command(app, "approve")
def approve(
    call: ServiceCall,
    server: Server,
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Only this tool of it.")] = None,
) -> None:
    """Approve definitions of an MCP server's tools that are new, or changed since they were approved.

    Look at them first: mcc tools list --json. Drones offer them within seconds.

    Example: mcc tools approve tracker create_issue
    """
    approved = call.client.tools.approve(server, tool)
    if not call.printed(approved):
        say(
            f"approved: {', '.join(approved.tools)}"
            if approved.tools
            else "nothing had changed: everything was approved already"
        )


def _object(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        values = json.loads(text)
    except ValueError as error:
        fail(f'the arguments are no JSON: {error}. Write an object, such as \'{{"query": "x"}}\'.', USAGE)
    if not isinstance(values, dict):
        fail('the arguments must be a JSON object, such as \'{"query": "x"}\'.', USAGE)
    return values


def _from(one: "Offer") -> str:
    return f"mcp {one.server}" if one.server else one.origin or "shipped"


def _servers(found: Sequence["Offer"]) -> Sequence[str]:
    """A line for each MCP server: the tokens its tools cost with every question, and what its deferred tools would."""
    by_server: dict[str, list[Offer]] = defaultdict(list)
    for one in found:
        if one.server:
            by_server[one.server].append(one)
    return [_cost(server, tools) for server, tools in sorted(by_server.items())]


def _cost(server: str, tools: Sequence["Offer"]) -> str:
    shown = sum(tool.tokens for tool in tools if tool.state == "usable")
    later = sum(tool.tokens for tool in tools if tool.state == "deferred")
    off = sum(tool.state in ("changed", "broken") for tool in tools)
    parts = [f"{shown:,} tokens with every question"]
    if later:
        parts.append(f"{later:,} behind tool_search")
    if off:
        parts.append(f"{off} off")
    return f"\nMCP server {server}: {', '.join(parts)}"
