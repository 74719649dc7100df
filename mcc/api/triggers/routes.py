"""Triggers over HTTP: which there are, and what was delivered to them."""

from collections.abc import Sequence
from datetime import timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response

from mcc.api.access.scopes import HOOKS
from mcc.api.problems import Refusal
from mcc.api.service import API, PAGE_LIMIT, Service, ServiceHere, WindowHere, answer, answers, whole
from mcc.api.triggers.ready import ReadyTrigger
from mcc.contracts.answers import Listing
from mcc.contracts.schedules import shown_order
from mcc.contracts.similar import did_you_mean
from mcc.contracts.triggers import Trigger, TriggerDelivery

COUNTED = timedelta(days=1)

router = APIRouter(prefix=API, tags=["triggers"])


@router.get("/triggers", responses=answers(Listing[Trigger]))
async def list_triggers(request: Request, service: ServiceHere) -> Response:
    """The triggers of `mcc.toml`, each with its newest delivery; secrets are not among what is told."""
    public = service.settings.public_url or f"http://{request.headers['host']}"
    return whole(await service.offload(_triggers, service, public))


@router.get("/triggers/{name}/deliveries", responses=answers(Listing[TriggerDelivery]))
async def list_deliveries(name: str, service: ServiceHere, window: WindowHere) -> Response:
    """What was delivered to this trigger within 90 days, newest first, and what became of it."""
    ready = _named(service)
    if name not in ready:
        raise Refusal(404, f"There is no trigger {name[:80]!r}{did_you_mean(name[:80], ready)}.")
    most = window.limit or PAGE_LIMIT
    read = service.store.trigger_deliveries.list
    items = await service.offload(read, name, skip=window.skip, most=most + 1)
    following = str(window.skip + most) if len(items) > most else None
    return answer({"items": items[:most], "next_cursor": following})


def _named(service: Service) -> dict[str, ReadyTrigger]:
    return {trigger.name: trigger for trigger in service.triggers.ready.values()}


def _triggers(service: Service, public: str) -> Sequence[Trigger]:
    listed: list[Trigger] = []
    named, deliveries = _named(service), service.store.trigger_deliveries
    counts = deliveries.counts(list(named), service.store.database.clock.now() - COUNTED)
    for name, trigger in sorted(named.items()):
        table = trigger.table
        listed.append(
            Trigger(
                name=name,
                url=f"{public}{HOOKS}{table.path}",
                path=table.path,
                scheme=table.scheme,
                principal=trigger.actor.principal,
                when=table.when,
                session=table.session,
                reply=table.reply.model_dump(exclude_unset=True) if table.reply else None,
                order=shown_order(table.order),
                turns_an_hour=table.turns_an_hour,
                max_body_mb=table.max_body_mb,
                last=next(iter(deliveries.list(name, most=1)), None),
                counts=dict(counts[name]),
            )
        )
    return listed
