"""Every HTTP client that is built states whether it obeys the environment: libraries do unless they are told."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.imports import modules

LIBRARIES = ("httpx", "httpx2", "httpx_aiohttp", "aiohttp", "requests", "urllib3", "urllib")
STATED = "trust_env"

BUILDERS = {
    f"{library}.{name}"
    for library in ("httpx", "httpx2")
    for name in ("Client", "AsyncClient", "HTTPTransport", "AsyncHTTPTransport")
} | {"aiohttp.ClientSession", "httpx_aiohttp.AiohttpTransport"}
"""Classes that obey proxies, certificates or .netrc of the environment unless `trust_env` says otherwise."""

ONCE = {"get", "options", "head", "post", "put", "patch", "delete", "request", "stream"}
FORBIDDEN = {
    *(f"{library}.{name}" for library in ("httpx", "httpx2", "aiohttp", "requests") for name in ONCE),
    *("requests.Session", "requests.session", "urllib3.PoolManager", "urllib3.ProxyManager", "urllib3.request"),
    *(
        f"urllib.request.{name}"
        for name in ("urlopen", "urlretrieve", "build_opener", "OpenerDirector", "ProxyHandler")
    ),
}
"""Clients that cannot be told, or that are built for one call."""


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Full names of what a module imports from the libraries, by the names that it uses."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                library = alias.name.split(".")[0]
                if library in LIBRARIES:
                    found[alias.asname or library] = alias.name if alias.asname else library
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in LIBRARIES:
            found.update((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
    return found


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name of what is called; "" for anything that does not come from the libraries."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        outer = full_name(node.value, names)
        return f"{outer}.{node.attr}" if outer else ""
    return ""


def clients_in(source: str) -> Iterator[tuple[str, bool]]:
    """The clients that a module builds or derives from, each with whether it states what it takes."""
    if not any(library in source for library in LIBRARIES):
        return
    tree = ast.parse(source)
    names = imported_names(tree)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    annotations = {id(inner) for node in ast.walk(tree) for outer in _annotations(node) for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in annotations:
            continue
        name = full_name(node, names)
        if name in FORBIDDEN:
            yield name, False
        elif name in BUILDERS:
            call = called.get(id(node))
            yield name, call is not None and any(_states(keyword) for keyword in call.keywords)


def _states(keyword: ast.keyword) -> bool:
    return keyword.arg == STATED and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.arg(annotation=found) | ast.AnnAssign(annotation=found) if found is not None:
            yield found
        case ast.FunctionDef(returns=found) | ast.AsyncFunctionDef(returns=found) if found is not None:
            yield found


def test_every_client_states_which_settings_of_the_environment_it_takes() -> None:
    found = [(module, name, stated) for module, path in modules() for name, stated in clients_in(path.read_text())]
    assert [(module, name) for module, name, stated in found if not stated] == []
    assert {(module, name) for module, name, _ in found} >= {
        ("mcc.client.async_connection", "httpx.AsyncClient"),
        ("mcc.client.sync_connection", "httpx.Client"),
        ("drone.models.transport", "aiohttp.ClientSession"),
        ("drone.models.transport", "httpx_aiohttp.AiohttpTransport"),
        ("mcc.fetching", "aiohttp.ClientSession"),
        ("drone.mcp_servers.http", "httpx2.AsyncClient"),
        ("drone.mcp_servers.http", "httpx2.AsyncHTTPTransport"),
    }


@pytest.mark.parametrize(
    "source",
    [
        "import httpx\nhttpx.Client(base_url=url)",
        "import httpx as web\nweb.AsyncClient()",
        "from httpx import Client as Door\nDoor(timeout=1)",
        "import httpx\nhttpx.Client(trust_env=trusting)",
        "import httpx\nmake = httpx.Client\nmake(trust_env=False)",
        "import httpx\nclass Mine(httpx.AsyncClient): ...",
        "import httpx2\nhttpx2.AsyncHTTPTransport(proxy=proxy)",
        "from functools import partial\nimport aiohttp\npartial(aiohttp.ClientSession, trust_env=False)",
        "import httpx\nhttpx.get(url)",
        "import urllib.request\nurllib.request.urlopen(url)",
        "from urllib.request import urlopen\nurlopen(url)",
        "import requests\nrequests.post(url)",
    ],
)
def test_one_that_does_not_state_it_is_found(source: str) -> None:
    assert [stated for _, stated in clients_in(source)] == [False]


@pytest.mark.parametrize(
    "source",
    [
        "import httpx\nhttpx.Client(trust_env=False)",
        "import aiohttp\naiohttp.ClientSession(connector=c, trust_env=False)",
        "import httpx\ndef f(client: httpx.Client) -> httpx.AsyncClient: ...",
        "import http.client\nhttp.client.HTTPConnection(host)",
        "self.Client()",
    ],
)
def test_one_that_states_it_or_knows_no_environment_is_not(source: str) -> None:
    assert [stated for _, stated in clients_in(source) if not stated] == []
