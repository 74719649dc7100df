"""What is told of a plan's secrets before anybody asks for one."""

import pytest

from drone.egress.plan import ConfiguredSecret, EgressPlan

PLAIN = "a-long-enough-secret"


def problems(allow: list[str], host: str) -> str:
    return "; ".join(EgressPlan(allow=allow, secrets=[ConfiguredSecret("GITHUB_TOKEN", PLAIN, [host])]).problems)


@pytest.mark.parametrize(
    ("allow", "host"),
    [
        (["api.github.com:443"], "api.github.com:443"),
        (["api.github.com"], "api.github.com"),
        (["*.github.com:443"], "api.github.com"),
        (["*.github.com:443"], "*.github.com:443"),
        (["*"], "api.github.com"),
    ],
)
def test_of_a_secret_for_hosts_that_may_be_reached_nothing_is_told(allow: list[str], host: str) -> None:
    assert "[sandbox.egress]" not in problems(allow, host)


@pytest.mark.parametrize(
    ("allow", "host"),
    [([], "api.github.com"), (["api.github.com:80"], "api.github.com"), (["api.github.com"], "*.github.com")],
)
def test_a_host_of_a_secret_that_may_not_be_reached_is_told(allow: list[str], host: str) -> None:
    assert f"GITHUB_TOKEN: {host} is not in [sandbox.egress] allow" in problems(allow, host)
