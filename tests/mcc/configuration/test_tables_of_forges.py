"""The tables [forges.NAME]: which repositories are at a forge, where its API is, and what is no forge."""

import pytest
from pydantic import ValidationError

from mcc.configuration.forges import Forge, forge_of
from mcc.configuration.workspaces import git_address

TOKEN = {"token_env": "HUB_TOKEN"}


def forge(**given: object) -> Forge:
    return Forge.model_validate({**TOKEN, **given})


@pytest.mark.parametrize(
    ("table", "api"),
    [
        (forge(kind="github"), "https://api.github.com"),
        (forge(kind="github", address="https://git.example.org"), "https://git.example.org/api/v3"),
        (forge(kind="gitlab"), "https://gitlab.com/api/v4"),
        (forge(kind="gitea", address="https://git.example.org/tea/"), "https://git.example.org/tea/api/v1"),
        (forge(kind="gitlab", api="http://127.0.0.1:8000/api/v4"), "http://127.0.0.1:8000/api/v4"),
    ],
)
def test_the_api_is_where_the_kind_has_it_unless_the_table_says_where(table: Forge, api: str) -> None:
    assert table.api_address == api


@pytest.mark.parametrize(
    ("table", "address", "project"),
    [
        (forge(kind="github"), "https://github.com/team/shop.git", "team/shop"),
        (forge(kind="github"), "https://github.com/team/shop/more", None),
        (forge(kind="github"), "https://github.com:8443/team/shop", None),
        (forge(kind="gitlab"), "https://gitlab.com/group/below/shop", "group/below/shop"),
        (forge(kind="gitlab"), "https://gitlab.com/shop", None),
        (forge(kind="gitea", address="https://git.example.org/tea"), "https://git.example.org/tea/a/b", "a/b"),
        (forge(kind="gitea", address="https://git.example.org/tea"), "https://git.example.org/a/b", None),
    ],
)
def test_a_repository_is_a_project_of_the_forge_that_has_its_address(
    table: Forge, address: str, project: str | None
) -> None:
    told = forge_of({"hub": table}, git_address(address))
    assert told == (None if project is None else ("hub", table, project))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"kind": "gitea"}, "has an address"),
        ({"kind": "github", "address": "http://github.com"}, "https"),
        ({"kind": "github", "api": "http://10.0.0.1/api"}, "https"),
        ({"kind": "github", "api": "https://user:secret@api.github.com"}, "user"),
        ({"kind": "github", "prefix": "-mcc"}, "pattern"),
        ({"kind": "github", "token_env": "a value of a token"}, "pattern"),
        ({"kind": "svn"}, "kind"),
    ],
)
def test_what_is_no_forge_is_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        forge(**wrong)


def test_branches_are_pushed_to_that_begin_with_the_prefix_and_are_not_protected() -> None:
    table = forge(kind="github", prefix="m", protected=["main", "release/*", "mcc/kept-*"])
    branches = ("main", "release/1", "mcc/main", "maintenance", "mcc/kept-1", "other")
    assert [name for name in branches if table.why_not_pushed(name, "hub") is None] == ["mcc/main", "maintenance"]
    assert "protected by [forges.hub]" in str(table.why_not_pushed("mcc/kept-1", "hub"))
    assert "begin with m (prefix of [forges.hub])" in str(table.why_not_pushed("other", "hub"))
