"""The HTML that every address of the page is answered with: it holds no data and needs no sign-in."""

import re2
from jinja2 import Environment, StrictUndefined, Template

from mcc.console.files import Console

ADDRESSES = (
    "/",
    "/orders",
    "/orders/new",
    "/orders/{order}",
    "/orders/{order}/vs/{other}",
    "/sessions",
    "/sessions/{session}",
    "/documents",
    "/documents/{document}",
    "/schedules",
    "/triggers",
    "/webhooks",
    "/agents",
    "/tools",
    "/mcp-servers",
    "/models",
    "/drones",
    "/usage",
    "/doctor",
    "/people",
    "/tokens",
    "/audit",
    "/me",
    "/signin",
    "/device",
)
"""The page's own addresses. What it draws for one is decided by its scripts."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


IS_ADDRESS = re2.compile("|".join(re2.sub(r"\{\w+\}", "[^/]+", address) for address in ADDRESSES))


class PageShell:
    """Makes the shell of one build. Its addresses are relative, because a proxy may put a prefix before all paths."""

    def __init__(self, console: Console, provider: str | None = None) -> None:
        """`provider`: what the button is called by which people sign in; None without one."""
        self._console = console
        self._template = _template(console.shell)
        self._provider = provider

    def html(self, path: str) -> str:
        """The shell for a path, which begins with `/`."""
        build, scripts = self._console.build, self._console.scripts
        return self._template.render(files=f"{_root(path)}console/{build}", scripts=scripts, provider=self._provider)


def refused_page(console: Console, path: str, *, sentence: str, id: str) -> str:
    """What a browser is shown at this path that was not signed in: why, and the id under which there is more."""
    root = _root(path)
    files = f"{root}console/{console.build}"
    source = (console.room / "templates" / "refused.html").read_text("utf-8")
    return _template(source).render(files=files, root=root, sentence=sentence, id=id)


def _root(path: str) -> str:
    return "../" * (path.count("/") - 1)


def _template(source: str) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source)
