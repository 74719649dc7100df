"""The documentation page in a browser: shows OpenAPI 3.1 under our security headers, and loads from no other host."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from mcc.testing import temporary_store
from mcc.testing.served import Served

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    if BROWSER is None or DRIVER is None:
        pytest.skip("there is no Chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def test_the_page_shows_every_operation_and_the_browser_has_nothing_to_complain_of(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    with Served(temporary_store(), tmp_path) as served:
        operations = sum(len(methods) for methods in served.app.openapi()["paths"].values())
        browser.get(f"{served.url}/api/docs")
        WebDriverWait(browser, 60).until(lambda page: len(page.find_elements(By.CLASS_NAME, "opblock")) == operations)
        assert "OAS 3.1" in browser.find_element(By.ID, "page").text
        assert browser.get_log("browser") == []
