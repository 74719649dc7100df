"""What is there to work with: drones, the agents, tools and models that they have, and models tried by one of them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.problems import Refusal
from mcc.api.service import API, Service, ServiceHere, answer, answers, whole
from mcc.contracts.answers import MOST_NAMES, Listing, ModelCheck, ModelsToCheck, Offer
from mcc.contracts.drones import Capability, Drone, DroneStatus, Registration, ToolSheet
from mcc.dispatch.broker import DispatchUnavailable
from mcc.dispatch.checks import DroneChecks

router = APIRouter(prefix=API, tags=["fleet"])

Part: TypeAlias = Callable[[Registration], Iterable[Capability]]


@router.get("/drones", responses=answers(Listing[Drone]))
async def drones(service: ServiceHere) -> Response:
    """Drones of the last day that did not leave in good order; `silent` ones have missed their heartbeat."""
    return whole(await service.offload(service.store.leases.drones))


@router.get("/agents", responses=answers(Listing[Offer]))
async def agents(service: ServiceHere) -> Response:
    """Agents that the live drones know."""
    return await merged(service, lambda drone: drone.agents)


@router.get("/agents/{name}", responses=answers(Offer))
async def agent(service: ServiceHere, name: str) -> Response:
    """One agent with its prompt, as the first drone that can use it has it."""
    found = await service.offload(_agent, service, name)
    if found is None:
        raise Refusal(404, "No live drone has an agent of this name.")
    return answer(found)


@router.get("/models", responses=answers(Listing[Offer]))
async def models(service: ServiceHere) -> Response:
    """Models that the live drones can ask, and why one cannot be asked."""
    return await merged(service, lambda drone: drone.models)


async def merged(service: Service, part: Part) -> Response:
    return whole(offers(await service.offload(service.store.leases.registrations), part))


def offers(drones: Sequence[Registration], part: Part) -> list[Offer]:
    """One line per name: usable as soon as one drone can use it, else with the first problem that was told."""
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
    usable = tuple(sorted({drone for one, drone in held if one.problem is None}))
    shown = next((one for one, _ in held if one.problem is None), held[0][0])
    return Offer(
        name=name,
        description=next((one.description for one, _ in held if one.description), ""),
        problem=None if usable else held[0][0].problem,
        drones=usable,
        agent=next((one.agent for one, _ in held if one.agent is not None), None),
        default=any(one.default for one, _ in held),
        origin=next((one.origin for one, _ in held if one.origin), None),
        **{name: getattr(shown, name) for name in ToolSheet.model_fields},
    )


NO_DRONE = (
    "No drone is there, and nobody else can try a model: only drones have the keys. Start one with mcc up or drone "
    "work; without a service, drone models --check tries the models of a configuration where it is."
)
NO_REDIS = "This service has no Redis, by which drones are asked to try models."


@dataclass(frozen=True, slots=True)
class Assignment:
    """The models that one drone is asked to try."""

    drone: Registration
    names: tuple[str, ...]


@router.post("/models/check", responses=answers(Listing[ModelCheck]))
async def check(service: ServiceHere, asked: ModelsToCheck | None = None) -> Response:
    """Have drones try models, in one small call each, and say what it showed and cost.

    Each model is tried by the first live drone that can ask it. That takes as long as the slowest one, at most a minute
    for eight models. Without a drone the answer is 503.
    """
    if service.checks is None:
        raise Refusal(503, NO_REDIS)
    drones = await service.offload(live, service)
    if not drones:
        raise Refusal(503, NO_DRONE)
    names = tuple(dict.fromkeys((asked or ModelsToCheck()).names)) or _all(drones)
    return whole(await _checked(service.checks, assignments(drones, names)))


async def _checked(checks: DroneChecks, assigned: Sequence[Assignment]) -> list[ModelCheck]:
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(_by_one(checks, one)) for one in assigned]
    return sorted((row for task in asking for row in task.result()), key=lambda row: row.name)


async def _by_one(checks: DroneChecks, assigned: Assignment) -> list[ModelCheck]:
    drone, rows, why = assigned.drone.name, list[ModelCheck](), "This drone did not say what it found: see its log."
    try:
        rows = await checks.check(assigned.drone.incarnation, assigned.names)
    except DispatchUnavailable as problem:
        why = str(problem)
    answered = {row.name for row in rows}
    return [*rows, *(ModelCheck(name=one, drone=drone, problem=why) for one in assigned.names if one not in answered)]


def assignments(drones: Sequence[Registration], names: Iterable[str]) -> list[Assignment]:
    """Each model to the first drone that can ask it, else the first that has it, else the first one."""
    chosen: dict[str, list[str]] = {}
    for name in names:
        has = [(drone, one) for drone in drones for one in drone.models if one.name == name]
        fit = [drone for drone, one in has if one.problem is None] or [drone for drone, _ in has] or list(drones)
        chosen.setdefault(fit[0].incarnation, []).append(name)
    by_incarnation = {drone.incarnation: drone for drone in drones}
    return [Assignment(by_incarnation[one], tuple(given)) for one, given in chosen.items()]


def _all(drones: Iterable[Registration]) -> tuple[str, ...]:
    names = dict.fromkeys(one.name for drone in drones for one in drone.models)
    return tuple(names)[:MOST_NAMES]


def live(service: Service) -> list[Registration]:
    up = {drone.incarnation for drone in service.store.leases.drones() if drone.status is DroneStatus.UP}
    return [one for one in service.store.leases.registrations() if one.incarnation in up]
