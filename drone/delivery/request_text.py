"""The text of a request at a forge: ours stands between two marks, and what people write around it stays."""

from collections.abc import Sequence
from dataclasses import dataclass

from drone.checkouts.pushing import PushedFile
from drone.tools.frame.display_text import cut, strip_controls
from mcc.contracts.invisible import escape_invisible
from mcc.forges.words import beginning, in_line, quoted
from mcc.rules.patterns import Pattern

BEGIN, END = "<!-- mcc-begin -->", "<!-- mcc-end -->"
TITLE_CHARACTERS, SUMMARY_CHARACTERS, MOST_FILES = 200, 20_000, 200
FILES_CHARACTERS = 20_000
"""Of their lines as they are written, as of the summary: GitHub takes at most 65,536 characters in all."""

_SESSION = Pattern(r"<!-- mcc-session:([0-9a-f-]{36}) -->")


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """What a request says. `subject`: what its commit is called, without words of strangers, as forges take some of
    those in commits for commands. `summary`: the order's answer, written by a model. `verdict`: what its gate and
    verifier said. `cost_usd` None: not known. `link`: of the order's page, "" for none. `closes`: number of the issue
    that ends with the merge."""

    session_id: str
    title: str
    subject: str
    summary: str
    files: Sequence[PushedFile]
    verdict: str
    cost_usd: float | None
    order_id: str
    link: str = ""
    closes: int | None = None


def mark_of(session_id: str) -> str:
    """The mark by which a request is known as that of a session."""
    return f"<!-- mcc-session:{session_id} -->"


def session_in(body: str) -> str | None:
    """The session whose mark the text has."""
    marked = _SESSION.search(body)
    return None if marked is None else marked[1]


def title_line(text: str) -> str:
    """One line for a title or a commit's subject."""
    return cut(" ".join(escape_invisible(strip_controls(text)).split()), TITLE_CHARACTERS)


def new_body(said: RequestSummary) -> str:
    """The text of a new request."""
    return f"{mark_of(said.session_id)}\n{BEGIN}\n{_block(said)}\n{END}\n"


def changed_body(body: str, said: RequestSummary) -> str:
    """The text of a request that is there, with ours in it brought up to date. Where somebody has deleted the marks,
    ours comes last."""
    mark = "" if session_in(body) else f"{mark_of(said.session_id)}\n"
    block = f"{BEGIN}\n{_block(said)}\n{END}"
    before, begin, rest = body.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        return f"{mark}{before}{block}{after}"
    return f"{mark}{body.rstrip()}\n\n{block}\n".lstrip("\n")


def _block(said: RequestSummary) -> str:
    answer = beginning(said.summary.strip(), quoted, SUMMARY_CHARACTERS)
    parts = [f"**{in_line(title_line(said.subject))}**", answer, _files(said.files)]
    facts = [said.verdict] if said.verdict else []
    if said.cost_usd is not None:
        facts.append(f"cost {said.cost_usd:,.4f} USD")
    order = f"order `{said.order_id}`"
    facts.append(f"[{order}]({said.link})" if said.link else order)
    parts.append(" · ".join(facts))
    if said.closes is not None:
        parts.append(f"Closes #{said.closes}")
    return "\n\n".join(part for part in parts if part)


def _files(files: Sequence[PushedFile]) -> str:
    if not files:
        return ""
    lines: list[str] = []
    left = FILES_CHARACTERS
    for file in files[:MOST_FILES]:
        counted = "(binary)" if file.added is None else f"+{file.added:,} −{file.removed:,}"
        line = f"- `{in_line(file.path).replace('`', chr(39))}` {counted}"
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    if len(files) > len(lines):
        lines.append(f"- and {len(files) - len(lines):,} more")
    return "\n".join(lines)
