"""What the proxy is told of an order, and what it tells: lines of JSON between a drone and its own proxy.

Plain dataclasses, for the proxy does without pydantic, which would double its memory and the time until it listens.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mcc.addresses import Endpoint

MESSAGE_BYTES = 1 << 20
"""Longest message that is read; the kernel takes no longer ones."""


@dataclass(frozen=True, slots=True)
class GivenSecret:
    """`variable` is where programs find the stand-in."""

    variable: str
    value: str = field(repr=False)
    hosts: Sequence[str] = ()


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
