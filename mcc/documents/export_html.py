"""A document as one page of HTML: nothing is loaded, nothing runs, and what the document holds is text."""

from collections.abc import Iterable, Iterator

from mcc.contracts.documents import (
    Computed,
    ConflictView,
    DocumentSummary,
    FailureView,
    NodeView,
    ProvenanceView,
    SetByAgent,
    SetByPerson,
    VerdictView,
)
from mcc.documents.export_markdown import counted
from mcc.documents.export_style import STYLE
from mcc.documents.inert import in_html, in_words, set_by

LONG = 1_500
"""Characters of a text from which on it is folded."""

_SIGNS = {True: ("holds", "holds"), False: ("broken", "does not hold"), None: ("open", "not judged")}
_CLOSED = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html(document: DocumentSummary, nodes: Iterable[NodeView], paths: Iterable[str]) -> Iterator[str]:
    """Title and figures, each node with its values, who set them, and what the rules say, and the tree of nodes.

    `paths` are those of all `nodes`, in the same order.
    """
    places = {path: f"n{number}" for number, path in enumerate(paths)}
    title = in_html(document.title) or "Untitled"
    yield '<!doctype html>\n<html lang="und">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_CLOSED}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    yield f'<header><h1 dir="auto">{title}</h1>\n<p class="about">{_about(document)}</p></header>\n'
    yield '<div class="page">\n<main>\n'
    entries: list[str] = []
    for node in nodes:
        # One node at a time is in memory, and the tree of all of them, which stands first to the eye, comes last.
        entries.append(_entry(node, places[node.path]))
        yield "".join(_node(node, places))
    yield '</main>\n<nav aria-label="Nodes"><ol>\n'
    yield from entries
    yield "</ol></nav>\n</div>\n</body>\n</html>\n"


def _about(document: DocumentSummary) -> str:
    made_after = in_html(f"{document.blueprint.name} {document.blueprint.version}")
    when = document.updated_at.strftime("%Y-%m-%d %H:%M UTC")
    return (
        f'<span class="status {document.status}">{document.status}</span> '
        f"<span>{counted(document.counts)}</span> <span>version {document.version}</span> <span>{when}</span> "
        f'<span title="{in_html(document.blueprint.digest)}">made after {made_after}</span>'
    )


def _entry(node: NodeView, place: str) -> str:
    level = _level(node)
    title = in_html(_title(node))
    return (
        f'<li style="--level:{min(level, 12)}"><a href="#{place}"><i class="dot {node.status}"></i>'
        f"<bdi>{title}</bdi></a></li>\n"
    )


def _node(node: NodeView, places: dict[str, str]) -> Iterator[str]:
    heading = f"h{min(_level(node) + 2, 6)}"
    yield f'<section id="{places[node.path]}" class="node">\n<{heading}><bdi>{in_html(_title(node))}</bdi> '
    yield f'<code>{in_html(node.path)}</code> <span class="status {node.status}">{node.status}</span></{heading}>\n'
    if node.summary:
        yield f'<p class="summary" dir="auto">{in_html(node.summary)}</p>\n'
    if node.failure is not None:
        yield _failure(node.failure)
    for reason in node.stale_because:
        yield f'<p class="note stale"><bdi>Changed since: {in_html(reason)}</bdi></p>\n'
    for conflict in node.conflicts:
        yield _conflict(conflict)
    yield from _values(node, places)
    yield from _verdicts(node.verdicts)
    yield from _provenance(node)
    yield "</section>\n"


def _title(node: NodeView) -> str:
    """What it is, and the first text that says what it is about."""
    name = node.component.replace("_", " ")
    heading = next((value for value in (*node.metadata.values(), *node.props.values()) if isinstance(value, str)), "")
    first = heading.strip().partition("\n")[0][:80]
    which = name if node.parent is None else f"{name} {node.position}"
    return f"{which}: {first}" if first else which


def _level(node: NodeView) -> int:
    return len([key for key in node.path.split("/") if key])


def _failure(failure: FailureView) -> str:
    errors = "".join(f"<li><code>{in_html(one.rule)}</code> {in_html(one.message)}</li>" for one in failure.errors)
    listed = f"<ul>{errors}</ul>" if errors else ""
    sentence = f"The last run failed ({in_html(failure.reason)}): {in_html(failure.message)}"
    return f'<div class="note failed" dir="auto">{sentence}{listed}</div>\n'


def _conflict(conflict: ConflictView) -> str:
    why = "; ".join(conflict.because)
    sentence = f"{conflict.field} is held, and in conflict since version {conflict.since}: {why}"
    return f'<p class="note conflict" dir="auto">{in_html(sentence)}</p>\n'


def _values(node: NodeView, places: dict[str, str]) -> Iterator[str]:
    named = [(f"metadata.{key}", key, value) for key, value in node.metadata.items()]
    named += [(f"props.{key}", key, value) for key, value in node.props.items()]
    if not named:
        return
    yield '<table class="values"><tbody>\n'
    for name, key, value in named:
        known = node.provenance.get(name)
        by = "" if known is None else in_html(set_by(known))
        shown = '<span class="unset">not set</span>' if value is None else _value(value, places)
        title = in_html(key.replace("_", " "))
        yield f'<tr><th scope="row">{title}</th><td>{shown}</td><td class="by">{by}</td></tr>\n'
    yield "</tbody></table>\n"


def _value(value: object, places: dict[str, str]) -> str:
    if isinstance(value, list | tuple):
        return f"<ul>{''.join(f'<li>{_value(item, places)}</li>' for item in value)}</ul>"
    text = in_words(value)
    if text in places and isinstance(value, str):
        return f'<a href="#{places[text]}"><code>{in_html(text)}</code></a>'
    shown = in_html(text)
    if len(text) <= LONG:
        return f'<div class="text" dir="auto">{shown}</div>'
    first = in_html(text[:200].strip())
    return (
        f"<details><summary><bdi>{first}…</bdi> <small>{len(text):,} characters</small></summary>"
        f'<div class="text" dir="auto">{shown}</div></details>'
    )


def _verdicts(verdicts: tuple[VerdictView, ...]) -> Iterator[str]:
    """Rules that do not hold stand there at once, the others behind a line that says how many they are."""
    broken = [one for one in verdicts if one.ok is False]
    others = [one for one in verdicts if one.ok is not False]
    if broken:
        verb = "does" if len(broken) == 1 else "do"
        yield f'<p class="note failed">{len(broken)} of {len(verdicts)} rules {verb} not hold.</p>\n'
        yield from _rules(broken)
    if others:
        open_ones = sum(one.ok is None for one in others)
        summary = f"{len(others) - open_ones} rules hold" + (f", {open_ones} not judged" if open_ones else "")
        yield f"<details><summary>{summary}</summary>\n"
        yield from _rules(others)
        yield "</details>\n"


def _rules(verdicts: list[VerdictView]) -> Iterator[str]:
    yield '<div class="wide"><table class="facts"><thead><tr><th>rule</th><th>kind</th><th>verdict</th>'
    yield "<th>message</th><th>version</th></tr></thead><tbody>\n"
    for one in verdicts:
        name, words = _SIGNS[one.ok]
        yield (
            f'<tr class="{name}"><td><code>{in_html(one.rule)}</code></td><td>{one.kind}</td><td>{words}</td>'
            f'<td class="said" dir="auto">{in_html(one.message)}</td><td>{one.version}</td></tr>\n'
        )
    yield "</tbody></table></div>\n"


def _provenance(node: NodeView) -> Iterator[str]:
    if not node.provenance:
        return
    yield '<details><summary>Where the values come from</summary>\n<div class="wide"><table class="facts"><thead><tr>'
    yield "<th>field</th><th>by</th><th>version</th><th>at</th><th>from</th><th>held</th></tr></thead><tbody>\n"
    for name, one in node.provenance.items():
        yield (
            f"<tr><td><code>{in_html(name)}</code></td><td>{one.by.replace('_', ' ')}</td><td>{one.version}</td>"
            f"<td>{one.at.strftime('%Y-%m-%d %H:%M:%S')}</td>"
            f'<td class="said">{_from(one)}</td><td>{_held(one)}</td></tr>\n'
        )
    yield "</tbody></table></div></details>\n"


def _from(known: ProvenanceView) -> str:
    match known:
        case Computed():
            parts_shown = list(known.sources)
        case SetByPerson():
            parts_shown = [known.principal] if known.principal else []
        case SetByAgent():
            parts = {"order": known.order_id, "record": known.record_id, "asked": known.asked}
            parts_shown = [f"{name} {value}" for name, value in parts.items() if value]
    return "<br>".join(f"<bdi>{in_html(one)}</bdi>" for one in parts_shown)


def _held(known: ProvenanceView) -> str:
    if isinstance(known, Computed) or known.accepted is None:
        return ""
    return in_html(f"by {known.accepted.principal} since version {known.accepted.version}")
