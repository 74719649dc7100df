"""Plain Celery: one task that reports when it began."""

import json
import os
import time

from celery import Celery

URL_NAME = "BENCH_BROKER_URL"
REACHED = "bench:reached"
PREFIX = "mcc:"
"""The key prefix that the embedded Redis permits."""

app = Celery("bench", broker=os.environ.get(URL_NAME, "redis://127.0.0.1:6379/0"))
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True, task_default_queue="bench")
app.conf.broker_transport_options = {"global_keyprefix": PREFIX}


@app.task(name="bench.stamp")
def stamp(sent: int) -> None:
    reached = time.monotonic_ns()
    with app.connection_for_write() as connection:
        connection.default_channel.client.rpush(REACHED, json.dumps([sent, reached]))
