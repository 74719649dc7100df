"""Drones as others see them: what each one is, what it can do, how full it is, what it has counted."""

from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import Field

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.permission import Effects as Effects
from mcc.contracts.shape import Closed, Moment, Text


class DroneStatus(StrEnum):
    UP = "up"
    DRAINING = "draining"
    SILENT = "silent"


class AgentSheet(Closed):
    """An agent as a drone hires it: what its file says, and what comes of it there.

    `origin` says whose file it is (shipped, operator, user); `tools` are those of the drone that the file's groups and
    names stand for, None = the parent's. `digest` is that of the whole definition, as records have it. A registration
    holds the definition without its prompt, which is a kept text under `prompt_digest`.
    """

    definition: AgentDefinition
    origin: str
    tools: tuple[str, ...] | None
    digest: str
    prompt_digest: str | None = None


ToolState: TypeAlias = Literal["usable", "deferred", "changed", "broken"]
"""How a tool stands: models are shown it; it is found by `tool_search`; its definition is another than the one that was
approved, so it is off; it cannot be used, and `problem` says why."""


class ToolSheet(Closed):
    """What there is to know of a tool beside its name.

    `server`: the MCP server that has it. `effects` None: not said. `digest`: that of its definition, `sha256:` before
    it; `tokens`: about what a model is asked to read of it, its definition's bytes by four.
    """

    server: Text | None = None
    group: str = ""
    effects: Effects | None = None
    digest: str = ""
    tokens: int = 0
    state: ToolState | None = None


class Capability(ToolSheet):
    """An agent, tool or model that a drone has; `problem` says why it cannot be used there, if so.

    `agent` is there for agents that can be used. `default`: a model that is asked where nobody names another.
    `origin`: where a tool of the operator's own comes from. What a `ToolSheet` says is said of tools alone.
    """

    name: str
    description: Text = ""
    problem: Text | None = None
    agent: AgentSheet | None = None
    default: bool = False
    origin: Text | None = None


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


class DroneCounters(Closed):
    """What a drone process has counted since it started; stored with each renewal of its lease.

    A counter is a field here and in `Drone`, a column of the same name in the table of drones, and the place that
    counts. `GET /drones` and `/metrics` show it by themselves, the latter with the field's description.
    """

    refused_messages: int = Field(
        default=0, description="Messages that live drones could not use, since each of them started."
    )


NOTHING_COUNTED = DroneCounters()


class Drone(Closed):
    """A drone as it was last heard of.

    `refused_messages`: how many of those that its process has read since it started nobody could use, such as garbage,
    other tasks, and orders of another database.
    """

    name: str
    pid: int
    host: str
    version: str
    queues: tuple[str, ...]
    slots: int
    active: int
    refused_messages: int = 0
    status: DroneStatus
    sandbox: Text
    started_at: Moment
    last_heartbeat_at: Moment
    incarnation: str
