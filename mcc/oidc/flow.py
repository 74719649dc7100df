"""The way to a provider of identities and back: where a browser is sent, and what its answer is exchanged for."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import quote_plus, urlencode

from authlib.oauth2.client import OAuth2Client
from authlib.oauth2.rfc6749.parameters import prepare_token_request

from mcc.addresses import url_of
from mcc.configuration.oidc import OidcSettings
from mcc.contracts.shape import now
from mcc.fetching import FetchRequest
from mcc.oidc.identity import Claims, Identity, ProviderAway, SigninRefused, identity_of, lacks_something
from mcc.oidc.provider import IdentityProvider
from mcc.oidc.signed import Expected, LogoutOrder, checked_id_token, checked_logout_token, verified

SHOWN_CHARACTERS = 300
"""How much is shown of what a provider says in words."""


class OidcFlow:
    """`secret`: by which this service proves itself to the provider; None: a public client. `clock` tells the time."""

    def __init__(
        self,
        settings: OidcSettings,
        secret: str | None,
        provider: IdentityProvider,
        *,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.settings = settings
        self._secret = secret
        self._provider = provider
        self._clock = clock

    async def way_there(self, browser: str, state: str, back: str) -> str:
        """The address that a browser is sent to, which comes back to `back`. `browser`: a secret that this browser
        alone has; with `state`, all secrets of this one question follow from it. Raises `SigninRefused`."""
        facts = await self._provider.facts()
        address, _ = self._client(back).create_authorization_url(
            facts.authorization,
            state=state,
            code_verifier=derived(browser, state, "verifier"),
            nonce=derived(browser, state, "nonce"),
        )
        return str(address)

    async def arrived(self, browser: str, answer: Mapping[str, str], back: str) -> Identity:
        """Whom the provider vouches for in its answer to a question of this browser's. Raises `SigninRefused`."""
        facts, issuer = await self._provider.facts(), self.settings.issuer
        if ("iss" in answer or facts.names_itself) and answer.get("iss") != issuer:
            raise SigninRefused("iss", "The answer is of another provider than the one that was asked: begin again.")
        if error := answer.get("error"):
            words = ": ".join(filter(None, (error, answer.get("error_description"))))[:SHOWN_CHARACTERS]
            raise SigninRefused("error", f"The provider signs nobody in: {words}")
        if not answer.get("code"):
            raise SigninRefused("code", "The provider's answer has no code: begin again.")
        state = answer["state"]
        tokens = await self._exchanged(answer["code"], derived(browser, state, "verifier"), back)
        token, access_token = await verified(tokens.get("id_token"), self._provider), tokens.get("access_token")
        expected = Expected(issuer, self.settings.client_id, self._clock(), derived(browser, state, "nonce"))
        claims = checked_id_token(token, expected, access_token)
        more: Claims = {}
        if facts.userinfo is not None and isinstance(access_token, str) and lacks_something(claims, self.settings):
            more = await self._userinfo(facts.userinfo, access_token, claims)
        return identity_of(claims, more, self.settings)

    async def signed_out(self, token: str) -> LogoutOrder:
        """Whom the provider signs out by this logout token. Raises `SigninRefused`."""
        expected = Expected(self.settings.issuer, self.settings.client_id, self._clock())
        return checked_logout_token(await verified(token, self._provider), expected)

    async def way_out(self, back: str) -> str | None:
        """Where a browser signs out at the provider too, and comes back from to `back`; None where it cannot."""
        try:
            address = (await self._provider.facts()).end_session
        except SigninRefused:
            return None
        query = urlencode({"client_id": self.settings.client_id, "post_logout_redirect_uri": back})
        return address and f"{address}{'&' if '?' in address else '?'}{query}"

    def _client(self, back: str, method: str | None = None) -> OAuth2Client:
        """`method`: how it proves itself, None: as is usual. By HTTP's Basic the parts are written as a form's are (RFC
        6749, 2.3.1), which its library leaves to us."""
        name, secret = self.settings.client_id, self._secret
        if method == "client_secret_basic":
            name, secret = quote_plus(name), quote_plus(secret or "")
        return OAuth2Client(
            None,
            client_id=name,
            client_secret=secret,
            token_endpoint_auth_method=method,
            scope=" ".join(dict.fromkeys(("openid", *self.settings.scopes))),
            redirect_uri=back,
            code_challenge_method="S256",
        )

    async def _exchanged(self, code: str, verifier: str, back: str) -> Mapping[str, object]:
        """What the provider answers for the code. Raises `SigninRefused`."""
        facts = await self._provider.facts()
        by_post = "client_secret_post" in facts.auth_methods and "client_secret_basic" not in facts.auth_methods
        method = "none" if self._secret is None else "client_secret_post" if by_post else "client_secret_basic"
        form = prepare_token_request("authorization_code", redirect_uri=back, code=code, code_verifier=verifier)
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        _, proven, body = self._client(back, method).client_auth(method).prepare("POST", facts.token, headers, form)
        sent = {name.lower(): value for name, value in proven.items()}
        tokens = await self._provider.json(FetchRequest(url_of(facts.token), "POST", sent, body.encode()))
        if error := tokens.get("error"):
            raise SigninRefused(
                "code", f"The provider does not take back what it gave: {str(error)[:SHOWN_CHARACTERS]}. Begin again."
            )
        return tokens

    async def _userinfo(self, address: str, access_token: str, claims: Claims) -> Claims:
        sent = {"authorization": f"Bearer {access_token}", "accept": "application/json"}
        try:
            said = await self._provider.json(FetchRequest(url_of(address), headers=sent))
        except ValueError as error:
            raise ProviderAway("its access token cannot be sent back to it.") from error
        if "sub" not in said and "error" in said:
            raise ProviderAway(f"userinfo refuses the provider's own access token: {said['error']}")
        # Without it, another person's answer could be taken for this one's.
        if said.get("sub") != claims.get("sub"):
            raise SigninRefused("sub", "The provider speaks of two different people: begin again.")
        return said


def derived(browser: str, state: str, what: str) -> str:
    """A secret that only whoever has both can make, so that it is kept nowhere."""
    return urlsafe_b64encode(hmac.digest(browser.encode(), f"{what}.{state}".encode(), "sha256")).rstrip(b"=").decode()
