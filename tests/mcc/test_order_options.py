"""The options of an order on a command line: the fields that they make, and what is refused."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from drone.cli import run as drone_run
from mcc.cli.chat import chat
from mcc.cli.generate import generate
from mcc.cli.run import run
from mcc.contracts.git_delivery import Deliver
from mcc.contracts.order import NewOrder
from mcc.options import DeliverOptions, OrderOptions, VerifyOptions, object_in


def test_what_is_said_is_an_order() -> None:
    said = OrderOptions(
        model="fast",
        thinking="low",
        temperature=0.5,
        max_output_tokens=9,
        service_tier="flex",
        limit=["rounds=3"],
        mode="build",
        permission='{"git_*": "ask"}',
        on_ask="deny",
        egress=["docs.python.org", "example.org:443"],
    )
    order = NewOrder(prompt="go", **said.order(), **VerifyOptions(verify_rubric="Short.").order())
    assert order.egress == ("docs.python.org", "example.org:443") and order.on_ask == "deny"
    assert order.limits is not None and order.limits.rounds == 3
    assert order.verify is not None and order.verify.rubric == "Short."
    assert all(value is not None for value in said.order().values()), "an option is lost on its way"


def test_what_is_not_said_is_left_to_the_service() -> None:
    assert not any({**OrderOptions().order(), **VerifyOptions().order()}.values())


def test_no_host_at_all_is_said_by_none() -> None:
    assert OrderOptions(egress=["none"]).order()["egress"] == []
    assert OrderOptions().order()["egress"] is None


@pytest.mark.parametrize(
    ("said", "wish"),
    [
        ({}, None),
        ({"push": True}, Deliver()),
        ({"pull_request": True}, Deliver(pull_request=True)),
        (
            {"push": True, "branch": "mcc/x", "base": "next", "title": "T"},
            Deliver(branch="mcc/x", base="next", title="T"),
        ),
        ({"pull_request": True, "draft": False, "close": 7}, Deliver(pull_request=True, draft=False, close=7)),
    ],
)
def test_how_work_goes_back_is_a_field_of_the_order(said: dict[str, Any], wish: Deliver | None) -> None:
    made = DeliverOptions(**said).order()["deliver"]
    assert (None if made is None else Deliver.model_validate(made)) == wish


@pytest.mark.parametrize(
    ("said", "option"),
    [
        ({"branch": "mcc/x"}, "--branch"),
        ({"title": "T"}, "--title"),
        ({"draft": False}, "--draft"),
        ({"push": True, "close": 7}, "--close"),
        ({"push": True, "draft": True}, "--draft"),
    ],
)
def test_how_without_whether_is_refused(said: dict[str, Any], option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} .*--pull-request"):
        DeliverOptions(**said).order()


@pytest.mark.parametrize("command", [run, chat])
def test_a_wish_can_be_said_where_orders_are_placed(command: Callable[..., None]) -> None:
    assert {field.name for field in fields(DeliverOptions)} <= command.__annotations__.keys()


@pytest.mark.parametrize("command", [run, generate, drone_run])
def test_each_command_that_places_an_order_takes_them_all(command: Callable[..., None]) -> None:
    taken = command.__annotations__
    assert {field.name for field in fields(OrderOptions)} <= taken.keys()


@pytest.mark.parametrize("option", ["--schema", "--permission"])
def test_an_object_is_written_out_or_in_a_file(tmp_path: Path, option: str) -> None:
    file = tmp_path / "object.json"
    file.write_text('{"a": "b"}')
    assert object_in(str(file), option) == object_in(' {"a": "b"}', option) == {"a": "b"}
    file.write_text("[1]")
    with pytest.raises(ValueError, match=r"object.json is not a JSON object, in braces, as --"):
        object_in(str(file), option)
    with pytest.raises(ValueError, match="cannot be read"):
        object_in(str(tmp_path / "none.json"), option)


@pytest.mark.parametrize("text", ["a = ", "[permission"])
def test_a_toml_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "may.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"may\.toml is not TOML"):
        OrderOptions(permission=str(file)).order()
