"""This room is for the allowance: what one agent may still use, its own share within the budget of its tree."""

from collections.abc import Iterator

from drone.agent.report import LimitReached
from drone.agent.spending.budget import Budget, Reservation, Share
from drone.agent.spending.estimate import Estimate
from drone.agent.spending.wrap_up import Use, near, near_in_rounds, unpriced, wrap_up
from mcc.contracts.journal import BudgetWarned, ModelReplied
from mcc.contracts.usage import Usage

LAST_TOKENS = 4096
"""Room set aside for a reply. A cap on output is sent only when less than this is left: many servers refuse caps larger
than their own."""


class Allowance:
    """Of one run. `finish` is the tool that hands its result in, None for an agent without a gate.

    `told` are the limits of the tree that its conversation was warned of (`Budget.told_to`).
    """

    def __init__(
        self, budget: Budget, share: Share, *, finish: str | None = None, told: set[str] | None = None
    ) -> None:
        self.share = share
        self.usage = Usage()
        self._budget = budget
        self._finish = finish
        self._estimate = Estimate()
        self._characters = 0
        self._room = LAST_TOKENS
        self._calls = 0
        self._rounds_before = 0
        self._told: set[str] = set()
        self._told_of_tree = set() if told is None else told
        self._left_at_end = budget.seconds_left() - share.wall_seconds
        self._unpriced: BudgetWarned | None = None

    @property
    def must_wait(self) -> bool:
        """Whether the next call waits for those of other agents."""
        return self._budget.full

    async def reserve(self, number: int, characters: int) -> Reservation:
        """Set aside what round `number` (from 1) may cost, its question being so long.

        Waits as long as only the calls of other agents that are under way fill a limit of the tree. Raises
        `LimitReached`.
        """
        budget, number = self._budget, number - self._rounds_before
        self._check(number)
        while budget.full:
            await budget.settled()
            self._check(number)
        self._characters = characters
        self._room = room = self._output_room()
        tokens = self._estimate.tokens(characters) + room
        price = self._usd_per_token()
        reservation = Reservation(tokens, room, None if price is None else tokens * price)
        budget.hold(reservation)
        return reservation

    def begin_anew(self, rounds: int) -> None:
        """Nothing is used yet; the next round has the number `rounds` + 1."""
        self.usage = Usage()
        self._calls, self._rounds_before = 0, rounds
        self._told.clear()
        self._told_of_tree.clear()

    def recall_beginning(self, seconds: float) -> None:
        """The agent began when drones had worked on its turn for so long: its wall clock runs from there."""
        at_end = self._budget.limits.wall_seconds - seconds - self.share.wall_seconds
        self._left_at_end = max(self._left_at_end, at_end)

    def recall(self, reply: ModelReplied) -> None:
        """A reply that was paid for before; the tree's budget knows of it."""
        self.usage = self.usage.plus(reply.usage)

    def recall_tool_call(self) -> None:
        """A call that was made before; the tree's budget knows of it."""
        self._calls += 1

    def recall_warning(self, warned: BudgetWarned) -> None:
        """Something that was said before."""
        if warned.used is None:
            self._budget.unpriced_told = True
            return
        self._told.add(warned.limit)
        self._told_of_tree.add(warned.limit)

    def settle(self, reservation: Reservation, usage: Usage | None, model: str = "") -> None:
        """The call is over: charge what it cost, None = nothing, and give the rest back. `model`: who answered."""
        self._budget.settle(reservation, usage)
        if usage is None:
            return
        self.usage = self.usage.plus(usage)
        self._estimate.learn(self._characters, usage)
        if usage.cost_usd is None:
            self._miss_price(model)

    def _check(self, number: int) -> None:
        if number > self.share.rounds:
            raise LimitReached("rounds", self.share.rounds)
        if self.usage.output_tokens >= self.share.output_tokens:
            raise LimitReached("output_tokens", self.share.output_tokens)
        if self.seconds_left() <= 0:
            raise LimitReached("wall_seconds", self.share.wall_seconds)
        self._budget.check()

    def _output_room(self) -> int:
        own = self.share.output_tokens - self.usage.output_tokens
        return max(1, min(LAST_TOKENS, own, self._budget.output_tokens_left()))

    def _usd_per_token(self) -> float | None:
        """The price that this run's calls had, before the first one that of the tree's."""
        spent = self.usage
        if spent.total_tokens == 0:
            return self._budget.usd_per_token()
        return None if spent.cost_usd is None else spent.cost_usd / spent.total_tokens

    def output_cap(self) -> int | None:
        """The most tokens that the reserved call may answer with; None when it needs no cap."""
        return self._room if self._room < LAST_TOKENS else None

    def _miss_price(self, model: str) -> None:
        """A limit that cannot be held is said once in a turn, and to people only."""
        budget = self._budget
        if budget.limits.cost_usd is not None and not budget.unpriced_told:
            budget.unpriced_told = True
            self._unpriced = unpriced(model, budget.limits.cost_usd)

    def untold(self) -> tuple[BudgetWarned, ...]:
        """What people must still be told; it is the caller's to tell."""
        untold, self._unpriced = self._unpriced, None
        return () if untold is None else (untold,)

    def warning(self, number: int) -> BudgetWarned | None:
        """That the agent comes near a limit, each limit once, or what is `untold`; None when nothing is left to say.

        `number`: the next round. But for its rounds, an agent is warned from its second one on.
        """
        if self._unpriced is not None:
            return self.untold()[0]
        number -= self._rounds_before
        for use in self._near(number):
            if use.limit not in self._told and not (use.of_tree and use.limit in self._told_of_tree):
                self._told.add(use.limit)
                if use.of_tree:
                    self._told_of_tree.add(use.limit)
                return wrap_up(use, finish=self._finish, last=number >= self.share.rounds)
        return None

    def _near(self, number: int) -> Iterator[Use]:
        """The limits that are nearly used up."""
        share, done = self.share, number - 1
        if near_in_rounds(done, share.rounds):
            yield Use("rounds", done, share.rounds)
        if done == 0:
            return
        budget, left = self._budget, self._budget.seconds_left()
        limits, spent = budget.limits, budget.spent
        yield from near("output_tokens", self.usage.output_tokens, share.output_tokens)
        yield from near("output_tokens", spent.output_tokens, limits.output_tokens, of_tree=True)
        yield from near("wall_seconds", share.wall_seconds - (left - self._left_at_end), share.wall_seconds)
        yield from near("wall_seconds", limits.wall_seconds - left, limits.wall_seconds, of_tree=True)
        yield from near("tool_calls", self._calls, share.tool_calls)
        yield from near("tool_calls", budget.calls, limits.tool_calls, of_tree=True)
        yield from near("total_tokens", spent.total_tokens, limits.total_tokens, of_tree=True)
        yield from near("cost_usd", budget.usd, limits.cost_usd, of_tree=True)

    def take_tool_call(self) -> bool:
        """False: no tool call is left; the model is told."""
        if self._calls >= self.share.tool_calls or not self._budget.take_tool_call():
            return False
        self._calls += 1
        return True

    def seconds_left(self) -> float:
        left = self._budget.seconds_left()
        return min(left, left - self._left_at_end)

    def model_call_seconds(self) -> float:
        """The time limit of a model call that begins now."""
        return min(self.share.model_call_seconds, max(0.001, self.seconds_left()))
