"""Delegation: the tools whose bodies run other agents in the same loop."""

from collections.abc import Collection, Mapping, Sequence

from drone.agent.messages import ToolSpec
from drone.agent.subagents.agent_group import AgentGroup, answer
from drone.agent.subagents.assignments import BadAssignment, assignment_of, assignments_of, message_of
from drone.agent.subagents.children import Children, told
from drone.agent.subagents.conversations import CannotContinue
from drone.agent.subagents.offers import SUBAGENT, SUBAGENT_SEND, SUBAGENTS_RUN, offers
from drone.agent.subagents.spawning import CannotHire, CannotSpawn, Hire, Wanted, check_depth
from drone.agent.toolset import Call, Output
from drone.agent.turn import Turn
from mcc.contracts.journal import Outcome

__all__ = ["DELEGATION_TOOLS", "SUBAGENT", "CannotHire", "Delegation", "Hire", "Wanted"]

DELEGATION_TOOLS = (SUBAGENT, SUBAGENTS_RUN, SUBAGENT_SEND)


class Delegation:
    """The tool set of one agent that may delegate. `tools`: which of the delegation tools it has.

    Nothing is shown where nobody is `offered` (agent types with their descriptions).
    """

    def __init__(
        self,
        turn: Turn,
        offered: Mapping[str, str],
        hire: Hire,
        *,
        depth: int,
        tools: Collection[str] = DELEGATION_TOOLS,
    ) -> None:
        self._turn = turn
        self._depth = depth
        self._most = turn.budget.limits.subagents_per_call
        self._children = Children(turn, offered, hire, keeps=SUBAGENT_SEND in tools)
        shown = offers(offered, self._most) if offered else ()
        self._specs = tuple(spec for spec in shown if spec.name in tools)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: Call) -> Output:
        if all(call.name != spec.name for spec in self._specs):
            return _refused(f"You may not use {call.name}.", Outcome.DENIED)
        try:
            check_depth(self._turn, self._depth + 1)
            with self._turn.idle.still(call.call_id):
                async with self._turn.slots.lent(call.origin.record_id):
                    return await self._run(call)
        except CannotSpawn as error:
            return _refused(str(error), Outcome.DENIED)
        except (BadAssignment, CannotHire, CannotContinue) as error:
            return _refused(str(error), Outcome.ERROR)

    async def _run(self, call: Call) -> Output:
        if call.name == SUBAGENTS_RUN:
            return await self._several(call)
        if call.name == SUBAGENT_SEND:
            report = await self._children.send(call, *message_of(call.arguments))
        else:
            wanted = assignment_of(call.arguments, self._children.offered)
            report = await self._children.run(call, wanted, wanted.prompt())
        return await told(report, self._turn.artifacts)

    async def _several(self, call: Call) -> Output:
        asked = assignments_of(call.arguments, self._most)
        members = await AgentGroup(self._children, asked, call).run()
        return await answer(members, asked, self._turn.artifacts)


def _refused(said: str, outcome: Outcome) -> Output:
    """In the runtime's own words."""
    return Output(said, is_error=True, outcome=outcome, untrusted=False)
