"""Drones as the service sees them: registrations, capabilities, sandbox, counters and current state."""

from enum import StrEnum
from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.permission import Effects
from mcc.contracts.shape import Closed, Moment, Text


class DroneStatus(StrEnum):
    UP = "up"
    DRAINING = "draining"
    SILENT = "silent"


class AgentSheet(Closed):
    """An agent as a drone offers it: its definition, and how the drone resolves it.

    `origin` says whose file it is (shipped, operator, user). `tools` are the drone's tools that the file's names and
    groups resolve to, None = the parent's. `digest` is that of the whole definition, as in records. A registration has
    the definition without its prompt, which is stored as a text under `prompt_digest`.
    """

    definition: AgentDefinition
    origin: str
    tools: tuple[str, ...] | None
    digest: str
    prompt_digest: str | None = None


ToolState: TypeAlias = Literal["usable", "deferred", "changed", "broken"]
"""`usable`: models see the tool. `deferred`: models find it by `tool_search`. `changed`: its definition differs from
the approved one, so it is off. `broken`: it cannot be used, and `problem` says why."""


class ToolSheet(Closed):
    """Facts about a tool, besides its name.

    `server`: the MCP server that provides it. `effects` None: not declared. `digest`: of its definition, with the
    prefix `sha256:`. `tokens`: about how many tokens its definition costs a model (its bytes divided by four).
    `background_safe`: whether a subagent may call it that runs while its parent goes on.
    """

    server: Text | None = None
    group: str = ""
    effects: Effects | None = None
    digest: str = ""
    tokens: int = 0
    background_safe: bool | None = None
    state: ToolState | None = None


NOT_CHOSEN = "off: "


class Capability(ToolSheet):
    """An agent, tool or model that a drone has; `problem` says why it cannot be used there, None = it can. It begins
    with `NOT_CHOSEN` where nothing is wrong: the operator has not switched it on.

    `agent` is set for agents that can be used. `default`: the drone uses this model when an order names none.
    `origin`: where an operator's own tool comes from. The fields of `ToolSheet` are for tools only.
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
    """The restrictions on programs that tools start; each is `stands`, or `missing: ` with the reason.

    `namespaces`: own namespaces for users, processes, IPC, host name and network; `no_userns_inside`: programs cannot
    create further user namespaces. `proc_readonly` and `sys_readonly`: nothing below /proc and /sys can be written.
    `seccomp`: system calls are filtered; `unix_sockets`: programs cannot open Unix sockets. `no_setid`: programs cannot
    give a file setuid, setgid or capabilities. `tmp_cap`: /tmp has a size limit. `memory`, `processes` and `cpu` limit
    one call with everything it starts. `protected`: programs cannot change the protected paths. `egress`: no network
    except the allowed way out.
    """

    namespaces: Text = f"{MISSING}not tried"
    no_userns_inside: Text = f"{MISSING}not tried"
    proc_readonly: Text = f"{MISSING}not tried"
    sys_readonly: Text = f"{MISSING}not tried"
    seccomp: Text = f"{MISSING}not tried"
    unix_sockets: Text = f"{MISSING}not tried"
    no_setid: Text = f"{MISSING}not tried"
    tmp_cap: Text = f"{MISSING}not tried"
    memory: Text = f"{MISSING}not tried"
    processes: Text = f"{MISSING}not tried"
    cpu: Text = f"{MISSING}not tried"
    protected: Text = f"{MISSING}not tried"
    egress: Text = f"{MISSING}not tried"

    @classmethod
    def without(cls, why: str) -> "Walls":
        """All restrictions missing, for the same reason."""
        return cls(**dict.fromkeys(cls.model_fields, f"{MISSING}{why}"))

    @property
    def missing(self) -> dict[str, str]:
        """The reasons of the missing restrictions, by name."""
        return {name: str(state)[len(MISSING) :] for name, state in self if state != STANDS}


OFF = "off"

AS_ROOT = (
    "the drone runs as root: only the sandbox stands between a command and the whole machine, and files that commands "
    "make belong to root"
)
AS_ROOT_ADVICE = "run drones as a user of their own"


class SandboxState(Closed):
    """The sandbox of programs that tools start. `kind`: `bubblewrap`, `container`, or `off` (no program is started).
    `as_root`: the drone runs with user id 0, and so do these programs."""

    kind: Text = OFF
    walls: Walls = Walls()
    as_root: bool = False

    @model_validator(mode="before")
    @classmethod
    def _from_older_drones(cls, given: Any) -> Any:
        """Older drones register the sandbox as one string, such as `off: why`."""
        if not isinstance(given, str):
            return given
        kind, _, why = given.partition(":")
        return {"kind": kind.strip() or OFF, "walls": Walls.without(why.strip() or "not tried")}


class Registration(Closed):
    """What a drone process registers when it starts; `incarnation` is new with every start."""

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
    """Counters of a drone process since its start; stored with each renewal of its lease.

    To add a counter: a field here and in `Drone`, a column of the same name in the table of drones, and the code that
    counts. `GET /drones` and `/metrics` then show it without further changes, the latter with the field's description.
    """

    refused_messages: int = Field(
        default=0, description="Messages that live drones could not use, since each of them started."
    )


NOTHING_COUNTED = DroneCounters()


DrainRequest: TypeAlias = Literal["finish", "hand_back"]
"""What a drone that takes no orders does with those that it has: it ends them, or hands them back to the queue."""


class NewDrain(Closed):
    """`hand_back`: the orders that it has return to the queue at once; otherwise it ends them."""

    hand_back: bool = False


class Drone(Closed):
    """A drone as of its last heartbeat.

    `drain`: an operator told it to take no orders, and what it does with those that it has; its status is then
    `draining`, as it is while it shuts down.

    `refused_messages`: how many messages its process has read since its start that it could not use, such as garbage,
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
    drain: DrainRequest | None = None
    sandbox: SandboxState
    started_at: Moment
    last_heartbeat_at: Moment
    incarnation: str
