"""PostgreSQL server of the tests, from the system's packages; it ends with the tests."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOW = "no PostgreSQL here (Debian: apt-get install postgresql)"
UNPRIVILEGED = "postgres"  # the server refuses to run as root


def binaries() -> Path | None:
    """Return the folder of initdb and pg_ctl, or None if PostgreSQL is not installed."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a server on a socket in `folder` and yield the URL of its database `postgres`."""
    found = binaries()
    assert found is not None, HOW
    data = folder / "data"
    folder.mkdir(parents=True)
    as_user: list[str] = []
    if os.getuid() == 0:
        user = pwd.getpwnam(UNPRIVILEGED)
        os.chown(folder, user.pw_uid, user.pw_gid)
        for parent in folder.parents:  # pytest's folders are for their owner only
            if parent.stat().st_uid == 0 and parent != Path("/tmp") and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o111)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    def run(*command: str) -> None:
        subprocess.run(
            [*as_user, *command], check=True, cwd=folder, timeout=60, stdout=subprocess.DEVNULL
        )

    run(str(found / "initdb"), "-D", str(data), "-U", "tutti", "--auth=trust", "--no-sync")
    settings = f"-k {folder} -c listen_addresses='' -c max_connections=50"
    settings += " -c fsync=off -c full_page_writes=off -c autovacuum=off"  # it need not last
    log = str(folder / "server.log")
    run(str(found / "pg_ctl"), "-D", str(data), "-o", settings, "-l", log, "-w", "start")
    try:
        yield f"postgresql+psycopg://tutti@/postgres?host={folder}"
    finally:
        run(str(found / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
