"""The worked examples from end to end: recorded deliveries come in, and their answers stand where they were asked."""

import json
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcc.client import MCC
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.local.family import Family
from mcc.local.programs import Staff
from mcc.settings import load
from tests.docs.shop import HOST, Shop, opened_shop
from tests.docs.test_triggers_of_the_examples import HOW_TO, TOML, merged, recorded
from tests.drone.delivery.forge import TOKEN, FakeForge, fake_forge
from tests.forking.popen import family_of_forks
from tests.mcc.triggers.signing import SECRET, gitea, github, slack
from tests.mcc.webhooks.chats import SLACK_TOKEN, FakeSlack, serving
from tests.waiting import until

pytestmark = pytest.mark.group("worked examples")

MARK = "<!-- mcc-reply:"
OTHER_FORGES = "## Other forges"


def edit(old: str, new: str) -> Mapping[str, Any]:
    return {"name": "edit_file", "arguments": {"path": "totals.py", "old": old, "new": new}}


SCRIPT: Sequence[Mapping[str, Any]] = [
    {
        "match": "the changelog as well",
        "replies": [{"tool_calls": [edit("rows)\n", "rows)  # all of them\n")]}, {"text": "It is said now."}],
    },
    {
        "match": "off by one",
        "replies": [{"tool_calls": [edit("rows[:-1]", "rows")]}, {"text": "The last row is counted now."}],
    },
    {"match": "This (run|pipeline) failed", "replies": [{"text": "The sum leaves out the last row."}]},
    {"match": "Where is the total", "replies": [{"text": "In totals.py, by <sum>."}]},
]


@dataclass
class Office:
    """A family that has the tables of both pages. `hub`, `lab`: its forges; `chat`: what it says in the chat."""

    shop: Shop
    mcc: MCC
    lab: FakeForge
    chat: FakeSlack

    @property
    def hub(self) -> FakeForge:
        return self.shop.forge

    def deliver(self, path: str, body: str, headers: Mapping[str, str]) -> Mapping[str, Any]:
        """What the service answers to this delivery."""
        request = urllib.request.Request(f"{self.mcc.url}/hooks/{path}", body.encode(), dict(headers))
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            return dict(json.loads(response.read() or b"{}"))

    def from_hub(self, path: str, event: str, change: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Deliver what was recorded at the hub, changed so."""
        body = json.dumps(merged(json.loads(recorded(path)), change or {}))
        return self.deliver(path, body, github(body.encode(), event, delivery=f"{path} {change}"))

    def ended(self, answer: Mapping[str, Any]) -> WorkOrder:
        assert answer["verdict"] == "placed", answer
        for _ in self.mcc.orders.watch(answer["order_id"]):
            pass
        order = self.mcc.orders.get(answer["order_id"])
        assert order.status is OrderStatus.SUCCEEDED, order
        return order


def comment(forge: FakeForge, thread: str, order: WorkOrder) -> str:
    """The comment about this order, once it is there; there is one."""
    mark = f"{MARK}{order.id} -->"
    until(lambda: any(said["body"].startswith(mark) for said in forge.threads[thread]), f"a comment on {thread}")
    (text,) = [said["body"] for said in forge.threads[thread] if said["body"].startswith(mark)]
    return str(text)


def tables(shop: Shop, lab: FakeForge, chat: FakeSlack) -> str:
    """The tables of both pages, for the addresses of this test."""
    first = (HOW_TO / "from-issue-to-pull-request.md").read_text("utf-8").partition(OTHER_FORGES)[0]
    blocks = TOML.findall(first) + TOML.findall((HOW_TO / "answer-where-asked.md").read_text("utf-8"))
    text = "\n".join(block for block in blocks if not block.startswith("[mcc]"))
    for theirs, ours in (
        ('kind = "github"\n', f'kind = "github"\n{shop.forge_lines}'),
        ('kind = "gitlab"\n', f'kind = "gitlab"\naddress = "{shop.address}/lab"\napi = "{lab.api}"\n'),
        ("[slack.team]\n", f'[slack.team]\napi = "{chat.address}"\n'),
        ("https://github.com", shop.address),
        ("https://gitlab.com", shop.address),
    ):
        text = text.replace(theirs, ours)
    return text


@contextmanager
def started(shop: Shop, text: str) -> Iterator[MCC]:
    """A family with these tables; all forges have one token, and all senders one secret."""
    shop.configure(text, SCRIPT)
    environment = {
        **shop.environment,
        **dict.fromkeys(("HUB_TOKEN", "LAB_TOKEN"), TOKEN),
        "TEAM_BOT_TOKEN": SLACK_TOKEN,
        **dict.fromkeys(re.findall(r'secret_env = \["(\w+)"\]', text), SECRET),
    }
    settings = load(environment, directory=shop.home, host=HOST, port=0)
    family = Family(settings, Staff(drones=1, slots=4, flower=False), environment=environment)
    with family_of_forks(family), MCC(family.url, token=family.token) as mcc:
        yield mcc


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with ExitStack() as stack:
        shop = stack.enter_context(opened_shop(tmp_path_factory.mktemp("office")))
        shop.served.git("branch", "bolder-totals", "main")
        lab = stack.enter_context(fake_forge("gitlab", shop.served.root.parent.parent))
        chat = FakeSlack()
        stack.enter_context(serving(chat))
        mcc = stack.enter_context(started(shop, tables(shop, lab, chat)))
        shop.forge.threads |= {"issues/7": [], "issues/1": [], "issues/12": []}
        lab.threads["merge_requests/3"] = []
        yield Office(shop, mcc, lab, chat)


def test_an_issue_becomes_a_request_and_a_comment_on_it_the_next_turn(office: Office) -> None:
    assert (
        office.from_hub("github/issues", "issues", {"issue": {"author_association": "NONE"}})["verdict"] == "no_match"
    )
    first = office.ended(office.from_hub("github/issues", "issues"))
    assert first.delivery is not None and first.delivery.request is not None
    number, branch = first.delivery.request.number, office.shop.branch()
    assert (number, office.hub.requests[number]["head"]) == (1, branch)
    said = comment(office.hub, "issues/7", first)
    assert "The last row is counted now." in said and first.delivery.request.url in said

    stranger = {"comment": {"author_association": "NONE"}}
    assert office.from_hub("github/comments", "issue_comment", stranger)["verdict"] == "no_match"
    second = office.ended(office.from_hub("github/comments", "issue_comment"))
    assert (second.session_id, second.session_seq) == (first.session_id, 2)
    assert "It is said now." in comment(office.hub, f"issues/{number}", second)
    assert "# all of them" in office.shop.served.git("show", f"{branch}:totals.py")
    assert office.shop.served.git("rev-list", "--count", branch, "^main") == "2"
    assert list(office.hub.requests) == [number] and office.shop.branch() == branch

    ours = {"comment": {"body": said, "author_association": "OWNER"}}
    assert office.from_hub("github/comments", "issue_comment", ours)["verdict"] == "own"


def test_a_run_that_failed_is_explained_on_its_request(office: Office) -> None:
    order = office.ended(office.from_hub("github/runs", "workflow_run"))
    assert "The sum leaves out the last row." in comment(office.hub, "issues/12", order)
    assert order.mode == "plan" and order.delivery is None


def test_a_pipeline_that_failed_is_explained_on_its_merge_request(office: Office) -> None:
    headers = {"X-Gitlab-Token": SECRET, "X-Gitlab-Event": "Pipeline Hook", "Content-Type": "application/json"}
    order = office.ended(office.deliver("gitlab/pipelines", recorded("gitlab/pipelines"), headers))
    assert "The sum leaves out the last row." in comment(office.lab, "merge_requests/3", order)


@pytest.mark.parametrize(
    ("path", "kind", "thread"),
    [
        ("slack/mentions", "application/json", "1800000000.000100"),
        ("slack/commands", "application/x-www-form-urlencoded", None),
    ],
)
def test_a_question_in_a_chat_is_answered_there(office: Office, path: str, kind: str, thread: str | None) -> None:
    before = len(office.chat.messages)
    body = recorded(path)
    assert office.deliver(path, body, slack(body.encode(), int(time.time()), kind)) == {}
    until(lambda: len(office.chat.messages) > before, "a message")
    message = office.chat.messages[-1]
    assert message["thread_ts"] == thread
    assert "In totals.py, by &lt;sum&gt;." in message["text"]


@pytest.mark.parametrize(("kind", "theirs"), [("gitlab", "https://gitlab.com"), ("gitea", "https://git.example.org")])
def test_an_issue_at_another_forge_becomes_a_request_there(tmp_path: Path, kind: str, theirs: str) -> None:
    page = (HOW_TO / "from-issue-to-pull-request.md").read_text("utf-8")
    first, others = (TOML.findall(part) for part in page.split(OTHER_FORGES))
    (block,) = (each for each in others if f'kind = "{kind}"' in each)
    with opened_shop(tmp_path, kind) as shop:
        shop.forge.threads["issues/7"] = []
        text = first[0].partition("[forges.hub]")[0].replace("https://github.com", shop.address)
        text += block.replace(theirs, shop.address)
        lines = shop.forge_lines if kind == "gitlab" else f'api = "{shop.forge.api}"\n'
        text = re.sub(rf'^kind = "{kind}".*\n', f'kind = "{kind}"\n{lines}', text, flags=re.MULTILINE)
        body = recorded(f"{kind}/issues")
        with started(shop, text) as mcc:
            desk = Office(shop, mcc, shop.forge, FakeSlack())
            token = {"X-Gitlab-Token": SECRET, "X-Gitlab-Event": "Issue Hook"}
            headers = token if kind == "gitlab" else gitea(body.encode())
            order = desk.ended(desk.deliver(f"{kind}/issues", body, {**headers, "Content-Type": "application/json"}))
            assert [request["head"] for request in shop.forge.requests.values()] == [shop.branch()]
            assert "The last row is counted now." in comment(shop.forge, "issues/7", order)
