"""Behind a proxy that puts a prefix before all paths, every address that the service gives is right."""

import re
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

PREFIX = "/agents"
ADDRESS = re.compile(r'(?:href|src)="([^"#][^"]*)"|url: "([^"]+)"')


async def through_proxy(api: httpx.AsyncClient, path: str) -> httpx.Response:
    """What a browser at the proxy gets for a path, which has to begin with the prefix."""
    assert path.startswith(f"{PREFIX}/"), f"{path} leads out of the prefix"
    return await api.get(path.removeprefix(PREFIX))


@pytest.mark.parametrize("page", ["/", "/orders/new", "/api/docs", "/api/docs/start.js"])
async def test_all_that_a_page_loads_and_links_to_is_there(api: httpx.AsyncClient, page: str) -> None:
    text = (await through_proxy(api, f"{PREFIX}{page}")).text
    base = "/api/docs" if page.endswith(".js") else page  # A script's addresses are relative to its page.
    found = [one for pair in ADDRESS.findall(text) for one in pair if one and not one.startswith("data:")]
    assert found
    for address in found:
        answer = await through_proxy(api, urlsplit(urljoin(f"http://proxy{PREFIX}{base}", address)).path)
        assert answer.status_code in (200, 503), address


async def test_the_description_says_where_its_paths_begin(api: httpx.AsyncClient) -> None:
    described = (await api.get("/api/v1/openapi.json")).json()
    [server] = described["servers"]
    base = urljoin(f"http://proxy{PREFIX}/api/v1/openapi.json", server["url"])
    assert urlsplit(base).path.rstrip("/") == PREFIX


async def test_where_a_new_order_is_said_within_the_prefix(api: httpx.AsyncClient) -> None:
    placed = await api.post("/api/v1/orders", json={"prompt": "x"})
    at = urlsplit(urljoin(f"http://proxy{PREFIX}/api/v1/orders", placed.headers["location"])).path
    assert (await through_proxy(api, at)).json()["id"] == placed.json()["id"]
    await api.post(f"/api/v1/orders/{placed.json()['id']}/cancel", json={})
    again = await api.post(f"/api/v1/orders/{placed.json()['id']}/retry")
    call = f"http://proxy{PREFIX}/api/v1/orders/{placed.json()['id']}/retry"
    assert (await through_proxy(api, urlsplit(urljoin(call, again.headers["location"])).path)).json() == again.json()
    opened = await api.post("/api/v1/sessions", json={"title": "x"})
    at = urlsplit(urljoin(f"http://proxy{PREFIX}/api/v1/sessions", opened.headers["location"])).path
    assert (await through_proxy(api, at)).json()["id"] == opened.json()["id"]
