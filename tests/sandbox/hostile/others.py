"""Programs that attack other processes: ours, the launcher's, any other."""

from tests.sandbox.hostile.case import Hostile


def harm(name: str, code: str, says: str = "refused", **given: object) -> Hostile:
    """Return a program whose victims outside must not be affected."""
    return Hostile(name, ("victims",), code, says=says, **given)  # type: ignore[arg-type]


OTHERS = [
    harm("kill_the_parent", "attempt(os.kill, PARENT, 9)"),
    harm("kill_the_victim", "attempt(os.kill, VICTIM, 9)"),
    harm("stop_the_victim", "attempt(os.kill, VICTIM, 19)"),
    harm("kill_the_victims_group", "attempt(os.killpg, VICTIM, 9)"),
    harm(
        "kill_all",
        "attempt(os.kill, -1, 9)",
    ),
    harm(
        "kill_its_group",
        "print('refused, or its own end', flush=True)\nos.kill(0, 9)",
        ends=("ok", "killed"),
    ),
    harm(
        "kill_the_launcher",
        """
print("refused, or its own end", flush=True)
for number in (os.getppid(), 1):
    try:
        os.kill(number, 9)
    except OSError:
        pass
time.sleep(0.05)
""",
        ends=("ok", "killed"),
    ),
    harm(
        "kill_every_number",
        """
import signal
hit = 0
for number in range(2, 70000):
    if number not in (os.getpid(),):
        try:
            os.kill(number, signal.SIGTERM)
            hit += 1
        except OSError:
            continue
print("refused" if hit == 0 else "ESCAPED", hit)
""",
    ),
    harm("handle_on_the_victim", "attempt(os.pidfd_open, VICTIM)"),
    harm("trace_the_victim", "attempt(system, 'ptrace', 16, VICTIM, 0, 0)"),
    harm("trace_the_parent", "attempt(system, 'ptrace', 0x4206, PARENT, 0, 0)"),
    harm(
        "read_the_victims_memory",
        """
import ctypes
room = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(room), 64)
attempt(system, "process_vm_readv", VICTIM, vector, 1, vector, 1, 0)
""",
    ),
    harm(
        "write_the_victims_memory",
        """
import ctypes
room = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(room), 64)
attempt(system, "process_vm_writev", VICTIM, vector, 1, vector, 1, 0)
""",
    ),
    harm(
        "lower_the_victims_limits", "import resource\nattempt(resource.prlimit, VICTIM, 7, (0, 0))"
    ),
    harm("slow_the_victim", "attempt(os.setpriority, os.PRIO_PROCESS, VICTIM, 19)"),
    harm("pin_the_victim", "attempt(os.sched_setaffinity, VICTIM, {0})"),
    harm("terminal_of_the_parent", "attempt(open, '/dev/tty', 'w')"),
]
