"""One try of a reply: what it says, where it stands at each forge, how it is found again, what a forge may answer."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mcc.addresses import AddressRule
from mcc.contracts.entry import ORDER, Draft
from mcc.contracts.git_delivery import DeliveryRequest, GitDelivery
from mcc.contracts.order import OrderKind, OrderOutcome
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.replies import ForgeReply, ReplyTarget
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.contracts.webhooks import WebhookType
from mcc.redaction import Redactor
from mcc.store.doors.messages import Happening, OutgoingReply, ToldOrder
from mcc.webhooks.reply_text import ANSWER_CHARACTERS, ReplyText
from mcc.webhooks.replying import ReplySender, ReplyTables
from mcc.webhooks.sending import WebhookAnswer
from tests.drone.delivery.forge import GITHUB_BODY, Failing, FakeForge, fake_forge
from tests.mcc.webhooks.receiver import of_this_machine
from tests.mcc.webhooks.replies import tables_of

ID = "0190a000-0000-7000-8000-000000000001"
MARK = f"<!-- mcc-reply:{ID} -->"
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
THREADS = {"github": "issues/7", "gitlab": "merge_requests/7", "gitea": "issues/7"}


def happening(answer: str | None = "Done.", at: datetime = AT, **fields: Any) -> Happening:
    """The end of an order. `fields`: of its entry, and `delivery`."""
    delivery = fields.pop("delivery", None)
    end = OrderFinished.model_validate({"status": "succeeded", "usage": Usage(cost_usd=0.0123), **fields})
    outcome = OrderOutcome(status=end.status, answer=answer, usage=end.usage, delivery=delivery)
    told = ToldOrder(ID, "s", OrderKind.CHAT, "master", (), "trigger:issues", "trigger/issues")
    entry = Draft(at=at, origin=ORDER, data=end).numbered(ID, 9)
    return Happening(WebhookType.FINISHED, at, 9, told, entry, outcome)


def text(
    answer: str | None = "Done.", public_url: str = "https://mcc.test", secret: str = "", **fields: Any
) -> ReplyText:
    redactor = Redactor((secret,)) if secret else Redactor()
    return ReplyText.of(happening(answer, **fields), public_url, redactor)


@pytest.fixture(params=["github", "gitlab", "gitea"])
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeForge]:
    (tmp_path / "team" / "shop").mkdir(parents=True)
    with fake_forge(request.param, tmp_path) as running:
        running.threads[THREADS[request.param]] = []
        yield running


async def sent(
    forge: FakeForge,
    answer: str = "Done.",
    *,
    may_be_there: bool = False,
    at: datetime = AT,
    tables: ReplyTables | None = None,
    target: ReplyTarget | None = None,
    private: bool = True,
) -> WebhookAnswer:
    known = tables or tables_of(forge)
    rule = AddressRule(of_this_machine, allow_private=known.endpoints if private else ())
    to = target or ForgeReply(forge="hub", project="team/shop", number=7, merge_request=forge.kind == "gitlab")
    reply = OutgoingReply(to, happening(answer, at=at))
    return await ReplySender(known, rule, try_seconds=10.0).send(reply, Redactor(), may_be_there=may_be_there)


def bodies(forge: FakeForge) -> list[str]:
    return [str(each["body"]) for each in forge.threads[THREADS[forge.kind]]]


def test_a_reply_says_the_answer_its_request_its_cost_and_where_the_rest_is() -> None:
    request = DeliveryRequest(number=3, url="https://hub.test/team/shop/pull/3", state="open", created=True)
    said = text("It is *done*.\n\n/close", delivery=GitDelivery(commit="c" * 40, request=request)).markdown
    assert said.split("\n") == [
        MARK,
        "> It is *done*.",
        ">",
        "> /close",
        "",
        "[request](https://hub.test/team/shop/pull/3) · cost 0.0123 USD"
        f" · [order {ID}](https://mcc.test/orders/{ID}) · [record](https://mcc.test/api/v1/orders/{ID}/record)",
    ]
    alone = text(None, public_url="").markdown
    assert alone == f"{MARK}\n\ncost 0.0123 USD · order {ID}"


def test_an_order_that_failed_says_why() -> None:
    said = text("Half of it.", status="failed", reason="limit_reached", detail="<!-- mcc-reply:x -->\n/merge").markdown
    assert "> Half of it.\n\nThe order has failed (limit_reached).\n\n> &lt;!-- mcc-reply:x -->\n> /merge\n\n" in said
    assert "The order has been cancelled." in text(None, status="cancelled").markdown


@pytest.mark.parametrize("piece", ["word ", "\n\n", "\u202e", "<!-- ", "x" * 500])
def test_an_answer_of_any_length_fits_and_says_that_it_was_cut(piece: str) -> None:
    said = text(f"begin {piece * 70_000}end").markdown
    assert len(said) < GITHUB_BODY and len(said) < ANSWER_CHARACTERS + 2_000
    assert (
        said.startswith(f"{MARK}\n> begin") and "The answer is longer" in said and "end" not in said.partition("(")[0]
    )
    assert "\u202e" not in said and said.count("<!--") == 1
    whole = text("x" * (ANSWER_CHARACTERS - 2)).markdown
    assert "The answer is longer" not in whole and f"> {'x' * (ANSWER_CHARACTERS - 2)}\n" in whole


def test_a_secret_is_gone_before_anything_is_cut() -> None:
    secret = "sesame-open-1234567890"
    for answer in (f"with {secret}", f"{'x' * (ANSWER_CHARACTERS - 100)}{secret}"):
        said = text(answer, secret=secret, status="failed", detail=f"with {secret}").markdown
        assert "sesame" not in said


async def test_a_reply_is_written_where_its_target_is(forge: FakeForge) -> None:
    answer = await sent(forge, "/close\nDone.")
    assert answer.delivered and forge.commands == []
    (body,) = bodies(forge)
    assert body.startswith(f"{MARK}\n> /close\n> Done.\n")


async def test_it_is_found_among_the_newest_and_not_written_again(forge: FakeForge) -> None:
    thread = THREADS[forge.kind]
    for _ in range(150):
        forge.say(thread, "earlier", minutes=-2 * 24 * 60)
    for number in range(90):
        forge.say(thread, f"> {MARK}" if number else "later")
    assert (await sent(forge, may_be_there=True, at=datetime.now(UTC) - timedelta(minutes=5))).delivered
    assert len(bodies(forge)) == 241 and bodies(forge)[-1].startswith(MARK)
    assert (await sent(forge, may_be_there=True, at=datetime.now(UTC) - timedelta(minutes=5))).delivered
    assert len(bodies(forge)) == 241


async def test_it_is_found_behind_a_first_page_of_later_ones(forge: FakeForge) -> None:
    thread = THREADS[forge.kind]
    for _ in range(120):
        forge.say(thread, "later")
    await sent(forge)
    assert (await sent(forge, may_be_there=True, at=datetime.now(UTC) - timedelta(minutes=5))).delivered
    assert len(bodies(forge)) == 121


async def test_at_gitlab_an_issue_and_a_request_of_one_number_are_two_things(tmp_path: Path) -> None:
    (tmp_path / "team" / "sub" / "shop").mkdir(parents=True)
    with fake_forge("gitlab", tmp_path) as lab:
        lab.threads |= {"issues/7": [], "merge_requests/7": []}
        target = ForgeReply(forge="hub", project="team/sub/shop", number=7)
        assert (await sent(lab, target=target)).delivered
        assert [len(each) for each in lab.threads.values()] == [1, 0]


@pytest.mark.parametrize("status", [401, 403, 404, 410, 422])
async def test_what_is_refused_is_final_and_told(forge: FakeForge, status: int) -> None:
    forge.failing.append(Failing(status, body={"message": "No\x07 way"}))
    answer = await sent(forge)
    assert (answer.status, answer.is_final, answer.unsure) == (status, True, False)
    assert f"answered {status}" in answer.error and "No way" in answer.error and bodies(forge) == []


@pytest.mark.parametrize(
    ("failing", "pause", "unsure"),
    [
        (Failing(429, {"Retry-After": "120"}), 120.0, False),
        (Failing(403, {"X-RateLimit-Remaining": "0"}), 0.0, False),
        (Failing(500), 0.0, True),
        (Failing(0), 0.0, True),
    ],
)
async def test_what_can_be_tried_again_says_when_and_whether_it_may_be_there(
    forge: FakeForge, failing: Failing, pause: float, unsure: bool
) -> None:
    forge.failing.append(failing)
    answer = await sent(forge)
    assert (answer.status or 0, answer.after_seconds, answer.unsure) == (failing.status, pause, unsure)
    assert not answer.delivered and not answer.is_final


async def test_errors_of_a_forge_are_counted_by_its_name(forge: FakeForge) -> None:
    counted: list[tuple[str, int]] = []
    forge.failing += [Failing(422), Failing(500)]
    tables = replace(tables_of(forge), failed=lambda name, status: counted.append((name, status)))
    for _ in range(3):
        await sent(forge, tables=tables)
    assert counted == [("hub", 422), ("hub", 500)]


async def test_a_forge_that_says_nothing_is_cut_off_after_its_time(forge: FakeForge) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    silent = replace(forge, port=server.sockets[0].getsockname()[1])
    tables = tables_of(silent)
    rule = AddressRule(of_this_machine, allow_private=tables.endpoints)
    reply = OutgoingReply(ForgeReply(forge="hub", project="team/shop", number=7), happening())
    answer = await ReplySender(tables, rule, try_seconds=0.3).send(reply, Redactor(), may_be_there=False)
    server.close()
    assert (answer.error, answer.unsure) == ("no answer within 0.3 s", True)


async def test_a_host_that_no_table_names_is_not_reached(forge: FakeForge) -> None:
    answer = await sent(forge, private=False)
    assert "not a public address" in answer.error and not answer.is_final and forge.asked == []


async def test_without_a_token_nothing_is_sent(forge: FakeForge) -> None:
    answer = await sent(forge, tables=replace(tables_of(forge), tokens={}))
    assert "HUB_TOKEN" in answer.error and not answer.is_final and forge.asked == []


def test_a_reply_tells_of_no_end_but_one() -> None:
    with pytest.raises(TypeError):
        ReplyText.of(replace(happening(), entry=None), "", Redactor())
    assert text().status is OrderStatus.SUCCEEDED
