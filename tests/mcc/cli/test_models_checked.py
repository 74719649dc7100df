"""`mcc models --check` and `drone models`: tables, JSON and exit codes."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import Result

from drone.cli import app
from mcc.api.app import RedisAccess
from mcc.contracts.answers import ModelCheck
from mcc.contracts.drones import Capability, Registration
from mcc.contracts.usage import Usage
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN, Served
from mcc.view.offers import CHECKED, print_checks, total
from tests.mcc.cli.in_process import CliRunner
from tests.mcc.cli.test_commands import Done, environment, mcc

SPENT = Usage(input_tokens=100, output_tokens=10, model_calls=1, cost_usd=0.002)
GOOD = ModelCheck(
    name="good",
    model="openai/m",
    drone="d1",
    key="accepted",
    context_tokens=32_000,
    window_from="configuration",
    tools=True,
    streaming=True,
    thinking=False,
    caching="priced",
    seconds=1.25,
    usage=SPENT,
)
WRONG = ModelCheck(name="wrong", model="openai/m", drone="d1", problem="Check the key in WRONG\x1b[31m.", key="refused")


class FakeChecks:
    def __init__(self, rows: list[ModelCheck]) -> None:
        self._rows = rows

    async def check(self, incarnation: str, names: tuple[str, ...]) -> list[ModelCheck]:
        return [row for row in self._rows if row.name in names]

    async def close(self) -> None:
        pass


def checked(tmp_path: Path, rows: list[ModelCheck], *arguments: str) -> Done:
    store = temporary_store()
    HandDrone(store, name="d1", models=tuple(row.name for row in rows))
    with Served(store, tmp_path, redis=RedisAccess(checks=FakeChecks(rows))) as served:  # type: ignore[arg-type]
        return mcc("models", "--url", served.url, *arguments, data_dir=tmp_path, MCC_TOKEN=TOKEN)


def test_a_table_tells_of_each_model_and_below_it_what_to_do_and_what_it_cost(tmp_path: Path) -> None:
    done = checked(tmp_path, [GOOD, WRONG], "--check")
    assert done.code == 1
    head, good, wrong = done.stdout.splitlines()[:3]
    assert tuple(head.split()) == CHECKED
    told = "good usable accepted 32,000 yes yes no priced 1.2 s openai/m"
    assert good.split() == told.split()
    assert wrong.split() == ["wrong", "broken", "refused", "?", "?", "?", "?", "?", "openai/m"]
    assert "good: the window is what mcc.toml says" in done.stdout
    assert "wrong: Check the key in WRONG" in done.stdout and "\x1b" not in done.stdout
    assert "110 tokens · $0.0020" in done.stdout


def test_models_by_name_in_json_end_well_where_all_of_them_answer(tmp_path: Path) -> None:
    done = checked(tmp_path, [GOOD, WRONG], "--check", "--json", "good")
    assert done.code == 0
    assert [ModelCheck.model_validate(row) for row in json.loads(done.stdout)["items"]] == [GOOD]


def test_without_a_drone_a_sentence_says_so(tmp_path: Path) -> None:
    with Served(temporary_store(), tmp_path, redis=RedisAccess(checks=FakeChecks([]))) as served:  # type: ignore[arg-type]
        done = mcc("models", "--url", served.url, "--check", data_dir=tmp_path, MCC_TOKEN=TOKEN)
    assert done.code == 1 and "only drones have the keys" in done.stderr


def test_names_go_with_check(tmp_path: Path) -> None:
    done = checked(tmp_path, [GOOD], "good")
    assert done.code == 2 and "--check" in done.stderr


def test_a_cost_that_one_call_leaves_unknown_is_unknown_in_all(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = GOOD.model_copy(update={"usage": SPENT.model_copy(update={"cost_usd": None})})
    assert total([WRONG]) is None
    print_checks([GOOD, unknown])
    assert "220 tokens · cost unknown" in capsys.readouterr().out


def test_a_drone_tries_the_models_of_its_configuration_without_a_service(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[models.fast]\nprovider = "openai"\nmodel = "m"\napi_key_env = "NOBODY_SET_THIS"\n')
    wanted = environment(tmp_path, MCC_CONFIG=str(file))
    absent = dict.fromkeys(os.environ.keys() - wanted.keys())

    def drone(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["models", *arguments], env={**wanted, **absent}, catch_exceptions=False)

    done = drone("--check", "--json", "fast", "offline")
    fast, offline = json.loads(done.stdout)["items"]
    assert (done.exit_code, fast["key"], offline["problem"]) == (1, "missing", None)
    assert "NOBODY_SET_THIS" in drone().stdout
    assert drone("fast").exit_code == 2


def test_the_default_is_marked_and_a_long_problem_leaves_every_column_there(tmp_path: Path) -> None:
    store, long = temporary_store(), "The key is missing. " * 30
    models = (Capability(name="fast", default=True), Capability(name="slow", problem=long))
    store.leases.register(
        Registration(
            incarnation="i", name="d1", pid=1, host="h", version="0", queues=("default",), slots=1, models=models
        ),
        lease_seconds=600,
    )
    with Served(store, tmp_path) as served:
        told = [
            mcc(*words, "--url", served.url, data_dir=tmp_path, MCC_TOKEN=TOKEN, COLUMNS="80").stdout
            for words in (("models",), ("models", "list"), ("drones",), ("drones", "list"))
        ]
    head, fast, slow, _, problem = told[0].splitlines()
    assert head.split() == ["NAME", "STATE", "DRONES", "DESCRIPTION"]
    assert fast.split() == ["fast", "usable,", "default", "d1"] and slow.split() == ["slow", "broken"]
    assert problem == f"slow: {long}"
    assert told[1] == told[0] and told[3] == told[2] and "d1" in told[2]
