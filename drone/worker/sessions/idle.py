"""When a session is compacted between its turns: shortly before its provider's cache of it expires."""

from datetime import timedelta

from drone.agent.ports.model import Model, cache_seconds, context_tokens
from drone.models.guards import ModelSource, UnknownModel
from drone.worker.sessions.opening import TurnLeaves
from mcc.contracts.agents import INHERIT
from mcc.contracts.compaction import CompactionTerms
from mcc.contracts.order import WorkOrder
from mcc.contracts.record import ModelChoice
from mcc.store.rows.stored_turns import PlannedCompaction

AHEAD_SECONDS = 60.0
"""How long before its cache expires a session is compacted: the request for the summary still finds it."""

UNKNOWN_SECONDS = 240.0
"""How long after its last request a session is compacted whose provider does not say how long it caches."""


class IdleCompaction:
    """Decides after which turns their sessions are compacted, and when. `models`: those that the turns asked."""

    def __init__(self, terms: CompactionTerms, models: ModelSource) -> None:
        self._terms = terms
        self._models = models

    def planned(self, order: WorkOrder, leaves: TurnLeaves, asked: ModelChoice | None) -> PlannedCompaction | None:
        """When the session of this ended turn, which `asked` this model, is compacted unless somebody speaks before;
        None: not at all."""
        turn = leaves.turn
        # What is said about a document is in its own history, which is never compacted.
        if not self._terms.idle or turn is None or turn.last is None or order.document_id is not None:
            return None
        last, model = turn.last, self._model(asked)
        known = (last.window, None if model is None else context_tokens(model))
        window = min((tokens for tokens in known if tokens), default=None)
        if window is None:
            return None
        # Its provider has counted system prompt and tools as well, and the results that "answers" do not show.
        counted = last.input_tokens if leaves.mode == "full" else 0
        shown = last.opening_tokens + turn.tokens
        if max(counted, shown) < self._terms.idle_share * window:
            return None
        seconds = None if model is None else cache_seconds(model)
        waits = UNKNOWN_SECONDS if seconds is None else max(0.0, seconds - AHEAD_SECONDS)
        return PlannedCompaction(last.at + timedelta(seconds=waits), window, shown)

    def _model(self, asked: ModelChoice | None) -> Model | None:
        """The model, None: not known here. By the name of an alias first, as servers share names of models."""
        if asked is None:
            return None
        try:
            model = self._models.default
            # A turn whose order named no model says which one the default was.
            if asked.requested not in (INHERIT, model.name):
                model = self._models.get(asked.requested)
        except UnknownModel:
            return None
        return model if model.name == asked.effective else None
