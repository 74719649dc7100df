"""The dashboard, the alert rules and the page on monitoring name metrics that there are, and all of them."""

import json
from collections.abc import Iterator
from pathlib import Path

import re2
import yaml
from prometheus_client.parser import text_string_to_metric_families

from drone.worker.metrics import DroneMetrics
from mcc.api.health import Metrics
from mcc.testing import temporary_store

ROOT = Path(__file__).parents[3]
NAME = re2.compile(r"\bmcc_[a-z_]+[a-z]\b")
ALERTS = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yml").read_text())
DASHBOARD = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text())
PAGE = (ROOT / "docs/how-to/monitor.md").read_text()


def families() -> Iterator[tuple[str, str]]:
    """Name and kind of each metric that service or drone shows."""
    drone = DroneMetrics("127.0.0.1", 0)
    drone.watch(active=lambda: 0, slots=1, lag_seconds=lambda: 0.0)
    service = Metrics().text(temporary_store(), ["default"], 0, True)
    for text in (service.decode(), drone.text().decode()):
        for family in text_string_to_metric_families(text):
            # Besides each counter, the old text format has the time at which it was created.
            if not family.name.endswith("_created"):
                yield family.name, family.type


def samples() -> set[str]:
    """Names of the series, as queries spell them."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {name + ending for name, kind in families() for ending in endings.get(kind, ("",)) if name[:4] == "mcc_"}


def test_every_query_names_series_that_there_are() -> None:
    queries = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    queries += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in NAME.findall(query)}
    assert len(named) > 12
    assert named <= samples(), named - samples()


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in ALERTS["groups"][0]["rules"]:
        assert rule["annotations"]["summary"] and rule["annotations"]["action"] and rule["labels"]["severity"]


def test_the_page_lists_every_metric() -> None:
    listed = set(NAME.findall(PAGE))
    there = {name + ("_total" if kind == "counter" else "") for name, kind in families() if name[:4] == "mcc_"}
    assert there == {name for name in listed if name != "mcc_metrics_token"}
