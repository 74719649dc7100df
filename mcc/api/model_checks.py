"""Trying models over HTTP: which drone is asked for which of them, and what they said."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.problems import Refusal
from mcc.api.service import API, Service, ServiceHere, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.drones import DroneStatus, Registration
from mcc.contracts.model_checks import MOST_NAMES, ModelCheck, ModelsToCheck
from mcc.dispatch.broker import DispatchUnavailable
from mcc.dispatch.checks import ModelCheckers

router = APIRouter(prefix=API, tags=["fleet"])

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
    if service.checkers is None:
        raise Refusal(503, NO_REDIS)
    drones = await service.offload(_live, service)
    if not drones:
        raise Refusal(503, NO_DRONE)
    names = tuple(dict.fromkeys((asked or ModelsToCheck()).names)) or _all(drones)
    return whole(await _checked(service.checkers, assignments(drones, names)))


async def _checked(checkers: ModelCheckers, assigned: Sequence[Assignment]) -> list[ModelCheck]:
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(_by_one(checkers, one)) for one in assigned]
    return sorted((row for task in asking for row in task.result()), key=lambda row: row.name)


async def _by_one(checkers: ModelCheckers, assigned: Assignment) -> list[ModelCheck]:
    drone, rows, why = assigned.drone.name, list[ModelCheck](), "This drone did not say what it found: see its log."
    try:
        rows = await checkers.check(assigned.drone.incarnation, assigned.names)
    except DispatchUnavailable as problem:
        why = str(problem)
    told = {row.name for row in rows}
    return [*rows, *(ModelCheck(name=one, drone=drone, problem=why) for one in assigned.names if one not in told)]


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


def _live(service: Service) -> list[Registration]:
    up = {drone.incarnation for drone in service.store.leases.drones() if drone.status is DroneStatus.UP}
    return [one for one in service.store.leases.registrations() if one.incarnation in up]
