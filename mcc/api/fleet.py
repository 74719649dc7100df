"""Endpoints of the fleet: drones, their agents, models and tools; trying models and MCP servers; approving tools."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Query
from pydantic import ValidationError
from starlette.responses import Response

from mcc.api.access.callers import Caller, CallerHere
from mcc.api.problems import Refusal
from mcc.api.service import API, Service, ServiceHere, Window, WindowHere, answer, answers, whole
from mcc.contracts.answers import MAX_CHECKED_MODELS, Listing, ModelCheck, ModelsToCheck, Offer
from mcc.contracts.drones import Capability, DrainRequest, Drone, DroneStatus, NewDrain, Registration, ToolSheet
from mcc.contracts.tool_tests import ToolsApproved, ToolsToApprove, ToolTest, ToolTested
from mcc.dispatch.broker import DispatchUnavailable
from mcc.dispatch.checks import DroneChecks

router = APIRouter(prefix=API, tags=["fleet"])

DroneName = Annotated[str, Path(max_length=200)]
Part: TypeAlias = Callable[[Registration], Iterable[Capability]]


@router.get("/drones", responses=answers(Listing[Drone]))
async def drones(
    service: ServiceHere, window: WindowHere, every: Annotated[bool, Query(alias="all")] = False
) -> Response:
    """Drones with a heartbeat within ten minutes (`all`: within a day), except those that shut down properly; `silent`
    ones have missed their heartbeat."""
    return whole(await service.offload(service.store.leases.drones, with_long_silent=every), window)


@router.post("/drones/{name}/drain", responses=answers(Listing[Drone]))
async def drain(name: DroneName, service: ServiceHere, caller: CallerHere, asked: NewDrain | None = None) -> Response:
    """Tell a drone to take no orders: it ends those that it has, or hands them back with `hand_back`. It stays so until
    it is told to take orders again, or starts anew.

    It hears of it with the next renewal of its lease, within seconds. Answers the drones of this name.
    """
    return await _told(service, caller, name, "hand_back" if asked is not None and asked.hand_back else "finish")


@router.delete("/drones/{name}/drain", responses=answers(Listing[Drone]))
async def undrain(name: DroneName, service: ServiceHere, caller: CallerHere) -> Response:
    """Tell a drone to take orders again."""
    return await _told(service, caller, name, None)


async def _told(service: Service, caller: Caller, name: str, drain: DrainRequest | None) -> Response:
    await service.write(service.store.leases.drain, name, drain, by=caller.actor)
    return whole([drone for drone in await service.offload(service.store.leases.drones) if drone.name == name])


@router.get("/agents", responses=answers(Listing[Offer]))
async def agents(service: ServiceHere, window: WindowHere) -> Response:
    """Agents that the live drones know."""
    return await merged(service, lambda drone: drone.agents, window)


@router.get("/agents/{name}", responses=answers(Offer))
async def agent(service: ServiceHere, name: str) -> Response:
    """One agent with its prompt, as defined on the first drone that can use it."""
    found = await service.offload(_agent, service, name)
    if found is None:
        raise Refusal(404, "No live drone has an agent of this name.")
    return answer(found)


@router.get("/models", responses=answers(Listing[Offer]))
async def models(service: ServiceHere, window: WindowHere) -> Response:
    """Models that the live drones can call, with the reason why one cannot be called."""
    return await merged(service, lambda drone: drone.models, window)


async def merged(service: Service, part: Part, window: Window) -> Response:
    return whole(offers(await service.offload(service.store.leases.registrations), part), window)


def offers(drones: Sequence[Registration], part: Part) -> list[Offer]:
    """One offer per name, merged over all drones: usable if one drone can use it, else with the first problem."""
    found: dict[str, list[tuple[Capability, str]]] = {}
    for drone in drones:
        for one in part(drone):
            found.setdefault(one.name, []).append((one, drone.name))
    return [_offer(name, held) for name, held in sorted(found.items())]


def _agent(service: Service, name: str) -> Offer | None:
    offered = offers(service.store.leases.registrations(), lambda drone: drone.agents)
    found = next((one for one in offered if one.name == name), None)
    if found is None or found.agent is None or found.agent.prompt_digest is None:
        return found
    prompt = service.store.texts.kept(found.agent.prompt_digest)
    definition = found.agent.definition.model_copy(update={"prompt": prompt})
    return found.model_copy(update={"agent": found.agent.model_copy(update={"definition": definition})})


def _offer(name: str, held: Sequence[tuple[Capability, str]]) -> Offer:
    usable = tuple(sorted({drone for offer, drone in held if offer.problem is None}))
    shown = next((offer for offer, _ in held if offer.problem is None), held[0][0])
    return Offer(
        name=name,
        description=next((offer.description for offer, _ in held if offer.description), ""),
        problem=None if usable else held[0][0].problem,
        drones=usable,
        agent=next((offer.agent for offer, _ in held if offer.agent is not None), None),
        default=any(offer.default for offer, _ in held),
        origin=next((offer.origin for offer, _ in held if offer.origin), None),
        **{name: getattr(shown, name) for name in ToolSheet.model_fields},
    )


NO_DRONE = (
    "No drone is there, and nobody else can try a model: only drones have the keys. Start one with mcc up or drone "
    "work; without a service, drone models --check tries the models of a configuration where it is."
)
NO_REDIS = "This service has no Redis, by which drones are asked to try models."


@dataclass(frozen=True, slots=True)
class CheckAssignment:
    """The models that one drone has to try."""

    drone: Registration
    names: tuple[str, ...]


@router.post("/models/check", responses=answers(Listing[ModelCheck]))
async def check(service: ServiceHere, asked: ModelsToCheck | None = None) -> Response:
    """Have drones try models with one small call each, and report the results and costs.

    Each model is tried by the first live drone that can call it. The answer takes as long as the slowest model, at most
    a minute for eight models. 503 without a drone.
    """
    if service.checks is None:
        raise Refusal(503, NO_REDIS)
    drones = await service.offload(live, service)
    if not drones:
        raise Refusal(503, NO_DRONE)
    names = (asked or ModelsToCheck()).names or [model.name for drone in drones for model in drone.models]
    assigned = assignments(drones, tuple(dict.fromkeys(names))[:MAX_CHECKED_MODELS])
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_check_on(service.checks, model)) for model in assigned]
    results = sorted((result for task in tasks for result in task.result()), key=lambda result: result.name)
    return whole(results)


async def _check_on(checks: DroneChecks, assigned: CheckAssignment) -> list[ModelCheck]:
    drone, results, why = assigned.drone.name, list[ModelCheck](), "This drone did not say what it found: see its log."
    try:
        results = await checks.check(assigned.drone.incarnation, assigned.names)
    except DispatchUnavailable as problem:
        why = str(problem)
    answered = {result.name for result in results}
    missing = (name for name in assigned.names if name not in answered)
    return [*results, *(ModelCheck(name=name, drone=drone, problem=why) for name in missing)]


def assignments(drones: Sequence[Registration], names: Iterable[str]) -> list[CheckAssignment]:
    """Assign each model to the first drone that can call it, else the first that has it, else the first drone."""
    chosen: dict[str, list[str]] = {}
    for name in names:
        has = [(drone, model) for drone in drones for model in drone.models if model.name == name]
        fit = [drone for drone, model in has if model.problem is None] or [drone for drone, _ in has] or list(drones)
        chosen.setdefault(fit[0].incarnation, []).append(name)
    by_incarnation = {drone.incarnation: drone for drone in drones}
    return [CheckAssignment(by_incarnation[which], tuple(assigned)) for which, assigned in chosen.items()]


def live(service: Service) -> list[Registration]:
    up = {drone.incarnation for drone in service.store.leases.drones() if drone.status is DroneStatus.UP}
    return [one for one in service.store.leases.registrations() if one.incarnation in up]


@router.get("/tools", responses=answers(Listing[Offer]))
async def tools(service: ServiceHere, window: WindowHere) -> Response:
    """Tools that the live drones have, with the reason why one cannot be used."""
    return await merged(service, lambda drone: drone.tools, window)


@router.post("/tools/test", responses=answers(ToolTested))
async def test(service: ServiceHere, asked: ToolTest) -> Response:
    """Have a drone connect to an MCP server and call one of its tools if one is named, on your behalf and without
    approval.

    The first live drone that has the server does it, within a minute. 503 without a drone.
    """
    if service.checks is None:
        raise Refusal(503, NO_REDIS)
    drones = await service.offload(live, service)
    if not drones:
        raise Refusal(503, NO_DRONE)
    drone = next(
        (candidate for candidate in drones if any(tool.server == asked.server for tool in candidate.tools)), drones[0]
    )
    trial = await service.write(service.store.mcp_servers.ask, asked)
    try:
        tested = await service.checks.try_server(drone.incarnation, trial)
    except DispatchUnavailable as problem:
        raise Refusal(503, str(problem)) from problem
    except ValidationError:
        tested = None
    silent = ToolTested(
        server=asked.server, drone=drone.name, problem="The drone did not say what it found: see its log."
    )
    return answer(tested or silent)


@router.post("/tools/approve", responses=answers(ToolsApproved))
async def approve(service: ServiceHere, caller: CallerHere, asked: ToolsToApprove) -> Response:
    """Approve the latest definitions of an MCP server's tools, of one tool or of all.

    Drones offer them within seconds.
    """
    tools = await service.write(service.store.mcp_servers.approve, asked.server, asked.tool, by=caller.actor)
    return answer(ToolsApproved(server=asked.server, tools=tuple(tools)))
