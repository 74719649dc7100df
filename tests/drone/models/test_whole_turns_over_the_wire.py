"""A whole turn in each wire format: two children in one call, one refused by its gate first, and a steering user."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from drone.agent.control.control_router import ControlRouter
from drone.agent.ports.journal import MemoryJournal
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.registry import Models
from drone.order_context import OrderContext
from drone.settings import ModelConfig, Settings
from mcc.contracts.control import Control, ControlKind
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.record import ChatRecord, RecordStatus
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from tests.drone.models.loopback import Loopback
from tests.drone.models.talking_server import Form, Say, TalkingServer

PROMPTS = Path(__file__).parents[3] / "prompts"
MASTER, ONE, TWO = "Compare the two files.", "Look at one.py.", "Look at two.py."
STEER = "Say it in one sentence."
DONE = {"status": "completed", "findings": [{"title": "It is short.", "path": "one.py", "line": 1}]}


def crew_of_two() -> Say:
    agents = [{"id": "a", "role": "scout", "task": ONE}, {"id": "b", "role": "scout", "task": TWO}]
    return Say("I ask two scouts.", [("subagents_run", {"agents": agents, "mode": "parallel"})], "Two are quicker.")


def written(who: str, turn: int) -> Say:
    lines = {
        MASTER: [crew_of_two(), Say("One is short, two is long.")],
        ONE: [
            Say("I read it.", [("read_file", {"path": "one.py"})], "Reading first."),
            Say("", [("submit_result", {**DONE, "summary": "One line."})]),
        ],
        TWO: [
            Say("", [("submit_result", {"status": "completed", "summary": "I guess it is long."})]),
            Say("I read it after all.", [("read_file", {"path": "two.py"}), ("list_files", {})]),
            Say("", [("submit_result", {"status": "completed", "summary": "Two lines."})]),
        ],
    }
    return lines[who][turn]


class PlayedTurn:
    """One turn, and the server that replied in it."""

    def __init__(self, form: Form, workspace: Path) -> None:
        self.server = TalkingServer(form, self._write, (ONE, TWO, MASTER))
        self.order = _order(workspace)
        self.journal = MemoryJournal(self.order.id)
        self._router = ControlRouter(self.journal)
        self._steering: list[asyncio.Task[str | None]] = []
        url = "http://127.0.0.1:9" if form == "anthropic" else "http://127.0.0.1:9/v1"
        provider, api = (form, None) if form != "responses" else ("openai", form)
        model = ModelConfig(provider=provider, api=api, model="m", base_url=url)
        settings = Settings(models={"m": model}, workspace_roots=(workspace,), prompts_dir=PROMPTS)
        models = Models(settings, wire=Loopback(self.server))
        self._crew = Crew(settings, Definitions.load(PROMPTS), models)

    async def execute(self) -> ChatRecord:
        outcome = await self._crew.run(self.order, OrderContext(self.journal, router=self._router))
        assert outcome.status is OrderStatus.SUCCEEDED
        record = self.journal.fold.record()
        assert record is not None
        return record

    def _write(self, who: str, turn: int) -> Say:
        if (who, turn) == (TWO, 2):
            self._steering.append(asyncio.ensure_future(self._router.take(_steer(self.order.id))))
        return written(who, turn)


def _order(workspace: Path) -> WorkOrder:
    new = NewOrder(prompt=MASTER, workspace=str(workspace), model="m")
    told = {"id": fresh_id(), "session_id": fresh_id(), "session_seq": 1, "status": "running", "created_at": now()}
    return WorkOrder.model_validate({**new.model_dump(exclude={"session_id"}), **told})


def _steer(order_id: str) -> Control:
    return Control(
        id=fresh_id(), order_id=order_id, number=1, kind=ControlKind.STEER, message=STEER, requested_at=now()
    )


@pytest.fixture(params=get_args(Form))
async def played(request: Any, tmp_path: Path) -> tuple[PlayedTurn, ChatRecord]:
    (tmp_path / "one.py").write_text("x = 1\n")
    (tmp_path / "two.py").write_text("y = 1\nz = 2\n")
    turn = PlayedTurn(request.param, tmp_path)
    return turn, await turn.execute()


def _kinds(record: ChatRecord) -> list[str]:
    """The kinds of steps, without notes of the runtime."""
    return [step.kind for step in record.steps if step.kind != "note"]


async def test_the_record_tells_the_whole_turn(played: tuple[PlayedTurn, ChatRecord]) -> None:
    _, record = played
    assert (record.status, record.answer) == (RecordStatus.COMPLETED, "One is short, two is long.")
    assert _kinds(record) == ["model", "tool", "steer", "model"]
    one, two = record.subagent_history
    assert [child.status for child in (one, two)] == [RecordStatus.COMPLETED] * 2
    assert _kinds(one) == ["model", "tool", "model", "gate", "tool"]
    assert [step.ok for step in two.steps if step.kind == "gate"] == [False, True]
    assert one.result["findings"][0]["title"] == "It is short."
    assert two.result["summary"] == "Two lines."
    thinking = [step.thinking for step in record.steps if step.kind == "model"]
    assert thinking == ["Two are quicker.", ""]


async def test_calls_and_tokens_add_up_over_the_tree(played: tuple[PlayedTurn, ChatRecord]) -> None:
    turn, record = played
    assert record.usage_total.model_calls == len(turn.server.asked) == 7
    assert (record.usage_total.input_tokens, record.usage_total.output_tokens) == (700, 70)
    assert record.usage_total.tool_calls == 7


async def test_repeated_provider_ids_are_distinguished(played: tuple[PlayedTurn, ChatRecord]) -> None:
    _, record = played
    steps = [step for one in (record, *record.subagent_history) for step in one.steps if step.kind == "tool"]
    assert len({step.call_id for step in steps}) == len(steps)


async def test_a_refusal_and_a_steer_reach_the_model_word_for_word(played: tuple[PlayedTurn, ChatRecord]) -> None:
    turn, record = played
    gate = next(step for step in record.subagent_history[1].steps if step.kind == "gate")
    assert "read" in gate.errors[0]
    assert gate.errors[0] in str(turn.server.by(TWO)[1].blocks[-1])
    assert turn.server.by(MASTER)[-1].blocks[-1][1]["text"].endswith(f"Z] {STEER}")


ENDS = {"openai": b'],"tools":', "responses": b'],"tool_choice":'}
"""The bytes after the last message in OpenAI's formats."""


async def test_messages_are_sent_unchanged_in_every_later_request(played: tuple[PlayedTurn, ChatRecord]) -> None:
    turn, _ = played
    for who in (MASTER, ONE, TWO):
        requests = turn.server.by(who)
        assert len(requests) >= 2
        for earlier, later in pairwise(requests):
            assert later.blocks[: len(earlier.blocks)] == earlier.blocks
            assert later.tools == earlier.tools
            if end := ENDS.get(turn.server.form):
                assert later.body.startswith(earlier.body[: earlier.body.index(end)])
