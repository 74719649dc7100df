"""The master's part: the work given to subagents, and one answer out of what they reported."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drone.models.offline.children import DELEGATION, Child, children_of
from drone.models.offline.conversation import FINISH, Conversation
from drone.models.offline.explore import Step
from drone.models.offline.facts import BLOCKED, COMPLETED, Facts, Finding, unique
from drone.models.offline.languages import is_source
from drone.models.offline.material import paths_in
from drone.models.offline.plan import calls_for
from drone.models.offline.report import HONEST
from drone.models.offline.request import focus_of
from drone.models.offline.watch import WATCHED
from mcc.rules.patterns import Pattern

_ORDER = (
    "Purpose",
    "How the parts depend on each other",
    "Read these first",
    "Entry points",
    "Build",
    "Tests",
    "Layout",
    "Documentation",
)
_LAST = "Not settled"
_HONEST = HONEST.strip("*")
_WORTH = "Worth a second look"
_LOOKED_OUT_FOR = frozenset(watch.title for watches in WATCHED.values() for watch in watches)
_FOREIGN_CHARACTERS = 4_000
_COUNT = Pattern(
    r"\b\d[\d,]* (?:[\w-]+ ){0,2}(?:files?|lines?|modules?|tests?|directories|packages?|functions?|classes)\b"
)
_CALLED = Pattern(r"calls it \*\*([^*\n]+)\*\*: (.+?)\.?$", lines=True)
_BOLD = Pattern(r"\*\*([^*\n]+)\*\*")
_HEADING = Pattern(r"^#{1,3} +(.+?)\s*$")
_AGAIN = (
    "Your result names no file, so nobody can check it. Read the files that it rests on, and report the same again "
    "with their paths."
)


def step_of(conversation: Conversation) -> Step | None:
    """The subagents to start or to ask again; None when there is nothing more to wait for."""
    if conversation.must_finish:
        return None
    if any(done.name in DELEGATION for done in conversation.done):
        return _asked_again(conversation)
    plan, calls = calls_for(conversation, conversation.request)
    told = ", ".join(f"`{role}` for “{piece.title.lower()}”" for role, piece in plan)
    saying = (
        "I am the offline model: I follow fixed rules and do not understand the request as a language model would. "
        f"My plan: {len(plan)} subagents look at the workspace side by side, {told}; then I put together what they "
        "found."
    )
    return Step(saying, tuple(call for call in (conversation.call("environment_detect"), *calls) if call is not None))


def _asked_again(conversation: Conversation) -> Step | None:
    """One subagent gets one more chance where its answer names no file that somebody could look at."""
    if any(done.name == "subagent_send" for done in conversation.done):
        return None
    for child in children_of(conversation):
        if child.record_id and child.is_thin and not child.failed:
            call = conversation.call("subagent_send", record_id=child.record_id, message=_AGAIN)
            return Step(f"“{child.title}” names no file; I ask the same subagent for them.", (call,)) if call else None
    return None


@dataclass(slots=True)
class _Merged:
    """The sections of the answer: lines by title, equal titles joined, a line that two of them have told once."""

    sections: dict[str, list[str]] = field(default_factory=dict)

    def add(self, title: str, lines: Sequence[str]) -> None:
        kept = self.sections.setdefault(title, [])
        kept.extend(line for line in lines if line not in kept)

    def text(self, title: str) -> str:
        return "\n".join(self.sections.get(title, ()))

    def ordered(self, *first: str) -> Iterator[str]:
        others = [title for title in self.sections if title not in (*_ORDER, _WORTH, _LAST)]
        for title in dict.fromkeys((*first, *_ORDER, *others, _WORTH, _LAST)):
            if self.sections.get(title):
                yield f"## {title}\n{self.text(title)}"


def answer(conversation: Conversation) -> str:
    """The final answer, out of the subagents' reports and the master's own results alone."""
    children = children_of(conversation)
    merged = _merged(children)
    foreign = [text for child in children if (text := _foreign(child))]
    focus = focus_of(conversation.request)
    first = (_WORTH,) if focus and focus.trade else ()
    parts = [f"# {_heading(merged, children)}", HONEST, *_opening(merged), *merged.ordered(*first), *foreign]
    return "\n\n".join([*parts, _sources(conversation, children)])


def facts_of(conversation: Conversation) -> Facts:
    """The same for a form: every child's findings, by severity."""
    children, report = children_of(conversation), answer(conversation)
    graver = {"error": 0, "warning": 1, "info": 2}
    found = sorted((one for child in children for one in child.findings), key=lambda one: graver[one.severity])
    texts = (Finding(child.title, child.text, paths_in(child.text)[:12]) for child in children if not child.findings)
    findings = (*found, *(one for one in texts if one.evidence))
    paragraphs = [part for part in report.split("\n\n") if not part.startswith(("#", HONEST))]
    return Facts(
        status=COMPLETED if any(not child.failed for child in children) else BLOCKED,
        summary=f"{_HONEST} {paragraphs[0] if paragraphs else 'No subagent brought anything.'}",
        report=report,
        findings=findings,
        steps=tuple(f"{child.title}: {'not finished' if child.failed else 'done'}" for child in children),
        next_actions=unique([one for child in children for one in child.next_actions]),
        read=unique([path for one in findings for path in one.paths]),
    )


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


def _merged(children: Sequence[Child]) -> _Merged:
    merged = _Merged()
    for child in children:
        if not child.findings and not child.failed and _HONEST in child.text and HONEST not in child.text:
            merged.add(child.title, child.text.replace(_HONEST, "").strip().splitlines())
        elif not child.findings and HONEST in child.text:
            for title, lines in _sections_of(child.text):
                if title:
                    merged.add(title, lines)
        for one in child.findings:
            if one.severity == "info" and one.title not in _LOOKED_OUT_FOR:
                merged.add(one.title, one.evidence.splitlines())
            else:
                merged.add(_WORTH, [f"- **{one.title}**{_graver(one)}", *_indented(one.evidence)])
        merged.add(_LAST, [f"- {one}" for one in child.next_actions])
    return merged


def _graver(one: Finding) -> str:
    return "" if one.severity == "info" else f" ({one.severity})"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _foreign(child: Child) -> str:
    """What a subagent of another kind wrote, or why it brought nothing, with the paths and counts it names."""
    if not child.failed and (child.findings or _HONEST in child.text):
        return ""
    text = child.text
    cut = text if len(text) <= _FOREIGN_CHARACTERS else text[:_FOREIGN_CHARACTERS].rsplit("\n", 1)[0] + "\n…"
    if child.failed:
        return f"## {child.title}: not finished\n{cut}"
    named = [f"`{path}`" for path in paths_in(text)[:12]] + list(dict.fromkeys(_COUNT.findall(text)))[:6]
    facts = f"\n\nNamed there: {', '.join(named)}." if named else ""
    return f"## {child.title}\n{cut}{facts}"


def _heading(merged: _Merged, children: Sequence[Child]) -> str:
    named = _BOLD.search(f"{merged.text('Purpose')}\n{merged.text('Build')}")
    if named:
        return f"{named[1]}: what is in this workspace"
    return "What is in this workspace" if merged.sections or children else "Nothing was found out"


def _opening(merged: _Merged) -> list[str]:
    """One paragraph: what it calls itself, how much there is, and where to begin reading."""
    called = _CALLED.search(merged.text("Purpose"))
    size = next((line.removeprefix("- ") for line in merged.text("Layout").splitlines() if "file" in line), "")
    read = (line for line in merged.text("Read these first").splitlines() if not line.endswith(": a test"))
    places = [path for line in read for path in paths_in(line)[:1] if is_source(path)]
    parts = (
        f"**{called[1]}** describes itself so: “{called[2]}”." if called else "",
        size,
        f"To understand it, begin reading at `{places[0]}`." if places else "",
    )
    return [sentence] if (sentence := " ".join(part for part in parts if part)) else []


def _sources(conversation: Conversation, children: Sequence[Child]) -> str:
    used = {done.name for done in conversation.done if done.name not in DELEGATION and not done.is_error}
    own = sorted(used - {*FINISH})
    finished = sum(not child.failed for child in children)
    said = f"From {finished} of {len(children)} subagents" if children else "From no subagent"
    beside = f", and {', '.join(f'`{name}`' for name in own)}" if own else ""
    return f"*{said}{beside}. What is not named here was not looked at.*"
