"""Blueprints over HTTP: what documents can be made of, and a file of somebody's handed to the service."""

import json
import logging
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from mcc.api.catalogue import Offered
from mcc.api.service import API, ServiceHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.documents import BlueprintDetail, BlueprintSummary, KeptBlueprint, NewBlueprint
from mcc.documents.blueprint import Blueprint
from mcc.documents.reading import BlueprintError

router = APIRouter(prefix=API, tags=["blueprints"])

log = logging.getLogger(__name__)

Reference = Annotated[str, Path(max_length=200)]


@router.post("/blueprints", status_code=201, responses=answers(KeptBlueprint, 201))
async def keep(new: NewBlueprint, service: ServiceHere) -> Response:
    """Hand a blueprint to the service, as YAML or JSON; it is kept under its name and digest, never in the place of a
    shipped one. 422 with all that is wrong with it: `errors` are `{line, place, message}`."""
    blueprint = await service.offload(Blueprint.parse, new.text)
    await service.write(service.store.blueprints.keep, blueprint)
    return answer(kept(blueprint), 201, {"Location": f"{API}/blueprints/{reference(blueprint)}"})


@router.get("/blueprints", responses=answers(Listing[BlueprintSummary]))
async def list_blueprints(service: ServiceHere) -> Response:
    """Blueprints that ship, those of the operator's that can be used, and of other names what was handed over."""
    return whole(await service.offload(lambda: [summary(one) for one in service.catalogue.usable(_passed_over)]))


@router.get("/blueprints/{name}", responses=answers(BlueprintDetail))
async def show(name: Reference, service: ServiceHere) -> Response:
    """One blueprint with its content, by its name or by `name:` and the first twelve digits of its digest."""
    return answer(detail(await service.offload(service.catalogue.find, name)))


def _passed_over(error: BlueprintError) -> None:
    log.warning("a blueprint cannot be used: %s", error)


def reference(blueprint: Blueprint) -> str:
    """The name by which exactly this content is found: `name:DIGEST12`."""
    return f"{blueprint.spec.blueprint}:{blueprint.digest.removeprefix('sha256:')[:12]}"


def kept(blueprint: Blueprint) -> KeptBlueprint:
    return KeptBlueprint(**_named(blueprint))


def summary(one: Offered) -> BlueprintSummary:
    return BlueprintSummary(**_summed(one))


def detail(one: Offered) -> BlueprintDetail:
    spec = one.blueprint.spec
    return BlueprintDetail(**_summed(one), root=spec.root, content=json.loads(one.blueprint.text))


def _named(blueprint: Blueprint) -> dict[str, Any]:
    return {
        "name": blueprint.spec.blueprint,
        "digest": blueprint.digest,
        "components": tuple(blueprint.spec.components),
    }


def _summed(one: Offered) -> dict[str, Any]:
    spec = one.blueprint.spec
    return {
        **_named(one.blueprint),
        "version": spec.version,
        "description": spec.description,
        "origin": one.origin,
    }
