"""Servers of open weights, in the cloud and at home: each switches thinking in its own way."""

from collections.abc import Callable

from drone.models.dialects.differences import LEVELS, OPEN_WEIGHTS, THINKING_LEVELS, Differences, Levels, efforts

_SWITCHED: Levels = {level: {"reasoning": {"enabled": level != "off"}} for level in LEVELS}
_TEMPLATE_OFF = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
_TEMPLATE_ON = {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}
_TEMPLATE: Levels = {"off": _TEMPLATE_OFF, **dict.fromkeys(THINKING_LEVELS, _TEMPLATE_ON)}
_EFFORTS_OF_TEMPLATE: Levels = {level: {"chat_template_kwargs": asked} for level, asked in OPEN_WEIGHTS.items()}
_LOCAL = efforts("none", "low", "low", "medium", "high", "high", "high")
_GLM = efforts("", "low", "low", "medium", "high", "max", "max")
_OLLAMA = efforts("none", "low", "low", "medium", "high", "high", "max")


def _switched(model: str) -> Levels:
    """gpt-oss and GLM-5.3 know efforts and always think; the others think or do not."""
    if "glm-5.3" in model.lower():
        return _GLM
    return OPEN_WEIGHTS if "gpt-oss" in model else _SWITCHED


def _but_gpt_oss(levels: Levels, its_own: Levels = OPEN_WEIGHTS) -> Callable[[str], Levels]:
    """These levels for all models but gpt-oss, which has efforts and always thinks."""
    return lambda model: its_own if "gpt-oss" in model else levels


TOGETHER = Differences(name="together", levels=_switched)
BEDROCK = Differences(name="bedrock", levels=_but_gpt_oss(_LOCAL), output_cap="max_completion_tokens", thinking_back="")
OLLAMA = Differences(name="ollama", levels=_but_gpt_oss(_OLLAMA), thinking_back="reasoning")
VLLM = Differences(name="vllm", levels=_but_gpt_oss(_TEMPLATE), thinking_back="reasoning")
LLAMACPP = Differences(name="llamacpp", levels=_but_gpt_oss(_TEMPLATE, _EFFORTS_OF_TEMPLATE))
LMSTUDIO = Differences(name="lmstudio", levels=_but_gpt_oss(_LOCAL))
