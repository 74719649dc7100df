"""Who may import whom: the house's arrows, read from the code's own import statements."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from tests.architecture.imports import ROOT, imported_modules, imports_of, modules

FLOOR = (
    "mcc.addresses",
    "mcc.contracts",
    "mcc.configuration",
    "mcc.redaction",
    "mcc.rules",
    "mcc.definitions",
    "mcc.permission",
    "mcc.documents",
    "mcc.transcript",
    "mcc.schedules",
    "mcc.triggers",
    "mcc.forges",
    "mcc.loading",
    "mcc.processors",
    "mcc.resources",
    "mcc.side_process",
    "mcc.fetching",
)
"""Pure rooms of mcc that drones share."""

BASE = (*FLOOR, "drone.threads")
"""What every room of a drone may import."""

AGENT_PORTS = ("drone.agent.ports", "drone.agent.turns")
"""What tools know of agents."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "mcc.addresses": (),
    "mcc.contracts": (),
    "mcc.configuration": (
        "mcc.addresses",
        "mcc.contracts",
        "mcc.redaction",
        "mcc.rules",
        "mcc.permission",
    ),
    "mcc.redaction": ("mcc.contracts",),
    "mcc.rules": ("mcc.contracts",),
    "mcc.definitions": ("mcc.contracts", "mcc.rules", "mcc.permission"),
    "mcc.permission": ("mcc.contracts", "mcc.rules"),
    "mcc.documents": ("mcc.contracts", "mcc.configuration", "mcc.rules", "mcc.definitions"),
    "mcc.transcript": ("mcc.contracts", "mcc.redaction", "mcc.rules"),
    "mcc.schedules": ("mcc.contracts",),
    "mcc.triggers": ("mcc.contracts", "mcc.configuration", "mcc.rules"),
    "mcc.forges": ("mcc.addresses", "mcc.configuration", "mcc.contracts"),
    "mcc.view": ("mcc.contracts",),
    "mcc.options": ("mcc.contracts", "mcc.definitions"),
    "mcc.settings": ("mcc.addresses", "mcc.configuration", "mcc.redaction", "mcc.rules"),
    "mcc.loading": (),
    "mcc.processors": (),
    "mcc.logs": ("mcc.contracts", "mcc.redaction"),
    "mcc.resources": (),
    "mcc.side_process": ("mcc.processors",),
    "mcc.fetching": ("mcc.addresses",),
    "mcc.rendering": ("mcc.contracts", "mcc.rules", "mcc.side_process"),
    "mcc.store": ("mcc.contracts", "mcc.configuration", "mcc.rules", "mcc.documents", "mcc.schedules"),
    "mcc.store.database": ("mcc.contracts", "mcc.configuration"),
    "mcc.store.migrations": ("mcc.store.database",),
    "mcc.store.rows": ("mcc.store.database", "mcc.contracts", "mcc.rules", "mcc.documents"),
    "mcc.store.documents": ("mcc.store.database", "mcc.store.rows", "mcc.contracts", "mcc.documents"),
    "mcc.store.work": (
        "mcc.store.database",
        "mcc.store.rows",
        "mcc.store.documents",
        "mcc.contracts",
        "mcc.documents",
    ),
    "mcc.store.people": ("mcc.store.database", "mcc.store.rows", "mcc.contracts"),
    "mcc.store.lists": ("mcc.store.database", "mcc.store.rows", "mcc.store.work", "mcc.contracts"),
    "mcc.store.reading": ("mcc.store.database", "mcc.store.rows", "mcc.store.work", "mcc.contracts"),
    "mcc.store.doors": (
        "mcc.store.database",
        "mcc.store.rows",
        "mcc.store.documents",
        "mcc.store.work",
        "mcc.contracts",
        "mcc.documents",
        "mcc.schedules",
    ),
    "mcc.store.history": ("mcc.store.database", "mcc.store.rows", "mcc.store.work", "mcc.contracts"),
    "mcc.store.upkeep": (
        "mcc.store.database",
        "mcc.store.rows",
        "mcc.store.work",
        "mcc.store.history",
        "mcc.store.doors",
        "mcc.contracts",
    ),
    "mcc.dispatch": ("mcc.addresses", "mcc.contracts", "mcc.redaction", "mcc.store"),
    "mcc.feed": ("mcc.contracts", "mcc.store", "mcc.dispatch"),
    "mcc.findings": ("mcc.contracts", "mcc.store"),
    "mcc.doctor": (
        *FLOOR,
        "mcc.settings",
        "mcc.store",
        "mcc.dispatch",
        "mcc.findings",
        "mcc.local",
        "mcc.oidc",
        "mcc.view",
    ),
    "mcc.console": ("mcc.rules",),
    "mcc.oidc": ("mcc.addresses", "mcc.configuration", "mcc.contracts", "mcc.fetching"),
    "mcc.reading": ("mcc.contracts", "mcc.redaction", "mcc.rendering", "mcc.store", "mcc.transcript"),
    "mcc.webhooks": (
        "mcc.addresses",
        "mcc.configuration",
        "mcc.contracts",
        "mcc.forges",
        "mcc.redaction",
        "mcc.settings",
        "mcc.store",
        "mcc.triggers",
    ),
    "mcc.api": (
        *FLOOR,
        "mcc.console",
        "mcc.oidc",
        "mcc.logs",
        "mcc.settings",
        "mcc.store",
        "mcc.dispatch",
        "mcc.feed",
        "mcc.findings",
        "mcc.rendering",
        "mcc.reading",
        "mcc.webhooks",
    ),
    "mcc.local": (*FLOOR, "mcc.settings", "mcc.store", "mcc.dispatch", "mcc.api"),
    "mcc.client": ("mcc.addresses", "mcc.contracts", "mcc.settings", "mcc.local"),
    "mcc.cli": (
        *FLOOR,
        "mcc.settings",
        "mcc.store",
        "mcc.dispatch",
        "mcc.doctor",
        "mcc.api",
        "mcc.local",
        "mcc.client",
        "mcc.options",
        "mcc.view",
    ),
    "mcc.demo": ("mcc.settings", "mcc.configuration", "mcc.local", "mcc.client", "mcc.view", "mcc.cli"),
    "mcc.testing": ("mcc.contracts", "mcc.settings", "mcc.store", "mcc.feed", "mcc.api"),
    "mcc": (),
    "drone.threads": (),
    "drone.definitions": BASE,
    "drone.agent": ("drone.agent", *BASE),
    "drone.agent.ports": ("drone.threads", *BASE),
    "drone.agent.state": ("drone.agent.ports", *BASE),
    "drone.agent.control": ("drone.agent.ports", "drone.agent.state", *BASE),
    "drone.agent.spending": ("drone.agent.ports", "drone.agent.state", *BASE),
    "drone.agent.turns": (
        "drone.agent.ports",
        "drone.agent.state",
        "drone.agent.control",
        "drone.agent.spending",
        *BASE,
    ),
    "drone.agent.gates": (
        "drone.agent.ports",
        "drone.agent.state",
        "drone.agent.spending",
        "drone.agent.turns",
        *BASE,
    ),
    "drone.models": ("drone.models", "drone.agent", "drone.settings", *BASE),
    "drone.tools": (
        "drone.agent",
        "drone.checkpoints",
        "drone.definitions",
        "drone.egress",
        "drone.sandbox",
        *BASE,
    ),
    "drone.tools.frame": (*AGENT_PORTS, "drone.checkpoints", "drone.sandbox", *BASE),
    "drone.tools.files": (*AGENT_PORTS, "drone.tools.frame", "drone.checkpoints", "drone.sandbox", *BASE),
    "drone.tools.git": (
        *AGENT_PORTS,
        "drone.tools.frame",
        "drone.tools.files",
        "drone.checkpoints",
        "drone.sandbox",
        *BASE,
    ),
    "drone.tools.shell": (
        *AGENT_PORTS,
        "drone.tools.frame",
        "drone.tools.files",
        "drone.checkpoints",
        "drone.egress",
        "drone.sandbox",
        *BASE,
    ),
    "drone.tools.web": (*AGENT_PORTS, "drone.tools.frame", "drone.sandbox", *BASE),
    "drone.checkpoints": ("drone.checkpoints", "drone.agent", "drone.sandbox", *BASE),
    "drone.mcp_servers": ("drone.mcp_servers", "drone.tools", "drone.agent", "drone.sandbox", *BASE),
    "drone.sandbox": BASE,
    "drone.sandbox.places": BASE,
    "drone.sandbox.protection": ("drone.sandbox.places", *BASE),
    "drone.egress": ("drone.egress", "drone.sandbox", *BASE),
    "drone.access": ("drone.agent", "drone.egress", "drone.sandbox", "drone.settings", "drone.tools", *BASE),
    "drone.settings": BASE,
    "drone.worker": ("drone", *BASE, "mcc.logs", "mcc.store", "mcc.dispatch"),
    "drone": ("drone.definitions", "drone.agent", "drone.models", "drone.tools", "drone.settings", "drone.crew", *BASE),
    "drone.generation": (
        "drone.generation",
        "drone.agent",
        "drone.models",
        "drone.tools",
        "drone.sandbox",
        "drone.library",
        *BASE,
    ),
    "drone.worktrees": (
        "drone.worktrees",
        "drone.agent",
        "drone.tools",
        "drone.checkpoints",
        "drone.sandbox",
        *BASE,
    ),
    "drone.checkouts": ("drone.checkouts", "drone.agent", "drone.tools", "drone.sandbox", *BASE),
    "drone.delivery": (
        "drone.delivery",
        "drone.agent",
        "drone.checkouts",
        "drone.checkpoints",
        "drone.tools",
        "drone.sandbox",
        "drone.settings",
        *BASE,
    ),
    "drone.hiring": ("drone.definitions", "drone.agent", "drone.models", "drone.tools", "drone.worktrees", *BASE),
    "drone.order_context": (
        "drone.definitions",
        "drone.generation",
        "drone.hiring",
        "drone.worktrees",
        "drone.agent",
        "drone.tools",
        "drone.checkpoints",
        "drone.sandbox",
        *BASE,
    ),
    "drone.crew": (
        "drone.checkouts",
        "drone.definitions",
        "drone.delivery",
        "drone.order_context",
        "drone.hiring",
        "drone.worktrees",
        "drone.access",
        "drone.mcp_servers",
        "drone.generation",
        "drone.agent",
        "drone.models",
        "drone.tools",
        "drone.checkpoints",
        "drone.egress",
        "drone.sandbox",
        "drone.settings",
        *BASE,
    ),
    "drone.cli": ("drone", "mcc.options", "mcc.view", *BASE),
    "drone.local_run": ("drone", "mcc.view", *BASE),
}
"""Room -> what it may import of ours besides itself; the longest matching room counts. Of `mcc` every room is named."""

MODULES = {module for module, _ in modules()}
SERVICES = {"celery", "kombu", "redis", "sqlalchemy", "sqlmodel", "alembic"}


def room_of(module: str) -> str:
    return max((room for room in ALLOWED if module == room or module.startswith(room + ".")), key=len)


def inside(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(room + ".") for room in rooms)


def test_a_module_imports_only_what_its_room_may() -> None:
    strangers: dict[str, list[str]] = {}
    for module, path in modules():
        room = room_of(module)
        allowed = ALLOWED[room] if room == "mcc" else (*ALLOWED[room], room)
        names = imported_modules(path, MODULES) - {"mcc", "drone"}
        strangers[module] = [name for name in names if not inside(name, allowed)]
    assert not told(strangers)


def told(offences: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The modules that have an offence, and which."""
    return {module: sorted(names) for module, names in offences.items() if names}


def test_every_room_is_there() -> None:
    assert not [room for room in ALLOWED if not any(inside(module, (room,)) for module in MODULES)]


def test_an_agent_does_not_know_that_tools_may_be_agents() -> None:
    beneath = [(module, path) for module, path in modules() if module.startswith("drone.agent.")]
    beneath = [(module, path) for module, path in beneath if not module.startswith("drone.agent.subagents")]
    assert not told(
        {
            module: {name for name in imported_modules(path, MODULES) if name.startswith("drone.agent.subagents")}
            for module, path in beneath
        }
    )


FULL = 30
"""Files in one folder, from which on it is two."""

LARGER = {"mcc/documents", "mcc/contracts", "mcc/cli"}
"""Folders that stay flat: the parts of documents know each other, and the other two are lists of their kind."""


def test_no_folder_is_so_full_that_nobody_finds_a_thing_in_it() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for _, path in modules())
    assert {folder for folder, count in counts.items() if count > FULL} <= LARGER


def test_the_arrows_between_the_rooms_of_mcc_make_no_circle() -> None:
    TopologicalSorter({room: rooms for room, rooms in ALLOWED.items() if room.startswith("mcc.")}).prepare()


def imported(room: str, forbidden: tuple[str, ...], besides: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """What the modules of `room`, without those of the rooms `besides`, import of `forbidden` packages and rooms."""
    return {
        module: {name for name in imports_of(path) if inside(name, forbidden)}
        for module, path in modules()
        if inside(module, (room,)) and not inside(module, besides)
    }


def test_only_the_worker_room_of_a_drone_knows_the_services() -> None:
    assert not told(imported("drone", tuple(SERVICES), besides=("drone.worker",)))


def test_models_and_tools_never_import_each_other() -> None:
    assert not told(imported("drone.models", ("drone.tools", "drone.sandbox")))
    assert not told(imported("drone.tools", ("drone.models",)))


def test_mcc_never_imports_drone() -> None:
    assert not told(imported("mcc", ("drone",)))


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_agent_runtime_loads_without_broker_and_database() -> None:
    assert not loaded_by("import drone, drone.crew, drone.agent.agent, drone.cli") & SERVICES


def test_an_agent_of_ones_own_loads_no_network_before_it_has_a_model_there() -> None:
    assert not loaded_by("import drone; drone.Agent; drone.tool") & {"aiohttp", "httpx", "jsonschema"}


def test_a_command_line_loads_neither_broker_nor_database_before_it_needs_them() -> None:
    assert not loaded_by("import mcc.cli.main, mcc.client") & (SERVICES | {"fastapi"})
