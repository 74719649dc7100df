"""An order of a batch is the order that it would be alone, and knows what its caller gave."""

from mcc.contracts.order import NewOrder, OrderOfBatch


def test_an_order_of_a_batch_is_the_order_without_its_key() -> None:
    given = {"prompt": "x", "labels": ("nightly",), "limits": {"rounds": 3}}
    of_batch = OrderOfBatch.model_validate({**given, "idempotency_key": "k"})
    alone = NewOrder.model_validate(given)
    assert type(of_batch.order) is NewOrder
    assert of_batch.order == alone and of_batch.order.model_dump() == alone.model_dump()
    assert of_batch.order.model_fields_set == alone.model_fields_set == set(given)
    assert of_batch.idempotency_key == "k"
