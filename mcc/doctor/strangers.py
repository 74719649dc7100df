"""This room is for drones that were sent what nobody can use: somebody else writes into their Redis."""

from collections.abc import Iterator

from mcc.doctor.chart import Chart
from mcc.doctor.finding import Finding
from mcc.doctor.words import who


def strangers(chart: Chart) -> Iterator[Finding]:
    for drone in chart.examined.drones:
        if drone.up and drone.refused_messages:
            refused = "1 message" if drone.refused_messages == 1 else f"{drone.refused_messages:,} messages"
            detail = f"{who(drone)} has refused {refused} since it started, because nobody could use them"
            advice = "its log says what they were (garbage, other tasks, orders of another database). Who sends them?"
            yield Finding("messages", "warning", detail, advice, drone=drone.name)
