"""The gate over live state: not what an agent says is checked, but what it has made."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from drone.agent.gates.gate import ATTEMPTS, Evidence, Verdict
from drone.agent.messages import ToolSpec
from drone.agent.transcript import VALIDATE

DONE = "done"

_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class StateGate:
    """The gate of `done`. `check` looks at the state of the moment: sentences for what is wrong, none when it is good.

    It is awaited on the loop: what takes long goes into a thread there.
    """

    def __init__(self, check: Callable[[], Awaitable[Sequence[str]]]) -> None:
        self._check = check
        self._specs = (
            _spec(DONE, "Say that the work is done. It is checked then: either you are done, or you are told why not."),
            _spec(VALIDATE, "Check the work as it is now, at any time, and be told what is wrong. It ends nothing."),
        )
        self.finish = DONE
        self.guidance = (
            f"How to finish: call `{DONE}` when the work is done. It is checked then, and you are told what is wrong. "
            f"Nothing else ends your work: a reply without a tool call is sent back. You have {ATTEMPTS} attempts; "
            f"`{VALIDATE}` checks at any time without using one."
        )

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> Verdict:
        wrong = await self._check()
        return Verdict((wrong,) if isinstance(wrong, str) else tuple(wrong))


def _spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(name, description, _NOTHING, group="finish", idempotent=True, untrusted=False)
