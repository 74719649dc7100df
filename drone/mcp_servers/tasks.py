"""The Tasks extension: a call that answers with a task is followed, by asking how it stands, to its end."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

import mcp_types as types
from mcp.client import ClientSession
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from drone.mcp_servers.asking import Asks, answered

TASKS = "io.modelcontextprotocol/tasks"

POLL_SECONDS = 1.0
MOST_POLL_SECONDS = 30.0
LEAST_POLL_SECONDS = 0.05

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
_WIRE = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")
_REQUESTS: TypeAdapter[dict[str, types.InputRequest]] = TypeAdapter(dict[str, types.InputRequest])


class TaskFailed(Exception):
    """The task came to no result; a sentence about it."""


class TaskResult(types.Result):
    """The answer to a call that goes on as a task."""

    model_config = _WIRE
    result_type: Literal["task"] = "task"
    task_id: str = Field(min_length=1, max_length=1_000)
    poll_interval_ms: float | None = None


class TaskStands(types.Result):
    """How a task stands: with its result, its error, or what it wants to know."""

    model_config = _WIRE
    task_id: str
    status: Status
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    wanted: dict[str, Any] | None = Field(default=None, validation_alias="inputRequests")


class _Asked(types.Request[dict[str, Any], str]):
    name_param = "taskId"


def claims() -> Mapping[str, tuple[ResultClaim[Any], ...]]:
    """What the session must know to take a task for an answer; `followed` does what is then to be done."""

    async def unfinished(result: TaskResult, context: ClaimContext) -> types.CallToolResult:
        return await followed(context.session, result, None, None)

    return {TASKS: (ResultClaim(result_type="task", model=TaskResult, resolve=unfinished),)}


async def followed(
    session: ClientSession, task: TaskResult, asks: Asks | None, progress: Callable[[str], None] | None
) -> types.CallToolResult:
    """The result of the task at its end; a call that is given up cancels it. Raises `MCPError`, `TaskFailed`."""
    wait, given = _seconds(task.poll_interval_ms), set[str]()
    try:
        while True:
            await asyncio.sleep(wait)
            stands = await session.send_request(_asked("tasks/get", task.task_id), TaskStands)
            wait = _seconds(stands.poll_interval_ms)
            if progress is not None and stands.status_message:
                progress(stands.status_message[:500])
            match stands.status:
                case "completed":
                    return _result(stands)
                case "failed" | "cancelled":
                    raise TaskFailed(_why(stands))
                case "input_required":
                    wanted = {key: one for key, one in _wanted(stands).items() if key not in given}
                    if wanted:
                        answers = await answered(wanted, asks)
                        dumped = {
                            key: one.model_dump(mode="json", by_alias=True, exclude_none=True)
                            for key, one in answers.items()
                        }
                        update = _asked("tasks/update", task.task_id, inputResponses=dumped)
                        await session.send_request(update, types.EmptyResult)
                        given |= wanted.keys()
                case "working":
                    pass
    except BaseException as error:
        if not isinstance(error, TaskFailed):
            await _cancel(session, task.task_id)
        raise


async def _cancel(session: ClientSession, task_id: str) -> None:
    """Nobody waits for the task any longer; whether the server hears of it is not waited for long."""
    try:
        async with asyncio.timeout(1.0):
            await asyncio.shield(session.send_request(_asked("tasks/cancel", task_id), types.EmptyResult))
    except (MCPError, TimeoutError, ValueError, RuntimeError):
        pass


def _asked(method: str, task_id: str, **more: Any) -> _Asked:
    return _Asked(method=method, params={"taskId": task_id, **more})


def _result(stands: TaskStands) -> types.CallToolResult:
    try:
        return types.CallToolResult.model_validate(stands.result or {}, by_name=False)
    except ValidationError as error:
        raise TaskFailed("the task ended, and what it brought is no result of a tool") from error


def _why(stands: TaskStands) -> str:
    said = (stands.error or {}).get("message") or stands.status_message or "it does not say why"
    return f"the task was {stands.status}: {str(said)[:500]}"


def _wanted(stands: TaskStands) -> dict[str, types.InputRequest]:
    try:
        return _REQUESTS.validate_python(stands.wanted or {})
    except ValidationError as error:
        raise TaskFailed("the task wants to know something that cannot be asked here") from error


def _seconds(milliseconds: float | None) -> float:
    wanted = POLL_SECONDS if milliseconds is None else milliseconds / 1_000
    return min(MOST_POLL_SECONDS, max(LEAST_POLL_SECONDS, wanted))
