"""People, tokens, and what the audit keeps of what they did."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import SCOPES_OF, AccessScope, CallerKind, Role, SigninWay
from mcc.contracts.shape import Closed, JsonObject, Moment, Text

NAME_CHARACTERS = 200
MOST_DAYS, USUAL_DAYS = 365, 90
"""How long a token counts: at most, and where nothing is said."""

PREFIX_CHARACTERS = 9
"""How much of a token is kept to be recognised by: `mccp_` or `mccs_`, and four characters."""

MOST_PRINCIPALS = 200
"""How many principals are named by one request."""

PersonName = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS)]
Email = Annotated[str, Field(min_length=3, max_length=320)]
TokenKind = Literal["personal", "service"]


class Person(Closed):
    """Somebody who signs in. `by`: how their right is proven, by links or by a provider of identities, whose groups
    then say the role. `removed`: name and e-mail are blank for good.

    `principal`: what orders, controls and the audit call this person. `budget`: theirs a day; null: that of everybody,
    `[budgets]` of the configuration.
    """

    id: str
    principal: str
    name: Text
    email: Text | None = None
    role: Role
    by: SigninWay = "link"
    disabled: bool = False
    removed: bool = False
    budget: DayBudget | None = None
    created_at: Moment
    last_seen_at: Moment | None = None


class NewPerson(Closed):
    name: PersonName
    role: Role
    email: Email | None = None
    budget: DayBudget | None = None


class PersonChange(Closed):
    """What is given is changed. `disabled`: signed out everywhere, and no token counts until they are enabled again.
    `budget`: theirs a day from now on, what is spent already included; null, where it is given: that of everybody."""

    name: PersonName | None = None
    role: Role | None = None
    disabled: bool | None = None
    budget: DayBudget | None = None

    @property
    def has_budget(self) -> bool:
        return "budget" in self.model_fields_set

    @model_validator(mode="after")
    def _something(self) -> "PersonChange":
        if self.name is None and self.role is None and self.disabled is None and not self.has_budget:
            raise PydanticCustomError("nothing_given", "say what is to be changed: name, role, disabled or budget")
        return self


class ApiToken(Closed):
    """A token as it is listed: not the token itself, which nobody can read again. `prefix`: how it begins.

    `role`: of a service token, whose principal is `service:ID`. A right is the role, less what `scopes` lacks.
    `budget`: what may be spent by it a day; that of a personal one counts besides its person's.
    """

    id: str
    kind: TokenKind
    principal: str
    name: Text
    role: Role | None = None
    scopes: tuple[AccessScope, ...]
    prefix: str
    budget: DayBudget | None = None
    created_at: Moment
    created_by: str
    expires_at: Moment | None = None
    last_used_at: Moment | None = None
    revoked_at: Moment | None = None


class NewApiToken(Closed):
    """`expires_in_days` null: it counts until it is revoked, which service tokens alone may."""

    name: PersonName
    kind: TokenKind = "personal"
    scopes: Annotated[tuple[AccessScope, ...], Field(min_length=1, max_length=len(AccessScope))]
    role: Role | None = None
    expires_in_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] | None = USUAL_DAYS
    budget: DayBudget | None = None

    @model_validator(mode="after")
    def _fitting(self) -> "NewApiToken":
        if self.kind == "personal" and self.role is not None:
            raise PydanticCustomError("no_role", "a personal token has the role of its person: leave role out")
        if self.kind == "personal" and self.expires_in_days is None:
            raise PydanticCustomError("no_end", "a personal token ends: give expires_in_days")
        if self.kind == "service" and self.role is None:
            raise PydanticCustomError("no_role", "a service token needs a role")
        if self.role is not None and (beyond := set(self.scopes) - SCOPES_OF[self.role]):
            named = ", ".join(sorted(beyond))
            raise PydanticCustomError(
                "beyond_role", "the role {role} has no {named}", {"role": self.role, "named": named}
            )
        return self


class MadeToken(ApiToken):
    """A token that was just made. `token`: the token itself, told this once."""

    token: str


class PrincipalName(Closed):
    """What a principal is called. `gone`: a person who was removed, or a service whose token was revoked."""

    principal: str
    name: Text
    kind: CallerKind
    gone: bool = False


class AuditNote(Closed):
    """One action. `kind` names it (`order.rolled_back`), `detail` holds its particulars. `door`, `token`: which way
    it came, and the name of the token that it came by."""

    id: str
    at: Moment
    principal: str
    door: str | None = None
    token: Text | None = None
    kind: str
    order_id: str | None = None
    detail: JsonObject
