"""Orders in every state that the page draws, written by a drone that the test drives by hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid5

from playwright.sync_api import Page

from mcc.api.access.credentials import digest_of
from mcc.contracts.blocks import TextBlock
from mcc.contracts.callers import AccessScope, Actor, Role
from mcc.contracts.documents import RuleError
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked, ShownPreview
from mcc.contracts.journal import AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.people import NewApiToken, NewPerson
from mcc.contracts.permission import SavedRule, Why
from mcc.contracts.record import ModelChoice
from mcc.contracts.shape import now
from mcc.contracts.token_text import new_token
from mcc.contracts.usage import Usage
from mcc.documents.blueprint import Blueprint
from mcc.documents.briefs import brief_of
from mcc.documents.change import Author
from mcc.documents.commands import RunFailure, Settle, commands_of
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder

COMMAND = "git\u00a0push \u202eylno tset a\u202c\x1b[2K"
"""A command with a space that is none, marks that turn the reading direction, and an escape of terminals."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Ids of orders: one done with a subagent, one that runs and asks, one queued."""

    done: str
    asking: str
    queued: str
    held: HeldOrder


def place(store: Store, prompt: str, who: str = "operator") -> str:
    placed = store.orders.place(NewOrder(prompt=prompt, labels=("docs",)), by=Actor(who, "page"), on_ask="wait")
    return placed.order.id


def add_person(store: Store, name: str, role: Role) -> str:
    """The principal of a new person."""
    return store.people.add(NewPerson(name=name, role=role), by=Actor("operator")).principal


def add_token(store: Store, name: str) -> None:
    secret = new_token("personal")
    new = NewApiToken(name=name, scopes=(AccessScope.READ,))
    store.tokens.make(secret, digest_of(secret), new, by=Actor("operator"))


def say(held: HeldOrder, text: str, origin: Origin | None = None, at_round: int = 1) -> None:
    """A reply of the model."""
    held.write(
        ModelStarted(round=at_round, attempt=1, model="offline"),
        ModelReplied(
            round=at_round,
            attempt=1,
            model="offline",
            blocks=(TextBlock(text=text),),
            finish_reason="stop",
            usage=Usage(input_tokens=1_200, output_tokens=80, model_calls=1),
            first_token_ms=120.0,
        ),
        origin=origin,
    )


def call(held: HeldOrder, call_id: str, name: str, arguments: dict[str, object], content: str = "done") -> None:
    held.write(
        ToolStarted(call_id=call_id, round=1, index=0, name=name, arguments=arguments, idempotent=True),
        ToolFinished(call_id=call_id, name=name, content=content, is_error=False, seconds=0.2),
    )


def child(held: HeldOrder, call_id: str, agent: str) -> Origin:
    """Whose entries those of the subagent are that this call of the master hired."""
    record_id = str(uuid5(UUID(held.id), f"{call_id}-{agent}"))
    return Origin(record_id=record_id, parent_id=held.master.record_id, agent=agent, depth=1)


def child_of(held: HeldOrder, call_id: str, agent: str, title: str) -> Origin:
    """A started subagent."""
    origin = child(held, call_id, agent)
    held.write(
        AgentStarted(
            title=title,
            call_id=call_id,
            prompt=title,
            model=ModelChoice(requested="offline", effective="offline"),
            tools=(),
            limits=LimitChoice(),
            definition_digest="",
            setup_digest="",
        ),
        origin=origin,
    )
    return origin


def ask(held: HeldOrder, approval_id: str, command: str = COMMAND) -> None:
    held.write(
        ApprovalRequested(
            approval_id=approval_id,
            call_id=f"call-{approval_id}",
            tool="run_shell",
            arguments={"command": command},
            effects="execute",
            digest=f"digest-{approval_id}",
            preview=ShownPreview(kind="text", text=command),
            why=Why(layer="operator", key="run_shell"),
            would_save=SavedRule(key="run_shell", when='args.command.startsWith("git")'),
        )
    )


def question(held: HeldOrder, question_id: str) -> None:
    held.write(
        QuestionAsked(
            question_id=question_id,
            call_id=f"call-{question_id}",
            question="Which changelog is the public one?",
            choices=("CHANGELOG.md", "docs/changes.md"),
            default="CHANGELOG.md",
        )
    )


def seed(store: Store) -> Seeded:
    drone = HandDrone(store)
    done = drone.claim(place(store, "Explain this repository"))
    done.start()
    say(done, "I look at it **from two sides**.")
    for number in range(3):
        call(done, f"read-{number}", "read_file", {"path": f"file-{number}.md"})
    done.write(ToolStarted(call_id="hire", round=1, index=0, name="subagents_run", arguments={}, idempotent=False))
    scout = child_of(done, "hire", "scout", "Structure and entry points")
    say(done, "There is one entry point.", scout)
    done.write(ToolFinished(call_id="hire", name="subagents_run", content="reported", is_error=False))
    say(done, "It counts ducks.", at_round=2)
    done.finish("It counts ducks.")
    asking = drone.claim(place(store, "Mend the failing tests of roman"))
    asking.start()
    ask(asking, "approval-1")
    question(asking, "question-1")
    return Seeded(done.id, asking.id, place(store, "Translate the how-to pages"), asking)


GARDEN = """
blueprint: garden
root: garden
components:
  garden:
    metadata:
      place: {type: text, required: true}
    properties:
      title: {type: text, required: true}
    children:
      bed: {min: 1, max: 5}
    describe: A garden in {metadata.place}.
  bed:
    properties:
      title: {type: text, required: true, min_length: 3}
      plants:
        type: number
        integer: true
        rules: [{cel: value == null || value % 5 == 0, message: Use steps of five.}]
    rules: [{cel: props.title != null, message: Name it.}]
"""


def seed_document(store: Store) -> str:
    """A document whose first bed is stale and in conflict, the second has failed, and the third lacks all."""
    documents, blueprint = store.documents, Blueprint.parse(GARDEN)
    made = documents.create(blueprint, by=Actor("operator"), metadata={"place": "a dry valley"}).document.id
    person = Author(by="person", at=now(), principal="operator")
    agent = Author(by="agent", at=now(), order_id=fresh_id(), record_id=fresh_id())

    def do(author: Author, *commands: Mapping[str, object] | Settle) -> None:
        documents.dispatch(made, commands_of(list(commands)), author)

    def settled(path: str, failure: RunFailure | None = None) -> Settle:
        brief = brief_of(blueprint, documents.state(made), path, "node")
        return Settle(node=path, role="node", asked=brief.asked, inputs=dict(brief.inputs), failure=failure)

    do(agent, {"command": "set_value", "node": "/", "values": {"title": "Thirsty and fine"}})
    do(person, *({"command": "add_child", "node": "/", "component": "bed"} for _ in range(3)))
    do(agent, {"command": "set_value", "node": "/bed-1", "values": {"title": "What grows without rain", "plants": 10}})
    do(agent, {"command": "set_value", "node": "/bed-2", "values": {"title": "Stones", "plants": 7}})
    errors = (RuleError(node="/bed-2", field="props.plants", rule="cel", message="Use steps of five."),)
    do(
        agent,
        settled("/"),
        settled("/bed-1"),
        settled("/bed-2", RunFailure(reason="gate_failed", message="1 rule", errors=errors)),
    )
    do(person, {"command": "set_value", "node": "/bed-1", "values": {"title": "Herbs of the \u202egarrigue"}})
    do(person, {"command": "set_metadata", "node": "/", "values": {"place": "a wet valley"}})
    return made


def answer_usage(page: Page) -> None:
    """Answers `GET /usage` in the service's place."""
    page.route(
        "**/api/v1/usage?**",
        lambda route: route.fulfill(json=usage_of(route.request.url.split("by=")[1].split("&")[0])),
    )


def usage_of(by: str) -> dict[str, object]:
    """What `GET /usage` answers of three days."""
    none = {
        "orders": 0,
        "succeeded": 0,
        "failed": 0,
        "unpriced": 0,
        "input_tokens": 0,
        "cached_input_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 0,
        "reasoning_tokens": 0,
        "model_calls": 0,
        "tool_calls": 0,
        "cost_usd": 0.0,
    }
    used = none | {
        "orders": 4,
        "succeeded": 3,
        "failed": 1,
        "input_tokens": 10_000,
        "cached_input_tokens": 7_500,
        "output_tokens": 900,
        "cost_usd": 0.25,
    }
    today = now().date()
    days = [
        {**used, "day": str(day), "key": key, "unpriced": int(key == "scout")}
        for day in (today - timedelta(days=2), today)
        for key in ([str(day)] if by == "day" else ["master", "scout"])
    ]
    return {"by": by, "since": str(now()), "as_of": str(now()), "days": days, "totals": used, "open": none}
