"""Examples of requests about webhooks, for the description of the API."""

from fastapi.openapi.models import Example

NEW: dict[str, Example] = {
    "ends": {
        "summary": "The ends of nightly orders",
        "value": {
            "name": "ci",
            "url": "https://ci.example.com/hook",
            "types": ["order.finished"],
            "filters": {"labels": ["nightly"]},
        },
    },
    "everything": {
        "summary": "All that happens to orders, and what schedules missed",
        "value": {"name": "log", "url": "https://log.example.com/mcc"},
    },
}
CHANGE: dict[str, Example] = {
    "elsewhere": {
        "summary": "Another address, and whatever people are asked too",
        "value": {
            "url": "https://ci.example.com/mcc",
            "types": ["order.finished", "approval.requested", "question.asked"],
        },
    },
    "off": {"summary": "Nothing is noted for it any more", "value": {"off": True}},
}
ROTATION: dict[str, Example] = {
    "day": {"summary": "The former secret signs too for a day", "value": {"keep_seconds": 86_400}},
    "now": {"summary": "The former secret counts no longer, as somebody has it", "value": {"keep_seconds": 0}},
}
REPLAY: dict[str, Example] = {
    "endpoint": {"summary": "All that is dead for one endpoint", "value": {"endpoint": "ci"}},
    "since": {"summary": "All that has died since a time", "value": {"since": "2030-01-01T06:00:00Z"}},
}
