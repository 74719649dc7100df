"""Listing, showing and uploading blueprints over HTTP."""

import json
import logging
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from mcc.api.catalogue import Offered
from mcc.api.service import API, ServiceHere, WindowHere, answer, answers, whole
from mcc.contracts.answers import Listing
from mcc.contracts.documents import BlueprintDetail, BlueprintSummary, KeptBlueprint, NewBlueprint
from mcc.documents.blueprint import Blueprint
from mcc.documents.reading import BlueprintError

router = APIRouter(prefix=API, tags=["blueprints"])

log = logging.getLogger(__name__)

Reference = Annotated[str, Path(max_length=200)]


@router.post("/blueprints", status_code=201, responses=answers(KeptBlueprint, 201))
async def keep(new: NewBlueprint, service: ServiceHere) -> Response:
    """Upload a blueprint as YAML or JSON. It is kept under its name and digest and never replaces a shipped one. 422
    with all its mistakes: `errors` are `{line, place, message}`."""
    blueprint = await service.offload(Blueprint.parse, new.text)
    await service.write(service.store.blueprints.keep, blueprint)
    return answer(kept(blueprint), 201, {"Location": f"blueprints/{reference(blueprint)}"})


@router.get("/blueprints", responses=answers(Listing[BlueprintSummary]))
async def list_blueprints(service: ServiceHere, window: WindowHere) -> Response:
    """The shipped blueprints, the operator's usable ones, and uploaded ones with other names."""
    usable = await service.offload(lambda: [summary(one) for one in service.catalogue.usable(_log_unusable)])
    return whole(usable, window)


@router.get("/blueprints/{name}", responses=answers(BlueprintDetail))
async def show(name: Reference, service: ServiceHere) -> Response:
    """One blueprint with its content, by its name, or by `name:` and the first twelve digits of its digest."""
    return answer(detail(await service.offload(service.catalogue.find, name)))


def _log_unusable(error: BlueprintError) -> None:
    log.warning("a blueprint cannot be used: %s", error)


def reference(blueprint: Blueprint) -> str:
    """The reference that finds exactly this content: `name:DIGEST12`."""
    return f"{blueprint.spec.blueprint}:{blueprint.digest.removeprefix('sha256:')[:12]}"


def kept(blueprint: Blueprint) -> KeptBlueprint:
    return KeptBlueprint(**_kept_fields(blueprint))


def summary(one: Offered) -> BlueprintSummary:
    return BlueprintSummary(**_summary_fields(one))


def detail(one: Offered) -> BlueprintDetail:
    spec = one.blueprint.spec
    return BlueprintDetail(**_summary_fields(one), root=spec.root, content=json.loads(one.blueprint.text))


def _kept_fields(blueprint: Blueprint) -> dict[str, Any]:
    return {
        "name": blueprint.spec.blueprint,
        "digest": blueprint.digest,
        "components": tuple(blueprint.spec.components),
    }


def _summary_fields(one: Offered) -> dict[str, Any]:
    spec = one.blueprint.spec
    return {
        **_kept_fields(one.blueprint),
        "version": spec.version,
        "description": spec.description,
        "origin": one.origin,
    }
