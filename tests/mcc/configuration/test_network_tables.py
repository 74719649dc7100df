"""Valid and invalid tables [sandbox.egress], [sandbox.secrets.NAME] and [web]."""

from typing import Any

import pytest
from pydantic import ValidationError

from mcc.configuration.network import Sandbox, Web, WebSearch


def sandbox(allow: list[str], *hosts: str) -> Sandbox:
    table = {"egress": {"allow": allow}, "secrets": {"GITHUB_TOKEN": {"env": "SHOP_GITHUB_TOKEN", "hosts": hosts}}}
    return Sandbox.model_validate(table)


@pytest.mark.parametrize("allow", [[], ["api.example.com:443"], ["api.github.com:443"]])
def test_a_secret_names_hosts_whether_they_may_be_reached_or_not(allow: list[str]) -> None:
    assert sandbox(allow, "api.github.com:443").secrets["GITHUB_TOKEN"].hosts == ("api.github.com:443",)


@pytest.mark.parametrize("host", ["*", "*:443"])
def test_a_secret_is_not_for_everybody(host: str) -> None:
    with pytest.raises(ValidationError, match="name its hosts"):
        sandbox(["*"], host)


@pytest.mark.parametrize("entry", ["https://a.de", "a.de/x", "user@a.de", "a b", "", "2130706433:80"])
def test_hosts_are_no_urls(entry: str) -> None:
    with pytest.raises(ValidationError, match="Write name:port"):
        Web.model_validate({"hosts": [entry]})


def test_what_is_private_is_allowed_with_its_port() -> None:
    with pytest.raises(ValidationError, match="Write name:port or address:port"):
        Web.model_validate({"allow_private": ["in.house"]})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"backend": "searxng"}, "its own address"),
        ({"backend": "brave"}, "wants a key"),
        ({"backend": "tavily", "key_env": "K", "url": "ftp://x"}, "Only http"),
        ({"backend": "bing"}, "searxng"),
    ],
)
def test_a_search_that_cannot_be_asked_is_a_mistake(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        WebSearch.model_validate(table)
