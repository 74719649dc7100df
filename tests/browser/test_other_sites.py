"""Another site in the browser of somebody who is signed in: it reads nothing, watches nothing and changes nothing."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mcc.store.store import Store
from mcc.testing.served import Served
from tests.browser.conftest import OpenPage
from tests.waiting import until

STEAL = """async (api) => {
    const order = JSON.stringify({ prompt: "from elsewhere" });
    const read = async (path, options) => {
        const answer = await fetch(api + path, { credentials: "include", ...options });
        return answer.type === "opaque" ? "" : answer.text();
    };
    const waysIn = {
        read: () => read("/orders"),
        who: () => read("/me"),
        simple: () => read("/orders", { method: "POST", mode: "no-cors", body: order }),
        json: () => read("/orders", { method: "POST", body: order, headers: { "Content-Type": "application/json" } }),
        out: () => read("/signout", { method: "POST", mode: "no-cors", body: "{}" }),
        watch: () => new Promise((told, refused) => {
            const stream = new EventSource(api + "/events", { withCredentials: true });
            stream.onerror = refused;
            for (const name of ["snapshot", "hello"]) stream.addEventListener(name, () => told(name));
        }),
        script: () => new Promise((told, refused) => {
            const script = document.createElement("script");
            Object.assign(script, { src: api + "/me", onerror: refused, onload: () => told("loaded") });
            document.head.append(script);
        }),
    };
    const found = {};
    for (const [name, way] of Object.entries(waysIn)) found[name] = await way().catch(() => "");
    return found;
}"""

POST_A_FORM = """(api) => {
    const form = document.createElement("form");
    Object.assign(form, { action: api + "/orders", method: "post", enctype: "text/plain" });
    form.innerHTML = '<input name=\\'{"prompt":"from elsewhere","x":"\\' value=\\'"}\\'>';
    document.body.append(form);
    form.submit();
}"""


class Foreign(BaseHTTPRequestHandler):
    """A site without a policy of its own, so that it may try everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def foreign() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


# The first one is another site; the second one is the same site to a browser, which sends it the cookie too.
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_another_site_gets_nothing_by_the_cookie_of_who_is_signed_in(
    host: str,
    foreign: int,
    store: Store,
    served: Served,
    open_page: OpenPage,
    expected: list[re.Pattern[str]],
) -> None:
    expected.append(re.compile("CORS|Failed to load|MIME|net::ERR_|blocked"))
    page = open_page("orders")
    until(lambda: served.viewers == 1, "the page has its stream")
    elsewhere = page.context.new_page()
    elsewhere.goto(f"http://{host}:{foreign}/")
    api = f"{served.url}/api/v1"
    assert set(elsewhere.evaluate(STEAL, api).values()) == {""}
    with elsewhere.expect_navigation(url=re.compile("/api/v1/orders$")) as posted:
        elsewhere.evaluate(POST_A_FORM, api)
    assert posted.value is not None and posted.value.status == 403
    assert served.viewers == 1
    assert store.orders.list(limit=10).items == []
    # Who was signed in still is.
    page.reload()
    page.wait_for_selector("nav.rail")
