#!/usr/bin/env python3
"""Holds back newcomers while the gateway is overloaded, as home-limit.lua does, from outside by HTTP.

    home_limit.py [--admin http://127.0.0.1:9900] [--class shop/home] [--token-file FILE]

While a class of the application is overloaded, admit to the class 60 % of the most it has answered well in a
day (MASTH, WWW 2009, fig. 2b). What it set is given back when it ends. Python's standard library only.
"""

import argparse
import json
import signal
import sys
import urllib.error
import urllib.parse
import urllib.request


class Gateway:
    """A gateway's admin interface."""

    def __init__(self, url, token_file=None):
        self.url = url.rstrip("/")
        self.headers = {"Content-Type": "application/json"}
        if token_file:
            with open(token_file, encoding="ascii") as file:
                self.headers["Authorization"] = "Bearer " + file.read().strip()

    def open(self, path, body=None, method="GET", timeout=10):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            sys.exit(f"{path}: {json.load(error)['detail']}")
        except urllib.error.URLError as error:
            sys.exit(f"{self.url}: {error.reason}: start the gateway, or give its address by --admin")

    def ask(self, path, body=None, method="GET"):
        with self.open(path, body, method) as answer:
            return json.load(answer)

    def maximum(self, name, meter, window):
        """The most there was in a window, of means over 5 s: the largest of single seconds is noise."""
        query = urllib.parse.urlencode({"class": name, "meter": meter, "from": "-" + window, "stat": "max", "of": "5s"})
        return self.ask("/api/v1/measurements?" + query)["points"][0]["max"] or 0.0

    def change(self, changes, why):
        self.ask("/api/v1/knobs", {"changes": changes, "who": "home_limit.py", "why": why}, "PATCH")

    def overviews(self, every):
        """Everything live, as long as the gateway sends it (server-sent events)."""
        with self.open(f"/api/v1/events?kinds=ending&meters={every}", timeout=60) as lines:
            name = None
            for line in lines:
                word, _, rest = line.decode().rstrip("\n").partition(": ")
                if word == "event":
                    name = rest
                elif word == "data" and name == "meters":
                    yield json.loads(rest)


def is_overloaded(application, was, late=0.25, losing=0.1, behind=0.5, least=20, window=5):
    """As overloaded() of scripts (docs/controllers.md): begins above a bound, ends below half of each."""
    factor = 0.5 if was else 1.0
    for known in application["classes"]:
        arrived, started = known["arrived"] or 0.0, known["started"] or 0.0
        response, refused = known["response_time"], known["refused"]
        answered = sum(known["responses"].values()) - sum(refused.values())
        if arrived * window < least:
            if was and answered <= 0 and application["in_flight"]:
                return True
            continue
        if response and response["p95"] > factor * late * known["goodput_within_s"]:
            return True
        by_rate = sum(refused.get(reason, 0.0) for reason in ("ingress_rate", "client_rate"))
        for_load = sum(
            refused.get(reason, 0.0)
            for reason in ("queue_full", "codel", "wait_too_long", "deadline_passed", "horizon_full")
        )
        lost = for_load + (known["left"] or 0.0) + (known["abandoned"] or 0.0)
        if arrived > by_rate and lost > factor * losing * (arrived - by_rate):
            return True
        if started * window >= least and started - answered > factor * behind * started:
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--admin", default="http://127.0.0.1:9900")
    parser.add_argument("--class", dest="name", default="shop/home", metavar="APPLICATION/CLASS")
    parser.add_argument("--token-file")
    parser.add_argument("--every", default="5s")
    options = parser.parse_args()
    gateway = Gateway(options.admin, options.token_file)
    knob, application = options.name + "/ingress.rate", options.name.split("/")[0]
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit(0))
    overloaded, holds = False, False
    try:
        for overview in gateway.overviews(options.every):
            found = [known for known in overview["applications"] if known["name"] == application]
            if not found:
                sys.exit(f"there is no application {application}")
            classes = [known["path"] for known in found[0]["classes"]]
            if options.name not in classes:
                sys.exit(f"there is no class {options.name}, but {', '.join(classes)}")
            overloaded = is_overloaded(found[0], overloaded)
            if overloaded:
                rate = max(0.6 * gateway.maximum(options.name, "goodput", "1d"), 0.001)
                gateway.change({knob: f"{rate:.3f}/s"}, "overloaded")
                print(f"{knob}: {rate:.1f}/s", flush=True)
                holds = True
            elif holds:
                gateway.change({knob: None}, "not overloaded any more")
                print(f"{knob}: given back", flush=True)
                holds = False
    finally:
        if holds:
            gateway.change({knob: None}, "the controller has ended")


if __name__ == "__main__":
    main()
