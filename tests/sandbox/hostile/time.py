"""Programs that never end, or end in the worst way."""

from tests.sandbox.hostile.case import Hostile


def stay(name: str, code: str) -> Hostile:
    """Return a program that only its time limit ends."""
    return Hostile(
        name, ("time", "processes"), "print('on', flush=True)\n" + code, "on", ("timeout",), 1.0
    )


DEAF = """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, {handler})
    except (OSError, ValueError):
        continue
"""

TIME = [
    stay("sleep", "time.sleep(600)"),
    stay("spin", "while True: pass"),
    stay("spin_in_c", "sum(range(10**12))"),
    stay("spin_in_a_regular_expression", "import re\nre.match('(a+)+$', 'a' * 40 + 'b')"),
    stay("large_power", "3 ** (10 ** 9)"),
    stay("signals_ignored", DEAF.format(handler="signal.SIG_IGN") + "time.sleep(600)"),
    stay(
        "signals_handled",
        DEAF.format(handler="lambda *_: None") + "while True: time.sleep(600)",
    ),
    stay(
        "signals_blocked",
        "import signal\nsignal.pthread_sigmask(0, range(1, 65))\ntime.sleep(600)",
    ),
    stay("interrupts_swallowed", "while True:\n    try: time.sleep(600)\n    except: pass"),
    stay("deadlock", "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()"),
    stay(
        "thread_that_stays",
        "import threading\nthreading.Thread(target=time.sleep, args=[600]).start()",
    ),
    stay("stopped", "import signal\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(600)"),
    stay("pipe_that_nobody_writes", "os.read(os.pipe()[0], 1)"),
    Hostile(
        "deep_recursion",
        ("memory", "time"),
        "sys.setrecursionlimit(10**9)\nprint('on', flush=True)\ndef f(): return f()\nf()",
        says="on",
        ends=("error", "killed"),
        seconds=60.0,  # it fills all its memory with frames, and each is a line of its traceback
    ),
    Hostile(
        "recursion_in_c",
        ("memory", "time"),
        """
sys.setrecursionlimit(10**9)
print("on", flush=True)
kept = []
for _ in range(10**6):
    kept = [kept]
repr(kept)
""",
        says="on",
        ends=("error", "killed"),
    ),
    Hostile(
        "broken_memory",
        ("victims",),
        "import ctypes\nprint('on', flush=True)\nctypes.string_at(0)",
        says="on",
        ends=("killed",),
    ),
    Hostile(
        "nested_source",
        ("time",),
        "print('on', flush=True)\neval('(' * 10**6 + ')' * 10**6)",
        says="on",
        ends=("error", "killed"),
    ),
    Hostile(
        "spinning_children",
        ("time", "processes"),
        "print('on', flush=True)\nfor _ in range(8):\n    if not os.fork(): break\nwhile True: 0",
        says="on",
        ends=("timeout",),
        seconds=1.0,
    ),
]
