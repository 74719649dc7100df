"""What Kubernetes says of a Service called mcc is no setting of ours; what only looks like it is one."""

from pathlib import Path

import pytest

from mcc.configuration.service_links import without_service_links
from mcc.settings import BadSettings, load

SERVICE = {
    "MCC_SERVICE_HOST": "10.96.1.2",
    "MCC_SERVICE_PORT": "8420",
    "MCC_SERVICE_PORT_HTTP": "8420",
    "MCC_PORT": "tcp://10.96.1.2:8420",
    "MCC_PORT_8420_TCP": "tcp://10.96.1.2:8420",
    "MCC_PORT_8420_TCP_PROTO": "tcp",
    "MCC_PORT_8420_TCP_PORT": "8420",
    "MCC_PORT_8420_TCP_ADDR": "10.96.1.2",
}


def of_service(name: str, protocol: str = "tcp") -> dict[str, str]:
    """The variables of a Service of this name."""
    stem = name.upper().replace("-", "_")
    return {
        key.replace("MCC", stem, 1).replace("TCP", protocol.upper()): value.replace("tcp", protocol)
        for key, value in SERVICE.items()
    }


@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
@pytest.mark.parametrize(
    "name", ["mcc", "mcc-flower", "mcc-redis", "mcc-database", "mcc-host", "mcc-token", "mcc-queues", "mcc-data"]
)
def test_a_service_of_any_name_changes_nothing(tmp_path: Path, name: str, protocol: str) -> None:
    bare = {"MCC_DATA_DIR": str(tmp_path)}
    assert load(bare | of_service(name, protocol)).model_dump() == load(bare).model_dump()
    assert without_service_links(bare | of_service(name, protocol), "MCC_") == bare


@pytest.mark.parametrize(("name", "variable"), [("mcc", "MCC_PORT"), ("mcc-flower", "MCC_FLOWER_PORT")])
def test_one_that_has_the_name_of_a_setting_is_told(tmp_path: Path, name: str, variable: str) -> None:
    said = load({"MCC_DATA_DIR": str(tmp_path), **of_service(name)}).passed_over
    assert said.startswith(f"Passed over: {variable} describes a Service of Kubernetes")
    assert "enableServiceLinks: false" in said
    assert load({"MCC_DATA_DIR": str(tmp_path), **of_service("mcc-other")}).passed_over == ""


def test_a_port_that_is_set_counts_beside_a_service(tmp_path: Path) -> None:
    settings = load({"MCC_DATA_DIR": str(tmp_path), **SERVICE, "MCC_PORT": "9000", "MCC_FLOWER_PORT": "9001"})
    assert (settings.port, settings.flower_port, settings.passed_over) == (9000, 9001, "")


def test_without_a_service_the_value_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"^MCC_PORT: "):
        load({"MCC_DATA_DIR": str(tmp_path), "MCC_PORT": "tcp://10.96.1.2:8420"})
    with pytest.raises(BadSettings, match=r"^MCC_PORT: "):
        load({"MCC_DATA_DIR": str(tmp_path), **SERVICE, "MCC_PORT": "http"})
    with pytest.raises(BadSettings, match="did you mean MCC_FLOWER_PORT"):
        load({"MCC_DATA_DIR": str(tmp_path), **SERVICE, "MCC_FLOWR_PORT": "1"})
