"""Tools that the live drones have; MCP servers tried by one of them, definitions of their tools approved."""

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from mcc.api.fleet import NO_DRONE, NO_REDIS, live, merged
from mcc.api.problems import Refusal
from mcc.api.service import API, PRINCIPAL, ServiceHere, answer, answers
from mcc.contracts.answers import Listing, Offer
from mcc.contracts.tool_tests import ToolsApproved, ToolsToApprove, ToolTest, ToolTested
from mcc.dispatch.broker import DispatchUnavailable

router = APIRouter(prefix=API, tags=["fleet"])


@router.get("/tools", responses=answers(Listing[Offer]))
async def tools(service: ServiceHere) -> Response:
    """Tools that the live drones have, and why one cannot be used."""
    return await merged(service, lambda drone: drone.tools)


@router.post("/tools/test", responses=answers(ToolTested))
async def test(service: ServiceHere, asked: ToolTest) -> Response:
    """Have a drone speak with an MCP server, and call one of its tools if one is named: as yourself, with no approval.

    The first live drone that has the server does it, within a minute. Without a drone the answer is 503.
    """
    if service.checks is None:
        raise Refusal(503, NO_REDIS)
    drones = await service.offload(live, service)
    if not drones:
        raise Refusal(503, NO_DRONE)
    drone = next((one for one in drones if any(tool.server == asked.server for tool in one.tools)), drones[0])
    trial = await service.write(service.store.mcp_servers.ask, asked)
    try:
        found = await service.checks.try_server(drone.incarnation, trial)
    except DispatchUnavailable as problem:
        raise Refusal(503, str(problem)) from problem
    except ValidationError:
        found = None
    said = ToolTested(
        server=asked.server, drone=drone.name, problem="The drone did not say what it found: see its log."
    )
    return answer(found or said)


@router.post("/tools/approve", responses=answers(ToolsApproved))
async def approve(service: ServiceHere, asked: ToolsToApprove) -> Response:
    """Let the definitions of an MCP server's tools count that were seen last, of one tool or of all.

    Drones offer them within seconds.
    """
    tools = await service.write(service.store.mcp_servers.approve, asked.server, asked.tool, principal=PRINCIPAL)
    return answer(ToolsApproved(server=asked.server, tools=tuple(tools)))
