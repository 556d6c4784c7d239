"""Processes under measurement: where they run, what processor time they have used, what memory they hold."""

import os
import signal
import socket
import subprocess
import time


def cores():
    """The proxy's core, and the list of all others, for origin and generators."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SystemExit("bench: needs two processor cores, one for the proxy and one for everything else")
    return [allowed[0]], allowed[1:]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server on given cores, stopped at the end by the process id it was started with."""

    def __init__(self, name, command, on_cores, port, log, within_s=20):
        self.name = name
        self.log = log
        with open(log, "wb") as sink:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, on_cores),
            )
        self._await(port, within_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, within_s=3):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=within_s)
            except subprocess.TimeoutExpired:
                for pid in self._pids()[1:]:
                    _kill(pid)
                self.process.kill()
                self.process.wait()

    def cpu_ns(self):
        """Processor time of all its threads, as the scheduler counted it."""
        total = 0
        for pid in self._pids():
            for thread in _listed(f"/proc/{pid}/task"):
                total += int((_read(f"/proc/{pid}/task/{thread}/schedstat") or "0").split()[0])
        return total

    def user_and_system_ticks(self):
        """How that divides into the program's and the kernel's, coarsely."""
        user = system = 0
        for pid in self._pids():
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if fields:
                user, system = user + int(fields[11]), system + int(fields[12])
        return user, system

    def memory_bytes(self):
        """Resident memory of all its processes; pages they share are counted once."""
        total = 0
        for pid in self._pids():
            for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        return total

    def alive(self):
        return self.process.poll() is None

    def _pids(self):
        """The process and its children (nginx works in one)."""
        pids = [self.process.pid]
        for pid in pids:
            pids.extend(int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split())
        return pids

    def _await(self, port, within_s):
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            if not self.alive():
                break
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        with open(self.log, encoding="utf-8", errors="replace") as said:
            tail = said.read()[-2000:]
        self.stop()
        raise SystemExit(f"bench: {self.name} does not listen on port {port}; it said:\n{tail}")


def _read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # the thread or process has just ended


def _listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
