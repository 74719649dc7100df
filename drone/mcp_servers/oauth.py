"""OAuth for servers: the SDK's flow, with tokens that all drones share and one drone at a time refreshes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from drone.mcp_servers.server_state import OAuthTokenStore
from mcc.configuration.mcp_servers import OAuth
from mcc.contracts.ids import fresh_id

HOLD_SECONDS = 60.0
"""How long one drone may take to refresh a token before another one tries."""

LOOK_SECONDS = 0.2
EARLY_SECONDS = 30.0
"""How long before its expiry a token is refreshed."""

Visit = Callable[[str], Awaitable[str]]
"""Sends a person to an address; returns the address to which the person was redirected after the login."""

Learn = Callable[[str], None]
"""Called with each secret, so that it is redacted from now on."""


class SharedOAuth(OAuthClientProvider):
    """The SDK's provider for one server; it loads the shared tokens before each request."""

    def __init__(self, url: str, config: OAuth, kept: "ServerTokens", visit: Visit | None) -> None:
        """`visit` None: no person can log in now, so only tokens of earlier logins can be used."""
        self._server, self._tokens = kept.server, kept.tokens
        self._who = fresh_id()
        self._version: int | None = None
        self._code: AuthorizationCodeResult | None = None
        self._visit = visit
        self._kept = kept
        super().__init__(
            url,
            _metadata(config),
            kept,
            self._log_in,
            self._login_result,
            client_metadata_url=config.client_metadata_url,
        )

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._share()
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()
            # Also where nothing was refreshed; `save` has released the lock where it was.
            await self._tokens.let_go(self._server, self._who)

    async def _share(self) -> None:
        """Load the shared tokens; if they expire soon, refresh them or wait for the drone that does."""
        async with self.context.lock:
            while True:
                await self._load()
                ends = self.context.token_expiry_time
                expires_soon = bool(self.context.current_tokens and ends and time.time() > ends - EARLY_SECONDS)
                if not expires_soon or not self.context.can_refresh_token() or self._version is None:
                    return
                if await self._tokens.hold(self._server, self._version, self._who, HOLD_SECONDS):
                    self.context.token_expiry_time = 1.0  # long ago, so that the SDK refreshes the token now
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def _load(self) -> None:
        version = await self._kept.load()
        if version == self._version and self._initialized:
            return
        await self._initialize()
        self._version = version
        self.context.token_expiry_time = self._kept.expires_at

    async def _log_in(self, url: str) -> None:
        if self._visit is None:
            raise OAuthFlowError(f"nobody is logged in: on the drone's machine, drone login {self._server}")
        query = {name: values[0] for name, values in parse_qs(urlsplit(await self._visit(url)).query).items()}
        if "code" not in query:
            why = query.get("error_description") or query.get("error") or "it brought no code"
            raise OAuthFlowError(f"the login was refused: {why[:300]}")
        self._code = AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    async def _login_result(self) -> AuthorizationCodeResult:
        code, self._code = self._code, None
        if code is None:
            raise OAuthFlowError("nobody came back from the login")
        return code


class ServerTokens:
    """The SDK's storage for one server: its tokens and its client registration, stored as one JSON object."""

    def __init__(self, server: str, tokens: OAuthTokenStore, config: OAuth, secret: str | None, learn: Learn) -> None:
        self.server = server
        self.tokens = tokens
        self._config = config
        self._secret = secret
        self._learn = learn
        self._stored: dict[str, Any] = {}
        self.expires_at: float | None = None

    async def load(self) -> int | None:
        """Read what is stored; returns the number of its version, None if nothing is."""
        kept = await self.tokens.load(self.server)
        self._stored = {} if kept is None else dict(kept.token)
        self.expires_at = self._stored.get("expires_at")
        for secret in self._secrets():
            self._learn(secret)
        return None if kept is None else kept.version

    async def get_tokens(self) -> OAuthToken | None:
        tokens = self._stored.get("tokens")
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._save({"tokens": tokens.model_dump(mode="json", exclude_none=True), "expires_at": ends})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._config.client_id is not None:
            method = "client_secret_basic" if self._secret else "none"
            return OAuthClientInformationFull(
                client_id=self._config.client_id,
                client_secret=self._secret,
                redirect_uris=[AnyUrl(self._config.redirect)],
                token_endpoint_auth_method=method,
            )
        client = self._stored.get("client")
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._save({"client": client_info.model_dump(mode="json", exclude_none=True)})

    async def _save(self, changes: dict[str, Any]) -> None:
        self._stored = {**self._stored, **changes}
        for secret in self._secrets():
            self._learn(secret)
        await self.tokens.save(self.server, self._stored)
        self.expires_at = self._stored.get("expires_at")

    def _secrets(self) -> list[str]:
        tokens, client = self._stored.get("tokens") or {}, self._stored.get("client") or {}
        found = (tokens.get("access_token"), tokens.get("refresh_token"), client.get("client_secret"))
        return [secret for secret in found if secret]


def _metadata(config: OAuth) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="MCC",
        redirect_uris=[AnyUrl(config.redirect)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=config.scope,
    )
