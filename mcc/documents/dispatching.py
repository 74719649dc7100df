"""The only way to change a document: applies commands, recomputes dependent values, judges rules, marks conflicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from mcc.contracts.documents import By
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, DispatchRefused, Step
from mcc.documents.commands import (
    HIDDEN,
    Accept,
    AddChild,
    Command,
    Instruct,
    Judge,
    MoveChild,
    Redo,
    Release,
    RemoveChild,
    Select,
    SetMetadata,
    Settle,
    SetValue,
    Undo,
    addressed,
    commands_of,
)
from mcc.documents.functions import Functions
from mcc.documents.holding import accept, instruct, release, settle, stamp
from mcc.documents.judging import judge, judge_functions
from mcc.documents.node import Node, RuleVerdict
from mcc.documents.recomputing import recompute
from mcc.documents.references import cache_referrers, reference_fields, referrers, updated_referrers
from mcc.documents.setting import set_fields
from mcc.documents.staleness import new_conflicts
from mcc.documents.state import DocumentState, UnknownNode
from mcc.documents.structure import add, move, remove
from mcc.documents.undoing import Removed, redo, undo
from mcc.documents.work import DispatchWork

_STRUCTURE = (AddChild, RemoveChild, MoveChild)
_MAY: Mapping[By, tuple[type, ...]] = {
    "agent": (SetValue, *_STRUCTURE, Settle),
    "metadata_agent": (SetMetadata, Settle),
    "outline": (SetMetadata, *_STRUCTURE, Settle),
}
"""The commands that each kind of agent may send. Other authors may send all; hidden commands only people."""


def dispatch(
    blueprint: Blueprint,
    state: DocumentState,
    commands: object,
    author: Author,
    *,
    expected_version: int | None = None,
    own: Sequence[Step] = (),
    removed: Removed | None = None,
    functions: Functions | None = None,
    command_id: str | None = None,
) -> Change:
    """Apply all commands in order, or none of them. Raises `DispatchRefused`.

    `commands` is one or several, typed or as JSON. Only undo and redo use `own`, the steps of this principal's history,
    and `removed`, the nodes that some of their versions removed (see `versions_needed`). Without `functions`, function
    rules of changed nodes are left without a verdict (a `Judge` command adds them later); with them, this blocks until
    they have answered.
    """
    if blueprint.digest != state.blueprint:
        raise ValueError(f"the document is pinned to the blueprint {state.blueprint}, not to {blueprint.digest}")
    typed = commands_of(commands, author.node)
    if expected_version is not None:
        _check_version(state, typed, expected_version)
    work = DispatchWork(blueprint, state, author, own)
    for index, command in enumerate(typed):
        work.index = index
        try:
            _check_author(work, command)
            _apply(work, command, removed or {})
        except DispatchRefused as refused:
            if len(typed) == 1:
                raise
            raise DispatchRefused(
                refused.status, *(f"commands.{index}: {sentence}" for sentence in refused.sentences)
            ) from None
    return finished(work, functions, command_id)


def _check_version(state: DocumentState, commands: Sequence[Command], expected: int) -> None:
    changed: list[str] = []
    for name in addressed(commands):
        try:
            node = state.find(name)
        except UnknownNode:
            continue  # an earlier one of the commands may create it
        if node.version > expected:
            changed.append(state.path(node))
    if changed:
        message = f"version {expected} was expected, and since then changed: {', '.join(changed)}"
        raise DispatchRefused(409, message, version=state.version, changed=tuple(changed))


def _check_author(work: DispatchWork, command: Command) -> None:
    author = work.author
    may = _MAY.get(author.by)
    if may is not None and not isinstance(command, may):
        raise DispatchRefused(422, f"{command.command} is not for this agent")
    if isinstance(command, HIDDEN) and author.by != "person":
        raise DispatchRefused(422, f"{command.command} belongs to people")
    if author.node is None or isinstance(command, Undo | Redo | Judge | Instruct):
        return
    bound, node = work.find(author.node), work.find(command.node)
    if isinstance(command, RemoveChild | MoveChild):
        if node.parent_id != bound.id:
            raise DispatchRefused(422, f"{work.state.path(node)} is no child of {work.state.path(bound)}")
        if isinstance(command, MoveChild) and command.parent is not None:
            raise DispatchRefused(422, "a child is moved among its siblings alone; leave `parent` out")
    elif node.id != bound.id:
        raise DispatchRefused(422, f"this agent works on {work.state.path(bound)}, not on {work.state.path(node)}")
    elif isinstance(command, AddChild) and command.values:
        raise DispatchRefused(422, "the values of a child are set by its own agent; leave `values` out")


def _apply(work: DispatchWork, command: Command, removed: Removed) -> None:
    match command:
        case SetValue():
            values = {f"props.{key}": value for key, value in command.values.items()}
            set_fields(work, command.command, work.find(command.node), values)
        case SetMetadata():
            values = {f"metadata.{key}": value for key, value in command.values.items()}
            set_fields(work, command.command, work.find(command.node), values)
        case AddChild():
            values = {f"metadata.{key}": value for key, value in command.metadata.items()}
            values |= {f"props.{key}": value for key, value in command.values.items()}
            add(work, work.find(command.node), command.component, values, command.position)
        case RemoveChild():
            remove(work, work.find(command.node))
        case MoveChild():
            parent = None if command.parent is None else work.find(command.parent)
            move(work, work.find(command.node), command.position, parent)
        case Undo():
            undo(work, removed)
        case Redo():
            redo(work, removed or {})
        case Accept():
            accept(work, command)
        case Release():
            release(work, command)
        case Select():
            work.find(command.node)
        case Settle():
            settle(work, command)
        case Judge():
            _add_function_verdicts(work, command)
        case Instruct():
            instruct(work, command)
        case _:
            assert_never(command)


def _add_function_verdicts(work: DispatchWork, command: Judge) -> None:
    """Add verdicts of functions; a history step is recorded only where the dispatch did nothing else."""
    alone = not work.steps
    for id, verdicts in command.verdicts.items():
        node = work.draft.node(id)
        if (
            node is not None
            and max((node.version, *(known.version for known in node.provenance.values()))) <= command.version
        ):
            # A node in the draft is judged again; its own content stays the same.
            work.draft.put(replace(node))
            work.add_verdicts(node, verdicts)
            if alone:
                work.step(command.command, work.state.path(node))


def finished(
    work: DispatchWork, functions: Functions | None = None, command_id: str | None = None, was: Blueprint | None = None
) -> Change:
    """Complete the work (recompute, stamp, judge, mark conflicts) and answer the change. `was` is the document's
    previous blueprint where it gets another one."""
    if not work.draft.before and work.brief is None:
        return Change(work.base, work.base.version)
    recompute(work)
    # After the recomputing and before the judging: rules see the values that will be stored.
    stamp(work)
    known = updated_referrers(work.blueprint, referrers(work.blueprint, work.base), work.draft)
    for id in _to_judge(work, known):
        _judge(work, id, functions)
    state = work.draft.finished(work.version)
    if state.blueprint != work.blueprint.digest:
        state = replace(state, blueprint=work.blueprint.digest)
    if work.brief is not None:
        state = replace(state, brief=work.brief)
    state = _with_new_conflicts(work, state, was)
    if reference_fields(work.blueprint):
        cache_referrers(work.blueprint, state, known)
    return _change(work, state, command_id)


def _with_new_conflicts(work: DispatchWork, state: DocumentState, was: Blueprint | None) -> DocumentState:
    """Add new conflicts: held values are not generated again, so only a conflict shows that their inputs changed."""
    if not work.base.nodes:
        return state
    new = new_conflicts(work.blueprint, work.base, state, was)
    nodes = {id: state.nodes[id] for id in new}
    for id, node in nodes.items():
        work.draft.before.setdefault(id, work.base.nodes.get(id))
        nodes[id] = replace(node, conflicts={**node.conflicts, **new[id]})
    return state.with_nodes(work.version, nodes) if nodes else state


def _to_judge(work: DispatchWork, known: Mapping[str, frozenset[str]]) -> list[str]:
    """The ids of nodes to judge: changed ones, their ancestors with function rules, and nodes that refer to them."""
    ids: dict[str, None] = {}
    for id, before in list(work.draft.before.items()):
        node = work.draft.node(id)
        if node is not None:
            ids[id] = None
            ids.update(
                (above.id, None) for above in work.state.ancestors(node) if work.component(above).has_function_rules
            )
        if known and (before is None or node is None or before.parent_id != node.parent_id):
            paths = [] if before is None else [work.base.path(before)]
            paths += [] if node is None else [work.state.path(node)]
            ids.update((referrer, None) for path in paths for referrer in known.get(path, ()))
    return [id for id in ids if work.draft.node(id) is not None]


def _judge(work: DispatchWork, id: str, functions: Functions | None) -> None:
    sent = work.given_verdicts.get(id, {})
    node = work.state.nodes[id]
    kinds = {rule.id: rule.kind for rule in work.component(node).rules}
    sent_verdicts = {
        name: RuleVerdict(name, kinds[name], verdict.ok, verdict.message, work.version, verdict.below)
        for name, verdict in sent.items()
        if kinds.get(name) in ("function", "evidence")
    }
    by_functions = {} if functions is None else judge_functions(work.blueprint, work.state, id, functions, work.version)
    verdicts = judge(
        work.blueprint,
        work.state,
        id,
        functions={
            **by_functions,
            **{name: verdict for name, verdict in sent_verdicts.items() if verdict.kind == "function"},
        },
        evidence={name: verdict for name, verdict in sent_verdicts.items() if verdict.kind == "evidence"},
        version=work.version,
    )
    before = {verdict.rule: verdict for verdict in node.verdicts}
    kept = tuple(_with_earlier_version(before.get(verdict.rule), verdict) for verdict in verdicts)
    if kept != node.verdicts:
        work.draft.put(replace(node, verdicts=kept))


def _with_earlier_version(before: RuleVerdict | None, now: RuleVerdict) -> RuleVerdict:
    """An unchanged verdict keeps its version; one on evidence gets the new one, which ties it to the present value."""
    if before is None or now.kind == "evidence":
        return now
    same = (now.kind, now.ok, now.message, now.below) == (before.kind, before.ok, before.message, before.below)
    return before if same else now


def _change(work: DispatchWork, state: DocumentState, command_id: str | None) -> Change:
    nodes: dict[str, Node | None] = {}
    changed: list[str] = []
    for id, before in work.draft.before.items():
        after = state.nodes.get(id)
        # A command may put back what an earlier one of the same dispatch changed.
        if after is before or after == before:
            continue
        nodes[id] = after
        if after is not None and before is not None and _differs(before, after):
            changed.append(state.path(after))
    made = tuple(state.path(state.nodes[id]) for id in work.made)
    steps = tuple(replace(step, command_id=command_id) for step in work.steps)
    return Change(state, state.version, tuple(changed), made, nodes, steps)


def _differs(before: Node, after: Node) -> bool:
    """Whether a command changed the node, or one of its computed values changed."""
    if before.version != after.version:
        return True
    return before.metadata != after.metadata or before.props != after.props
