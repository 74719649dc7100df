"""Gates are built once for all orders that ask for nothing of their own."""

from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.scripted import ScriptedModel
from drone.order_context import OrderContext
from drone.settings import Settings
from tests.parity.world import OneModel

OWN: dict[str, dict[str, Any]] = {
    "permission": {"permission": {"read_file": "deny"}},
    "schema": {"result_schema": {"type": "object"}},
    "mode": {"mode": "plan"},
}


async def hired(crew: Crew, folder: Path, **own: object) -> int:
    """How often gates were built, after one more order."""
    order = order_from("go", folder, "master", None, []).model_copy(update=own)
    await crew.run(order, OrderContext(MemoryJournal(order.id)))
    return crew.pools.gates.ended


@pytest.mark.parametrize("own", OWN.values(), ids=list(OWN))
async def test_gates_are_compiled_again_for_an_order_with_terms_of_its_own(tmp_path: Path, own: dict[str, Any]) -> None:
    settings = Settings(workspace_roots=(str(tmp_path),))
    model = ScriptedModel(lambda ask: "Done.")
    crew = Crew(settings, Definitions.load(Settings().prompts_dir), OneModel(model, ()))
    assert await hired(crew, tmp_path) == 1
    assert await hired(crew, tmp_path) == 1
    assert await hired(crew, tmp_path, **own) == 2


async def test_gates_are_compiled_again_for_agents_of_the_workspace(tmp_path: Path) -> None:
    settings = Settings(workspace_roots=(str(tmp_path),))
    crew = Crew(settings, Definitions.load(Settings().prompts_dir), OneModel(ScriptedModel(lambda ask: "Done."), ()))
    assert await hired(crew, tmp_path) == 1
    agents = tmp_path / ".mcc" / "agents"
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text("---\nname: helper\ndescription: It helps.\n---\nHelp.\n", "utf-8")
    assert await hired(crew, tmp_path) == 2
