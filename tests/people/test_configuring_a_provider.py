"""What the operator says of a provider of identities: what may be said, what is missing, and what the doctor finds."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcc.configuration.oidc import OidcSettings
from mcc.contracts.callers import Role
from mcc.doctor.installation import Installation
from mcc.doctor.people import check_signin
from mcc.findings.finding import Finding
from mcc.settings import BadSettings, ServiceSettings, client_secret, load, watched_secrets
from scripts.reference.settings import OF_OIDC
from tests.people.forger import Forger

TABLE = """
[oidc]
issuer = "https://id.example"
client_id = "mcc"
client_secret_env = "COMPANY_KEY"
roles = {"dev" = "member"}
"""


def configured(tmp_path: Path, table: str = TABLE) -> ServiceSettings:
    file = tmp_path / "mcc.toml"
    file.write_text(table)
    return load({"MCC_CONFIG": str(file), "MCC_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)})


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    oidc = configured(tmp_path).oidc
    assert oidc is not None and oidc.scopes == ("openid", "profile", "email", "groups")
    assert (oidc.groups_claim, oidc.session_hours, oidc.name) == ("groups", 12, "OpenID Connect")
    assert ServiceSettings(data_dir=tmp_path).oidc is None


def test_the_reference_has_each_key() -> None:
    assert {name.strip("`") for name, *_ in OF_OIDC} == set(OidcSettings.model_fields)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("issuer", "http://id.example", "begins with https"),
        ("issuer", "id.example", "http"),
        ("issuer", "https://id.example?x", "neither"),
        ("issuer", "https://id.example#x", "neither"),
        ("issuer", "https://a:b@id.example", "no password"),
        ("roles", {}, "at least 1"),
        ("roles", {"dev": "root"}, "'viewer', 'member', 'operator' or 'admin'"),
        ("client_id", "", "at least 1"),
        ("client_secret_env", "s3cret-value", "match"),
        ("scopes", ["a b"], "match"),
        ("session_hours", 0, "greater than 0"),
        ("client_secret", "x", "client_secret"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(tmp_path: Path, key: str, value: object, sentence: str) -> None:
    said: dict[str, Any] = {"issuer": "https://id.example", "client_id": "mcc", "roles": {"dev": "member"}}
    lines = [f"{name} = {_toml(each)}" for name, each in {**said, key: value}.items()]
    with pytest.raises(BadSettings) as refused:
        configured(tmp_path, "\n".join(["[oidc]", *lines]))
    assert sentence in str(refused.value) and "oidc" in str(refused.value)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = "{each}"' for key, each in value.items()) + "}"
    return str(value).replace("'", '"') if isinstance(value, list | int) else f'"{value}"'


def test_by_http_only_a_provider_on_this_machine_is_asked() -> None:
    for issuer in ("http://127.0.0.1:9", "http://localhost:9/realm", "http://[::1]:9"):
        assert OidcSettings(issuer=issuer, client_id="x", roles={"*": Role.VIEWER}).issuer == issuer


def test_a_checkout_names_no_provider(tmp_path: Path) -> None:
    from mcc.configuration.file import laid_over

    tables, left = laid_over({}, {"oidc": {"issuer": "https://evil.example"}})
    assert "oidc" not in tables and left == ("[oidc] issuer",)


def test_the_secret_is_in_the_environment_and_is_redacted(tmp_path: Path) -> None:
    settings = configured(tmp_path)
    assert client_secret(settings, {"COMPANY_KEY": "value of it 12345"}) == "value of it 12345"
    assert "12345" not in watched_secrets(settings, {"COMPANY_KEY": "value of it 12345"})().text("value of it 12345")
    with pytest.raises(BadSettings, match=r"line 5: .*COMPANY_KEY, which is not set"):
        client_secret(settings, {})
    public = configured(tmp_path, TABLE.replace('client_secret_env = "COMPANY_KEY"\n', ""))
    assert client_secret(public, {}) is None


MISSING = """
import sys
sys.modules["joserfc"] = None
from mcc.api.serve import serve
from mcc.doctor.installation import Installation
from mcc.doctor.people import check_signin
from mcc.settings import load
settings = load()
print(*check_signin(Installation(settings, {}, "", 1)))
sys.exit(serve(settings))
"""


def test_without_its_packages_the_service_does_not_start_and_the_doctor_says_why(tmp_path: Path) -> None:
    configured(tmp_path)
    variables = {"MCC_CONFIG": str(tmp_path / "mcc.toml"), "MCC_DATA_DIR": str(tmp_path), "COMPANY_KEY": "x"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
    done = subprocess.run([sys.executable, "-c", MISSING], env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "line 2: [oidc] needs authlib and joserfc" in done.stderr
    assert "broken" in done.stdout and "pip install 'mcc[oidc]'" in done.stdout


async def found(settings: ServiceSettings, **environment: str) -> list[Finding]:
    installation = Installation(settings, environment, "", 5)
    return await asyncio.to_thread(lambda: list(check_signin(installation)))


async def test_the_doctor_asks_the_provider(forger: Forger, settings: ServiceSettings) -> None:
    (well,) = await found(settings)
    assert (well.what, well.state) == ("sign-in", "ok") and "3 keys" in well.detail
    forger.facts["issuer"] = "https://other.example"
    (wrong,) = await found(settings)
    assert wrong.state == "broken" and "https://other.example" in wrong.detail and wrong.advice


async def test_the_doctor_misses_the_secret_and_the_address_of_browsers(
    forger: Forger, settings: ServiceSettings
) -> None:
    assert settings.oidc is not None
    oidc = settings.oidc.model_copy(update={"client_secret_env": "COMPANY_KEY"})
    beyond = settings.model_copy(update={"oidc": oidc, "host": "0.0.0.0"})
    secret, address, well = await found(beyond)
    assert (secret.state, address.state, well.state) == ("warning", "warning", "ok")
    assert "COMPANY_KEY" in secret.detail and "public_url" in address.detail
    assert [each.state for each in await found(beyond, COMPANY_KEY="x")] == ["warning", "ok"]


async def test_where_people_sign_in_by_links_nobody_is_asked(tmp_path: Path) -> None:
    assert [each.state for each in await found(ServiceSettings(data_dir=tmp_path))] == ["ok"]
