"""The model of a record: requested and effective."""

from mcc.contracts.blocks import blocks_of
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentStarted
from mcc.contracts.model_facts import ModelFellBack, ModelReplied
from mcc.contracts.record import ModelChoice
from mcc.contracts.usage import Usage
from tests.mcc.contracts.samples import AT, ORDER_ID

WHO = Origin(record_id="r", agent="master")


def effective(*facts: Fact) -> ModelChoice:
    started = AgentStarted(
        title="t",
        prompt="p",
        model=ModelChoice(requested="fast", effective="openai/a"),
        tools=(),
        definition_digest="d",
        setup_digest="s",
    )
    fold = Fold(ORDER_ID)
    for seq, fact in enumerate((started, *facts), 1):
        fold.add(Draft(at=AT, origin=WHO, data=fact).numbered(ORDER_ID, seq))
    record = fold.record()
    assert record is not None and record.model is not None
    return record.model


def replied(model: str, round: int = 1) -> ModelReplied:
    return ModelReplied(
        blocks=blocks_of(text="x"), round=round, attempt=1, model=model, finish_reason="stop", usage=Usage()
    )


FELL_BACK = ModelFellBack(round=1, source="openai/a", target="anthropic/b", error="gone")


def test_an_alias_is_what_was_asked_for_and_its_model_what_is_used() -> None:
    assert effective(replied("openai/a-2026")) == ModelChoice(requested="fast", effective="openai/a")


def test_after_a_fallback_the_model_that_answered_last_is_the_effective_one() -> None:
    assert effective(FELL_BACK).effective == "anthropic/b"
    assert effective(FELL_BACK, replied("anthropic/b")).effective == "anthropic/b"
    assert effective(FELL_BACK, replied("anthropic/b"), replied("openai/a", 2)).effective == "openai/a"
