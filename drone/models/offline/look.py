"""What the offline model is given: the request, read for what it asks, the tools, and the results of calls so far."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from posixpath import basename
from typing import Any, Literal, TypeAlias

from drone.agent.ports.model import Ask, NodeForm, WantedCall
from mcc.contracts.fence import unfenced
from mcc.rules.patterns import Pattern
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from mcc.transcript.transcript import request_in

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
    for index, (before, message) in reversed([*enumerate(pairwise(messages), 1)]):
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
    call: tuple[str, Mapping[str, str]] | None = None

    @property
    def is_review(self) -> bool:
        return self.kind in ("review", "security")


REASON = "It is wanted to answer this:"
"""Separates a subagent's task from the request that it serves, which is not part of the task."""

_ASKS = r"(?:(?:please|can you|could you|would you|i want you to|just|now|then|and|also|so|but|ok(?:ay)?),?\s+)*"
_POLITE = rf"^\W*{_ASKS}"
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
_LIST = _words(
    rf"{_POLITE}(?:list|show|which are)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files|director(?:y|ies)|folders?)"
    rf"(?:\s+(?:in|of|under)\s+(?:the\s+|this\s+)?{_TARGET})?\s*[.?!]*\s*$"
)
_READ = _words(
    rf"{_POLITE}(?:read|show|open|print|cat|display|what is in|what's in|what does)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?"
    rf"{_TARGET}(?:\s+(?:say|contain))?\s*[.?!]*\s*$"
)
_HERE = frozenset({"", "workspace", "repository", "repo", "project", "here", "root", "directory", "current directory"})
_LONGEST_CALL = 160

_RUNNERS = "pytest|py.test|tox|nox|ctest|jest|vitest|mocha|rspec|phpunit"
_TESTING = (
    r"\b(make|npm|pnpm|yarn|bun|deno|go|cargo|mvn|gradlew?|mix|rake|dotnet|bazel|sbt|swift) (-\S+ )*(run )?(test|t)\b"
    rf"|\bpython3? -m (unittest|{_RUNNERS})\b|(^\s*(\$ +)?|[`/'] ?|run:? |npx )({_RUNNERS})(\s+[\w./-]|[`']|$)"
    r'|^tests?:|^\s*"tests?"\s*:|^\s*commands\s*=.*test|\brun (\w+ )?tests\b|\btests (are|can be) run\b'
)
SUBJECTS: Mapping[str, tuple[Pattern, str]] = {
    "tests": (_words(r"\b(?:tests?|tested|testing)\b"), _TESTING),
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
about anything because called code could defined definition does every everything explain file files find from function
functions have implemented into lines list look made many mention mentioned mentions module modules need please program
project read repository search show source sources that their them there these they this used uses what when where which
with workspace would
"""
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
    terms = terms_of(task, words=False)
    if _SECURITY.search(task) or _REVIEW.search(task):
        return Wish("security" if _SECURITY.search(task) else "review", terms)
    subject = next((name for name, (asked, _) in SUBJECTS.items() if asked.search(task)), "")
    if REASON in request:
        return Wish(_HALVES.get(task.partition(" ")[0], "code"))
    if _LOOKUP.match(task) and "*" not in task and (sought := terms or (() if subject else terms_of(task))):
        return Wish("find", sought)
    if named_path(task) or _QUOTED.search(task) or _OPINION.search(_COURTESY.sub("", task)):
        return Wish("nothing")
    describes, overview = bool(_DESCRIBES.search(task)), task.lower().startswith(("explain", "describe", "explore"))
    if subject and (describes or task.endswith("?")) and not overview:
        return Wish("about", subject=subject)
    return Wish("explain") if describes and _WORKSPACE.search(task) else Wish("nothing")


def _single_call(plain: str) -> tuple[str, Mapping[str, str]] | None:
    if listed := _LIST.match(plain):
        target = (listed["target"] or "").strip()
        return "list_files", {} if target.lower() in _HERE else {"path": target}
    if (read := _READ.match(plain)) and looks_like_path(read["target"]):
        return "read_file", {"path": read["target"]}
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


def terms_of(request: str, most: int = 4, *, words: bool = True) -> tuple[str, ...]:
    """Terms to search for: quoted ones, else identifiers, else (with `words`) uncommon words, the longest first."""
    terms = [next(group for group in match.groups() if group) for match in _QUOTED.finditer(request)]
    terms = terms or [word.removesuffix("()") for word in _IDENTIFIER.findall(request)]
    if words and not terms:
        uncommon = {word.lower() for word in _WORD.findall(request)} - set(_USUAL.split())
        terms = sorted(uncommon, key=lambda word: (-len(word), word))
    return tuple(dict.fromkeys(terms))[:most]
