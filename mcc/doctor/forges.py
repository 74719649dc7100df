"""Findings about forges: tokens that are missing, and triggers whose work cannot be delivered."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from mcc.configuration.triggers import TriggerTable
from mcc.contracts.git_delivery import DELIVER
from mcc.contracts.order import NewOrder
from mcc.doctor.installation import Installation
from mcc.findings.finding import Finding
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import Layer, keys_for, layer_of
from mcc.settings import ServiceSettings

WHAT = "forges"


def check_forges(installation: Installation) -> Iterable[Finding]:
    """Whether what orders have done can be delivered, as far as mcc.toml and the variables here say."""
    settings = installation.settings
    needed: dict[str, str] = {}
    for name, forge in settings.forges.items():
        needed.setdefault(forge.token_env, f"[forges.{name}]")
    for remote in settings.workspaces.git:
        if remote.token_env is not None:
            needed.setdefault(remote.token_env, f"[[workspaces.git]] {remote.address}")
    findings = [
        Finding(
            WHAT,
            "warning",
            f"{variable} is not set here, which has the token of {place}",
            "export it where the drone starts, and start it again: mcc down; mcc up --detach",
        )
        for variable, place in needed.items()
        if not installation.environment.get(variable)
    ]
    delivering = {name: table for name, table in settings.triggers.items() if table.order.get(DELIVER)}
    for name, table in delivering.items() if "triggers" not in settings.doors.off else ():
        findings += _undeliverable(name, table, settings)
    return findings or [
        Finding(WHAT, "ok", ", ".join(settings.forges) or "no table [forges.NAME]: nothing is delivered")
    ]


def _undeliverable(name: str, table: TriggerTable, settings: ServiceSettings) -> Iterator[Finding]:
    """What every order of this trigger would end with, after its work was done."""
    workspace = str(table.order.get("workspace", ""))
    known = workspace.partition("{")[0]
    homes = [forge.home for forge in settings.forges.values()]
    if known and not any(_may_be_in(known, f"{home}/") for home in homes):
        detail = f"trigger {name} delivers to {workspace}, which is at no forge that is known here"
        yield Finding(WHAT, "warning", detail, "add [forges.NAME] with kind, address and token_env to mcc.toml")
    allowed = [remote.address.partition("*")[0] for remote in settings.workspaces.git]
    if known and not any(_may_be_in(known, address) for address in allowed):
        detail = f"trigger {name} works on {workspace}, which orders may not name"
        yield Finding(WHAT, "warning", detail, "add [[workspaces.git]] with its address to mcc.toml")
    if table.order.get("on_ask") != "wait" and not _may_be_allowed(table.order, settings):
        detail = f"what trigger {name} has done is never delivered: nobody is asked, and no rule allows it"
        yield Finding(WHAT, "warning", detail, f'add permission = {{deliver = "allow"}} to [triggers.{name}] order')


def _may_be_in(known: str, place: str) -> bool:
    """Whether an address that begins so may be one below the place, which may be known by its beginning too."""
    return known.startswith(place) or place.startswith(known)


def _may_be_allowed(order: Mapping[str, Any], settings: ServiceSettings) -> bool:
    """False where no rule speaks of deliveries, or one forbids them. Conditions are about what is delivered, which is
    not known yet."""
    permitting = {name: order[name] for name in ("mode", "permission") if name in order}
    new = NewOrder.model_validate({"prompt": "any", **permitting})
    layers = (Layer("operator", settings.permission.rules), Layer("order", new.permission))
    for layer in layers:
        keys = chain.from_iterable(keys_for(layer.permission, DELIVER, DELIVER))
        if not all(isinstance(layer.permission[key], str) for key in keys):
            return True
    request = PermissionRequest(DELIVER, DELIVER, "irreversible", mode=new.mode)
    return judge(request, (*layers, layer_of(new.mode))).word == "allow"
