"""The commands `mcc inbox`, `mcc orders approve`, `deny`, `answer` and `mcc grants`, and the prompt that asks for
decisions at the terminal while an order is followed."""

import shlex
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import USAGE, clock, fail, listed_id, print_table, print_wrapped, say
from mcc.cli.server import LAST, SHORTEST, ServiceCall, list_by_default, service_command

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.approvals import AnyItem, Grant, LateAnswer, QuestionItem
    from mcc.contracts.wire import OrderEvent
    from mcc.view.live import Aside
    from mcc.view.prompting import ReadLine

LEFT = "It stays in the inbox: mcc inbox."
ELSEWHERE = "Nothing to answer any more: somebody else did, its time is over, or its order has ended."

RULE_CHARACTERS = 20_000
"""What is shown of a rule that stands: all of it, however much of it is escaped."""

MOST_SEARCHED = 1_000
"""How many of the newest items are searched for one that the user names."""

ItemId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The item, or its order: an id, 4 characters or more of an end of it, @last."),
]
Note = Annotated[str | None, typer.Option(help="Why; kept in the journal, and told to the agent.")]
Remember = Annotated[
    str | None, typer.Option(metavar="order|session|workspace", help="Calls like it need no approval from now on.")
]

GrantId = Annotated[str, typer.Argument(metavar="ID", help="As mcc grants list prints.")]

grants = typer.Typer(help="Approvals that count for later calls too.")


def inbox(
    call: ServiceCall,
    item_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One item, with its preview.")] = None,
    status: Annotated[
        str, typer.Option(help="pending, approved, denied, used, answered, declined, expired, void, or all.")
    ] = "pending",
) -> None:
    """What waits for you: tool calls, questions, outlines of documents, and notes. With an ID all that is known of one.

    Example: mcc inbox
    """
    wanted = None if status == "all" else status
    if item_id is not None:
        item = _find_item(call, item_id, wanted)
        if not call.printed(item):
            _show(item, whole_of(call.client, item))
        return
    items = list(_items(call, wanted))
    if call.printed({"items": items}):
        return
    from mcc.view.inbox import in_brief

    rows = [
        (
            listed_id(listed.id),
            listed.kind,
            listed.status,
            clock(listed.requested_at),
            listed_id(listed.order_id),
            in_brief(listed),
        )
        for listed in items
    ]
    print_table(("ID", "KIND", "STATUS", "ASKED", "ORDER", "WHAT"), rows, empty="Nothing waits for you.")


def approve(call: ServiceCall, item_id: ItemId, remember: Remember = None, note: Note = None) -> None:
    """Approve a tool call, which then runs once and as it was shown; or an outline, whose order then goes on with the
    document as it is now. Look at it first: mcc inbox ID.

    Example: mcc orders approve @last --remember session
    """
    if remember not in (None, "order", "session", "workspace"):
        fail(f"--remember {remember}: it is order, session or workspace.", USAGE)
    item = call.client.inbox.approve(_decidable(call, item_id).id, note=note, remember=remember)
    if not call.printed(item):
        say(f"approved: order {item.order_id} goes on")


def deny(call: ServiceCall, item_id: ItemId, note: Note = None) -> None:
    """Deny a tool call, of which its agent is told; or an outline, whose order then ends.

    Example: mcc orders deny @last --note "Not before Monday"
    """
    item = call.client.inbox.deny(_decidable(call, item_id).id, note=note)
    if not call.printed(item):
        say(f"denied: order {item.order_id} {'ends' if item.kind == 'outline' else 'goes on without it'}")


def answer(
    call: ServiceCall,
    item_id: ItemId,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT|QUESTION=TEXT…", help="The answer, or the number of a choice; of several each."),
    ] = None,
    decline: Annotated[
        bool, typer.Option("--decline", help="Nobody will answer: the agent decides by itself.")
    ] = False,
) -> None:
    """Answer the questions of an agent, which then goes on. Where it does not wait any more, its session's running or
    next turn is told the answer.

    Example: mcc orders answer @last "The second one"
    """
    item = _find_question(call, item_id)
    if decline == bool(texts):
        fail("Give either the answer or --decline.", USAGE)
    if decline:
        answered: AnyItem | LateAnswer = call.client.inbox.decline(item.id)
    else:
        answered = call.client.inbox.answer(item.id, _answers(item, texts or []))
    if call.printed(answered):
        return
    if hasattr(answered, "became"):
        turn = f"order {answered.order_id} is told it" if answered.order_id else "its session's next turn is told it"
        say(f"answered late, as order {item.order_id} waits no more: {turn}")
    elif item.status != "pending":
        say(f"{item.status} before, with the same: nothing changes for order {item.order_id}")
    else:
        say(f"{'declined' if decline else 'answered'}: order {item.order_id} goes on")


def _answers(item: "QuestionItem", texts: list[str]) -> str | dict[str, str]:
    """The answer to one question, or to several by their ids, as `id=text`."""
    from mcc.view.inbox import chosen, questions_of

    questions = {question.id: question for question in questions_of(item)}
    if len(questions) == 1:
        if len(texts) > 1:
            fail("It is one question: give one answer, in quotes.", USAGE)
        return chosen(texts[0], item.choices)
    answers = dict[str, str]()
    for text in texts:
        id, equals, answer = text.partition("=")
        if not equals or id not in questions:
            fail(f"{text}: give each answer as QUESTION=TEXT, with QUESTION one of {', '.join(questions)}.", USAGE)
        answers[id] = chosen(answer, questions[id].choices)
    return answers


def _find_question(call: ServiceCall, named: str) -> "QuestionItem":
    """The question that waits and is meant; else one that nobody waits for any more."""
    part = _id_part(named)
    pending = (item for item in _items(call, "pending") if _matches(part, item.id, item.order_id))
    waits = any(item.kind == "question" for item in pending)
    item = _find_item(call, named, "pending" if waits else None, "question")
    if item.kind != "question":
        advice = _how_to_decide(item) if item.status == "pending" else f"mcc inbox {item.id} --status all"
        fail(f"{item.id} is no question: {advice}.", USAGE)
    return item


@service_command(grants, "list")
def list_grants(call: ServiceCall) -> None:
    """Approvals that count for later calls too, newest first.

    Example: mcc grants list
    """
    listed = list(_grants(call))
    if call.printed({"items": listed}):
        return
    from mcc.view.inbox import rule_in_words

    rows = [
        (grant.id, grant.scope, grant.workspace or grant.scope_id, rule_in_words(grant), grant.by) for grant in listed
    ]
    columns = ("ID", "FOR", "WHICH", "RULE", "BY")
    print_table(columns, rows, empty="No approval stands.", characters=RULE_CHARACTERS)


list_by_default(grants, list_grants)


@service_command(grants)
def revoke(call: ServiceCall, grant_id: GrantId) -> None:
    """Revoke an approval: calls like it need one again.

    Example: mcc grants revoke 0190c9a2-0000-7000-8000-000000000000
    """
    part = _id_part(grant_id)
    grants = [grant for grant in _grants(call) if _matches(part, grant.id)]
    if not grants:
        fail(f"{grant_id} names no grant: mcc grants list prints them.")
    if len(grants) > 1 and part != LAST:
        fail(f"{grant_id} names {len(grants)} grants: give a longer part.", USAGE)
    call.client.grants.revoke(grants[0].id)
    if not call.printed(grants[0]):
        say(f"revoked: {grants[0].id}")


def _grants(call: ServiceCall) -> "Iterator[Grant]":
    cursor = None
    while True:
        page = call.client.grants.list(cursor=cursor, limit=200)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return


def _items(call: ServiceCall, status: str | None) -> "Iterator[AnyItem]":
    cursor, searched = None, 0
    while searched < MOST_SEARCHED:
        page = call.client.inbox.list(status=status, cursor=cursor, limit=200)
        yield from page.items
        searched += len(page.items)
        if (cursor := page.next_cursor) is None:
            return


def whole_of(client: "MCC", item: "AnyItem") -> str | None:
    """The whole of a preview that the item holds a part of; None where it holds all of it, or the whole is gone."""
    from mcc.client.errors import Refused

    if item.kind != "approval" or item.preview is None or item.preview.artifact is None:
        return None
    try:
        return client.orders.artifact(item.order_id, item.preview.artifact)
    except Refused:
        return None


def _show(item: "AnyItem", whole: str | None) -> None:
    from mcc.view.inbox import in_full
    from mcc.view.output import window

    print(in_full(item, width=window(), whole=whole))
    print_wrapped(f"  id {item.id}, order {item.order_id}")
    if item.status == "pending":
        print_wrapped(f"  {_how_to_decide(item)}")


def _decidable(call: ServiceCall, named: str) -> "AnyItem":
    item = _find_item(call, named, "pending", "approval", "outline")
    if item.kind in ("question", "note"):
        fail(f"{item.id} is a {item.kind}: {_how_to_decide(item)}.", USAGE)
    return item


def _how_to_decide(item: "AnyItem") -> str:
    """The command that decides an item, or answers it."""
    if item.kind == "note":
        return f"mcc notes accept {shlex.quote(item.name)} (or reject)"
    if item.kind == "question":
        from mcc.view.inbox import questions_of

        questions = questions_of(item)
        answers = [shlex.quote(f"{question.id}=TEXT") for question in questions] if len(questions) > 1 else ["TEXT"]
        return f"mcc orders answer {item.id} {' '.join(answers)} (or --decline)"
    return f"mcc orders approve {item.id} (or deny)"


def _find_item(call: ServiceCall, named: str, status: str | None, *kinds: str) -> "AnyItem":
    """The item that `named` means; where it means several, only those of `kinds` count, if there are any."""
    part = _id_part(named)
    items = [item for item in _items(call, status) if _matches(part, item.id, item.order_id)]
    fitting = [item for item in items if item.kind in kinds] or items
    if not fitting:
        fail("Nothing of this name waits for a decision: mcc inbox lists what does.")
    if len(fitting) > 1 and part != LAST:
        fail(f"{named} names {len(fitting)} items: give the id of one, as mcc inbox prints them.", USAGE)
    return fitting[0]


def _id_part(named: str) -> str:
    part = named.strip().lower()
    if part != LAST and len(part) < SHORTEST:
        fail(f"{named!r} names nothing: give an id, at least {SHORTEST} characters of an end of it, or {LAST}.", USAGE)
    return part


def _matches(part: str, *ids: str) -> bool:
    """Whether `part` is @last, or begins or ends one of `ids`."""
    return part == LAST or any(id.startswith(part) or id.endswith(part) for id in ids)


class Prompt:
    """Asks the person at this terminal to decide the approvals and questions of one order.

    `read`: how a line is read, as `read_line` does, which is the default.
    """

    def __init__(self, client: "MCC", order_id: str, read: "ReadLine | None" = None) -> None:
        self._client = client
        self._order_id = order_id
        self._read = read

    def see(self, item: "OrderEvent", aside: "Aside") -> None:
        """Where `item` is an approval or question that is still open, ask it, within `aside`. Raises `ClientError`."""
        from mcc.contracts.entry import Entry
        from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked

        if not isinstance(item, Entry) or not isinstance(item.data, ApprovalRequested | QuestionAsked):
            return
        id = item.data.approval_id if isinstance(item.data, ApprovalRequested) else item.data.question_id
        pending = self._pending(id)
        if pending is not None:
            with aside():
                self._ask(pending)

    def _pending(self, id: str) -> "AnyItem | None":
        cursor = None
        while True:
            page = self._client.inbox.list(order_id=self._order_id, cursor=cursor, limit=200)
            if asked := [item for item in page.items if item.id == id]:
                return asked[0]
            if (cursor := page.next_cursor) is None:
                return None

    def _ask(self, item: "AnyItem") -> None:
        from mcc.client.errors import Conflict, Refused
        from mcc.contracts.approvals import NewDecision
        from mcc.contracts.questions import NewAnswer
        from mcc.view.prompting import ask, read_line

        try:
            read, read_whole = self._read or read_line, partial(whole_of, self._client, item)
            match ask(item, lambda: self._pending(item.id) is None, read, read_whole):
                case NewDecision(decision="approve", remember=remember):
                    self._client.inbox.approve(item.id, remember=remember)
                case NewDecision(note=note):
                    self._client.inbox.deny(item.id, note=note)
                case NewAnswer() as said:
                    self._client.inbox.answer(item.id, said.answer or said.answers or {})
                case None:
                    say(f"\n{LEFT if self._pending(item.id) else ELSEWHERE}")
        except (Conflict, Refused) as refusal:
            say(f"Not taken: {refusal}")
