"""The allowance of one agent: its share of the tree's budget, warnings, and the part reserved for its last reply."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from drone.agent.ports.report import LimitReached
from drone.agent.spending.budget import NO_HEADROOM, Budget, Reservation, Share
from drone.agent.state.record import RecordState
from mcc.contracts.entry import ORDER
from mcc.contracts.journal import BudgetWarned
from mcc.contracts.limits import TOKENS
from mcc.contracts.usage import Usage
from mcc.transcript.asked import REPLY_TOKENS, output_cap

LAST_REPLY_TOKENS = 4_096
"""Tokens reserved for the last reply."""

LONGEST_SECONDS = 60.0
SHORTEST_WALL = 60.0
"""An agent with at least `SHORTEST_WALL` seconds reserves a tenth of them for its last reply, at most
`LONGEST_SECONDS`."""

PART = 4
"""At most 1/`PART` of a limit is reserved."""


def headroom(room: float, limit: float | None, question: float = 0) -> float:
    """How much of a limit on all tokens, or on money, ordinary rounds leave for the last request and its reply.

    `question`: the least that the next request costs; where that uses up the limit, it is the last request. 0 without a
    limit.
    """
    return 0 if limit is None else max(min(room, limit / PART), min(question, limit))


def headroom_of_kind(kind: str, question: float, limit: float | None) -> float:
    """The same for a limit on one kind of tokens: reasoning tokens are reserved for the reply, the others for the
    request."""
    room = LAST_REPLY_TOKENS if kind == "reasoning_tokens" else question
    return headroom(room, limit, question if kind == "input_tokens" else 0)


def headroom_output(room: int, limit: int) -> int:
    """How many output tokens ordinary rounds leave. Of a small limit none: a short last reply exceeds it instead."""
    return 0 if room * PART > limit else room


def headroom_seconds(wall_seconds: float) -> float:
    """How many seconds ordinary rounds leave for the last reply."""
    return 0.0 if wall_seconds < SHORTEST_WALL else min(LONGEST_SECONDS, wall_seconds / 10)


def reply_tokens(limit: int) -> int:
    """The most tokens of the last reply under a limit on output tokens."""
    return LAST_REPLY_TOKENS if limit >= LAST_REPLY_TOKENS * PART else max(64, limit // 5)


def landing(reached: LimitReached, finish: str | None) -> BudgetWarned:
    """The entry that tells the model to finish now; `finish` is the tool that submits its result, the only tool that
    still runs."""
    how = "write your answer" if finish is None else f"hand in your result with {finish}"
    said = (
        f"The limit {reached.limit} ({reached.allowed:.10g}) is reached. This is your last reply, and no "
        f"{'tool' if finish is None else 'other tool'} runs any more: {how} now, from what you have, and say what is "
        "missing in it."
    )
    allowed = reached.allowed
    return BudgetWarned(limit=reached.limit, used=allowed, allowed=allowed, message=said, landing=True, in_results=True)


OWN_CLOCK_SECONDS = 1.0
"""A model call's own time limit ends so much later than the agent's, so that the report names the agent's limit."""


class Use(NamedTuple):
    """How much of a limit one agent, or its whole tree, has used; `allowed` is 0 where there is no limit."""

    limit: str
    used: float
    allowed: float
    of_tree: bool = False


class _Headroom(NamedTuple):
    """The amounts reserved for the last reply, from the agent's own limits and from the tree's."""

    output_tokens: float = 0
    tree_output_tokens: float = 0
    total_tokens: float = 0
    usd: float = 0
    seconds: float = 0
    kinds: Mapping[str, float] = NO_HEADROOM
    tree_kinds: Mapping[str, float] = NO_HEADROOM


class Allowance:
    """The allowance of one run; `state` says what it has used. `finish` is the tool that submits its result, None for
    an agent without a gate.
    """

    def __init__(
        self, budget: Budget, share: Share, state: RecordState | None = None, *, finish: str | None = None
    ) -> None:
        self.share = share
        self.state = state or RecordState(ORDER)
        self._budget = budget
        self._finish = finish
        self._reply_room = REPLY_TOKENS
        self._calling: set[str] = set()
        # Computed once: few orders limit single kinds of tokens, but every round checks all limits several times.
        self._kinds = tuple((name, allowed) for name in TOKENS if (allowed := getattr(share, name)) is not None)
        limits = budget.limits
        self._tree_kinds = tuple((name, most) for name in TOKENS if (most := getattr(limits, name)) is not None)
        self._left_at_end = budget.seconds_left() - share.wall_seconds
        if self.state.began_after is not None:  # resumed: its wall clock counts from its start under an earlier drone
            at_end = budget.limits.wall_seconds - self.state.began_after - share.wall_seconds
            self._left_at_end = max(self._left_at_end, at_end)

    @property
    def must_wait(self) -> bool:
        """Whether the next model call must wait until calls of other agents end."""
        return self._budget.full

    async def reserve(self) -> Reservation:
        """Reserve what the next round may cost.

        Waits while a limit of the tree is full only because of running calls of other agents. Raises `LimitReached`.
        """
        budget = self._budget
        self._check()
        while budget.full:
            await budget.settled()
            self._check()
        self._reply_room = room = self._reply_tokens()
        tokens = self.state.tokens_of_question() + room
        price = self._usd_per_token()
        reservation = Reservation(tokens, room, None if price is None else tokens * price)
        budget.hold(reservation)
        return reservation

    def reserve_beside(self, tokens: int, output_tokens: int) -> Reservation | None:
        """Reserve what a request besides the rounds may cost; None where the limits leave nothing for it."""
        try:
            self._check()
        except LimitReached:
            return None
        if self._budget.full or self.state.spending.landing is not None:
            return None
        price = self._usd_per_token()
        total = tokens + output_tokens
        reservation = Reservation(total, output_tokens, None if price is None else total * price)
        self._budget.hold(reservation)
        return reservation

    def settle(self, reservation: Reservation) -> None:
        """Release the reservation of a call that has ended."""
        self._budget.settle(reservation)

    @property
    def _next_round(self) -> int:
        """The round's number as the limit on rounds counts it: without rounds that another order paid for."""
        return self.state.rounds + 1 - self.state.spending.rounds_before

    def _check(self) -> None:
        share, landing = self.share, self.state.spending.landing
        # The last reply may use what was reserved for it, so only time and money end it.
        if landing is not None:
            if not self._may_land:
                raise LimitReached(landing.limit, landing.allowed)
            return
        if self._next_round > share.rounds:
            raise LimitReached("rounds", share.rounds)
        # Calls beyond the limit are denied, and the model was told so: what follows is its last reply.
        if self.state.denied and share.tool_calls and not self._has_calls_left:
            raise LimitReached("tool_calls", share.tool_calls)
        headroom = self._headroom()
        if self._written >= share.output_tokens - headroom.output_tokens:
            raise LimitReached("output_tokens", share.output_tokens)
        for name, allowed in self._kinds:
            if getattr(self.state.spending.spent, name) >= allowed - headroom.kinds.get(name, 0):
                raise LimitReached(name, allowed)
        if self.seconds_left() <= headroom.seconds:
            raise LimitReached("wall_seconds", share.wall_seconds)
        self._budget.check(headroom.tree_output_tokens, headroom.total_tokens, headroom.usd, headroom.tree_kinds)

    @property
    def _may_land(self) -> bool:
        return self.seconds_left() > 0 and self._budget.has_money_left

    def landing(self, reached: LimitReached) -> BudgetWarned | None:
        """The entry that tells the model its next reply is the last; None before the first round, when time or money
        for a last reply is used up, and when the model was told already."""
        if self._next_round == 1 or self.state.spending.landing is not None or not self._may_land:
            return None
        return landing(reached, self._finish)

    def _headroom(self) -> "_Headroom":
        """What this round must leave for the last reply and for those of the ancestors; the first round leaves
        nothing."""
        if self._next_round == 1:
            return _Headroom()
        limits, agents = self._budget.limits, self.state.origin.depth + 1
        question = self.state.tokens_of_question()
        tokens, price = (question + LAST_REPLY_TOKENS) * agents, self._usd_per_token() or 0
        return _Headroom(
            output_tokens=headroom_output(LAST_REPLY_TOKENS, self.share.output_tokens),
            tree_output_tokens=headroom_output(LAST_REPLY_TOKENS * agents, limits.output_tokens),
            total_tokens=headroom(tokens, limits.total_tokens, question),
            usd=headroom(tokens * price, limits.cost_usd, question * price),
            seconds=self._headroom_seconds,
            kinds={name: headroom_of_kind(name, question, allowed) for name, allowed in self._kinds},
            tree_kinds={name: headroom_of_kind(name, question * agents, most) for name, most in self._tree_kinds},
        )

    @property
    def _headroom_seconds(self) -> float:
        return 0.0 if self._next_round == 1 else headroom_seconds(self.share.wall_seconds)

    @property
    def _written(self) -> int:
        """Output tokens that count towards the agent's own limit. A subagent's reasoning does not count: otherwise it
        could use up the room for the answer."""
        spent = self.state.spending.spent
        reasoning = spent.reasoning_tokens if self.state.origin.depth > 0 else 0
        return max(0, spent.output_tokens - reasoning)

    def _reply_tokens(self) -> int:
        """The most tokens of the next reply."""
        share, budget = self.share.output_tokens, self._budget
        if self.state.spending.landing is not None:
            return min(reply_tokens(share), reply_tokens(budget.limits.output_tokens))
        return max(1, min(REPLY_TOKENS, share - self._written, budget.output_tokens_left()))

    @property
    def _has_calls_left(self) -> bool:
        budget = self._budget
        return self.state.spending.calls < self.share.tool_calls and budget.tree.calls < budget.limits.tool_calls

    def _usd_per_token(self) -> float | None:
        """The average price of this run's calls so far; before the first, that of the tree's calls."""
        spent = self.state.spending.spent
        if spent.total_tokens == 0:
            return self._budget.usd_per_token()
        return None if spent.cost_usd is None else spent.cost_usd / spent.total_tokens

    def output_cap(self, wanted: int | None = None) -> int | None:
        """The maximum of output tokens to send with the reserved call, at most `wanted`; None when it needs none."""
        return output_cap(self._reply_room, wanted)

    def unpriced(self, usage: Usage, model: str) -> tuple[BudgetWarned, ...]:
        """The warning to people that the limit in US dollars cannot be enforced, since `model` has no price; once per
        turn."""
        budget = self._budget
        if usage.cost_usd is not None or budget.limits.cost_usd is None or budget.tree.unpriced_warned:
            return ()
        message = f"The price of {model} is unknown: the limit cost_usd cannot be enforced."
        return (BudgetWarned(limit="cost_usd", used=None, allowed=budget.limits.cost_usd, message=message),)

    def warning(self) -> BudgetWarned | None:
        """The next warning that the agent is close to a limit, one per limit; None when there is none left.

        Before its second round an agent is warned only about its rounds.
        """
        if self.state.spending.landing is not None:
            return None
        for use in self._near(self._next_round - 1):
            if not self._was_warned(use):
                return _wrap_up(use, finish=self._finish, last=self._next_round >= self.share.rounds)
        return None

    def _was_warned(self, use: Use) -> bool:
        """Also true for a limit of the tree of which the conversation that this run continues was warned."""
        state = self.state
        return use.limit in state.spending.warned or (
            use.of_tree and state.spending.warned_before.get(use.limit) == use.allowed
        )

    def _near(self, done: int) -> Iterator[Use]:
        """The limits that are nearly used up, after `done` rounds."""
        share, nearly = self.share, self._budget.limits.warn_share
        # At the latest before the last round, which a share of few rounds would miss.
        if done >= min(math.ceil(round(nearly * share.rounds, 6)), share.rounds - 1):
            yield Use("rounds", done, share.rounds)
        if done == 0:
            return
        for limit, used, allowed in self._own_uses():
            if allowed and used >= nearly * allowed:
                yield Use(limit, used, allowed)
        for limit, used, allowed in self._uses_of_tree():
            if allowed and used >= nearly * allowed:
                yield Use(limit, used, allowed, of_tree=True)

    def _own_uses(self) -> tuple[tuple[str, float, float], ...]:
        share, spent, left = self.share, self.state.spending.spent, self._budget.seconds_left()
        return (
            ("output_tokens", self._written, share.output_tokens),
            ("wall_seconds", share.wall_seconds - (left - self._left_at_end), share.wall_seconds),
            ("tool_calls", self.state.spending.calls, share.tool_calls),
            *[(name, getattr(spent, name), allowed) for name, allowed in self._kinds],
        )

    def _uses_of_tree(self) -> tuple[tuple[str, float, float], ...]:
        budget = self._budget
        limits, spent, tree = budget.limits, budget.spent, budget.tree
        return (
            ("output_tokens", spent.output_tokens, limits.output_tokens),
            ("wall_seconds", limits.wall_seconds - budget.seconds_left(), limits.wall_seconds),
            ("tool_calls", tree.calls, limits.tool_calls),
            *[(name, getattr(spent, name), most) for name, most in self._tree_kinds],
            ("total_tokens", spent.total_tokens, limits.total_tokens or 0),
            ("cost_usd", tree.usd, limits.cost_usd or 0),
        )

    def take_tool_call(self, call_id: str) -> bool:
        """Reserve one tool call; False when none is left (the caller tells the model)."""
        if self.state.spending.calls + len(self._calling) >= self.share.tool_calls or not self._budget.take_tool_call(
            call_id
        ):
            return False
        self._calling.add(call_id)
        return True

    def tool_call_ended(self, call_id: str) -> None:
        """Release the reservation: the call's end is being journaled, and from then on the state counts the call."""
        self._calling.discard(call_id)
        self._budget.tool_call_ended(call_id)

    @property
    def must_land(self) -> bool:
        """Whether only the time reserved for the last reply is left."""
        return self.state.spending.landing is None and self.seconds_left() <= self._headroom_seconds

    def seconds_for_call(self) -> float:
        """How long the next model call may take. The time for a last reply is reserved until that reply is due."""
        headroom = self._headroom_seconds if self.state.spending.landing is None else 0.0
        return self.seconds_left() - headroom if headroom else self.seconds_left() + OWN_CLOCK_SECONDS

    def seconds_left(self) -> float:
        left = self._budget.seconds_left()
        return min(left, left - self._left_at_end)


def _wrap_up(use: Use, *, finish: str | None, last: bool) -> BudgetWarned:
    """The warning, worded for the model. `finish` is the tool that submits its result; `last`: this is its last
    round."""
    counts = f"{_plain(use.used)} of {_plain(use.allowed)}"
    how = "a reply without tool calls" if finish is None else f"the tool {finish}"
    if use.limit == "rounds" and last:
        said = f"The limit rounds ({counts} used) leaves you this one reply. Finish now, by {how}, with what you have."
    else:
        left = "nearly used up" if use.used < use.allowed else "used up"
        said = (
            f"The limit {use.limit} is {left}: {counts}. Start nothing new. "
            f"Do only what your answer still needs, then finish, by {how}, with what you have."
        )
    return BudgetWarned(limit=use.limit, used=round(use.used, 6), allowed=use.allowed, message=said, in_results=True)


def _plain(number: float) -> str:
    return f"{number:.10g}" if isinstance(number, int) else f"{number:.4g}"
