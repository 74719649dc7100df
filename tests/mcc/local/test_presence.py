"""The lock on a data directory, and the address that its holder publishes."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mcc.local.errors import DoesNotEnd, FamilyRunning
from mcc.local.presence import Held, Hold, Presence, await_end, end_family, find_family, refuse_second

HERE = Presence("http://127.0.0.1:8420", 42, "http://127.0.0.1:5555", "2026-11-20T10:00:00Z")

HOLDER = """
import pathlib, sys
from mcc.local.presence import Hold, Presence
hold = Hold.take(pathlib.Path(sys.argv[1]))
hold.publish(Presence("http://127.0.0.1:1", __import__("os").getpid(), None, ""))
print("held", flush=True)
sys.stdin.read()
"""


def test_nobody_holds_a_new_directory(tmp_path: Path) -> None:
    assert find_family(tmp_path) is Held.NOBODY
    assert find_family(tmp_path / "absent") is Held.NOBODY


def test_a_family_is_found_by_what_it_published_and_only_its_owner_can_read_that(tmp_path: Path) -> None:
    hold = Hold.take(tmp_path)
    assert find_family(tmp_path) is Held.STARTING
    hold.publish(HERE)
    assert find_family(tmp_path) == HERE
    assert stat.S_IMODE((tmp_path / "family.json").stat().st_mode) == 0o600
    assert set(json.loads((tmp_path / "family.json").read_text())) >= {"url", "pid", "flower_url", "started_at"}
    hold.release()
    assert find_family(tmp_path) is Held.NOBODY
    assert not (tmp_path / "family.json").exists()


def test_a_second_family_is_pointed_to_the_first(tmp_path: Path) -> None:
    hold = Hold.take(tmp_path)
    with pytest.raises(FamilyRunning, match="just starting"):
        Hold.take(tmp_path, patience_seconds=0)
    hold.publish(HERE)
    with pytest.raises(FamilyRunning, match=r"pid 42.*http://127\.0\.0\.1:8420") as refused:
        Hold.take(tmp_path, patience_seconds=0)
    assert refused.value.url == HERE.url
    hold.release()


def test_a_family_for_one_order_is_waited_for_and_one_that_stays_is_not(tmp_path: Path) -> None:
    hold = Hold.take(tmp_path)
    hold.publish(HERE)
    await_end(tmp_path)
    hold.publish(replace(HERE, purpose="run"))
    waiting = threading.Thread(target=await_end, args=[tmp_path])
    waiting.start()
    assert waiting.is_alive()
    hold.release()
    waiting.join(10)
    assert not waiting.is_alive()


def test_what_a_killed_family_left_behind_counts_for_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert isinstance(find_family(tmp_path), Presence)
        os.kill(holder.pid, signal.SIGKILL)
    assert (tmp_path / "family.json").exists()
    assert find_family(tmp_path) is Held.NOBODY
    hold = Hold.take(tmp_path)
    assert not (tmp_path / "family.json").exists()
    hold.release()


def test_a_family_is_told_to_end_and_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FamilyRunning):
            refuse_second(tmp_path)
        found = find_family(tmp_path)
        assert isinstance(found, Presence)
        end_family(tmp_path, found)
    assert holder.returncode == -signal.SIGTERM
    refuse_second(tmp_path)


def test_a_process_that_only_has_the_number_of_a_family_is_left_alone(tmp_path: Path) -> None:
    hold = Hold.take(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        published = replace(HERE, pid=stranger.pid)
        hold.publish(published)
        with pytest.raises(DoesNotEnd, match="does not run here"):
            end_family(tmp_path, published)
        stranger.communicate(b"\n")
    assert stranger.returncode == 0
    hold.release()
