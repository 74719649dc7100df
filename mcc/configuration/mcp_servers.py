"""MCP servers that the operator registers in mcc.toml ([mcp.NAME]), and the effects of their tools."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from mcc.addresses import AddressRefused, url_of
from mcc.configuration.network import Hosts
from mcc.contracts.permission import Effects
from mcc.contracts.shape import Closed
from mcc.rules.patterns import Pattern, matches_glob

MANY = 20
"""A server with more tools than this offers them through `tool_search`, unless its table says otherwise."""

SEPARATOR = "__"
"""Separates the server's name from the tool's: SERVER__TOOL."""

_GLOB = r"^[A-Za-z0-9_.*?/-]{1,128}$"
_VARIABLE = Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

Glob = Annotated[str, StringConstraints(pattern=_GLOB)]


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("is the name of a variable, never a value: values stay out of files")
    return name


Variable = Annotated[str, AfterValidator(_variable)]


def _command_list(value: Any) -> Any:
    """A command must be a list: splitting a string into words is ambiguous."""
    if isinstance(value, str):
        raise ValueError(
            f'is a list of words, such as ["{value.split()[0] if value.split() else "server"}", "--stdio"]'
        )
    return value


def _program(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0] or any("\0" in word for word in words):
        raise ValueError("begins with the name of a program that is installed here, or with its whole path")
    if "/" in words[0] and not words[0].startswith("/"):
        raise ValueError("begins with the name of a program, or with its whole path")
    return words


def _server_name(name: str) -> str:
    if SEPARATOR in name or name.endswith("_"):
        raise ValueError(f"a server's name has no {SEPARATOR!r} in it and no _ at its end: tools are SERVER__TOOL")
    return name


ServerName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,30}$"), AfterValidator(_server_name)]


class OAuth(Closed):
    """How drones authenticate by OAuth, after somebody has logged in once with `drone login NAME`.

    `client_id` is that of a client registered with the server. Without one the drone sends `client_metadata_url`, or
    registers itself if the server allows it. `client_secret_env` names the variable with the client's secret. `port` is
    the local port of the redirect URL to which the browser returns.
    """

    client_id: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    client_secret_env: Variable | None = None
    client_metadata_url: Annotated[str, StringConstraints(pattern=r"^https://", max_length=2_000)] | None = None
    scope: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    port: Annotated[int, Field(ge=1024, le=65_535)] = 8976

    @property
    def redirect(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"


def _oauth(given: Any) -> Any:
    """`oauth = true` means OAuth with default settings."""
    return {} if given is True else None if given is False else given


class McpServer(Closed):
    """One table [mcp.NAME]: either a program started in the sandbox (`command`) or a remote server (`url`).

    For a program: `env` maps its variables to variables of the drone, never to values; `egress` lists hosts it may
    reach, none = no network; `paths` are directories and files it may read besides the program itself.
    For a URL: `token_env` names the variable with the bearer token; with `oauth`, tokens come from logging in.

    `tools` are globs over the server's own tool names. `effects` maps globs to effects; the longest matching glob
    counts, and a tool without one is irreversible. `deferred`: whether tools are offered through `tool_search`;
    None = if there are more than `MANY`.
    """

    command: Annotated[tuple[str, ...], BeforeValidator(_command_list), AfterValidator(_program)] | None = None
    url: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    env: Mapping[Variable, Variable] = {}
    token_env: Variable | None = None
    oauth: Annotated[OAuth | None, BeforeValidator(_oauth)] = None
    egress: Hosts = ()
    paths: tuple[Annotated[str, StringConstraints(pattern=r"^/[^\x00]{0,4000}$")], ...] = ()
    tools: tuple[Glob, ...] = ("*",)
    effects: Mapping[Glob, Effects] = {}
    deferred: bool | None = None
    start_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0

    @model_validator(mode="before")
    @classmethod
    def _a_table(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("a server is a table of its own: write [mcp.NAME] above its settings")
        return given

    @model_validator(mode="after")
    def _one_way(self) -> "McpServer":
        if (self.command is None) == (self.url is None):
            raise ValueError('needs command = ["PROGRAM", …], or else url = "https://…"; one of them')
        if self.url is not None:
            if problem := _address_problem(self.url):
                raise ValueError(f"url {problem}")
            if misplaced := [name for name in ("env", "egress", "paths") if getattr(self, name)]:
                raise ValueError(f"{misplaced[0]} is for a server that is started with command; this one has a url")
        elif self.token_env or self.oauth:
            raise ValueError("token_env and oauth are for a server with a url; a program gets its token by env")
        if self.token_env and self.oauth:
            raise ValueError("token_env and oauth both say where the token comes from: leave one of them out")
        return self

    def offers(self, tool: str) -> bool:
        """Whether agents may use this tool, by the server's own name for it."""
        return any(matches_glob(tool, glob) for glob in self.tools)

    def effects_of(self, tool: str) -> Effects:
        fitting = sorted(
            (glob for glob in self.effects if matches_glob(tool, glob)), key=lambda glob: (glob != tool, -len(glob))
        )
        return self.effects[fitting[0]] if fitting else "irreversible"

    def defers(self, count: int) -> bool:
        """Whether a server with `count` tools offers them through `tool_search`."""
        return count > MANY if self.deferred is None else self.deferred

    @property
    def variables(self) -> tuple[str, ...]:
        """The drone's variables whose values are given to the server."""
        secret = self.oauth.client_secret_env if self.oauth else None
        return (*self.env.values(), *(name for name in (self.token_env, secret) if name))


def _address_problem(url: str) -> str | None:
    try:
        url_of(url)
    except AddressRefused as refused:
        return f"cannot be used: {str(refused).rstrip(chr(46))}"
    return 'has no use for what stands behind "#"' if "#" in url else None
