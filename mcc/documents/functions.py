"""Function rules: Python functions that check a node, found in modules and run with a time limit."""

import inspect
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias, TypeVar

from mcc.documents.node import Node
from mcc.documents.state import DocumentState, UnknownNode

SECONDS = 10.0
"""Time limit of one call."""

LEFT_BEHIND = 32
"""Most calls per process that ran into their time limit and still run; beyond that no function is called."""

MAX_MESSAGE = 2_000

MAX_NODES = 200
"""Most nodes that one answer may name."""
_LEFT = "rule function that has not come back"
_MARK = "__mcc_function__"


@dataclass(frozen=True, slots=True)
class ReadOnlyNode:
    """A read-only node, as rule functions get it."""

    _state: DocumentState
    _node: Node

    def __repr__(self) -> str:
        return f"ReadOnlyNode({self.path!r})"

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
    """Marks a function of one node as the rule `name`: it returns True, None or {} when the rule holds, else a sentence
    for the node's own agent, or a sentence by path for agents of nodes below it, which run again with it."""

    def marked(found: F) -> F:
        setattr(found, _MARK, name)
        return found

    return marked


def functions_in(modules: Iterable[ModuleType], names: Container[str] | None = None) -> Functions:
    """The marked functions in these modules, restricted to `names` if given. Raises ValueError for a duplicate name."""
    functions: dict[str, RuleFunction] = {}
    routines: dict[type, bool] = {}  # by type, because a process has a hundred thousand members
    for module in modules:
        for member in list(vars(module).values()):
            kind = type(member)
            if kind not in routines:
                routines[kind] = inspect.isroutine(member)
            name = getattr(member, _MARK, None) if routines[kind] else None
            if not isinstance(name, str) or (names is not None and name not in names):
                continue
            if name in functions and functions[name] is not member:
                raise ValueError(f"two functions are registered as {name!r}; rename one of them")
            functions[name] = member
    return MappingProxyType(functions)


@dataclass(frozen=True, slots=True)
class Objection:
    """What a function finds wrong with a node; `below` as in a `RuleVerdict`."""

    message: str
    below: tuple[tuple[str, str], ...] = ()


def run_function(found: RuleFunction, state: DocumentState, node: Node, seconds: float = SECONDS) -> Objection | None:
    """What is wrong with the node; None where the rule holds. Blocks for up to `seconds`.

    The function runs in a daemon thread, which keeps running when the time is up. An exception counts as broken rule.
    """
    if sum(thread.name == _LEFT for thread in threading.enumerate()) >= LEFT_BEHIND:
        return Objection("The function was not asked: too many others have not come back.")
    answers: list[Objection | None] = []

    def run() -> None:
        try:
            answers.append(_objection(found(ReadOnlyNode(state, node)), state, node))
        except BaseException as error:  # foreign code: also SystemExit and KeyboardInterrupt are just an answer
            answers.append(Objection(f"The function failed: {type(error).__name__}: {error}"[:MAX_MESSAGE]))

    thread = threading.Thread(target=run, name="rule function", daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    thread.name = _LEFT
    return Objection(f"The function has not answered within {seconds:g} seconds.")


def _objection(answer: object, state: DocumentState, node: Node) -> Objection | None:
    if answer is None or answer is True or answer == {}:
        return None
    if isinstance(answer, Mapping):
        return _by_path(answer, state, node)
    if isinstance(answer, str) and answer.strip():
        return Objection(answer.strip()[:MAX_MESSAGE])
    said = "The function says that this does not hold." if answer is False else "The function gave no answer."
    return Objection(said)


def _by_path(answer: Mapping[object, object], state: DocumentState, node: Node) -> Objection:
    """The objection of a function that answered with a sentence for each of some nodes below this one."""
    if len(answer) > MAX_NODES:
        return Objection(f"The function named {len(answer):,} nodes; it may name {MAX_NODES} at once.")
    below: dict[str, str] = {}
    for path, text in answer.items():
        try:
            named = state.find(path) if isinstance(path, str) else node
        except UnknownNode:
            named = node
        if all(above.id != node.id for above in state.ancestors(named)):
            return Objection(f"The function named {str(path)[:200]!r}, which is no path of a node below this one.")
        if not isinstance(text, str) or not text.strip():
            return Objection(f"The function named {str(path)[:200]!r}, and did not say in a text what is wrong there.")
        below[named.id] = text.strip()[:MAX_MESSAGE]
    sentences = (f"{state.path(state.nodes[id])}: {text}" for id, text in below.items())
    return Objection(" ".join(sentences)[:MAX_MESSAGE], tuple(below.items()))
