"""What is measured: each cell puts one kind of work on one proxy and returns one row of figures."""

import ssl
import time

import work

CONNECTIONS = 64
# Requests a second of the open loop: what each of the proxies can do with one core, and leave some of it.
STEADY = 5000
# New TLS sessions a second: two to three times what a core can let in with RSA-2048.
FLOOD = 3000
# Requests that are let through at once where the others are to wait.
AT_ONCE = 8


class Cell:
    """A kind of work: its title, the figures it gives (name, unit, digits), how to get them once, and whether that
    is worth doing again: memory hardly depends on the machine's mood."""

    def __init__(self, key, title, figures, measure, of=("haproxy", "nginx", "tidegate"), above=None):
        self.key, self.title, self.figures, self.measure, self.of = key, title, figures, measure, of
        self.above = above  # the cell of the same connection without the request
        self.once = figures[0][0] == "kib"


def all_cells(effort):
    rate = [("cpu_us", "µs CPU a request", 2), ("per_s", "requests/s", 0), ("p99_ms", "ms p99", 2)]
    at_rate = [("cpu_us", "µs CPU a request", 2), ("p99_ms", "ms p99", 2)]
    each = [("cpu_us", "µs CPU a connection", 1)]
    flooded = [("begun_pct", "% of the visits completed", 0), ("per_s", "newcomers served a second", 0)]
    memory = [("kib", "KiB a connection", 2)]
    tls13, tls12 = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2

    def requests(scheme, kind, path):
        return lambda run: _requests(run, f"{scheme}://127.0.0.1:{run.server.ports[kind]}/{path}", effort.seconds)

    def steady(kind, path):
        return lambda run: _steady(run, f"http://127.0.0.1:{run.server.ports[kind]}/{path}", effort.seconds)

    def connections(kind, version, resumed):
        return lambda run: _handshakes(run, run.server.ports[kind], effort.handshakes, version, resumed)

    def flood(kind):
        return lambda run: _flood(run, kind, effort.seconds)

    def idle(kind, protocol):
        return lambda run: _idle(run, kind, protocol, effort.idle)

    def waiting(kind, protocol):
        return lambda run: _waiting(run, kind, protocol, effort.waiting)

    def queued(path):
        return lambda run: _queued(run, path, effort.seconds)

    def refused(path):
        return lambda run: _refused(run, path, effort.seconds)

    def room(accept):
        return lambda run: _room(run, accept, effort.seconds)

    queueing = ("haproxy", "tidegate")  # nginx has no queue
    alone = ("tidegate",)  # of these, it alone tells who must wait a time
    return [
        Cell("plain-1k", "1 KiB plain, keep-alive, 64 connections", rate, requests("http", "plain", "1k")),
        Cell("queued-1k", f"1 KiB plain, 64 connections, {AT_ONCE} let through at once", rate, queued("1k"), queueing),
        Cell("refused-1k", "refused for overload, 64 connections", rate, refused("1k")),
        Cell("tls-1k", "1 KiB TLS 1.3 (P-256), keep-alive, 64 connections", rate, requests("https", "p256", "1k")),
        Cell("plain-100k", "100 KiB plain, keep-alive, 64 connections", rate, requests("http", "plain", "100k")),
        Cell("steady-100k", f"100 KiB plain, open loop of {STEADY}/s", at_rate, steady("plain", "100k")),
        Cell("tls-100k", "100 KiB TLS 1.3, keep-alive, 64 connections", rate, requests("https", "p256", "100k")),
        Cell("full-rsa", "full handshake, RSA-2048, TLS 1.3, and a request", each, connections("rsa", tls13, False)),
        Cell("full-p256", "full handshake, P-256, TLS 1.3, and a request", each, connections("p256", tls13, False)),
        Cell("resumed-13", "resumed, TLS 1.3, and a request", each, connections("rsa", tls13, True)),
        Cell("resumed-12", "resumed, TLS 1.2, and a request", each, connections("rsa", tls12, True)),
        Cell("flood-rsa", f"{FLOOD} new TLS sessions/s (RSA-2048) and visits begun before", flooded, flood("rsa")),
        Cell("idle-plain", "idle HTTP/1.1, plain", memory, idle("plain", "plain")),
        Cell("idle-tls", "idle HTTP/1.1, TLS 1.3", memory, idle("p256", "tls")),
        Cell("idle-h2c", "idle HTTP/2, plain", memory, idle("h2c", "h2c")),
        Cell("idle-h2", "idle HTTP/2, TLS 1.3", memory, idle("p256", "h2")),
        Cell("waiting-plain", "waiting request, HTTP/1.1, plain", memory, waiting("plain", "plain"), queueing,
             "idle-plain"),
        Cell("waiting-tls", "waiting request, HTTP/1.1, TLS 1.3", memory, waiting("p256", "tls"), queueing,
             "idle-tls"),
        Cell("waiting-h2", "waiting request, HTTP/2, TLS 1.3", memory, waiting("p256", "h2"), queueing,
             "idle-h2"),
        Cell("room-page", "a time told, page, keep-alive, 64 connections", rate, room("text/html"), alone),
        Cell("room-json", "a time told, JSON, keep-alive, 64 connections", rate, room("application/json"), alone),
    ]


class Run:
    """What a cell works with: a running proxy, and the means to start a fresh one."""

    def __init__(self, name, stand, server):
        self.name, self.stand, self.server = name, stand, server

    def check(self):
        if not self.server.alive():
            raise work.Failed(f"{self.name} has ended; see {self.server.log}")


def _room(run, accept, seconds):
    """A waiting room that tells everybody a time: with one worker, the answers that one core can give."""
    with run.stand.proxy(run.name, room=True) as server:
        run = Run(run.name, run.stand, server)
        return _requests(run, f"http://127.0.0.1:{server.ports['plain']}/1k", seconds, accept, refused=True)


def _requests(run, url, seconds, accept=None, refused=False):
    cores = run.stand.other_cores
    return _served(run, seconds, lambda span: work.keep_alive(url, span, CONNECTIONS, cores, accept, refused))


def _queued(run, path, seconds):
    with run.stand.proxy(run.name, limit=AT_ONCE) as server:
        return _requests(Run(run.name, run.stand, server), f"http://127.0.0.1:{server.ports['plain']}/{path}", seconds)


def _refused(run, path, seconds):
    """One request is at a server that never answers, and no more may be: what an answer costs that says no."""
    origin_port, origin = work.silent_origin()
    try:
        with run.stand.proxy(run.name, origin_port, limit=1, refuses=True) as server:
            held = work.Waiting(server.ports["plain"], "plain", 1)
            url = f"http://127.0.0.1:{server.ports['plain']}/{path}"
            figures = _requests(Run(run.name, run.stand, server), url, seconds, refused=True)
            held.still_waiting()
            held.close()
            return figures
    finally:
        origin.terminate()
        origin.join()


def _steady(run, url, seconds):
    """The same load for each: in a closed loop who is faster has more to do, and where the generator is the slowest
    of all the latencies are its own."""
    tidegate, cores = run.stand.tidegate, run.stand.other_cores
    return _served(run, seconds, lambda span: work.open_loop(tidegate, url, STEADY, span, cores))


def _served(run, seconds, work_for):
    # Warm: connections, caches, pools.
    work_for(1)
    before, share_before = run.server.cpu_ns(), run.server.user_and_system_ticks()
    done = work_for(seconds)
    spent_ns = run.server.cpu_ns() - before
    user, system = (after - before for after, before in zip(run.server.user_and_system_ticks(), share_before))
    run.check()
    return {
        "cpu_us": spent_ns / 1000 / done["requests"],
        "user_us": spent_ns / 1000 / done["requests"] * user / max(user + system, 1),
        "per_s": done["requests"] / done["seconds"],
        "p99_ms": done["p99_ms"],
        "busy": spent_ns / 1e9 / done["seconds"],
    }


def _handshakes(run, port, count, version, resumed):
    before = run.server.cpu_ns()
    done = work.handshakes(port, count, version, resumed, run.stand.other_cores)
    spent_ns = run.server.cpu_ns() - before
    run.check()
    return {"cpu_us": spent_ns / 1000 / done["connections"]}


def _flood(run, kind, seconds):
    """A fresh proxy: what another cell's connections left behind would be in the way."""
    with run.stand.proxy(run.name) as server:
        figures = work.flood(run.stand.tidegate, server.ports[kind], FLOOD, seconds, run.stand.other_cores)
        Run(run.name, run.stand, server).check()
        return figures


def _idle(run, kind, protocol, count):
    with run.stand.proxy(run.name) as server:
        return _growth(server, count, lambda number: work.Idle(server.ports[kind], protocol, number))


def _waiting(run, kind, protocol, count):
    origin_port, origin = work.silent_origin()
    try:
        with run.stand.proxy(run.name, origin_port, limit=1) as server:
            return _growth(server, count, lambda number: work.Waiting(server.ports[kind], protocol, number))
    finally:
        origin.terminate()
        origin.join()


def _growth(server, count, hold):
    """Resident memory a connection, once a first hundred have brought the proxy to its working size."""
    first = hold(100)
    _settled(server)
    before = server.memory_bytes()
    others = hold(count)
    after = _settled(server)
    for held in (first, others):
        if isinstance(held, work.Waiting):
            held.still_waiting()
        held.close()
    return {"kib": (after - before) / 1024 / count}


def _settled(server):
    """Memory once it has stopped changing: a proxy may give buffers back some time after a connection falls idle."""
    time.sleep(2.5)
    last = server.memory_bytes()
    for _ in range(8):
        time.sleep(0.5)
        now = server.memory_bytes()
        if abs(now - last) <= 16 * 1024:
            return now
        last = now
    return last
