"""Programs that try to gain rights: mounts, namespaces, users, the clock, rare kernel
interfaces."""

from tests.sandbox.hostile.case import Hostile


def rise(name: str, code: str, says: str = "refused", **given: object) -> Hostile:
    """Return a program that would change the host or its own rights on it."""
    return Hostile(name, ("host",), code, says=says, **given)  # type: ignore[arg-type]


RIGHTS = [
    rise(
        "become_root",
        """
try:
    os.setresuid(0, 0, 0)  # in a user namespace it may be called root already
except OSError:
    pass
attempt(os.kill, PARENT, 0)
attempt(os.chown, CANARY, 0, 0)
""",
    ),
    rise("become_the_victims_group", "attempt(os.setgroups, [0])"),
    rise(
        "set_uid_program",
        """
import subprocess
ran = subprocess.run(["/usr/bin/su", "-c", "id"], capture_output=True, text=True, stdin=-3)
print("ESCAPED" if "uid=0(" in ran.stdout else "refused", ran.stderr)
""",
    ),
    rise(
        "own_set_uid_program",
        """
import shutil
import subprocess
shutil.copy("/usr/bin/cat", "cat")
try:
    os.chown("cat", 0, 0)
except OSError:
    pass
os.chmod("cat", 0o6755)
ran = subprocess.run(["./cat", SECRET_FILE], capture_output=True, text=True)
print("refused" if ran.returncode else "ESCAPED", ran.stdout, ran.stderr)
""",
    ),
    rise("mount", "attempt(system, 'mount', b'none', b'/tmp', b'tmpfs', 0, None)"),
    rise("remount", "attempt(system, 'mount', b'none', b'/', None, 32, None)"),
    rise("unmount", "attempt(system, 'umount2', b'/tmp', 2)"),
    rise("new_mount_interface", "attempt(system, 'fsopen', b'tmpfs', 0)"),
    rise("clone_of_a_mount", "attempt(system, 'open_tree', -100, b'/usr', 1)"),
    rise("other_root", "os.mkdir('root')\nattempt(os.chroot, 'root')"),
    rise("pivot", "os.mkdir('root')\nattempt(system, 'pivot_root', b'.', b'root')"),
    rise("user_namespace", "attempt(system, 'unshare', 0x10000000)"),
    rise("mount_namespace", "attempt(system, 'unshare', 0x20000)"),
    rise(
        "namespace_with_room",
        """
def take():
    system("unshare", 0x10000000 | 0x20000)
    system("mount", b"none", b"/tmp", b"tmpfs", 0, b"size=100g")
    return open("/tmp/bomb", "wb").write(bytes(2**26))
attempt(take)
""",
    ),
    rise(
        "namespace_by_clone",
        """
import ctypes
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
NUMBERS["clone"] = number
attempt(system, "clone", 0x10000000 | 17, 0, 0, 0, 0)
""",
    ),
    rise(
        "namespace_by_clone3",
        """
import ctypes
NUMBERS["clone3"] = 435
given = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
attempt(system, "clone3", given, 88)
""",
    ),
    rise(
        "namespace_of_a_shell",
        """
import subprocess
ran = subprocess.run(["/usr/bin/unshare", "-Ur", "id"], capture_output=True, text=True)
print("refused" if ran.returncode else "ESCAPED", ran.stderr)
""",
    ),
    rise("namespace_of_the_parent", "attempt(system, 'setns', 0, 0)"),
    rise("host_name", "attempt(__import__('socket').sethostname, 'taken')"),
    rise("clock", "attempt(time.clock_settime, time.CLOCK_REALTIME, 0)"),
    rise("clock_by_number", "attempt(system, 'settimeofday', None, None)"),
    rise(
        "clock_drift",
        "import ctypes\nattempt(system, 'adjtimex', ctypes.create_string_buffer(512))",
    ),
    rise("swap_off", "attempt(system, 'swapoff', b'/swapfile')"),
    rise("kernel_module", "attempt(system, 'init_module', b'', 0, b'')"),
    rise(
        "kernel_programs",
        "import ctypes\nattempt(system, 'bpf', 0, ctypes.create_string_buffer(128), 128)",
    ),
    rise(
        "counters",
        "attempt(system, 'perf_event_open', bytes(128), 0, -1, -1, 0)",
    ),
    rise("page_faults", "attempt(system, 'userfaultfd', 1)"),
    rise(
        "file_handles",
        "attempt(system, 'open_by_handle_at', -100, bytes(128), 0)",
    ),
    rise("new_key", "attempt(system, 'add_key', b'user', b'mine', b'x', 1, -3)"),
    rise("real_time", "attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(99))"),
    rise("higher_priority", "attempt(os.nice, -20)"),
    rise(
        "capabilities",
        """
import ctypes
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
data = (ctypes.c_uint32 * 6)(2**21, 2**21, 0, 0, 0, 0)
NUMBERS["capset"] = {"x86_64": 126, "aarch64": 91}[os.uname().machine]
attempt(system, "capset", header, data)
""",
    ),
    rise(
        "ambient_capability",
        """
import ctypes
NUMBERS["prctl"] = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
attempt(system, "prctl", 47, 2, 21, 0, 0)
""",
    ),
    rise(
        "calls_of_32_bits",
        """
import ctypes, mmap
if os.uname().machine != "x86_64":
    raise SystemExit(print("refused: no such calls here"))
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
print("refused, and ended", flush=True)
at = ctypes.addressof(ctypes.c_char.from_buffer(code))
print("ESCAPED", ctypes.CFUNCTYPE(ctypes.c_int)(at)())
""",
        ends=("ok", "killed"),
    ),
    rise(
        "other_table_of_calls",
        """
import ctypes
if os.uname().machine != "x86_64":
    raise SystemExit(print("refused: no such calls here"))
NUMBERS["x32"] = 0x40000000 + 39
attempt(system, "x32")
""",
    ),
]
