"""A drone's own Prometheus metrics, served over HTTP where DRONE_METRICS says."""

import errno
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from wsgiref.simple_server import WSGIServer

import structlog
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest, start_http_server

from mcc.dispatch.work_metrics import WorkMetrics

log = structlog.get_logger("drone.metrics")

PORTS_TRIED = 20
"""Drones of one machine share a configuration: each takes the next free port."""


class MetricsUnavailable(Exception):
    """The metrics cannot be served there; the sentence says what to do."""


class DroneMetrics:
    """Counters of what this drone did, and gauges of what it does now; `GET /metrics` without a token."""

    def __init__(self, host: str, port: int) -> None:
        """`port`: of this or one of the next ones, the first that is free."""
        self._host, self._port = host, port
        self._registry = CollectorRegistry()
        self._server: tuple[WSGIServer, Thread] | None = None
        ProcessCollector(registry=self._registry)
        self.work = WorkMetrics(self._registry)

    def watch(self, *, active: Callable[[], int], slots: int, lag_seconds: Callable[[], float]) -> None:
        """Show these figures, which are asked for on the thread that answers."""
        gauge = Gauge(
            "mcc_drone_slots", "Slots of this drone, and how many are taken.", ["of"], registry=self._registry
        )
        gauge.labels("all").set(slots)
        gauge.labels("active").set_function(active)
        lag = Gauge(
            "mcc_journal_lag_seconds",
            "How long the oldest journal entry that is not committed yet has waited; 0 when none waits.",
            registry=self._registry,
        )
        lag.set_function(lag_seconds)

    def serve(self) -> None:
        """Answer from now on, on a thread of its own. Raises `MetricsUnavailable`."""
        for port in range(self._port, min(self._port + PORTS_TRIED, 65_536)):
            try:
                self._server = start_http_server(port, self._host, self._registry)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise MetricsUnavailable(self._refusal(str(error))) from error
                continue
            log.info("metrics are served", address=self.address)
            return
        raise MetricsUnavailable(self._refusal(f"this port and the {PORTS_TRIED - 1} after it are taken"))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    @property
    def address(self) -> str:
        """Where they are served; "" where they are not."""
        return "" if self._server is None else f"http://{self._host}:{self._server[0].server_port}/metrics"

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            with suppress(OSError):
                server[0].shutdown()
                server[0].server_close()

    def _refusal(self, why: str) -> str:
        return f"DRONE_METRICS: metrics cannot be served at {self._host}:{self._port}: {why}. Name another HOST:PORT."
