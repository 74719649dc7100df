"""One open connection to a server: what it offers, calls in rounds, and what it asks of a person on the way."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.client import ClientSession
from mcp.client._probe import negotiate_auto
from mcp.client._transport import TransportStreams
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from drone.mcp_servers.asking import Asks, NotAnswered, answered
from drone.mcp_servers.tasks import TASKS, TaskResult, claims, followed
from mcc import __version__

MOST_PAGES = 50
MOST_ROUNDS = 10
"""So often a server may ask for more before it answers a call."""

Progress = Callable[[str], None]
"""Is told how far a call is, in a few words."""

log = logging.getLogger("drone.mcp")


class Session(ClientSession):
    """As the SDK's, but nothing of a server's own schemas is run over its own answers: their patterns may never end."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        pass


@dataclass(slots=True)
class Spoken:
    """A session whose version is agreed upon."""

    session: Session
    asking: "Asking"

    @property
    def is_modern(self) -> bool:
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def tools(self) -> list[dict[str, Any]]:
        """All tools, page by page, as JSON objects. Raises `MCPError`, ValueError."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self.session.list_tools(params=params)
            found.extend(tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools)
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def call(
        self, name: str, arguments: Mapping[str, Any], asks: Asks | None, tell: Progress | None = None
    ) -> types.CallToolResult:
        """Raises `MCPError`, `NotAnswered`, ValueError."""
        with self.asking.by(asks):
            return await self._rounds(name, dict(arguments), asks, tell)

    async def _rounds(
        self, name: str, arguments: dict[str, Any], asks: Asks | None, tell: Progress | None
    ) -> types.CallToolResult:
        answers: types.InputResponses | None = None
        state: str | None = None
        for _ in range(MOST_ROUNDS):
            result = await self._once(name, arguments, answers, state, tell)
            if isinstance(result, TaskResult):
                return await followed(self.session, result, asks, tell)
            if not isinstance(result, types.InputRequiredResult):
                assert isinstance(result, types.CallToolResult)
                return result
            answers, state = await answered(result.input_requests or {}, asks), result.request_state
        raise NotAnswered(f"the server asked for more {MOST_ROUNDS} times and never answered")

    async def _once(
        self,
        name: str,
        arguments: dict[str, Any],
        answers: types.InputResponses | None,
        state: str | None,
        tell: Progress | None,
    ) -> types.Result:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if tell is not None:
                share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                tell(f"{share} {message or ''}".rstrip())

        async def once() -> types.Result:
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
            return await once()
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH or not self.is_modern:
                raise
            # The headers that stand for arguments come from the listing, which has changed.
            await self.tools()
            return await once()


class Asking:
    """Who is asked when a server of an older revision asks in the midst of a call.

    Such a question does not say which call it is about: with several under way nobody is asked.
    """

    def __init__(self) -> None:
        self._under_way: list[Asks | None] = []

    def by(self, asks: Asks | None) -> "_Under":
        return _Under(self._under_way, asks)

    async def elicited(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        if len(self._under_way) != 1 or (asks := self._under_way[0]) is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Nobody can be asked here.")
        return await asks.elicited(params)


class _Under:
    def __init__(self, under_way: list[Asks | None], asks: Asks | None) -> None:
        self._under_way = under_way
        self._asks = asks

    def __enter__(self) -> None:
        self._under_way.append(self._asks)

    def __exit__(self, *_: object) -> None:
        self._under_way.remove(self._asks)


def session_over(streams: TransportStreams, asking: Asking, changed: Callable[[], None]) -> Session:
    """`changed` is called when the server says that its tools are others now."""

    async def heard(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    return Session(
        dispatcher=JSONRPCDispatcher(*streams),
        client_info=types.Implementation(name="mcc", version=__version__),
        message_handler=heard,
        elicitation_callback=asking.elicited,
        extensions={TASKS: {}},
        result_claims=claims(),
    )


async def spoken(session: Session, asking: Asking, *, legacy: bool = False) -> Spoken:
    """Agree upon a version: the newest without a handshake, else an older one with it. Raises `MCPError`."""
    if legacy:
        await session.initialize()
    else:
        await negotiate_auto(session)
    return Spoken(session, asking)
