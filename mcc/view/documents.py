"""Documents as lines for people: the tree of nodes, one node in full, the differences between versions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mcc.contracts.documents import Computed, Counts, DocumentDiff, HistoryItem, NodeView, SetByAgent
from mcc.contracts.shape import to_json
from mcc.view.output import brief, exact_line, one_line

MARKS = {"done": "✓", "pending": "·", "stale": "~", "failed": "✗"}
VALUE_CHARACTERS = 400
BRIEF_CHARACTERS = 60


def counts_in_words(counts: Counts) -> str:
    """ "6 done · 1 stale · 1 in conflict"."""
    parts = [f"{count:,} {name}" for name in ("done", "pending", "stale", "failed") if (count := getattr(counts, name))]
    if counts.conflicts:
        parts.append(f"{counts.conflicts:,} in conflict")
    return " · ".join(parts)


def tree_lines(nodes: Iterable[NodeView]) -> Iterator[str]:
    """A line for each node, indented by its depth: status mark, name, summary, and why it is not done."""
    top: int | None = None
    for node in nodes:
        depth = node.path.count("/") if node.path != "/" else 0
        top = depth if top is None else top
        key = node.path.rpartition("/")[2] or "/"
        why = why_in_words(node)
        name = f"{'  ' * (depth - top)}{MARKS[node.status]} {key}"
        line = f"{name}  {brief(node.summary, BRIEF_CHARACTERS)}".rstrip(" ") + (f"  {why}" if why else "")
        yield exact_line(line)


def why_in_words(node: NodeView) -> str:
    """Why a node is not done, and which of its fields are in conflict; "" for neither."""
    parts: list[str] = []
    match node.status:
        case "failed" if node.failure is not None:
            parts.append(f"failed ({node.failure.reason}): {brief(node.failure.message, 200)}")
        case "pending":
            parts.append(f"pending: {', '.join(node.pending)}")
        case "stale":
            parts.append(f"stale: {'; '.join(node.stale_because)}")
    if node.conflicts:
        parts.append(f"in conflict: {', '.join(conflict.field for conflict in node.conflicts)}")
    return " · ".join(parts)


def node_lines(node: NodeView) -> Iterator[str]:
    """One node in full: its values and who set each, the rules that do not hold, and those not judged yet."""
    yield from _pairs((("node", node.path), ("component", node.component), ("status", node.status)))
    yield from _pairs((("version", node.version), ("id", node.id), ("why", why_in_words(node) or None)))
    yield from _pairs((("summary", node.summary or None), ("children", ", ".join(node.children) or None)))
    for section, values in (("metadata", node.metadata), ("props", node.props)):
        if values:
            yield ""
            yield section
        for name, value in values.items():
            set_by = _set_by(node, f"{section}.{name}")
            yield exact_line(f"  {name}: {in_brief(value, VALUE_CHARACTERS)}" + (f"  ({set_by})" if set_by else ""))
    wrong = [verdict for verdict in node.verdicts if verdict.ok is False]
    if wrong:
        yield ""
        yield "rules that do not hold"
        yield from (exact_line(f"  {verdict.rule}: {brief(verdict.message, 300)}") for verdict in wrong)
    unjudged = [verdict for verdict in node.verdicts if verdict.ok is None and verdict.kind != "guideline"]
    if unjudged:
        yield ""
        yield "rules that nobody has judged"
        yield from (exact_line(f"  {verdict.rule}: {brief(verdict.message, 300)}") for verdict in unjudged)


def _pairs(pairs: Sequence[tuple[str, object]]) -> Iterator[str]:
    for name, value in pairs:
        if value is not None:
            yield f"{name:<10} {one_line(str(value), VALUE_CHARACTERS)}"


def _set_by(node: NodeView, field: str) -> str:
    provenance = node.provenance.get(field)
    if provenance is None:
        return ""
    if isinstance(provenance, Computed):
        return f"{provenance.by} of {', '.join(provenance.sources)}"
    held = ", held" if provenance.accepted is not None else ""
    by = (
        f"{provenance.by} {provenance.record_id[-12:]}"
        if isinstance(provenance, SetByAgent) and provenance.record_id
        else provenance.by
    )
    return f"{by} at version {provenance.version}{held}"


def in_brief(value: object, characters: int = BRIEF_CHARACTERS) -> str:
    """A value on one line of at most `characters`: text without quotes, anything else as JSON, "–" for None."""
    if value is None:
        return "–"
    return brief(value if isinstance(value, str) else to_json(value).decode(), characters)


def changes_in_words(fields: Mapping[str, tuple[Any, Any]]) -> str:
    """ "props.minutes 45 → 40"."""
    return "; ".join(f"{name} {in_brief(before)} → {in_brief(after)}" for name, (before, after) in fields.items())


def history_row(item: HistoryItem) -> tuple[object, ...]:
    """The cells of one change: version, author, command, node, and its fields before and after."""
    return (item.version, item.by, item.command, item.node, changes_in_words(item.fields))


def diff_lines(diff: DocumentDiff) -> Iterator[str]:
    """A line for each node that differs, and one for each field that differs in it."""
    for node in diff.nodes:
        mark = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}[node.change]
        moved = f"  from {node.before}" if node.before is not None and node.before != node.path else ""
        yield exact_line(f"{mark} {node.path}  {node.component}{moved}")
        for name, (before, after) in node.fields.items():
            yield exact_line(f"    {name}: {in_brief(before)} → {in_brief(after)}")
