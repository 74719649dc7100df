"""Finds out who a request comes from: by a token in its head, else by the cookie of a browser that is signed in.

A bearer token counts before a cookie, so that a program is never taken for the person at its machine.
"""

import asyncio
import hashlib
import hmac
import logging
import math
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from datetime import timedelta

from starlette.requests import Request

from mcc.api.access.callers import Caller, door_of, operator_by_token
from mcc.api.access.per_minute import PerMinute
from mcc.api.problems import RETRY_SECONDS, Refusal
from mcc.contracts.callers import CODE_CHARACTERS, CSRF_HEADER, OPERATOR, SERVICE, AccessScope
from mcc.contracts.shape import now
from mcc.contracts.token_text import is_token
from mcc.store.database.errors import SpentLink, StoreError
from mcc.store.people.rights import SEEN_SECONDS, SIGNED_OUT, Right, RightStore
from mcc.store.store import Offload

WRONG_SECRETS = 20
"""A minute, as all of these."""

QUESTIONS = 600
"""How many sign-ins by the provider are begun from one address: those of a company come from one, its proxy's."""

NOTES = 20
"""How many refused ones are noted."""

REQUESTS = 6_000
"""On average 100 requests a second per token or browser, counted over a minute so that bursts pass."""

KEPT_SECONDS = 2.0
"""How long what was looked up is believed of who only looks: another process may have ended the right meanwhile. For
changes it is looked up each time, or whoever is an admin no longer could make themselves one again until then."""

KEPT_RIGHTS = 10_000

LOGINS = 20
"""How many command lines of one address ask to be let in, and how many codes one sign-in types at the page."""

CSRF_CHARACTERS = 32
EXPIRED = "this right has expired"

OWN_SITES = frozenset({"same-origin", "none"})
"""What browsers say of requests that no other site has made (`Sec-Fetch-Site`)."""

log = logging.getLogger(__name__)


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret in hexadecimal, by which alone the store knows it."""
    return _hashed(secret).hex()


def csrf_of(cookie: str) -> str:
    """What a browser with this cookie sends beside it, as proof that its own page makes the request."""
    proof = hmac.digest(cookie.encode("utf-8", "surrogateescape"), b"mcc-csrf", "sha256")
    return urlsafe_b64encode(proof).decode()[:CSRF_CHARACTERS]


class Attempts:
    """Counts requests by credential, and wrong secrets by the address that they come from."""

    def __init__(self) -> None:
        self._requests, self._wrong, self._logins = PerMinute(REQUESTS), PerMinute(WRONG_SECRETS), PerMinute(LOGINS)
        self._questions, self._notes = PerMinute(QUESTIONS), PerMinute(NOTES)

    def right(self, credential: str) -> None:
        """Count a request. Raises `Refusal` beyond the pace."""
        if not self._requests.takes(credential):
            raise _too_many(self._requests, credential, "More than 100 requests a second: slow down.")

    def wrong(self, request: Request) -> None:
        """Count a wrong token, cookie or code. Raises `Refusal` where it is one too many."""
        if not self._wrong.takes(address_of(request)):
            raise self._too_many_wrong(request)

    def may_look(self, request: Request) -> None:
        """Raises `Refusal` where so many secrets from this address were wrong that an unknown one is not looked up."""
        if not self._wrong.has_room(address_of(request)):
            raise self._too_many_wrong(request)

    def login(self, who: str) -> None:
        """Count a command line that asks to be let in, by its address, or a code that is typed at the page, by the
        sign-in. Raises `Refusal` where it is one too many: codes are short, so a right one is not taken either."""
        if not self._logins.takes(who):
            raise _too_many(self._logins, who, "Too many tries to sign a command line in: wait a minute.")

    def _too_many_wrong(self, request: Request) -> Refusal:
        return _too_many(self._wrong, address_of(request), "Too many wrong tokens: wait a minute.")

    def begun(self, request: Request) -> None:
        """Count a sign-in by the provider that is begun. Raises `Refusal` where it is one too many."""
        address = address_of(request)
        if not self._questions.takes(address):
            raise _too_many(self._questions, address, "Too many sign-ins are begun from here: wait a minute.")

    def is_noted(self, request: Request) -> bool:
        """Count a refused sign-in; whether it is among the first ones of a minute."""
        return self._notes.takes(address_of(request))


def _too_many(pace: PerMinute, who: str, sentence: str) -> Refusal:
    return Refusal(429, sentence, {"Retry-After": str(pace.wait_seconds(who))})


class KnownRights:
    """Rights by the digest of their cookie or token, each looked up again after `KEPT_SECONDS`; unknown ones too.

    `monotonic` answers seconds.
    """

    def __init__(
        self, find: Callable[[str], Awaitable[Right | None]], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._monotonic = monotonic
        self._kept: OrderedDict[str, tuple[float, Right | None]] = OrderedDict()
        self._forgotten = 0

    async def find(self, digest: str, *, anew: bool = False) -> tuple[Right | None, bool]:
        """The right, None where there is none; and whether it was looked up just now, as it always is with `anew`.
        Raises `StoreUnavailable`."""
        at = self._monotonic()
        if not anew and (known := self._kept.get(digest)) is not None and at - known[0] < KEPT_SECONDS:
            return known[1], False
        forgotten = self._forgotten
        right = await self._find(digest)
        # What ended while it was read must not be kept as read.
        if forgotten == self._forgotten:
            self._kept[digest] = (at, right)
            self._kept.move_to_end(digest)
            if len(self._kept) > KEPT_RIGHTS:
                self._kept.popitem(last=False)
        return right, True

    def knows(self, digest: str) -> bool:
        """Whether it stood for a right when it was looked up last, however long ago."""
        _, right = self._kept.get(digest, (0.0, None))
        return right is not None and not right.ended

    def forget(self, credential_ids: Collection[str]) -> None:
        """Look these up again at their next request."""
        self._forgotten += 1
        for digest, (_, right) in list(self._kept.items()):
            if right and right.id in credential_ids:
                self._kept[digest] = (-math.inf, right)


class Credentials:
    """Answers the caller of a request. `offload` runs look-ups in threads that serve nothing else."""

    def __init__(
        self,
        rights: RightStore,
        offload: Offload,
        *,
        token: str,
        metrics_token: str | None = None,
        encrypted: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`metrics_token` opens the metrics alone. `encrypted`: browsers reach the service by https."""
        self.attempts = Attempts()
        self.rights = KnownRights(lambda digest: offload(rights.find, digest), monotonic=monotonic)
        self.encrypted = encrypted
        self._seen = rights.seen
        self._offload = offload
        self._token = _hashed(token)
        self._metrics_token = _hashed(metrics_token) if metrics_token else None
        self._marking: set[asyncio.Task[None]] = set()

    async def caller(self, request: Request) -> Caller:
        """Raises `Refusal`: 401, 403 for a browser whose request another site may have made, 429, and 503 where the
        database cannot say who is signed in."""
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        # Another scheme is of a proxy before the service, whose password browsers send with everything: no credential
        # of ours, no guess at one, and nothing that hides the cookie.
        if scheme.lower() == "bearer":
            return await self._by_token(request, value)
        if cookie := self.cookie_in(request):
            return await self._by_cookie(request, cookie)
        raise _unknown("Send the operator's token")

    def cookie_name(self, request: Request) -> str:
        """The port is part of it, because a host's cookies reach all its ports: two services keep theirs apart."""
        port = request.headers["host"].rpartition(":")[2]
        return "__Host-mcc" if self.encrypted else f"mcc-{port if port.isdecimal() else 80}"

    def cookie_in(self, request: Request) -> str | None:
        """The cookie of a sign-in, unless another site has made the request."""
        cookie = request.cookies.get(self.cookie_name(request), "")
        return cookie if len(cookie) == CODE_CHARACTERS and not _from_elsewhere(request) else None

    async def _by_token(self, request: Request, value: str) -> Caller:
        # The token is checked before the count of wrong ones, so that someone who guesses tokens from the operator's
        # own address cannot lock the operator out.
        # Digests are of one length, so the time of the comparison tells nothing of the token's.
        sent = _hashed(value.strip())
        if hmac.compare_digest(sent, self._token):
            self.attempts.right(OPERATOR)
            return operator_by_token(request.headers.get("user-agent", ""))
        if self._metrics_token and hmac.compare_digest(sent, self._metrics_token):
            self.attempts.right(AccessScope.METRICS)
            return Caller(AccessScope.METRICS, frozenset({AccessScope.METRICS}), "api", name="metrics")
        # Most that is not a token of ours is told by its spelling, without asking the database.
        if is_token(value.strip()):
            right = await self._standing(request, value.strip(), "This token is not the right one")
            door = door_of(request.headers.get("user-agent", ""))
            return Caller(right.principal, right.scopes, door, right.name, right)
        if value:
            self.attempts.wrong(request)
        raise _unknown("This token is not the right one" if value else "Send the operator's token")

    async def _by_cookie(self, request: Request, cookie: str) -> Caller:
        right = await self._standing(request, cookie, "This sign-in has ended: sign in again")
        if request.method != "GET":
            _check_own_page(request, cookie)
        return _signed_in(right, cookie)

    async def _standing(self, request: Request, secret: str, unknown: str) -> Right:
        """What the secret stands for. Raises `Refusal` with `unknown`, or with why it has ended."""
        digest = digest_of(secret)
        # Guesses are not looked up beyond the count of wrong ones; who was right before is never kept out by them.
        if not self.rights.knows(digest):
            self.attempts.may_look(request)
        try:
            right, is_fresh = await self.rights.find(digest, anew=request.method != "GET")
        except StoreError as error:
            log.warning("the database cannot say who calls: %s", error)
            wait = {"Retry-After": str(RETRY_SECONDS)}
            raise Refusal(503, "The database does not say who is signed in: try again.", wait) from error
        why = unknown if right is None else right.ended
        if right is not None and not why and right.expires_at is not None and right.expires_at <= now():
            why = EXPIRED
        if right is None or why:
            self.attempts.wrong(request)
            raise Refusal(401, f"{why[:1].upper()}{why[1:]}{_another(right)}.", {"WWW-Authenticate": "Bearer"})
        self.attempts.right(right.id)
        if is_fresh and (right.seen_at is None or now() - right.seen_at > timedelta(seconds=SEEN_SECONDS)):
            self._mark_seen(right)
        return right

    async def signed_in(self, cookie: str) -> Caller:
        """The person at a browser that has just got this cookie. Raises `StoreUnavailable`, and `SpentLink` where the
        sign-in has ended meanwhile."""
        right, _ = await self.rights.find(digest_of(cookie))
        if right is None or right.ended:
            raise SpentLink(right.ended if right is not None else SIGNED_OUT)
        return _signed_in(right, cookie)

    async def know(self, secret: str) -> None:
        """Look up a cookie or token that was just made: guesses from its address keep out no secret known here."""
        with suppress(StoreError):
            await self.rights.find(digest_of(secret))

    def _mark_seen(self, right: Right) -> None:
        """Beside the request, which does not wait for a write."""

        async def mark() -> None:
            try:
                await self._offload(self._seen, right)
            except StoreError as error:
                log.debug("when a credential was last used was not kept (%s)", error)

        task = asyncio.create_task(mark())
        self._marking.add(task)
        task.add_done_callback(self._marking.discard)


def _signed_in(right: Right, cookie: str) -> Caller:
    return Caller(right.principal, right.scopes, "page", right.name, right, csrf_of(cookie))


def address_of(request: Request) -> str:
    """Where the request comes from; of several behind one proxy that is the proxy's address."""
    return request.client.host if request.client else "unknown"


def origins_of(request: Request) -> frozenset[str]:
    """What browsers call the origin of this service's own pages."""
    host = request.headers["host"].lower()
    return frozenset({f"http://{host}", f"https://{host}"})


def _from_elsewhere(request: Request) -> bool:
    # A link on another site leads to the page, never to an answer of the API in somebody's name.
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site not in OWN_SITES
    origin = request.headers.get("origin")
    return origin is not None and origin.lower() not in origins_of(request)


def _check_own_page(request: Request, cookie: str) -> None:
    """Raises `Refusal` unless the page of this service makes the request: a browser sends its cookie by itself."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "").lower()
    if site != "same-origin" if site is not None else origin not in origins_of(request):
        raise Refusal(403, "With a cookie, only the page of this service makes changes.")
    sent = request.headers.get(CSRF_HEADER, "").encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(sent, csrf_of(cookie).encode()):
        raise Refusal(403, f"Send the header {CSRF_HEADER} with what GET /api/v1/me says in `csrf`.")


def _another(right: Right | None) -> str:
    """How to get another token in place of one that has ended; "" for a sign-in, and where its person is gone."""
    if right is None or right.token is None or "person" in right.ended:
        return ""
    return ": an admin makes another" if right.principal.startswith(SERVICE) else ": `mcc login` gets another"


def _unknown(why: str) -> Refusal:
    detail = (
        f"{why}: 'Authorization: Bearer TOKEN', with what is in the file `token` of the data directory, or what "
        "`mcc login` gets."
    )
    return Refusal(401, detail, {"WWW-Authenticate": "Bearer"})


def _hashed(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
