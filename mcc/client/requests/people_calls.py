"""The calls about people, tokens and the audit, for both clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.budgets import DayBudget
    from mcc.contracts.callers import Signin, SigninLink
    from mcc.contracts.people import ApiToken, AuditNote, MadeToken, Person, PrincipalName


def people(**filters: object) -> "Call[Listing[Person]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.people import Person

    return Call("GET", "/people", Listing[Person].model_validate, query(**filters))


def person(person_id: str) -> "Call[Person]":
    from mcc.contracts.people import Person

    return Call("GET", _at(person_id), Person.model_validate)


def add(name: str, role: str, email: str | None, budget: "DayBudget | None") -> "Call[Person]":
    from mcc.contracts.people import Person
    from mcc.contracts.shape import finite_json

    body = finite_json({"name": name, "role": role, "email": email, "budget": budget and budget.model_dump()})
    return Call("POST", "/people", Person.model_validate, body=body, repeatable=False)


def change(person_id: str, **changed: object) -> "Call[Person]":
    from mcc.contracts.people import Person
    from mcc.contracts.shape import finite_json

    body = finite_json({name: value for name, value in changed.items() if value is not None})
    return Call("PATCH", _at(person_id), Person.model_validate, body=body)


def set_budget(person_id: str, budget: "DayBudget | None") -> "Call[Person]":
    from mcc.contracts.people import Person
    from mcc.contracts.shape import finite_json

    body = finite_json({"budget": budget and budget.model_dump()})
    return Call("PATCH", _at(person_id), Person.model_validate, body=body)


def remove(person_id: str) -> "Call[None]":
    return Call("DELETE", _at(person_id), lambda _: None, repeatable=False)


def link(person_id: str) -> "Call[SigninLink]":
    from mcc.contracts.callers import SigninLink

    # Repeated where its answer was lost: a link that nobody has is of no harm, and ends by itself.
    return Call("POST", f"{_at(person_id)}/link", SigninLink.model_validate, body=b"{}")


def signins(person_id: str) -> "Call[Listing[Signin]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.callers import Signin

    return Call("GET", f"{_at(person_id)}/signins", Listing[Signin].model_validate)


def sign_out(person_id: str) -> "Call[None]":
    return Call("DELETE", f"{_at(person_id)}/signins", lambda _: None)


def principals(ids: Sequence[str]) -> "Call[Listing[PrincipalName]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.people import PrincipalName

    return Call("GET", "/principals", Listing[PrincipalName].model_validate, query(ids=list(ids)))


def tokens(every: bool, **filters: object) -> "Call[Listing[ApiToken]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.people import ApiToken

    return Call("GET", "/tokens", Listing[ApiToken].model_validate, query(all="true" if every else None, **filters))


def make(name: str, scopes: Sequence[str], budget: "DayBudget | None", **more: object) -> "Call[MadeToken]":
    from mcc.contracts.people import MadeToken
    from mcc.contracts.shape import finite_json

    asked = {"name": name, "scopes": list(scopes), "budget": budget and budget.model_dump(), **more}
    # Not repeated: a token whose answer was lost would be one that nobody knows of.
    return Call("POST", "/tokens", MadeToken.model_validate, body=finite_json(asked), repeatable=False)


def revoke(token_id: str) -> "Call[None]":
    return Call("DELETE", f"/tokens/{quote(token_id, safe='')}", lambda _: None)


def audit(**filters: object) -> "Call[Listing[AuditNote]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.people import AuditNote

    return Call("GET", "/audit", Listing[AuditNote].model_validate, query(**filters))


def _at(person_id: str) -> str:
    return f"/people/{quote(person_id, safe='')}"
