"""The request of each call of the fleet and the parsing of its answer, without I/O: for both clients."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import ModelCheck, Offer
    from mcc.contracts.drones import Drone
    from mcc.contracts.examination import ExaminationTold
    from mcc.contracts.tool_tests import ToolsApproved, ToolTested

DOCTOR_SECONDS = 75.0
"""Timeout of an examination, which may wait for one that runs already."""

TEST_SECONDS = 90.0
"""Timeout of a tool test, in which a drone connects to an MCP server and makes a call; the drone gives up earlier."""


def list_drones(with_long_silent: bool) -> "Call[tuple[Drone, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.drones import Drone

    asked = query(all="true") if with_long_silent else query()
    return Call("GET", "/drones", lambda body: Listing[Drone].model_validate(body).items, asked)


def drain(name: str, hand_back: bool) -> "Call[tuple[Drone, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.drones import Drone
    from mcc.contracts.shape import finite_json

    body = finite_json({"hand_back": hand_back})
    return Call("POST", _drain_path(name), lambda body: Listing[Drone].model_validate(body).items, body=body)


def undrain(name: str) -> "Call[tuple[Drone, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.drones import Drone

    return Call("DELETE", _drain_path(name), lambda body: Listing[Drone].model_validate(body).items)


def _drain_path(name: str) -> str:
    return f"/drones/{quote(name, safe='')}/drain"


def doctor() -> "Call[ExaminationTold]":
    from mcc.contracts.examination import ExaminationTold

    return Call("GET", "/doctor", ExaminationTold.model_validate, seconds=DOCTOR_SECONDS)


def fix() -> "Call[ExaminationTold]":
    from mcc.contracts.examination import ExaminationTold

    return Call("POST", "/doctor/fix", ExaminationTold.model_validate, seconds=DOCTOR_SECONDS)


def agent(name: str) -> "Call[Offer]":
    from mcc.contracts.answers import Offer

    return Call("GET", f"/agents/{quote(name, safe='')}", Offer.model_validate)


def list_offers(kind: str) -> "Call[tuple[Offer, ...]]":
    from mcc.contracts.answers import Listing, Offer

    return Call("GET", f"/{kind}", lambda body: Listing[Offer].model_validate(body).items)


def test_tools(server: str, tool: str | None, arguments: Mapping[str, Any]) -> "Call[ToolTested]":
    """Not repeatable: the tool call may have effects that cannot be undone."""
    from mcc.contracts.shape import finite_json
    from mcc.contracts.tool_tests import ToolTested

    body = finite_json({"server": server, "tool": tool, "arguments": arguments})
    return Call("POST", "/tools/test", ToolTested.model_validate, body=body, repeatable=False, seconds=TEST_SECONDS)


def approve_tools(server: str, tool: str | None) -> "Call[ToolsApproved]":
    from mcc.contracts.shape import finite_json
    from mcc.contracts.tool_tests import ToolsApproved

    body = finite_json({"server": server, "tool": tool})
    return Call("POST", "/tools/approve", ToolsApproved.model_validate, body=body)


def check_models(names: Sequence[str]) -> "Call[tuple[ModelCheck, ...]]":
    """Not repeatable: each check pays for a call to every model."""
    from mcc.contracts.answers import MAX_CHECKED_MODELS, Listing, ModelCheck, longest_check
    from mcc.contracts.shape import finite_json

    return Call(
        "POST",
        "/models/check",
        lambda body: Listing[ModelCheck].model_validate(body).items,
        body=finite_json({"names": list(names)}),
        repeatable=False,
        seconds=longest_check(MAX_CHECKED_MODELS),
    )
