"""The offline model: deterministic rules in place of a language model, which it says openly in its replies."""

from drone.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
