"""Agents of one order told apart: those of one name by a number, from the second on, in the order they started in."""

from collections import Counter
from collections.abc import Iterator, Mapping

from mcc.contracts.record import ChatRecord
from mcc.view.output import clean


class Names:
    """Is told of each start once, in the journal's order."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    def next_of(self, agent: str) -> str:
        """The name of one more agent of this kind."""
        agent = clean(agent)
        self._count[agent] += 1
        return agent if self._count[agent] == 1 else f"{agent} {self._count[agent]}"


def by_name(record: ChatRecord) -> Mapping[str, ChatRecord]:
    """The agents of a tree under the names that `Names` gives them."""
    names = Names()
    return {names.next_of(one.agent): one for one in sorted(_all(record), key=lambda one: one.started_at)}


def _all(record: ChatRecord) -> Iterator[ChatRecord]:
    yield record
    for child in record.subagent_history:
        yield from _all(child)
