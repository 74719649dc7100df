"""What requests ask for, in the words of people: what is fulfilled, and what is refused openly."""

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.model import NOT_DONE
from drone.agent.ports.report import Cause, outcome_of
from drone.models.offline import OfflineModel
from drone.models.offline.look import Wish, wish_of
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.models.offline.playing import READING, SUBAGENT, one


@pytest.mark.parametrize(
    "request_",
    [
        "What is 2+2?",
        "Write a function that explains this repository",
        "Translate README.md",
        "Summarize README.md",
        "Explain `parse_args`",
        "Explain quantum physics",
        "Explain this repository and fix its bugs",
        "Explain the code. Then write it anew.",
        "Run the tests",
        "Please add type hints to the whole code base",
        "Why is the sky blue?",
        "How does the parser cope?",
        "Look at src/main.rs and tell me whether it is correct",
        "Make the program faster",
        "Which parts have no tests?",
        "Should this project be written in Rust?",
    ],
)
async def test_a_request_that_no_rule_fits_is_refused_without_any_call(request_: str) -> None:
    for tools in ((), READING, (*READING, SUBAGENT)):
        reply = await one(request_, tools)
        assert reply.text.startswith("This was not done.") and request_ in reply.text
        assert (reply.finish_reason, reply.tool_calls) == (NOT_DONE, ())


@pytest.mark.parametrize(
    "request_",
    [
        "Explain this repository",
        "explain the code base to JavaScript people",
        "Describe the project for a newcomer.",
        "What is this?",
        "What does this program do?",
        "Give me an overview of the architecture",
        "How is this library organised?",
        "Walk me through the source code",
        "Could you explain this repository?",
        "How many files are there in this repository?",
    ],
)
def test_a_request_for_an_overview_gets_one(request_: str) -> None:
    assert wish_of(request_) == Wish("explain")


@pytest.mark.parametrize(
    ("request_", "wish"),
    [
        ("How are its tests run?", Wish("about", subject="tests")),
        ("How do I build this project?", Wish("about", subject="building")),
        ("What are the entry points?", Wish("about", subject="starting")),
        ("Where is `hum_loudly` defined?", Wish("find", ("hum_loudly",))),
        ("Which files mention the parser?", Wish("find", ("parser",))),
        ("Who calls frob_it()?", Wish("find", ("frob_it",))),
        ("Review this code", Wish("review")),
        ("Is the security of this code good?", Wish("security")),
        ("Hello there!", Wish("greeting")),
        ("list the files", Wish("call", call=("list_files", {}))),
        ("Please show me the files in glimmer", Wish("call", call=("list_files", {"path": "glimmer"}))),
        ("read README.md", Wish("call", call=("read_file", {"path": "README.md"}))),
        ("Show me the file `glimmer/zanthe.py`.", Wish("call", call=("read_file", {"path": "glimmer/zanthe.py"}))),
        ("find *.toml", Wish("call", call=("find_files", {"pattern": "**/*.toml"}))),
        (
            "search for zanthe",
            Wish("call", call=("search_text", {"pattern": "zanthe", "literal": True, "case_sensitive": False})),
        ),
    ],
)
def test_a_question_is_read_for_what_it_is_about(request_: str, wish: Wish) -> None:
    assert wish_of(request_) == wish


@pytest.mark.parametrize(
    ("request_", "offer"),
    [("Translate README.md", "`Read README.md`"), ("How does the parser cope?", "`Search for parser`")],
)
async def test_the_first_offer_is_close_to_the_request(request_: str, offer: str) -> None:
    assert offer in (await one(request_, READING)).text


@pytest.mark.parametrize("gate", [None, ReportGate()], ids=["free", "gated"])
async def test_an_order_that_was_not_done_has_failed_for_that_reason(gate: ReportGate | None) -> None:
    agent = AgentRuntime(AgentDefinition(name="helper", prompt="Help."), model=OfflineModel(), gate=gate)
    report = await agent.run("What is 2+2?")
    assert (report.status, report.cause) == (RecordStatus.FAILED, Cause.NOT_DONE)
    outcome = outcome_of(report)
    assert (outcome.status, outcome.reason) == (OrderStatus.FAILED, FailureReason.NOT_DONE)
    assert (outcome.answer or "").startswith("This was not done.") and "cannot do this" in (outcome.detail or "")
