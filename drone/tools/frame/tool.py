"""Functions as tools: a decorator declares them, their arguments are checked, and synchronous ones run in threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, overload

from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.identity_cache import IdentityCache
from drone.agent.ports.journal import JournalError
from drone.agent.turns.toolset import Output, Preview, StartedCall, ToolSet, preview_of
from drone.agent.turns.turn import Turn
from drone.checkpoints.store import StoreBroken
from drone.sandbox.places.paths import PathDenied, PathError, Workspace
from drone.threads import NoThread, OwnThreads
from drone.tools.frame.aftermath import output_of
from drone.tools.frame.display_text import cut, has_controls, strip_controls
from drone.tools.frame.schema import Arguments, BadArguments, ToolDeclarationError, described
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from mcc.contracts.permission import Effects
from mcc.contracts.similar import close_matches, hints_keywords
from mcc.definitions.rights import TOOL_GROUPS, group_of
from mcc.transcript.messages import CHANGING, ToolSpec
from mcc.transcript.previews import SHORTEST_PREVIEW

if TYPE_CHECKING:
    from drone.checkpoints.recording import CallCheckpoints, OrderCheckpoints
    from drone.tools.frame.jobs import Jobs
    from drone.tools.frame.notes_port import NotesPort

Function = TypeVar("Function", bound=Callable[..., object])
_DECLARED = "__tool__"
_MADE = "__function_tool__"
_MAX_ERROR_LENGTH = 2_000


class ToolFailed(Exception):
    """Raised by a tool; the message, which should say what is wrong and what to do instead, goes to the model."""

    def __init__(self, message: str, outcome: Outcome = Outcome.ERROR) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a call: a parameter annotated with this type is filled in by the runtime and hidden from models.

    `stop` is set once the result is no longer awaited: a function that runs long in its thread should check it.
    `artifacts` are the long texts of the turn; `turn` is the turn that agents run by the tool belong to; both are None
    outside of a run. `checkpoints` keep the former contents of the workspace: a tool that changes files saves them
    there first; None where changes cannot be undone. `notes` are the notes of the order's project, None where none are
    kept; `jobs` are the order's background jobs. `egress` holds lists of hosts: the call reaches a host that the
    operator allows only if every list names it. `read_only`: the caller may not change the workspace.
    """

    call_id: str
    origin: Origin
    workspace: Workspace | None = None
    artifacts: Artifacts | None = None
    stop: Event = field(default_factory=Event)
    turn: Turn | None = None
    checkpoints: CallCheckpoints | None = None
    notes: NotesPort | None = None
    egress: Sequence[Sequence[str]] = ()
    jobs: Jobs | None = None
    read_only: bool = False

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The order's metadata, overlaid with that of the agents above this one and of this agent; current values."""
        return {} if self.turn is None else self.turn.tree.metadata(self.origin.record_id)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The arguments of `tool`; the defaults apply to functions that were never declared.

    `untrusted` is True by default: text in the result may come from strangers. `effects` None: not declared.
    """

    name: str | None = None
    group: str = ""
    idempotent: bool = False
    seconds: float | None = None
    effects: Effects | None = None
    untrusted: bool = True
    max_result: int | None = None
    preview: Callable[..., object] | None = None
    background_safe: bool = True


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
    background_safe: bool = True,
) -> Callable[[Function], Function]: ...


@hints_keywords
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
    background_safe: bool = True,
) -> Any:
    """Declare a function, sync or async, as a tool; the function itself stays unchanged.

    The model sees its name, signature and docstring. `group`: one of the tool groups; default: the group that lists a
    tool of this name. `idempotent`: running a call twice does no harm. `seconds`: the time limit of a call, None = the
    turn's. `untrusted`: whether the result or an error may hold text by others, such as a file, a page or a program's
    output; models see such text inside a fence, marked as material. Pass False only for tools whose every word is
    yours.

    `effects`: the most that a call may do. Calls of tools that write, execute or act irreversibly run one after the
    other, in the order of the reply; all others run concurrently. Tools of read groups may not declare such effects
    (except `execute` in `shell_read`, whose programs cannot change the workspace). `max_result`: how many characters of
    a result the model is shown, 300 or more; the whole is kept as an artifact.

    `preview`: a function, sync or async, with the same parameters (for a method: a method) that returns a `Preview` of
    what the call would do, or None. People see it when they are asked to approve the call, and it is made again just
    before the call runs: it must change nothing, and stay the same while the call would do the same. `background_safe`:
    whether an agent in the background may call it, which no tool that acts irreversibly is. Raises
    `ToolDeclarationError`.
    """
    if group and group not in TOOL_GROUPS:
        near = close_matches(group, TOOL_GROUPS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"groups are the shipped ones alone: {', '.join(TOOL_GROUPS)}."
        raise ToolDeclarationError(f"There is no tool group {group!r}; {hint}")
    if effects in CHANGING and group.endswith("_read") and (group, effects) != ("shell_read", "execute"):
        raise ToolDeclarationError(f"A tool of the group {group} only reads, and this one may {effects}: name another.")
    if max_result is not None and max_result < SHORTEST_PREVIEW:
        raise ToolDeclarationError(f"max_result must be {SHORTEST_PREVIEW} characters or more, and is {max_result}.")
    told = (name, group, idempotent, seconds, effects, untrusted, max_result, preview, background_safe)

    def declare(function: Function) -> Function:
        setattr(function, _DECLARED, Declaration(*told))
        return function

    return declare if function is None else declare(function)


def declaration_of(function: Callable[..., object]) -> Declaration:
    """The function's declaration, or the defaults if it was never declared."""
    return found if isinstance(found := getattr(function, _DECLARED, None), Declaration) else Declaration()


def declared(function: object) -> bool:
    """Whether this is a function that `tool` declared."""
    return callable(function) and isinstance(getattr(function, _DECLARED, None), Declaration)


class FunctionTool:
    """One function as a tool: its spec for models, and runs whose errors become results for the model."""

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
            background_safe=self.declaration.background_safe,
        )

    @classmethod
    def of(cls, function: Callable[..., object]) -> FunctionTool:
        """The function as a tool, cached on the function: building its schema takes some 0.7 ms of CPU."""
        known = getattr(function, _MADE, None)
        if isinstance(known, cls) and known._function is function and known.declaration == declaration_of(function):
            return known
        made = cls(function)
        with suppress(AttributeError):  # bound methods take no attributes
            setattr(function, _MADE, made)
        return made

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Output:
        """Run the function; the result, which models, the record and people see, is without terminal controls."""
        output = await self._execute(_Step(self._function, output_of), arguments, context)
        assert isinstance(output, Output)
        return replace(output, content=strip_controls(output.content)) if has_controls(output.content) else output

    async def preview(self, arguments: Mapping[str, object], context: ToolContext) -> Preview | Output | None:
        """What a call would do, exactly (see `Previews`)."""
        result = await self._execute(_Step(self._preview, lambda value: value), arguments, context)
        return result if isinstance(result, Preview | Output) else None

    async def _execute(self, step: _Step, arguments: Mapping[str, object], context: ToolContext) -> object:
        try:
            checked = self._arguments.checked(arguments)
        except BadArguments as error:
            return failure(str(error))
        checked.update(dict.fromkeys(self._arguments.injections, context))
        if inspect.iscoroutinefunction(step.function):
            try:
                return step.convert(await step.function(**checked))
            except JournalError:
                raise
            except Exception as error:
                return _error_output(error, self.spec.name)
        try:
            return await threads_of(context).tool(self._execute_in_thread, step, checked)
        except NoThread as full:
            return _error_output(full, self.spec.name)
        finally:
            # Also when the call is cancelled: its function goes on in its thread until it looks at this.
            context.stop.set()

    def _execute_in_thread(self, step: _Step, arguments: Mapping[str, Any]) -> object:
        try:
            return step.convert(step.function(**arguments))
        except Exception as error:
            return _error_output(error, self.spec.name)


@dataclass(frozen=True, slots=True)
class _Step:
    """A function that a tool runs, and the conversion of its value to the result."""

    function: Callable[..., Any]
    convert: Callable[[object], object]


async def _no_preview(**arguments: object) -> None:
    """The preview of a tool that declares none."""


def _preview_of(function: Callable[..., object], preview: Callable[..., object] | None) -> Callable[..., object]:
    if preview is None:
        return _no_preview
    owner = getattr(function, "__self__", None)
    bound: Callable[..., object] = preview if owner is None else preview.__get__(owner)
    if [*inspect.signature(bound).parameters] != [*inspect.signature(function).parameters]:
        names = ", ".join(inspect.signature(function).parameters)
        raise ToolDeclarationError(f"The preview of {function.__name__} must take the same parameters: {names}.")
    return bound


def threads_of(context: ToolContext) -> OwnThreads:
    """The threads in which a tool does blocking work; outside of a run they count against no order's limit."""
    return context.turn.threads if context.turn else OwnThreads()


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
            message = str(error)
            if len(message) > _MAX_ERROR_LENGTH:
                message = f"{cut(message, _MAX_ERROR_LENGTH)}…"
            return Output(f"{name} broke: {type(error).__name__}: {message}", True, Outcome.ERROR)


def failure(message: str, outcome: Outcome = Outcome.ERROR) -> Output:
    """An error result in the runtime's own words, which models see without a fence."""
    return Output(message, is_error=True, outcome=outcome, untrusted=False)


@hints_keywords
class FunctionTools:
    """A tool set of functions; the keyword arguments go into their `ToolContext`.

    Raises `ToolDeclarationError` when two functions have the same name.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., object] | FunctionTool],
        *,
        workspace: Workspace | None = None,
        checkpoints: OrderCheckpoints | None = None,
        notes: NotesPort | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        tools = [item if isinstance(item, FunctionTool) else FunctionTool.of(item) for item in functions]
        _refuse_duplicates([tool.spec.name for tool in tools])
        self._tools = {tool.spec.name: tool for tool in tools}
        self._specs = tuple(tool.spec for tool in tools)
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._notes = notes
        self._jobs = jobs

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: StartedCall) -> Output:
        tool = self._tools.get(call.name)
        if tool is None:
            return unknown_tool(call.name, self._tools)
        return await tool.run(call.arguments, self._context(call))

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        tool = self._tools.get(call.name)
        return None if tool is None else await tool.preview(call.arguments, self._context(call))

    def _context(self, call: StartedCall) -> ToolContext:
        artifacts = call.turn.artifacts if call.turn else None
        stop, order = Event(), self._checkpoints
        return ToolContext(
            call_id=call.call_id,
            origin=call.origin,
            workspace=self._workspace,
            artifacts=artifacts,
            stop=stop,
            turn=call.turn,
            checkpoints=None if order is None or call.turn is None else order.of(call, call.turn, stop),
            notes=self._notes,
            egress=call.egress,
            jobs=self._jobs,
            read_only=call.read_only,
        )


class Joined:
    """Several tool sets as one; each set's specs are read anew for every call, so a set may change while it is used.

    Raises `ToolDeclarationError` when two tools have the same name at the start.
    """

    def __init__(self, *toolsets: ToolSet) -> None:
        self._toolsets = toolsets
        self._all_specs = IdentityCache(_concatenated, most=1)
        _refuse_duplicates([spec.name for spec in self.specs()])

    def specs(self) -> Sequence[ToolSpec]:
        return self._all_specs(*(toolset.specs() for toolset in self._toolsets))

    async def call(self, call: StartedCall) -> Output:
        for toolset in self._toolsets:
            if any(spec.name == call.name for spec in toolset.specs()):
                return await toolset.call(call)
        return unknown_tool(call.name, [spec.name for spec in self.specs()])

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        for toolset in self._toolsets:
            if any(spec.name == call.name for spec in toolset.specs()):
                return await preview_of(toolset, call)
        return None


def _concatenated(*sets: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    return tuple(spec for specs in sets for spec in specs)


def unknown_tool(name: str, available: Iterable[str], outcome: Outcome = Outcome.ERROR) -> Output:
    """The result for a call of a tool that does not exist: it suggests the nearest name and lists all of them."""
    names = list(available)
    near = close_matches(name[:200], names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    listed = f"You have: {', '.join(names)}." if names else "You have no tools."
    return failure(f"There is no tool {name[:200]!r} here.{hint} {listed}", outcome)


def _refuse_duplicates(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        name = next(name for index, name in enumerate(names) if name in names[:index])
        raise ToolDeclarationError(f"Two tools are called {name!r}; give one of them another name.")
