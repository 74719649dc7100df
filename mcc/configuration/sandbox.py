"""The table [sandbox]: what programs that tools start may use and reach."""

from pydantic import Field, model_validator

from mcc.addresses import HostList
from mcc.configuration.egress import SECRET_PORTS, Egress, SwappedSecrets
from mcc.contracts.shape import Closed


class Sandbox(Closed):
    """`egress`: the hosts that can be reached. `secrets`: by the variable that programs see a stand-in in."""

    egress: Egress = Egress()
    secrets: SwappedSecrets = Field(default={})

    @model_validator(mode="after")
    def _secrets_go_where_programs_may(self) -> "Sandbox":
        allowed = HostList(self.egress.allow)
        for name, secret in self.secrets.items():
            for host in secret.hosts:
                if not _is_reached(host, allowed):
                    raise ValueError(f"secrets.{name}: {host} is not in [sandbox.egress] allow; add it there as well")
        return self


def _is_reached(host: str, allowed: HostList) -> bool:
    """What is below a name is reached where the list says the same; a name also where it is below what is listed."""
    return host in allowed.names or any(map(allowed.covers, HostList([host], SECRET_PORTS).endpoints))
