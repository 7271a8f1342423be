"""Programs that multiply, and processes meant to outlive the run."""

from tests.sandbox.hostile.case import Hostile

BOMBS = [
    Hostile(
        "fork_bomb",
        ("processes", "time"),
        """
print("on", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        says="on",
        ends=("timeout", "killed"),
        seconds=1.0,
    ),
    Hostile(
        "fork_until_refused",
        ("processes",),
        """
made = 0
try:
    for _ in range(500):
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError as error:
    print("refused after", made, error)
""",
    ),
    Hostile(
        "fork_chain",
        ("processes",),
        """
depth = 0
try:
    while depth < 500:
        if os.fork():
            time.sleep(600)
        depth += 1
    os.write(1, b"ESCAPED")
except OSError:
    os.write(1, b"refused at %d" % depth)
    os.kill(-1, 9)
""",
        ends=("killed",),
    ),
    Hostile(
        "shell_fork_bomb",
        ("processes", "time"),
        """
import subprocess
print("on", flush=True)
subprocess.run(["/usr/bin/sh", "-c", "f() { f | f & }; f; sleep 600"])
time.sleep(600)
""",
        says="on",
        ends=("timeout",),
        seconds=1.0,
    ),
    Hostile(
        "subprocess_bomb",
        ("processes",),
        """
import subprocess
try:
    kept = [subprocess.Popen(["/usr/bin/sleep", "600"]) for _ in range(300)]
    print("ESCAPED", len(kept))
except OSError as error:
    print("refused", error)
""",
    ),
    Hostile(
        "thread_bomb",
        ("processes",),
        """
import threading
made = 0
try:
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        made += 1
    print("ESCAPED", made)
except RuntimeError as error:
    print("refused after", made, error, flush=True)
os._exit(0)
""",
    ),
    Hostile(
        "small_stack_thread_bomb",
        ("processes",),
        """
import threading
threading.stack_size(32768)
made = 0
try:
    for _ in range(20000):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        made += 1
    print("ESCAPED", made)
except RuntimeError as error:
    print("refused after", made, error, flush=True)
os._exit(0)
""",
    ),
    Hostile(
        "executor_bomb",
        ("processes",),
        """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(10000)
try:
    for _ in range(10000):
        pool.submit(time.sleep, 600)
    print("ESCAPED")
except RuntimeError as error:
    print("refused", error, flush=True)
os._exit(0)
""",
    ),
    Hostile(
        "multiprocessing_pool",
        ("processes",),
        "import multiprocessing\nattempt(multiprocessing.Pool, 64)",
    ),
    Hostile(
        "posix_spawn_bomb",
        ("processes",),
        """
try:
    for _ in range(300):
        os.posix_spawn("/usr/bin/sleep", ["sleep", "600"], {})
    print("ESCAPED")
except OSError as error:
    print("refused", error)
""",
    ),
    Hostile(
        "raise_process_limit_then_fork",
        ("processes",),
        """
import resource
def raised():
    resource.setrlimit(resource.RLIMIT_NPROC, (100000, 100000))
try:
    raised()
    print("ESCAPED")
except ValueError as error:
    print("refused", error)
for _ in range(64):
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        break
""",
    ),
    Hostile(
        "raise_process_limit_by_prlimit",
        ("processes",),
        """
import resource
try:
    resource.prlimit(os.getppid(), resource.RLIMIT_NPROC, (100000, 100000))
    print("ESCAPED")
except (OSError, ValueError) as error:
    print("refused", error)
""",
    ),
]

LEFT = [
    Hostile(
        name,
        ("processes",),
        code,
        says="left",
    )
    for name, code in {
        "orphan": "if os.fork() == 0:\n    time.sleep(600)\nprint('left')",
        "daemon_by_double_fork": """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 64)
    time.sleep(600)
print("left")
""",
        "daemon_that_holds_the_output": """
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(1, b".")
        time.sleep(0.5)
print("left")
""",
        "daemon_in_its_own_group": """
if os.fork() == 0:
    os.setpgid(0, 0)
    time.sleep(600)
print("left")
""",
        "daemon_deaf_to_signals": """
import signal
if os.fork() == 0:
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    os.setsid()
    time.sleep(600)
time.sleep(0.05)
print("left")
""",
        "nohup": """
import subprocess
subprocess.Popen(["/usr/bin/nohup", "/usr/bin/sleep", "600"], stdout=-3, stderr=-3)
print("left")
""",
        "setsid_shell": """
import subprocess
subprocess.run(["/usr/bin/setsid", "-f", "/usr/bin/sleep", "600"])
print("left")
""",
        "background_shell": """
import subprocess
subprocess.run(["/usr/bin/sh", "-c", "sleep 600 & sleep 600 & exit 0"])
print("left")
""",
        "zombies": """
for _ in range(10):
    if os.fork() == 0:
        os._exit(0)
print("left")
""",
        "stopped_child": """
import signal
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.05)
print("left")
""",
        "child_without_a_death_signal": """
import ctypes
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
if os.fork() == 0:
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    os.setsid()
    time.sleep(600)
print("left")
""",
        "child_that_waits_for_the_end": """
if os.fork() == 0:
    os.setsid()
    while os.getppid() != 1:
        time.sleep(0.01)
    open(CANARY, "w").write("outlived")
print("left")
""",
        "renamed_child": """
import subprocess
subprocess.Popen(["[kworker/0:1]", "600"], executable="/usr/bin/sleep", start_new_session=True)
print("left")
""",
        "relay_of_children": """
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
print("left")
""",
    }.items()
]

PROCESSES = BOMBS + LEFT
