"""Final results of the offline model as facts, from which forms are filled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drone.models.offline.conversation import CallResult, Conversation
from drone.models.offline.explore import Severity, Step, entry_files
from drone.models.offline.languages import languages_of
from drone.models.offline.report import HONEST, Section, report, sections, total_files
from drone.models.offline.request import Focus, ToolRequest
from drone.models.offline.survey import Survey
from drone.models.offline.tool_output import hits, listing, unique
from mcc.rules.patterns import Pattern

COMPLETED = "completed"
BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Finding:
    """`evidence`: Markdown lines; `paths`: files that were actually read; `place`: the first `(path, line)`."""

    title: str
    evidence: str
    paths: tuple[str, ...] = ()
    severity: Severity = "info"
    place: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """`read`: every file that was read, in order. `report`: the complete report as Markdown."""

    status: str
    summary: str
    report: str
    name: str = ""
    findings: tuple[Finding, ...] = ()
    steps: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    files: int | None = None
    languages: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def within(self, findings: int, characters: int) -> "Facts":
        """The same facts with at most this many findings and characters of evidence, and twice as many in other
        texts."""
        kept = tuple(replace(one, evidence=shortened(one.evidence, characters)) for one in self.findings[:findings])
        most = 2 * characters
        return replace(self, findings=kept, report=shortened(self.report, most), summary=shortened(self.summary, most))

    def blocked(self, why: str) -> "Facts":
        """The same facts as blocked, for a gate that refuses them as completed."""
        return replace(self, status=BLOCKED, summary=f"{self.summary} Not accepted as completed: {why}")


def shortened(text: str, characters: int) -> str:
    """`text`, or as many of its lines as fit, with a mark."""
    if len(text) <= characters:
        return text
    return text[:characters].rsplit("\n", 1)[0][: max(0, characters - 2)] + "\n…"


_PLACE = Pattern(r"`([^`\s:]+):(\d+)`")
_SHOWN_LINES = 200
_MOST_STEPS = 12
_MOST_FILES = 8
_MOST_LINES = 4
_MOST_SUMMARY = 3_000
_HONEST = HONEST.strip("*")


def facts_of(conversation: Conversation, known: Survey, focus: Focus) -> Facts:
    """Facts of a survey, all from tool results; blocked if nothing could be read."""
    found = sections(known, focus)
    findings = tuple(_finding(known, section) for section in found if section.kind == "finding")
    open_ends = tuple(line.removeprefix("- ") for section in found if section.kind == "open" for line in section.lines)
    on_the_way = tuple(line.removeprefix("- ") for section in found if section.kind == "step" for line in section.lines)
    return Facts(
        status=COMPLETED if findings or known.pages else BLOCKED,
        summary=_summary(known, found),
        report=report(known, focus),
        name=next((found.name for found in known.manifests if found.name), ""),
        findings=findings,
        steps=(*_steps(conversation), *on_the_way),
        next_actions=open_ends,
        read=tuple(known.pages),
        files=known.environment.files,
        languages=tuple(language.name for language, _ in languages_of(known.files)),
        entry_points=tuple(entry_files(known)[:10]),
        tests=known.tests[:20],
    )


def _finding(known: Survey, section: Section) -> Finding:
    evidence = "\n".join(section.lines)
    paths = tuple(path for path in known.pages if f"`{path}`" in evidence or f"`{path}:" in evidence)
    places = [
        (path, int(line)) for path, line in (found.groups() for found in _PLACE.finditer(evidence)) if path in paths
    ]
    if not places:
        return Finding(section.title, evidence, paths, section.severity)
    first = unique([places[0][0], *paths])
    return Finding(section.title, evidence, first, section.severity, places[0])


def _summary(known: Survey, found: Sequence[Section]) -> str:
    """What was read, and the first lines of each finding: a summary that stands on its own."""
    if not known.pages and not any(section.kind == "finding" for section in found):
        open_ends = [line.removeprefix("- ") for section in found for line in section.lines]
        return f"{_HONEST} Nothing could be found out: {'; '.join(open_ends[:3])}"
    findings = sorted((one for one in found if one.kind == "finding"), key=lambda one: one.severity == "info")
    shown = findings or [section for section in found if section.kind == "step"]
    files = ", ".join(f"`{path}`" for path in list(known.pages)[:_MOST_FILES])
    seen = f"{total_files(known)} seen" if known.files else "No listing"
    parts = [f"{_HONEST} {seen}; read: {files or 'none'}{' and more' if len(known.pages) > _MOST_FILES else ''}."]
    parts += [] if findings else ["Nothing was found."]
    parts += ["\n".join((f"**{section.title}**", *section.lines[:_MOST_LINES])) for section in shown]
    return shortened("\n\n".join(parts), _MOST_SUMMARY)


def _steps(conversation: Conversation) -> tuple[str, ...]:
    """What was done, one line per tool."""
    calls: dict[str, list[str]] = {}
    for done in conversation.done:
        if not done.is_error:
            calls.setdefault(done.name, []).append(
                str(done.arguments.get("path") or done.arguments.get("pattern") or "")
            )
    return tuple(_step(name, list(filter(None, of)), len(of)) for name, of in calls.items())[:_MOST_STEPS]


def _step(name: str, details: list[str], count: int) -> str:
    shown = ", ".join(details[:4]) + (", …" if len(details) > 4 else "")
    return f"{name} ×{count}" + (f": {shown}" if shown else "")


def tool_request_step(conversation: Conversation, errand: ToolRequest) -> Step | None:
    """The tool call, unless it was made already."""
    if conversation.must_finish or any(done.name == errand.tool for done in conversation.done):
        return None
    call = conversation.call(errand.tool, **dict(errand.arguments))
    return Step(f"I use `{errand.tool}` for this.", (call,)) if call else None


def tool_request_facts(conversation: Conversation, errand: ToolRequest) -> Facts:
    """The tool's result as a single finding."""
    text = _reported_call(conversation, errand)
    done = next((done for done in conversation.results(errand.tool)), None)
    if done is None:
        return Facts(status=BLOCKED, summary=text.removeprefix(HONEST).strip(), report=text)
    path = str(done.arguments.get("path") or "")
    read = (path,) if done.name == "read_file" else ()
    found = Finding(_call_summary(done).rstrip(":"), done.content, read)
    return Facts(status=COMPLETED, summary=found.title, report=text, findings=(found,), read=read)


def _reported_call(conversation: Conversation, errand: ToolRequest) -> str:
    """The tool's result: one line about it, then its text."""
    done = next((done for done in conversation.done if done.name == errand.tool), None)
    if done is None:
        return f"{HONEST}\n\nI would have used `{errand.tool}`, but had to stop before that."
    if done.is_error:
        return f"{HONEST}\n\n`{errand.tool}` refused: {done.content.strip()}"
    lines = done.content.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_SHOWN_LINES]) + ("\n…" if len(lines) > _SHOWN_LINES else "")
    fence = "````" if "```" in shown else "```"
    return f"{HONEST}\n\n{_call_summary(done)}\n\n{fence}\n{shown}\n{fence}"


def _call_summary(done: CallResult) -> str:
    if done.name == "search_text":
        found = hits(done.content)
        return (
            f"{len(found)} lines in {len({hit.path for hit in found})} files match “{done.arguments.get('pattern')}”:"
        )
    if done.name == "read_file":
        return f"`{done.arguments.get('path')}`:"
    found_files = listing(done.content)
    return f"{len(found_files.files)} files and {len(found_files.directories)} directories:"
