"""The page on the journal: every kind of entry with its fields."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from mcc.contracts.entry import Entry
from mcc.contracts.journal import FACTS, JOURNAL_VERSION
from scripts.reference.markdown import code, properties, table

ROOT = Path(__file__).parents[2]

MEANINGS: Mapping[str, str] = {
    "order.queued": "The order was accepted.",
    "order.claimed": "A drone holds it from here on, under this epoch.",
    "order.requeued": "The drone that held it was lost; the order is queued again.",
    "order.handed_back": "The drone that held it was told to stop and gave it back; it is queued again.",
    "order.waiting": "The order is parked until a person or a clock speaks.",
    "order.resumed": "It is queued again after it waited.",
    "order.finished": "The end. Nothing follows.",
    "agent.started": "An agent begins its task.",
    "agent.step": "Something that people who watch should know.",
    "agent.reused": "An agent that had finished is given another message.",
    "agent.delivered": "What a subagent in the background brought, as its parent reads it; at most once for each.",
    "agent.finished": "It has ended; every `agent.started` has one of these.",
    "model.started": "A model is asked; committed before the request is sent.",
    "model.replied": "Its whole reply.",
    "model.retried": "The try failed and is made again after a wait.",
    "model.fell_back": "The next model of the fallback list is asked from here on.",
    "tool.started": "A tool call; committed before the tool runs.",
    "tool.finished": "Its result, as the model is told it. `seconds`: how long the call ran; of one that another drone "
    "had begun, the whole time since its `tool.started`; 0 if its outcome is unknown.",
    "gate.checked": "A result was held against its schema and rules.",
    "verify.checked": "A verifier judged what the agent brought, or could not.",
    "budget.warned": "A limit is nearly used up.",
    "control.applied": "What a person asked of the order was done.",
    "approval.requested": "A tool call waits for a person's yes.",
    "approval.decided": "The person has decided.",
    "question.asked": "An agent asks a person.",
    "question.answered": "The person has answered.",
    "transcript.compacted": "What a model is shown no longer, so that a conversation fits into its context: results "
    "or arguments were put away, or a summary or lines took the place of messages.",
    "document.changed": "A document got a new version.",
    "workspace.held": "From now on, the order is the only one that writes in its workspace.",
    "workspace.checkpointed": "What the workspace held was kept on the drone's host, before a call that may change it.",
    "workspace.committed": "An agent made a commit.",
    "worktree.made": "A subagent begins to work in a worktree of its own.",
    "worktree.ended": "What became of that worktree.",
    "delivery.started": "A step of a delivery begins: what nobody has committed is committed, the branch is pushed, "
    "the request is opened or updated. The next drone repeats one that has not ended.",
    "delivery.finished": "What became of that step.",
}


def page() -> Iterator[str]:
    yield from ("# The journal", "")
    yield "Everything that happens to an order is an entry of its journal, numbered 1, 2, 3 … without a gap. The"
    yield "record, the usage and every live view are computed from them (`mcc/contracts/fold.py`). Entries are read at"
    yield "`GET /api/v1/orders/{order_id}/journal` and followed at `GET /api/v1/orders/{order_id}/events`."
    yield from (f"The shapes below are version {JOURNAL_VERSION}.", "", "## Every entry", "")
    schema = Entry.model_json_schema(mode="serialization")
    rows = ((name, "one of the shapes below" if name == code("data") else what) for name, what, _ in properties(schema))
    yield from table(("field", "value"), rows)
    yield from (
        "`record_id`, `parent_id`, `agent` and `depth` say whose entry it is; the order's own entries have none.",
        "",
    )
    yield from table(("kind", "meaning"), ((link_to(kind), meaning(kind)) for kind in FACTS))
    for kind in FACTS:
        yield from _section(kind)


def link_to(kind: str) -> str:
    return f"[`{kind}`](#{kind.replace('.', '')})"


def meaning(kind: str) -> str:
    unused = "" if kind in written() else " *Nothing in this version writes it.*"
    return f"{MEANINGS[kind]}{unused}"


def _section(kind: str) -> Iterator[str]:
    fact = FACTS[kind]
    yield from (f"## {kind}", "", meaning(kind), "")
    schema = fact.model_json_schema(mode="serialization", by_alias=True)
    yield from table(("field of `data`", "value", "default"), properties(schema))


@cache
def written() -> frozenset[str]:
    """The kinds that some part of the product makes; tests and doubles do not count."""
    sources = [path for room in ("mcc", "drone") for path in (ROOT / room).rglob("*.py")]
    names = [fact.__name__ for fact in FACTS.values()]
    texts = [path.read_text("utf-8") for path in sources if ROOT / "mcc" / "testing" not in path.parents]
    trees = [ast.parse(text) for text in texts if any(name in text for name in names)]
    made = {name for tree in trees for name in called(tree)}
    return frozenset(kind for kind, fact in FACTS.items() if fact.__name__ in made)


def called(tree: ast.Module) -> Iterator[str]:
    """Names of what is called, and of what `unchecked` makes; a `case` pattern looks alike and is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
            if node.func.id == "unchecked" and isinstance(node.args[0], ast.Name):
                yield node.args[0].id
