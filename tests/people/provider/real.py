"""The real provider of identities as a process, and what people type into its pages."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.ports import free_port

HERE = Path(__file__).parent
VENV = Path(sys.prefix)


@dataclass(frozen=True)
class RealProvider:
    issuer: str

    def put_in(self, name: str, groups: Sequence[str]) -> None:
        """From now on this person is in these groups."""
        httpx.put(f"{self.issuer}/groups/{name}", json=groups).raise_for_status()


def packages() -> Path | str:
    """Where its packages are; else why they are not there."""
    kept = [place for place in VENV.glob("oidc-provider-*") if place.is_dir() and place.name.split("-")[-1].isdigit()]
    if kept and shutil.which("node"):
        return kept[0]
    reasons = [file.read_text().strip() for file in VENV.glob("oidc-provider-*.missing")]
    return reasons[0] if reasons else "it is not there: scripts/oidc-provider again"


@contextmanager
def providing(place: Path, public_url: str) -> Iterator[RealProvider]:
    """A provider for the MCC at this address. `place`: of its packages."""
    port = free_port()
    command = ["node", "--input-type=module", "-", str(port), public_url]
    with (HERE / "provider.mjs").open("rb") as program:
        running = subprocess.Popen(
            command, cwd=place, stdin=program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    try:
        assert running.stdout is not None
        assert "ready\n" in iter(running.stdout.readline, ""), "node could not serve the provider"
        yield RealProvider(f"http://127.0.0.1:{port}")
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()
