"""`mcc schedules`: added, looked at, run, paused, removed; and what both clients and commands say of mistakes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.client import MCC, AsyncMCC
from mcc.client.errors import Conflict, Invalid, NotFound
from mcc.configuration.forges import Forge
from mcc.configuration.workspaces import GitRemote, WorkspaceSettings
from mcc.settings import ServiceSettings
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner

Mcc = Callable[..., Result]
NIGHTLY = ("nightly", "Report for {date}", "--cron", "30 2 * * *", "--zone", "Europe/Berlin")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = temporary_store()
    with Served(store, tmp_path) as served:
        yield served
    store.close()


@pytest.fixture
def mcc(served: Served) -> Mcc:
    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ("schedules", *words), env={"MCC_URL": served.url, "MCC_TOKEN": TOKEN})

    return run


def test_a_schedule_is_added_run_paused_and_removed(mcc: Mcc, served: Served) -> None:
    assert "mcc schedules add" in mcc("list").stdout
    added = mcc("add", *NIGHTLY, "--label", "report", "--order", '{"priority": 2}', "--json")
    assert added.exit_code == 0, added.output
    saved = json.loads(added.stdout)
    assert saved["order"] == {"prompt": "Report for {date}", "labels": ["report"], "priority": 2}
    assert mcc().exit_code == 0 and "nightly" in mcc().stdout
    order_id = mcc("run", "nightly").stdout.strip()
    with MCC(served.url, token=TOKEN) as client:
        order = client.orders.get(order_id)
    assert (order.priority, order.door) == (2, "schedule/nightly") and "{" not in order.prompt
    full = mcc("run", "nightly")
    assert full.exit_code == 1 and "1 of its orders are unfinished" in full.stderr
    shown = mcc("show", saved["id"][-8:]).stdout
    assert "placed" in shown and "skipped" in shown and "Report for {date}" in shown
    assert "is paused" in mcc("pause", "nightly").stderr and "paused" in mcc("list").stdout
    assert "next: " in mcc("resume", "nightly").stderr
    assert "removed: nightly" in mcc("remove", "nightly").stderr
    assert json.loads(mcc("list", "--json").stdout) == {"items": []}


def test_an_interval_is_given_in_words(mcc: Mcc) -> None:
    added = mcc(
        "add", "watch", "Look", "--every", "1h30m", "--jitter", "5m", "--catch-up", "all", "--most", "3", "--json"
    )
    saved = json.loads(added.stdout)
    assert (saved["every_seconds"], saved["jitter_seconds"], saved["cron"]) == (5_400, 300, None)
    assert saved["catch_up"] == {"policy": "all", "most": 3}
    assert "every 5,400 s" in mcc("list").stdout


def test_what_comes_next_is_told_before_anything_is_saved(mcc: Mcc) -> None:
    told = mcc("next", "30 2 * * *", "--zone", "Asia/Kathmandu", "--count", "3", "--json")
    local = json.loads(told.stdout)["local"]
    assert len(local) == 3 and all(each.endswith("T02:30:00+05:45") for each in local)
    assert "@daily is written with five fields: 0 0 * * *" in mcc("next", "@daily").stderr
    mcc("add", *NIGHTLY)
    assert len(mcc("next", "nightly", "--count", "7").stdout.splitlines()) == 8


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "a", "x"), "either cron or every_seconds"),
        (("add", "a", "x", "--every", "soon"), "--every: 'soon' is no time"),
        (("add", "a", "x", "--every", "30s"), "every_seconds"),
        (("add", "a", "x", "--cron", "0 0 30 2 *"), "cron: "),
        (("add", "a", "x {dat}", "--cron", "0 0 * * *"), "did you mean 'date'"),
        (("add", "a", "x", "--cron", "0 0 * * *", "--order", "[]"), "--order"),
        (("show", "nobody"), "no schedules are called 'nobody'"),
        (("pause", "nobody"), "mcc schedules list"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(mcc: Mcc, words: tuple[str, ...], sentence: str) -> None:
    result = mcc(*words)
    assert result.exit_code == 2 and sentence in result.stderr, result.stderr


async def test_both_clients_have_all_of_it(served: Served) -> None:
    async with AsyncMCC(served.url, token=TOKEN) as client:
        saved = await client.schedules.add("a", {"prompt": "x"}, every_seconds=600)
        changed = await client.schedules.change(saved.id, cron="0 0 * * *", zone="Europe/Berlin")
        assert (changed.cron, changed.every_seconds, changed.version) == ("0 0 * * *", None, 2)
        assert (await client.schedules.run(saved.id)).outcome == "placed"
        with pytest.raises(Conflict):
            await client.schedules.add("a", {"prompt": "x"}, every_seconds=600)
        with pytest.raises(Invalid):
            await client.schedules.change(saved.id, cron="0 0 30 2 *")
    with MCC(served.url, token=TOKEN) as client:
        assert [each.id for each in client.schedules.list()] == [saved.id]
        assert client.schedules.get(saved.id).last == client.schedules.runs(saved.id).items[0]
        assert len(client.schedules.preview(every_seconds=60, count=2).next) == 2
        client.schedules.remove(saved.id)
        with pytest.raises(NotFound):
            client.schedules.get(saved.id)


def test_a_schedule_may_have_its_work_delivered(tmp_path: Path) -> None:
    address = "https://git.example.org/team/shop"
    settings = ServiceSettings(
        data_dir=tmp_path,
        workspaces=WorkspaceSettings(git=(GitRemote(address=address),)),
        forges={"hub": Forge(kind="gitea", address="https://git.example.org", token_env="HUB_TOKEN")},
    )
    store = temporary_store()
    with Served(store, tmp_path, settings=settings) as served:

        def add(*words: str) -> Result:
            said = ("schedules", "add", *NIGHTLY, "--workspace", address, "--json", *words)
            return CliRunner().invoke(app, said, env={"MCC_URL": served.url, "MCC_TOKEN": TOKEN})

        refused = add("--branch", "mcc/x")
        assert refused.exit_code == 2 and "--push" in refused.stderr
        saved = add("--pull-request", "--close", "7")
        assert saved.exit_code == 0, saved.output
        assert json.loads(saved.stdout)["order"]["deliver"] == {"push": True, "pull_request": True, "close": 7}
    store.close()
