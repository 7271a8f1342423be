"""Code that runs inside the sandbox, before and around the program.

`walls` sends these functions as text to a bare interpreter. Each function therefore imports what it
needs and uses no other name of this module. The program can forge anything that this code reports,
so the parent does not trust it more than the program's own output.
"""

from typing import Any


def run_program(ready: bytes, settings: dict[str, Any]) -> None:
    """Lower the limits permanently, write `ready` to stderr, and run the program given on stdin."""
    import os
    import sys

    with open(0, "rb", closefd=False) as program:
        source = program.read()
    module = lower(**settings)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # for output before a kill
    os.write(2, ready)
    execute(source, module.__dict__)


def serve_cells(ready: bytes, settings: dict[str, Any]) -> None:
    """Run cells from stdin in one module, each after a line with its mark and its length.

    Each stream's output of a cell ends with the mark; on stderr "o" (ok) or "e" (error) follows. A
    forked process that returns from a cell exits here.
    """
    import fcntl
    import os
    import sys

    # Clear of the descriptors that a program expects: 0 to 2, and the next free ones.
    cells, out, err = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 60) for number in (0, 1, 2))
    kernel = os.getpid()
    module = lower(**settings)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # for output before a kill
    os.write(err, ready)
    count = 0
    with open(cells, "rb") as given:
        while header := given.readline().split():
            source = given.read(int(header[1]))
            count += 1
            outcome = run_cell(source, f"<cell {count}>", module.__dict__)
            if os.getpid() != kernel:
                os._exit(0)
            os.write(out, header[0])
            os.write(err, header[0] + outcome)


def converse(ready: bytes, settings: dict[str, Any]) -> None:
    """Run the program in the first message, with `send` and `receive` for messages."""
    import fcntl
    import os

    # Clear of the descriptors that a program expects: 0 to 2, and the next free ones.
    given, out = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 60) for number in (0, 1))
    module = lower(**settings)
    os.dup2(0, 1)  # messages written when nobody reads are discarded
    incoming = os.fdopen(given, "rb")
    os.write(2, ready)

    def receive() -> bytes:
        header = incoming.readline()
        if not header:
            os._exit(0)  # the other side has ended
        return incoming.read(int(header))

    write = os.write  # as it is now: the program may change the module

    def send(data: bytes) -> None:
        left = memoryview(b"%d\n%b" % (len(data), data))
        while left:
            left = left[write(out, left) :]

    source = receive()
    module.send, module.receive = send, receive
    execute(source, module.__dict__)


def execute(source: bytes, variables: dict[str, Any]) -> None:
    """Run a program; exit with 1 if it raises."""
    import sys

    try:
        exec(compile(source, "<program>", "exec", dont_inherit=True), variables)
    except SystemExit:
        raise
    except BaseException as error:
        show_error(error, source, "<program>")
        sys.exit(1)


def run_cell(source: bytes, name: str, variables: dict[str, Any]) -> bytes:
    """Run one cell and show its last expression's value; return b"o", or b"e" if it raised."""
    import ast
    import sys

    outcome = b"o"
    try:
        only_tree = ast.PyCF_ONLY_AST
        tree: ast.Module = compile(source, name, "exec", only_tree, dont_inherit=True)
        end = tree.body[-1] if tree.body else None
        last = end if isinstance(end, ast.Expr) else None
        if last is not None:
            tree.body.pop()
        exec(compile(tree, name, "exec", dont_inherit=True), variables)
        if last is not None:
            value = ast.Expression(last.value)
            sys.displayhook(eval(compile(value, name, "eval", dont_inherit=True), variables))
    except SystemExit:
        raise
    except BaseException as error:
        show_error(error, source, name)
        outcome = b"e"
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    return outcome


def lower(
    resources: dict[str, int],
    environment: dict[str, str],
    call_filter: bytes,
    walled: bool,
    files: int,
) -> Any:
    """Permanently drop all rights that the program must not have; return its module."""
    import os
    import resource
    import sys

    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()  # variables that launchers add
    os.environ.update(environment)
    for name, value in resources.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lowest, lowest))
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["<program>"]
    if call_filter:
        filter_calls(call_filter, required=walled)
    if not walled:
        fence(os.getcwd(), files)
    return module


def filter_calls(call_filter: bytes, required: bool) -> None:
    """Install a BPF program by which the kernel refuses system calls."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    no_new_privileges, set_seccomp, by_filter = 38, 22, 2
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    prctl(no_new_privileges, 1, 0, 0, 0)
    program = Program(len(call_filter) // 8, call_filter)
    failed = prctl(set_seccomp, by_filter, ctypes.addressof(program), 0, 0)
    if failed and required:
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


def show_error(error: BaseException, source: bytes, name: str) -> None:
    """Print the traceback as Python does, with the program's own lines, from its first frame on."""
    import sys

    try:
        import linecache
        import traceback

        lines = source.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        first = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, first, file=sys.__stderr__)
    except MemoryError:
        # the objects that hold the memory are still alive
        print(type(error).__name__, file=sys.__stderr__)


def fence(scratch: str, files: int) -> None:
    """Refuse, by audit hook, access outside the scratch folder and the standard library."""
    import _posixsubprocess
    import os
    import sys

    resolve, as_text = os.path.realpath, os.fsdecode
    library = resolve(os.path.dirname(os.__file__))
    own = (resolve(sys.prefix),) if sys.prefix != sys.base_prefix else ()  # an environment
    readable = (library, "/usr/share/zoneinfo", "/dev/null", scratch, *own)
    writable = (scratch, "/dev/null")
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    listing = {"os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.getxattr", "os.listxattr"}
    changing = {"chdir", "chmod", "chown", "mkdir", "remove", "removexattr", "rmdir", "setxattr"}
    changing = {f"os.{name}" for name in changing | {"truncate", "utime"}} | {"sqlite3.connect"}
    pairs = {"os.link", "os.rename", "os.symlink"}
    harmless = {"os.putenv", "os.unsetenv", "os.lockf"}
    families = ("os.", "socket.", "subprocess.", "ctypes.", "pty.", "syslog.", "gc.get_")
    others = {"cpython.PyInterpreterState_New", "resource.prlimit"}
    written: set[str] = set()  # a folder with a million files could not be removed quickly

    def inside(path: object, folders: tuple[str, ...]) -> bool:
        if path is None or isinstance(path, int):
            return True  # the working folder, or a file that is already open
        text = as_text(path)  # type: ignore[arg-type]
        if text.startswith("file:"):
            return False  # SQLite reads it as a URI, not as a name in the working folder
        full = resolve(text)
        short = len(full) < 1000  # a deeper tree could not be removed
        below = any(full == folder or full.startswith(folder + "/") for folder in folders)
        if not (short and below and (text.startswith("/") or ".." not in text)):
            return False
        if folders is writable:
            written.add(full)
        return len(written) <= files

    def allowed(event: str, args: tuple[object, ...]) -> bool:
        if event == "open":
            path, mode, flags = args
            reads = mode is not None and isinstance(flags, int) and not flags & writes
            return inside(path, readable if reads else writable)
        if event in listing:
            return inside(args[0], readable)
        if event in changing or event in pairs:
            paths = args[:2] if event in pairs else args[:1]
            return paths == (":memory:",) or all(inside(path, writable) for path in paths)
        if event == "socket.__new__":
            return args[1] == 1  # AF_UNIX, which asyncio uses internally; connecting it is refused
        return event in harmless or not (event.startswith(families) or event in others)

    def hook(event: str, args: tuple[object, ...]) -> None:
        if not allowed(event, args):
            raise PermissionError(f"the sandbox refuses {event}{args!r}"[:200])

    def refuse(*_: object) -> None:
        raise PermissionError("the sandbox refuses new processes")

    _posixsubprocess.fork_exec = refuse  # type: ignore[assignment]  # it raises no audit event
    sys.addaudithook(hook)


SENT = (
    *(run_program, serve_cells, converse, execute, run_cell),
    *(lower, filter_calls, show_error, fence),
)
"""Functions sent to the other side."""
