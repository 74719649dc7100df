"""The conformance tests of MCP, client role: every scenario that a revision requires, spoken by what drones speak."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest

from drone.mcp_servers.transports import load
from tests.mcp_conformance.client import Scenario

HERE = Path(__file__).parent
VENV = Path(sys.prefix)
REVISIONS = ("2025-11-25", "2026-07-28")
REQUIRED = [tuple(line.split()) for line in (HERE / "required.txt").read_text().splitlines()]
SECONDS = 115.0


@pytest.fixture
def suite() -> Path:
    found = [one for one in VENV.glob("mcp-conformance-*") if one.is_dir() and one.name.rpartition("-")[2].isdigit()]
    if not found or shutil.which("node") is None:
        reasons = [one.read_text().strip() for one in VENV.glob("mcp-conformance-*.missing")]
        pytest.skip(reasons[0] if reasons else "they are not there: scripts/mcp-conformance again")
    return found[0] / "node_modules" / "@modelcontextprotocol" / "conformance"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Run the scenario that a launcher tells of, in this process, which has loaded the SDK."""
    scenario = Scenario.of(json.loads(await reader.readline()))
    try:
        async with asyncio.timeout(SECONDS):
            said = "\n".join(await scenario.run())
    except Exception as error:
        said = repr(error)
    writer.write(said.encode("utf-8", "replace"))
    writer.close()


async def results(suite: Path, revision: str, way: str) -> tuple[dict[str, str], str]:
    """Scenario to ✓ or ✗, and all that was said."""
    command = f"{sys.executable} -I -S {HERE / 'launcher.py'} {way}"
    asked = ("client", "--requirements", revision, "--timeout", "120000", "--command", command)
    node = ("node", "--import", str(HERE / "node_fs.mjs"), str(suite / "dist" / "index.js"))
    stdout, stderr = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    running = await asyncio.create_subprocess_exec(*node, *asked, stdout=stdout, stderr=stderr)
    said = (await running.communicate())[0].decode("utf-8", "replace")
    rows = (line.partition(":")[0].split() for line in said.splitlines() if line[:1] in "✓✗" and line[1:2] == " ")
    return {row[1]: row[0] for row in rows if len(row) == 2}, said


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_required_scenario_passes(suite: Path, revision: str) -> None:
    await load()
    folder = Path(mkdtemp(prefix="mcp-"))
    server = await asyncio.start_unix_server(answer, folder / "way")
    try:
        found, said = await results(suite, revision, str(folder / "way"))
    finally:
        server.close()
        shutil.rmtree(folder)
    required = [scenario for one, scenario in REQUIRED if one == revision]
    failed = [scenario for scenario in required if found.get(scenario) != "✓"]
    assert required and not failed, f"{failed}\n{said[-4_000:]}"


def test_the_list_of_what_is_required_is_that_of_the_suite(suite: Path) -> None:
    import yaml

    there = []
    for revision in REVISIONS:
        required = yaml.safe_load((suite / "requirements" / f"{revision}.yaml").read_text())
        there += [(revision, scenario) for scenario in required["client"]]
    assert there == REQUIRED
