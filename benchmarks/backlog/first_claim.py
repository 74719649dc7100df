"""The time from a starting drone's registration to its first claim."""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from mcc.local.family import Family, family_in_thread
from mcc.local.programs import Staff
from mcc.settings import load
from mcc.store.store import open_store

MOST_SECONDS = 120.0
CLAIMED = sa.text(
    "SELECT min(j.at) - min(d.started_at) FROM drones d JOIN order_state o ON o.incarnation = d.incarnation"
    " JOIN journal j ON j.order_id = o.order_id AND j.kind = 'order.claimed' AND j.at >= d.started_at"
    " WHERE d.name = 'drone-1'"
)


def seconds_to_first_claim(database_url: str) -> float:
    """Start a service, a Redis and one drone on this database, wait for the first claim, and stop them.

    Raises TimeoutError after `MOST_SECONDS`.
    """
    store = open_store(database_url)
    with TemporaryDirectory(prefix="mcc-") as folder:
        data = Path(folder) / "data"
        data.mkdir(mode=0o700)
        environment = {**os.environ, "MCC_DATABASE_URL": database_url}
        settings = load(environment, data_dir=data, port=0, host="127.0.0.1")
        family = Family(settings, Staff(flower=False, slots=4), purpose="run", environment=environment)
        deadline = time.monotonic() + MOST_SECONDS
        try:
            with family_in_thread(family):
                while time.monotonic() < deadline:
                    microseconds = store.database.read(lambda connection: connection.scalar(CLAIMED))
                    if microseconds is not None:
                        return float(microseconds) / 1_000_000
                    time.sleep(0.05)
        finally:
            store.close()
    raise TimeoutError(f"no order was claimed within {MOST_SECONDS:.0f} s")
