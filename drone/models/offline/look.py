"""What the offline model is given: the request, read for what it asks, the tools, and the results of calls so far."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import Any, Literal, TypeAlias

from drone.agent.ports.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from drone.agent.ports.model import Ask, NodeForm, WantedCall
from drone.agent.ports.transcript import request_in
from mcc.contracts.fence import unfenced
from mcc.rules.patterns import Pattern

WishKind: TypeAlias = Literal[
    "nothing", "greeting", "call", "explain", "parts", "code", "review", "security", "about", "find"
]
"""What is asked: nothing that a rule fits, a greeting, one tool call, a look at all of the workspace or at one half of
it, a review, a question about one subject, or where terms stand."""

READING = frozenset({"list_files", "find_files", "search_text", "read_file"})


@dataclass(frozen=True, slots=True)
class CallResult:
    """A tool call with its result."""

    name: str
    arguments: Mapping[str, Any]
    content: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class NextStep:
    """A reply: what it says, and calls that are independent of each other. `not_done`: no rule fits the request."""

    saying: str
    calls: tuple[WantedCall, ...] = ()
    not_done: bool = False


@dataclass(frozen=True, slots=True)
class RequestSoFar:
    """One turn: its request, the results of its calls, the tools. Prompts and notices of the runtime are not read."""

    request: str
    done: tuple[CallResult, ...]
    tools: Mapping[str, ToolSpec]
    must_finish: bool = False
    form: NodeForm | None = None

    def results(self, *names: str) -> tuple[CallResult, ...]:
        """Successful results of these tools, in the order of the calls."""
        return tuple(done for done in self.done if done.name in names and not done.is_error)

    def schema(self, tool: str, *path: str) -> Mapping[str, Any]:
        """The schema at this path of a tool's parameters; empty where there is none."""
        spec = self.tools.get(tool)
        return mapping_at(spec.parameters if spec else {}, "properties", *path)

    def call(self, name: str, **arguments: object) -> WantedCall | None:
        """A call of an available tool with those arguments that its schema has; None if the tool is missing or the same
        call was made before."""
        if name not in self.tools:
            return None
        known = self.schema(name)
        sent = {key: value for key, value in arguments.items() if key in known and value not in (None, "")}
        if any(done.name == name and dict(done.arguments) == sent for done in self.done):
            return None
        return WantedCall(name, sent)

    def step(self, saying: str, calls: Iterable[WantedCall | None]) -> NextStep | None:
        """The calls without repetitions; None if there are none."""
        kept: list[WantedCall] = []
        for call in calls:
            if call is not None and call not in kept:
                kept.append(call)
        return NextStep(saying, tuple(kept)) if kept else None


def mapping_at(place: object, *path: str) -> Mapping[str, Any]:
    """The mapping at this path; empty where there is none."""
    for key in path:
        place = place.get(key) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def read(ask: Ask) -> RequestSoFar:
    """The present turn. Without a hint, its request is the last message of a user that no tool call follows."""
    hint = ask.hint
    start = _start_of_turn(ask.messages)
    texts = (request_in(one.text) for one in ask.messages[start:] if isinstance(one, UserMessage))
    request = hint.task if hint and hint.task else next(texts, "")
    done = tuple(_call_results(ask.messages[start:]))
    last = ask.messages[-1] if ask.messages else None
    refused = isinstance(last, ToolResults) and all(one.is_error and one.name in READING for one in last.results)
    return RequestSoFar(
        request=request,
        done=done,
        tools={tool.name: tool for tool in ask.tools},
        must_finish=refused or (hint is not None and hint.must_finish),
        form=hint.form if hint else None,
    )


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Index of the turn's first message: a user's after a reply without calls, unless only notices follow."""
    for index in range(len(messages) - 1, 0, -1):
        before, message = messages[index - 1], messages[index]
        if isinstance(message, UserMessage) and isinstance(before, AssistantMessage) and not before.tool_calls:
            return index
    return 0


def _call_results(messages: Sequence[Message]) -> Iterator[CallResult]:
    arguments: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                arguments[call.call_id] = call.arguments if isinstance(call.arguments, Mapping) else {}
        elif isinstance(message, ToolResults):
            for result in message.results:
                content = unfenced(result.content)
                yield CallResult(result.name, arguments.get(result.call_id, {}), content, result.is_error)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks for. `terms`: words to look for; `subject`: what a question is about; `call`: a tool call."""

    kind: WishKind
    terms: tuple[str, ...] = ()
    subject: str = ""
    call: tuple[str, Mapping[str, str | bool]] | None = None

    @property
    def is_review(self) -> bool:
        return self.kind in ("review", "security")


REASON = "It is wanted to answer this:"
"""Separates a subagent's task from the request that it serves, which is not part of the task."""

_ASKS = r"(?:(?:please|can you|could you|would you|i want you to|just|now|then)\s+)*"
_POLITE = rf"^\W*{_ASKS}"
_END = r"\s*[.?!]*\s*$"
_TARGET = r"[`\"'“]?(?P<target>[^`\"'”\n]+?)[`\"'”]?"


def _words(source: str) -> Pattern:
    return Pattern(source, ignore_case=True)


_CHANGES = _words(
    rf"(?:^|[.;!?:]\s+|\b(?:and|then)\s+)\W*{_ASKS}(?:write|create|implement|fix|add|translate|refactor|rename|delete|"
    r"remove|port|convert|change|replace|commit|push|install|deploy|migrate|upgrade|edit|modify|generate|rewrite|move|"
    r"insert|append|save|send|download|merge|repair|solve|optimi[sz]e|format|build|run|execute|test|update|make|"
    r"document|compute|calculate|set)\b"
)
_OPINION = _words(
    r"\b(?:no|not|without|why|should|shall|better|best|worse|wrong|correct|missing|lacks?|compare[ds]?|differ\w*|"
    r"improve\w*|instead|if|would|could|faster|slow\w*)\b"
)
"""Words that ask for more than a description of what is there."""
_COURTESY = _words(r"\b(?:could|would) you\b")
_GREETING = _words(
    r"\W*(?:hi|hello|hey|hallo|good (?:morning|day|evening)|thanks?|thank you|ping|help|who are you|"
    r"what (?:can|do) you do)(?:\s+\w+)?\W*$"
)
_REVIEW = _words(rf"{_POLITE}(?:review|audit|criti\w+)\b|\bcode review\b")
_SECURITY = _words(r"\b(?:security|vulnerabilit\w+|insecure)\b")
_DESCRIBES = _words(
    r"\b(?:explain|describe|explore|summari[sz]e|overview|understand|tour|introduc\w+|walk me through|tell me about|"
    r"inspect|survey|look(?:ing)? (?:at|around)|find|get to know|analy[sz]e|outline|what|how|where|which|structure)\b"
)
_WORKSPACE = _words(
    r"\b(?:repositor(?:y|ies)|repo|code ?base|code|project|workspace|packages?|modules?|sources?|architecture|program|"
    r"library|files?|director(?:y|ies)|folders?|tree|app(?:lication)?|readme|layout|structure|this|here)\b"
)
_LOOKUP = _words(
    rf"{_POLITE}(?:where\b|which (?:files?|lines?|functions?|class\w*|modules?)\b|who (?:calls|uses|imports)\b|find\b|"
    r"locate\b|look (?:up|for)\b|search\b|grep\b|show (?:me )?(?:all )?(?:uses|places|mentions)\b)"
)
_RUNNERS = r"\b(pytest|unittest|tox|nox|ctest|jest|vitest|rspec|phpunit)\b|\bruns? .{0,30}\btests\b"
SUBJECTS: Mapping[str, tuple[Pattern, str]] = {
    "tests": (_words(r"\b(?:tests?|tested|testing)\b"), rf"\b(make|npm|yarn|go|cargo|mvn) (run )?test\b|{_RUNNERS}"),
    "building": (_words(r"\b(?:buil[dt]|building|install\w*|set up)\b"), r"\b(build|install|compile|set ?up)\b"),
    "starting": (_words(r"\b(?:starts?|run|runs|launch|begins?|entry points?)\b"), r"\b(run|start|launch|serve)\b"),
    "documentation": (_words(r"\b(?:documentation|docs|documented)\b"), r"\b(docs?|documentation)\b"),
    "licence": (_words(r"\blicen[cs]ed?\b"), r"\blicen[cs]e\b"),
}
"""What questions may be about: how a question names it, and the lines that speak of it (RE2, case ignored)."""

_QUOTED = Pattern(r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”")
_IDENTIFIER = Pattern(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+\(\))")
_WORD = Pattern(r"\pL{4,}")
_USUAL = """
about above after again also answer anything because been before call called calls code could defined definition does
each every everything explain file files find first from function functions give have help here implemented into know
lines list look made make many mention mentioned mentions module modules more most much must name need only other over
please program project read repository search show some source sources tell than that their them then there these they
thing things this those through used uses using very want what when where which while will with workspace would write
"""
_LIST = _words(
    rf"{_POLITE}(?:list|show|which are)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files|director(?:y|ies)|folders?)"
    rf"(?:\s+(?:in|of|under)\s+(?:the\s+|this\s+)?{_TARGET})?{_END}"
)
_READ = _words(
    rf"{_POLITE}(?:read|show|open|print|cat|display|what is in|what's in|what does)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?"
    rf"{_TARGET}(?:\s+(?:say|contain))?{_END}"
)
_SEARCH = _words(rf"{_POLITE}(?:search(?:\s+the\s+\w+)?\s+for|search|grep(?:\s+for)?|look\s+for)\s+{_TARGET}{_END}")
_FIND = _words(rf"{_POLITE}find\s+(?:the\s+|all\s+)?(?:files?\s+)?(?:named\s+|called\s+)?{_TARGET}{_END}")
_HERE = frozenset({"", "workspace", "repository", "repo", "project", "here", "root", "directory", "current directory"})
_LONGEST_CALL = 160
_SUFFIX = Pattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
_BARE = frozenset({"Dockerfile", "Makefile", "Gemfile", "Rakefile", "Justfile", "LICENSE", "README", "CHANGELOG"})
_HALVES: Mapping[str, WishKind] = {"Map": "parts", "Describe": "code"}


def wish_of(request: str) -> Wish:
    """What the words of a request ask for; kind `nothing` if no rule fits."""
    task = " ".join(request.split(REASON, 1)[0].split())
    if _GREETING.match(task):
        return Wish("greeting")
    if len(task) <= _LONGEST_CALL and (call := _single_call(task)) is not None:
        return Wish("call", call=call)
    if _CHANGES.search(task):
        return Wish("nothing")
    terms = quoted_or_identifiers(task)
    if _SECURITY.search(task):
        return Wish("security", terms)
    if _REVIEW.search(task):
        return Wish("review", terms)
    subject = next((name for name, (asked, _) in SUBJECTS.items() if asked.search(task)), "")
    if REASON in request:
        return Wish(_HALVES.get(task.partition(" ")[0], "code"))
    if _LOOKUP.match(task) and (found := terms or (() if subject else terms_of(task))):
        return Wish("find", found)
    if (
        named_path(task)
        or _QUOTED.search(task)
        or _OPINION.search(_COURTESY.sub("", task))
        or not _DESCRIBES.search(task)
    ):
        return Wish("nothing")
    if subject and not task.lower().startswith(("explain", "describe", "explore")):
        return Wish("about", subject=subject)
    return Wish("explain") if _WORKSPACE.search(task) else Wish("nothing")


def _single_call(plain: str) -> tuple[str, Mapping[str, str | bool]] | None:
    if found := _LIST.match(plain):
        target = (found["target"] or "").strip()
        return "list_files", {} if target.lower() in _HERE else {"path": target}
    if (found := _READ.match(plain)) and looks_like_path(found["target"]):
        return "read_file", {"path": found["target"]}
    if (found := _FIND.match(plain)) and ("*" in found["target"] or looks_like_path(found["target"])):
        return "find_files", {"pattern": found["target"] if "/" in found["target"] else f"**/{found['target']}"}
    if (found := _SEARCH.match(plain)) and not looks_like_path(found["target"]):
        return "search_text", {"pattern": found["target"], "literal": True, "case_sensitive": False}
    return None


def looks_like_path(word: str) -> bool:
    name = basename(word.rstrip("/"))
    if not name or name in (".", "..") or " " in word or any(mark in word for mark in ("//", "*", "\n")):
        return False
    return word.endswith("/") or bool(_SUFFIX.search(name)) or name in _BARE or "/" in word


def named_path(request: str) -> str:
    """The first word that looks like a file's path; empty if none does."""
    words = (word.strip("`\"'“”,.?!:;()") for word in request.split())
    return next((word for word in words if looks_like_path(word)), "")


def quoted_or_identifiers(request: str, most: int = 4) -> tuple[str, ...]:
    """Quoted terms in the request, else identifiers."""
    quoted = [next(group for group in found.groups() if group) for found in _QUOTED.finditer(request)]
    named = [word.removesuffix("()") for word in _IDENTIFIER.findall(request)]
    return tuple(dict.fromkeys(quoted or named))[:most]


def terms_of(request: str, most: int = 4) -> tuple[str, ...]:
    """Terms to search for: quoted ones, else identifiers, else uncommon words."""
    words = sorted(
        {word.lower() for word in _WORD.findall(request)} - set(_USUAL.split()), key=lambda word: (-len(word), word)
    )
    return (quoted_or_identifiers(request) or tuple(words))[:most]
