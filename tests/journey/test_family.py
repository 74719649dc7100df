"""The family as its users meet it: `mcc up`, orders by two roads, a killed drone, Ctrl-C, and nothing left."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from mcc.client import MCC
from mcc.contracts.status import OrderStatus
from mcc.local.presence import LocalService
from tests.forking import popen

pytestmark = pytest.mark.group("family")

COMMAND = [sys.executable, "-m", "mcc.cli.main"]
PROMPT = "Explain this repository"
GONE_SECONDS = 5.0
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY")


def environment(data_dir: Path) -> dict[str, str]:
    """This process's own, without what would choose another service or model."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCC_", "DRONE_"))}
    return {name: value for name, value in own.items() if name not in KEYS} | {
        "MCC_DATA_DIR": str(data_dir),
        "MCC_FLOWER_PORT": "0",
    }


def until(true: Callable[[], Any], seconds: float, what: str) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)
    return found


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def workspace_in(directory: Path) -> Path:
    """A small repository that no other one resembles."""
    workspace = directory / "orchard"
    (workspace / "orchard").mkdir(parents=True)
    (workspace / "README.md").write_text("# Orchard\n\nCounts apples on a conveyor belt.\n")
    (workspace / "pyproject.toml").write_text(
        '[project]\nname = "orchard"\nversion = "1"\n[project.scripts]\norchard = "orchard.belt:main"\n'
    )
    (workspace / "orchard" / "belt.py").write_text('"""Counts apples."""\n\n\ndef main() -> None:\n    print(3)\n')
    return workspace


@dataclass
class Up:
    """A running `mcc up`."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    data_dir: Path
    workspace: Path
    lines: list[str]

    def mcc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_mcc(*arguments, data_dir=self.data_dir, cwd=self.workspace)

    def client(self) -> MCC:
        return MCC(self.told["url"], token=(self.data_dir / "token").read_text().strip())

    def children(self) -> list[psutil.Process]:
        children: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return children


def run_mcc(*arguments: str, data_dir: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return popen.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env=environment(data_dir),
        check=False,
    )


@contextmanager
def started(data_dir: Path, workspace: Path, *arguments: str) -> Iterator[Up]:
    command = [*COMMAND, "up", "--json", "--port", "0", "--slots", "4", *arguments]
    env = environment(data_dir)
    with popen.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=workspace, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines: list[str] = []
        errors = process.stderr
        reader = threading.Thread(target=lambda: lines.extend(errors), daemon=True)
        reader.start()
        try:
            line = process.stdout.readline()
            assert line, f"mcc up ended: {lines}"
            yield Up(process, json.loads(line), data_dir, workspace, lines)
        finally:
            process.kill()
            process.wait()
            reader.join()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("up")
    with started(directory / "data", workspace_in(directory), "--drones", "2") as family:
        yield family


def test_an_order_goes_from_the_command_line_to_an_answer_about_this_workspace(up: Up) -> None:
    told = up.mcc("run", PROMPT, "--model", "offline", "--json")
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    order = lines.pop()
    assert [entry["seq"] for entry in lines] == list(range(1, order["last_seq"] + 1))
    assert order["status"] == "succeeded"
    claimed = [entry["data"]["drone"] for entry in lines if entry["kind"] == "order.claimed"]
    assert len(claimed) == 1
    assert claimed[0] in ("drone-1", "drone-2")
    assert "orchard" in order["answer"]
    assert "belt.py" in order["answer"]


def test_an_order_goes_from_the_python_client_to_a_record_with_its_subagents(up: Up) -> None:
    with up.client() as client:
        order = client.orders.submit(PROMPT, workspace=up.workspace, model="offline")
        kinds = [entry.kind for entry in client.orders.watch(order.id)]
        record = client.orders.record(order.id)
        ended = client.orders.get(order.id)
    assert (kinds[0], kinds[-1]) == ("order.queued", "order.finished")
    assert ended.status is OrderStatus.SUCCEEDED
    assert {child.agent for child in record.subagent_history} == {"explore", "review", "scout"}
    assert record.usage_total == ended.usage


def test_files_given_at_the_command_line_are_what_the_agent_is_shown_first(up: Up, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("It broke at noon.")
    Image.new("RGB", (3_000, 20), "red").save(tmp_path / "shot.png")
    files = ("--attach", str(tmp_path / "log.txt"), "--attach", str(tmp_path / "shot.png"))
    told = up.mcc("run", PROMPT, "--model", "offline", "--json", *files)
    assert told.returncode == 0, told.stderr
    entries = [json.loads(line) for line in told.stdout.splitlines()]
    assert entries.pop()["status"] == "succeeded"
    started = next(entry["data"] for entry in entries if entry["kind"] == "agent.started")
    text, picture = started["attachments"]
    assert text["name"] == "log.txt" and "It broke at noon." in text["text"] and started["tainted"]
    assert (picture["name"], picture["image"]["width"]) == ("shot.png", 1_568), "one rendition for all providers"
    missing = up.mcc("run", PROMPT, "--attach", str(tmp_path / "nothing.png"))
    assert (missing.returncode, missing.stdout) == (2, "") and "nothing.png cannot be read" in missing.stderr


def test_an_order_is_run_where_its_user_stands_outside_of_the_familys_directory(up: Up, tmp_path: Path) -> None:
    elsewhere = workspace_in(tmp_path)
    told = run_mcc("run", PROMPT, "--model", "offline", data_dir=up.data_dir, cwd=elsewhere)
    assert told.returncode == 0, told.stderr
    assert f"Orders may work in {elsewhere} too now" in told.stderr
    assert "orchard" in told.stdout and "order claimed by" not in told.stdout


def test_a_second_family_on_the_same_directory_points_to_the_first(up: Up) -> None:
    told = up.mcc("up", "--port", "0")
    assert told.returncode == 1
    assert up.told["url"] in told.stderr
    assert str(up.process.pid) in told.stderr


def test_a_port_in_use_is_a_sentence(up: Up, tmp_path: Path) -> None:
    port = up.told["url"].rpartition(":")[2]
    told = run_mcc("up", "--port", port, data_dir=tmp_path / "data", cwd=tmp_path)
    assert told.returncode == 1
    assert "--port 0" in told.stderr


def test_one_in_the_background_is_followed_by_its_logs_and_stopped_by_down(tmp_path: Path) -> None:
    data_dir, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    arguments = (
        "up",
        "--detach",
        "--json",
        "--port",
        "0",
        "--drones",
        "0",
        "--no-flower",
        "--workspace",
        str(elsewhere),
    )
    told = run_mcc(*arguments, data_dir=data_dir, cwd=tmp_path)
    try:
        assert told.returncode == 0, told.stderr
        family = json.loads(told.stdout)
        process = psutil.Process(family["pid"])
        assert family["workspace_roots"] == [str(tmp_path), str(elsewhere)]
        again = run_mcc(*arguments, data_dir=data_dir, cwd=tmp_path)
        assert again.returncode == 1 and "mcc down" in again.stderr
        logs = run_mcc("logs", "--json", "api", data_dir=data_dir, cwd=tmp_path).stdout
        assert any(json.loads(line)["text"] == f"MCC answers at {family['url']}" for line in logs.splitlines())
    finally:
        stopped = run_mcc("down", "--json", data_dir=data_dir, cwd=tmp_path)
    assert json.loads(stopped.stdout) == {"stopped": True, "pid": family["pid"], "data_dir": str(data_dir)}
    assert not alive([process])
    assert json.loads(run_mcc("down", "--json", data_dir=data_dir, cwd=tmp_path).stdout)["stopped"] is False


def test_one_in_the_background_that_cannot_start_says_why(up: Up, tmp_path: Path) -> None:
    port = up.told["url"].rpartition(":")[2]
    told = run_mcc("up", "--detach", "--port", port, data_dir=tmp_path / "data", cwd=tmp_path)
    assert told.returncode == 1 and "--port 0" in told.stderr and told.stdout == ""


def test_a_data_directory_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = run_mcc("up", data_dir=tmp_path / "file" / "data", cwd=tmp_path)
    assert told.returncode == 1
    assert "--data-dir" in told.stderr


def of_flower(up: Up, path: str, login: str | None) -> tuple[int, bytes]:
    request = urllib.request.Request(up.told["flower_url"] + path)
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_flower_wants_its_login(up: Up) -> None:
    port = int(up.told["flower_url"].rpartition(":")[2])
    until(lambda: LocalService("127.0.0.1", port).get("/healthcheck")[0] == 200, 20, "Flower answers")
    assert of_flower(up, "/workers", None)[0] == 401
    assert of_flower(up, "/workers", (up.data_dir / "flower.auth").read_text().strip())[0] == 200


IN_FLOWER = {"succeeded": "SUCCESS", "failed": "FAILURE", "cancelled": "REVOKED", "waiting": "RETRY"}


def test_flower_tells_of_each_order_what_the_service_tells(up: Up) -> None:
    login = (up.data_dir / "flower.auth").read_text().strip()

    def tasks() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(of_flower(up, "/api/tasks?limit=1000", login)[1])
        return found

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with up.client() as client:
        done = [client.orders.submit(f"hello {number}", model="offline") for number in range(10)]
        failed = client.orders.submit("hello", model="openai/none")
        waiting, cancelled = (client.orders.submit("later", model="offline", not_before=tomorrow) for _ in range(2))
        client.orders.cancel(cancelled.id, reason="no longer wanted")
        for order in (*done, failed, cancelled):
            list(client.orders.watch(order.id))
        wanted = {
            order.id: IN_FLOWER[client.orders.get(order.id).status] for order in (*done, failed, waiting, cancelled)
        }
        until(lambda: {one: tasks().get(one, {}).get("state") for one in wanted} == wanted, 20, "Flower says the same")
        shown, listed = tasks(), {order.id for order in client.orders.list(limit=200).items}
        client.orders.cancel(waiting.id)
    assert len(set(wanted.values())) == 4
    assert set(shown) <= listed, "orders, and nothing else"
    assert shown[done[0].id]["args"] == repr(("hello 0", "master", "offline", done[0].id))
    assert shown[done[0].id]["worker"] in ("drone-1@drone", "drone-2@drone")
    assert shown[failed.id]["exception"].startswith("model_error: ")
    assert shown[waiting.id]["exception"].startswith("waiting (not_before): not before ")
    assert shown[cancelled.id]["exception"] == "no longer wanted"


def test_the_doctor_finds_nothing_broken(up: Up) -> None:
    told = up.mcc("doctor", "--json")
    findings = json.loads(told.stdout)["findings"]
    assert [one for one in findings if one["state"] == "broken"] == []
    assert {one["what"]: one["state"] for one in findings}["celery"] == "ok"


def test_a_killed_drone_is_started_again_and_works(up: Up) -> None:
    def pids(client: MCC) -> set[int]:
        return {one.pid for one in client.drones.list() if one.name == "drone-1" and one.status == "up"}

    with up.client() as client:
        before = pids(client)
        os.kill(max(before), signal.SIGKILL)
        until(lambda: pids(client) - before, 30, "drone-1 is back")
        order = client.orders.submit("hello", model="offline")
        assert list(client.orders.watch(order.id))[-1].kind == "order.finished"
    until(lambda: any("drone-1 ended (killed by SIGKILL)" in line for line in up.lines), 5, "the line about it")


def test_neither_kill_9_nor_ctrl_c_leaves_a_process_and_the_next_family_starts(tmp_path: Path) -> None:
    workspace, data_dir = workspace_in(tmp_path), tmp_path / "data"
    data_dir.mkdir()
    data_dir.chmod(0o755)
    if sys.platform == "linux":
        with started(data_dir, workspace, "--drones", "1", "--no-flower") as killed:
            children = killed.children()
            killed.process.kill()
            until(lambda: not alive(children), GONE_SECONDS, "every child is gone")
        assert (data_dir / "family.json").exists()
    with started(data_dir, workspace, "--drones", "1") as stopped:
        with stopped.client() as client:
            order = client.orders.submit("hello", model="offline", workspace=workspace)
            assert list(client.orders.watch(order.id))[-1].kind == "order.finished"
        children = stopped.children()
        assert len(children) >= 4
        began = time.monotonic()
        stopped.process.send_signal(signal.SIGINT)
        assert stopped.process.wait(GONE_SECONDS) == 0
        until(lambda: not alive(children), GONE_SECONDS - (time.monotonic() - began), "every child is gone")
    assert not (data_dir / "family.json").exists()
    assert [one for one in (data_dir, *data_dir.rglob("*")) if one.lstat().st_mode & 0o077] == []


def test_without_a_service_run_brings_its_own_and_ctrl_c_cancels(tmp_path: Path) -> None:
    """The model's server accepts the connection and never answers."""
    workspace = workspace_in(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "mcc.toml").write_text(
            f'[models.mute]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:{mute.getsockname()[1]}/v1"\n'
        )
        with popen.Popen(
            [*COMMAND, "run", PROMPT, "--model", "mute"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=workspace,
            env=environment(tmp_path / "data"),
        ) as process:
            try:
                stderr = process.stderr
                assert stderr is not None
                until(lambda: "master: starts" in stderr.readline(), 40, "the master starts")
                children = psutil.Process(process.pid).children(recursive=True)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=20)
            finally:
                process.kill()
    assert (process.returncode, out) == (130, "")
    assert "cancelling it" in err
    assert not alive(children)


def test_ctrl_c_ends_the_demo_without_an_error_of_make(tmp_path: Path) -> None:
    env = environment(tmp_path / "data") | {"OLLAMA_BASE_URL": "http://127.0.0.1:1"}
    command = [sys.executable, "-m", "mcc.demo"]
    with popen.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Starting") and str(tmp_path / "data") in line
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, err.splitlines()[-1]) == (0, "Stopped; nothing runs.")
