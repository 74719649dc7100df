"""Who a request comes from, as the guard found out, and as its route gets it."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.types import Scope

from mcc.api.problems import Refusal
from mcc.contracts.callers import (
    ALL_SCOPES,
    CLI_AGENT,
    OPERATOR,
    SCOPES_OF,
    AccessScope,
    Actor,
    EntryDoor,
    Role,
    Signin,
    TokenOfCaller,
)
from mcc.store.people.rights import Right

CALLER = "mcc.caller"
"""Where the caller stands in the scope of a request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `name`: what people call the caller. `right`: what the sign-in or the token stands for that the
    request came by; None: the operator's own token. `csrf`: what changes by a browser need in the header `MCC-CSRF`.
    """

    principal: str
    scopes: frozenset[AccessScope]
    door: EntryDoor
    name: str = ""
    right: Right | None = None
    csrf: str | None = None

    @property
    def actor(self) -> Actor:
        """As what the caller does is noted."""
        token = self.token
        return Actor(self.principal, self.door, token.id if token else None, token.name if token else None)

    @property
    def role(self) -> Role:
        return Role.ADMIN if self.right is None else self.right.role

    @property
    def signin(self) -> Signin | None:
        """Of a browser that is signed in."""
        return self.right.signin if self.right is not None else None

    @property
    def token(self) -> TokenOfCaller | None:
        """Never the operator's own."""
        return self.right.token if self.right is not None else None

    def need(self, scope: AccessScope, what: str) -> None:
        """Raises `Refusal` where the caller lacks the scope that `what` needs."""
        if scope not in self.scopes:
            raise refusal(scope, what)

    def refuse_token(self, what: str) -> None:
        """Raises `Refusal` for who came by a token: only a sign-in and the operator's own token may do this."""
        if self.token is not None:
            raise Refusal(403, f"A token cannot {what}: sign in, or use the operator's token.")


def refusal(scope: AccessScope, what: str) -> Refusal:
    """That `what` needs this scope, and which roles have it."""
    *others, last = [f"{role.value}s" for role in Role if scope in SCOPES_OF[role]]
    who = f"{', '.join(others)} and {last}" if others else last
    return Refusal(403, f"{what} needs the right {scope.value!r}, which {who} have.", needs=scope.value)


def operator_by_token(user_agent: str) -> Caller:
    """The holder of the operator's token."""
    return Caller(OPERATOR, ALL_SCOPES, door_of(user_agent), name=OPERATOR)


def door_of(user_agent: str) -> EntryDoor:
    """The door of a request that brings a token."""
    return "cli" if user_agent.startswith(CLI_AGENT) else "api"


def caller_of(scope: Scope) -> Caller | None:
    """None where the request passed without a credential, as the path is open to everybody."""
    return cast(Caller | None, scope.get(CALLER))


async def _caller(request: Request) -> Caller:
    caller = caller_of(request.scope)
    assert caller is not None, "a route that asks for its caller needs a scope"
    return caller


CallerHere = Annotated[Caller, Depends(_caller)]
