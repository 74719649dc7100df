"""What a process did to orders, in Prometheus' text format."""

from datetime import timedelta

from prometheus_client import CollectorRegistry

from mcc.contracts.callers import Actor
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import Publisher
from mcc.dispatch.work_metrics import MOST_MODELS, WorkMetrics
from mcc.testing import temporary_store

AT = now()


class Scene:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = WorkMetrics(self.registry)
        store = temporary_store()
        placed = store.orders.place(NewOrder(prompt="p"), by=Actor("t")).order
        self.order = placed.model_copy(update={"created_at": AT})

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def committed(self, *facts: Fact) -> None:
        drafts = [Draft(at=AT, origin=Origin(record_id="r", agent="master"), data=fact) for fact in facts]
        self.metrics.committed([draft.numbered("o", seq) for seq, draft in enumerate(drafts, start=1)])

    def changed(self, **fields: object) -> WorkOrder:
        self.order = self.order.model_copy(update=fields)
        self.metrics.status_changed(self.order)
        return self.order


def replied(model: str = "openai/fast", cost_usd: float | None = 0.5) -> ModelReplied:
    used = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 7, "reasoning_tokens": 2}
    usage = Usage.model_validate({**used, "model_calls": 1, "cost_usd": cost_usd})
    return ModelReplied(round=1, attempt=1, model=model, finish_reason="stop", usage=usage, seconds=1.5)


def test_an_order_counts_at_its_first_claim_and_at_its_end() -> None:
    scene = Scene()
    scene.changed(status=OrderStatus.RUNNING, attempt=1, started_at=AT + timedelta(seconds=3))
    assert scene.value("mcc_order_wait_seconds_sum") == 3
    scene.changed(status=OrderStatus.RUNNING, attempt=2)
    assert scene.value("mcc_order_wait_seconds_count") == 1
    scene.changed(status=OrderStatus.FAILED, reason=FailureReason.MODEL_ERROR, finished_at=AT + timedelta(seconds=13))
    assert scene.value("mcc_orders_ended_total", status="failed", reason="model_error") == 1
    assert scene.value("mcc_order_seconds_sum") == 10


def test_an_order_for_later_waits_from_that_moment_on() -> None:
    scene = Scene()
    due = AT + timedelta(hours=1)
    scene.changed(status=OrderStatus.RUNNING, attempt=1, not_before=due, started_at=due + timedelta(seconds=2))
    assert scene.value("mcc_order_wait_seconds_sum") == 2


def test_a_publisher_counts_what_is_reported_to_it() -> None:
    scene = Scene()
    publisher = Publisher(RedisAt("redis://127.0.0.1:1/0"))
    publisher.metrics = scene.metrics
    publisher.report_status(scene.order.model_copy(update={"status": OrderStatus.CANCELLED}))
    publisher.taken_over(2)
    publisher.close()
    assert scene.value("mcc_orders_ended_total", status="cancelled", reason="") == 1
    assert scene.value("mcc_takeovers_total") == 2


def test_an_order_that_no_drone_began_has_no_duration() -> None:
    scene = Scene()
    scene.changed(status=OrderStatus.CANCELLED, finished_at=AT)
    assert scene.value("mcc_orders_ended_total", status="cancelled", reason="") == 1
    assert scene.value("mcc_order_seconds_count") == 0


def test_model_calls_count_by_model_and_outcome_with_their_tokens_and_cost() -> None:
    scene = Scene()
    retried = ModelRetried(round=1, attempt=1, model="openai/fast", error="busy", wait_seconds=1)
    scene.committed(retried, replied(), replied(), ModelFellBack(round=1, source="a/b", target="c/d", error="gone"))
    assert scene.value("mcc_model_calls_total", model="openai/fast", outcome="replied") == 2
    assert scene.value("mcc_model_calls_total", model="openai/fast", outcome="retried") == 1
    assert scene.value("mcc_model_calls_total", model="a/b", outcome="fell_back") == 1
    assert scene.value("mcc_model_seconds_sum", model="openai/fast") == 3
    assert scene.value("mcc_tokens_total", model="openai/fast", kind="input") == 200
    assert scene.value("mcc_tokens_total", model="openai/fast", kind="cached_input") == 120
    assert scene.value("mcc_tokens_total", model="openai/fast", kind="output") == 14
    assert scene.value("mcc_cost_usd_total", model="openai/fast") == 1


def test_an_unknown_price_adds_nothing_to_the_cost() -> None:
    scene = Scene()
    scene.committed(replied(cost_usd=None))
    assert scene.value("mcc_cost_usd_total", model="openai/fast") is None


def test_models_beyond_the_bound_share_one_label() -> None:
    scene = Scene()
    scene.committed(*(replied(f"openai/{number}") for number in range(MOST_MODELS + 5)))
    assert scene.value("mcc_model_calls_total", model="other", outcome="replied") == 5
    scene.committed(replied("openai/0"))
    assert scene.value("mcc_model_calls_total", model="openai/0", outcome="replied") == 2
