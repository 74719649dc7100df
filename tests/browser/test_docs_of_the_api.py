"""The documentation page in a browser: shows OpenAPI 3.1 under our security headers, and loads from no other host."""

from playwright.sync_api import Browser, expect

from mcc.testing.served import Served


def test_the_page_shows_every_operation_and_the_browser_has_nothing_to_complain_of(
    browser: Browser, served: Served
) -> None:
    operations = sum(len(methods) for methods in served.app.openapi()["paths"].values())
    complaints: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{served.url}/api/docs")
    expect(page.locator(".opblock")).to_have_count(operations, timeout=60_000)
    expect(page.locator("#page")).to_contain_text("OAS 3.1")
    page.close()
    assert complaints == []
