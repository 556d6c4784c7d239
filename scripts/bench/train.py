#!/usr/bin/env python3
"""Puts a Tidegate that counts what it does to the work it is for, so that the compiler can lay it out by that
(scripts/release): a bit of each of what comes to a gateway, from its own load generator, before its own origin.

What is not done here is thought to be rare, and becomes no faster; so everything that is frequent somewhere belongs here,
not only what benchmarks measure.
"""

import argparse
import json
import os
import subprocess
import tempfile

from processes import Server, free_port
from stand import certificates, tls_listeners

FIELDS = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language": "en-GB,en;q=0.7,de;q=0.3",
    "Accept-Encoding": "gzip, deflate",
    "Cookie": "session=5f2b7c9d1e3a4f60718293a4b5c6d7e8; consent=1; theme=light; seen=17",
    "Referer": "https://shop.example/a/page/before",
}
# Each part of the work: by which listener, to which application, the rest of the command line of `tidegate load`, and
# fields that are not those of all.
WORK = [
    ("plain", "shop", "/bytes/1024", "-a closed:64"),
    ("plain", "local", "/bytes/1024", "-a closed:64"),
    ("plain", "shop", "/bytes/102400", "-a closed:64"),
    ("plain", "shop", "/chunked/20000?chunk=3000", "-a closed:32"),
    ("plain", "shop", "/pay/upload", "-a closed:16 --method POST --body 3000"),
    ("plain", "shop", "/upload", "-a closed:8 --method POST --body 300000"),
    ("plain", "shop", "/bytes/1024", "-a closed:16 --http 2"),
    ("plain", "h2", "/bytes/1024", "-a closed:16"),
    ("plain", "shop", "/bytes/1024", "-a closed:16 --new-connections"),
    ("plain", "shop", "/trailers", "-a closed:16"),
    ("plain", "shop", "/bytes/300", "-a poisson:2000/s"),
    ("p256", "shop", "/bytes/1024", "-a closed:64"),
    ("p256", "shop", "/bytes/102400", "-a closed:64"),
    ("p256", "shop", "/bytes/1024", "-a closed:64 --http 2"),
    ("p256", "shop", "/bytes/1024", "-a closed:16 --new-connections"),
    ("p256", "shop", "/bytes/1024", "-a closed:16 --new-connections --no-resume"),
    ("rsa", "shop", "/bytes/1024", "-a closed:16 --new-connections --tls 1.2"),
    ("rsa", "shop", "/bytes/1024", "-a closed:16 --new-connections --no-resume"),
    # More than the servers can do: queues, limits, refusals, retries.
    ("plain", "shop", "/work?cost_ms=4", "-a poisson:1000/s --timeout 500ms --retries 1"),
    ("p256", "shop", "/work?cost_ms=4", "-a poisson:800/s --timeout 500ms --http 2"),
    # More than the waiting room lets in: browsers, and many who are only told a time, people and programs.
    ("plain", "room", "/work", "-a poisson:800/s --follow --wait-max 2s --scripts"),
    ("plain", "full", "/work", "-a closed:32"),
    ("plain", "full", "/work", "-a closed:32", {"Accept": "application/json"}),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", required=True, help="the binary")
    parser.add_argument("--seconds", type=float, default=3, help="of each part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-train-") as folder:
        train(os.path.abspath(options.tidegate), folder, options.seconds)


def train(tidegate, folder, seconds):
    cores = sorted(os.sched_getaffinity(0))
    ports = {name: free_port() for name in ("origin", "plain", "p256", "rsa")}
    origin = [tidegate, "load", "origin", "--listen", f"127.0.0.1:{ports['origin']}"]
    gateway = [tidegate, "run", configuration(folder, ports)]
    with Server("origin", origin, cores, ports["origin"], os.path.join(folder, "origin.log")) as origin:
        with Server("tidegate", gateway, cores, ports["plain"], os.path.join(folder, "tidegate.log")) as gateway:
            for part in WORK:
                one(tidegate, ports, seconds, *part)
            if not gateway.alive():
                raise SystemExit("train: tidegate has ended")
            # What was counted is written at the end of each.
            gateway.stop(within_s=60)
        origin.stop(within_s=60)


def one(tidegate, ports, seconds, listener, application, path, options, other_fields=None):
    """One part of the work, of which something has to come."""
    scheme = "http" if listener == "plain" else "https"
    fields = {"Host": f"{application}.example", **FIELDS, **(other_fields or {})}
    command = [tidegate, "load", f"{scheme}://127.0.0.1:{ports[listener]}{path}", *options.split(), "--json"]
    command += [word for name, value in fields.items() for word in ("-H", f"{name}: {value}")]
    command += ["--duration", f"{seconds}s", "--drain", "3s"]
    if listener != "plain":
        command += ["--insecure", "--server-name", "shop.example"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        # Where nobody is let in, all are told so.
        came = json.loads(done.stdout)["total"]["refused" if application == "full" else "good"]
    except (ValueError, KeyError):
        came = 0
    if not came:
        raise SystemExit(f"train: nothing came of\n  {' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")


def configuration(folder, ports):
    """What the gateway runs by: by default where nothing is asked for."""
    certificates(folder, "shop.example")
    server = f"http://127.0.0.1:{ports['origin']}"
    path = os.path.join(folder, "tidegate.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
admin = "127.0.0.1:{free_port()}"
access_log.target = "{os.path.join(folder, "access.log")}"

[[workers]]
threads = 1

[[listener]]
address = "127.0.0.1:{ports["plain"]}"
{tls_listeners(ports)}
[application.shop]
servers = "{server}"

[application.shop.class.pay]
priority = 6

[[application.shop.rule]]
class = "pay"
path_prefix = "/pay"
method = ["POST", "PUT"]

[[application.shop.rule]]
class = "pay"
header = {{ x-class = "critical" }}

[application.local]
hosts = "local.example"
servers = ["{server}", "http://localhost:{ports["origin"]}"]
request_headers = [{{ set = "x-environment", value = "training" }}]

[application.h2]
hosts = "h2.example"
servers = "{server}"
upstream.protocol = "http2"

[application.room]
hosts = "room.example"
servers = "{server}"
capacity.given = "200/s"
waiting_room.method = "fifo"

[application.full]
hosts = "full.example"
servers = "{server}"
capacity.given = "100000/s"
waiting_room.method = "wait"
""")
    return path


if __name__ == "__main__":
    main()
