"""Connecting to a broker that is away."""

import pytest

from drone.worker.inbox import RECONNECTING, BrokerConnection, QoS


class Enough(Exception):
    pass


class HalfClosed:
    """A channel whose connection forgot its address."""

    do_restore = True

    def conn_or_acquire(self, client: object = None) -> object:
        raise AttributeError("'NoneType' object has no attribute 'hostname'")


def test_a_broker_that_is_away_is_tried_again_every_two_seconds_at_most() -> None:
    pauses: list[float] = []

    def told(_: Exception, pause: float) -> None:
        pauses.append(pause)
        raise Enough

    with pytest.raises(Enough), BrokerConnection("redis://127.0.0.1:1/0") as connection:  # type: ignore[no-untyped-call]
        connection.ensure_connection(told, None, interval_start=20)
    assert pauses == [RECONNECTING["interval_start"]]
    assert RECONNECTING["interval_max"] <= 2


def test_messages_that_cannot_be_given_back_are_let_go_and_end_no_worker() -> None:
    qos = QoS(HalfClosed())  # type: ignore[no-untyped-call]
    qos._delivered["tag"] = object()
    qos.restore_unacked_once()  # type: ignore[no-untyped-call]
    assert not qos._delivered
