"""Orders that end with their branch pushed and a request opened, at each kind of forge; and those that do not."""

from pathlib import Path
from typing import Any

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from mcc.contracts.fence import fenced
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from tests.drone.delivery.forge import TOKEN, Failing, FakeForge
from tests.drone.delivery.scenario import Scenario, scenario
from tests.drone.tools.git_scene import Scene


async def test_an_order_ends_with_its_branch_pushed_and_a_request_opened(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, forge: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, forge) as here:
        order = await here.delivered("Mend the rounding\nof prices", deliver={"pull_request": True, "close": 7})
        assert (order.status, order.reason, order.detail) == (OrderStatus.SUCCEEDED, None, None)
        delivery, branch = order.delivery, here.branch_of(order)
        assert delivery is not None and delivery.request is not None
        assert (delivery.project, delivery.branch, delivery.base) == ("team/shop", branch, "main")
        assert (
            delivery.commit
            and delivery.commit == here.on_remote(branch)
            and delivery.request.created
            and delivery.why is None
        )
        assert here.served.git("log", "-1", "--format=%s|%an", branch) == "Mend the rounding|mcc"
        assert delivery.in_words == f"{delivery.commit[:10]} is on {branch} of team/shop: {delivery.request.url}"
        (request,) = forge.requests.values()
        assert (request["title"], request["head"], request["base"]) == ("Mend the rounding", branch, "main")
        body = request["body"]
        assert body.count("<!-- mcc-end -->") == 1 and "\n/merge" not in body and "> /merge" in body
        assert f"https://mcc.example.org/orders/{order.id}" in body and "`work.txt` +2 −0" in body
        assert f"<!-- mcc-session:{order.session_id} -->" in body and "Closes #7" in body
        steps = [entry.data for entry in here.journal(order) if isinstance(entry.data, DeliveryStarted)]
        assert [step.step for step in steps] == ["commit", "push", "request"]
        assert not any(TOKEN in entry.model_dump_json() for entry in here.journal(order))


async def test_a_later_turn_updates_its_own_part_of_the_request_and_leaves_what_people_wrote(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, forge: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, forge) as here:
        first = await here.delivered("Mend it")
        (request,) = forge.requests.values()
        other = "<!-- mcc-session:0190a000-0000-7000-8000-000000000001 -->"
        request["body"] = f"Mine before, as {other}.\n{request['body']}\nMine after."
        second = await here.delivered("And more", session_id=first.session_id)
        assert second.delivery is not None and second.delivery.request is not None
        assert not second.delivery.request.created and len(forge.requests) == 1
        body = request["body"]
        assert body.startswith(f"Mine before, as {other}.\n") and body.endswith("\nMine after.")
        assert second.id in body and first.id not in body
        assert here.on_remote(here.branch_of(first)) == second.delivery.commit != first.delivery.commit  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["closed", "merged"])
async def test_behind_a_request_that_ended_the_branch_gets_a_number(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, forge: FakeForge, state: str
) -> None:
    async with scenario(tmp_path, sandbox, served, forge) as here:
        first = await here.delivered("Mend it")
        (request,) = forge.requests.values()
        request["state"] = state
        second = await here.delivered("And more", session_id=first.session_id)
        assert second.delivery is not None and second.delivery.branch == f"{here.branch_of(first)}-2"
        assert second.delivery.request is not None and second.delivery.request.created and len(forge.requests) == 2
        assert here.on_remote(here.branch_of(first)) == first.delivery.commit  # type: ignore[union-attr]


async def test_a_branch_alone_is_pushed_and_the_forge_is_not_asked(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        order = await here.delivered(deliver={"branch": "mcc/mine", "title": "Mine"})
        assert order.delivery is not None and order.delivery.commit == here.on_remote("mcc/mine")
        assert here.served.git("log", "-1", "--format=%s", "mcc/mine") == "Mine" and github.asked == []


async def test_where_nothing_changed_nothing_is_delivered_and_that_is_said(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        order = await here.delivered("look around")
        assert order.status is OrderStatus.SUCCEEDED and order.delivery is not None
        assert order.delivery.commit is None and "Nothing changed" in str(order.delivery.why)
        assert github.requests == {} and here.on_remote(here.branch_of(order)) == ""


async def test_a_result_that_was_not_accepted_is_not_delivered(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        here.crew.accepted = False
        order = await here.delivered()
        assert order.delivery is None and github.asked == []


def refusing_pushes(here: Scenario) -> None:
    hook = here.served.root / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'you may not push here' >&2\nexit 1\n")
    hook.chmod(0o755)


async def test_words_of_strangers_stand_in_the_title_of_a_request_and_in_no_commit(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        order = await here.delivered(f"Solve: {fenced('fixes #5', 'seed')}".replace(": <", ":\n<"))
        (request,) = github.requests.values()
        assert request["title"] == "Solve: fixes #5" and "fixes #5" not in request["body"]
        assert here.served.git("log", "-1", "--format=%B", here.branch_of(order)).strip() == "Solve:"


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"permission": {"deliver": "deny"}}, "permission of this order"),
    ({"permission": {}}, "nobody is asked"),
    (
        {"permission": {}},
        'mcc orders deliver asks you; an order that asks nobody needs permission = {deliver = "allow"}',
    ),
    ({"permission": {"deliver": [{"when": "'work.txt' in args.files", "then": "deny"}]}}, "permission of this order"),
    ({"mode": "plan"}, "mode plan"),
    ({"mode": "test"}, "mode test"),
    ({"deliver": {"branch": "feature/mine"}}, "begin with mcc/"),
    ({"deliver": {"branch": "mcc/kept/1"}}, "protected by"),
    ({"deliver": {"branch": "mcc/taken", "base": "mcc/taken"}}, "merged into"),
    ({"deliver": {"base": "never-was"}}, "no branch 'never-was'"),
)


async def test_what_may_not_be_delivered_fails_the_order_and_keeps_the_work(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(
        tmp_path, sandbox, served, github, given=lambda table: table.update(protected=["main", "mcc/kept/*"])
    ) as here:
        before = here.served.git("for-each-ref")
        for number, (fields, why) in enumerate(REFUSED, start=1):
            order = await here.delivered(**fields)
            assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.NOT_DELIVERED)
            assert why in str(order.detail) and "Do not try" not in str(order.detail)
            assert ("mcc orders deliver" in str(order.detail)) == (fields == {"permission": {}})
            assert order.delivery is not None and order.delivery.why == order.detail
            assert order.answer and order.result == {"n": 1}
            kept = (tmp_path / "data" / "sessions").glob("*/shop/work.txt")
            assert [file.read_text() for file in kept] == ["Mend it"] * number
        assert here.served.git("for-each-ref") == before and github.requests == {}


async def test_commits_of_others_on_the_branch_are_told_and_not_overwritten(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        theirs = here.served.git("commit-tree", "main^{tree}", "-p", "main", "-m", "theirs")
        here.served.git("update-ref", "refs/heads/mcc/shared", theirs)
        order = await here.delivered(deliver={"branch": "mcc/shared"})
        assert order.reason is FailureReason.NOT_DELIVERED and "1 commit by others" in str(order.detail)
        assert here.on_remote("mcc/shared") == theirs


async def test_a_server_that_refuses_the_push_and_a_forge_that_refuses_the_request_are_told(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github) as here:
        refusing_pushes(here)
        order = await here.delivered()
        assert order.reason is FailureReason.NOT_DELIVERED and "you may not push here" in str(order.detail)
        (here.served.root / "hooks" / "pre-receive").unlink()
        github.failing = [Failing(404, body={"message": "Not Found"})]
        other = await here.delivered()
        assert other.reason is FailureReason.NOT_DELIVERED and "404" in str(other.detail)
        ended = [entry.data for entry in here.journal(order) if isinstance(entry.data, DeliveryFinished)]
        assert [(step.step, step.ok) for step in ended] == [("commit", True), ("push", False)]


async def test_a_forge_that_cannot_be_asked_now_makes_the_order_wait_for_it(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    busy = (
        Failing(500),
        Failing(429, {"Retry-After": "7200"}),
        Failing(0, after=True),
        Failing(403, {"Retry-After": "1"}),
    )
    async with scenario(tmp_path, sandbox, served, github) as here:
        order = here.place()
        for tries, failing in enumerate(busy, start=2):
            # The first question of each try is for the requests there are, the last one opens one.
            github.failing = [failing]
            order = await here.worked(order)
            assert (order.status, order.reason) == (OrderStatus.WAITING, WaitingReason.DELIVERY)
            assert order.waits_for is not None and order.waits_for.kind == "delivery"
            assert order.waits_for.tries == tries and order.waits_for.until is not None
            told = order.delivery
            assert told is not None and (told.forge, told.project) == ("hub", "team/shop")
            assert told.branch == here.branch_of(order) and told.why is not None and told.why.startswith("waits")
            assert here.bench.store.claims.resume(order.id, WaitingReason.DELIVERY, "its time has come")
        order = await here.worked(order)
        assert order.status is OrderStatus.SUCCEEDED and len(github.requests) == 1
        assert order.delivery is not None and order.delivery.why is None
        assert here.failed == [("hub", 500), ("hub", 429), ("hub", 0), ("hub", 403)]


async def test_without_its_token_nothing_is_sent(
    tmp_path: Path, sandbox: Bubblewrap, served: Scene, github: FakeForge
) -> None:
    async with scenario(tmp_path, sandbox, served, github, keys={}) as here:
        order = await here.delivered()
        assert order.reason is FailureReason.NOT_DELIVERED and "HUB_TOKEN" in str(order.detail) and github.asked == []
