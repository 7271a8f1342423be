"""What runs inside the sandbox before and around the program.

`sandbox` sends these functions as text to a bare interpreter, so each imports what it needs and
nothing of a module is in sight there.
"""


def run_inside(
    resources: dict[str, int], ready: bytes, environment: dict[str, str], fenced: bool
) -> None:
    """Lower the limits for good, say `ready` on stderr, and run the program given on stdin."""
    import os
    import resource
    import sys

    with open(0, "rb", closefd=False) as program:
        source = program.read()
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()  # of what launchers add
    os.environ.update(environment)
    for name, value in resources.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lowest, lowest))
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["<program>"]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what a kill leaves
    if fenced:
        fence(os.getcwd())
    os.write(2, ready)
    try:
        exec(compile(source, "<program>", "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        show_error(error, source)
        sys.exit(1)


def show_error(error: BaseException, source: bytes) -> None:
    """The traceback as Python shows it, with the program's own lines, from its first frame on."""
    import sys

    try:
        import linecache
        import traceback

        lines = source.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache["<program>"] = (len(source), None, lines, "<program>")
        first = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, first, file=sys.__stderr__)
    except MemoryError:
        print(type(error).__name__, file=sys.__stderr__)  # what holds the memory is still alive


def fence(scratch: str) -> None:
    """Refuse, by audit hook, what reaches out of the scratch folder and the standard library."""
    import _posixsubprocess
    import os
    import sys

    resolve, as_text = os.path.realpath, os.fsdecode
    readable = (resolve(os.path.dirname(os.__file__)), "/usr/share/zoneinfo", "/dev/null", scratch)
    writable = (scratch, "/dev/null")
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    listing = {"os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.getxattr", "os.listxattr"}
    changing = {"chdir", "chmod", "chown", "mkdir", "remove", "removexattr", "rmdir", "setxattr"}
    changing = {f"os.{name}" for name in changing | {"truncate", "utime"}} | {"sqlite3.connect"}
    pairs = {"os.link", "os.rename", "os.symlink"}
    harmless = {"os.putenv", "os.unsetenv", "os.lockf"}
    families = ("os.", "socket.", "subprocess.", "ctypes.", "pty.", "syslog.", "gc.get_")
    others = {"cpython.PyInterpreterState_New", "resource.prlimit"}

    def inside(path: object, folders: tuple[str, ...]) -> bool:
        if path is None or isinstance(path, int):
            return True  # the working folder, or what is open already
        text = as_text(path)  # type: ignore[arg-type]
        full = resolve(text)
        short = len(full) < 1000  # a deeper tree could not be removed again
        below = any(full == folder or full.startswith(folder + "/") for folder in folders)
        return short and below and (text.startswith("/") or ".." not in text)

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
            return args[1] == 1  # AF_UNIX, which asyncio talks to itself by; connecting it is not
        return event in harmless or not (event.startswith(families) or event in others)

    def hook(event: str, args: tuple[object, ...]) -> None:
        if not allowed(event, args):
            raise PermissionError(f"the sandbox refuses {event}{args!r}"[:200])

    def refuse(*_: object) -> None:
        raise PermissionError("the sandbox refuses new processes")

    _posixsubprocess.fork_exec = refuse  # type: ignore[assignment]  # it raises no audit event
    sys.addaudithook(hook)
