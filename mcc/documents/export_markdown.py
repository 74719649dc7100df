"""Export of a document as Markdown."""

from collections.abc import Iterable, Iterator

from mcc.contracts.documents import Counts, DocumentSummary, NodeView
from mcc.documents.inert import in_markdown, in_words, lines_in_markdown

_DEEPEST = 6
"""The deepest level of headings in Markdown."""

_SHORT = 80
"""Characters of a text that still is an item of a list; a longer one is a paragraph."""


def markdown(document: DocumentSummary, nodes: Iterable[NodeView]) -> Iterator[str]:
    """Title, blueprint and status, then each node under a heading with its values and problems."""
    made_after = f"{document.blueprint.name} {document.blueprint.version}"
    yield f"# {in_markdown(document.title) or 'Untitled'}\n\n"
    yield f"{made_after}, version {document.version}: {document.status} ({counted(document.counts)})\n"
    for node in nodes:
        level = len([key for key in node.path.split("/") if key]) + 1
        if level > 1:
            yield f"\n{'#' * min(level, _DEEPEST)} {node.component.replace('_', ' ')} {node.position}\n"
        yield "".join(f"{line}\n" for line in _node(node))


def counted(counts: Counts) -> str:
    """The counts in words, such as "6 done, 1 stale, 2 conflicts"."""
    parts = [f"{number} {name}" for name, number in counts if number and name != "conflicts"]
    if counts.conflicts:
        parts.append(f"{counts.conflicts} conflict{'s' if counts.conflicts > 1 else ''}")
    return ", ".join(parts)


def _node(node: NodeView) -> Iterator[str]:
    if node.summary:
        yield ""
        yield f"*{in_markdown(node.summary)}*"
    yield ""
    for name, value in (*node.metadata.items(), *node.props.items()):
        yield from _field(name, value)
    yield from _problems(node)


def _field(name: str, value: object) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, list | tuple):
        yield f"- **{name.replace('_', ' ')}**:"
        for item in value:
            yield f"  - {'<br>'.join(lines_in_markdown(in_words(item)))}"
        return
    text = in_words(value)
    lines, is_short = list(lines_in_markdown(text)), len(text) <= _SHORT
    heading = f"{'- ' if is_short else ''}**{name.replace('_', ' ')}**:"
    if len(lines) == 1 and is_short:
        yield f"{heading} {lines[0]}"
    elif len(lines) == 1:
        yield from ("", f"{heading} {lines[0]}", "")
    else:
        indent = "  " if is_short else ""
        yield from (*(() if is_short else ("",)), heading, "")
        for line in lines:
            yield f"{indent}> {line}  " if line else f"{indent}>"
        yield ""


def _problems(node: NodeView) -> Iterator[str]:
    problems = [f"{verdict.rule}: {verdict.message}" for verdict in node.verdicts if verdict.ok is False]
    problems += [f"stale, because of {reason}" for reason in node.stale_because]
    problems += [f"{held.field} is held and in conflict since version {held.since}" for held in node.conflicts]
    if node.failure is not None:
        problems.insert(0, f"the last run failed ({node.failure.reason}): {node.failure.message}")
    if problems:
        yield ""
        yield f"**{node.status}**"
        yield ""
        for line in problems:
            yield f"- {in_markdown(line)}"
