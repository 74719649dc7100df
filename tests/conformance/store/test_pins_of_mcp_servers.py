"""MCP servers: approved tool definitions, tokens that one drone refreshes for all, test calls that are made once."""

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.tool_tests import ToolTest
from mcc.store.database.errors import UnknownServerTool
from tests.conformance.store.scene import Scene


def test_all_of_a_server_that_was_never_seen_count(scene: Scene) -> None:
    pins = scene.store.mcp_servers
    assert pins.approved("t") == {}
    first = {"list": "sha256:1", "na\0me": "sha256:2"}
    assert pins.seen("t", first) == first == pins.approved("t")
    assert pins.seen("other", {"list": "sha256:9"}) == {"list": "sha256:9"}


def test_changed_and_added_tools_count_once_they_are_approved(scene: Scene) -> None:
    pins = scene.store.mcp_servers
    pins.seen("t", {"list": "a", "close": "b"})
    later = {"list": "a", "close": "B", "new": "c"}
    assert pins.seen("t", later) == {"list": "a", "close": "b"}
    assert pins.approve("t", "close", by=Actor("me")) == ["close"]
    assert pins.approved("t") == {"list": "a", "close": "B"}
    assert pins.approve("t", None, by=Actor("me")) == ["new"] and pins.approve("t", None, by=Actor("me")) == []
    assert pins.approved("t") == later
    notes = scene.store.audit.list(limit=5)
    assert [note.detail["tools"] for note in notes] == [{"new": "c"}, {"close": "B"}]


def test_an_approval_is_for_the_definition_seen_last(scene: Scene) -> None:
    pins = scene.store.mcp_servers
    pins.seen("t", {"list": "a"})
    pins.seen("t", {"list": "b"})
    assert pins.seen("t", {"list": "a"}) == {"list": "a"}, "it is again what counts"
    pins.seen("t", {"list": "c"})
    pins.approve("t", "list", by=Actor("me"))
    assert pins.approved("t") == {"list": "c"}


@pytest.mark.parametrize(
    ("server", "tool", "said"), [("no", None, "no drone has seen"), ("t", "no", "has no tool 'no'")]
)
def test_a_tool_that_no_drone_has_seen_cannot_be_approved(
    scene: Scene, server: str, tool: str | None, said: str
) -> None:
    scene.store.mcp_servers.seen("t", {"list": "a"})
    with pytest.raises(UnknownServerTool, match=said):
        scene.store.mcp_servers.approve(server, tool, by=Actor("me"))


def test_a_trial_is_made_once(scene: Scene) -> None:
    trials = scene.store.mcp_servers
    test = ToolTest(server="t", tool="list", arguments={"a": ["\0", 1]})
    trial = trials.ask(test)
    assert trials.take(trial) == test and trials.take(trial) is None
    assert trials.take("no id") is None


def test_one_drone_refreshes_a_token_for_all(scene: Scene) -> None:
    tokens = scene.store.mcp_servers
    assert tokens.token("t") is None and not tokens.hold_token("t", 1, "a", 30)
    tokens.put_token("t", {"access": "old"})
    kept = tokens.token("t")
    assert kept is not None and kept.token == {"access": "old"}
    assert tokens.hold_token("t", kept.version, "a", 30) and not tokens.hold_token("t", kept.version, "b", 30)
    tokens.put_token("t", {"access": "new"})
    assert not tokens.hold_token("t", kept.version, "b", 30), "another version is there"
    newer = tokens.token("t")
    assert newer is not None and newer.version == kept.version + 1
    assert tokens.hold_token("t", newer.version, "b", 30)
    tokens.release_token("t", "a")
    assert not tokens.hold_token("t", newer.version, "c", 30)
    tokens.release_token("t", "b")
    assert tokens.hold_token("t", newer.version, "c", 30)
