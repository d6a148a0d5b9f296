"""What the scripts of this directory share: processes on cores of their own, `ringway load`, medians, results with
their environment.

Environment variables: ROUTER, the program (target/release/ringway); ROUTER_CORES and LOAD_CORES, as taskset takes them
(0 and 1): unpinned, figures of a closed loop flip with placement. REAL_TIME=1 gives both a real-time priority, for machines
that do something else as well (not for a load that polls: README.md).
"""

import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROUTER = os.environ.get("ROUTER", os.path.join(HERE, "..", "target", "release", "ringway"))
FLOOR = os.path.join(os.path.dirname(ROUTER), "examples", "floor")
ROUTER_CORES = os.environ.get("ROUTER_CORES", "0")
LOAD_CORES = os.environ.get("LOAD_CORES", "1")
RESULTS = os.path.join(HERE, "results")


def pinned(cores, command):
    """The command, on those cores alone."""
    priority = ["chrt", "-r", "1"] if os.environ.get("REAL_TIME") == "1" else []
    return [*priority, "taskset", "-c", cores, *command]


class Server:
    """A program that listens on `self.port`, for as long as the `with` lasts."""

    def __init__(self, command, cores=ROUTER_CORES):
        if not os.path.exists(command[0]):
            sys.exit(f"{command[0]} is missing: cargo build --release --bins --examples")
        self.process = subprocess.Popen(pinned(cores, command), stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.url = f"127.0.0.1:{self.port}"

    def __enter__(self):
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)
        self.__exit__()
        sys.exit(f"nothing listens on {self.url}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Floor(Server):
    """The relay of perf/floor: copies frames and routes nothing."""

    def __init__(self):
        self.port = free_port()
        super().__init__([FLOOR, f"127.0.0.1:{self.port}"])


class Router(Server):
    """A router of ours with one listener."""

    def __init__(self, arguments=(), program=ROUTER, cores=ROUTER_CORES):
        self.port = free_port()
        self.directory = tempfile.mkdtemp(prefix="ringway-perf-")
        configuration = os.path.join(self.directory, "router.conf")
        with open(configuration, "w") as file:
            file.write("router {\n    mode: standalone\n    id: perf\n}\n")
            file.write(f"listener {{\n    host: 127.0.0.1\n    port: {self.port}\n    authenticatePeer: no\n    idleTimeoutSeconds: 0\n}}\n")
            file.write("log {\n    module: DEFAULT\n    enable: warning+\n}\n")
        super().__init__([program, "-c", configuration, *arguments], cores)

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.directory)


def load(url, arguments, pid=None):
    """The figures of one `ringway load`."""
    command = [ROUTER, "load", "--json", "--quiet", "--bus", url, *map(str, arguments)]
    if pid:
        command += ["--router-pid", str(pid)]
    done = subprocess.run(pinned(LOAD_CORES, command), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: failed")
    return json.loads(done.stdout)


def median(figures, get):
    values = [get(figure) for figure in figures]
    return None if any(value is None for value in values) else statistics.median(values)


def throughput_of(figure):
    return figure["messages_per_second"]


def cpu_of(figure):
    return figure["router_cpu_microseconds_per_message"]


def latency_of(percentile):
    return lambda figure: figure["latency_microseconds"] and figure["latency_microseconds"][percentile]


def environment():
    """What a figure is worth nothing without."""

    def output(*command):
        try:
            return subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
        except OSError:
            return ""

    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "commit": output("git", "describe", "--always", "--dirty"),
        "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
        "version": output(ROUTER, "-v"),
        "kernel": platform.release(),
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "governor": open(governor).read().strip() if os.path.exists(governor) else None,
        "load_average": os.getloadavg(),
        "router_cores": ROUTER_CORES,
        "load_cores": LOAD_CORES,
        "real_time": os.environ.get("REAL_TIME") == "1",
    }


def save(name, result):
    """Writes a result with its environment to results/NAME.json, and gives the path without the suffix."""
    os.makedirs(RESULTS, exist_ok=True)
    path = os.path.join(RESULTS, name)
    with open(path + ".json", "w") as file:
        json.dump({"environment": environment(), **result}, file, indent=1)
        file.write("\n")
    return path
