"""The tables of hosts on loopback to which replies go, with their tokens."""

from mcc.configuration.forges import Forge
from mcc.webhooks.replying import ReplyTables
from tests.drone.delivery.forge import TOKEN, FakeForge

THREAD = "issues/7"


def tables_of(forge: FakeForge, token: str = TOKEN) -> ReplyTables:
    table = Forge.model_validate(
        {"kind": forge.kind, "address": "https://forge.example.org", "api": forge.api, "token_env": "HUB_TOKEN"}
    )
    return ReplyTables(
        forges={"hub": table},
        variables={"forges.hub": "HUB_TOKEN"},
        tokens={"forges.hub": token},
        public_url="https://mcc.test",
    )
