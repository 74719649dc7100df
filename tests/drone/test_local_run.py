"""The order of `drone run`: mistakes in it are reported as the service reports them."""

from pathlib import Path

import pytest

from drone.local_run import order_from
from mcc.contracts.limits import Limits
from mcc.contracts.order import ModelSettings


def test_limits_are_read_from_words() -> None:
    order = order_from("hello", Path("/"), "master", None, ["rounds=5", "cost_usd = 0.5"])
    assert order.limits == Limits(rounds=5, cost_usd=0.5)


def test_how_the_model_is_asked_is_the_orders_own_word() -> None:
    order = order_from("hello", Path("/"), "master", None, [], {"thinking": "off", "temperature": None})
    assert ModelSettings.of(order) == ModelSettings(thinking="off")
    with pytest.raises(ValueError, match=r"thinking: .*'high'"):
        order_from("hello", Path("/"), "master", None, [], {"thinking": "hihg"})


@pytest.mark.parametrize(
    ("agent", "limits", "said"),
    [
        ("master", ["rounds"], "--limit takes key=value, for example rounds=10; 'rounds' is not that"),
        ("master", ["rouns=3"], "there is no limit 'rouns'; did you mean 'rounds'?"),
        ("master", ["rounds=many"], "limits.rounds: Input should be a whole number, such as 5"),
        ("master", ["rounds=0"], "limits.rounds: Input should be greater than or equal to 1"),
        ("no agent", [], "agent: Input should be a name: at most 64 letters"),
    ],
)
def test_a_mistake_is_named_with_its_field(agent: str, limits: list[str], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        order_from("hello", Path("/"), agent, None, limits)
    assert str(refused.value).startswith(said)
