#!/usr/bin/env python3
"""Tidegate side by side with HAProxy and nginx from Debian, on the same work, in interleaved rounds.

The proxy has one core, origin and generators have the others. Processor time comes from the scheduler's own count
of all threads of the proxy, so that it does not matter whether the generator could keep it busy; requests a second
and latency do depend on that, and "busy" in the JSON says how busy the proxy was.
"""

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile

import profile
import report
from cells import Run, all_cells
from processes import cores
from stand import Stand
from work import Failed, many_files


@dataclasses.dataclass
class Effort:
    seconds: int
    handshakes: int
    idle: int
    waiting: int


FULL = Effort(seconds=6, handshakes=4000, idle=5000, waiting=4000)
SMOKE = Effort(seconds=1, handshakes=80, idle=200, waiting=200)


def main():
    options = arguments()
    effort = SMOKE if options.smoke else FULL
    cells = [cell for cell in all_cells(effort) if not options.cells or cell.key in options.cells]
    if not cells:
        raise SystemExit(f"bench: no such cells; there are {', '.join(cell.key for cell in all_cells(effort))}")
    proxies = [name for name in ("haproxy", "nginx", "tidegate") if name in options.proxies]
    if many_files() < effort.idle * 3:
        raise SystemExit("bench: the limit on open files (ulimit -n) is too low for the idle connections")
    # Files the origin serves must not wait for a disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="tidegate-bench-", dir=memory)
    rounds, faults, instructions = [], [], None
    try:
        stand = Stand(folder, os.path.abspath(options.tidegate), *cores())
        with stand.origin():
            for number in range(options.rounds):
                rounds.append(one_round(stand, cells, proxies, number, faults))
            if "tidegate" in proxies and not options.cells and shutil.which("valgrind"):
                progress("profile")
                try:
                    instructions = profile.profile(stand)
                except SystemExit as error:
                    # What was measured before it is not lost.
                    faults.append(f"profile: {error}")
                progress("")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(report.table(cells, proxies, rounds))
    if instructions:
        groups, ours, _ = instructions
        print("\n" + profile.table(groups, ours, report.median(rounds, "plain-1k", "tidegate", "user_us")))
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "bench.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(report.as_json(cells, proxies, rounds, faults, {**vars(options), **vars(effort)}))
    print(f"\n{options.rounds} rounds (one for memory), medians, (±) half the spread; all figures: {path}")
    for fault in faults:
        print(f"failed: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


def one_round(stand, cells, proxies, number, faults):
    """Each cell on each proxy in turn, so that a change of the machine's mood meets all of them. Who is first
    changes from round to round."""
    turn = proxies[number % len(proxies):] + proxies[:number % len(proxies)]
    figures = {}
    running = {}
    try:
        for name in turn:
            running[name] = stand.proxy(name)
        for cell in (cell for cell in cells if number == 0 or not cell.once):
            for name in (name for name in turn if name in cell.of):
                progress(f"round {number + 1}: {cell.key} {name}")
                try:
                    figures[cell.key, name] = cell.measure(Run(name, stand, running[name]))
                except (Failed, OSError) as error:
                    faults.append(f"round {number + 1}, {cell.key}, {name}: {error}")
    finally:
        for server in running.values():
            server.stop()
        progress("")
    return figures


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", default="target/release/tidegate", help="the binary")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="every cell for a moment: does it work, not how fast")
    parser.add_argument("--cells", nargs="+", help="only these")
    parser.add_argument("--proxies", nargs="+", default=["haproxy", "nginx", "tidegate"],
                        choices=["haproxy", "nginx", "tidegate"])
    parser.add_argument("--out", default="target/bench", help="folder for bench.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
