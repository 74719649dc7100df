"""The Tasks extension: a call that returns a task is polled until the task ends."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

import mcp_types as types
from mcp.client import ClientSession
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from drone.mcp_servers.elicitation import Elicitor, answered
from drone.mcp_servers.readable import readable_result

TASKS = "io.modelcontextprotocol/tasks"

POLL_SECONDS = 1.0
MOST_POLL_SECONDS = 30.0
LEAST_POLL_SECONDS = 0.05

_WIRE = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")
_REQUESTS: TypeAdapter[dict[str, types.InputRequest]] = TypeAdapter(dict[str, types.InputRequest])


class TaskFailed(Exception):
    """The task ended without a usable result; the message is the end of a sentence."""


class TaskLost(MCPError):
    """The server does not tell of a task that it began: whether it had its effect is unknown."""


class TaskResult(types.Result):
    """The response to a call that continues as a task."""

    model_config = _WIRE
    result_type: Literal["task"] = "task"
    task_id: str = Field(max_length=1_000)
    poll_interval_ms: object = None


class TaskState(types.Result):
    """The state of a task, with its result, its error, or the input it requires. It works on in any other state."""

    model_config = _WIRE
    status: str
    status_message: object = None
    poll_interval_ms: object = None
    result: dict[str, Any] | None = None
    error: object = None
    wanted: dict[str, Any] | None = Field(default=None, validation_alias="inputRequests")


class _TaskRequest(types.Request[dict[str, Any], str]):
    name_param = "taskId"


def claims() -> Mapping[str, tuple[ResultClaim[Any], ...]]:
    """The declaration by which the SDK's session accepts a task as the response to a call."""

    async def resolve(result: TaskResult, context: ClaimContext) -> types.CallToolResult:
        return await task_result(context.session, result, None, None)

    return {TASKS: (ResultClaim(result_type="task", model=TaskResult, resolve=resolve),)}


async def task_result(
    session: ClientSession, task: TaskResult, people: Elicitor | None, progress: Callable[[str], None] | None
) -> types.CallToolResult:
    """Wait for the end of a task and return its result; cancellation cancels the task, too.

    Raises `MCPError`, `NotAnswered` and `TaskFailed`.
    """
    wait, given = _seconds(task.poll_interval_ms), set[str]()
    try:
        while True:
            await asyncio.sleep(wait)
            state = await _state(session, task.task_id)
            wait = _seconds(state.poll_interval_ms)
            if progress is not None and isinstance(state.status_message, str):
                progress(state.status_message[:500])
            match state.status:
                case "completed":
                    return types.CallToolResult.model_validate(readable_result(state.result or {}), by_name=False)
                case "failed" | "cancelled":
                    raise TaskFailed(_reason(state))
                case "input_required":
                    wanted = {key: request for key, request in _input_requests(state).items() if key not in given}
                    if wanted:
                        answers = await answered(wanted, people)
                        dumped = {
                            key: answer.model_dump(mode="json", by_alias=True, exclude_none=True)
                            for key, answer in answers.items()
                        }
                        update = _request("tasks/update", task.task_id, inputResponses=dumped)
                        await session.send_request(update, types.EmptyResult)
                        given |= wanted.keys()
    except BaseException as error:
        # A task that has failed is over; any other would go on without anybody who waits for it.
        if not isinstance(error, TaskFailed):
            await _cancel(session, task.task_id)
        raise


async def _state(session: ClientSession, task_id: str) -> TaskState:
    """Raises `TaskLost`."""
    try:
        return await session.send_request(_request("tasks/get", task_id), TaskState)
    except MCPError as error:
        raise TaskLost(code=error.code, message=error.error.message, data=error.error.data) from error


async def _cancel(session: ClientSession, task_id: str) -> None:
    """Ask the server to cancel the task; waits only briefly for its answer."""
    try:
        async with asyncio.timeout(1.0):
            # Shielded, since this is often the end of a call that was cancelled.
            await asyncio.shield(session.send_request(_request("tasks/cancel", task_id), types.EmptyResult))
    except (MCPError, TimeoutError, ValueError, RuntimeError):
        pass


def _request(method: str, task_id: str, **more: Any) -> _TaskRequest:
    return _TaskRequest(method=method, params={"taskId": task_id, **more})


def _reason(state: TaskState) -> str:
    error = state.error.get("message") if isinstance(state.error, Mapping) else state.error
    message = error or state.status_message or "it does not say why"
    return f"the task was {state.status}: {str(message)[:500]}"


def _input_requests(state: TaskState) -> dict[str, types.InputRequest]:
    try:
        return _REQUESTS.validate_python(state.wanted or {})
    except ValidationError as error:
        raise TaskFailed("the task wants to know something that cannot be asked here") from error


def _seconds(milliseconds: object) -> float:
    wanted = milliseconds / 1_000 if isinstance(milliseconds, int | float) else POLL_SECONDS
    return min(MOST_POLL_SECONDS, max(LEAST_POLL_SECONDS, wanted))
