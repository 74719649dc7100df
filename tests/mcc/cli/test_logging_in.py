"""`mcc login` and `mcc logout`: a token of one's own, kept for the commands that follow, by the service it is for."""

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served
from tests.forking import popen

V1 = "/api/v1"
MCC = [sys.executable, "-m", "mcc.cli.main"]
CODE = re.compile(r"Open (\S+)/device in a browser that is signed in, and enter the code ([A-Z]{4}-[A-Z]{4})\n")

Mcc = Callable[..., Any]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = temporary_store()
    with Served(store, tmp_path / "service") as served:
        yield served
    store.close()


@pytest.fixture
def environment(served: Served, tmp_path: Path) -> dict[str, str]:
    """Of somebody at another machine: without a token."""
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "MCC_DATA_DIR": str(tmp_path / "data")}
    return {**os.environ, **home, "MCC_URL": served.url}


@pytest.fixture
def mcc(environment: dict[str, str]) -> Mcc:
    def run(*words: str, **more: str) -> Any:
        return popen.run([*MCC, *words], env={**environment, **more}, capture_output=True, text=True)

    return run


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    return tmp_path / "config" / "mcc" / "credentials.json"


@contextmanager
def signed_in(served: Served, principal: str = "operator") -> Iterator[httpx.Client]:
    """A browser that is signed in by a link."""
    operator = {"Authorization": f"Bearer {TOKEN}"}
    link = httpx.post(f"{served.url}{V1}/signin/links", json={"principal": principal}, headers=operator).json()["url"]
    with httpx.Client(base_url=served.url, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        signed = browser.post(f"{V1}/signin", json={"code": link.partition("#")[2]})
        browser.headers["MCC-CSRF"] = signed.json()["csrf"]
        yield browser


def logged_in(browser: httpx.Client, environment: dict[str, str], *words: str, decision: str = "approve") -> Any:
    """Runs `mcc login`, decides at the page by what it prints, and answers exit code, stdout and stderr."""
    process = popen.Popen([*MCC, "login", *words], env=environment, stdout=-1, stderr=-1, text=True)
    assert process.stderr is not None
    said = process.stderr.readline()
    told = CODE.fullmatch(said)
    assert told is not None, said + process.stderr.read()
    decided = browser.post(f"{V1}/device", json={"user_code": told[2], "decision": decision})
    assert decided.status_code == 200, decided.text
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def person(served: Served, role: str = "member") -> str:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    made = httpx.post(f"{served.url}{V1}/people", json={"name": "Ann Lee", "role": role}, headers=headers)
    return str(made.json()["principal"])


def test_who_logs_in_works_as_themselves_until_they_log_out(
    served: Served, environment: dict[str, str], mcc: Mcc, credentials: Path
) -> None:
    assert "mcc login" in mcc("me").stderr
    with signed_in(served, person(served)) as ann:
        code, out, err = logged_in(ann, environment, "--name", "laptop")
        assert (code, out) == (0, "") and f"Logged in at {served.url} until" in err and str(credentials) in err
        assert stat.S_IMODE(credentials.stat().st_mode) == 0o600
        ((origin, kept),) = json.loads(credentials.read_text()).items()
        assert (origin, set(kept)) == (served.url, {"token", "id", "expires_at"})
        me = mcc("me").stdout
        assert "Ann Lee" in me and "'laptop'" in me
        assert mcc("orders", "list").returncode == 0
        # Whoever logs in again has one token, and not two.
        assert logged_in(ann, environment)[0] == 0
        tokens = ann.get(f"{V1}/tokens").json()["items"]
        assert [token["revoked_at"] is None for token in tokens] == [True, False]
    out = mcc("logout")
    assert (out.returncode, out.stderr) == (0, f"Logged out at {served.url}.\n")
    assert json.loads(credentials.read_text()) == {}
    assert "There is no token" in mcc("me").stderr
    assert f"Nobody is logged in at {served.url}" in mcc("logout").stderr


def test_as_json_it_says_all_but_the_token(served: Served, environment: dict[str, str], mcc: Mcc) -> None:
    with signed_in(served) as browser:
        code, out, _ = logged_in(browser, environment, "--json")
    said = json.loads(out)
    assert code == 0 and (said["principal"], said["scope"]) == ("operator", "metrics operate read write")
    assert "mccp_" not in out
    assert json.loads(mcc("logout", "--json").stdout) == {"url": served.url, "forgotten": True, "revoked": True}


def test_who_is_refused_is_told_and_nothing_is_kept(
    served: Served, environment: dict[str, str], credentials: Path
) -> None:
    with signed_in(served) as browser:
        code, _, err = logged_in(browser, environment, decision="deny")
    assert code == 1 and "was refused" in err and not credentials.exists()


def test_who_does_not_wait_for_a_decision_gets_no_token(
    environment: dict[str, str], mcc: Mcc, credentials: Path
) -> None:
    process = popen.Popen([*MCC, "login"], env=environment, stdout=-1, stderr=-1, text=True)
    assert process.stderr is not None and CODE.fullmatch(process.stderr.readline())
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "mcc: Stopped before anybody had decided.\n")
    assert (process.returncode, credentials.exists()) == (130, False)
    assert "1 to 200 characters" in mcc("login", "--name", "x" * 201).stderr


def test_a_token_that_was_revoked_is_told_with_what_to_do(
    served: Served, environment: dict[str, str], mcc: Mcc, credentials: Path
) -> None:
    with signed_in(served) as browser:
        logged_in(browser, environment)
        (token,) = browser.get(f"{V1}/tokens").json()["items"]
        browser.delete(f"{V1}/tokens/{token['id']}").raise_for_status()
    told = mcc("orders", "list")
    assert told.returncode == 1
    assert told.stderr == (
        f"mcc: This token was revoked. mcc login kept it in {credentials}: mcc login --url {served.url}\n"
    )
    # What is set for one command comes first.
    assert mcc("orders", "list", MCC_TOKEN=TOKEN).returncode == 0


def test_a_token_of_a_service_that_is_gone_is_forgotten_and_that_is_told(
    mcc: Mcc, environment: dict[str, str], credentials: Path
) -> None:
    credentials.parent.mkdir(parents=True, mode=0o700)
    kept = {"http://127.0.0.1:1": {"token": "mccp_x", "id": "x", "expires_at": "2030-01-01T00:00:00+00:00"}}
    credentials.write_text(json.dumps(kept))
    credentials.chmod(0o600)
    told = mcc("logout", "--url", "http://127.0.0.1:1/")
    assert told.returncode == 0 and "was not revoked" in told.stderr
    assert json.loads(credentials.read_text()) == {}


@pytest.mark.parametrize(("content", "mode", "told"), [("{", 0o600, "remove it"), ("{}", 0o644, "chmod 600")])
def test_a_file_that_cannot_be_trusted_is_told(mcc: Mcc, credentials: Path, content: str, mode: int, told: str) -> None:
    credentials.parent.mkdir(parents=True, mode=0o700)
    credentials.write_text(content)
    credentials.chmod(mode)
    for command in ("me", "login", "logout"):
        done = mcc(command)
        assert done.returncode == 1 and told in done.stderr and str(credentials) in done.stderr
