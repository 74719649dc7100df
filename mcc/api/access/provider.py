"""Signing in by a provider of identities: a browser is sent there, comes back, and is signed out by the provider."""

import logging
import secrets
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs, unquote, urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mcc.api.access.credentials import address_of, digest_of
from mcc.api.access.scopes import OIDC_BACKCHANNEL, OIDC_CALLBACK, OIDC_WAY
from mcc.api.access.signins import AGENT_CHARACTERS, SECRET_BYTES, public_address, set_cookie
from mcc.api.problems import RETRY_SECONDS, Refusal, problem
from mcc.api.service import Service, ServiceHere
from mcc.console.files import installed
from mcc.console.shell import CONTENT_SECURITY_POLICY, IS_ADDRESS, refused_page
from mcc.contracts.callers import CODE_CHARACTERS, Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.invisible import escape_on_one_line
from mcc.oidc.identity import Identity, SigninRefused
from mcc.store.database.errors import DisabledPerson, StoreError, StoreUnavailable
from mcc.store.people.identities import OIDC, ProvidedPerson
from mcc.store.people.signins import Browser

if TYPE_CHECKING:
    from mcc.oidc.flow import OidcFlow

QUESTION_SECONDS = 600
"""How long a person may take at the provider."""

COOKIE = "mcc-oidc"
"""Tells the browser that comes back from the one that left."""

NEXT_CHARACTERS = 2_000
SIGN_IN = "/signin"

log = logging.getLogger(__name__)

# Pages for browsers and a door for the provider: no calls of the API.
router = APIRouter(include_in_schema=False)


@router.get(OIDC_WAY)
async def begin(request: Request, service: ServiceHere, wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Send a browser to the provider; it comes back to the page at `next`."""
    browser = _browser_in(request) or secrets.token_urlsafe(SECRET_BYTES)
    state = secrets.token_urlsafe(SECRET_BYTES)
    try:
        flow, page = _flow(service), page_of(wanted)
        service.credentials.attempts.begun(request)
        address = await flow.way_there(browser, state, public_address(service, request) + OIDC_CALLBACK)
        await service.write(
            service.store.identities.ask, _digest(browser, state), {"next": page}, seconds=QUESTION_SECONDS
        )
    except (SigninRefused, StoreError, Refusal) as refused:
        return await _not_signed_in(service, request, refused)
    sent = RedirectResponse(address, 303)
    sent.set_cookie(
        COOKIE,
        browser,
        max_age=QUESTION_SECONDS,
        path=_root(service, request) + OIDC_WAY,
        secure=service.credentials.encrypted,
        httponly=True,
        # Lax, as it has to come along from the provider's page.
        samesite="lax",
    )
    return sent


@router.get(OIDC_CALLBACK)
async def callback(request: Request, service: ServiceHere) -> Response:
    """The browser comes back with the provider's answer, and is signed in."""
    cookie, hours = secrets.token_urlsafe(SECRET_BYTES), 0.0
    try:
        flow = _flow(service)
        hours = flow.settings.session_hours
        page, identity = await _answered(service, flow, request)
        agent = request.headers.get("user-agent", "")[:AGENT_CHARACTERS]
        browser = Browser(digest_of(cookie), hours, agent, address_of(request))
        entrance = await service.write(service.store.identities.sign_in, await _person(service, identity), browser)
    except (SigninRefused, StoreError) as refused:
        return await _not_signed_in(service, request, refused)
    service.credentials.rights.forget(entrance.credentials)
    await service.credentials.know(cookie)
    signed = RedirectResponse(_root(service, request) + page, 303)
    set_cookie(signed, service.credentials, request, cookie, round(hours * 3_600))
    return signed


@router.post(OIDC_BACKCHANNEL)
async def backchannel(request: Request, service: ServiceHere) -> Response:
    """The provider signs somebody out: 200 where its order was carried out, 400 where it is none."""
    try:
        flow = _flow(service)
        form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=20)
        token, *others = form.get("logout_token", [""])
        if not token or others:
            raise SigninRefused("logout_token", "Send one logout_token.")
        order = await flow.signed_out(token)
        ended = await service.write(
            service.store.identities.log_out,
            digest_of(f"{order.issuer} {order.jti}"),
            order.issuer,
            subject=order.subject,
            sid=order.sid,
        )
    except (SigninRefused, ValueError) as refused:
        why = refused.detail if isinstance(refused, SigninRefused) else ""
        log.warning("a logout token was refused: %s %s", refused, why)
        return problem(400, str(refused))
    service.open_credentials.end(ended, "your provider signed you out")
    return Response(status_code=200)


def page_of(wanted: str) -> str:
    """The address within this page, percent-encoded as it came; its first page for who comes from where one signs in.
    Raises `SigninRefused` for any other."""
    try:
        parts = urlsplit(wanted)
        is_ours = not parts.scheme and not parts.netloc and wanted.startswith("/") and not wanted.startswith("//")
    except ValueError:
        is_ours = False
    is_plain = len(wanted) <= NEXT_CHARACTERS and wanted.isascii() and wanted.isprintable() and "\\" not in wanted
    if not is_ours or not is_plain or not IS_ADDRESS.fullmatch(unquote(parts.path)):
        raise SigninRefused("next", "This link leads elsewhere than to this page: open the page itself.")
    return "/" if parts.path == SIGN_IN else wanted


async def _answered(service: Service, flow: "OidcFlow", request: Request) -> tuple[str, Identity]:
    """The page that the browser wants, and whom the provider vouches for. Raises `SigninRefused`, `StoreError`."""
    answer = dict(request.query_params)
    if len(answer) != len(request.query_params.multi_items()):
        raise SigninRefused("state", "The provider's answer says something twice: begin again.")
    browser, state = _browser_in(request), answer.get("state", "")
    question = None
    if browser is not None:
        question = await service.write(service.store.identities.answered, _digest(browser, state))
    if browser is None or question is None:
        why = "was begun in another browser, or more than ten minutes ago, or has been used"
        raise SigninRefused("state", f"This sign-in {why}: begin again.")
    return question["next"], await flow.arrived(browser, answer, public_address(service, request) + OIDC_CALLBACK)


async def _person(service: Service, identity: Identity) -> ProvidedPerson:
    """Raises `SigninRefused` for somebody who may do nothing here; what they could do until now ends."""
    if identity.role is None:
        ended = await service.write(service.store.identities.lose_right, identity.issuer, identity.subject)
        service.open_credentials.end(ended, "your groups say that you may do nothing here")
        raise SigninRefused("groups", "None of your groups may do anything here: ask an admin of this service.")
    redact = service.redactor()
    name, email = redact.text(identity.name), identity.email and redact.text(identity.email)
    return ProvidedPerson(identity.issuer, identity.subject, name, email, identity.role, identity.sid)


async def _not_signed_in(service: Service, request: Request, refused: Exception) -> Response:
    """The page that says why, under an id by which log and audit say more."""
    mark, address = fresh_id(), address_of(request)
    claim, status, detail = "provider", 403, ""
    match refused:
        case SigninRefused():
            claim, detail = refused.claim, refused.detail
        case DisabledPerson():
            claim = "sub"
        case StoreUnavailable():
            claim, status = "database", 503
        case Refusal():
            claim, status = "address", refused.status
    # What the provider says may stand in it.
    sentence, why = (
        escape_on_one_line(service.redactor().text(text)).encode("utf-8", "replace").decode()
        for text in (str(refused), f"{refused} {detail}".rstrip())
    )
    log.warning("a sign-in by the provider was refused, id %s, claim %s: %s", mark, claim, why)
    # Not without bound: the audit is kept for ever, and nobody has to prove anything to be refused.
    if not isinstance(refused, StoreUnavailable) and service.credentials.attempts.is_noted(request):
        note = {"id": mark, "by": OIDC, "claim": claim, "why": why, "address": address}
        try:
            await service.write(service.store.audit.note, "signin.refused", by=Actor(OIDC, "page"), detail=note)
        except StoreError as error:
            log.warning("the refusal %s was not noted: %s", mark, error)
    html = refused_page(installed(), str(request.scope["path"]), sentence=sentence, id=mark)
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    if status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return HTMLResponse(html, status, headers=headers)


def _flow(service: Service) -> "OidcFlow":
    if service.provider is None:
        raise SigninRefused("provider", "No provider of identities is configured here: sign in by a link.")
    return service.provider


def _browser_in(request: Request) -> str | None:
    cookie = request.cookies.get(COOKIE, "")
    return cookie if len(cookie) == CODE_CHARACTERS and cookie.isascii() else None


def _digest(browser: str, state: str) -> str:
    """By which a question is kept: only the browser that asked it, with the answer to it, leads there."""
    return digest_of(f"{browser}.{state}")


def _root(service: Service, request: Request) -> str:
    """What a proxy puts before all paths."""
    return urlsplit(public_address(service, request)).path
