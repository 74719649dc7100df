"""How many pictures the providers take in one request.

Every picture is within each provider's rule for one picture, since all are shown the same one (`drone.tools.files`). A
provider takes more of them than are shown at most, but scales them down or refuses large ones then. Looked up in 2026:
Anthropic's, OpenAI's, Google Cloud's, xAI's and Groq's pages on vision; the others state none.
"""

from collections.abc import Mapping
from dataclasses import replace

from mcc.transcript.pictures import PictureLimits

_MANY, _FEW = PictureLimits(20), PictureLimits(8)

LIMITS: Mapping[str, PictureLimits] = {
    **dict.fromkeys(("anthropic", "openai", "azure", "gemini", "vertex", "xai"), _MANY),
    "groq": PictureLimits(5, 2_500_000),
}


def limits_of(provider: str, most: int | None = None) -> PictureLimits:
    """The limits of a provider by its name in the table of providers; careful ones where none are known.

    `most`: the user's own figure.
    """
    limits = LIMITS.get(provider, _FEW)
    return limits if most is None else replace(limits, most=most)
