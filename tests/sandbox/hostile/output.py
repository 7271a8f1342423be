"""Programs that flood our output, forge results, or exploit how their output is read."""

from tests.sandbox.hostile.case import Hostile

FLOODS = [
    Hostile(name, ("output", "time"), code, says=says, ends=("killed",))
    for name, says, code in [
        ("endless_lines", "yes", "while True: print('yes' * 1000)"),
        ("endless_line", "yes", "while True: sys.stdout.write('yes' * 1000)"),
        ("endless_errors", "no", "while True: print('no' * 1000, file=sys.stderr)"),
        ("endless_zeros", "\0", "while True: os.write(1, bytes(2**16))"),
        ("endless_halves", "\ufffd", "while True: os.write(1, b'\\xc3' * 2**16)"),
        (
            "both_endless",
            "yes",
            "while True: print('yes' * 999); print('no' * 999, file=sys.stderr)",
        ),
        (
            "endless_children",
            "yes",
            "for _ in range(3): os.fork()\nwhile True: os.write(1, b'yes' * 9999)",
        ),
        ("endless_program", "yes", "os.execv('/usr/bin/yes', ['yes', 'yes'])"),
        ("endless_random", "", "while True: os.write(1, os.urandom(2**16))"),
    ]
]

LIES = [
    Hostile(
        "false_start",
        ("output",),
        "os.write(2, b'\\0tutti: the program starts here\\0' * 3)\nprint('refused')",
    ),
    Hostile(
        "false_exit_of_a_launcher",
        ("output",),
        "print('x')\nos._exit(137)",
        says="x",
        ends=("killed",),
    ),
    Hostile("exit_without_a_word", ("output",), "os._exit(7)", says="", ends=("error",)),
    Hostile(
        "streams_closed",
        ("output", "processes"),
        "os.closerange(0, 64)\ntime.sleep(0.05)\nos._exit(0)",
        says="",
    ),
    Hostile(
        "streams_closed_for_ever",
        ("output", "time", "processes"),
        "os.closerange(0, 64)\ntime.sleep(600)",
        says="",
        ends=("timeout",),
        seconds=1.0,
    ),
    Hostile(
        "terminal_commands",
        ("output",),
        "print('\\x1b]0;taken\\x07\\x1b[2J refused')",
    ),
    Hostile(
        "error_that_fails_to_show",
        ("output",),
        """
class Bad(Exception):
    def __str__(self):
        raise Bad
print("refused", flush=True)
raise Bad
""",
        ends=("error",),
    ),
    Hostile(
        "library_taken_over",
        ("output", "host"),
        """
import builtins, traceback
traceback.print_exception = builtins.compile = builtins.exec = None
print("refused", flush=True)
raise ValueError
""",
        ends=("error",),
    ),
    Hostile(
        "huge_error",
        ("output",),
        "print('x')\nraise ValueError('y' * 10**7)",
        says="y",
        ends=("error",),
    ),
    Hostile(
        "exit_hook_that_stays",
        ("time", "processes"),
        "import atexit\natexit.register(time.sleep, 600)\nprint('x')",
        says="x",
        ends=("timeout",),
        seconds=1.0,
    ),
    Hostile(
        "finalizer_that_stays",
        ("time", "processes"),
        "class Bad:\n    def __del__(self, wait=time.sleep): wait(600)\nkept = Bad()\nprint('x')",
        says="x",
        ends=("timeout", "ok"),
        seconds=1.0,
    ),
]

OUTPUT = FLOODS + LIES
