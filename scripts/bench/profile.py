#!/usr/bin/env python3
"""Where Tidegate's own processor time goes: user instructions a request by origin of the code, from Callgrind.

Counts do not depend on how busy the machine is. They see the program only; what the kernel does for it is in the
processor time of the other cells.
"""

import argparse
import collections
import glob
import os
import re
import shutil
import subprocess
import tempfile
import time

import work
from processes import Server, cores
from stand import Stand

CONNECTIONS = 16
SECONDS = 8

CODEC = "tidegate: HTTP/1 on the wire"
# The first that is found in a source file's path.
GROUPS = [
    # Has `crates/` in its paths, too.
    ("/library/", "Rust's own library"),
    ("crates/gateway/src/http1", CODEC),
    ("crates/gateway/src/connection/http1", CODEC),
    ("crates/gateway/src/upstream/http1", CODEC),
    ("crates/gateway/src/upstream/encode", CODEC),
    ("crates/gateway/src/upstream/response", CODEC),
    ("crates/gateway/src/request", "tidegate: requests"),
    ("crates/gateway/src/upstream", "tidegate: servers"),
    ("crates/gateway", "tidegate: connections"),
    ("crates/", "tidegate: control and runtime"),
    ("/hyper-util", "hyper"),
    ("/hyper-", "hyper"),
    ("/h2-", "hyper"),
    ("/want-", "hyper"),
    ("/httparse-", "httparse"),
    ("/http-", "http: header maps and values"),
    ("/bytes-", "bytes"),
    ("/tokio-", "tokio, mio"),
    ("/mio-", "tokio, mio"),
    ("/rustls", "rustls, aws-lc"),
    ("aws-lc", "rustls, aws-lc"),
    ("jemalloc", "jemalloc"),
]
ELSEWHERE = "C library and unknown"


def profile(stand, kind="plain", path="1k"):
    """Instructions a request: by group, and inclusive by function of ours; and the number of requests."""
    command, port = stand.command("tidegate", kind)
    out = stand.path("callgrind.out")
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
                f"--callgrind-out-file={out}"]
    scheme = "http" if kind == "plain" else "https"
    url = f"{scheme}://127.0.0.1:{port}/{path}"
    # Under Valgrind everything takes fifty times as long, the start too.
    log = stand.path("callgrind.log")
    with Server("callgrind", [*valgrind, *command], stand.proxy_cores, port, log, within_s=180) as server:
        work.keep_alive(url, 1, CONNECTIONS, stand.other_cores)  # warm: connections, caches, pools
        _control(server, "--instr=on")
        work.keep_alive(url, 2, CONNECTIONS, stand.other_cores)  # and Callgrind's own
        _control(server, "--zero")
        done = work.keep_alive(url, SECONDS, CONNECTIONS, stand.other_cores)
        _control(server, "--instr=off")
        _control(server, "--dump")
    # The worker is the busiest thread; what others do goes by time, not by requests.
    by_file, inclusive = max((_read(file) for file in _dumped(out)), key=lambda read: sum(read[0].values()))
    requests = done["requests"]
    groups = collections.Counter()
    for name, count in by_file.items():
        groups[_group(name)] += count / requests
    ours = {_short(name): count / requests for name, count in inclusive.items() if "tidegate_gateway" in name}
    return groups, ours, requests


def table(groups, ours, user_us=None):
    """The same for people; `user_us` is the user time a request outside of Callgrind, if it is known."""
    total = sum(groups.values())
    of_ours = sum(count for name, count in groups.items() if name.startswith("tidegate"))
    lines = [f"user instructions a request, 1 KiB plain: {total:,.0f}"]
    lines += [f"  {name:<32}{count:>9,.0f}  {count / total:>4.0%}" for name, count in groups.most_common()]
    for what, count in ("our own code", of_ours), ("without what does a codec's work", of_ours - groups[CODEC]):
        lines.append(f"  of these {what} {count:,.0f}")
        if user_us:
            lines[-1] += f", {count / total * user_us:.2f} of {user_us:.2f} µs user time"
    lines.append("with all they call:")
    lines += [f"  {count:>9,.0f}  {name}" for name, count in collections.Counter(ours).most_common(25)]
    return "\n".join(lines)


def _control(server, order):
    subprocess.run(["callgrind_control", order, str(server.process.pid)], check=True, capture_output=True)
    time.sleep(0.3)


def _dumped(out):
    """The files of the dump that was asked for, one a thread."""
    return glob.glob(f"{out}.1-*")


def _read(path):
    """Self cost by source file, inclusive cost by function."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        return _counted(lines)


def _counted(lines):
    names = {"file": {}, "fn": {}}
    kinds = {"fl": "file", "fi": "file", "fe": "file", "cfl": "file", "cfi": "file", "fn": "fn", "cfn": "fn"}
    by_file, inclusive = collections.Counter(), collections.Counter()
    file = function = None
    is_call = False
    for line in lines:
        found = re.match(r"(c?f[lien])=\((\d+)\)(?: (.*))?", line)
        if found:
            key, number, name = found.groups()
            known = names[kinds[key]]
            if name:
                known[number] = name
            if key in ("fl", "fi", "fe"):
                file = known[number]
            elif key == "fn":
                function = known[number]
        elif line.startswith("calls="):
            is_call = True
        elif line[:1] in "0123456789+-*":
            cost = int(line.split()[1])
            inclusive[function] += cost
            if not is_call:
                by_file[file] += cost
            is_call = False
    return by_file, inclusive


def _group(path):
    return next((group for part, group in GROUPS if part in path), ELSEWHERE)


def _short(name):
    """A function's name without hashes, crates' disambiguators and most of its generic arguments."""
    name = re.sub(r"\[[0-9a-f]{16}\]|::h[0-9a-f]{16}", "", name)
    return name if len(name) <= 110 else name[:107] + "..."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", default="target/release/tidegate", help="the binary")
    parser.add_argument("--kind", default="plain", choices=["plain", "p256"])
    parser.add_argument("--path", default="1k", choices=["1k", "100k"])
    parser.add_argument("--keep", help="a file for Callgrind's own output, for callgrind_annotate or KCachegrind")
    options = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="tidegate-profile-", dir=memory)
    try:
        stand = Stand(folder, os.path.abspath(options.tidegate), *cores())
        with stand.origin():
            groups, ours, requests = profile(stand, options.kind, options.path)
        print(table(groups, ours))
        print(f"{requests} requests")
        if options.keep:
            largest = max(_dumped(stand.path("callgrind.out")), key=os.path.getsize)
            shutil.move(largest, options.keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
