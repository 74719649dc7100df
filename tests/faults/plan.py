"""What a family of processes under test is made of."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.faults.assembly import MODEL
from tests.faults.pgbouncer import Mode

POSTGRES = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")


@dataclass(frozen=True, slots=True)
class Plan:
    """`links`: those that go through a proxy, such as drone-redis, mcc-pg, drone-llm; `settings`: environment of all.

    `judged`: what `run.json` says beside, such as `false_takeovers` that are allowed. `server`: the PostgreSQL to use;
    `pooler`: the mode of a PgBouncer through which all reach it; `redis`: further settings of the Redis.
    """

    database: Literal["sqlite", "postgres"] = "sqlite"
    mccs: int = 2
    drones: int = 4
    slots: int = 4
    lease_seconds: float = 2.0
    renew_seconds: float = 0.4
    sweep_seconds: float = 0.2
    poll_seconds: float = 1.0
    links: Sequence[str] = ()
    model: str = MODEL
    seed: int = 0
    campaign: str = "smoke"
    settings: Mapping[str, str] = field(default_factory=dict)
    judged: Mapping[str, object] = field(default_factory=dict)
    server: str = POSTGRES
    pooler: Mode | None = None
    redis: Mapping[str, str] = field(default_factory=dict)
