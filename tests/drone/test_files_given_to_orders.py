"""The files of an order reach its master's first request, and whoever follows the order reads their names."""

from pathlib import Path

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.scripted import ScriptedModel
from drone.order_context import OrderContext
from drone.settings import Settings
from mcc.contracts.journal import AgentStarted
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import UserMessage
from mcc.view.lines import Lines
from tests.drone.tools.test_attachments import GivenFiles, picture
from tests.parity.world import OneModel


async def test_files_follow_the_prompt_in_the_first_request_and_their_names_stand_in_what_people_follow(
    tmp_path: Path,
) -> None:
    asked: list[Ask] = []

    def answer(ask: Ask) -> str:
        asked.append(ask)
        return "Seen."

    files = GivenFiles({"notes.txt": b"Tides rise.", "shot\u202egnp.png": picture()})
    crew = Crew(Settings(workspace_roots=(str(tmp_path),)), Definitions.load(), OneModel(ScriptedModel(answer), ()))
    order = order_from("What is in the files?", tmp_path, "master", None, [])
    order = order.model_copy(update={"attachments": tuple(files.ids)})
    journal = MemoryJournal(order.id)
    outcome = await crew.run(order, OrderContext(journal, attachments=files))
    assert outcome.status is OrderStatus.SUCCEEDED
    first = asked[0].messages[0]
    assert isinstance(first, UserMessage) and len(first.pictures) == 1
    prompt, text, shot = (first.text.index(part) for part in ("What is in the files?", "Tides rise.", "[attachment 2"))
    assert prompt < text < shot < first.pictures[0].at
    started = next(entry.data for entry in journal.entries if isinstance(entry.data, AgentStarted))
    assert [attachment.id for attachment in started.attachments] == files.ids
    lines = Lines()
    said = "\n".join(line for entry in journal.entries for line in [lines.line_of(entry)] if line)
    assert "It was given 2 files: notes.txt, " in said and "\u202e" not in said
