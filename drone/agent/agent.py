"""The agent: ready to be given tasks."""

from drone.agent.journal import Journal
from drone.agent.memory import MemoryJournal
from drone.agent.parts import AgentParts
from drone.agent.report import Report
from drone.agent.run import Run, broken
from drone.agent.spending.budget import Budget
from drone.agent.tree import Tree
from drone.agent.turn import Task, Turn, title_of
from mcc.contracts.ids import fresh_id, root_record_id


class Agent(AgentParts):
    """Runs tasks, several at once if asked; keeps nothing of any."""

    async def run(self, task: str | Task, turn: Turn | None = None) -> Report:
        """Do one task to its end. Without a turn this is a tree of its own, its journal in memory.

        Whatever the models and tools do is in the report; raises only `JournalError`, `Exhausted` and CancelledError.
        """
        if turn is None:
            turn = self.turn()
        if isinstance(task, str):
            task = Task(task, turn.root or root_record_id(fresh_id()), title_of(task))
        try:
            return await Run(self, task, turn).to_its_end()
        except BaseException as error:
            return await broken(self, task, turn, error)

    def turn(self, journal: Journal | None = None, tree: Tree | None = None) -> Turn:
        """A turn of this agent's own: its limits for the whole tree, the journal in memory unless one is given.

        `tree`: what the journal of a turn that broke off says; `run` with the same task then goes on where that was.
        """
        journal = journal or MemoryJournal(fresh_id())
        return Turn.begun(journal, Budget(self.limits), tree=tree)
