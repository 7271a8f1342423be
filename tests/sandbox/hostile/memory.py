"""Programs that allocate memory: at once, gradually, in many processes, and in uncounted places."""

from tests.sandbox.hostile.case import Hostile


def bomb(name: str, code: str, says: str = "refused", **given: object) -> Hostile:
    """Return a program that reports the refusal itself."""
    return Hostile(name, ("memory",), code, says=says, **given)  # type: ignore[arg-type]


ALONE = [
    bomb("hundred_gigabytes", "attempt(bytearray, 100 * 2**30)"),
    bomb("terabyte_list", "attempt(lambda: [0] * 2**40)"),
    bomb("string_of_gigabytes", "attempt(lambda: 'x' * (8 * 2**30))"),
    bomb("power_tower", "attempt(lambda: 1 << (100 * 2**33))"),
    bomb(
        "doubling_list",
        """
kept = [0]
def grow():
    while True:
        kept.extend(kept)
attempt(grow)
""",
    ),
    bomb(
        "small_blocks",
        """
kept = []
def grow():
    while True:
        kept.append(bytes(2**16))
attempt(grow)
""",
    ),
    bomb(
        "touched_pages",
        """
kept = []
def grow():
    while True:
        block = bytearray(2**22)
        block[::4096] = b"x" * len(block[::4096])
        kept.append(block)
attempt(grow)
""",
    ),
    bomb("anonymous_map", "import mmap\nattempt(mmap.mmap, -1, 64 * 2**30)"),
    bomb(
        "many_maps",
        """
import mmap
kept = []
def grow():
    while True:
        kept.append(mmap.mmap(-1, 2**24))
        kept[-1].write(bytes(2**24))
attempt(grow)
""",
    ),
    bomb(
        "map_without_reserve",
        """
import mmap
attempt(lambda: mmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000))
""",
    ),
    bomb(
        "raise_memory_limit",
        """
import resource
try:
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    print("ESCAPED")
except ValueError as error:
    print("refused", error)
attempt(bytearray, 4 * 2**30)
""",
    ),
    bomb("locked_memory", "import ctypes\nattempt(bytearray, 2**31)\n"),
    bomb(
        "regular_expression_state",
        "import re\nattempt(lambda: re.compile('x' * 10**9))",
    ),
    bomb(
        "decompression_bomb",
        """
import zlib
packed = zlib.compress(bytes(2**26), 9)
def grow():
    return b"".join(zlib.decompress(packed) for _ in range(64))
attempt(grow)
""",
    ),
    bomb(
        "dictionary_bomb",
        "def grow():\n    return {n: str(n) for n in range(10**9)}\nattempt(grow)",
    ),
]

TOGETHER = [
    bomb(
        "children_together",
        """
print("on", flush=True)
for _ in range(10):
    if os.fork() == 0:
        kept = bytearray(80 * 2**20)
        for at in range(0, len(kept), 4096):
            kept[at] = 1
        time.sleep(600)
time.sleep(600)
""",
        says="MiB in all",
        ends=("killed",),
    ),
    bomb(
        "shared_map_of_children",
        """
import mmap
print("on", flush=True)
for _ in range(12):
    if os.fork() == 0:
        kept = mmap.mmap(-1, 80 * 2**20)
        for at in range(0, len(kept), 4096):
            kept[at] = 1
        time.sleep(600)
time.sleep(600)
""",
        says="MiB in all",
        ends=("killed",),
    ),
    bomb(
        "daemons_together",
        """
print("on", flush=True)
for _ in range(10):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        kept = bytearray(80 * 2**20)
        for at in range(0, len(kept), 4096):
            kept[at] = 1
        time.sleep(600)
    else:
        os.wait()
time.sleep(600)
""",
        says="MiB in all",
        ends=("killed",),
    ),
    bomb(
        "programs_together",
        """
import subprocess
grow = "x = bytearray(80 * 2**20); x[::4096] = b'x' * len(x[::4096]); import time; time.sleep(600)"
kept = [subprocess.Popen([sys.executable, "-I", "-S", "-c", grow]) for _ in range(9)]
time.sleep(600)
""",
        says="MiB in all",
        ends=("killed",),
    ),
]

UNCOUNTED = [
    bomb("memory_file", "attempt(os.memfd_create, 'bomb')"),
    bomb("memory_file_by_number", "attempt(system, 'memfd_create', b'bomb', 0)"),
    bomb("secret_memory", "attempt(system, 'memfd_secret', 0)"),
    bomb("system_v_memory", "attempt(system, 'shmget', 0, 2**30, 0o1600)"),
    bomb("system_v_messages", "attempt(system, 'msgget', 0, 0o1600)"),
    bomb("system_v_semaphores", "attempt(system, 'semget', 0, 32000, 0o1600)"),
    bomb("posix_queue", "attempt(system, 'mq_open', b'bomb', 66, 0o600, 0)"),
    bomb(
        "shared_memory_module",
        """
from multiprocessing import shared_memory
attempt(lambda: shared_memory.SharedMemory(create=True, size=2**30))
""",
    ),
    bomb("shared_memory_folder", "attempt(open, '/dev/shm/bomb', 'wb')"),
    bomb(
        "spliced_pages",
        """
import ctypes
reader, writer = os.pipe()
page = ctypes.create_string_buffer(4096)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(page), 4096)
attempt(system, "vmsplice", writer, vector, 1, 8)
""",
    ),
    bomb(
        "pipes_full",
        """
import fcntl
kept = []
def fill():
    while True:
        reader, writer = os.pipe()
        kept.append(reader)
        fcntl.fcntl(writer, 1031, 2**20)
        os.set_blocking(writer, False)
        os.write(writer, bytes(2**20))
attempt(fill)
""",
    ),
    bomb(
        "sockets_full",
        """
import socket
kept = []
def fill():
    while True:
        pair = socket.socketpair()
        kept.append(pair)
        for one in pair:
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**30)
            try:
                while one.send(bytes(2**16)):
                    pass
            except BlockingIOError:
                pass
attempt(fill)
""",
    ),
    bomb(
        "pending_signals",
        """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
import ctypes
library = ctypes.CDLL(None, use_errno=True)
sent = 0
while sent < 10**6 and library.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) == 0:
    sent += 1
print("refused" if sent < 1000 else "ESCAPED", sent)
""",
    ),
]

MEMORY = ALONE + TOGETHER + UNCOUNTED
