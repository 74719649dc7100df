"""A document as one self-contained HTML page without scripts, with all its content escaped as text."""

from collections.abc import Iterable, Iterator

from mcc.contracts.documents import (
    Computed,
    DocumentSummary,
    FailureView,
    NodeView,
    ProvenanceView,
    SetByAgent,
    SetByPerson,
    VerdictView,
)
from mcc.documents.export_markdown import counted
from mcc.documents.inert import in_html, in_words, set_by

LONG = 1_500
"""Texts with more characters are folded."""

_SIGNS = {True: ("holds", "holds"), False: ("broken", "does not hold"), None: ("open", "not judged")}
_CLOSED = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html(document: DocumentSummary, nodes: Iterable[NodeView], paths: Iterable[str]) -> Iterator[str]:
    """A page with title, counts, each node with its values, provenance and verdicts, and a tree of links.

    `paths` are the paths of all `nodes`, in the same order.
    """
    places = {path: f"n{number}" for number, path in enumerate(paths)}
    title = in_html(document.title) or "Untitled"
    yield '<!doctype html>\n<html lang="und">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_CLOSED}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    yield f'<header><h1 dir="auto">{title}</h1>\n<p class="about">{_summary(document)}</p></header>\n'
    yield '<div class="page">\n<main>\n'
    entries: list[str] = []
    for node in nodes:
        # The tree of links is written last (style sheets place it first), so that one node at a time is in memory.
        entries.append(_link(node, places[node.path]))
        yield "".join(_node(node, places))
    yield '</main>\n<nav aria-label="Nodes"><ol>\n'
    yield from entries
    yield "</ol></nav>\n</div>\n</body>\n</html>\n"


def _summary(document: DocumentSummary) -> str:
    made_after = in_html(f"{document.blueprint.name} {document.blueprint.version}")
    when = document.updated_at.strftime("%Y-%m-%d %H:%M UTC")
    return (
        f'<span class="status {document.status}">{document.status}</span> '
        f"<span>{counted(document.counts)}</span> <span>version {document.version}</span> <span>{when}</span> "
        f'<span title="{in_html(document.blueprint.digest)}">made after {made_after}</span>'
    )


def _link(node: NodeView, place: str) -> str:
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
        why = "; ".join(conflict.because)
        sentence = f"{conflict.field} is held, and in conflict since version {conflict.since}: {why}"
        yield f'<p class="note conflict" dir="auto">{in_html(sentence)}</p>\n'
    yield from _values(node, places)
    yield from _verdicts(node.verdicts)
    yield from _provenance(node)
    yield "</section>\n"


def _title(node: NodeView) -> str:
    """Component and position, and the first text among the values."""
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
    """Broken rules are visible at once; the others are folded behind a line with their number."""
    broken = [verdict for verdict in verdicts if verdict.ok is False]
    others = [verdict for verdict in verdicts if verdict.ok is not False]
    if broken:
        verb = "does" if len(broken) == 1 else "do"
        yield f'<p class="note failed">{len(broken)} of {len(verdicts)} rules {verb} not hold.</p>\n'
        yield from _rules(broken)
    if others:
        open_ones = sum(verdict.ok is None for verdict in others)
        summary = f"{len(others) - open_ones} rules hold" + (f", {open_ones} not judged" if open_ones else "")
        yield f"<details><summary>{summary}</summary>\n"
        yield from _rules(others)
        yield "</details>\n"


def _rules(verdicts: list[VerdictView]) -> Iterator[str]:
    yield '<div class="wide"><table class="facts"><thead><tr><th>rule</th><th>kind</th><th>verdict</th>'
    yield "<th>message</th><th>version</th></tr></thead><tbody>\n"
    for verdict in verdicts:
        name, words = _SIGNS[verdict.ok]
        yield (
            f'<tr class="{name}"><td><code>{in_html(verdict.rule)}</code></td><td>{verdict.kind}</td><td>{words}</td>'
            f'<td class="said" dir="auto">{in_html(verdict.message)}</td><td>{verdict.version}</td></tr>\n'
        )
    yield "</tbody></table></div>\n"


def _provenance(node: NodeView) -> Iterator[str]:
    if not node.provenance:
        return
    yield '<details><summary>Where the values come from</summary>\n<div class="wide"><table class="facts"><thead><tr>'
    yield "<th>field</th><th>by</th><th>version</th><th>at</th><th>from</th><th>held</th></tr></thead><tbody>\n"
    for name, known in node.provenance.items():
        yield (
            f"<tr><td><code>{in_html(name)}</code></td><td>{known.by.replace('_', ' ')}</td><td>{known.version}</td>"
            f"<td>{known.at.strftime('%Y-%m-%d %H:%M:%S')}</td>"
            f'<td class="said">{_origin(known)}</td><td>{_acceptance(known)}</td></tr>\n'
        )
    yield "</tbody></table></div></details>\n"


def _origin(known: ProvenanceView) -> str:
    match known:
        case Computed():
            parts_shown = list(known.sources)
        case SetByPerson():
            parts_shown = [known.principal] if known.principal else []
        case SetByAgent():
            parts = {"order": known.order_id, "record": known.record_id, "asked": known.asked}
            parts_shown = [f"{name} {value}" for name, value in parts.items() if value]
    return "<br>".join(f"<bdi>{in_html(part)}</bdi>" for part in parts_shown)


def _acceptance(known: ProvenanceView) -> str:
    if isinstance(known, Computed) or known.accepted is None:
        return ""
    return in_html(f"by {known.accepted.principal} since version {known.accepted.version}")


_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea;--paper:#fff;--ground:#f5f7f9;--link:#1d5fbf;
--done:#1a7f4b;--stale:#a86500;--pending:#3d63c9;--failed:#c0322b;--conflict:#8a3fc0}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa6b5;--line:#303945;--paper:#1a2029;--ground:#12161c;
--link:#7db0ff;--done:#53c488;--stale:#e0a642;--pending:#8ea9ff;--failed:#ff7b72;--conflict:#c792ea}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
header{padding:2rem 2rem 1.25rem;background:var(--paper);border-bottom:1px solid var(--line)}
h1{margin:0 0 .5rem;font-size:1.9rem;line-height:1.2;overflow-wrap:anywhere}
.about{margin:0;color:var(--soft);display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:baseline}
.page{display:grid;grid-template-columns:minmax(12rem,18rem) minmax(0,1fr);gap:1.5rem;padding:1.5rem 2rem;
max-width:90rem}
nav{order:-1;position:sticky;top:1rem;align-self:start;max-height:calc(100vh - 2rem);overflow:auto;font-size:.9rem}
nav ol{list-style:none;margin:0;padding:0}
nav a{display:block;padding:.2rem .4rem .2rem calc(.4rem + var(--level)*.9rem);border-radius:.35rem;color:inherit;
text-decoration:none;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
nav a:hover{background:var(--line)}
.dot{display:inline-block;width:.55rem;height:.55rem;margin-inline-end:.5rem;border-radius:50%;background:currentColor}
.done{color:var(--done)}.stale{color:var(--stale)}.pending{color:var(--pending)}.failed{color:var(--failed)}
.conflict{color:var(--conflict)}
.node{margin-bottom:1rem;padding:1rem 1.25rem;background:var(--paper);border:1px solid var(--line);border-radius:.6rem;
content-visibility:auto;contain-intrinsic-size:auto 20rem;scroll-margin-top:1rem}
.node:target{border-color:var(--link)}
h2,h3,h4,h5,h6{margin:0 0 .6rem;font-size:1.15rem;line-height:1.35;overflow-wrap:anywhere}
h2{font-size:1.35rem}
code{font:.82em ui-monospace,"SF Mono",Menlo,Consolas,monospace;color:var(--soft);overflow-wrap:anywhere}
.status{font-size:.78rem;font-weight:600;padding:.1rem .55rem;border:1px solid currentColor;border-radius:1rem;
white-space:nowrap}
.summary{margin:0 0 .75rem;color:var(--soft);font-style:italic}
.note{margin:.6rem 0;padding:.45rem .7rem;border-inline-start:3px solid currentColor;background:var(--ground);
overflow-wrap:anywhere}
.note ul{margin:.3rem 0 0;padding-inline-start:1.2rem}
table{width:100%;border-collapse:collapse;font-size:.92rem}
th,td{padding:.4rem .6rem;border-top:1px solid var(--line);text-align:start;vertical-align:top;overflow-wrap:anywhere}
thead th{color:var(--soft);font-weight:600;font-size:.8rem}
.values{table-layout:fixed;font-size:1rem}
.values th{width:9rem;font-weight:600;color:var(--soft)}
.values .by{width:8rem;color:var(--soft);font-size:.8rem;text-align:end}
.values ul{margin:0;padding-inline-start:1.2rem}
.wide{overflow-x:auto}
.facts td,.facts th,.facts code{white-space:nowrap;overflow-wrap:normal}
.facts .said{white-space:pre-wrap;overflow-wrap:anywhere;min-width:14rem;width:100%}
.text{white-space:pre-wrap;overflow-wrap:anywhere}
.unset{color:var(--soft);font-style:italic}
details{margin-top:.6rem}
summary{cursor:pointer;color:var(--soft);font-size:.88rem}
td details{margin-top:0}td summary{color:inherit;font-size:inherit}
.broken td{color:var(--failed)}.open td{color:var(--soft)}
a{color:var(--link)}
@media (max-width:50rem){.page{grid-template-columns:minmax(0,1fr);padding:1rem}nav{position:static;max-height:14rem}
header{padding:1.25rem 1rem}.values .by{display:none}.values th{width:8rem}}
@media print{nav{display:none}.page{display:block;padding:0}.node{content-visibility:visible;break-inside:avoid}}
"""
