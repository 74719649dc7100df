"""The tools of all servers as a tool set for one order, with progress and questions to people."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from drone.agent.ports.journal import GrowingCall, TextDelta
from drone.agent.turns.toolset import Output, StartedCall
from drone.mcp_servers.results import output_of
from drone.mcp_servers.server import ConnectedServer, Lost, McpCallRefused
from drone.tools.asking import answered
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.display_text import one_line
from drone.tools.frame.tool import unknown_tool
from mcc.configuration.mcp_servers import SEPARATOR
from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import now
from mcc.transcript.messages import ToolSpec

if TYPE_CHECKING:
    from drone.mcp_servers.elicitation import Elicitor

MAX_QUESTION = 4_000
REPORT_SECONDS = 0.25
_LONGEST_LINE = 300


class ProgressReporter:
    """Sends viewers the progress of a call, one line at most every `REPORT_SECONDS`."""

    def __init__(self, call: StartedCall, clock: Callable[[], float] = time.monotonic) -> None:
        self._call = call
        self._clock = clock
        self._sent_at = float("-inf")
        self._offset = 0

    def __call__(self, message: str) -> None:
        turn, at = self._call.turn, self._clock()
        if turn is None or at - self._sent_at < REPORT_SECONDS:
            return
        text = f"{turn.redactor.text(one_line(message, _LONGEST_LINE))}\n"
        call = GrowingCall(None, self._call.name)
        delta = TextDelta("tool.progress", 0, 0, self._offset, text, call, self._call.call_id)
        turn.journal.delta(self._call.origin, delta)
        self._sent_at, self._offset = at, self._offset + len(text)


_UNKNOWN = "It may or may not have had its effect: look whether it had, before you repeat it."


class ServerTools:
    """The tools that were usable when the order began or resumed; calls of tools that changed since are refused."""

    def __init__(self, servers: Mapping[str, ConnectedServer]) -> None:
        self._servers = servers
        self._specs = tuple(spec for server in servers.values() for spec in server.specs())
        self._names = frozenset(spec.name for spec in self._specs)
        self._changing = frozenset(spec.name for spec in self._specs if spec.effects not in ("none", "read"))

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: StartedCall) -> Output:
        if call.name not in self._names:
            return unknown_tool(call.name, self._names)
        server = self._servers[call.name.partition(SEPARATOR)[0]]
        try:
            people = _people(server.name, call)
            result = await server.call(call.name, call.arguments, people, ProgressReporter(call))
        except McpCallRefused as refused:
            # The message may quote the server, so it is untrusted like a result.
            if isinstance(refused, Lost) and call.name in self._changing:
                return Output(f"{refused} {_UNKNOWN}", is_error=True, outcome=Outcome.OUTCOME_UNKNOWN)
            return Output(str(refused), is_error=True, outcome=Outcome.ERROR)
        turn = call.turn
        after = Aftermath(turn)
        output = await after.recorded(output_of(result, *((turn.artifacts, turn.threads) if turn else (None,))), None)
        # The call has had its effect: where its pictures cannot be kept, the model gets the rest.
        return after.told(output or await output_of(result, None))


def _people(server: str, call: StartedCall) -> "Elicitor | None":
    """The people who answer a server's questions during this call, in the inbox, as for `ask_user`; None if none."""
    from drone.mcp_servers.elicitation import Elicitor, Question

    turn = call.turn
    if turn is None or not turn.inbox.people.reaches:
        return None
    number = count()

    async def ask(question: Question) -> str | None:
        asked = QuestionAsked(
            question_id=derived_id(call.call_id, "question", next(number)),
            call_id=call.call_id,
            question=question.text[:MAX_QUESTION],
            choices=question.choices,
            default=question.default,
            expires_at=now() + timedelta(seconds=turn.inbox.people.expire_seconds),
        )
        return (await answered(turn, call.origin, asked)).answer

    return Elicitor(server, ask)
