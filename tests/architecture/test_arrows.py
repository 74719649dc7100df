"""Who may import whom: the house's arrows, read from the code's own import statements."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FLOOR = ("mcc.contracts", "mcc.configuration", "mcc.redaction", "mcc.rules", "mcc.definitions", "mcc.documents")
"""Pure rooms of mcc that drones share."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "mcc.contracts": (),
    "mcc.configuration": (),
    "mcc.redaction": ("mcc.contracts",),
    "mcc.rules": ("mcc.contracts",),
    "mcc.definitions": ("mcc.contracts", "mcc.rules"),
    "mcc.documents": ("mcc.contracts", "mcc.rules", "mcc.definitions"),
    "mcc.view": ("mcc.contracts",),
    "mcc": ("mcc",),
    "drone.agent": ("drone.agent", *FLOOR),
    "drone.models": ("drone.models", "drone.agent", "drone.settings", *FLOOR),
    "drone.tools": ("drone.tools", "drone.agent", "drone.sandbox", *FLOOR),
    "drone.sandbox": ("drone.sandbox", *FLOOR),
    "drone.settings": FLOOR,
    "drone.collector": (),
    "drone.worker": ("drone", *FLOOR, "mcc.store", "mcc.dispatch"),
    "drone": ("drone.agent", "drone.models", "drone.tools", "drone.settings", "drone.crew", *FLOOR),
    "drone.hiring": ("drone.agent", "drone.models", "drone.tools", *FLOOR),
    "drone.crew": (
        "drone.hiring",
        "drone.agent",
        "drone.models",
        "drone.tools",
        "drone.sandbox",
        "drone.settings",
        *FLOOR,
    ),
    "drone.cli": ("drone", "mcc.view", *FLOOR),
    "drone.alone": ("drone", "mcc.view", *FLOOR),
    "drone.watching": ("drone.agent", "mcc.view", *FLOOR),
}
"""Room -> what it may import of ours besides itself; the longest matching room counts."""

PROVIDERS_OF_HTTP = {"drone.models.transport", "mcc.client"}
SERVICES = {"celery", "kombu", "redis", "sqlalchemy", "sqlmodel", "alembic"}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> list[tuple[str, Path]]:
    paths = [path for package in ("mcc", "drone") for path in sorted((ROOT / package).rglob("*.py"))]
    return [(module_of(path), path) for path in paths]


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


def room_of(module: str) -> str:
    return max((room for room in ALLOWED if module == room or module.startswith(room + ".")), key=len)


def inside(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(room + ".") for room in rooms)


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_module_imports_only_what_its_room_may(module: str, path: Path) -> None:
    room = room_of(module)
    ours = {name for name in imports_of(path) if name.split(".")[0] in ("mcc", "drone")}
    allowed = (*ALLOWED[room], room, "mcc") if module == "mcc" else (*ALLOWED[room], room)
    strangers = sorted(name for name in ours if not inside(name, allowed) and name not in ("mcc", "drone"))
    assert not strangers, f"{module} (room {room}) imports {strangers}"


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_only_the_worker_room_of_a_drone_knows_the_services(module: str, path: Path) -> None:
    if not module.startswith("drone") or module.startswith("drone.worker"):
        return
    roots = {name.split(".")[0] for name in imports_of(path)}
    assert not roots & SERVICES, f"{module} imports {sorted(roots & SERVICES)}"


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_models_and_tools_never_import_each_other(module: str, path: Path) -> None:
    names = imports_of(path)
    if module.startswith("drone.models"):
        assert not any(inside(name, ("drone.tools", "drone.sandbox")) for name in names)
    if module.startswith("drone.tools"):
        assert not any(inside(name, ("drone.models",)) for name in names)


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_mcc_never_imports_drone(module: str, path: Path) -> None:
    if module.startswith("mcc"):
        assert not any(inside(name, ("drone",)) for name in imports_of(path))


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "statement", ["import drone", "import drone.crew", "import drone.agent.agent", "import drone.cli"]
)
def test_the_agent_runtime_loads_without_broker_and_database(statement: str) -> None:
    assert not loaded_by(statement) & SERVICES


@pytest.mark.parametrize("statement", ["import mcc.cli.main", "import mcc.client"])
def test_a_command_line_loads_neither_broker_nor_database_before_it_needs_them(statement: str) -> None:
    assert not loaded_by(statement) & (SERVICES | {"fastapi"})
