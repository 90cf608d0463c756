#!/usr/bin/env python3
"""Draws docs/measured/demo.svg from demo.json in the same folder, written by `scripts/demo.py
--json`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from demo import again

DOCS = Path(__file__).resolve().parent.parent / "docs" / "measured"
WIDTH, HEIGHT = 860, 330
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 62, 44
COLOURS = {"cubic": "#d1495b", "bbr": "#2a7f9e", "htcp": "#e09f3e", "dctcp": "#7a6c9d"}
INK, FAINT = "#24292f", "#d8dee4"


def main() -> None:
    measured = json.loads((DOCS / "demo.json").read_text())
    (DOCS / "demo.svg").write_text(picture(measured))


def mbit(upload: dict) -> float:
    return upload["goodput_bits_per_s"] / 1e6


def picture(measured: dict) -> str:
    before, after = measured["before"], measured["with_tcpilot"]
    uploads = before + after
    top_mbit = 5 * (int(max(map(mbit, uploads)) / 5) + 1)
    step = (WIDTH - LEFT - RIGHT) / (len(uploads) + 2)  # a gap of two where tcpilot starts
    scale = (HEIGHT - TOP - BOTTOM) / top_mbit
    parts = [*frame(measured), *grid(top_mbit, scale), *legend(uploads)]
    for index, upload in enumerate(uploads):
        x = LEFT + step * (index + (2 if index >= len(before) else 0))
        parts.append(bar(x, step, mbit(upload) * scale, upload))
    start = LEFT + step * (len(before) + 0.9)
    last = after[-len(before) :]
    parts += start_line(start, statistics.median(map(mbit, last)), scale)
    line_and_cost = (
        f"line: median of the last {len(last)}; "
        f"sent again: {again(before):.1f} % before, {again(last):.1f} % of these"
    )
    parts.append(text(WIDTH - RIGHT, 46, line_and_cost, "end"))
    return "\n".join([*parts, "</svg>", ""])


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{INK}">{words}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def frame(measured: dict) -> list[str]:
    o = measured["options"]
    what = (
        f"{int(o['bytes']) / 1e6:g} MB uploads, one after the other; "
        f"link: {o['rate']}, {o['delay']} delay, {o['loss']} loss"
    )
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" role="img">',
        f"<title>Goodput of {what}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 22, f"Goodput, Mbit/s: {what}", size=14),
        text(WIDTH - RIGHT, HEIGHT - 10, f"Linux {measured['kernel']}; make demo", "end"),
    ]


def grid(top_mbit: int, scale: float) -> list[str]:
    parts = []
    for value in range(0, top_mbit + 1, 5):
        y = HEIGHT - BOTTOM - value * scale
        parts.append(line(LEFT, y, WIDTH - RIGHT, y, f'stroke="{FAINT}"'))
        parts.append(text(LEFT - 8, y + 4, str(value), "end"))
    return parts


def legend(uploads: list[dict]) -> list[str]:
    parts, x = [], LEFT
    for name in dict.fromkeys(u["cc_start"] for u in uploads):
        parts.append(f'<rect x="{x}" y="36" width="11" height="11" fill="{COLOURS[name]}"/>')
        parts.append(text(x + 16, 46, name))
        x += 70
    parts.append(
        f'<rect x="{x}" y="36" width="11" height="11" fill="white" stroke="{INK}" '
        'stroke-dasharray="2"/>'
    )
    parts.append(text(x + 16, 46, "rescued by bbr on its way"))
    return parts


def bar(x: float, step: float, height: float, upload: dict) -> str:
    rescued = upload["cc_start"] != upload["cc_end"]
    edge = f' stroke="{INK}" stroke-dasharray="2"' if rescued else ""
    return (
        f'<rect x="{x:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" width="{step * 0.78:.1f}" '
        f'height="{height:.1f}" fill="{COLOURS[upload["cc_start"]]}"{edge}/>'
    )


def start_line(x: float, median: float, scale: float) -> list[str]:
    y = HEIGHT - BOTTOM - median * scale
    dashes = f'stroke="{INK}" stroke-dasharray="4 3"'
    return [
        line(x, TOP - 6, x, HEIGHT - BOTTOM, dashes),
        text(x - 4, HEIGHT - BOTTOM + 18, "kernel's default", "end"),
        text(x + 4, HEIGHT - BOTTOM + 18, "tcpilot started"),
        line(x, y, WIDTH - RIGHT, y, f'stroke="{INK}" stroke-width="0.6"'),
    ]


if __name__ == "__main__":
    main()
