"""Who calls the service, by which door, with what right; links that sign a browser in, and sign-ins."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.budgets import BudgetOfDay
from mcc.contracts.shape import Closed, JsonObject, Moment, Text, to_json

OPERATOR = "operator"
"""The principal of the operator's token, and of who signed in by a link of `mcc up` or `mcc open`."""

CSRF_HEADER = "MCC-CSRF"
CLI_AGENT = "mcc-cli/"
"""How the User-Agent of the command line begins. It is told, not proven."""

CODE_CHARACTERS = 43
"""32 random bytes as base64url without padding."""

PREFERENCES_BYTES = 4 * 1024


class AccessScope(StrEnum):
    """What a caller may do; each route needs one."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    ADMIN = "admin"
    METRICS = "metrics"


ALL_SCOPES = frozenset(AccessScope)


class Role(StrEnum):
    """What a person or a service is there for. Each may do all that those before it may."""

    VIEWER = "viewer"
    MEMBER = "member"
    OPERATOR = "operator"
    ADMIN = "admin"


_MEMBER = frozenset({AccessScope.READ, AccessScope.WRITE})

SCOPES_OF: Mapping[Role, frozenset[AccessScope]] = {
    Role.VIEWER: frozenset({AccessScope.READ}),
    Role.MEMBER: _MEMBER,
    Role.OPERATOR: _MEMBER | {AccessScope.OPERATE, AccessScope.METRICS},
    Role.ADMIN: ALL_SCOPES,
}
"""The scopes of each role. A right is these, less those that the token lacks."""

PERSON, SERVICE, TRIGGER = "person:", "service:", "trigger:"
"""How the principal of a person begins, whose id follows, that of a service token, and that of a trigger, whose name
follows."""

CallerKind = Literal["operator", "person", "service", "trigger"]


def kind_of(principal: str) -> CallerKind:
    """Who it is. Those of ours, such as `doctor`, count as services."""
    if principal.startswith(PERSON):
        return "person"
    if principal.startswith(TRIGGER):
        return "trigger"
    return "operator" if principal == OPERATOR else "service"


TRIGGER_DOOR = "trigger/"
"""How the door of whatever a trigger does begins; its name follows."""

EntryDoor = Literal["page", "cli", "api", "batch"]
"""The way that a request came: a browser's cookie, the command line, another program, one of several in a batch."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something. `door`: the way that it came, such as an `EntryDoor`; None: it is ours, or from before doors
    were told. `token_id`, `token`: the token that it came by, and its name; None: by none, or by the operator's own."""

    principal: str
    door: str | None = None
    token_id: str | None = None
    token: Text | None = None

    @property
    def columns(self) -> Mapping[str, str | None]:
        """As rows have it that say who did something."""
        return {"principal": self.principal, "door": self.door, "token_id": self.token_id}


SigninWay = Literal["link", "oidc"]
"""How somebody proves who they are: by a link that an admin or the operator gave them, or by a provider of
identities."""


class NewLink(Closed):
    """A wish for a link that signs in as `principal`: `operator`, or a person's."""

    principal: Annotated[str, Field(pattern=r"^(operator|person:[0-9a-f-]{36})$")] = OPERATOR


class SigninLink(Closed):
    """A link that signs a browser in, once and before `expires_at`."""

    url: Text
    expires_at: Moment


class SigninCode(Closed):
    """What stands in a link after its `#`."""

    code: Annotated[str, Field(min_length=1, max_length=200)]


class Signin(Closed):
    """A browser that is signed in. `agent`: what it calls itself. `current`: the one that asks."""

    id: str
    principal: str
    created_at: Moment
    expires_at: Moment
    last_seen_at: Moment
    agent: Text = ""
    current: bool = False


class SigninOfCaller(Closed):
    """The sign-in that a request came by."""

    id: str
    expires_at: Moment
    by: SigninWay = "link"


class TokenOfCaller(Closed):
    """The token that a request came by; the operator's own is none of these."""

    id: str
    name: Text
    expires_at: Moment | None = None


class NewPreferences(Closed):
    """What the page shall remember of a person. It replaces what was there."""

    preferences: JsonObject

    @field_validator("preferences")
    @classmethod
    def _bounded(cls, preferences: JsonObject) -> JsonObject:
        if len(to_json(preferences)) > PREFERENCES_BYTES:
            raise PydanticCustomError("too_long", "preferences have at most 4,096 bytes as JSON")
        return preferences


class SigninProvider(Closed):
    """A provider of identities. `name`: what its button is called."""

    name: Text


class Me(Closed):
    """The caller. `csrf`: the value of the header `MCC-CSRF`, which changes made with a cookie need; null without one.

    `budget`: what is left of today's, of the tighter one where the token has its own; null without one. `build` is that
    of the page's files. `oidc`: the provider by which people sign in, null without one. `insecure`: the request came
    unencrypted from another machine.
    """

    principal: str
    name: Text
    email: Text | None = None
    kind: CallerKind = "operator"
    role: Role = Role.ADMIN
    scopes: tuple[AccessScope, ...]
    door: EntryDoor
    csrf: str | None = None
    signin: SigninOfCaller | None = None
    token: TokenOfCaller | None = None
    budget: BudgetOfDay | None = None
    preferences: JsonObject
    version: str
    build: str
    flower_url: str | None = None
    oidc: SigninProvider | None = None
    insecure: bool


class SignedOut(Closed):
    """Where a browser goes next: a path of this service, or the address where its provider signs it out too."""

    next: str
