"""The tables [sandbox], [web] and [webhooks] of mcc.toml: limits of sandboxed programs, and the hosts that tools and
messages may reach."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from mcc.addresses import AddressRefused, Endpoint, HostList, endpoint_of, url_of
from mcc.contracts.shape import Closed

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Megabytes = Annotated[int, Field(ge=16, le=16_777_216)]
Backend = Literal["searxng", "brave", "tavily"]


def _hosts(entries: tuple[str, ...]) -> tuple[str, ...]:
    try:
        HostList(entries)
    except AddressRefused as error:
        raise ValueError(f"{error} Write name:port, *.name:port or name") from error
    return entries


def _hosts_with_secrets(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        if entry == "*" or entry.startswith("*:"):
            raise ValueError(f"{entry!r} would send the secret to everybody: name its hosts")
    return _hosts(entries)


def _endpoints(entries: tuple[str, ...]) -> tuple[str, ...]:
    try:
        endpoints_of(entries)
    except AddressRefused as error:
        raise ValueError(f"{error} Write name:port or address:port") from error
    return entries


def endpoints_of(entries: tuple[str, ...]) -> tuple[Endpoint, ...]:
    """Parse `host:port` entries. Raises `AddressRefused`."""
    return tuple(map(endpoint_of, entries))


Hosts = Annotated[tuple[str, ...], Field(max_length=500), AfterValidator(_hosts)]
PrivateHosts = Annotated[tuple[str, ...], Field(max_length=100), AfterValidator(_endpoints)]


class EgressSettings(Closed):
    """The table [sandbox.egress]. `allow`: the hosts that programs in the sandbox may reach, none = no network.
    `allow_private`: those of them, each with its port, that may have private addresses."""

    allow: Hosts = ()
    allow_private: PrivateHosts = ()


class SwappedSecret(Closed):
    """A table [sandbox.secrets.NAME]. `env` names the drone's variable that holds the secret.

    Programs see a stand-in, which the egress proxy replaces with the secret on the way to `hosts` and nowhere else.
    """

    env: VariableName
    hosts: Annotated[tuple[str, ...], Field(min_length=1, max_length=100), AfterValidator(_hosts_with_secrets)]


SwappedSecrets = Annotated[Mapping[VariableName, SwappedSecret], Field(max_length=50)]


class Sandbox(Closed):
    """The table [sandbox]. `kind`: bubblewrap makes a sandbox for each call; "container" declares that the drone's own
    container is the sandbox.

    `memory_mb`, `processes`, `cpus` and `tmp_mb` limit one call with all processes it starts, `file_mb` each file that
    it writes. `jobs`: background jobs of one order. `egress`: the hosts that programs can reach. `secrets`: by the
    variable in which programs see the stand-in.
    """

    kind: Literal["bubblewrap", "container"] = "bubblewrap"
    memory_mb: Megabytes = 2048
    processes: Annotated[int, Field(ge=8, le=1_000_000)] = 256
    cpus: Annotated[float, Field(ge=0.05, le=4096, allow_inf_nan=False)] = 2.0
    tmp_mb: Megabytes = 512
    file_mb: Megabytes = 1024
    jobs: Annotated[int, Field(ge=0, le=100)] = 4
    egress: EgressSettings = EgressSettings()
    secrets: SwappedSecrets = Field(default={})

    @model_validator(mode="after")
    def _a_container_has_its_own_network(self) -> "Sandbox":
        if self.kind == "container" and self.egress.allow:
            raise ValueError(
                'kind = "container" and egress: programs have the network of the drone\'s container, so allow hosts '
                "there and leave [sandbox.egress] out"
            )
        return self


class WebSearch(Closed):
    """The table [web.search]. `url`: the address of the search API, None = the backend's public one, which SearXNG does
    not have. `key_env` names the drone's variable with the key."""

    backend: Backend
    url: str | None = None
    key_env: VariableName | None = None

    @field_validator("url")
    @classmethod
    def _an_address(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                url_of(value)
            except AddressRefused as error:
                raise ValueError(str(error).rstrip(".")) from error
        return value

    @model_validator(mode="after")
    def _can_be_asked(self) -> "WebSearch":
        if self.backend == "searxng" and self.url is None:
            raise ValueError('a SearXNG is asked at its own address: url = "https://searx.example.org"')
        if self.backend != "searxng" and self.key_env is None:
            raise ValueError(f'{self.backend} wants a key: key_env = "NAME" of the variable that holds it')
        return self


class Web(Closed):
    """The table [web]. `hosts`: the hosts from which `web_fetch` may fetch, none = the tool is not offered.
    `allow_private`: hosts, each with its port, that may have private addresses. `seconds` and `max_mb` limit one page,
    redirects and unpacking included."""

    hosts: Hosts = ()
    allow_private: PrivateHosts = ()
    seconds: Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)] = 30.0
    max_mb: Annotated[float, Field(gt=0, le=50, allow_inf_nan=False)] = 5.0
    search: WebSearch | None = None


class WebhookSettings(Closed):
    """The table [webhooks]. `allow`: the hosts to which messages may be sent, by https. `allow_private`: hosts, each
    with its port, that may have private addresses and be reached by http."""

    allow: Hosts = ("*",)
    allow_private: PrivateHosts = ()
