"""Requests that one tool answers: list the files, read X, search for X."""

from drone.models.offline.conversation import Conversation, Done
from drone.models.offline.explore import Step
from drone.models.offline.facts import BLOCKED, COMPLETED, Facts, Finding
from drone.models.offline.material import hits, listing
from drone.models.offline.report import HONEST
from drone.models.offline.request import Errand

_SHOWN_LINES = 200


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
