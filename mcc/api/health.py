"""This room is for the questions of supervisors: alive, ready, how busy."""

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

import mcc
from mcc.api.problems import RETRY_SECONDS, problem
from mcc.api.service import Service, ServiceHere, answer
from mcc.store.errors import StoreError

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def alive() -> Response:
    """The process answers."""
    return answer({"status": "ok", "version": mcc.__version__})


@router.get("/readyz")
async def ready(service: ServiceHere) -> Response:
    """Database and schema are as they must be, and it can be written.

    What only makes things slower is told and not fatal: a Redis that is away or refuses, a disk that is nearly full.
    """
    if trouble := service.trouble() or await _trouble(service):
        return problem(503, trouble, headers={"Retry-After": str(RETRY_SECONDS)})
    shortage = service.reserve.shortage()
    told: dict[str, Any] = {
        "status": "ok",
        "database": "ok",
        "redis": _redis(service),
        "disk": "degraded" if shortage else "ok",
    }
    return answer({**told, "detail": shortage} if shortage else told)


def _redis(service: Service) -> str:
    if service.feed.connected is None:
        return "none"
    return "ok" if service.feed.connected and not service.notices.trouble else "degraded"


async def _trouble(service: Service) -> str | None:
    try:
        return await service.offload(service.store.schema_problem)
    except StoreError as error:
        return str(error)


@router.get("/metrics")
async def metrics(service: ServiceHere) -> Response:
    """Figures for Prometheus."""
    text = await service.offload(service.metrics.text, service.store, service.feed.viewers, service.feed.connected)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
