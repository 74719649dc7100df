"""The gate on live state: `done` is accepted when the actual state is good, whatever the agent claims."""

from collections.abc import Sequence

from drone.agent.agent import AgentRuntime
from drone.agent.gates.gate import StateGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.report import Cause, Report
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import GateChecked, ToolFinished
from mcc.contracts.limits import Limits

ORDER = "order-1"
WRITE = call("write", text="A title")


class Page:
    """A page that needs a title, and the agent that writes it."""

    def __init__(self, lines: Sequence[Said], wrong: Sequence[str] = ("The page has no title.",)) -> None:
        self.text = ""
        self.wrong = wrong

        @tool
        def write(text: str) -> str:
            """Write the page."""
            self.text = text
            return "written"

        self.model = ScriptedModel(lines)
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(Limits()))
        self.agent = AgentRuntime(
            AgentDefinition(name="writer"), model=self.model, tools=FunctionTools([write]), gate=StateGate(self.check)
        )

    async def check(self) -> Sequence[str]:
        return () if self.text else self.wrong

    async def run(self) -> Report:
        return await self.agent.run(Task("Write.", root_record_id(ORDER)), self.turn)

    def told(self) -> list[str]:
        return [entry.data.content for entry in self.journal.entries if isinstance(entry.data, ToolFinished)]

    def checks(self) -> list[tuple[str, bool]]:
        facts = [entry.data for entry in self.journal.entries]
        return [(fact.tool, fact.ok) for fact in facts if isinstance(fact, GateChecked)]


async def test_done_passes_and_the_run_ends_with_what_was_said_last() -> None:
    page = Page([Line(calls=(WRITE,)), Line(text="The page stands.", calls=(call("done"),))])
    report = await page.run()
    assert (report.completed, report.text, report.result) == (True, "The page stands.", None)
    assert page.checks() == [("done", True)]


async def test_done_fails_and_the_errors_are_the_tools_result_in_the_same_conversation() -> None:
    page = Page([Line(calls=(call("done"),)), Line(calls=(WRITE,)), Line(calls=(call("done"),))])
    assert (await page.run()).completed
    assert page.told()[0] == "Not accepted: The page has no title. (4 attempts left.)"
    assert page.checks() == [("done", False), ("done", True)]


async def test_validate_checks_the_state_of_the_moment_and_never_ends_the_run() -> None:
    lines = [Line(calls=(call("validate"),)), Line(calls=(WRITE, call("validate"))), Line(calls=(call("done"),))]
    page = Page(lines)
    assert (await page.run()).completed
    assert page.checks() == [("validate", False), ("validate", True), ("done", True)]
    assert "Hand it in with done" in page.told()[2]


async def test_work_done_in_the_reply_that_says_done_counts() -> None:
    page = Page([Line(calls=(call("done"), WRITE))])
    assert (await page.run()).completed


async def test_done_takes_whatever_a_model_adds_to_it() -> None:
    page = Page([Line(calls=(WRITE, call("done", summary="It is there.")))])
    assert (await page.run()).completed


async def test_one_sentence_instead_of_a_list_of_them_is_one_error() -> None:
    page = Page([Line(calls=(call("done"),)), Line(calls=(WRITE, call("done")))], wrong="There is no title.")
    assert (await page.run()).completed
    assert page.told()[0].startswith("Not accepted: There is no title.")


async def test_a_check_that_breaks_refuses_in_words_and_the_run_goes_on() -> None:
    page = Page([Line(calls=(call("done"),)), Line(calls=(WRITE, call("done")))])
    page.wrong = None  # type: ignore[assignment]
    assert (await page.run()).completed
    assert "The check itself broke, so nothing could be accepted: TypeError" in page.told()[0]


async def test_a_state_that_never_becomes_good_fails_the_run() -> None:
    report = await Page([Line(calls=(call("done"),))] * 9).run()
    assert report.cause is Cause.GATE
    assert report.error == "the result was refused 5 times: The page has no title"


async def test_the_prompt_names_done() -> None:
    page = Page([Line(calls=(WRITE, call("done")))])
    await page.run()
    assert "call `done` when the work is done" in page.model.asks[0].system
    assert [spec.name for spec in page.model.asks[0].tools] == ["write", "done", "validate"]
