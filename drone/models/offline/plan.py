"""The master's plan: the pieces of a request, and who of those at hand is asked for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drone.agent.model import WantedCall
from drone.models.offline.conversation import Conversation
from drone.models.offline.request import REASON, Trade, focus_of

_READERS = ("explore", "scout", "general")
_CRITERION = "Every finding names the files that it rests on, and each of them was read."


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of the work. `wanted`: who suits it, the best first; where none of them is there, `anyone` may do."""

    title: str
    task: str
    wanted: tuple[str, ...] = _READERS
    anyone: bool = True

    def role(self, there: tuple[str, ...]) -> str | None:
        return next((name for name in self.wanted if name in there), there[0] if self.anyone and there else None)


def pieces_of(request: str, there: tuple[str, ...]) -> list[tuple[str, Piece]]:
    """Who is asked for what: two readers in every case, and those with a trade where the request is about it."""
    planned = [*_reading(request), *_trades(request)]
    return [(role, piece) for piece in planned if (role := piece.role(there)) is not None]


def calls_for(conversation: Conversation, request: str) -> tuple[list[tuple[str, Piece]], list[WantedCall | None]]:
    """The plan, and the calls that start it: all in one where several roles are asked, else one call for each."""
    together = conversation.roles and pieces_of(request, conversation.roles)
    if together and (len({role for role, _ in together}) > 1 or not conversation.agent_types):
        agents = [_agent(number, role, piece, conversation) for number, (role, piece) in enumerate(together, 1)]
        return together, [conversation.call("subagents_run", agents=agents, mode="parallel")]
    single = pieces_of(request, conversation.agent_types)
    return single, [
        conversation.call("subagent", agent_type=role, prompt=piece.task, title=piece.title) for role, piece in single
    ]


def _agent(number: int, role: str, piece: Piece, conversation: Conversation) -> dict[str, Any]:
    known: Mapping[str, Any] = conversation.of_each_agent
    criteria = known.get("success_criteria")
    listed = isinstance(criteria, Mapping) and criteria.get("type") == "array"
    told = {
        "id": f"{role}_{number}",
        "role": role,
        "title": piece.title,
        "task": piece.task,
        "success_criteria": [_CRITERION] if listed else _CRITERION,
    }
    return {name: value for name, value in told.items() if name in known}


def _reading(request: str) -> Iterator[Piece]:
    yield Piece(
        "Structure and entry points",
        "Find the structure of this workspace: its layout, its build files, and the entry points where its programs "
        f"begin. Report paths with lines, and counts. {_asked(request)}",
        ("scout", *_READERS),
    )
    if _trade(request):
        return
    yield Piece(
        "What the code does",
        "Find what the code does: its purpose, its main modules and what each of them is for, its tests and its "
        f"documentation. Report paths, names and counts. {_asked(request)}",
    )


def _trades(request: str) -> Iterator[Piece]:
    task = "Review this workspace: look for what is unfinished, silenced or left over in its sources."
    yield Piece("What deserves a second look", f"{task} {_asked(request)}", ("review",), anyone=False)
    if _trade(request) == "security":
        task = "Look for weaknesses in the security of this workspace: text run as code, shells, secrets, unsafe data."
        yield Piece("Security", f"{task} {_asked(request)}", ("security_analyst",), anyone=False)


def _trade(request: str) -> Trade:
    focus = focus_of(request)
    return focus.trade if focus else ""


def _asked(request: str) -> str:
    return f'{REASON} "{" ".join(request.split())[:300]}"'
