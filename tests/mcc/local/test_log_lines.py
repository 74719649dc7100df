"""The logs of a family's processes, merged."""

import json
from itertools import islice
from pathlib import Path

from mcc.local.log_lines import LogLine, following, last_lines, logs_in


def said(event: str, at: str, **more: str) -> str:
    return json.dumps({"event": event, "timestamp": at, "level": "info", "logger": "x", **more}) + "\n"


def test_the_last_lines_of_all_stand_in_the_order_of_their_times(tmp_path: Path) -> None:
    (tmp_path / "api.log").write_text(
        "--- api starts\n" + said("one", "2026-01-01T10:00:00Z") + "a trace\n" + said("four", "2026-01-01T10:00:04Z")
    )
    (tmp_path / "drone-1.log").write_text(said("two", "2026-01-01T10:00:02Z", order="7", level="error"))
    (tmp_path / "drone-1.log.1").write_text(said("of an earlier family", "2026-01-01T10:00:01Z"))
    lines = last_lines(logs_in(tmp_path), 3)
    assert [(line.process, line.text) for line in lines] == [
        ("api", "one"),
        ("api", "a trace"),
        ("drone-1", "error: two order=7"),
        ("api", "four"),
    ]


def test_what_is_added_is_told_once_also_when_a_log_is_emptied_or_replaced(tmp_path: Path) -> None:
    file = tmp_path / "api.log"
    file.write_text("one\ntw")
    logs = logs_in(tmp_path)
    assert [line.text for line in last_lines(logs, 10)] == ["one"]
    added = following(logs, 0)
    with file.open("a") as log:
        log.write("o\nthree\n")
    assert [line.text for line in islice(added, 2)] == ["two", "three"]
    file.write_text("four\n")
    assert next(added) == LogLine("api", "", "four")
    file.with_name("new").write_text("a longer line of another file\n")
    file.with_name("new").replace(file)
    assert next(added).text == "a longer line of another file"
