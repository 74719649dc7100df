"""The requests that the offline model fulfils: workspace overviews and single tool calls. It says openly when it did
nothing."""

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.model import NOT_DONE
from drone.agent.ports.report import Cause, outcome_of
from drone.models.offline import OfflineModel
from drone.models.offline.request import Focus, focus_of, tool_request_of
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.models.offline.playing import READING, SUBAGENT, Failure, one, play

WHOLE = Focus(structure=True, content=True)


@pytest.mark.parametrize(
    "request_",
    [
        "What is 2+2?",
        "Write a function that adds two numbers into foo.py",
        "Write a function that explains this repository",
        "Translate README.md",
        "Summarize README.md",
        "Explain `parse_args`",
        "Explain quantum physics",
        "Explain this repository and fix its bugs",
        "Explain the code. Then write it anew.",
        "Fix the failing tests in this repository",
        "Run the tests",
        "Please add type hints to the whole code base",
        "Why is the sky blue?",
        "How does the parser cope?",
        "Look at src/main.rs and tell me whether it is correct",
        "Make the program faster",
        "Which parts have no tests?",
        "Should this project be written in Rust?",
        "Compare this library with others",
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
        "What is in this folder, and where does it start?",
        "Give me an overview of the architecture",
        "How do I build and run this project?",
        "How are the tests run here?",
        "How is this library organised?",
        "Walk me through the source code",
        "Explore this workspace",
        "What are the entry points?",
        "Could you explain this repository?",
        "How many files are there in this repository?",
        "Which languages is this written in?",
    ],
)
def test_a_request_for_an_overview_gets_one(request_: str) -> None:
    assert tool_request_of(request_) is None and focus_of(request_) == WHOLE


@pytest.mark.parametrize(
    ("request_", "focus"),
    [
        ("Where is `hum_loudly` defined?", Focus(terms=("hum_loudly",))),
        ("Which files mention the parser?", Focus(terms=("parser",))),
        ("Who calls frob_it()?", Focus(terms=("frob_it",))),
        ("Review this code", Focus(review="review")),
        ("Is the security of this code good?", Focus(review="security")),
    ],
)
def test_words_are_looked_up_and_code_is_looked_through(request_: str, focus: Focus) -> None:
    assert focus_of(request_) == focus


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


async def test_a_tool_request_that_its_tool_refused_counts_as_not_done() -> None:
    def refusing(name: str, arguments: object) -> str:
        raise Failure("nothing.py does not exist.")

    game = await play("read nothing.py", refusing)
    assert game.replies[-1].finish_reason == NOT_DONE
    assert game.answer.startswith("This was not done.") and "nothing.py does not exist." in game.answer
