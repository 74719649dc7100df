"""Function rules: Python functions that check a node, found in modules and run with a time limit."""

import inspect
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias, TypeVar

from mcc.documents.node import Node
from mcc.documents.state import DocumentState

SECONDS = 10.0
"""Time limit of one call."""

LEFT_BEHIND = 32
"""Most calls per process that ran into their time limit and still run; beyond that no function is called."""

MAX_MESSAGE = 2_000
_LEFT = "rule function that has not come back"
_MARK = "__mcc_function__"


@dataclass(frozen=True, slots=True)
class ReadOnlyNode:
    """A read-only node, as rule functions get it."""

    _state: DocumentState
    _node: Node

    @property
    def metadata(self) -> Mapping[str, Any]:
        return _frozen(self._node.metadata)

    @property
    def props(self) -> Mapping[str, Any]:
        return _frozen(self._node.props)

    @property
    def component(self) -> str:
        return self._node.component

    @property
    def path(self) -> str:
        return self._state.path(self._node)

    @property
    def parent(self) -> "ReadOnlyNode | None":
        above = self._state.parent(self._node)
        return None if above is None else ReadOnlyNode(self._state, above)

    @property
    def children(self) -> tuple["ReadOnlyNode", ...]:
        return tuple(ReadOnlyNode(self._state, child) for child in self._state.children_of(self._node))


def _frozen(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: tuple(one) if isinstance(one, list) else one for name, one in values.items()})


RuleFunction: TypeAlias = Callable[[ReadOnlyNode], object]
Functions: TypeAlias = Mapping[str, RuleFunction]
"""By the names that blueprints use."""

F = TypeVar("F", bound=Callable[..., object])


def function(name: str) -> Callable[[F], F]:
    """Marks a function of one node as the rule `name`: it returns True or None when the rule holds, else a sentence."""

    def marked(found: F) -> F:
        setattr(found, _MARK, name)
        return found

    return marked


def functions_in(modules: Iterable[ModuleType], names: Container[str] | None = None) -> Functions:
    """The marked functions in these modules, restricted to `names` if given. Raises ValueError for a duplicate name."""
    functions: dict[str, RuleFunction] = {}
    for module in modules:
        for member in list(vars(module).values()):
            name = getattr(member, _MARK, None) if inspect.isroutine(member) else None
            if not isinstance(name, str) or (names is not None and name not in names):
                continue
            if name in functions and functions[name] is not member:
                raise ValueError(f"two functions are registered as {name!r}; rename one of them")
            functions[name] = member
    return MappingProxyType(functions)


def run_function(found: RuleFunction, state: DocumentState, node: Node, seconds: float = SECONDS) -> str | None:
    """A sentence saying what is wrong with the node; None where the rule holds. Blocks for up to `seconds`.

    The function runs in a daemon thread, which keeps running when the time is up. An exception counts as broken rule.
    """
    if sum(thread.name == _LEFT for thread in threading.enumerate()) >= LEFT_BEHIND:
        return "The function was not asked: too many others have not come back."
    answers: list[str | None] = []

    def run() -> None:
        try:
            answers.append(_answer(found(ReadOnlyNode(state, node))))
        except BaseException as error:  # foreign code: also SystemExit and KeyboardInterrupt are just an answer
            answers.append(f"The function failed: {type(error).__name__}: {error}"[:MAX_MESSAGE])

    thread = threading.Thread(target=run, name="rule function", daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    thread.name = _LEFT
    return f"The function has not answered within {seconds:g} seconds."


def _answer(answer: object) -> str | None:
    if answer is None or answer is True:
        return None
    if isinstance(answer, str) and answer.strip():
        return answer.strip()[:MAX_MESSAGE]
    return "The function says that this does not hold." if answer is False else "The function gave no answer."
