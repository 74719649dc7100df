"""Curves as SVG: milliseconds by the number of orders, both on logarithmic scales."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 60, 250, 40, 50
COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#34495e", "#d81b60", "#00838f")


def drawn(title: str, curves: Mapping[str, Mapping[int, float]]) -> str:
    """The SVG of the curves; each maps numbers of orders to milliseconds."""
    sizes = sorted({size for curve in curves.values() for size in curve})
    figures = [figure for curve in curves.values() for figure in curve.values()]
    lowest, highest = floor(log10(min(figures))), max(ceil(log10(max(figures))), 3)

    def x(size: float) -> float:
        share = (log10(size) - log10(sizes[0])) / max(log10(sizes[-1]) - log10(sizes[0]), 1e-9)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(figure: float) -> float:
        return HEIGHT - BOTTOM - (log10(figure) - lowest) / (highest - lowest) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for power in range(lowest, highest + 1):
        parts.append(f'<path d="M{LEFT} {y(10**power):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(10**power) + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>')
    for size in sizes:
        parts.append(f'<path d="M{x(size):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>')
    for row, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(size):.1f},{y(curve[size]):.1f}" for size in sorted(curve))
        parts += _line(points, row, name)
    return "\n".join([*parts, "</svg>", ""])


def _line(points: str, row: int, name: str) -> Sequence[str]:
    colour, at = COLOURS[row % len(COLOURS)], TOP + 14 + 18 * row
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<path d="M{WIDTH - RIGHT + 14} {at - 4}h16" stroke="{colour}" stroke-width="2"/>',
        f'<text x="{WIDTH - RIGHT + 36}" y="{at}">{escape(name)}</text>',
    )
