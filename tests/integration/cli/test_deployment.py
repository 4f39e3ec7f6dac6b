"""Child processes: none is lost, none is left, whatever ends first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.cli.deployment import Deployment, ServiceEndedError, ServicePlan

SERVICE = """
import os, signal, sys, time
from pathlib import Path
from outrider.cli import lifeline
lifeline.end_with(0)
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
print("loading", flush=True)
ready = Path(os.environ["OUTRIDER_READY_FILE"])
ready.with_suffix(".new").write_text("127.0.0.1:9\\n")
ready.with_suffix(".new").rename(ready)
while not stopped:
    time.sleep(0.02)
print("stopped cleanly", flush=True)
"""
DIES_LOADING = "print('no such model: x'); raise SystemExit(3)"
NEVER_READY = "import time\ntime.sleep(600)"
IGNORES_SIGTERM = SERVICE.replace("stopped.append(1)", "None")

PARENT = """
import sys
from pathlib import Path
from outrider.cli.deployment import Deployment, ServicePlan
from outrider.cli.progress import StartProgress
from outrider.cli.signals import stop_signals
plans = [ServicePlan(name=n, command=[sys.executable, "-c", sys.argv[2]]) for n in "ab"]
try:
    with stop_signals(), Deployment(Path(sys.argv[1]), StartProgress()) as deployment:
        deployment.start(plans)
        print(*(child.pid for child in deployment._children.values()), flush=True)
        deployment.watch(lambda error: None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Heard:
    """Keeps what a deployment tells."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.served: dict[str, str] = {}

    def starting(self, name: str) -> None:
        assert name not in self.served

    def line(self, name: str, text: str) -> None:
        self.lines.append((name, text))

    def ready(self, name: str, address: str, seconds: float) -> None:
        assert seconds >= 0
        self.served[name] = address


def plan(name: str, program: str, **fields: object) -> ServicePlan:
    return ServicePlan(name=name, command=[sys.executable, "-c", program], **fields)


def alive(pid: int) -> bool:
    """It runs; a zombie that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_services_start_serve_and_stop_cleanly(tmp_path: Path) -> None:
    heard = Heard()
    with Deployment(tmp_path, heard) as deployment:
        assert deployment.start([plan("a", SERVICE), plan("b", SERVICE)]) == {
            "a": "127.0.0.1:9",
            "b": "127.0.0.1:9",
        }
        assert set(heard.served) == {"a", "b"}
    for name in "ab":
        log = (tmp_path / f"{name}.log").read_text()
        assert log == "loading\nstopped cleanly\n"
        assert [line for who, line in heard.lines if who == name] == log.splitlines()


def test_an_announcement_of_an_earlier_run_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "a.address").write_text("127.0.0.1:8\n")
    with Deployment(tmp_path, Heard()) as deployment:
        assert deployment.start([plan("a", SERVICE)]) == {"a": "127.0.0.1:9"}


def test_a_service_that_dies_at_the_start_is_shown_and_stops_the_others(tmp_path: Path) -> None:
    with (
        pytest.raises(ServiceEndedError, match=r"b ended with code 3") as caught,
        Deployment(tmp_path, Heard()) as deployment,
    ):
        deployment.start([plan("a", SERVICE), plan("b", DIES_LOADING)])
    assert "no such model: x" in str(caught.value)
    assert str(tmp_path / "b.log") in str(caught.value)


def test_a_death_while_another_service_loads_is_noticed(tmp_path: Path) -> None:
    with Deployment(tmp_path, Heard()) as deployment:
        deployment.start([plan("a", SERVICE)])
        threading.Timer(0.2, deployment._children["a"].kill).start()
        with pytest.raises(ServiceEndedError, match="a ended by SIGKILL"):
            deployment.start([plan("b", NEVER_READY)])


def test_a_service_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    with Deployment(tmp_path, Heard(), grace_s=0.2) as deployment:
        deployment.start([plan("a", IGNORES_SIGTERM)])
        child = deployment._children["a"]
    assert child.ending == "ended by SIGKILL"


def test_the_loss_of_a_service_that_is_not_vital_is_told_once(tmp_path: Path) -> None:
    losses: list[ServiceEndedError] = []
    with Deployment(tmp_path, Heard()) as deployment:
        deployment.start([plan("a", SERVICE, vital=False), plan("b", SERVICE)])
        deployment._children["a"].kill()

        def lose(error: ServiceEndedError) -> None:
            losses.append(error)
            deployment._children["b"].kill()

        with pytest.raises(ServiceEndedError, match="b ended by SIGKILL"):
            deployment.watch(lose)
    assert [error.name for error in losses] == ["a"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_are_pinned(tmp_path: Path) -> None:
    first = frozenset([min(os.sched_getaffinity(0))])
    with Deployment(tmp_path, Heard()) as deployment:
        deployment.start([plan("a", SERVICE, cpus=first), plan("b", SERVICE)])
        pids = [child.pid for child in deployment._children.values()]
        assert os.sched_getaffinity(pids[0]) == first
        assert os.sched_getaffinity(pids[1]) == os.sched_getaffinity(0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_parent_and_all_children(tmp_path: Path, number: signal.Signals) -> None:
    with _parent(tmp_path, SERVICE) as parent:
        pids = _pids(parent)
        parent.send_signal(number)
        assert parent.wait(timeout=30) == 0
        assert parent.stdout is not None
        assert parent.stdout.read() == "interrupted\n"
    assert not any(alive(pid) for pid in pids)
    assert "stopped cleanly" in (tmp_path / "a.log").read_text()


def test_a_second_interruption_does_not_wait(tmp_path: Path) -> None:
    with _parent(tmp_path, IGNORES_SIGTERM) as parent:
        pids = _pids(parent)
        parent.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert parent.poll() is None
        parent.send_signal(signal.SIGINT)
        assert parent.wait(timeout=10) == 0
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("program", [SERVICE, IGNORES_SIGTERM])
def test_no_orphan_survives_the_killed_parent(tmp_path: Path, program: str) -> None:
    program = program.replace(
        "lifeline.end_with(0)", "lifeline.GRACE_S = 0.5\n" + "lifeline.end_with(0)"
    )
    with _parent(tmp_path, program) as parent:
        pids = _pids(parent)
        assert all(alive(pid) for pid in pids)
        parent.kill()
        parent.wait()
        wait_for(lambda: not any(alive(pid) for pid in pids))


def test_children_are_not_in_the_parents_process_group(tmp_path: Path) -> None:
    with Deployment(tmp_path, Heard()) as deployment:
        deployment.start([plan("a", SERVICE)])
        assert os.getpgid(deployment._children["a"].pid) != os.getpgid(0)


def _parent(folder: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _pids(parent: subprocess.Popen[str]) -> list[int]:
    assert parent.stdout is not None
    return [int(word) for word in parent.stdout.readline().split()]
