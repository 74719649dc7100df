"""A control service under test: made as the product's, its store and nudger wrapped with failpoints.

python -m tests.faults.mcc_app        # settings from the environment; see `tests.faults.assembly`
"""

import asyncio
import socket
import sys

from mcc.api.app import RedisAccess, build_app
from mcc.api.serve import ApiServer, configured, redis_of
from mcc.contracts.ids import fresh_id
from mcc.dispatch.publisher import AsyncPublisher, Publisher
from mcc.dispatch.sweep import SweepLoop
from mcc.feed.subscription import connector
from mcc.logs import set_up_logs
from mcc.settings import ServiceSettings, load, operator_token
from mcc.store.store import STORE_SECONDS, Store, open_store
from tests.faults.assembly import places_of_this_process
from tests.faults.clock import set_wrong
from tests.faults.failpoints import Failpoints
from tests.faults.ports import FailingNudger, failing


def serve(settings: ServiceSettings, points: Failpoints) -> int:
    """As `mcc.api.serve.serve`, without the questions that it asks before."""
    set_up_logs()
    store = failing(open_store(settings.database, patience_seconds=STORE_SECONDS), points)
    nudger = FailingNudger(redis_of(settings), settings.queues)
    nudger.points = points
    publisher = Publisher(redis_of(settings))
    sweeps = SweepLoop(store, nudger, publisher, sweeper=f"mcc-{fresh_id()}", sweep_seconds=settings.sweep_seconds)
    sweeps.start()
    try:
        asyncio.run(_run(settings, store, nudger, sweeps))
    finally:
        sweeps.stop(1.0)
        nudger.close()
        publisher.close()
        store.close()
    return 0


async def _run(settings: ServiceSettings, store: Store, nudger: FailingNudger, sweeps: SweepLoop) -> None:
    at = redis_of(settings)
    publisher = AsyncPublisher(at)
    app = build_app(
        settings,
        store,
        token=operator_token(settings),
        redis=RedisAccess(nudger, publisher, connector(at), prefix=at.prefix),
        trouble=lambda: sweeps.trouble,
    )
    with socket.create_server((settings.host, settings.port), backlog=2048) as listening:
        try:
            await ApiServer(configured(app), app.state.service).serve(sockets=[listening])
        finally:
            await publisher.close()


def main() -> int:
    set_wrong()
    _, points = places_of_this_process()
    return serve(load(), points)


if __name__ == "__main__":
    sys.exit(main())
