"""Tokens over HTTP: made, listed, revoked."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from mcc.api.access.callers import CallerHere, refusal
from mcc.api.access.credentials import digest_of
from mcc.api.service import API, ERRORS, Cursor, Limit, ServiceHere, answer, answers, page
from mcc.contracts.answers import Listing
from mcc.contracts.callers import AccessScope
from mcc.contracts.people import ApiToken, MadeToken, NewApiToken
from mcc.contracts.token_text import new_token

router = APIRouter(prefix=API, tags=["tokens"])


@router.get("/tokens", responses=answers(Listing[ApiToken]))
async def tokens(
    service: ServiceHere,
    caller: CallerHere,
    every: Annotated[bool, Query(alias="all")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """The caller's tokens, with `all` everybody's, for which the right `admin` is needed; the newest first. Those that
    were revoked or have expired are among them."""
    if every:
        caller.need(AccessScope.ADMIN, "To see the tokens of others")
    principal = None if every else caller.principal
    return page(await service.offload(service.store.tokens.list, principal, cursor=cursor, limit=limit))


@router.post("/tokens", status_code=201, responses=answers(MadeToken, 201))
async def make(new: NewApiToken, service: ServiceHere, caller: CallerHere) -> Response:
    """Make a token: a personal one is the caller's; a service token is a principal of its own, with a role, and needs
    the right `admin`. The answer has the token itself (`token`), which nobody can read again.

    Who comes by a token makes none, so that a stolen one cannot renew itself. 403 where it asks for more than its maker
    may do. Its `budget` counts besides that of its person.
    """
    caller.refuse_token("make tokens")
    if new.kind == "service":
        caller.need(AccessScope.ADMIN, "A service token")
    for scope in new.scopes:
        if scope not in caller.scopes:
            raise refusal(scope, f"A token with the scope {scope.value!r}")
    secret = new_token(new.kind)
    redacted = service.redactor().model(new)
    made = await service.write(service.store.tokens.make, secret, digest_of(secret), redacted, by=caller.actor)
    await service.credentials.know(secret)
    return answer(MadeToken(**dict(made), token=secret), 201, {"Location": f"tokens/{made.id}"})


@router.delete("/tokens/{token_id}", status_code=204, responses=dict(ERRORS))
async def revoke(token_id: Annotated[str, Path(max_length=200)], service: ServiceHere, caller: CallerHere) -> Response:
    """Revoke a token: it counts for nothing from now on, and its event streams end. Those of others need the right
    `admin`."""
    anybodys = AccessScope.ADMIN in caller.scopes
    await service.write(service.store.tokens.revoke, token_id, by=caller.actor, anybodys=anybodys)
    service.open_credentials.end([token_id], "this token was revoked")
    return Response(status_code=204)
