"""This room is for drones as others see them: what each one is, what it can do, how full it is."""

from enum import StrEnum

from mcc.contracts.shape import Closed, Moment, Text


class DroneStatus(StrEnum):
    UP = "up"
    DRAINING = "draining"
    SILENT = "silent"


class Capability(Closed):
    """An agent, tool or model that a drone has; `problem` says why it cannot be used there, if so."""

    name: str
    description: Text = ""
    problem: Text | None = None


class Registration(Closed):
    """What a drone process says of itself when it starts; `incarnation` is new with every start."""

    incarnation: str
    name: str
    pid: int
    host: str
    version: str
    queues: tuple[str, ...]
    slots: int
    sandbox: Text = ""
    agents: tuple[Capability, ...] = ()
    tools: tuple[Capability, ...] = ()
    models: tuple[Capability, ...] = ()
    workspace_roots: tuple[Text, ...] = ()


class Drone(Closed):
    name: str
    pid: int
    host: str
    version: str
    queues: tuple[str, ...]
    slots: int
    active: int
    status: DroneStatus
    sandbox: Text
    started_at: Moment
    last_heartbeat_at: Moment
    incarnation: str
