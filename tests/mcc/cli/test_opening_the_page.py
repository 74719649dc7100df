"""`mcc open` and what `mcc up` prints: links that sign a browser in, shown to people alone."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from mcc.client import MCC
from mcc.client.errors import NotFound
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served

Open = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = temporary_store()
    with Served(store, tmp_path / "data") as served:
        yield served
    store.close()


@pytest.fixture
def opened(served: Served, tmp_path: Path) -> Open:
    """Runs `mcc open` in a process of its own: Python looks for browsers once in each."""
    environment = {**os.environ, "MCC_URL": served.url, "MCC_TOKEN": TOKEN, "MCC_DATA_DIR": str(tmp_path / "data")}

    def run(*words: str, browser: str = "") -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "mcc.cli.main", "open", *words]
        known = {**environment, "BROWSER": browser, "PATH": ""}
        return subprocess.run(command, env=known, capture_output=True, text=True, check=True)

    return run


def signed_in(served: Served, link: str) -> int:
    address, _, code = link.strip().partition("#")
    assert address == f"{served.url}/signin"
    return httpx.post(f"{served.url}/api/v1/signin", json={"code": code}).status_code


def test_a_link_is_printed_that_signs_in_once(served: Served, opened: Open) -> None:
    done = opened("--print")
    assert [signed_in(served, done.stdout), signed_in(served, done.stdout)] == [200, 410]


def test_as_json_it_is_the_link_with_its_end(served: Served, opened: Open) -> None:
    link = json.loads(opened("--json").stdout)
    assert signed_in(served, link["url"]) == 200 and link["expires_at"]


def test_a_browser_gets_the_link_in_a_file_that_only_its_user_reads(
    served: Served, opened: Open, tmp_path: Path
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!{sys.executable}\nimport sys\nopen("{tmp_path}/got", "w").write(" ".join(sys.argv[1:]))\n')
    browser.chmod(0o700)
    done = opened(browser=f"{browser} %s")
    got = (tmp_path / "got").read_text()
    file = tmp_path / "data" / "open.html"
    assert (done.stdout, got) == ("", file.as_uri())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert signed_in(served, file.read_text().partition("url=")[2].partition('"')[0]) == 200


def test_without_a_browser_the_link_is_printed(served: Served, opened: Open) -> None:
    done = opened()
    assert signed_in(served, done.stdout) == 200


def test_the_client_lists_browsers_and_signs_them_out(served: Served) -> None:
    with MCC(served.url, token=TOKEN, user_agent="mcc-cli/0") as client:
        assert client.signins.me().door == "cli"
        assert signed_in(served, client.signins.link().url) == 200
        (signin,) = client.signins.list()
        client.signins.end(signin.id)
        assert client.signins.list() == ()
        with pytest.raises(NotFound):
            client.signins.end(signin.id)
