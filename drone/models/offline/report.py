"""What the offline model says of a workspace: findings that quote what was read, as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drone.models.offline.look import SUBJECTS, Wish
from drone.models.offline.search import TEST_LIBRARIES, WATCHES, FilesSurvey, SourceLine, is_test, language_of
from mcc.rules.patterns import Pattern

HONEST = (
    "The offline model read this by fixed rules; no language model was asked. It quotes what stands there, and judges "
    "nothing."
)
_MOST_QUOTED = 220
_PER_WATCH = 3
_ABOUT_LINES, _ABOUT_PER_FILE = 6, 3
_MOST_PLACES = 12
_MANIFEST = Pattern(
    r"^\s*\"?(?:(?P<name>name|module)|(?P<said>description))\"?\s*[=: ]\s*\S|^\s*[\w-]+ = \"[\w.]+:\w+\"|^\s*\"bin\":"
)
_COMMENT = Pattern(r"^\s*(?:\"\"\"|'''|#(?:[^!]|$)|//|/\*|\*|--|;)[\s*/#!]*\pL")
_MARKS = " \t\"'#/*-;!"
_LEGAL = Pattern(r"copyright|licen[cs]e|spdx|coding[:=]|eslint|\bnoqa\b", ignore_case=True)
_DEFINES = Pattern(
    r"^(?:export |pub(?:\([a-z]+\))? |public |async |static |default )*"
    r"(?P<kind>class|def|fn|func|function|struct|enum|trait|interface|type|defmodule)\s+(?:\([^)]*\)\s*)?"
    r"(?P<name>[A-Za-z]\w*)"
)
_NO_PROSE = ("#", "[", "!", "<", "=", "-", "*", "|", "`", ".. ")


@dataclass(frozen=True, slots=True)
class QuotedFinding:
    """`quote` stands word for word at `line` of `path`, where `…` may stand for an end that is left out."""

    title: str
    path: str = ""
    line: int = 0
    quote: str = ""
    severity: str = "info"

    @property
    def evidence(self) -> str:
        place = f"`{self.path}:{self.line}`" if self.line else f"`{self.path}`" if self.path else ""
        return ": ".join(filter(None, (place, f"“{self.quote}”" if self.quote else "")))


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """A result; `report` is the whole of it as Markdown. `blocked`: nothing could be found out."""

    summary: str
    report: str
    findings: tuple[QuotedFinding, ...] = ()
    read: tuple[str, ...] = ()
    known: FilesSurvey = field(default_factory=FilesSurvey)
    blocked: bool = False


def facts_of(known: FilesSurvey, wish: Wish) -> ReportFacts:
    """What the survey shows of what was asked."""
    findings = tuple(_findings(known, wish))
    blocked = bool(known.problems) and not (known.files or known.pages or findings)
    if blocked:
        said = f"Nothing could be found out: {'; '.join(known.problems[:3])}"
    elif wish.kind in ("about", "find"):
        said = _told(known, wish)
    else:
        said = _counted(known)
        said += " Nothing of what I search for was found." if wish.is_review and not findings else ""
    report = "\n\n".join((f"*{HONEST}*", said, *grouped(findings)))
    return ReportFacts(f"{HONEST} {said}", report, findings, tuple(known.pages), known, blocked)


def _told(known: FilesSurvey, wish: Wish) -> str:
    """Whether lines were found, and how many of them are quoted."""
    what = wish.subject or ", ".join(f"“{term}”" for term in wish.terms)
    what = "say how tests are run" if what == "tests" else f"speak of {what}"
    places, most = _places_of(known, wish), _ABOUT_LINES if wish.subject else _MOST_PLACES
    lines = known.hits.get(SUBJECTS[wish.subject][1], ()) if wish.subject else places
    quotes = f", {most} of {len(lines)} are quoted" if len(lines) > most else ""
    return f"Lines that {what}{quotes}:" if lines else f"I found no lines that {what}."


def _findings(known: FilesSurvey, wish: Wish) -> Iterator[QuotedFinding]:
    for watch in WATCHES.get(wish.kind, ()):
        lines = [line for line in known.hits.get(watch.pattern, ()) if not is_test(line.path)]
        for line in [one for one in lines if one.number in known.pages.get(one.path, {})][:_PER_WATCH]:
            quote = "" if watch.is_secret else quoted(line.text)
            yield QuotedFinding(watch.title, line.path, line.number, quote, watch.severity)
    if wish.kind in ("explain", "code"):
        for path in known.readmes[:1]:
            if (found := paragraph(known.pages.get(path, {}))) is not None:
                yield QuotedFinding("It says of itself", path, *found)
    if wish.kind in ("explain", "parts"):
        yield from _structure(known)
    if wish.kind in ("explain", "code"):
        yield from _modules(known)
        for line in known.imports[:_PER_WATCH]:
            yield QuotedFinding("Imports another of these files", line.path, line.number, quoted(line.text))
    if wish.subject or wish.kind in ("explain", "code"):
        yield from _about(known, wish.subject or "tests")
    for line in _places_of(known, wish)[:_MOST_PLACES]:
        yield QuotedFinding("Where it is mentioned", line.path, line.number, quoted(line.text))


def _counted(known: FilesSurvey) -> str:
    """How many files there are and in which languages, as far as listings say so."""
    count = known.total if known.total is not None else len(known.files)
    if not count:
        return "There are no files that can be listed."
    languages = ", ".join(f"{number} {name}" for name, number in known.languages[:4])
    among = f", among them {languages}" if languages else ""
    return f"{'' if known.whole else 'At least '}{count:,} file{'' if count == 1 else 's'}{among}."


def paragraph(page: Mapping[int, str]) -> tuple[int, str] | None:
    """The first paragraph of prose: the number of its first line, and its text."""
    lines: dict[int, str] = {}
    is_code = False
    for number, text in sorted(page.items()):
        plain = text.strip()
        is_code ^= plain.startswith("```")
        if lines and (not plain or is_code):
            break
        if set(plain) <= set("=-~^") and plain:
            lines.clear()  # what stood above was a heading
        elif plain and not is_code and (lines or not plain.startswith(_NO_PROSE)):
            lines[number] = plain
    return (min(lines), quoted(" ".join(lines.values()))) if lines else None


def _structure(known: FilesSurvey) -> Iterator[QuotedFinding]:
    for path in known.build_files:
        lines = ((number, text[:500]) for number, text in sorted(known.pages.get(path, {}).items()))
        for number, text, found in [(*line, found) for line in lines if (found := _MANIFEST.match(line[1]))][:5]:
            title = "It names itself" if found["name"] else "It says of itself" if found["said"] else "What it installs"
            yield QuotedFinding(title, path, number, quoted(text))
    for line in known.entries[:3]:
        if line.number in known.pages.get(line.path, {}):
            yield QuotedFinding("A program begins here", line.path, line.number, quoted(line.text))


def _modules(known: FilesSurvey) -> Iterator[QuotedFinding]:
    for path in known.central():
        page = known.pages.get(path, {})
        if (said := opening_line(page)) is not None:
            yield QuotedFinding("How a file begins", path, *said)
        if defined := definitions(path, page)[:4]:
            names = ", ".join(f"`{name}`" for name, _, _ in defined)
            yield QuotedFinding(f"Defines {names}", path, defined[0][1].number, quoted(defined[0][1].text))


def opening_line(page: Mapping[int, str]) -> tuple[int, str] | None:
    """The first line of the comment or docstring with which a file begins, without its marks; no legal notice."""
    for number, text in sorted(page.items())[:40]:
        plain = text[:500].strip(_MARKS)
        if _COMMENT.match(text[:500]) and not _LEGAL.search(text[:500]):
            return number, quoted(plain)
        if plain and not text.startswith("#!") and not _COMMENT.match(text[:500]):
            break
    return None


def definitions(path: str, page: Mapping[int, str]) -> list[tuple[str, SourceLine, str]]:
    """What a file defines at its top level: name, line, and keyword."""
    lines = (SourceLine(path, number, text) for number, text in sorted(page.items()))
    found = ((line, match) for line in lines if (match := _DEFINES.match(line.text[:500])))
    return [(str(match["name"]), line, str(match["kind"])) for line, match in found]


def _about(known: FilesSurvey, subject: str) -> Iterator[QuotedFinding]:
    """Lines of guides and build files that speak of the subject, those that quote a command first."""
    lines = known.hits.get(SUBJECTS[subject][1], ())
    kept: list[SourceLine] = []
    for line in sorted(lines, key=lambda line: (line.path.count("/"), "`" not in line.text)):
        if sum(one.path == line.path for one in kept) < _ABOUT_PER_FILE and len(kept) < _ABOUT_LINES:
            kept.append(line)
            title = "How tests are run" if subject == "tests" else f"Speaks of {subject}"
            yield QuotedFinding(title, line.path, line.number, quoted(line.text))
    for line in [one for one in known.hits.get(TEST_LIBRARIES, ()) if is_test(one.path)][:2]:
        yield QuotedFinding("What a test imports", line.path, line.number, quoted(line.text))
    if subject == "tests" and known.tests:
        few = ", ".join(f"`{path}`" for path in known.tests[:3])
        count = f"{len(known.tests)} file{' is' if len(known.tests) == 1 else 's are'} named like tests"
        yield QuotedFinding(f"{count}: {few}{', …' if len(known.tests) > 3 else ''}")


def _places_of(known: FilesSurvey, wish: Wish) -> list[SourceLine]:
    """Lines that mention a term: definitions first, then code, tests, prose."""

    def rank(line: SourceLine) -> tuple[bool, bool, bool]:
        found = _DEFINES.match(line.text.strip()[:500])
        return found is None or found["name"] not in wish.terms, not language_of(line.path), is_test(line.path)

    return sorted(dict.fromkeys(line for term in wish.terms for line in known.hits.get(term, ())), key=rank)


def quoted(text: str, most: int = _MOST_QUOTED) -> str:
    """The text on one line; what is too long ends with a whole word and `…`."""
    plain = " ".join(text[: 4 * most].split())
    return plain if len(plain) <= most else plain[: most - 1].rpartition(" ")[0] + "…"


def quoted_lines(text: str, most: int) -> str:
    """As many whole lines as fit."""
    return text if len(text) <= most else text[: most - 2].rpartition("\n")[0] + "\n…"


def grouped(findings: Sequence[QuotedFinding]) -> Iterator[str]:
    """Findings as Markdown, those of the same title together."""
    for title in dict.fromkeys(one.title for one in findings):
        ones = [one for one in findings if one.title == title]
        rank = f" ({ones[0].severity})" if ones[0].severity != "info" else ""
        yield "\n".join((f"**{title}**{rank}", *(f"- {one.evidence}" for one in ones if one.evidence)))
