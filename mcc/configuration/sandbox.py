"""The table [sandbox]: what programs that tools start may use and reach."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mcc.addresses import HostList
from mcc.configuration.egress import SECRET_PORTS, Egress, SwappedSecrets
from mcc.contracts.shape import Closed

Megabytes = Annotated[int, Field(ge=16, le=16_777_216)]


class Sandbox(Closed):
    """`kind`: bubblewrap makes one for each call, or the operator says that this drone's own container is it.

    `memory_mb`, `processes`, `cpus`, `tmp_mb` are for one call with all that it starts, `file_mb` for each file that it
    writes. `jobs`: how many go on in the background for one order. `egress`: the hosts that can be reached. `secrets`:
    by the variable that programs see a stand-in in.
    """

    kind: Literal["bubblewrap", "container"] = "bubblewrap"
    memory_mb: Megabytes = 2048
    processes: Annotated[int, Field(ge=8, le=1_000_000)] = 256
    cpus: Annotated[float, Field(ge=0.05, le=4096, allow_inf_nan=False)] = 2.0
    tmp_mb: Megabytes = 512
    file_mb: Megabytes = 1024
    jobs: Annotated[int, Field(ge=0, le=100)] = 4
    egress: Egress = Egress()
    secrets: SwappedSecrets = Field(default={})

    @model_validator(mode="after")
    def _a_container_has_its_own_network(self) -> "Sandbox":
        if self.kind == "container" and self.egress.allow:
            raise ValueError(
                'kind = "container" and egress: programs have the network of the drone\'s container, so allow hosts '
                "there and leave [sandbox.egress] out"
            )
        return self

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
