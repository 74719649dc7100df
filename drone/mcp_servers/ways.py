"""How servers are reached: programs in the sandbox, addresses by the rule. The SDK is loaded by the first that is."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from drone.agent.threads import in_thread
from drone.mcp_servers.connection import Open, Opened
from drone.mcp_servers.program import CannotStart, Program
from drone.mcp_servers.token_port import MemoryTokens, Tokens
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.profile import Network
from mcc.addresses import AddressRule
from mcc.configuration.mcp_servers import McpServer

if TYPE_CHECKING:
    import httpx2

    from drone.mcp_servers.oauth import Visit

MISSING = "the SDK for MCP is not installed here: pip install 'mcc[mcp]'"
NO_EGRESS = "it names hosts with egress, and this drone gives programs no network"


@dataclass(frozen=True, slots=True)
class Ways:
    """`sandbox` None: there is none here, and programs are not started. `network` makes the way out of a program that
    may reach these hosts; `key` reads a variable of the drone."""

    sandbox: Bubblewrap | None
    rule: AddressRule
    key: Callable[[str], str | None]
    proxy: str | None = None
    network: Callable[[tuple[str, ...]], Network] | None = None
    tokens: Tokens = field(default_factory=MemoryTokens)
    visit: "Visit | None" = None
    """Sends a person to log in; None: nobody is at hand."""
    learn: Callable[[str], None] = lambda secret: None
    """Hears of a secret, so that it is said nowhere."""
    handshake: bool = False
    """Whether servers are spoken with in the older way without trying the newer one first."""

    def opening(self, name: str, config: McpServer, changed: Callable[[], None]) -> Open:
        """`changed` is called when the server says that its tools are others now."""

        def opened() -> AbstractAsyncContextManager[Opened]:
            return self._program(config, changed) if config.command else self._address(name, config, changed)

        return opened

    @asynccontextmanager
    async def _program(self, config: McpServer, changed: Callable[[], None]) -> AsyncIterator[Opened]:
        """Raises `CannotStart`, OSError, and what the session raises."""
        problem = "bubblewrap is not installed" if self.sandbox is None else await in_thread(self.sandbox.problem)
        if self.sandbox is None or problem:
            raise CannotStart(f"its program may only run in the sandbox, and there is none: {problem}")
        if config.egress and self.network is None:
            raise CannotStart(NO_EGRESS)
        _loaded()
        from drone.mcp_servers.session import Asking, session_over, spoken
        from drone.mcp_servers.stdio import Pipe

        network = self.network(config.egress) if config.egress and self.network else None
        held = await Program(self.sandbox, config, self.key).start(network)
        pipe, asking = Pipe(held), Asking()

        def why() -> str:
            heard = held.said or pipe.noise
            return f"{pipe.why}; the last it said: {heard}" if heard else pipe.why

        try:
            async with pipe.streams() as streams, session_over(streams, asking, changed) as session:
                yield Opened(await spoken(session, asking, legacy=self.handshake), pipe.gone, why)
        except Exception as error:
            if pipe.gone.is_set():
                raise CannotStart(why()) from error
            raise

    @asynccontextmanager
    async def _address(self, name: str, config: McpServer, changed: Callable[[], None]) -> AsyncIterator[Opened]:
        assert config.url is not None
        _loaded()
        import asyncio

        from drone.mcp_servers.http import Pinned, streams
        from drone.mcp_servers.session import Asking, session_over, spoken

        asking, auth = Asking(), self._auth(name, config)
        async with (
            streams(config.url, Pinned(self.rule, self.proxy), auth) as pair,
            session_over(pair, asking, changed) as session,
        ):
            yield Opened(
                await spoken(session, asking, legacy=self.handshake), asyncio.Event(), lambda: "the connection ended"
            )

    def _auth(self, name: str, config: McpServer) -> "httpx2.Auth | None":
        """Raises `CannotStart`."""
        from drone.mcp_servers.http import Bearer
        from drone.mcp_servers.oauth import ServerTokens, SharedOAuth

        assert config.url is not None
        if config.token_env is not None:
            token_env = config.token_env
            self._value(token_env)
            return Bearer(config.url, lambda: self.key(token_env))
        if config.oauth is None:
            return None
        secret_env = config.oauth.client_secret_env
        secret = self._value(secret_env) if secret_env else None
        kept = ServerTokens(name, self.tokens, config.oauth, secret, self.learn)
        return SharedOAuth(config.url, config.oauth, kept, self.visit)

    def _value(self, name: str) -> str:
        value = self.key(name)
        if value is None:
            raise CannotStart(f"the variable {name} is not set for this drone")
        return value


async def load() -> None:
    """Load the SDK where that holds up nobody: it takes most of a second. Where there is none, each server says so."""
    with suppress(ImportError):
        await in_thread(import_module, "drone.mcp_servers.session")


def _loaded() -> None:
    """Raises `CannotStart`."""
    try:
        import_module("drone.mcp_servers.session")
    except ImportError as error:
        raise CannotStart(MISSING) from error
