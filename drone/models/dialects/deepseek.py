"""DeepSeek: thinking is switched on and off, and must go back with the calls that it led to."""

from drone.models.dialects.differences import Differences, Levels, Parameters, for_all

_ON: Parameters = {"thinking": {"type": "enabled"}}
_LOW: Parameters = {**_ON, "reasoning_effort": "low"}
_HIGH: Parameters = {**_ON, "reasoning_effort": "high"}
_MOST: Parameters = {**_ON, "reasoning_effort": "max"}
_LEVELS: Levels = {
    "off": {"thinking": {"type": "disabled"}},
    "minimal": _LOW,
    "low": _LOW,
    "medium": _HIGH,
    "high": _HIGH,
    "xhigh": _HIGH,
    "max": _MOST,
}


DEEPSEEK = Differences(name="deepseek", always_thought=True, levels=for_all(_LEVELS), leaks=False)
