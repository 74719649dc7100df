"""Signing a command line in: it asks, a person who is signed in decides at the page, and it gets a token (RFC 8628)."""

import secrets
from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.access.credentials import address_of, digest_of
from mcc.api.access.signins import SECRET_BYTES
from mcc.api.problems import Refusal, problem
from mcc.api.service import API, ServiceHere, answer, answers
from mcc.contracts.answers import Problem
from mcc.contracts.login import (
    USER_CODE_CHARACTERS,
    USER_CODE_LETTERS,
    DeviceDecision,
    DeviceLogin,
    DeviceQuestion,
    DeviceToken,
    LoginError,
    NewDeviceLogin,
    NewDeviceToken,
    user_code_letters,
)
from mcc.contracts.people import USUAL_DAYS
from mcc.contracts.token_text import new_token
from mcc.store.database.errors import SpentCode
from mcc.store.people.devices import SPENT, NewSecret

LOGIN_SECONDS = 600
DAY_SECONDS = 86_400

router = APIRouter(prefix=API, tags=["sign-in"])

SENTENCES: Mapping[LoginError, str] = {
    "authorization_pending": "Nobody has let this command line in yet: ask again.",
    "slow_down": "This command line asks too often: wait for longer than before.",
    "access_denied": "This command line was refused, or who let it in has no right any more: begin anew.",
    "expired_token": "This code was used, is too old, or never was: begin anew.",
}


@router.post("/login/device", responses=answers(DeviceLogin))
async def begin(asked: NewDeviceLogin, request: Request, service: ServiceHere) -> Response:
    """A command line asks to be let in. Whoever is signed in at the page types its `user_code` at `verification_uri`;
    it asks meanwhile with its `device_code`, which nobody else sees."""
    service.credentials.attempts.login(address_of(request))
    device = secrets.token_urlsafe(SECRET_BYTES)
    letters = "".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_CHARACTERS))
    await service.write(
        service.store.devices.ask,
        digest_of(device),
        digest_of(letters),
        client=service.redactor().text(asked.client),
        address=address_of(request),
        seconds=LOGIN_SECONDS,
    )
    service.polls.begin(digest_of(device))
    public = service.settings.public_url or f"http://{request.headers['host']}"
    half = USER_CODE_CHARACTERS // 2
    return answer(
        DeviceLogin(
            device_code=device,
            user_code=f"{letters[:half]}-{letters[half:]}",
            verification_uri=f"{public}/device",
            expires_in=LOGIN_SECONDS,
            interval=service.polls.interval_seconds,
        )
    )


@router.post("/login/token", responses={**answers(DeviceToken), 400: {"model": Problem}})
async def redeem(asked: NewDeviceToken, request: Request, service: ServiceHere) -> Response:
    """The token of a command line that was let in: a personal one of who did, with the scopes of their role but
    `admin`, for 90 days. Told once. Before, 400 with `error`: `authorization_pending`, `slow_down`, `access_denied` or
    `expired_token`."""
    attempts, digest = service.credentials.attempts, digest_of(asked.device_code)
    if not service.polls.knows(digest):
        attempts.may_look(request)
    if service.polls.is_too_soon(digest):
        return _not_yet("slow_down")
    secret = new_token("personal")
    made = await service.write(
        service.store.devices.redeem, digest, NewSecret(secret, digest_of(secret)), days=USUAL_DAYS
    )
    if isinstance(made, str):
        if made != "authorization_pending":
            service.polls.end(digest)
        if made == "expired_token":
            attempts.wrong(request)
        return _not_yet(made)
    service.polls.end(digest)
    await service.credentials.know(secret)
    assert made.expires_at is not None
    return answer(
        DeviceToken(
            access_token=secret,
            expires_in=USUAL_DAYS * DAY_SECONDS,
            scope=" ".join(made.scopes),
            id=made.id,
            principal=made.principal,
            expires_at=made.expires_at,
        )
    )


@router.post("/device", responses=answers(DeviceQuestion))
async def decide(typed: DeviceDecision, request: Request, service: ServiceHere, caller: CallerHere) -> Response:
    """Which command line shows this code; with a `decision`, let it in as the caller, or refuse it. For a browser that
    is signed in alone: a token, the operator's too, lets nobody in. 410 for a code with which none waits."""
    if caller.signin is None:
        raise Refusal(403, "A token lets no command line in: open /device in a browser that is signed in.")
    attempts = service.credentials.attempts
    attempts.may_look(request)
    attempts.login(caller.signin.id)
    letters = user_code_letters(typed.user_code)
    try:
        if letters is None:
            raise SpentCode(SPENT)
        if typed.decision is None:
            return answer(await service.offload(service.store.devices.question, digest_of(letters)))
        decided = await service.write(
            service.store.devices.decide,
            digest_of(letters),
            "approved" if typed.decision == "approve" else "denied",
            by=caller.actor,
            signin_id=caller.signin.id,
        )
    except SpentCode:
        attempts.wrong(request)
        raise
    return answer(decided)


def _not_yet(error: LoginError) -> Response:
    return problem(400, SENTENCES[error], error=error)
