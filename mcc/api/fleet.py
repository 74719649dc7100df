"""What is there to work with: drones, and the agents, tools and models that they have."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from fastapi import APIRouter
from starlette.responses import Response

from mcc.api.problems import Refusal
from mcc.api.service import API, Service, ServiceHere, answer, answers, whole
from mcc.contracts.answers import Listing, Offer
from mcc.contracts.drones import Capability, Drone, Registration

router = APIRouter(prefix=API, tags=["fleet"])

Part: TypeAlias = Callable[[Registration], Iterable[Capability]]


@router.get("/drones", responses=answers(Listing[Drone]))
async def drones(service: ServiceHere) -> Response:
    """Drones of the last day that did not leave in good order; `silent` ones have missed their heartbeat."""
    return whole(await service.offload(service.store.leases.drones))


@router.get("/agents", responses=answers(Listing[Offer]))
async def agents(service: ServiceHere) -> Response:
    """Agents that the live drones know."""
    return await _merged(service, lambda drone: drone.agents)


@router.get("/agents/{name}", responses=answers(Offer))
async def agent(service: ServiceHere, name: str) -> Response:
    """One agent with its prompt, as the first drone that can use it has it."""
    found = await service.offload(_agent, service, name)
    if found is None:
        raise Refusal(404, "No live drone has an agent of this name.")
    return answer(found)


@router.get("/tools", responses=answers(Listing[Offer]))
async def tools(service: ServiceHere) -> Response:
    """Tools that the live drones have, and why one cannot be used."""
    return await _merged(service, lambda drone: drone.tools)


@router.get("/models", responses=answers(Listing[Offer]))
async def models(service: ServiceHere) -> Response:
    """Models that the live drones can ask, and why one cannot be asked."""
    return await _merged(service, lambda drone: drone.models)


async def _merged(service: Service, part: Part) -> Response:
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
    return Offer(
        name=name,
        description=next((one.description for one, _ in held if one.description), ""),
        problem=None if usable else held[0][0].problem,
        drones=usable,
        agent=next((one.agent for one, _ in held if one.agent is not None), None),
    )
