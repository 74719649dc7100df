"""Options of `mcc run` as people write them."""

from datetime import UTC, datetime

import pytest
import typer

from mcc.cli.order_request import time_in

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("90s", "2026-01-31T12:01:30+00:00"),
        ("10m", "2026-01-31T12:10:00+00:00"),
        ("1h30m", "2026-01-31T13:30:00+00:00"),
        ("2d", "2026-02-02T12:00:00+00:00"),
        ("2026-02-01T08:00+02:00", "2026-02-01T06:00:00+00:00"),
    ],
)
def test_a_time_is_told_as_a_duration_or_in_iso_8601(said: str, moment: str) -> None:
    found = time_in(said, NOW)
    assert found is not None and found.isoformat() == moment


@pytest.mark.parametrize("said", ["", "10", "m", "10x", "9999999d", "tomorrow"])
def test_what_is_no_time_is_refused(said: str) -> None:
    with pytest.raises(typer.Exit):
        time_in(said, NOW)
