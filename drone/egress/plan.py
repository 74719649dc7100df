"""The plan that a drone sends to its proxy, and the grant that it gets back, as JSON messages.

Plain dataclasses and not pydantic, which would double the proxy's memory and its start-up time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any

from mcc.addresses import HostList

FEWEST_CHARACTERS = 8
"""Shortest accepted secret; a shorter one could not be told from ordinary words in an answer."""

SECRET_PORTS = (443,)
"""The ports of a secret's host entry without a port. Not 80: no secret is sent in the clear by default."""

MESSAGE_BYTES = 1 << 20
"""Longest message; the kernel accepts no longer ones."""


@dataclass(frozen=True, slots=True)
class ConfiguredSecret:
    """A secret of the operator, sent to `hosts` only. Programs find its stand-in in the environment `variable`."""

    variable: str
    value: str = field(repr=False)
    hosts: Sequence[str] = ()

    @property
    def problem(self) -> str:
        """Why programs get no stand-in for it; empty where it is usable."""
        if not self.value:
            return f"{self.variable}: its variable is not set"
        if len(self.value) < FEWEST_CHARACTERS:
            return f"{self.variable}: it has fewer than {FEWEST_CHARACTERS} characters, which cannot be kept secret"
        return f"{self.variable}: it has several lines" if any(one in self.value for one in "\r\n\0") else ""


def missing_for(secrets: Sequence[ConfiguredSecret]) -> str:
    """What must be installed before any of these secrets can be used; empty where nothing is missing."""
    if not secrets or find_spec("cryptography"):
        return ""
    names = ", ".join(one.variable for one in secrets)
    return f"{names}: cryptography is not installed: pip install 'mcc[egress]'"


@dataclass(frozen=True, slots=True)
class EgressPlan:
    """What the operator lets every order reach: the hosts in `allow`. `own` are MCC's own services; `trusted` are
    further certificate authorities of servers, as PEM. `names` have fixed addresses instead of a look-up; no
    configuration sets them."""

    allow: Sequence[str] = ()
    allow_private: Sequence[str] = ()
    own: Sequence[str] = ()
    secrets: Sequence[ConfiguredSecret] = ()
    trusted: str = ""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> "EgressPlan":
        secrets = tuple(ConfiguredSecret(**one) for one in message["secrets"])
        return cls(**{**message, "secrets": secrets})

    @property
    def problems(self) -> Sequence[str]:
        """The secrets that cannot be used, or not at one of their hosts, and why."""
        usable = [one for one in self.secrets if not one.problem]
        unusable = [one.problem for one in self.secrets if one.problem]
        return [*unusable, *filter(None, (missing_for(usable),)), *self._not_allowed(usable)]

    def _not_allowed(self, secrets: Sequence[ConfiguredSecret]) -> Iterator[str]:
        allowed = HostList(self.allow)
        for secret in secrets:
            for host in secret.hosts:
                if not _is_allowed(host, allowed):
                    yield f"{secret.variable}: {host} is not in [sandbox.egress] allow; add it there as well"

    @property
    def as_dict(self) -> Mapping[str, Any]:
        return asdict(self)


def _is_allowed(host: str, allowed: HostList) -> bool:
    """Whether `allowed` covers this entry. A wildcard must be listed literally; a name may match a listed wildcard."""
    return host in allowed.names or any(map(allowed.covers, HostList([host], SECRET_PORTS).endpoints))


@dataclass(frozen=True, slots=True)
class EgressGrant:
    """What programs of an order get: the stand-ins by variable, and the certificate authority to trust as PEM, empty
    where no secret needs one. `problem`: the parts of the plan that do not work, and why."""

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    certificate: str = ""
    problem: str = ""


def encoded(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def decoded(data: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(data)
    return message
