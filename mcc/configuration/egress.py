"""The tables [sandbox.egress] and [sandbox.secrets.NAME]: which hosts programs in the sandbox may reach, with what."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from mcc.addresses import Endpoint, HostList, Refused, endpoint_of
from mcc.contracts.shape import Closed

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]

SECRET_PORTS = (443,)
"""Of a host in `hosts` that says no port: a secret goes nowhere in the clear by itself."""


def _hosts(entries: tuple[str, ...]) -> tuple[str, ...]:
    try:
        HostList(entries)
    except Refused as error:
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
    except Refused as error:
        raise ValueError(f"{error} Write name:port or address:port") from error
    return entries


def endpoints_of(entries: tuple[str, ...]) -> tuple[Endpoint, ...]:
    """Raises `Refused`."""
    return tuple(map(endpoint_of, entries))


Hosts = Annotated[tuple[str, ...], Field(max_length=500), AfterValidator(_hosts)]
PrivateHosts = Annotated[tuple[str, ...], Field(max_length=100), AfterValidator(_endpoints)]


class Egress(Closed):
    """`allow`: the hosts that programs in the sandbox may reach, none = no network. `allow_private`: those of them
    whose addresses may be private ones, each with its port."""

    allow: Hosts = ()
    allow_private: PrivateHosts = ()


class SwappedSecret(Closed):
    """`env` names the variable of the drone that holds the secret. Programs see a stand-in, in whose place it is put on
    the way to one of `hosts` and to nobody else."""

    env: VariableName
    hosts: Annotated[tuple[str, ...], Field(min_length=1, max_length=100), AfterValidator(_hosts_with_secrets)]


SwappedSecrets = Annotated[Mapping[VariableName, SwappedSecret], Field(max_length=50)]
