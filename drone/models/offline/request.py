"""Classifies a request by its words: a single tool call, a look at the workspace, or neither."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from drone.models.offline.tool_output import looks_like_path
from mcc.rules.patterns import Pattern

ReviewKind: TypeAlias = Literal["", "review", "security"]
"""The agent's kind of review, from its system prompt or the request; empty for an explorer."""

REASON = "It is wanted to answer this:"
"""Separates a subagent's task from the original request quoted after it, which is not part of the task."""

_POLITE = r"(?:please\s+|can you\s+|could you\s+|would you\s+|i want you to\s+|just\s+|now\s+|then\s+)*"
_COURTESY = Pattern(r"\b(?:could|would) you\b", ignore_case=True)
_CHANGE_VERBS = (
    "write|create|implement|fix|add|translate|refactor|rename|delete|remove|port|convert|change|replace|commit|push|"
    "install|deploy|migrate|upgrade|edit|modify|generate|rewrite|move|insert|append|save|send|download|merge|repair|"
    "solve|optimi[sz]e|format"
)
_CHANGES = Pattern(
    rf"(?:^|[.;!?:]\s+)\W*{_POLITE}(?:{_CHANGE_VERBS}|build|run|execute|test|update|make|document|compute|calculate|set)\b"
    rf"|\b(?:and|then)\s+(?:then\s+)?(?:{_CHANGE_VERBS})\b",
    ignore_case=True,
)
_THINGS = (
    r"(?:repositor(?:y|ies)|repo|code ?base|code|project|workspace|packages?|modules?|sources?|architecture|program|"
    r"library|files?|director(?:y|ies)|folders?|tree|app(?:lication)?|parts|tests?|readme|entry points?|layout|"
    r"structure|imports?|dependenc(?:y|ies)|everything)"
)
_THIS = Pattern(
    rf"\b(?:this|the|that|whole|entire|my|our|it|here)\b(?:\s+\S+){{0,2}}?\s*\b{_THINGS}\b", ignore_case=True
)
_ABOUT = Pattern(rf"\b{_THINGS}\b|\b(?:this|here|it)\b", ignore_case=True)
_ASKS_DESCRIPTION = Pattern(
    r"\b(?:explain|describe|explore|summari[sz]e|overview|understand|tour|introduc\w+|walk me through|tell me about|"
    r"inspect|survey|look(?:ing)? (?:at|around)|get to know|analy[sz]e|outline|"
    r"what(?:'s| is| does| do| are| can| tests)"
    r"|how (?:is|are|do|does|to|can|many|much|big|large)|where (?:is|are|do|does|to)|which)\b",
    ignore_case=True,
)
_PARTS = Pattern(
    r"\b(?:structure|layout|entry points?|build files?|main modules?|what the code does|architecture|"
    r"depend(?:s|encies)? on|dependencies|organi[sz]ed|structured|built|tests?|start(?:s|ed)?|begin(?:s|ning)?)\b",
    ignore_case=True,
)
_ASKS_OPINION = Pattern(
    r"\b(?:no|not|without|why|should|shall|better|best|worse|wrong|correct|missing|lacks?|compare[ds]?|differ\w*|"
    r"improve\w*|instead|if|would|could|faster|slow\w*)\b",
    ignore_case=True,
)
"""Words that ask for more than a description of what is there."""

_GREETING = Pattern(
    r"\W*(?:hi|hello|hey|hallo|good (?:morning|day|evening)|thanks?|thank you|ping|help|who are you|"
    r"what (?:can|do) you do)(?:\s+\w+)?\W*$",
    ignore_case=True,
)
_REVIEW = Pattern(rf"^\W*{_POLITE}(?:review|audit|criti\w+)\b|\bcode review\b", ignore_case=True)
_SECURITY = Pattern(r"\b(?:security|vulnerabilit\w+|insecure)\b", ignore_case=True)
_REVIEWER = Pattern(
    r"\byou\b[^.\n]{0,80}?\b(?P<security>security|vulnerabilit)|\byou\b[^.\n]{0,80}?\breview", ignore_case=True
)
_LOOKUP = Pattern(
    rf"^\W*{_POLITE}(?:where\b|which (?:files?|lines?|functions?|class\w*|modules?)\b|who (?:calls|uses|imports)\b|"
    r"find\b|locate\b|look (?:up|for)\b|search\b|grep\b|show (?:me )?(?:all )?(?:uses|places|mentions)\b)",
    ignore_case=True,
)
_QUOTED = Pattern(r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”")
_IDENTIFIER = Pattern(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+\(\))")
_WORD = Pattern(r"\pL{4,}")
_USUAL_WORDS = """
about above after again against also always another answer anything because been before being below between both
call called calls code codebase could defined definition describe directory does doing down during each every
everything example explain explore file files find first folder from function functions give have help here
implementation implemented inside into itself know language lines list locate logic look made make many mention
mentioned mentions module modules more most much must name need only other over package part parts please program
project quote repo report repository request same search section should show side since some source sources such
take tell than that their them then there these they thing things this those through under understand until upon
used uses using very want were what when where which while will with within without work works workspace would
write written your
"""
_USUAL = frozenset(_USUAL_WORDS.split())

_ASKED = r"^\s*(?:please\s+|can you\s+|could you\s+|just\s+)*"
_TARGET = r"[`\"'“]?(?P<target>[^`\"'”\n]+?)[`\"'”]?"
_LIST = Pattern(
    _ASKED + r"(?:list|show|which are)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files|director(?:y|ies)|folders?)"
    rf"(?:\s+(?:in|of|under)\s+(?:the\s+)?{_TARGET})?\s*[.?!]*\s*$",
    ignore_case=True,
)
_READ = Pattern(
    _ASKED + r"(?:read|show|open|print|cat|display|what is in|what's in|what does)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?"
    rf"{_TARGET}(?:\s+(?:say|contain))?\s*[.?!]*\s*$",
    ignore_case=True,
)
_SEARCH = Pattern(
    _ASKED + rf"(?:search(?:\s+the\s+\w+)?\s+for|search|grep(?:\s+for)?|look\s+for)\s+{_TARGET}\s*[.?!]*\s*$",
    ignore_case=True,
)
_FIND = Pattern(
    _ASKED + rf"find\s+(?:the\s+|all\s+)?(?:files?\s+)?(?:named\s+|called\s+)?{_TARGET}\s*[.?!]*\s*$", ignore_case=True
)
_HERE = frozenset({"workspace", "repository", "repo", "project", "here", "root", "current directory", "this directory"})
_LONGEST_ERRAND = 160


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A request answered by a single tool: its name and arguments."""

    tool: str
    arguments: tuple[tuple[str, str | bool | int], ...]


@dataclass(frozen=True, slots=True)
class Focus:
    """What to look for in the workspace: all of it, mentions of `terms`, or what a reviewer of this `review` looks for.

    `structure` and `content` are the two halves of the whole picture; a subagent may be asked for one of them.
    """

    structure: bool = False
    content: bool = False
    terms: tuple[str, ...] = ()
    review: ReviewKind = ""


def is_greeting(request: str) -> bool:
    """A few words that ask for nothing, or for what can be asked."""
    return bool(_GREETING.match(request))


def tool_request_of(request: str) -> ToolRequest | None:
    """The single tool call that answers the request; None if there is none."""
    plain = " ".join(request.split())
    if len(plain) > _LONGEST_ERRAND:
        return None
    if found := _LIST.match(plain):
        target = (found["target"] or "").strip()
        return ToolRequest("list_files", () if target.lower() in ("", *_HERE) else (("path", target),))
    if (found := _READ.match(plain)) and looks_like_path(found["target"]):
        return ToolRequest("read_file", (("path", found["target"]),))
    if (found := _FIND.match(plain)) and ("*" in found["target"] or looks_like_path(found["target"])):
        pattern = found["target"] if "/" in found["target"] else f"**/{found['target']}"
        return ToolRequest("find_files", (("pattern", pattern),))
    if (found := _SEARCH.match(plain)) and not looks_like_path(found["target"]):
        return ToolRequest("search_text", (("pattern", found["target"]), ("literal", True), ("case_sensitive", False)))
    return None


def focus_of(request: str, system: str = "") -> Focus | None:
    """What to look at; None if no rule can fulfil the request.

    A reviewer, according to system prompt or request, looks only for terms that the request quotes or that are
    identifiers.
    """
    task = " ".join(request.split(REASON, 1)[0].split())
    if _CHANGES.search(task):
        return None
    review = _review_kind_of(system) or (
        "security" if _SECURITY.search(task) else "review" if _REVIEW.search(task) else ""
    )
    if review:
        return Focus(terms=quoted_or_identifiers(task), review=review)
    if _LOOKUP.match(task) and (
        terms := quoted_or_identifiers(task) or (() if _PARTS.search(task) else terms_of(task))
    ):
        return Focus(terms=terms) if len(task) <= _LONGEST_ERRAND or quoted_or_identifiers(task) else None
    return _halves(request, task) if _is_overview(task) else None


def _is_overview(task: str) -> bool:
    """Whether the task asks about the workspace as a whole, rather than about a quoted term or a named file."""
    if named_path(task) or _QUOTED.search(task) or _ASKS_OPINION.search(_COURTESY.sub("", task)):
        return False
    if not (_ASKS_DESCRIPTION.search(task) or _PARTS.search(task)) or not _ABOUT.search(task):
        return False
    return bool(_THIS.search(task)) or not _IDENTIFIER.search(task)


def _halves(request: str, task: str) -> Focus:
    """Both halves, unless the task is one half given to a subagent."""
    if REASON not in request:
        return Focus(structure=True, content=True)
    structure = "structure" in task
    return Focus(structure=structure, content=not structure)


def named_path(request: str) -> str:
    """The first word that looks like a file path; empty if none does."""
    words = (word.strip("`\"'“”,.?!:;()") for word in request.split())
    return next((word for word in words if looks_like_path(word)), "")


def quoted_or_identifiers(request: str, most: int = 4) -> tuple[str, ...]:
    """Quoted terms in the request, else identifiers."""
    quoted = [next(group for group in found.groups() if group) for found in _QUOTED.finditer(request)]
    named = [word.removesuffix("()") for word in _IDENTIFIER.findall(request)]
    return tuple(dict.fromkeys(quoted or named))[:most]


def terms_of(request: str, most: int = 4) -> tuple[str, ...]:
    """Terms to search for: quoted ones, else identifiers, else uncommon words."""
    words = sorted({word.lower() for word in _WORD.findall(request)} - _USUAL, key=lambda word: (-len(word), word))
    return (quoted_or_identifiers(request) or tuple(words))[:most]


def _review_kind_of(system: str) -> ReviewKind:
    """The kind of review that the beginning of a system prompt assigns to its agent."""
    found = _REVIEWER.search(system[:600])
    return "" if found is None else "security" if found["security"] else "review"
