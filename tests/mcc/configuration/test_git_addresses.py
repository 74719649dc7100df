"""Git addresses: which ones orders may name, their canonical spelling, and forbidden ones (hostile inputs, row 29)."""

import pytest
from pydantic import ValidationError

from mcc.addresses import AddressRefused
from mcc.configuration.workspaces import GitRemote, WorkspaceSettings, git_address


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c id",
        "file:///etc",
        "ssh://-oProxyCommand=id/x",
        "git@github.com:a/b",
        "git://example.org/a",
        "http://example.org/a",
        "HTTPS://example.org/a",
        "https://user:secret@example.org/a",
        "https://example.org/$TOKEN",
        "https://example.org/a?token=x",
        "https://example.org/a#x",
        "https://example.org/a%2f..%2fb",
        "https://example.org/../a",
        "https://example.org/a/./b",
        "https://example.org/-oProxyCommand",
        "https://example.org/",
        "https://example.org",
        "https://0x7f000001/a",
        "https://example.org/a b",
        "https://example.org/a\n",
        "https://exämple.org/a",
        "https://example.org/team/*",
    ],
)
def test_row_29_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        git_address(address)


@pytest.mark.parametrize(
    ("pattern", "address", "fits"),
    [
        ("https://git.example.org/team/*", "https://git.example.org/team/shop", True),
        ("https://git.example.org/team/*", "https://git.example.org/team/shop.git", True),
        ("https://git.example.org/team/*", "https://GIT.example.org:443/team/shop/", True),
        ("https://git.example.org/team/*", "https://git.example.org/team/a/b", False),
        ("https://git.example.org/team/*", "https://git.example.org/team", False),
        ("https://git.example.org/team/*", "https://git.example.org/other/shop", False),
        ("https://git.example.org/team/*", "https://git.example.org:8443/team/shop", False),
        ("https://git.example.org/team/*", "https://git.example.org.evil.org/team/shop", False),
        ("https://git.example.org/*/shop", "https://git.example.org/any/shop", True),
        ("https://git.example.org/team/shop.git", "https://git.example.org/team/shop", True),
    ],
)
def test_a_star_is_one_part_of_a_path(pattern: str, address: str, fits: bool) -> None:
    allowed = WorkspaceSettings(git=(GitRemote(address=pattern),))
    assert (allowed.remote(git_address(address)) is not None) is fits


@pytest.mark.parametrize("address", ["https://*.example.org/a", "ssh://example.org/a", "https://u:p@example.org/*"])
def test_the_operator_names_whole_hosts_over_https(address: str) -> None:
    with pytest.raises(ValidationError):
        GitRemote(address=address)
