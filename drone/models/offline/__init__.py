"""The offline model: rules in place of a language model, deterministic, and open about it."""

from drone.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
