"""The weight of a fact or command counts its texts at any depth."""

import pytest

from drone.worker.weight import OBJECT_BYTES, weight_of
from mcc.contracts.blocks import TextBlock, ToolCallBlock
from mcc.contracts.fact import Fact
from mcc.contracts.journal import AgentStep, Outcome, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.usage import Usage

LONG = "x" * 10_000
ARGUMENTS = {LONG: ["y" * 10_000, {"deep": ("z" * 10_000, 1, None)}]}


def replied(*blocks: TextBlock | ToolCallBlock) -> ModelReplied:
    return ModelReplied(round=1, attempt=1, model="m", blocks=blocks, finish_reason="stop", usage=Usage(), seconds=1.0)


@pytest.mark.parametrize(
    ("fact", "characters"),
    [
        (AgentStep(name="note", message=LONG), 10_000),
        (replied(TextBlock(text=LONG), TextBlock(text=LONG)), 20_000),
        (replied(ToolCallBlock(call_id="c", name="t", arguments=ARGUMENTS)), 30_000),
        (
            ToolFinished(call_id="c", name="t", content=LONG, is_error=False, outcome=Outcome.OK, found=(LONG,)),
            20_000,
        ),
    ],
    ids=["text", "blocks", "arguments", "enum"],
)
def test_a_fact_weighs_a_little_more_than_its_texts(fact: Fact, characters: int) -> None:
    assert characters + OBJECT_BYTES < weight_of(fact) < characters + OBJECT_BYTES + 800
