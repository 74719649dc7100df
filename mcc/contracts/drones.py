"""Drones as others see them: what each one is, what it can do, how full it is, what it has counted."""

from enum import StrEnum
from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

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


STANDS = "stands"
MISSING = "missing: "


class Walls(Closed):
    """The walls around programs that tools start, each `stands`, or `missing: ` and why.

    `namespaces`: of users, processes, IPC, host name and network; `no_userns_inside`: no further ones of users.
    `seccomp`: the filter of system calls; `unix_sockets`: none is opened. `tmp_cap`: /tmp has a size. `memory`,
    `processes` and `cpu` hold for one call with all that it starts. `protected`: paths that nothing changes. `egress`:
    no network but the way out that was allowed.
    """

    namespaces: Text = f"{MISSING}not tried"
    no_userns_inside: Text = f"{MISSING}not tried"
    seccomp: Text = f"{MISSING}not tried"
    unix_sockets: Text = f"{MISSING}not tried"
    tmp_cap: Text = f"{MISSING}not tried"
    memory: Text = f"{MISSING}not tried"
    processes: Text = f"{MISSING}not tried"
    cpu: Text = f"{MISSING}not tried"
    protected: Text = f"{MISSING}not tried"
    egress: Text = f"{MISSING}not tried"

    @classmethod
    def without(cls, why: str) -> "Walls":
        """None of them, for one reason."""
        return cls(**dict.fromkeys(cls.model_fields, f"{MISSING}{why}"))

    @property
    def missing(self) -> dict[str, str]:
        """By their names, and why."""
        return {name: str(said)[len(MISSING) :] for name, said in self if said != STANDS}


OFF = "off"


class SandboxState(Closed):
    """What programs that tools start run in: `kind` is `bubblewrap`, `container`, or `off` where none is started."""

    kind: Text = OFF
    walls: Walls = Walls()

    @model_validator(mode="before")
    @classmethod
    def _as_older_drones_say(cls, given: Any) -> Any:
        """Drones used to say it in one sentence."""
        if not isinstance(given, str):
            return given
        kind, _, why = given.partition(":")
        return {"kind": kind.strip() or OFF, "walls": Walls.without(why.strip() or "not tried")}


class Registration(Closed):
    """What a drone process says of itself when it starts; `incarnation` is new with every start."""

    incarnation: str
    name: str
    pid: int
    host: str
    version: str
    queues: tuple[str, ...]
    slots: int
    sandbox: SandboxState = SandboxState()
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
    sandbox: SandboxState
    started_at: Moment
    last_heartbeat_at: Moment
    incarnation: str
