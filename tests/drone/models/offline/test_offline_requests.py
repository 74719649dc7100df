"""What requests ask for, in the words of people: what is fulfilled, what is refused openly, and how replies arrive."""

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.model import NOT_DONE, Ask, Model
from drone.agent.ports.report import Cause, outcome_of
from drone.models.offline import OfflineModel
from drone.models.offline.look import Wish, wish_of
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.transcript.messages import UserMessage
from tests.drone.models.conftest import RecordingListener
from tests.drone.models.offline.playing import ALL, READING, one


@pytest.mark.parametrize(
    "request_",
    [
        "What is 2+2?",
        "Write a function that explains this repository",
        "Translate README.md",
        "Explain `parse_args`",
        "Explain quantum physics",
        "Explain this repository and fix its bugs",
        "Explain the code. Then write it anew.",
        "Run the tests",
        "And now run the tests",
        "Please add type hints to the whole code base",
        "Why is the sky blue?",
        "How does the parser cope?",
        "Look at src/main.rs and tell me whether it is correct",
        "Which parts have no tests?",
        "find *.toml",
    ],
)
async def test_a_request_that_no_rule_fits_is_refused_without_any_call(request_: str) -> None:
    for tools in ((), READING, ALL):
        reply = await one(request_, tools)
        assert reply.text.startswith("This was not done.") and request_ in reply.text
        assert (reply.finish_reason, reply.tool_calls) == (NOT_DONE, ())
    assert "offline model" in reply.text and "ANTHROPIC_API_KEY" in reply.text and "mcc.toml" in reply.text


@pytest.mark.parametrize(
    ("request_", "wish"),
    [
        ("Explain this repository", Wish("explain")),
        ("explain the code base to JavaScript people", Wish("explain")),
        ("What does this program do?", Wish("explain")),
        ("How is this library organised?", Wish("explain")),
        ("Could you explain this repository?", Wish("explain")),
        ("How many files are there in this repository?", Wish("explain")),
        ("How are its tests run?", Wish("about", subject="tests")),
        ("And its tests?", Wish("about", subject="tests")),
        ("Tell me how it is tested.", Wish("about", subject="tests")),
        ("How do I build this project?", Wish("about", subject="building")),
        ("What are the entry points?", Wish("about", subject="starting")),
        ("So where is `hum_loudly` defined?", Wish("find", ("hum_loudly",))),
        ("Which files mention the parser?", Wish("find", ("parser",))),
        ("Who calls frob_it()?", Wish("find", ("frob_it",))),
        ("search for zanthe", Wish("find", ("zanthe",))),
        ("Review this code", Wish("review")),
        ("Is the security of this code good?", Wish("security")),
        ("Hello there!", Wish("greeting")),
        ("list the files", Wish("call", call=("list_files", {}))),
        ("Please show me the files in glimmer", Wish("call", call=("list_files", {"path": "glimmer"}))),
        ("Show me the file `glimmer/zanthe.py`.", Wish("call", call=("read_file", {"path": "glimmer/zanthe.py"}))),
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


async def test_it_is_a_model_called_offline_that_says_what_it_replies_and_costs_nothing() -> None:
    model: Model = OfflineModel()
    listener = RecordingListener()
    reply = await model.ask(Ask("", [UserMessage("Explain this repository")], ALL), listener)
    assert listener.deltas == [("thinking.delta", reply.thinking), ("model.delta", reply.text)]
    assert model.name == reply.model == "offline"
    assert (reply.usage.model_calls, reply.usage.total_tokens, reply.usage.cost_usd) == (1, 0, 0.0)


async def test_a_reply_beyond_its_limit_is_cut_there_and_starts_nothing() -> None:
    kept, cut = [await one("Explain this repository", ALL, max_output_tokens=most) for most in (None, 10)]
    assert (kept.finish_reason, len(kept.tool_calls)) == ("tool_calls", 1)
    assert (cut.finish_reason, cut.tool_calls, cut.text) == ("length", (), kept.text[:40])


@pytest.mark.parametrize("prompt", ["", "\x00\ud800", "`" * 5_000, "\n" * 100_000, "explain " * 20_000, "(" * 50_000])
async def test_any_prompt_has_an_answer(prompt: str) -> None:
    assert (await one(prompt)).text and (await one(prompt, ALL)).text


async def test_a_greeting_starts_no_exploration() -> None:
    reply = await one("Hello there!", ALL)
    assert not reply.tool_calls and "offline model" in reply.text
