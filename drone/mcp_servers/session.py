"""A session with a server: its tool list, calls in several rounds, and its questions to people during a call."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.client import ClientSession
from mcp.client._probe import negotiate_auto
from mcp.client._transport import TransportStreams
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from drone.mcp_servers.elicitation import Elicitor, NotAnswered, answered
from drone.mcp_servers.readable import UNREADABLE, ReadableDispatcher, tools_in
from drone.mcp_servers.tasks import TASKS, TaskLost, TaskResult, claims, task_result
from mcc import __version__

MOST_PAGES = 50
MOST_ROUNDS = 10
"""How often a server may ask for more input before it answers a call."""

Progress = Callable[[str], None]
"""Receives a short text on the progress of a call."""

log = logging.getLogger("drone.mcp")


_CLOSED = ("Connection closed", "SSE stream ")
_UNREADABLE = (
    "Failed to parse",
    "Server returned an error response",
    "Unexpected content type",
    "server answered a request with 202",
    "Request 'tools/call' timed out",
)
"""How the SDK's own reports begin. Their codes tell nothing: servers use the same ones for errors of their own."""


def is_closed(error: MCPError) -> bool:
    """Whether the SDK reports that the connection ended."""
    return error.code == types.CONNECTION_CLOSED and error.error.message.startswith(_CLOSED)


def is_unanswered(error: MCPError) -> bool:
    """Whether a request that was sent has no answer of the server that can be read, so that its effect is unknown."""
    if isinstance(error, TaskLost) or error.code == UNREADABLE or is_closed(error):
        return True
    return error.error.message.startswith(_UNREADABLE)


class McpSession(ClientSession):
    """The SDK's session, but results are not validated: patterns in a server's own schemas might take for ever."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        pass


@dataclass(slots=True)
class ServerSession:
    """A session whose protocol version is negotiated."""

    session: McpSession
    elicitations: "ElicitationRouter"

    @property
    def is_modern(self) -> bool:
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def tools(self) -> list[object]:
        """All tools as their server sent them, read page by page. Raises `MCPError` and ValueError."""
        tools: list[object] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            # An empty cursor is one like any other: only null ends the list.
            params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
            page = await self.session.list_tools(params=params)
            tools.extend(tools_in(page))
            cursor = page.next_cursor
            # A server that repeats a cursor would list the same tools for ever.
            if cursor is None or cursor in seen:
                break
            seen.add(cursor)
        return tools

    async def call(
        self, name: str, arguments: Mapping[str, Any], people: Elicitor | None, report: Progress | None = None
    ) -> types.CallToolResult:
        """Call a tool, answering the server's questions. Raises `MCPError`, `NotAnswered`, `TaskFailed`, ValueError."""
        with self.elicitations.during_call(people):
            return await self._call_in_rounds(name, dict(arguments), people, report)

    async def _call_in_rounds(
        self, name: str, arguments: dict[str, Any], people: Elicitor | None, report: Progress | None
    ) -> types.CallToolResult:
        answers: types.InputResponses | None = None
        state: str | None = None
        for _ in range(MOST_ROUNDS):
            result = await self._call_once(name, arguments, answers, state, report)
            if isinstance(result, TaskResult):
                return await task_result(self.session, result, people, report)
            if not isinstance(result, types.InputRequiredResult):
                assert isinstance(result, types.CallToolResult)
                return result
            answers, state = await answered(result.input_requests or {}, people), result.request_state
        raise NotAnswered(f"the server asked for more {MOST_ROUNDS} times and never answered")

    async def _call_once(
        self,
        name: str,
        arguments: dict[str, Any],
        answers: types.InputResponses | None,
        state: str | None,
        report: Progress | None,
    ) -> types.Result:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if report is not None:
                share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                report(f"{share} {message or ''}".rstrip())

        async def send() -> types.Result:
            result: types.Result = await self.session.call_tool(
                name,
                arguments,
                None,
                progressed,
                input_responses=answers,
                request_state=state,
                allow_input_required=True,
                allow_claimed=True,
            )
            return result

        try:
            return await send()
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH or not self.is_modern:
                raise
            # The SDK derives headers for arguments from the tool list, which has changed: list again.
            await self.tools()
            return await send()


class ElicitationRouter:
    """Passes on the questions that servers of older protocol versions ask during a call.

    Such a question does not name its call: while several calls run, nobody is asked.
    """

    def __init__(self) -> None:
        self._calls: list[Elicitor | None] = []

    @contextmanager
    def during_call(self, people: Elicitor | None) -> Iterator[None]:
        """A call runs inside; `people` answer the questions that belong to it."""
        self._calls.append(people)
        try:
            yield
        finally:
            self._calls.remove(people)

    async def elicited(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        if len(self._calls) != 1 or (people := self._calls[0]) is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Nobody can be asked here.")
        return await people.elicited(params)


def session_over(streams: TransportStreams, elicitations: ElicitationRouter, changed: Callable[[], None]) -> McpSession:
    """A session over these streams; `changed` is called when the server reports that its tools changed."""

    async def received(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    return McpSession(
        dispatcher=ReadableDispatcher(*streams),
        client_info=types.Implementation(name="mcc", version=__version__),
        message_handler=received,
        elicitation_callback=elicitations.elicited,
        extensions={TASKS: {}},
        result_claims=claims(),
    )


async def negotiated(session: McpSession, elicitations: ElicitationRouter, *, legacy: bool = False) -> ServerSession:
    """Negotiate a protocol version: the newest without a handshake, else an older one with it. Raises `MCPError`."""
    if legacy:
        await session.initialize()
    else:
        await negotiate_auto(session)
    return ServerSession(session, elicitations)
