"""The test stand: certificates, the origin, and the proxies, each set up as its manual advises for this work."""

import os
import subprocess

from processes import Server, free_port

NAME = "bench.example"
PATIENCE = "600s"
# Kinds of certificates, and the keys that openssl is to make for them.
KEYS = {"rsa": ["rsa:2048"], "p256": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]}
SIZES = {"1k": 1024, "100k": 100 * 1024}


def certificates(folder, name):
    """Of each kind KIND.key, KIND.crt, and both in KIND.both."""
    for kind, algorithm in KEYS.items():
        key, chain, both = (os.path.join(folder, f"{kind}.{part}") for part in ("key", "crt", "both"))
        subprocess.run(
            ["openssl", "req", "-x509", "-nodes", "-newkey", *algorithm, "-keyout", key, "-out", chain,
             "-days", "30", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"],
            check=True, capture_output=True,
        )
        with open(both, "wb") as joined:
            for part in (chain, key):
                with open(part, "rb") as file:
                    joined.write(file.read())


def tls_listeners(ports):
    """Tidegate's listeners with those certificates, for a configuration in the same folder."""
    return "".join(
        f'[[listener]]\naddress = "127.0.0.1:{ports[kind]}"\n'
        f'tls.certificates = [{{ chain = "{kind}.crt", key = "{kind}.key" }}]\n'
        for kind in KEYS
    )


class Stand:
    """Files and ports of one run. `plain`, `rsa` and `p256` are each proxy's ports."""

    def __init__(self, folder, tidegate, proxy_cores, other_cores):
        self.folder = folder
        self.tidegate = tidegate
        self.proxy_cores = proxy_cores
        self.other_cores = other_cores
        self.origin_port = free_port()
        self.started = 0
        certificates(folder, NAME)
        os.mkdir(self.path("files"))
        for name, size in SIZES.items():
            with open(self.path("files", name), "wb") as file:
                file.write(bytes(b"0123456789abcde\n" * (size // 16)))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def origin(self):
        """nginx serving files that lie in memory, on the generators' side."""
        config = self._nginx_frame(
            "origin",
            f"""
            sendfile on;
            open_file_cache max=16 inactive=1h;
            server {{
                listen 127.0.0.1:{self.origin_port} reuseport backlog=8192;
                root {self.path("files")};
            }}""",
        )
        return self._start("origin", ["nginx", "-p", self.folder, "-c", config], self.other_cores, self.origin_port)

    def proxy(self, name, origin_port=None, limit=None, refuses=False, room=False):
        """Starts a proxy; with `limit`, one that lets so many requests through at once and queues the others, or with
        `refuses` answers them 503 (nginx has no queue and always does); with `room`, one that lets nobody in and tells
        everybody a time (Tidegate only).

        Each has a configuration file of its own: Tidegate reads one that changes again, so that with the same file
        it would take over the ports of another and with them its connections."""
        command, ports = self._command(name, origin_port or self.origin_port, limit, refuses, room)
        server = self._start(name, command, self.proxy_cores, ports["plain"])
        server.ports = ports
        return server

    def command(self, name, kind):
        """The command line that starts a proxy, and one of its ports."""
        command, ports = self._command(name, self.origin_port, None, False, False)
        return command, ports[kind]

    def _command(self, name, origin_port, limit, refuses, room):
        self.started += 1
        ports = {"plain": free_port(), "rsa": free_port(), "p256": free_port()}
        setup = {"haproxy": self._haproxy, "nginx": self._nginx, "tidegate": self._tidegate}[name]
        return setup(ports, origin_port, limit, refuses, *([room] if name == "tidegate" else [])), ports

    def _haproxy(self, ports, origin, limit, refuses):
        at_once = f"maxconn {limit}" if limit and not refuses else ""
        deny = f"http-request deny deny_status 503 if {{ be_conn(origin) ge {limit} }}" if refuses else ""
        return ["haproxy", "-db", "-f", self._write(f"haproxy-{self.started}.cfg", f"""
global
    nbthread 1
    maxconn 8000
defaults
    mode http
    option http-keep-alive
    http-reuse always
    timeout connect 5s
    timeout client {PATIENCE}
    timeout server {PATIENCE}
    timeout queue {PATIENCE}
    timeout http-keep-alive {PATIENCE}
frontend plain
    bind 127.0.0.1:{ports["plain"]} backlog 8192
    {deny}
    default_backend origin
frontend h2c
    bind 127.0.0.1:{ports.setdefault("h2c", free_port())} proto h2 backlog 8192
    default_backend origin
frontend tls
    bind 127.0.0.1:{ports["rsa"]} ssl crt {self.path("rsa.both")} alpn h2,http/1.1 backlog 8192
    bind 127.0.0.1:{ports["p256"]} ssl crt {self.path("p256.both")} alpn h2,http/1.1 backlog 8192
    default_backend origin
backend origin
    server one 127.0.0.1:{origin} {at_once}
""")]

    def _nginx(self, ports, origin, limit, _refuses):
        at_once = f"limit_conn all {limit};" if limit else ""
        ports.setdefault("h2c", free_port())
        config = self._nginx_frame(
            f"nginx-{self.started}",
            f"""
            upstream origin {{
                server 127.0.0.1:{origin};
                keepalive 256;
                keepalive_requests 1000000000;
            }}
            limit_conn_zone $server_name zone=all:1m;
            limit_conn_status 503;
            limit_conn_log_level info;
            ssl_session_cache shared:tls:20m;
            ssl_protocols TLSv1.2 TLSv1.3;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_read_timeout {PATIENCE};
            server {{
                listen 127.0.0.1:{ports["plain"]} backlog=8192;
                server_name {NAME};
                {at_once}
                location / {{ proxy_pass http://origin; }}
            }}
            server {{
                listen 127.0.0.1:{ports["h2c"]} http2 backlog=8192;
                location / {{ proxy_pass http://origin; }}
            }}
            server {{
                listen 127.0.0.1:{ports["rsa"]} ssl http2 backlog=8192;
                ssl_certificate {self.path("rsa.crt")};
                ssl_certificate_key {self.path("rsa.key")};
                location / {{ proxy_pass http://origin; }}
            }}
            server {{
                listen 127.0.0.1:{ports["p256"]} ssl http2 backlog=8192;
                ssl_certificate {self.path("p256.crt")};
                ssl_certificate_key {self.path("p256.key")};
                location / {{ proxy_pass http://origin; }}
            }}""",
        )
        return ["nginx", "-p", self.folder, "-c", config]

    def _tidegate(self, ports, origin, limit, refuses, room):
        """With what runs by default: classification by rules, meters, and a limit that is found, but never below what a
        cell has in flight: the origin has a core together with the generators, is full at times, and requests that wait
        for it cost what the other proxies do not do. Where requests are to wait the limit is given."""
        at_once = f'in_flight.algorithm = "fixed"\nin_flight.limit = {limit}\n' if limit else "in_flight.min = 200\n"
        # In an hour of slots there are places for all that a benchmark can ask for.
        method = 'capacity.given = "100000/s"\nwaiting_room.method = "wait"\n' if room else ""
        ports["h2c"] = ports["plain"]  # HTTP/2 by prior knowledge on the same port
        return [self.tidegate, "run", self._write(f"tidegate-{self.started}.toml", f"""
admin = "none"
keep_alive.timeout = "{PATIENCE}"

[[workers]]
threads = 1

[[listener]]
address = "127.0.0.1:{ports["plain"]}"
{tls_listeners(ports)}
[application.bench]
servers = "http://127.0.0.1:{origin}"
upstream.response.timeout = "{PATIENCE}"
{at_once}{method}
[application.bench.class.default]
queue.max = {0 if refuses else 20000}
queue.wait.max = "{PATIENCE}"

[application.bench.class.pay]
priority = 6

[[application.bench.rule]]
class = "pay"
path_prefix = "/pay"
method = ["POST", "PUT"]
""")]

    def _start(self, name, command, on_cores, port):
        return Server(name, command, on_cores, port, self.path(f"{name}-{self.started}.log"))

    def _write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def _nginx_frame(self, name, inside):
        user = "user root;" if os.geteuid() == 0 else ""
        temporary = "\n".join(
            f"{kind}_temp_path {self.path(name + '-' + kind)};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        return self._write(f"{name}.conf", f"""
        {user}
        daemon off;
        worker_processes 1;
        pid {self.path(name + ".pid")};
        error_log stderr warn;
        events {{ worker_connections 16000; }}
        http {{
            access_log off;
            {temporary}
            keepalive_timeout {PATIENCE};
            keepalive_requests 1000000000;
            http2_recv_timeout {PATIENCE};
            http2_idle_timeout {PATIENCE};
            {inside}
        }}
        """)
