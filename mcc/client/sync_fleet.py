"""Drones and what they offer for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcc.client.requests import fleet_calls as calls
from mcc.client.sync_connection import Connection

if TYPE_CHECKING:
    from mcc.contracts.answers import ModelCheck, Offer
    from mcc.contracts.drones import Drone
    from mcc.contracts.examination import ExaminationTold
    from mcc.contracts.tool_tests import ToolsApproved, ToolTested


class Drones:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, with_long_silent: bool = False) -> "Sequence[Drone]":
        """Drones with a heartbeat within ten minutes, with `with_long_silent` within a day."""
        return self._connection.send(calls.list_drones(with_long_silent))

    def drain(self, name: str, *, hand_back: bool = False) -> "Sequence[Drone]":
        """Tell a drone to take no orders; it ends those that it has, or with `hand_back` returns them to the queue.
        Raises `NotFound` without a live drone of this name."""
        return self._connection.send(calls.drain(name, hand_back))

    def undrain(self, name: str) -> "Sequence[Drone]":
        """Tell a drone to take orders again."""
        return self._connection.send(calls.undrain(name))


class Doctor:
    """What `mcc doctor` finds where the service runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def examine(self) -> "ExaminationTold":
        """Its findings, at most ten seconds old."""
        return self._connection.send(calls.doctor())

    def fix(self) -> "ExaminationTold":
        """Repair what can be repaired by rule, then look."""
        return self._connection.send(calls.fix())


class Offers:
    """What drones offer of one kind: agents, tools or models."""

    def __init__(self, connection: Connection, kind: str) -> None:
        self._connection = connection
        self._kind = kind

    def list(self) -> "Sequence[Offer]":
        return self._connection.send(calls.list_offers(self._kind))


class Agents(Offers):
    def get(self, name: str) -> "Offer":
        """One agent with its prompt. Raises `NotFound`."""
        return self._connection.send(calls.agent(name))


class Tools(Offers):
    def test(self, server: str, tool: str | None = None, arguments: "Mapping[str, Any] | None" = None) -> "ToolTested":
        """Let a drone connect to an MCP server, list its tools, and call `tool` if one is named, without approval."""
        return self._connection.send(calls.test_tools(server, tool, arguments or {}))

    def approve(self, server: str, tool: str | None = None) -> "ToolsApproved":
        """Approve the tool definitions that an MCP server sent last: of `tool`, or of all its tools."""
        return self._connection.send(calls.approve_tools(server, tool))


class Models(Offers):
    def check(self, names: Sequence[str] = ()) -> "Sequence[ModelCheck]":
        """Check each of these models, or all where none is named, by one small call; the calls cost a little."""
        return self._connection.send(calls.check_models(names))
