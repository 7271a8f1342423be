"""Programs that read foreign data: processes, files, devices, the store, secrets."""

from tests.sandbox.hostile.case import Hostile


def read(name: str, code: str, says: str = "refused", **given: object) -> Hostile:
    """Return a program that would print the secret of the world outside, or the files beside it."""
    return Hostile(name, ("secret",), code, says=says, **given)  # type: ignore[arg-type]


PROC = [
    read("proc_of_the_parent", "attempt(lambda: open(f'/proc/{PARENT}/environ').read())"),
    read("proc_of_the_first", "attempt(lambda: open('/proc/1/environ').read())"),
    read("proc_of_the_launcher", "attempt(lambda: open(f'/proc/{os.getppid()}/cmdline').read())"),
    read("proc_memory_of_the_parent", "attempt(lambda: open(f'/proc/{PARENT}/mem', 'rb').read(1))"),
    read("proc_files_of_the_parent", "attempt(os.listdir, f'/proc/{PARENT}/fd')"),
    read("proc_root_of_the_parent", "attempt(os.listdir, f'/proc/{PARENT}/root')"),
    read("proc_mounts", "attempt(lambda: open('/proc/self/mountinfo').read())"),
    read(
        "proc_listing",
        """
found = os.listdir("/proc") if os.path.isdir("/proc") else []
print("ESCAPED" if found else "refused: nothing there")
""",
    ),
]

SECRETS = [
    read("environment", "print('refused:', dict(os.environ))\nprint(os.environb)"),
    read(
        "environment_of_a_shell",
        "import subprocess\nprint('refused:', flush=True)\nsubprocess.run(['/usr/bin/env'])",
    ),
    read(
        "environment_from_memory",
        """
import ctypes
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
found = []
while environ[len(found)]:
    found.append(environ[len(found)])
print("refused:", found)
""",
    ),
    read(
        "words_above_the_stack",
        """
import ctypes
print("refused:", sys.orig_argv[:4], ctypes.string_at(id(os.environ), 200))
""",
    ),
    read(
        "inherited_descriptors",
        """
kept = []
for number in range(64):
    try:
        os.fstat(number)
        kept.append(number)
    except OSError:
        continue
print("refused" if kept == [0, 1, 2] else "ESCAPED", kept)
""",
    ),
    read("input", "print('refused: input', repr(sys.stdin.read()))"),
    read(
        "keyring",
        """
import ctypes
def steal():
    key = system("keyctl", 10, -3, b"user", KEY, 0)
    room = ctypes.create_string_buffer(4096)
    system("keyctl", 11, key, room, 4096)
    return room.value
attempt(steal)
""",
    ),
    read("keyring_by_request", "attempt(system, 'request_key', b'user', KEY, None, -3)"),
]

FILES_OF_THE_HOST = [
    read("secret_file", "attempt(lambda: open(SECRET_FILE).read())"),
    read("store", "attempt(lambda: open(STORE + '/catalog.db').read())"),
    read("store_listing", "attempt(os.listdir, STORE)"),
    read("store_by_walk", "print('refused:', list(os.walk(STORE)))"),
    read(
        "store_by_a_link",
        "os.symlink(STORE, 'store')\nattempt(lambda: open('store/catalog.db').read())",
    ),
    read(
        "store_by_sqlite",
        """
import sqlite3
try:
    sqlite3.connect(f"file:{STORE}/catalog.db?mode=ro&immutable=1", uri=True).execute("select 1")
    print("ESCAPED")
except sqlite3.OperationalError as error:
    print("refused", error)
""",
    ),
    read(
        "whole_disk",
        """
import subprocess
found = subprocess.run(["/usr/bin/find", "/", "-xdev", "-name", "secret*", "-path", "*tutti*"],
                       capture_output=True, text=True)
print("refused:", found.stdout)
""",
    ),
    read("passwords", "attempt(lambda: open('/etc/shadow').read())"),
    read("users", "attempt(lambda: open('/etc/passwd').read())"),
    read(
        "home",
        """
found = os.listdir(HOME) if os.path.isdir(HOME) else []
others = [name for name in found if not sys.base_prefix.startswith(f"{HOME}/{name}")]
print("ESCAPED" if others else "refused", others)
""",
    ),
    read("our_sources", "attempt(lambda: open(SOURCES + '/pyproject.toml').read())"),
    read("temporary_files", "print('refused' if os.listdir('/tmp') == ['scratch'] else 'ESCAPED')"),
    read(
        "other_scratch_folders",
        "print('refused' if os.listdir('..') == ['scratch'] else 'ESCAPED')",
    ),
    read(
        "shared_memory",
        """
found = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
print("ESCAPED" if found else "refused: nothing there")
""",
    ),
]

DEVICES = [
    read("physical_memory", "attempt(open, '/dev/mem', 'rb')"),
    read("kernel_messages", "attempt(open, '/dev/kmsg', 'rb')"),
    read("kernel_log_by_number", "attempt(system, 'syslog', 3, b' ' * 4096, 4096)"),
    read("disks", "attempt(open, '/dev/vda', 'rb')"),
    read(
        "own_device_node",
        "import stat\nattempt(os.mknod, 'disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0))",
    ),
    read("kernel_settings", "attempt(os.listdir, '/sys/kernel')"),
    read("control_groups", "attempt(os.listdir, '/sys/fs/cgroup')"),
]

READING = PROC + SECRETS + FILES_OF_THE_HOST + DEVICES
