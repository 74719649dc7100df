"""What the page lets its user do is what the service lets them do: by route, role, and whose the thing is."""

import json
from pathlib import Path

from playwright.sync_api import Browser

from mcc.api.access.callers import refusal
from mcc.api.access.scopes import API, SCOPES, THINGS
from mcc.contracts.callers import SCOPES_OF, AccessScope, Role
from tests.mcc.api.test_roles_and_routes import BY_ROUTE

RIGHTS = Path(__file__).parents[2] / "mcc" / "console" / "island" / "rights.js"
ME, OTHER = "person:me", "person:somebody-else"
ASK = """([source, callers, asked]) => {
    const { actAs, barred } = new Function(`${source}; return { actAs, barred };`)();
    return callers.map((caller) => {
        actAs(caller);
        return asked.map(([scope, owner]) => barred(scope, owner));
    });
}"""


def test_the_page_and_the_service_agree_for_every_route_role_and_owner(browser: Browser) -> None:
    routes = sorted(route for route in SCOPES if not route.startswith("GET /") and SCOPES[route] is not None)
    asked = [(route, whose if route in THINGS else None) for route in routes for whose in (ME, OTHER)]
    callers = [{"principal": ME, "scopes": sorted(SCOPES_OF[role])} for role in Role]
    source = RIGHTS.read_text().replace("export ", "")
    told = browser.new_page().evaluate(ASK, [source, callers, [(SCOPES[route], whose) for route, whose in asked]])
    for role, answers in zip(Role, told, strict=True):
        for (route, whose), barred in zip(asked, answers, strict=True):
            least, _, of_others = BY_ROUTE[route.replace(f" {API}", " ")].partition(", of others ")
            needed = Role((of_others or least) if whose == OTHER else least)
            may = list(Role).index(role) >= list(Role).index(needed)
            assert (barred is None) == may, (role, route, whose, json.dumps(barred))


def test_who_may_is_told_as_the_service_tells_it(browser: Browser) -> None:
    source = RIGHTS.read_text().replace("export ", "")
    nobody = {"principal": ME, "scopes": []}
    asked = [AccessScope.WRITE, AccessScope.OPERATE, AccessScope.METRICS, AccessScope.ADMIN]
    page = browser.new_page()
    (told,) = page.evaluate(ASK, [source, [nobody], [(scope, None) for scope in asked]])
    for scope, barred in zip(asked, told, strict=True):
        assert barred["disabled"] is True
        holders = barred["title"].removeprefix("This is for ").removesuffix(".")
        assert str(refusal(scope, "This")).endswith(f"which {holders} have.")
