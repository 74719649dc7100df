"""Which addresses a connection may go to, whatever a name resolves to and however that changes."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

import pytest

from mcc.addresses import AddressRefused, AddressRule, Endpoint, Resolve, endpoint_of
from mcc.addresses.rule import is_of_this_machine

PUBLIC, OTHER = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"


def names(table: Mapping[str, Sequence[str]]) -> Resolve:
    async def resolve(host: str) -> Sequence[str]:
        return table.get(host, ())

    return resolve


async def reached(rule: AddressRule, text: str) -> list[str]:
    return [str(one) for one in await rule.resolve(endpoint_of(text))]


async def test_every_address_of_a_public_name_is_where_a_connection_may_go() -> None:
    rule = AddressRule(names({"a.de": [PUBLIC, OTHER]}))
    assert await reached(rule, "a.de:443") == [f"{PUBLIC}:443", f"[{OTHER}]:443"]


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1, which is not a public address"):
        await reached(AddressRule(names({"a.de": [PUBLIC, "10.0.0.1"]})), "a.de:443")


async def test_a_name_is_asked_for_anew_for_each_connection() -> None:
    answers = [[PUBLIC], ["127.0.0.1"]]

    async def rebinding(host: str) -> Sequence[str]:
        return answers.pop(0)

    rule = AddressRule(rebinding)
    assert await reached(rule, "a.de:443") == [f"{PUBLIC}:443"]
    with pytest.raises(AddressRefused):
        await reached(rule, "a.de:443")


async def test_what_the_operator_allows_by_name_and_port_may_be_private() -> None:
    rule = AddressRule(names({"in.house": ["10.0.0.1"]}), allow_private=[Endpoint("in.house", 8080)])
    assert await reached(rule, "in.house:8080") == ["10.0.0.1:8080"]
    with pytest.raises(AddressRefused):
        await reached(rule, "in.house:443")


@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "::ffff:169.254.169.254", "fe80::1"])
async def test_what_answers_about_the_machine_is_reached_by_nobody(address: str) -> None:
    rule = AddressRule(names({"meta": [address]}), allow_private=[Endpoint("meta", 80)])
    with pytest.raises(AddressRefused, match="never reached"):
        await reached(rule, "meta:80")


OWN = [Endpoint("db.example", 5432), Endpoint("127.0.0.1", 6379)]


@pytest.mark.parametrize(
    "written", ["db.example:5432", "db.example:443", "alias.example:5432", "in.house:6379", "127.0.0.1:6379"]
)
async def test_a_service_of_our_own_is_reached_by_no_name(written: str) -> None:
    table = {"db.example": [PUBLIC], "alias.example": [PUBLIC], "in.house": ["127.0.0.1"]}
    private = [Endpoint("in.house", 6379), Endpoint("127.0.0.1", 6379)]
    with pytest.raises(AddressRefused, match="service of this installation"):
        await reached(AddressRule(names(table), own=OWN, allow_private=private), written)


async def test_another_service_at_the_address_of_one_of_ours_is_reached_by_its_own_name() -> None:
    table = {"db.example": [PUBLIC], "alias.example": [PUBLIC], "in.house": ["127.0.0.1"]}
    rule = AddressRule(names(table), own=OWN, allow_private=[Endpoint("in.house", 8000)])
    assert await reached(rule, "alias.example:443") == [f"{PUBLIC}:443"]
    assert await reached(rule, "in.house:8000") == ["127.0.0.1:8000"]


async def test_a_name_without_address_is_told() -> None:
    with pytest.raises(AddressRefused, match=r"nowhere\.example has no address"):
        await reached(AddressRule(names({})), "nowhere.example:443")


async def test_this_machine_is_not_reached_by_a_public_address_of_its_own() -> None:
    rule = AddressRule(names({"a.de": [PUBLIC]}), is_here=lambda address: str(address) == PUBLIC)
    for written in ("a.de:443", f"{PUBLIC}:443"):
        with pytest.raises(AddressRefused, match="which is this machine"):
            await reached(rule, written)


def test_an_address_of_an_interface_here_is_this_machines() -> None:
    assert is_of_this_machine(ip_address("127.0.0.1"))
    assert not is_of_this_machine(ip_address(PUBLIC))
