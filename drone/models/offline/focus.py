"""What a request is after, told from its words: structure, contents, or certain terms."""

from dataclasses import dataclass

from drone.models.offline.watch import Trade, trade_of
from mcc.rules.patterns import Pattern

REASON = "It is wanted to answer this:"
"""What stands between a subagent's task and the request behind it; the words after it are not the task."""

_ABOUT_CODE = Pattern(
    r"\b(?:repositor(?:y|ies)|repo|code ?base|code|project|workspace|packages?|modules?|sources?|architecture|program|"
    r"library|files?|director(?:y|ies)|folders?|implementation|tests?|readme|entry points?)\b",
    ignore_case=True,
)
_OVERVIEW = Pattern(
    r"\b(?:explain|describe|explore|summari[sz]e|document|overview|understand|tour|introduc\w+|walk me through|"
    r"what (?:is|does|are) (?:this|it|here|the (?:code|project|repo\w*|program|package|library|workspace))\b|"
    r"tell me about|inspect|survey|look (?:at|around))",
    ignore_case=True,
)
_GREETING = Pattern(
    r"\W*(?:hi|hello|hey|hallo|good (?:morning|day|evening)|thanks?|thank you|ping)(?:\s+\w+)?\W*$", ignore_case=True
)
_STRUCTURE = Pattern(r"\b(?:structure|entry points?|layout|build files?)\b", ignore_case=True)
_CONTENT = Pattern(r"\b(?:what the code does|main modules?|documentation)\b", ignore_case=True)
_REVIEW = Pattern(r"^\W*(?:please\s+|now\s+)*(?:review|audit|criti\w+)\b|\bcode review\b", ignore_case=True)
_SECURITY = Pattern(r"\b(?:security|vulnerabilit\w+|insecure)\b", ignore_case=True)
_QUOTED = Pattern(r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”")
_IDENTIFIER = Pattern(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+\(\))")
_WORD = Pattern(r"\pL{4,}")
_USUAL_WORDS = """
about above after again against also always another answer anything because been before being below
between both code codebase could describe directory does doing down during each every everything
example explain explore file files find first folder from function functions give have help here
implemented implementation inside into itself know language logic lines list look made make many module
modules more most much must name need only other over package part please program project quote repo
repository report request same search section should show side since some source sources such take
tell than that their them then there these they thing things this those through under understand
until upon used uses using very want were what when where which while will with within without work
works workspace would write written your
"""
_USUAL = frozenset(_USUAL_WORDS.split())


@dataclass(frozen=True, slots=True)
class Focus:
    """`trade`: the reader is a reviewer, and looks out for what such a one does."""

    structure: bool
    content: bool
    terms: tuple[str, ...] = ()
    trade: Trade = ""


def is_about_code(request: str) -> bool:
    """The request speaks of a repository, its code or its files, or asks for an overview of something at hand."""
    return bool(_ABOUT_CODE.search(request) or _OVERVIEW.search(request))


def focus_of(request: str, system: str = "") -> Focus:
    """What a survey has to bring. A request that names neither structure nor contents is searched for its terms.

    A reviewer, as the system prompt or the request has it, looks for what the request quotes or calls by name only.
    """
    request = request.split(REASON, 1)[0]
    trade = trade_of(system) or _trade_asked(request)
    if trade:
        return Focus(structure=False, content=False, terms=_called(request), trade=trade)
    structure, content = bool(_STRUCTURE.search(request)), bool(_CONTENT.search(request))
    if structure or content:
        return Focus(structure, content)
    terms = () if is_overview(request) else terms_of(request)
    return Focus(structure=not terms, content=not terms, terms=terms)


def is_greeting(request: str) -> bool:
    """A few words that ask for nothing."""
    return bool(_GREETING.match(request))


def is_overview(request: str) -> bool:
    """A request for the whole picture; one that names an identifier or quotes something is after that instead."""
    return bool(_OVERVIEW.search(request)) and not _QUOTED.search(request) and not _IDENTIFIER.search(request)


def terms_of(request: str, most: int = 4) -> tuple[str, ...]:
    """What to search for: what the request quotes, else identifiers in it, else its uncommon words."""
    words = sorted({word.lower() for word in _WORD.findall(request)} - _USUAL, key=lambda word: (-len(word), word))
    return (_called(request) or tuple(words))[:most]


def _called(request: str, most: int = 4) -> tuple[str, ...]:
    """What the request quotes, else the identifiers in it."""
    quoted = [next(group for group in found.groups() if group) for found in _QUOTED.finditer(request)]
    named = [word.removesuffix("()") for word in _IDENTIFIER.findall(request)]
    return tuple(dict.fromkeys(quoted or named))[:most]


def _trade_asked(request: str) -> Trade:
    if _SECURITY.search(request):
        return "security"
    return "review" if _REVIEW.search(request) else ""
