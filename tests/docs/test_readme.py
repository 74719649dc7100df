"""The README's blocks, one after the other, as somebody types them who has just checked this project out."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcc.configuration.running import Presence, find_family

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|toml|python)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
DEMO, YOURS, DOCUMENTS, MODEL, CHECK, HTTP, PYTHON = (code for _, code in BLOCKS)

pytestmark = [pytest.mark.family, pytest.mark.group("family")]


class Newcomer:
    """Somebody with an empty home directory and a project in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data_dir = home / ".local" / "share" / "mcc"
        (home / "project").mkdir()
        (home / "project" / "README.md").write_text(
            "# Pond\n\nCounts ducks.\n\nRun its tests with `python3 -m unittest`.\n"
        )
        (home / "project" / "ducks.py").write_text("def main():\n    print(4)\n")
        keys = ("_API_KEY", "_TOKEN")
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MCC_", "DRONE_", "XDG_")) and not name.endswith(keys)
        } | {"HOME": str(home), "MCC_PORT": "0", "MCC_FLOWER_PORT": "0", "OLLAMA_BASE_URL": "http://127.0.0.1:1"}

    def types(self, block: str, **more: str) -> str:
        """What a shell says to this block, both streams; every line of it must work."""
        path = f"{Path(sys.executable).parent}:{self.environment['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", block],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            cwd=ROOT,
            env=self.environment | {"PATH": path} | more,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @property
    def url(self) -> str:
        family = find_family(self.data_dir)
        assert isinstance(family, Presence)
        return family.url


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path_factory.mktemp("home"))
    yield newcomer
    newcomer.types("mcc down")


@contextmanager
def a_server() -> Iterator[str]:
    """A server that speaks OpenAI's form; yields what belongs into mcc.toml for it."""
    command = [sys.executable, "-m", "tests.fake_provider", "openai", "--rounds", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                if line.startswith("# then"):
                    break
                lines.append(line)
            yield "".join(lines)
        finally:
            process.terminate()


def test_the_readme_is_short() -> None:
    assert len(README.split()) < 1_200


def test_the_demo_shows_an_order_on_this_repository_and_accounts_for_it(newcomer: Newcomer) -> None:
    told = newcomer.types(DEMO)
    of_the_order = ("order succeeded", "drone/agent", "order  ", "record  ", "spent  ", "no tokens", "explore: ")
    of_this_place = ("look again", str(newcomer.data_dir.parent / "mcc-demo"), "offline model")
    for named in (*of_the_order, *of_this_place):
        assert named in told


def test_a_repository_of_one_s_own_is_worked_on_in_the_background(newcomer: Newcomer) -> None:
    told = newcomer.types(YOURS)
    assert "Stop with: mcc down" in told and "ducks.py:1" in told and "turn" in told
    assert "succeeded" in newcomer.types("mcc orders show @last")
    survey, answered, follow_up = told.partition("Lines that say how tests are run:")
    assert "It says of itself" in survey and answered and "Run its tests with `python3 -m unittest`" in follow_up
    assert "It says of itself" not in follow_up, "a follow-up is answered, and nothing surveyed again"
    marker = newcomer.home / "project" / ".mcc-workspace"
    assert (marker / ".gitignore").read_text().splitlines()[-1] == "*"
    if shutil.which("git"):
        newcomer.types(f"cd {newcomer.home}/project; git init -q .; ! git status --short | grep mcc-workspace")


def test_a_document_is_generated_and_shown(newcomer: Newcomer) -> None:
    told = newcomer.types(DOCUMENTS)
    assert "nodes done." in told and "✓ /" in told
    assert (newcomer.home / "course.md").read_text().startswith("# Photosynthesis")


def test_programs_place_orders_too(newcomer: Newcomer) -> None:
    block = f"cd {newcomer.home}/project\n{HTTP.replace('http://127.0.0.1:8420', newcomer.url)}"
    first, second = newcomer.types(block), newcomer.types(block)
    placed = re.findall(r'"id":"([^"]+)"', first)[0]
    assert placed in second, "the same key places no second order"
    assert "ducks.py:1" in newcomer.types(f"mcc orders watch {placed}")
    (newcomer.home / "program.py").write_text(PYTHON)
    told = newcomer.types(f"cd {newcomer.home}/project; python {newcomer.home}/program.py")
    assert "order.finished" in told and "ducks.py:1" in told
    for order in (placed, "@last"):
        assert "succeeded" in newcomer.types(f"mcc orders show {order}")


def test_a_model_of_one_s_own_is_checked_and_used(newcomer: Newcomer) -> None:
    with a_server() as said:
        known = tomllib.loads(MODEL)["models"]["mine"]
        fake = tomllib.loads(said)["models"]["fake"]
        file = newcomer.home / ".config" / "mcc" / "mcc.toml"
        file.parent.mkdir(parents=True)
        text = MODEL.replace(known["base_url"], fake["base_url"]).replace(known["model"], fake["model"])
        file.write_text(text.replace('# api_key_env = "MY_KEY"', f'api_key_env = "{fake["api_key_env"]}"'))
        # The first family had a Flower, which nobody looks at here.
        check = CHECK.replace("mcc up --detach", "mcc up --detach --no-flower")
        told = newcomer.types(check, **{fake["api_key_env"]: "sk-fake-0123"})
    assert re.search(r"mine +usable", told), told
