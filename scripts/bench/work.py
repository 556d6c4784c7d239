"""The work put on a proxy: keep-alive requests by wrk, an open loop by `tidegate load`, and connections of our own
making."""

import json
import multiprocessing
import os
import re
import resource
import socket
import ssl
import subprocess
import tempfile

from stand import NAME, SIZES

# Long enough to be a browser's: 450 bytes of header fields.
FIELDS = (
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\nAccept-Encoding: gzip, deflate\r\n"
    "Cookie: session=5f2b7c9d1e3a4f60718293a4b5c6d7e8; consent=1; theme=light; seen=17\r\n"
    "Referer: https://bench.example/a/page/before\r\n"
)


# What a browser sends for a page over HTTP/2; with the cookie of `browser_fields`, twelve fields and 600 bytes.
H2_FIELDS = (
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"
    'Sec-Ch-Ua: "Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"\r\n'
    'Sec-Ch-Ua-Mobile: ?0\r\nSec-Ch-Ua-Platform: "Linux"\r\nSec-Fetch-Site: same-origin\r\n'
    "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
    "Referer: https://bench.example/a/page/before\r\n"
)


class Failed(Exception):
    """The proxy did not do the work: the figures would mean nothing."""


def keep_alive(url, seconds, connections, on_cores, accept=None, refused=False):
    """wrk for so long; requests done, and the latency its clients saw at the 99th percentile. With `refused` every
    answer has to be one of an error's status, else none may."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-H", f"Host: {NAME}"]
    command += ["-H", f"Accept: {accept}", url] if accept else [url]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, on_cores)
    )
    requests = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m)", done.stdout)
    slowest = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    if not requests or not slowest:
        raise Failed(f"wrk said nothing usable: {done.stdout[-300:]} {done.stderr[-300:]}")
    if "Socket errors" in done.stdout:
        raise Failed(next(line.strip() for line in done.stdout.splitlines() if "Socket errors" in line))
    others = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    if (int(others.group(1)) if others else 0) != (int(requests.group(1)) if refused else 0):
        raise Failed(f"answers of another kind than asked for: {done.stdout[-300:]}")
    scale = {"ms": 0.001, "s": 1, "m": 60}[requests.group(3)]
    return {
        "requests": int(requests.group(1)),
        "seconds": float(requests.group(2)) * scale,
        "p99_ms": float(slowest.group(1)) * {"us": 0.001, "ms": 1, "s": 1000}[slowest.group(2)],
    }


def open_loop(tidegate, url, per_s, seconds, on_cores):
    """Requests that start when they are due, whether or not others have their answers (`tidegate load`); how many,
    and the latency at the 99th percentile from when each was due."""
    arguments = [url, "--arrivals", f"poisson:{per_s}/s", "--duration", f"{seconds}s"]
    total = _total(_load(tidegate, arguments, on_cores))
    if not total["good"] or total["good"] != total["offered"]:
        raise Failed(f"{total['good']} good answers to {total['offered']} requests")
    return {"requests": total["good"], "seconds": seconds, "p99_ms": total["good_latency_ms"]["p99"]}


def flood(tidegate, port, per_s, seconds, on_cores):
    """So many new TLS sessions a second, each with a request, beside visits that had begun before: of these, each with a request
    about every half second and a new connection for every second one, resumed, the share that came to its end; of the new
    ones those served a second, once a queue has had the time to build up. Clients have a patience of 2 s."""
    url, begin_s, patience_s = f"https://127.0.0.1:{port}/1k", 2, 2
    aside_s = begin_s + 2 * patience_s
    span_s = aside_s + seconds + patience_s
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as plan:
        plan.write(f"""
url = "{url}"
duration = "{span_s}s"
drain = "30s"
requests_per_connection = 2
tls.insecure = true
[[class]]
name = "begun"
arrivals = "20/s:{begin_s}s"
[class.sessions]
entry = "Page"
think = "500ms"
interactions_max = {2 * (span_s - begin_s)}
page.Page = {{ path = "/1k", next = {{ Page = 1.0 }} }}
""")
        plan.flush()
        begun = _load(tidegate, ["--plan", plan.name], on_cores)
        new = [url, "--insecure", "--no-resume", "--new-connections"]
        new += ["--arrivals", f"poisson:0/s:{begin_s}s,{per_s}/s:{span_s - begin_s}s", "--duration", f"{span_s}s"]
        came = _load(tidegate, [*new, "--warmup", f"{aside_s}s", "--cooldown", f"{patience_s}s"], on_cores)
        visits, came = _total(begun)["sessions"], _total(came)
    # Whoever thinks when the run ends has lost nothing.
    ended = visits["started"] - visits["unfinished"]
    if not ended:
        raise Failed("no visit has ended")
    return {"begun_pct": 100 * visits["completed"] / ended, "per_s": came["goodput_per_s"]}


def _load(tidegate, arguments, on_cores):
    """Starts `tidegate load`."""
    return subprocess.Popen(
        [tidegate, "load", *arguments, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, on_cores),
    )


def _total(load):
    """What it says of all its requests, once it has ended."""
    said, complaint = load.communicate()
    try:
        return json.loads(said)["total"]
    except (ValueError, KeyError) as error:
        raise Failed(f"tidegate load said nothing usable: {complaint[-300:]}") from error


def handshakes(port, count, version, resumed, on_cores):
    """Opens `count` connections, each with one request of 1 KiB, from four processes; full or resumed."""
    with multiprocessing.get_context("fork").Pool(4, _settle, (on_cores,)) as pool:
        share = [(port, count // 4, version, resumed)] * 4
        return {"connections": sum(pool.starmap(_handshakes, share))}


def _settle(on_cores):
    os.sched_setaffinity(0, on_cores)


def _handshakes(port, count, version, resumed):
    context = _tls(["http/1.1"])
    context.minimum_version = context.maximum_version = version
    session = None
    if resumed:
        with _connect(port, context) as first:
            _get(first, "1k")
            session = first.session
    for _ in range(count):
        with _connect(port, context, session) as stream:
            if stream.session_reused != resumed:
                raise Failed(f"resumed: {stream.session_reused}, wanted {resumed}")
            _get(stream, "1k", "Connection: close\r\n")
            if resumed:
                session = stream.session  # a ticket of TLS 1.3 is for one use
    return count


class Idle:
    """Connections that have had one answer and stay open."""

    def __init__(self, port, protocol, count):
        self.streams = []
        context = {"plain": None, "tls": _tls(["http/1.1"]), "h2c": None, "h2": _tls(["h2"])}[protocol]
        for number in range(count):
            stream = _connect(port, context)
            self.streams.append(stream)
            if protocol in ("h2", "h2c"):
                _get_h2(stream, "https" if context else "http", browser_fields(number))
            else:
                _get(stream, "1k", FIELDS)

    def close(self):
        for stream in self.streams:
            stream.close()


class Waiting:
    """Connections each with one request that is not answered."""

    def __init__(self, port, protocol, count):
        self.streams = []
        self.is_h2 = protocol == "h2"
        context = {"plain": None, "tls": _tls(["http/1.1"]), "h2": _tls(["h2"])}[protocol]
        plain = f"GET /1k HTTP/1.1\r\nHost: {NAME}\r\n{FIELDS}\r\n".encode()
        for number in range(count):
            stream = _connect(port, context)
            stream.sendall(_h2_request("https", browser_fields(number)) if self.is_h2 else plain)
            self.streams.append(stream)

    def still_waiting(self):
        """None has an answer: a refusal would be one."""
        for stream in self.streams:
            stream.setblocking(False)
            try:
                said = stream.recv(4096)
            except (BlockingIOError, ssl.SSLWantReadError):
                continue
            # On HTTP/2 settings and windows are no answer.
            if not self.is_h2 or not said or any(kind in (0, 1, 3, 7) for kind in _h2_kinds(said)):
                raise Failed(f"a request that should wait was answered: {said[:60]!r}")

    close = Idle.close


def browser_fields(number):
    """What a browser sends over HTTP/2, with a session of its own for each connection."""
    return f"{H2_FIELDS}Cookie: session={number:032x}; consent=1; theme=light; seen={number}\r\n"


def silent_origin():
    """A server that takes requests and never answers; returns its port and the process, to be terminated."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)

    def serve():
        held = []
        while True:
            held.append(listener.accept())

    process = multiprocessing.get_context("fork").Process(target=serve, daemon=True)
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    return port, process


def many_files():
    """Room for the connections of the idle tests, in this process and in those it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _tls(protocols):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    return context


def _connect(port, context, session=None):
    stream = socket.create_connection(("127.0.0.1", port), timeout=20)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context:
        stream = context.wrap_socket(stream, server_hostname=NAME, session=session)
    return stream


def _get(stream, path, fields=""):
    stream.sendall(f"GET /{path} HTTP/1.1\r\nHost: {NAME}\r\n{fields}\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer or len(answer.split(b"\r\n\r\n", 1)[1]) < SIZES[path]:
        part = stream.recv(65536)
        if not part:
            raise Failed(f"the connection ended after {answer[:60]!r}")
        answer += part
    if not answer.startswith(b"HTTP/1.1 200"):
        raise Failed(f"answered {answer[:60]!r}")


def _h2_frame(kind, flags, stream_id, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + payload


def _h2_request(scheme, fields):
    """What begins an HTTP/2 connection with one request: preface, SETTINGS, HEADERS. Fields are sent as text and are to be
    remembered by the receiver, as browsers have it for those that they will send again."""

    def literal(text):
        return bytes([len(text)]) + text.encode()

    head = bytes([0x82, {"http": 0x86, "https": 0x87}[scheme], 0x04]) + literal("/1k") + b"\x41" + literal(NAME)
    for line in fields.splitlines():
        name, value = line.split(": ", 1)
        head += b"\x40" + literal(name.lower()) + literal(value)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _h2_frame(4, 0, 0, b"") + _h2_frame(1, 5, 1, head)


def _h2_kinds(said):
    """The types of the frames in `said`."""
    kinds = []
    while len(said) >= 9:
        kinds.append(said[3])
        said = said[9 + int.from_bytes(said[:3], "big"):]
    return kinds


def _get_h2(stream, scheme, fields):
    """One request on a new HTTP/2 connection, read to the end of its stream."""
    stream.sendall(_h2_request(scheme, fields))
    buffer, body, ended = b"", 0, False
    while not ended:
        while len(buffer) < 9 or len(buffer) < 9 + int.from_bytes(buffer[:3], "big"):
            part = stream.recv(65536)
            if not part:
                raise Failed("the HTTP/2 connection ended without an answer")
            buffer += part
        length, kind, flags = int.from_bytes(buffer[:3], "big"), buffer[3], buffer[4]
        if kind == 4 and not flags & 1:
            stream.sendall(_h2_frame(4, 1, 0, b""))
        if kind in (3, 7):
            raise Failed(f"HTTP/2 frame of type {kind}: {buffer[:40]!r}")
        body += length if kind == 0 else 0
        ended = kind in (0, 1) and bool(flags & 1)
        buffer = buffer[9 + length:]
    if body < SIZES["1k"]:
        raise Failed(f"the HTTP/2 answer has {body} bytes")
