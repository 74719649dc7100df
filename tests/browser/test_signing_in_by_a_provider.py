"""People sign in by a real provider of identities, with what its groups say, and are signed out by it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from mcc.configuration.oidc import OidcSettings
from mcc.contracts.callers import Role
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing.served import Served
from tests.browser.conftest import PHONE, WIDE, or_skip
from tests.browser.test_every_page import RUN
from tests.browser.test_every_page import axe as axe
from tests.people.provider.real import RealProvider, packages, providing
from tests.ports import free_port

NewBrowser = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def place() -> tuple[int, str]:
    """The port of the service, which the provider has to know, and its address."""
    port = free_port()
    return port, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def provider(place: tuple[int, str]) -> Iterator[RealProvider]:
    kept = packages()
    if isinstance(kept, str):
        or_skip(kept)
    assert isinstance(kept, Path)
    with providing(kept, place[1]) as started:
        yield started


@pytest.fixture
def served(store: Store, tmp_path: Path, place: tuple[int, str], provider: RealProvider) -> Iterator[Served]:
    roles = {"mcc-admins": Role.ADMIN, "dev": Role.MEMBER}
    oidc = OidcSettings(name="Company <b>", issuer=provider.issuer, client_id="mcc service", roles=roles)
    settings = ServiceSettings(data_dir=tmp_path, oidc=oidc)
    with Served(store, tmp_path, port=place[0], settings=settings) as service:
        yield service


@pytest.fixture
def new_browser(browser: Browser, axe: Path) -> Iterator[NewBrowser]:
    contexts: list[BrowserContext] = []

    def opened(theme: str = "light", size: tuple[int, int] = WIDE) -> BrowserContext:
        scheme = "dark" if theme == "dark" else "light"
        viewport = {"width": size[0], "height": size[1]}
        # Colours on their way from one to the other have the contrast of neither.
        context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        contexts.append(context)
        # The provider's own pages ask for letters of a third party.
        contexts[-1].route(re.compile("fonts"), lambda route: route.abort())
        contexts[-1].add_init_script(path=axe)
        return contexts[-1]

    yield opened
    for context in contexts:
        context.close()


def sign_in(page: Page, name: str) -> None:
    """From the page of MCC that asks for a sign-in, over the provider's, and back."""
    page.get_by_role("link", name="Sign in with Company <b>").click()
    page.fill("input[name=login]", name)
    page.fill("input[name=password]", "any")
    page.click("button[type=submit]")
    page.get_by_role("button", name="Continue").click()


def leave_provider(page: Page) -> None:
    page.get_by_role("button", name="Yes, sign me out").click()


def test_somebody_signs_in_where_they_wanted_to_go_and_is_signed_out_by_the_provider(
    served: Served, provider: RealProvider, new_browser: NewBrowser
) -> None:
    provider.put_in("ann", ["dev"])
    here, there = new_browser(), new_browser()
    page, other = here.new_page(), there.new_page()
    page.goto(f"{served.url}/orders?status=running")
    sign_in(page, "ann")
    page.wait_for_url(f"{served.url}/orders?status=running")
    page.wait_for_selector("nav.rail", state="attached")
    role = "fetch('/api/v1/me').then((answer) => answer.json()).then((me) => me.role)"
    assert page.evaluate(role) == "member"

    # What her groups are now counts from the next sign-in on, for the one before too.
    provider.put_in("ann", ["dev", "mcc-admins"])
    other.goto(f"{served.url}/me")
    sign_in(other, "ann")
    other.wait_for_url(f"{served.url}/me")
    other.wait_for_selector("nav.rail", state="attached")
    assert [view.evaluate(role) for view in (other, page)] == ["admin", "admin"]

    # At the provider she signs the first browser out, whose page learns it by its stream.
    elsewhere = here.new_page()
    elsewhere.goto(f"{provider.issuer}/session/end")
    leave_provider(elsewhere)
    expect(page.get_by_role("dialog", name="Signed out")).to_be_visible()
    assert other.evaluate(role) == "admin"

    # The second one signs out here, and at the provider with it.
    other.get_by_role("button", name="Sign out").click()
    leave_provider(other)
    other.wait_for_url(f"{served.url}/signin*")
    expect(other.get_by_role("link", name="Sign in with Company <b>")).to_be_visible()


@pytest.mark.parametrize(("theme", "size"), [("light", WIDE), ("dark", PHONE)])
def test_who_may_do_nothing_here_is_told_so_and_finds_the_way_back(
    served: Served, provider: RealProvider, new_browser: NewBrowser, theme: str, size: tuple[int, int], store: Store
) -> None:
    provider.put_in("bob", [])
    page = new_browser(theme, size).new_page()
    page.goto(f"{served.url}/signin")
    page.get_by_role("link", name="Sign in with Company <b>").wait_for()
    assert page.evaluate(RUN) == []
    sign_in(page, "bob")
    page.get_by_role("heading", name="You are not signed in").wait_for()
    assert page.evaluate(RUN) == []
    (note,) = (note for note in store.audit.list() if note.kind == "signin.refused")
    expect(page.get_by_text(str(note.detail["id"]))).to_be_visible()
    page.get_by_role("link", name="Begin again").click()
    page.wait_for_url(f"{served.url}/signin")
