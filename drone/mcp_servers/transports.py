"""How servers are reached: as programs in the sandbox or at addresses. The first use loads the SDK."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from drone.mcp_servers.connection import Open, OpenConnection
from drone.mcp_servers.program import ProgramCannotStart, ServerProgram, required_variable
from drone.mcp_servers.server_state import MemoryTokens, OAuthTokenStore
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.profile import Network
from drone.threads import in_thread
from mcc.addresses import AddressRule
from mcc.configuration.mcp_servers import McpServer

if TYPE_CHECKING:
    import httpx2

    from drone.mcp_servers.oauth import Visit

MISSING = "the SDK for MCP is not installed here: pip install 'mcc[mcp]'"
NO_EGRESS = "it names hosts with egress, and this drone gives programs no network"


@dataclass(frozen=True, slots=True)
class Transports:
    """Opens servers. `sandbox` None: there is none here, so servers that are programs cannot be started.

    `network` makes a network that reaches the given hosts, for a program; `key` reads a variable of the drone's
    environment.
    """

    sandbox: Bubblewrap | None
    rule: AddressRule
    key: Callable[[str], str | None]
    proxy: str | None = None
    network: Callable[[tuple[str, ...]], Network] | None = None
    tokens: OAuthTokenStore = field(default_factory=MemoryTokens)
    visit: "Visit | None" = None
    """Sends a person to log in; None: no person can log in now."""
    learn: Callable[[str], None] = lambda secret: None
    """Called with each secret, so that it is redacted from now on."""
    handshake: bool = False
    """Whether to negotiate by the older handshake without trying the newer way first."""

    def opening(self, name: str, config: McpServer, changed: Callable[[], None]) -> Open:
        """How to open this server; `changed` is called when the server reports that its tools changed."""

        def opened() -> AbstractAsyncContextManager[OpenConnection]:
            return self._program(config, changed) if config.command else self._address(name, config, changed)

        return opened

    @asynccontextmanager
    async def _program(self, config: McpServer, changed: Callable[[], None]) -> AsyncIterator[OpenConnection]:
        """Start a program and open a session with it. Raises `ProgramCannotStart`, OSError, the session's errors."""
        problem = "bubblewrap is not installed" if self.sandbox is None else await in_thread(self.sandbox.problem)
        if self.sandbox is None or problem:
            raise ProgramCannotStart(f"its program may only run in the sandbox, and there is none: {problem}")
        if config.egress and self.network is None:
            raise ProgramCannotStart(NO_EGRESS)
        _require_sdk()
        from drone.mcp_servers.session import ElicitationRouter, negotiated, session_over
        from drone.mcp_servers.stdio import Pipe

        network = self.network(config.egress) if config.egress and self.network else None
        running = await ServerProgram(self.sandbox, config, self.key).start(network)
        pipe, elicitations = Pipe(running), ElicitationRouter()

        def why() -> str:
            last = running.error_text or pipe.noise
            return f"{pipe.why}; the last it said: {last}" if last else pipe.why

        try:
            async with pipe.streams() as streams, session_over(streams, elicitations, changed) as session:
                opened = await negotiated(session, elicitations, legacy=self.handshake)
                yield OpenConnection(opened, pipe.gone, why)
        except Exception as error:
            if pipe.gone.is_set():
                raise ProgramCannotStart(why()) from error
            raise

    @asynccontextmanager
    async def _address(
        self, name: str, config: McpServer, changed: Callable[[], None]
    ) -> AsyncIterator[OpenConnection]:
        """Open a session with a server at an address. Raises `ProgramCannotStart` and the session's errors."""
        assert config.url is not None
        _require_sdk()
        import asyncio

        from drone.mcp_servers.http import CheckedTransport, streams
        from drone.mcp_servers.session import ElicitationRouter, negotiated, session_over

        elicitations, auth = ElicitationRouter(), self._auth(name, config)
        async with (
            streams(config.url, CheckedTransport(self.rule, self.proxy), auth) as pair,
            session_over(pair, elicitations, changed) as session,
        ):
            opened = await negotiated(session, elicitations, legacy=self.handshake)
            yield OpenConnection(opened, asyncio.Event(), lambda: "the connection ended")

    def _auth(self, name: str, config: McpServer) -> "httpx2.Auth | None":
        """The authorization of requests to this server. Raises `ProgramCannotStart`."""
        from drone.mcp_servers.http import Bearer
        from drone.mcp_servers.oauth import ServerTokens, SharedOAuth

        assert config.url is not None
        if config.token_env is not None:
            token_env = config.token_env
            required_variable(self.key, token_env)
            return Bearer(config.url, lambda: self.key(token_env))
        if config.oauth is None:
            return None
        secret_env = config.oauth.client_secret_env
        secret = required_variable(self.key, secret_env) if secret_env else None
        kept = ServerTokens(name, self.tokens, config.oauth, secret, self.learn)
        return SharedOAuth(config.url, config.oauth, kept, self.visit)


async def load() -> None:
    """Load the SDK in a thread, because that takes most of a second. If it is missing, each server reports that."""
    with suppress(ImportError):
        await in_thread(import_module, "drone.mcp_servers.session")


def _require_sdk() -> None:
    """Load the SDK. Raises `ProgramCannotStart` if it is not installed."""
    try:
        import_module("drone.mcp_servers.session")
    except ImportError as error:
        raise ProgramCannotStart(MISSING) from error
