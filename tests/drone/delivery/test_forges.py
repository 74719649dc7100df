"""The clients of GitHub, GitLab and Gitea against forges on loopback that refuse what those refuse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from drone.delivery.forges import AlreadyOpen, ForgeClient, NewMergeRequest, client_of
from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.forges import Forge
from mcc.forges.wire import CheckedRoutes, ForgeBusy, ForgeRefused
from tests.drone.delivery.forge import TOKEN, Failing, FakeForge
from tests.drone.tools.git_scene import Scene

BRANCH = "mcc/work"


async def nowhere(host: str) -> tuple[str, ...]:
    return ()


@asynccontextmanager
async def client(forge: FakeForge, token: str = TOKEN, *, private: bool = True) -> AsyncIterator[ForgeClient]:
    table = Forge.model_validate(
        {"kind": forge.kind, "address": "https://forge.example.org", "api": forge.api, "token_env": "FORGE_TOKEN"}
    )
    allowed = (Endpoint("127.0.0.1", forge.port),) if private else ()
    routes = CheckedRoutes(AddressRule(nowhere, allow_private=allowed))
    try:
        yield client_of(table, "team/shop", token, routes)
    finally:
        await routes.aclose()


def ahead(served: Scene, branch: str = BRANCH) -> None:
    tree = served.git("rev-parse", "main^{tree}")
    served.git("update-ref", f"refs/heads/{branch}", served.git("commit-tree", tree, "-p", "main", "-m", "work"))


NEW = NewMergeRequest(BRANCH, "main", "Mend it", "said")


async def test_a_request_is_opened_found_and_changed(forge: FakeForge, served: Scene) -> None:
    ahead(served)
    async with client(forge) as project:
        assert await project.requests(BRANCH) == []
        opened = await project.open(NEW)
        assert (opened.state, opened.base, opened.body) == ("open", "main", "said")
        assert opened.commit == served.git("rev-parse", BRANCH) and str(opened.number) in opened.url
        assert await project.requests(BRANCH) == [opened]
        assert (await project.change(opened.number, "more")).body == "more"
        assert forge.requests[opened.number]["body"] == "more"


async def test_a_request_of_a_fork_is_nobody_of_ours_and_one_that_ended_says_how(
    forge: FakeForge, served: Scene
) -> None:
    ahead(served)
    forge.add(BRANCH, fork="team/shop-of-somebody")
    merged, closed = forge.add(BRANCH, state="merged"), forge.add(BRANCH, state="closed")
    async with client(forge) as project:
        assert [(one.number, one.state) for one in await project.requests(BRANCH)] == [
            (closed, "closed"),
            (merged, "merged"),
        ]


async def test_a_second_request_for_a_branch_is_told_as_one_that_is_there(forge: FakeForge, served: Scene) -> None:
    ahead(served)
    async with client(forge) as project:
        await project.open(NEW)
        with pytest.raises(AlreadyOpen):
            await project.open(NEW)


async def test_what_a_forge_refuses_is_told_in_its_words(forge: FakeForge, served: Scene) -> None:
    async with client(forge) as project:
        with pytest.raises(ForgeRefused) as refused:
            await project.open(NEW)
        assert refused.value.status in (400, 404, 422) and TOKEN not in str(refused.value)
        forge.failing.append(Failing(422, body={"message": "Validation Failed", "errors": [{"message": "No\x07 way"}]}))
        with pytest.raises(ForgeRefused, match="Validation Failed: No") as told:
            await project.open(NEW)
        assert "\x07" not in str(told.value)
    async with client(forge, "another-token") as project:
        with pytest.raises(ForgeRefused) as wrong:
            await project.requests(BRANCH)
        assert wrong.value.status == 401 and "another-token" not in str(wrong.value)
        assert "token is wrong, or has ended" in str(wrong.value)


@pytest.mark.parametrize("number", [10**30, 0, -1, True, "7", None])
async def test_a_number_that_no_request_has_is_not_understood(forge: FakeForge, number: object) -> None:
    answered = {"number": number, "iid": number, "html_url": "https://x", "head": {}, "base": {}}
    forge.failing.append(Failing(201, body=answered))
    async with client(forge) as project:
        with pytest.raises(ForgeRefused, match=r"has no (number|iid)"):
            await project.open(NEW)


@pytest.mark.parametrize("address", ["javascript:alert(1)", f"https://x/{'y' * 3_000}", "//x", 7])
async def test_an_address_that_nobody_should_follow_is_none(forge: FakeForge, address: object) -> None:
    answered = {"number": 7, "iid": 7, "html_url": address, "web_url": address, "head": {}, "base": {}}
    forge.failing.append(Failing(201, body=answered))
    async with client(forge) as project:
        assert (await project.open(NEW)).url == ""


@pytest.mark.parametrize("token", ["a-secret\n", "a-secret\r\nx: y", "a-secret\0", "a-secret-ö"])
async def test_a_token_that_no_header_can_hold_is_told_without_it(github: FakeForge, token: str) -> None:
    async with client(github, token) as project:
        with pytest.raises(ForgeRefused, match="give it as it is") as refused:
            await project.requests(BRANCH)
    assert "a-secret" not in str(refused.value) and github.asked == []


@pytest.mark.parametrize(
    ("failing", "seconds"),
    [
        (Failing(429, {"Retry-After": "7"}), 7.0),
        (Failing(500), None),
        (Failing(503), None),
        (Failing(0), None),
        (Failing(403, {"Retry-After": "60"}), 60.0),
        (Failing(403, {"X-RateLimit-Remaining": "0"}), None),
        (Failing(403, body={"message": "You have exceeded a secondary rate limit."}), None),
    ],
)
async def test_a_forge_that_is_busy_is_no_refusal(github: FakeForge, failing: Failing, seconds: float | None) -> None:
    async with client(github) as project:
        github.failing.append(failing)
        with pytest.raises(ForgeBusy) as busy:
            await project.requests(BRANCH)
        assert busy.value.seconds == seconds


async def test_a_plain_403_is_a_refusal_and_a_redirect_is_not_followed(github: FakeForge) -> None:
    async with client(github) as project:
        github.failing += [Failing(403), Failing(301, {"Location": "http://127.0.0.1:9/elsewhere"})]
        with pytest.raises(ForgeRefused, match="403"):
            await project.requests(BRANCH)
        with pytest.raises(ForgeRefused, match="moved"):
            await project.requests(BRANCH)
        assert len(github.asked) == 2


async def test_a_private_address_is_asked_only_where_a_table_names_it(github: FakeForge) -> None:
    async with client(github, private=False) as project:
        with pytest.raises(ForgeRefused):
            await project.requests(BRANCH)
    assert github.asked == []
