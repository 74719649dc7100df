"""Functions as tools: declared by a decorator, checked, and never in the loop's way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, overload

from drone.agent.artifacts import SHORTEST_PREVIEW, Artifacts
from drone.agent.journal import JournalError
from drone.agent.messages import CHANGING, ToolSpec
from drone.agent.remembered import Remembered
from drone.agent.threads import NoThread, OwnThreads
from drone.agent.toolset import Call, Output, Preview, ToolSet, preview_of
from drone.agent.turn import Turn
from drone.checkpoints.store import StoreBroken
from drone.sandbox.paths import PathDenied, PathError, Workspace
from drone.tools.display_text import cut, obedient, plain
from drone.tools.schema import Arguments, BadArguments, ToolDeclarationError, described
from mcc.contracts.drones import Effects
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import to_json
from mcc.definitions.rights import TOOL_GROUPS, group_of
from mcc.rules.errors import alike

if TYPE_CHECKING:
    from drone.checkpoints.recording import CallCheckpoints, OrderCheckpoints
    from drone.tools.jobs import Jobs
    from drone.tools.notes_port import Notes

Function = TypeVar("Function", bound=Callable[..., object])
_DECLARED = "__tool__"
_MADE = "__function_tool__"
_SAID = 2_000


class ToolFailed(Exception):
    """Raised by a tool to tell the model, in its own words, what is wrong and what to do instead."""

    def __init__(self, message: str, outcome: Outcome = Outcome.ERROR) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know beside its arguments; a parameter annotated with this type is filled in, never shown.

    `stop` is set when nobody waits for the call any more: a function that runs long in its thread looks at it.
    `artifacts` are the long texts of the turn, `turn` is what an agent that the tool runs belongs to; None outside of a
    run. `checkpoints`: where a tool that changes the workspace has kept what it held, before it does; None where
    nothing can be taken back. `notes` are those of the order's project, None where nobody keeps any; `jobs` its
    background jobs. `egress` are lists of hosts: of those that the operator allows, the call reaches what all of them
    name. `read_only`: the caller may not change the workspace.
    """

    call_id: str
    origin: Origin
    workspace: Workspace | None = None
    artifacts: Artifacts | None = None
    stop: Event = field(default_factory=Event)
    turn: Turn | None = None
    checkpoints: CallCheckpoints | None = None
    notes: Notes | None = None
    egress: Sequence[Sequence[str]] = ()
    jobs: Jobs | None = None
    read_only: bool = False

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What people set of the order, laid over by what they set of this agent and of those above it; as of now."""
        return {} if self.turn is None else self.turn.tree.metadata(self.origin.record_id)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What was said about a tool where it was written.

    Of an undeclared tool it is assumed that strangers may have written what it brings. `effects` None: not said.
    `preview`: says what a call would do.
    """

    name: str | None = None
    group: str = ""
    idempotent: bool = False
    seconds: float | None = None
    effects: Effects | None = None
    untrusted: bool = True
    max_result: int | None = None
    preview: Callable[..., object] | None = None


@overload
def tool(function: Function, /) -> Function: ...


@overload
def tool(
    *,
    group: str = "",
    idempotent: bool = False,
    seconds: float | None = None,
    name: str | None = None,
    effects: Effects | None = None,
    untrusted: bool = True,
    max_result: int | None = None,
    preview: Callable[..., object] | None = None,
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    group: str = "",
    idempotent: bool = False,
    seconds: float | None = None,
    name: str | None = None,
    effects: Effects | None = None,
    untrusted: bool = True,
    max_result: int | None = None,
    preview: Callable[..., object] | None = None,
) -> Any:
    """Declare a function, sync or async, as a tool; it stays callable as it was.

    Its name, signature and docstring are what the model sees (see `FunctionTools`). `group`: one of the tool groups;
    without it, the one that lists a tool of this name. `idempotent`: running it twice does no harm; `seconds`: its time
    limit, None = the turn's. `untrusted`: whether text in what it brings, errors included, may come from anybody else
    than you, such as a file, a page or a program: models are shown it within a fence, as material. False is for tools
    that answer in words and figures of your own alone.

    `effects`: the most that a call may do; calls of tools that write, execute or do what cannot be undone run one after
    the other, in the order of the reply, all others side by side. No tool of a group that reads may be one of them
    (`shell_read` runs programs on a workspace that they cannot change). `max_result`: characters of a result that the
    model is told, 300 or more; the whole is kept as an artifact.

    `preview`: a function, sync or async, of the same parameters (of a method: a method) that answers a `Preview`, or
    None. People see it when they are asked whether the call may run, and it is made again before the call runs: it
    changes nothing, and says the same as long as the call would do the same. Raises `ToolDeclarationError`.
    """
    if group and group not in TOOL_GROUPS:
        near = alike(group, TOOL_GROUPS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(TOOL_GROUPS)}."
        raise ToolDeclarationError(f"There is no tool group {group!r}; {hint}")
    if effects in CHANGING and group.endswith("_read") and (group, effects) != ("shell_read", "execute"):
        raise ToolDeclarationError(f"A tool of the group {group} only reads, and this one may {effects}: name another.")
    if max_result is not None and max_result < SHORTEST_PREVIEW:
        raise ToolDeclarationError(f"max_result must be {SHORTEST_PREVIEW} characters or more, and is {max_result}.")
    declaration = Declaration(name, group, idempotent, seconds, effects, untrusted, max_result, preview)

    def declare(function: Function) -> Function:
        setattr(function, _DECLARED, declaration)
        return function

    return declare if function is None else declare(function)


def declaration_of(function: Callable[..., object]) -> Declaration:
    """What `tool` was told about the function; the defaults for one that was never declared."""
    declared = getattr(function, _DECLARED, None)
    return declared if isinstance(declared, Declaration) else Declaration()


def declared(function: object) -> bool:
    """Whether `tool` declares it."""
    return callable(function) and isinstance(getattr(function, _DECLARED, None), Declaration)


class FunctionTool:
    """One function as a tool: the schema to show, and a run that turns every mistake into a sentence."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.declaration = declaration_of(function)
        texts = described(function)
        self._function = function
        self._arguments = Arguments(function, texts.arguments, ToolContext)
        self._preview = _preview_of(function, self.declaration.preview)
        name = self.declaration.name or function.__name__
        self.spec = ToolSpec(
            name=name,
            description=texts.description,
            parameters=self._arguments.schema,
            group=self.declaration.group or group_of(name),
            idempotent=self.declaration.idempotent,
            seconds=self.declaration.seconds,
            untrusted=self.declaration.untrusted,
            effects=self.declaration.effects,
            max_result=self.declaration.max_result,
        )

    @classmethod
    def of(cls, function: Callable[..., object]) -> FunctionTool:
        """The tool that a function is, made once: its schema takes some 0.7 ms of CPU."""
        known = getattr(function, _MADE, None)
        if isinstance(known, cls) and known._function is function and known.declaration == declaration_of(function):
            return known
        made = cls(function)
        with suppress(AttributeError):  # a bound method keeps nothing
            setattr(function, _MADE, made)
        return made

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Output:
        """What the function answers, without commands to a terminal: it goes to the model, the record, and people."""
        output = await self._ran(arguments, context)
        return replace(output, content=plain(output.content)) if obedient(output.content) else output

    async def preview(self, arguments: Mapping[str, object], context: ToolContext) -> Preview | Output | None:
        """What a call would do (see `Previews`)."""
        done = await self._done(_Act(self._preview, lambda value: value), arguments, context)
        if isinstance(done, Preview):
            return replace(done, text=plain(done.text)) if obedient(done.text) else done
        return done if isinstance(done, Output) else None

    async def _ran(self, arguments: Mapping[str, object], context: ToolContext) -> Output:
        done = await self._done(_Act(self._function, _output), arguments, context)
        assert isinstance(done, Output)
        return done

    async def _done(self, act: _Act, arguments: Mapping[str, object], context: ToolContext) -> object:
        try:
            wanted = self._arguments.checked(arguments)
        except BadArguments as error:
            return failure(str(error))
        wanted.update(dict.fromkeys(self._arguments.injections, context))
        if inspect.iscoroutinefunction(act.function):
            return await self._awaited(act, wanted)
        try:
            return await threads_of(context).tool(self._called, act, wanted)
        except NoThread as full:
            return _error_output(full, self.spec.name)
        finally:
            context.stop.set()

    async def _awaited(self, act: _Act, arguments: Mapping[str, Any]) -> object:
        try:
            return act.answer(await act.function(**arguments))
        except JournalError:
            raise
        except Exception as error:
            return _error_output(error, self.spec.name)

    def _called(self, act: _Act, arguments: Mapping[str, Any]) -> object:
        try:
            return act.answer(act.function(**arguments))
        except Exception as error:
            return _error_output(error, self.spec.name)


@dataclass(frozen=True, slots=True)
class _Act:
    """A function that a tool runs, and what is made of its value."""

    function: Callable[..., Any]
    answer: Callable[[object], object]


async def _nothing(**arguments: object) -> None:
    """The preview of a tool that says nothing beforehand."""


def _preview_of(function: Callable[..., object], preview: Callable[..., object] | None) -> Callable[..., object]:
    if preview is None:
        return _nothing
    owner = getattr(function, "__self__", None)
    bound: Callable[..., object] = preview if owner is None else preview.__get__(owner)
    if [*inspect.signature(bound).parameters] != [*inspect.signature(function).parameters]:
        names = ", ".join(inspect.signature(function).parameters)
        raise ToolDeclarationError(f"The preview of {function.__name__} must take the same parameters: {names}.")
    return bound


def threads_of(context: ToolContext) -> OwnThreads:
    """Where a tool does what blocks; outside of a run a thread is nobody's."""
    return context.turn.threads if context.turn else OwnThreads()


def _output(value: object) -> Output:
    if isinstance(value, Output):
        return value
    return Output(value if isinstance(value, str) else to_json(value).decode())


def _error_output(error: Exception, name: str) -> Output:
    match error:
        case NoThread():
            return failure(str(error))
        case ToolFailed():
            return Output(str(error), True, error.outcome)
        case PathDenied():
            return Output(str(error), True, Outcome.DENIED)
        case PathError() | StoreBroken():
            return Output(str(error), True, Outcome.ERROR)
        case _:
            said = str(error)
            shown = said if len(said) <= _SAID else f"{cut(said, _SAID)}…"
            return Output(f"{name} broke: {type(error).__name__}: {shown}", True, Outcome.ERROR)


def failure(message: str, outcome: Outcome = Outcome.ERROR) -> Output:
    """The result that tells the model in the runtime's own words what went wrong."""
    return Output(message, is_error=True, outcome=outcome, untrusted=False)


class FunctionTools:
    """A tool set of functions; `workspace`, its `checkpoints`, and `notes` and `jobs` of its order are for what asks
    for a `ToolContext`."""

    def __init__(
        self,
        functions: Iterable[Callable[..., object] | FunctionTool],
        *,
        workspace: Workspace | None = None,
        checkpoints: OrderCheckpoints | None = None,
        notes: Notes | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        tools = [one if isinstance(one, FunctionTool) else FunctionTool.of(one) for one in functions]
        _refuse_twins([tool.spec.name for tool in tools])
        self._tools = {tool.spec.name: tool for tool in tools}
        self._specs = tuple(tool.spec for tool in tools)
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._notes = notes
        self._jobs = jobs

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: Call) -> Output:
        tool = self._tools.get(call.name)
        if tool is None:
            return unknown_tool(call.name, self._tools)
        return await tool.run(call.arguments, self._context(call))

    async def preview(self, call: Call) -> Preview | Output | None:
        tool = self._tools.get(call.name)
        return None if tool is None else await tool.preview(call.arguments, self._context(call))

    def _context(self, call: Call) -> ToolContext:
        artifacts = call.turn.artifacts if call.turn else None
        stop, order = Event(), self._checkpoints
        taken = None if order is None or call.turn is None else order.of(call, call.turn, stop)
        own = (artifacts, stop, call.turn, taken, self._notes)
        limits = (call.egress, self._jobs, call.read_only)
        return ToolContext(call.call_id, call.origin, self._workspace, *own, *limits)


class Joined:
    """Several tool sets as one. What each of them has is asked anew, so a set may change while it is used."""

    def __init__(self, *toolsets: ToolSet) -> None:
        self._toolsets = toolsets
        self._of = Remembered(_together, most=1)
        _refuse_twins([spec.name for spec in self.specs()])

    def specs(self) -> Sequence[ToolSpec]:
        return self._of(*(toolset.specs() for toolset in self._toolsets))

    async def call(self, call: Call) -> Output:
        for toolset in self._toolsets:
            if any(spec.name == call.name for spec in toolset.specs()):
                return await toolset.call(call)
        return unknown_tool(call.name, [spec.name for spec in self.specs()])

    async def preview(self, call: Call) -> Preview | Output | None:
        for toolset in self._toolsets:
            if any(spec.name == call.name for spec in toolset.specs()):
                return await preview_of(toolset, call)
        return None


def _together(*theirs: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    return tuple(spec for specs in theirs for spec in specs)


def unknown_tool(name: str, there: Iterable[str], outcome: Outcome = Outcome.ERROR) -> Output:
    """The result for a call of a tool that is not there: the nearest that is, and all of them."""
    names = list(there)
    near = alike(name[:200], names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    listed = f"You have: {', '.join(names)}." if names else "You have no tools."
    return failure(f"There is no tool {name[:200]!r} here.{hint} {listed}", outcome)


def _refuse_twins(names: Sequence[str]) -> None:
    if len(set(names)) == len(names):
        return
    name = next(name for place, name in enumerate(names) if name in names[:place])
    raise ToolDeclarationError(f"Two tools are called {name!r}; give one of them another name.")
