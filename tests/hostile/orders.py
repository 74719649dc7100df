"""Orders on a real crew whose model calls the tools that a test names, one reply after the other."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, WantedCall
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.scripted import Line, Said, ScriptedModel
from drone.order_context import OrderContext
from drone.settings import Settings
from mcc.contracts.order import OrderOutcome
from mcc.contracts.record import ChatRecord, ToolStep
from tests.parity.world import OneModel

MASTER = """---
name: master
description: Calls what it is told to.
tools: [environment_read, workspace_read, diff_read, git_read, rules_skills_read]
spawns: []
result: text
---
Call the tools.
"""

Reply = Iterable[WantedCall] | Callable[[], Iterable[WantedCall]]
"""The calls of one reply; a function is called when the reply is due."""


class Orders:
    """Runs orders on workspaces under `roots`; `settings` are further ones of the drone. `tools`: also those of these
    groups."""

    def __init__(self, folder: Path, *roots: Path, tools: Iterable[str] = (), **settings: object) -> None:
        prompts = folder / "prompts"
        (prompts / "master").mkdir(parents=True)
        (prompts / "master" / "system.md").write_text(
            MASTER.replace("tools: [", f"tools: [{''.join(f'{one}, ' for one in tools)}")
        )
        given = {"data_dir": folder / "data", "workspace_roots": roots, "prompts_dir": prompts, **settings}
        self._play: Iterator[Reply] = iter(())
        known = OneModel(ScriptedModel(self._say))
        self._crew = Crew(Settings.model_validate(given), Definitions.load(prompts), known)

    def _say(self, ask: Ask) -> Said:
        calls = next(self._play, ())
        wanted = tuple(calls() if callable(calls) else calls)
        return Line(calls=wanted) if wanted else "done"

    @property
    def crew(self) -> Crew:
        return self._crew

    def play(self, *play: Reply) -> None:
        """What the model of the next order calls."""
        self._play = iter(play)

    async def run(self, workspace: Path, *play: Reply) -> tuple[OrderOutcome, list[ToolStep]]:
        """The outcome, and what each call brought."""
        self.play(*play)
        order = order_from("go", workspace, "master", None, [])
        journal = MemoryJournal(order.id)
        outcome = await self._crew.run(order, OrderContext(journal))
        record: ChatRecord | None = journal.fold.record()
        return outcome, [step for step in record.steps if step.kind == "tool"] if record else []

    async def close(self) -> None:
        await self._crew.close()
