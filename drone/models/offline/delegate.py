"""This room is for the master's part: two explorers side by side, then one answer out of what they reported."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from drone.models.offline.conversation import Conversation, Done
from drone.models.offline.explore import Step
from drone.models.offline.focus import REASON, is_overview, terms_of
from drone.models.offline.material import paths_in
from drone.models.offline.report import HONEST

_ORDER = (
    "Purpose",
    "Where it is mentioned",
    "Layout",
    "Build",
    "Entry points",
    "Main modules",
    "Tests",
    "Documentation",
)
_LAST = "Not settled"
_FOREIGN_CHARACTERS = 4_000
_COUNT = re.compile(
    r"\b\d[\d,]* (?:[\w-]+ ){0,2}(?:files?|lines?|modules?|tests?|directories|packages?|functions?|classes)\b"
)
_CALLED = re.compile(r"calls it \*\*([^*\n]+)\*\*: (.+?)\.?$", re.MULTILINE)
_PLACE = re.compile(r"`([^`\s:]+):\d+`")
_HEADING = re.compile(r"^#{1,3} +(.+?)\s*$")


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of the work: what to ask a subagent, and a few words for people who watch."""

    title: str
    prompt: str


def delegated(conversation: Conversation) -> Step | None:
    """The subagents to start; None once they were asked or the work must end."""
    if conversation.must_finish or any(done.name == "subagent" for done in conversation.done):
        return None
    wanted = [conversation.call("environment_detect")]
    kind = "explore" if "explore" in conversation.agent_types else conversation.agent_types[0]
    pieces = _pieces(conversation.request)
    for piece in pieces:
        wanted.append(conversation.call("subagent", agent_type=kind, prompt=piece.prompt, title=piece.title))
    saying = (
        "I am the offline model: I follow fixed rules and do not understand the request as a language model would. "
        f"My plan: {len(pieces)} `{kind}` subagents look at the workspace side by side, one for "
        f"{pieces[0].title.lower()}, one for {pieces[1].title.lower()}; then I put together what they found."
    )
    return Step(saying, tuple(call for call in wanted if call is not None))


def _pieces(request: str) -> tuple[Piece, Piece]:
    terms = () if is_overview(request) else terms_of(request)
    structure = Piece(
        "Structure and entry points",
        "Find the structure of this workspace: its layout, its build files, and the entry points where its programs "
        f"begin. Report paths with lines, and counts. {_asked(request)}",
    )
    if not terms:
        return structure, Piece(
            "What the code does",
            "Find what the code does: its purpose, its main modules and what each of them is for, its tests and its "
            f"documentation. Report paths, names and counts. {_asked(request)}",
        )
    named = ", ".join(f"`{term}`" for term in terms)
    places = Piece(
        f"Where {terms[0]} is", f"Look up {named}. Report where each is mentioned, as path:line with the line."
    )
    return places, structure


def _asked(request: str) -> str:
    return f'{REASON} "{" ".join(request.split())[:300]}"'


def answer(conversation: Conversation) -> str:
    """The final answer, out of the subagents' reports and the master's own results alone."""
    asked = [done for done in conversation.done if done.name == "subagent"]
    merged = _merged([done for done in asked if not done.is_error])
    foreign = [text for done in asked if (text := _foreign(done))]
    parts = [f"# {_heading(merged, asked)}", HONEST, *_opening(merged)]
    for title in (*_ORDER, *(title for title in merged if title not in (*_ORDER, _LAST)), _LAST):
        if merged.get(title):
            parts.append("\n".join((f"## {title}", *merged[title])))
    parts.extend(foreign)
    parts.append(_sources(conversation, asked))
    return "\n\n".join(parts)


def _sections_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Titles with the list lines under them, as an explorer's report has them."""
    title, lines = "", list[str]()
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            yield title, lines
            title, lines = heading[1], []
        elif line.strip() and line.strip() != HONEST:
            lines.append(line.rstrip())
    yield title, lines


def _is_ours(text: str) -> bool:
    return HONEST in text


def _merged(reports: list[Done]) -> dict[str, list[str]]:
    """The sections of all explorers' reports, equal titles joined, a line that two of them have told once."""
    merged: dict[str, list[str]] = {}
    for done in reports:
        for title, lines in _sections_of(done.content) if _is_ours(done.content) else ():
            kept = merged.setdefault(title, [])
            kept.extend(line for line in lines if line not in kept)
    merged.pop("", None)
    return merged


def _foreign(done: Done) -> str:
    """What a subagent of another kind wrote, or why it brought nothing, with the paths and counts it names."""
    if _is_ours(done.content) and not done.is_error:
        return ""
    title = str(done.arguments.get("title") or "One subagent")
    text = done.content.strip()
    cut = text if len(text) <= _FOREIGN_CHARACTERS else text[:_FOREIGN_CHARACTERS].rsplit("\n", 1)[0] + "\n…"
    if done.is_error:
        return f"## {title}: not finished\n{cut}"
    named = [f"`{path}`" for path in paths_in(text)[:12]] + list(dict.fromkeys(_COUNT.findall(text)))[:6]
    facts = f"\n\nNamed there: {', '.join(named)}." if named else ""
    return f"## {title}\n{cut}{facts}"


def _heading(merged: dict[str, list[str]], asked: list[Done]) -> str:
    named = re.search(r"\*\*([^*\n]+)\*\*", "\n".join([*merged.get("Purpose", ()), *merged.get("Build", ())]))
    if named:
        return f"{named[1]}: what is in this workspace"
    return "What is in this workspace" if merged or asked else "Nothing was found out"


def _opening(merged: dict[str, list[str]]) -> list[str]:
    """One paragraph: what it calls itself, how much there is, and where to begin reading."""
    called = _CALLED.search("\n".join(merged.get("Purpose", ())))
    size = next((line.removeprefix("- ") for line in merged.get("Layout", ()) if "file" in line), "")
    places = _PLACE.findall("\n".join(merged.get("Entry points", ()))) or paths_in(
        "\n".join(merged.get("Main modules", ()))
    )
    parts = (
        f"**{called[1]}** describes itself so: “{called[2]}”." if called else "",
        size,
        f"To understand it, begin reading at `{places[0]}`." if places else "",
    )
    return [sentence] if (sentence := " ".join(part for part in parts if part)) else []


def _sources(conversation: Conversation, asked: list[Done]) -> str:
    own = sorted({done.name for done in conversation.done if done.name != "subagent" and not done.is_error})
    finished = sum(not done.is_error for done in asked)
    said = f"From {finished} of {len(asked)} subagents" if asked else "From no subagent"
    beside = f", and {', '.join(f'`{name}`' for name in own)}" if own else ""
    return f"*{said}{beside}. What is not named here was not looked at.*"
