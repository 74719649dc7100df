"""What the tests of tools share: a call made from a name and arguments."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from drone.agent.turns.toolset import Output, StartedCall, ToolSet
from mcc.contracts.entry import Origin

Use = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture
def use() -> Use:
    """Calls a tool of a set, as the loop would: `await use(tools, "read_file", path="a")`."""

    async def use(tools: ToolSet, name: str, /, **arguments: object) -> Output:
        return await tools.call(StartedCall("call-1", name, arguments, Origin(record_id="record-1", agent="master")))

    return use
