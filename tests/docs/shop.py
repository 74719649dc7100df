"""The repository team/shop at a forge on loopback, and the home of a newcomer who runs `mcc up` beside it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.drone.checkouts.git_server import Served, git_server
from tests.drone.delivery.forge import TOKEN, FakeForge, fake_forge
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene
from tests.ports import free_port

HOST = "127.0.0.1"
SECRET = "what-the-forge-signs-with-0123456789"
PROGRAMS = str(Path(sys.executable).parent)


@dataclass(frozen=True)
class Shop:
    """`served`: the bare repository. `home`: of who runs MCC; commands run there, with `environment`."""

    home: Path
    served: Scene
    git: Served
    forge: FakeForge
    port: int
    environment: Mapping[str, str]

    @property
    def address(self) -> str:
        """Of the forge; the repository is below it."""
        return f"https://{HOST}:{self.git.port}"

    @property
    def forge_lines(self) -> str:
        """What a table [forges.hub] has to say besides, as this is not the public forge."""
        return f'address = "{self.address}"\napi = "{self.forge.api}"\n'

    def configure(self, toml: str, script: Sequence[Mapping[str, Any]]) -> None:
        """Write mcc.toml: this text, and a model that says what the rules of the script say."""
        place = self.home / ".config" / "mcc"
        place.mkdir(parents=True, mode=0o700)
        said = place / "script.json"
        said.write_text(json.dumps({"rules": script}))
        model = f'[models.scribe]\nprovider = "scripted"\nmodel = "{said}"\n\n[defaults]\nmodel = "scribe"\n\n'
        (place / "mcc.toml").write_text(model + toml)

    def run(self, script: str, **variables: str) -> str:
        """What a shell prints for these commands, each of which has to succeed."""
        done = subprocess.run(
            ("bash", "-euo", "pipefail", "-c", script),
            cwd=self.home,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def branch(self) -> str:
        """The branch that was pushed."""
        (name,) = self.served.git("for-each-ref", "--format=%(refname:short)", "refs/heads/mcc").splitlines()
        return name


@contextmanager
def opened_shop(place: Path, kind: str = "github") -> Iterator[Shop]:
    """Skips where this machine lacks what it needs."""
    for program in ("git", "curl", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    found_sandbox(("git", "--version"))
    authority = pytest.importorskip("drone.egress.authority").Authority([HOST])
    (trusted := place / "authorities.pem").write_bytes(authority.certificate)
    origin = Scene(place / "origin")
    origin.commit("first", {"totals.py": "def total(rows):\n    return sum(rows[:-1])\n"})
    origin.git("clone", "-q", "--bare", ".", str(place / "served" / "team" / "shop"))
    served = Scene.existing(place / "served" / "team" / "shop")
    served.git("config", "http.receivepack", "true")
    (home := place / "home").mkdir()
    port = free_port()
    environment = {
        "HOME": str(home),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "SSL_CERT_FILE": str(trusted),
        "MCC_PORT": str(port),
        "NO_PROXY": "*",
    }
    context = authority.context(HOST)
    with git_server(place / "served", context, TOKEN) as git, fake_forge(kind, place / "served", context) as forge:
        shop = Shop(home, served, git, forge, port, environment)
        try:
            yield shop
        finally:
            if (home / ".local" / "share" / "mcc" / "family.json").exists():
                subprocess.run((f"{PROGRAMS}/mcc", "down"), cwd=home, env=environment, capture_output=True, check=False)
