"""Signing browsers in by links, and out again; and who the caller is."""

import asyncio
import secrets
from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.responses import Response

import mcc
from mcc.addresses import is_loopback
from mcc.api.access.callers import Caller, CallerHere
from mcc.api.access.credentials import Credentials, address_of, digest_of
from mcc.api.problems import Refusal
from mcc.api.service import API, ERRORS, Service, ServiceHere, answer, answers, whole
from mcc.configuration.places import NotPrivate
from mcc.configuration.running import Presence, find_family
from mcc.console.files import installed
from mcc.contracts.answers import Listing
from mcc.contracts.callers import (
    OPERATOR,
    AccessScope,
    Actor,
    Me,
    NewLink,
    NewPreferences,
    SignedOut,
    Signin,
    SigninCode,
    SigninLink,
    SigninOfCaller,
    SigninProvider,
    kind_of,
)
from mcc.store.database.errors import SpentLink, UnknownPerson, UnknownSignin

LINK_SECONDS, PERSON_LINK_SECONDS = 600.0, 24 * 3_600.0
SECRET_BYTES = 32
AGENT_CHARACTERS = 200
PROVIDER_SECONDS = 2.0
"""How long signing out waits for the provider, which is usually known by then."""

router = APIRouter(prefix=API, tags=["sign-in"])


@router.post("/signin/links", status_code=201, responses=answers(SigninLink, 201))
async def make_link(
    request: Request, service: ServiceHere, caller: CallerHere, asked: NewLink | None = None
) -> Response:
    """A link that signs a browser in once: as the operator within ten minutes, made by the operator's token alone; as a
    person within 24 hours. A token makes none: whoever steals one must not make further ways in.

    What signs in stands behind the `#`, which no browser sends: neither a log nor a proxy sees it.
    """
    principal = (asked or NewLink()).principal
    if principal == OPERATOR and caller.right is not None:
        raise Refusal(
            403, "Only the operator's token makes links that sign in as the operator.", needs=AccessScope.ADMIN
        )
    return answer(await link_for(service, caller, request, principal), 201)


async def link_for(service: Service, caller: Caller, request: Request, principal: str) -> SigninLink:
    """A new link that signs in as this principal. Raises `Refusal` for a caller by a token, and `UnknownPerson`."""
    caller.refuse_token("make links")
    code, is_own = secrets.token_urlsafe(SECRET_BYTES), principal == OPERATOR
    expires_at = await service.write(
        service.store.signins.offer,
        digest_of(code),
        principal,
        seconds=LINK_SECONDS if is_own else PERSON_LINK_SECONDS,
        by=None if is_own else caller.actor,
    )
    return SigninLink(url=f"{public_address(service, request)}/signin#{code}", expires_at=expires_at)


def public_address(service: Service, request: Request) -> str:
    """What people's browsers call this service, without a slash at its end."""
    return service.settings.public_url or f"http://{request.headers['host']}"


@router.post("/signin", responses=answers(Me))
async def sign_in(said: SigninCode, request: Request, service: ServiceHere) -> Response:
    """Use a link: its code signs this browser in, by a cookie that only the page of this service can use. 410 for a
    code that was used, is too old, or never was."""
    credentials, cookie = service.credentials, secrets.token_urlsafe(SECRET_BYTES)
    hours = service.settings.people.session_hours
    agent = request.headers.get("user-agent", "")[:AGENT_CHARACTERS]
    try:
        await service.write(
            service.store.signins.redeem,
            digest_of(said.code),
            digest_of(cookie),
            hours=hours,
            agent=agent,
            address=address_of(request),
        )
    except (SpentLink, UnknownPerson):
        # Counted after it was looked up, so that whoever guesses keeps nobody out who has a right one.
        credentials.attempts.wrong(request)
        raise
    caller = await credentials.signed_in(cookie)
    signed = answer(await _me(service, caller, request))
    set_cookie(signed, credentials, request, cookie, round(hours * 3_600))
    return signed


@router.post("/signout", responses=answers(SignedOut))
async def sign_out(request: Request, service: ServiceHere, caller: CallerHere) -> Response:
    """End the sign-in of this browser: its cookie counts for nothing from now on, and its event streams end. `next`:
    where the browser goes; to the provider that signed it in, where that has an address for signing out."""
    if caller.signin is not None:
        # Another tab may have ended it meanwhile, which is what was asked for.
        with suppress(UnknownSignin):
            await _end(service, caller.signin.id, caller.actor)
    signed_out = answer(SignedOut(next=await _way_out(service, caller, request) or "/signin"))
    set_cookie(signed_out, service.credentials, request, "", 0)
    return signed_out


@router.get("/me", responses=answers(Me))
async def me(request: Request, service: ServiceHere, caller: CallerHere) -> Response:
    """Who the caller is, by which door, with which rights; for a browser also `csrf`, which its changes need in the
    header `MCC-CSRF`."""
    return answer(await _me(service, caller, request))


@router.patch("/me", responses=answers(Me))
async def change_me(changed: NewPreferences, request: Request, service: ServiceHere, caller: CallerHere) -> Response:
    """Let the page remember these preferences, at most 4 KB, in place of what it remembered before."""
    redacted = service.redactor().model(changed)
    await service.write(service.store.signins.prefer, caller.principal, redacted.preferences)
    return answer(await _me(service, caller, request))


@router.get("/me/signins", responses=answers(Listing[Signin]))
async def my_signins(service: ServiceHere, caller: CallerHere) -> Response:
    """The browsers that are signed in as the caller, the newest first."""
    signins = await service.offload(service.store.signins.of_principal, caller.principal)
    here = caller.right.id if caller.right else None
    return whole([signin.model_copy(update={"current": signin.id == here}) for signin in signins])


@router.delete("/me/signins/{signin_id}", status_code=204, responses=dict(ERRORS))
async def end_signin(signin_id: str, service: ServiceHere, caller: CallerHere) -> Response:
    """End one of them, its event streams too."""
    await _end(service, signin_id, caller.actor)
    return Response(status_code=204)


async def _way_out(service: Service, caller: Caller, request: Request) -> str | None:
    """Where the browser signs out at the provider that signed it in; None without one, or where it does not answer."""
    if service.provider is None or caller.right is None or caller.right.by != "oidc":
        return None
    with suppress(TimeoutError):
        async with asyncio.timeout(PROVIDER_SECONDS):
            return await service.provider.way_out(f"{public_address(service, request)}/signin")
    return None


async def _end(service: Service, signin_id: str, by: Actor) -> None:
    await service.write(service.store.signins.end, signin_id, by=by)
    service.open_credentials.end([signin_id], "this browser was signed out")


async def _me(service: Service, caller: Caller, request: Request) -> Me:
    signin, right, oidc = caller.signin, caller.right, service.settings.oidc
    address = request.client.host if request.client else ""
    return Me(
        principal=caller.principal,
        name=caller.name,
        email=right.email if right is not None else None,
        kind=kind_of(caller.principal),
        role=caller.role,
        scopes=tuple(sorted(caller.scopes)),
        door=caller.door,
        csrf=caller.csrf,
        signin=SigninOfCaller(id=signin.id, expires_at=signin.expires_at, by=right.by) if signin and right else None,
        token=caller.token,
        budget=await service.offload(service.store.budgets.today, caller.actor),
        preferences=await service.offload(service.store.signins.preferences, caller.principal),
        version=mcc.__version__,
        build=installed().build,
        flower_url=await asyncio.to_thread(_flower_url, service),
        oidc=SigninProvider(name=oidc.name) if oidc else None,
        insecure=not service.credentials.encrypted and not is_loopback(address),
    )


def _flower_url(service: Service) -> str | None:
    try:
        family = find_family(service.settings.data_dir)
    except NotPrivate:
        return None
    return family.flower_url if isinstance(family, Presence) else None


def set_cookie(response: Response, credentials: Credentials, request: Request, cookie: str, seconds: int) -> None:
    response.set_cookie(
        credentials.cookie_name(request),
        cookie,
        max_age=seconds,
        path="/",
        secure=credentials.encrypted,
        httponly=True,
        samesite="strict",
    )
