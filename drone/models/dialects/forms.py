"""Wire formats by name."""

from collections.abc import Callable, Mapping

from drone.models.dialects.anthropic import Messages
from drone.models.dialects.chat import ChatCompletions
from drone.models.dialects.gemini import Gemini
from drone.models.dialects.responses import Responses
from drone.models.remote import ModelEndpoint, WireFormat
from mcc.configuration.providers import Form

formats: Mapping[Form, Callable[[ModelEndpoint], WireFormat]] = {
    "chat": ChatCompletions,
    "responses": Responses,
    "anthropic": Messages,
    "gemini": Gemini,
}
