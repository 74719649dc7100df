"""`mcc triggers`: listed, their deliveries, and a table tried on a delivery in files; both clients read the same."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.client import MCC, AsyncMCC
from mcc.client.errors import NotFound
from mcc.settings import ServiceSettings
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner
from tests.mcc.triggers.signing import SECRET, github

TABLE = {
    "path": "a/b",
    "scheme": "github",
    "secret_env": ["A"],
    "when": "event == 'issues'",
    "session": "{payload.n}",
    "order": {"prompt": "Solve {payload.title}"},
    "reply": {"forge": "hub", "project": "team/shop", "number": "{payload.n}"},
}
HUB = {"kind": "github", "token_env": "HUB_TOKEN"}
FILE = """[triggers.issues]
path = "a/b"
scheme = "github"
secret_env = ["A"]
when = "event == 'issues'"
session = "{payload.n}"
order = {prompt = "Solve {payload.title}"}
reply = {forge = "hub", project = "team/shop", number = "{payload.n}"}

[forges.hub]
kind = "github"
token_env = "HUB_TOKEN"
"""
BODY = b'{"n": 7, "title": "Broken"}'


class Hooked(Served):
    trigger_secrets = MappingProxyType({"issues": (SECRET,)})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = temporary_store()
    settings = ServiceSettings.model_validate(
        {"data_dir": tmp_path, "triggers": {"issues": TABLE}, "forges": {"hub": HUB}}
    )
    with Hooked(store, tmp_path, settings=settings) as served:
        yield served
    store.close()


@pytest.fixture
def mcc(served: Served) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ("triggers", *words), env={"MCC_URL": served.url, "MCC_TOKEN": TOKEN})

    return run


async def test_triggers_and_their_deliveries_are_listed(mcc: Callable[..., Result], served: Served) -> None:
    assert "None yet." in mcc("deliveries", "issues").stdout
    async with httpx.AsyncClient() as sender:
        placed = await sender.post(f"{served.url}/hooks/a/b", content=BODY, headers=github(BODY))
    assert placed.status_code == 202, placed.text
    assert "/hooks/a/b" in mcc().stdout and "placed" in mcc("list").stdout
    assert "forge=hub project=team/shop number={payload.n}" in mcc().stdout
    (shown,) = json.loads(mcc("deliveries", "issues", "--json").stdout)["items"]
    assert shown["order_id"] == placed.json()["order_id"] and "id:d-1" in mcc("deliveries", "issues").stdout
    assert mcc("deliveries", "isues").exit_code != 0
    with MCC(served.url, token=TOKEN) as client:
        (trigger,) = client.triggers.list()
        assert trigger.last == client.triggers.deliveries("issues").items[0]
        with pytest.raises(NotFound):
            client.triggers.deliveries("isues")
    async with AsyncMCC(served.url, token=TOKEN) as waiting:
        assert [each.name for each in await waiting.triggers.list()] == ["issues"]


def test_a_table_is_tried_and_places_nothing(tmp_path: Path) -> None:
    (tmp_path / "mcc.toml").write_text(FILE)
    headers, payload = tmp_path / "headers.txt", tmp_path / "payload.json"
    headers.write_text("X-GitHub-Event: issues\n\nX-GitHub-Delivery: d-1\n")
    payload.write_bytes(BODY)

    def tried(name: str = "issues", *words: str) -> Result:
        asked = ("triggers", "try", name, "--headers", str(headers), "--payload", str(payload), *words)
        return CliRunner().invoke(app, asked, env={"MCC_CONFIG": str(tmp_path / "mcc.toml")})

    told = json.loads(tried("issues", "--json", "--data-dir", str(tmp_path / "data")).stdout)
    assert (told["outcome"], told["session"], told["id"]) == ("order", "7", "d-1")
    assert "\nBroken\n" in told["order"]["prompt"]
    assert told["reply"] == {"forge": "hub", "project": "team/shop", "number": 7}
    assert '"number":7' in tried().stdout
    headers.write_text("X-GitHub-Event: push\n")
    assert "when does not hold" in tried().stdout
    assert "did you mean" in tried("isues").output
    headers.write_text("nothing\n")
    assert "Line 1 of the headers" in tried().output
