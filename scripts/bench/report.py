"""Figures of all rounds into a table with ratios, and into JSON."""

import json
import os
import platform
import statistics
import subprocess


def table(cells, proxies, rounds):
    """Medians over the rounds; a ratio is the median of the rounds' own ratios, since a round's cells lie close in
    time. The spread of Tidegate's (or the last proxy's) rounds stands behind its figure."""
    lines = []
    ours = proxies[-1]
    head = ["", *proxies, *[f"{ours} : {other}" for other in proxies[:-1]]]
    for cell in cells:
        for key, unit, digits in cell.figures:
            row = [f"{cell.title}, {unit}"]
            for proxy in proxies:
                values = _values(rounds, cell, proxy, key)
                row.append(_with_spread(values, digits) if values else "–")
            for other in proxies[:-1]:
                pairs = _pairs(rounds, cell, ours, other, key)
                row.append(f"{statistics.median(pairs):.2f}" if pairs else "–")
            lines.append(row)
    for cell in cells:
        if cell.above:
            row = [f"{cell.title}, {cell.figures[0][1]} above idle"]
            for proxy in proxies:
                whole, idle = (median(rounds, key, proxy, "kib") for key in (cell.key, cell.above))
                row.append("–" if whole is None or idle is None else f"{whole - idle:.2f}")
            lines.append(row + ["–"] * (len(proxies) - 1))
    widths = [max(len(row[column]) for row in [head, *lines]) for column in range(len(head))]
    return "\n".join(_line(row, widths) for row in [head, *lines])


def as_json(cells, proxies, rounds, faults, options):
    return json.dumps(
        {
            "options": options,
            "machine": _machine(),
            "versions": {proxy: _version(proxy, options["tidegate"]) for proxy in proxies},
            "cells": [
                {
                    "key": cell.key,
                    "title": cell.title,
                    "figures": {
                        key: {
                            "unit": unit,
                            "median": {
                                proxy: statistics.median(values)
                                for proxy in proxies
                                if (values := _values(rounds, cell, proxy, key))
                            },
                            "ratio": {
                                other: statistics.median(pairs)
                                for other in proxies[:-1]
                                if (pairs := _pairs(rounds, cell, proxies[-1], other, key))
                            },
                        }
                        for key, unit, _ in cell.figures
                    },
                    "rounds": [{proxy: got[cell.key, proxy] for proxy in proxies if (cell.key, proxy) in got}
                               for got in rounds],
                }
                for cell in cells
            ],
            "faults": faults,
        },
        indent=1,
        ensure_ascii=False,
    )


def median(rounds, cell, proxy, key):
    """The median of one figure; None where there is none."""
    values = [got[cell, proxy][key] for got in rounds if (cell, proxy) in got]
    return statistics.median(values) if values else None


def _values(rounds, cell, proxy, key):
    return [got[cell.key, proxy][key] for got in rounds if (cell.key, proxy) in got]


def _pairs(rounds, cell, ours, other, key):
    both = [(got.get((cell.key, ours)), got.get((cell.key, other))) for got in rounds]
    return [a[key] / b[key] for a, b in both if a and b and b[key] > 0]


def _with_spread(values, digits):
    middle = statistics.median(values)
    if len(values) == 1 or not middle:
        return f"{middle:.{digits}f}"
    spread = (max(values) - min(values)) / abs(middle) * 100
    return f"{middle:.{digits}f} (±{spread / 2:.0f} %)"


def _line(row, widths):
    cells = [row[0].ljust(widths[0]), *[value.rjust(width) for value, width in zip(row[1:], widths[1:])]]
    return "  ".join(cells).rstrip()


def _machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "load_at_end": os.getloadavg()[0]}


def _version(proxy, tidegate):
    command = {"haproxy": ["haproxy", "-v"], "nginx": ["nginx", "-v"], "tidegate": [tidegate, "--version"]}[proxy]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return (said.stdout + said.stderr).strip().splitlines()[0]
