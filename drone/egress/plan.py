"""What the proxy is told of an order, and what it tells: lines of JSON between a drone and its own proxy.

Plain dataclasses, for the proxy does without pydantic, which would double its memory and the time until it listens.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any

from mcc.addresses import Endpoint

FEWEST_CHARACTERS = 8
"""Of a secret; a shorter one could not be told from ordinary words when it comes back."""

MESSAGE_BYTES = 1 << 20
"""Longest message that is read; the kernel takes no longer ones."""


@dataclass(frozen=True, slots=True)
class GivenSecret:
    """`variable` is where programs find the stand-in."""

    variable: str
    value: str = field(repr=False)
    hosts: Sequence[str] = ()

    @property
    def problem(self) -> str:
        """Why nobody is given a stand-in for it, empty where it can be kept."""
        if not self.value:
            return f"{self.variable}: its variable is not set"
        if len(self.value) < FEWEST_CHARACTERS:
            return f"{self.variable}: it has fewer than {FEWEST_CHARACTERS} characters, which cannot be kept secret"
        return f"{self.variable}: it has several lines" if any(one in self.value for one in "\r\n\0") else ""


def missing_for(secrets: Sequence[GivenSecret]) -> str:
    """What is not installed and has to be, for any of these; empty where nothing is."""
    if not secrets or find_spec("cryptography"):
        return ""
    names = ", ".join(one.variable for one in secrets)
    return f"{names}: cryptography is not installed: pip install 'mcc[egress]'"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the operator lets every order reach. `own` are services of ours; `trusted` are more authorities, PEM, that
    servers may be known by; `names` have these addresses, whatever a look-up would say, which no configuration sets."""

    allow: Sequence[str] = ()
    allow_private: Sequence[str] = ()
    own: Sequence[str] = ()
    secrets: Sequence[GivenSecret] = ()
    trusted: str = ""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Plan":
        secrets = tuple(GivenSecret(**one) for one in said["secrets"])
        return cls(**{**said, "secrets": secrets})

    @property
    def problems(self) -> Sequence[str]:
        """Secrets that nobody gets, and why."""
        usable = [one for one in self.secrets if not one.problem]
        return [*(one.problem for one in self.secrets if one.problem), *filter(None, (missing_for(usable),))]

    @property
    def said(self) -> Mapping[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Given:
    """What programs of the order are given: the stand-ins by variable, and the authority to trust, PEM; empty where no
    secret wants one. `problem`: what of the plan cannot be had, and why."""

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    certificate: str = ""
    problem: str = ""


def encoded(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def decoded(data: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(data)
    return message


def texts(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    return tuple(map(str, endpoints))
