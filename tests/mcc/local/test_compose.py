"""docker-compose.yml and its helpers: their promises, read from the files and tried where that is possible."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from drone.checkpoints.directory import CHECKPOINTS
from drone.settings import Settings
from mcc.local.redis import on_path
from mcc.settings import load
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {"migrate"}

each_service = pytest.mark.parametrize("name", SERVICES)


def composer() -> list[str]:
    """The installed command that reads compose files; skips where there is none."""
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ["docker", "compose"]
    if found := shutil.which("docker-compose"):
        return [found]
    pytest.skip("neither `docker compose` nor docker-compose is installed (make system-deps brings one)")


def config(*options: str, secrets: Path) -> dict[str, Any]:
    told = subprocess.run(
        [*composer(), "--file", str(ROOT / "docker-compose.yml"), *options, "config"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(secrets), "MCC_SECRETS": str(secrets)},
    )
    assert told.returncode == 0, told.stderr
    return dict(yaml.safe_load(told.stdout))


def test_compose_reads_the_file_and_flower_is_there_only_in_its_profile(tmp_path: Path) -> None:
    usual, with_flower = config(secrets=tmp_path), config("--profile", "flower", secrets=tmp_path)
    assert set(with_flower["services"]) - set(usual["services"]) <= {"flower"}
    assert {"redis", "postgres", "migrate", "mcc", "drone"} <= set(usual["services"])


def test_only_mcc_and_flower_publish_and_only_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"mcc", "flower"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_drones_can_be_scaled() -> None:
    assert not {"container_name", "ports", "hostname"} & set(SERVICES["drone"])


@each_service
def test_every_service_is_fenced_in(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["init"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert any(mount.startswith("/tmp") for mount in service["tmpfs"])
    assert {"mem_limit", "cpus", "pids_limit", "stop_grace_period"} <= set(service)
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
    assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped")
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & set(service)
    assert "docker.sock" not in str(service)


@each_service
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    assert name in ONE_SHOT or SERVICES[name]["healthcheck"]["test"]


def test_databases_are_on_an_internal_network_only() -> None:
    assert COMPOSE["networks"]["core"] == {"internal": True}
    for name in ("redis", "postgres", "migrate"):
        assert SERVICES[name]["networks"] == ["core"]


def test_drones_have_no_way_out_but_the_proxy() -> None:
    inside = {name for name, network in COMPOSE["networks"].items() if network == {"internal": True}}
    assert set(SERVICES["drone"]["networks"]) == {"core", "egress"} <= inside
    assert {name for name, service in SERVICES.items() if "egress" in service["networks"]} == {"drone", "proxy"}
    assert set(SERVICES["proxy"]["networks"]) - inside == {"outside"}
    assert not SERVICES["proxy"].get("secrets")
    host, _, port = SERVICES["drone"]["environment"]["DRONE_EGRESS_PROXY"].removeprefix("http://").partition(":")
    assert host == "proxy" and f"PROXY_PORT:-{port}" in (ROOT / "deploy" / "proxy").read_text()


@contextmanager
def proxy(tmp_path: Path, hosts: str) -> Iterator[int]:
    """The egress proxy as the compose file runs it; yields its port."""
    if shutil.which("tinyproxy") is None:
        pytest.skip("tinyproxy is not installed (make system-deps brings it)")
    port = free_port()
    told = {"PROXY_PORT": str(port), "PROXY_ADDRESS": "127.0.0.1", "MODEL_HOSTS": hosts}
    command = [ROOT / "deploy" / "proxy", tmp_path]
    with subprocess.Popen(command, env={"PATH": os.environ["PATH"], **told}, stdout=subprocess.DEVNULL) as process:
        try:
            while not answers(port):
                with suppress(subprocess.TimeoutExpired):
                    pytest.fail(f"the proxy ended with {process.wait(0.05)}")
            yield port
        finally:
            process.kill()  # told to terminate between two polls, it waits for the next connection


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("target", "is_let_through"),
    [
        ("models.invalid:443", True),
        ("modelsXinvalid:443", False),
        ("models.invalid.evil.invalid:443", False),
        ("evil.models.invalid:443", False),
        ("models.invalid:22", False),
        ("127.0.0.1:443", False),
        ("redis:443", False),
    ],
)
def test_the_way_out_leads_to_named_hosts_on_port_443_only(tmp_path: Path, target: str, is_let_through: bool) -> None:
    with (
        proxy(tmp_path, "other.invalid models.invalid") as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as asked,
    ):
        asked.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        status = asked.makefile("rb").readline().split()[1]
    assert (status == b"403") is not is_let_through


@pytest.mark.parametrize("hosts", ["a.example;id", "*", "api.example/path", "-x", "$(id)", ".example", "a\\.b"])
def test_a_host_that_is_none_stops_the_way_out(tmp_path: Path, hosts: str) -> None:
    told = subprocess.run(
        [ROOT / "deploy" / "proxy", tmp_path],
        env={"PATH": os.environ["PATH"], "MODEL_HOSTS": hosts},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert told.returncode == 1 and "is not a host name" in told.stderr


IMAGES = ROOT / "deploy" / "images.env"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def pinned(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def is_fixed(image: str) -> bool:
    return re.fullmatch(r"[a-z0-9./_-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64}", image) is not None


def test_images_of_a_release_are_named_by_digest() -> None:
    """The file exists only where a registry was reachable; it then pins every image by digest, never by a tag alone."""
    if not IMAGES.exists():
        pytest.skip("deploy/images.env was not written: scripts/pin-images needs an image registry")
    assert set(pinned(IMAGES)) == {"MCC_REDIS_IMAGE", "MCC_POSTGRES_IMAGE", "MCC_PYTHON_IMAGE"}
    assert all(map(is_fixed, pinned(IMAGES).values()))


@pytest.mark.parametrize(("answer", "is_written"), [(DIGEST, True), ("latest", False), ("sha256:", False), ("", False)])
def test_pinning_writes_digests_or_nothing(tmp_path: Path, answer: str, is_written: bool) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{answer}'\n")
    docker.chmod(0o755)
    file = tmp_path / "images.env"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    told = subprocess.run(
        [ROOT / "scripts" / "pin-images", file], env=environment, capture_output=True, text=True, check=False
    )
    assert (told.returncode == 0, file.exists()) == (is_written, is_written)
    if is_written:
        assert set(pinned(file)) == {"MCC_REDIS_IMAGE", "MCC_POSTGRES_IMAGE", "MCC_PYTHON_IMAGE"}
        assert all(map(is_fixed, pinned(file).values()))


def test_no_secret_is_in_the_environment() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert not re.search(r"(PASSWORD|TOKEN|KEY|SECRET)$", name)
            assert not re.search(r"://[^/@]*:[^/@]*@", str(value))


def test_every_mounted_secret_is_declared_and_made(tmp_path: Path) -> None:
    made_by = [ROOT / "scripts" / "secrets", tmp_path / "made", tmp_path / "config"]
    subprocess.run(made_by, check=True, capture_output=True)
    for name, secret in COMPOSE["secrets"].items():
        assert secret["file"].endswith(f"/{name}")
        assert (tmp_path / "made" / name).read_text()
    used = {
        entry if isinstance(entry, str) else entry["source"]
        for service in SERVICES.values()
        for entry in service.get("secrets", [])
    }
    assert used == set(COMPOSE["secrets"])


def test_redis_keeps_what_it_is_given() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_flower_has_a_login_and_changes_nothing() -> None:
    flower = SERVICES["flower"]
    assert flower["profiles"] == ["flower"]
    assert "flower_password" in flower["secrets"]
    assert {"--read-only", "--max-tasks=5000", "--purge-offline-workers=300"} <= set(flower["command"])
    assert "UNAUTHENTICATED" not in TEXT


def test_secrets_are_made_once_and_their_directory_is_closed(tmp_path: Path) -> None:
    made = tmp_path / "made"
    script = [ROOT / "scripts" / "secrets", made, tmp_path / "config"]
    subprocess.run(script, check=True, capture_output=True)
    before = {path.name: path.read_text() for path in made.iterdir()}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert len(set(before.values())) == len(before)
    assert len(before["mcc_token"]) == len(before["metrics_token"]) == 64
    again = subprocess.run(script, check=True, capture_output=True, text=True)
    assert again.stdout == ""
    assert {path.name: path.read_text() for path in made.iterdir()} == before


def test_the_configuration_that_is_mounted_is_made_readable_and_never_written_over(tmp_path: Path) -> None:
    script = [ROOT / "scripts" / "secrets", tmp_path / "made", tmp_path / "config"]
    subprocess.run(script, check=True, capture_output=True)
    file = tmp_path / "config" / "mcc.toml"
    for name in ("mcc", "drone"):
        service = SERVICES[name]
        assert service["environment"]["MCC_CONFIG"] == f"/config/{file.name}"
        assert "${MCC_CONFIG_DIR:-./config}:/config:ro" in service["volumes"]
    assert load({"MCC_CONFIG": str(file)}, data_dir=tmp_path / "data").configuration.own == file
    example = re.sub(r"^# ?", "", file.read_text().partition("#\n")[2], flags=re.MULTILINE)
    file.write_text(example)
    assert Settings({"MCC_CONFIG": str(file)}, data_dir=tmp_path / "data").models["coder"].api_key_env == "CODER_KEY"
    subprocess.run(script, check=True, capture_output=True)
    assert file.read_text() == example


def test_what_a_revert_restores_from_outlives_a_container_and_nothing_else_of_a_drone_does() -> None:
    assert f"/data/{CHECKPOINTS}" == "/data/checkpoints"
    assert "checkpoints:/data/checkpoints" in SERVICES["drone"]["volumes"]
    assert any(mount.startswith("/data:") for mount in SERVICES["drone"]["tmpfs"])
    assert "/data/checkpoints" in (ROOT / "Dockerfile").read_text(), "a new volume gets its owner from the image"


def test_the_rights_of_redis_users_are_ones_that_redis_understands(tmp_path: Path) -> None:
    """A real server loads the list; its users may use only MCC's keys and no dangerous command."""
    programs = Path(sys.prefix) / "bin"  # of an activated environment: an older server may stand there
    outside = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != programs)
    server, client = on_path(outside), shutil.which("redis-cli")
    if server is None or client is None:
        pytest.skip("redis-server and redis-cli are not on PATH")
    subprocess.run([ROOT / "scripts" / "secrets", tmp_path / "s", tmp_path / "config"], check=True, capture_output=True)
    path = tmp_path / "redis.sock"
    command = [
        str(server.path),
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--aclfile",
        str(tmp_path / "s" / "redis_acl"),
    ]

    def ask(*words: str, user: str = "drone") -> str:
        password = (tmp_path / "s" / f"{user}_redis_password").read_text() if user else ""
        login = ["--user", user, "--pass", password, "--no-auth-warning"] if user else []
        return subprocess.run(
            [str(client), "-s", str(path), *login, *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        try:
            next(line for line in process.stdout if "ready to accept connections" in line.lower())
            assert ask("ping", user="").startswith("NOAUTH")
            assert ask("lpush", "mcc:default", "x") == "1"
            assert ask("publish", "mcc:status", "x") == "0"
            assert ask("lpush", "other", "x").startswith("NOPERM")
            for words in (["flushall"], ["config", "get", "dir"], ["keys", "*"], ["bgsave"], ["eval", "return 1", "0"]):
                assert ask(*words).startswith("NOPERM"), words
            assert len(ask("script", "load", "return 1")) == 40
            assert ask("llen", "mcc:default", user="flower") == "1"
            placing = (
                ["lpush", "mcc:default", "x"],
                ["rpoplpush", "mcc:default", "mcc:celeryev.x"],
                ["del", "mcc:default"],
            )
            for words in (*placing, ["set", "mcc:x", "1"], ["eval", "return 1", "0"]):
                assert ask(*words, user="flower").startswith("NOPERM"), words
        finally:
            process.terminate()
            process.stdout.close()
            process.wait(30)


ENTRY = """
set -eu
mkdir -p "$1/secrets"
sed "s#/run/secrets#$1/secrets#g; s#/tmp/pgpass#$1/pgpass#g" "$2" >"$1/entry"
"""


def entry(tmp_path: Path, secrets: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The container's entry script, with its paths changed to ones in `tmp_path`."""
    subprocess.run(["sh", "-c", ENTRY, "sh", str(tmp_path), str(ROOT / "deploy" / "entry")], check=True)
    for name, text in secrets.items():
        (tmp_path / "secrets" / name).write_text(text)
    return subprocess.run(
        ["sh", str(tmp_path / "entry"), "env"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "REDIS_USER": "drone"},
    )


def test_a_container_gets_what_its_secret_files_say(tmp_path: Path) -> None:
    keys = "# keys\nOPENAI_API_KEY=sk-a=b\n\nOPENAI_BASE_URL=http://x/v1"
    told = entry(tmp_path, {"redis_password": "r" * 64, "database_password": "d" * 64, "model_keys": keys})
    seen = dict(line.split("=", 1) for line in told.stdout.splitlines())
    assert seen["MCC_REDIS_URL"] == f"redis://drone:{'r' * 64}@redis:6379/0"
    assert seen["OPENAI_API_KEY"] == "sk-a=b"
    assert seen["OPENAI_BASE_URL"] == "http://x/v1"
    assert "d" * 64 not in told.stdout
    assert stat.S_IMODE((tmp_path / "pgpass").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "secrets",
    [{"redis_password": "change-me"}, {"flower_password": ""}, {"model_keys": "PATH=/x"}, {"model_keys": "rm -rf=1"}],
    ids=str,
)
def test_a_container_does_not_start_with_a_secret_that_is_none(tmp_path: Path, secrets: dict[str, str]) -> None:
    told = entry(tmp_path, secrets)
    assert told.returncode != 0
    assert told.stderr


def test_the_image_is_built_from_hashed_locks_and_runs_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    assert "--require-hashes --requirement requirements.lock" in text
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    for copied in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for source in copied.split()[:-1]:
            assert source == "README.md" or (ROOT / source).exists(), source
