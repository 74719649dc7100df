"""Requests that one tool answers: list the files, read X, search for X."""

from dataclasses import dataclass

from drone.models.offline.conversation import Conversation, Done
from drone.models.offline.explore import Step
from drone.models.offline.facts import BLOCKED, COMPLETED, Facts, Finding
from drone.models.offline.material import hits, listing, looks_like_path
from drone.models.offline.report import HONEST
from mcc.rules.patterns import Pattern

_POLITE = r"^\s*(?:please\s+|can you\s+|could you\s+|just\s+)*"
_TARGET = r"[`\"'“]?(?P<target>[^`\"'”\n]+?)[`\"'”]?"
_LIST = Pattern(
    _POLITE + r"(?:list|show|which are)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files|director(?:y|ies)|folders?)"
    rf"(?:\s+(?:in|of|under)\s+(?:the\s+)?{_TARGET})?\s*[.?!]*\s*$",
    ignore_case=True,
)
_READ = Pattern(
    _POLITE + rf"(?:read|show|open|print|cat|display)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?{_TARGET}\s*[.?!]*\s*$",
    ignore_case=True,
)
_SEARCH = Pattern(
    _POLITE + rf"(?:search(?:\s+the\s+\w+)?\s+for|search|grep(?:\s+for)?|look\s+for)\s+{_TARGET}\s*[.?!]*\s*$",
    ignore_case=True,
)
_FIND = Pattern(
    _POLITE + rf"find\s+(?:the\s+|all\s+)?(?:files?\s+)?(?:named\s+|called\s+)?{_TARGET}\s*[.?!]*\s*$", ignore_case=True
)
_HERE = frozenset({"workspace", "repository", "repo", "project", "here", "root", "current directory", "this directory"})
_SHOWN_LINES = 200


@dataclass(frozen=True, slots=True)
class Errand:
    """A request for one tool: its name and arguments."""

    tool: str
    arguments: tuple[tuple[str, str | bool | int], ...]


def errand_of(conversation: Conversation) -> Errand | None:
    """The one tool that answers the request, if it is such a request and the tool is there."""
    found = _errand(" ".join(conversation.request.split()))
    return found if found and found.tool in conversation.tools else None


def _errand(request: str) -> Errand | None:
    if len(request) > 160:
        return None
    if found := _LIST.match(request):
        target = (found["target"] or "").strip()
        return Errand("list_files", () if target.lower() in ("", *_HERE) else (("path", target),))
    if (found := _READ.match(request)) and looks_like_path(found["target"]):
        return Errand("read_file", (("path", found["target"]),))
    if (found := _FIND.match(request)) and ("*" in found["target"] or looks_like_path(found["target"])):
        return Errand("find_files", (("pattern", _anywhere(found["target"])),))
    if (found := _SEARCH.match(request)) and not looks_like_path(found["target"]):
        return Errand("search_text", (("pattern", found["target"]), ("literal", True), ("case_sensitive", False)))
    return None


def _anywhere(pattern: str) -> str:
    return pattern if "/" in pattern else f"**/{pattern}"


def step_of(conversation: Conversation, errand: Errand) -> Step | None:
    """The call, as long as it was not made."""
    if conversation.must_finish or any(done.name == errand.tool for done in conversation.done):
        return None
    call = conversation.call(errand.tool, **dict(errand.arguments))
    return Step(f"I use `{errand.tool}` for this.", (call,)) if call else None


def facts_of(conversation: Conversation, errand: Errand) -> Facts:
    """What the tool brought, as a single finding."""
    text = answer(conversation, errand)
    done = next((done for done in conversation.results(errand.tool)), None)
    if done is None:
        return Facts(status=BLOCKED, summary=text.removeprefix(HONEST).strip(), report=text)
    path = str(done.arguments.get("path") or "")
    read = (path,) if done.name == "read_file" else ()
    found = Finding(_summary(done).rstrip(":"), done.content, read)
    return Facts(status=COMPLETED, summary=found.title, report=text, findings=(found,), read=read)


def answer(conversation: Conversation, errand: Errand) -> str:
    """What the tool brought, said in one line and shown."""
    done = next((done for done in conversation.done if done.name == errand.tool), None)
    if done is None:
        return f"{HONEST}\n\nI would have used `{errand.tool}`, but had to stop before that."
    if done.is_error:
        return f"{HONEST}\n\n`{errand.tool}` refused: {done.content.strip()}"
    lines = done.content.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_SHOWN_LINES]) + ("\n…" if len(lines) > _SHOWN_LINES else "")
    fence = "````" if "```" in shown else "```"
    return f"{HONEST}\n\n{_summary(done)}\n\n{fence}\n{shown}\n{fence}"


def _summary(done: Done) -> str:
    if done.name == "search_text":
        found = hits(done.content)
        return (
            f"{len(found)} lines in {len({hit.path for hit in found})} files match “{done.arguments.get('pattern')}”:"
        )
    if done.name == "read_file":
        return f"`{done.arguments.get('path')}`:"
    found_files = listing(done.content)
    return f"{len(found_files.files)} files and {len(found_files.directories)} directories:"
