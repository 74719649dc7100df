"""The end of a pipe is closed once, on either event loop: its number may be another file's right after."""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from drone.sandbox.spawned import PipeEnd
from tests.waiting import eventually

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Watched(PipeEnd):
    """Another file is opened right before it is closed, as a thread may do."""

    other = -1

    def close(self) -> None:
        if self.other < 0:
            self.other = os.open(os.devnull, os.O_RDONLY)
        super().close()


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_what_was_opened_meanwhile_stays_open_and_the_pipe_is_closed(
    loop: Callable[[], asyncio.AbstractEventLoop], is_read: bool
) -> None:
    reads, writes = os.pipe()
    ours, theirs = (reads, writes) if is_read else (writes, reads)

    async def use() -> Watched:
        running = asyncio.get_running_loop()
        end = Watched(ours, running)
        connect = running.connect_read_pipe if is_read else running.connect_write_pipe
        transport, _ = await connect(asyncio.Protocol, end)
        transport.close()
        await eventually(lambda: end.other >= 0)
        return end

    with asyncio.Runner(loop_factory=loop) as runner:
        end = runner.run(use())
    assert os.path.samestat(os.fstat(end.other), os.stat(os.devnull))
    os.close(end.other)
    if is_read:
        with pytest.raises(BrokenPipeError):
            os.write(theirs, b"x")
    else:
        assert os.read(theirs, 1) == b""
    os.close(theirs)
