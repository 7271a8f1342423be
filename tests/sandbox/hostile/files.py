"""Programs that write where they may not, or more than allowed."""

from tests.sandbox.hostile.case import Hostile


def write(name: str, code: str, says: str = "refused", **given: object) -> Hostile:
    """Return a program whose traces would be in the folder outside."""
    return Hostile(name, ("canary",), code, says=says, **given)  # type: ignore[arg-type]


OUTSIDE = [
    write("overwrite", "attempt(open, CANARY, 'w')"),
    write("append", "attempt(open, CANARY, 'a')"),
    write("truncate", "attempt(os.truncate, CANARY, 0)"),
    write("remove", "attempt(os.remove, CANARY)"),
    write("rename_away", "attempt(os.rename, CANARY, 'mine')"),
    write("rename_over", "open('mine', 'w').write('x')\nattempt(os.replace, 'mine', CANARY)"),
    write("new_file_beside", "attempt(open, FOLDER + '/new', 'w')"),
    write("new_folder_beside", "attempt(os.mkdir, FOLDER + '/new')"),
    write("change_mode", "attempt(os.chmod, CANARY, 0)"),
    write("change_owner", "attempt(os.chown, CANARY, 0, 0)"),
    write("change_times", "attempt(os.utime, CANARY, (0, 0))"),
    write("attribute", "attempt(os.setxattr, CANARY, 'user.mark', b'x')"),
    write("remove_tree", "import shutil\nattempt(shutil.rmtree, FOLDER)"),
    write(
        "by_a_symbolic_link",
        "os.symlink(CANARY, 'link')\nattempt(open, 'link', 'w')",
        says="refused",
    ),
    write(
        "by_a_linked_folder",
        "os.symlink(FOLDER, 'folder')\nattempt(open, 'folder/new', 'w')",
    ),
    write("by_a_hard_link", "attempt(os.link, CANARY, 'link')"),
    write("by_dots", "attempt(open, '../' * 40 + CANARY, 'w')"),
    write(
        "by_a_shell",
        """
import subprocess
ran = subprocess.run(["/usr/bin/sh", "-c", f"echo x > {CANARY}"], capture_output=True, text=True)
print("refused" if ran.returncode else "ESCAPED", ran.stderr)
""",
    ),
    write(
        "by_sqlite",
        """
import sqlite3
try:
    sqlite3.connect(FOLDER + "/new.db").execute("create table t (x)")
    print("ESCAPED")
except sqlite3.OperationalError as error:
    print("refused", error)
""",
    ),
    write("the_store", "attempt(open, STORE + '/catalog.db', 'r+b')"),
    write(
        "new_part_in_the_store",  # within the walls that path is free; without, it is not
        "os.makedirs(STORE + '/tables/attempts')\nprint('done')",
        says="done",
    ),
    write("the_interpreter", "attempt(open, os.__file__, 'a')"),
    write(
        "start_up_file",
        "attempt(open, os.path.dirname(os.__file__) + '/site-packages/bad.pth', 'w')",
    ),
    write("binaries", "attempt(open, '/usr/bin/bad', 'w')"),
    write("root_folder", "attempt(os.mkdir, '/bad')"),
    write("devices_folder", "attempt(os.mkdir, '/dev/bad')"),
    write("append_to_passwords", "attempt(open, '/etc/passwd', 'a')"),
    write("cron", "attempt(open, '/etc/cron.d/bad', 'w')"),
    write("old_root", "attempt(open, '/old' + CANARY, 'w')"),
]

TOO_MUCH = [
    write("large_file", "attempt(lambda: open('big', 'wb').write(bytes(2**26)))"),
    write(
        "sparse_file",
        """
def grow():
    with open("big", "wb") as big:
        big.truncate(2**40)
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(grow)
""",
    ),
    write(
        "many_large_files",
        """
def fill():
    for n in range(1000):
        open(f"big{n}", "wb").write(bytes(2**20))
attempt(fill)
""",
    ),
    write(
        "unlinked_files",
        """
kept = []
def fill():
    for n in range(1000):
        kept.append(open("big", "wb"))
        os.remove("big")
        kept[-1].write(bytes(2**20))
        kept[-1].flush()
attempt(fill)
""",
    ),
    write(
        "allocated_file",
        """
def fill():
    for n in range(64):
        with open(f"big{n}", "wb") as big:
            os.posix_fallocate(big.fileno(), 0, 2**20)
attempt(fill)
""",
    ),
    Hostile(
        "inode_bomb",
        ("memory", "host"),
        """
print("refused at the latest by the watch", flush=True)
count = 0
while True:
    os.close(os.open(f"f{count}", os.O_CREAT | os.O_WRONLY))
    count += 1
""",
        ends=("error", "killed"),
    ),
    Hostile(
        "folder_bomb",
        ("memory", "host"),
        """
print("refused at the latest by the watch", flush=True)
count = 0
while True:
    os.mkdir(f"f{count}")
    count += 1
""",
        ends=("error", "killed"),
    ),
    Hostile(
        "deep_folders",
        ("memory", "host"),
        """
print("refused at the latest by the watch", flush=True)
while True:
    os.mkdir("d")
    os.chdir("d")
""",
        ends=("error", "killed"),
    ),
    write(
        "descriptor_bomb",
        """
kept = []
def fill():
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
attempt(fill)
""",
    ),
    write(
        "raise_file_limit",
        """
import resource
try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**40, 2**40))
    print("ESCAPED")
except ValueError as error:
    print("refused", error)
""",
    ),
]

FILES = OUTSIDE + TOO_MUCH
