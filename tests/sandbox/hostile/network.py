"""Programs that try to connect by sockets; listeners outside must receive nothing."""

from tests.sandbox.hostile.case import Hostile


def reach(name: str, code: str, says: str = "refused", **given: object) -> Hostile:
    """Return a program that a listener outside would notice."""
    return Hostile(name, ("sockets",), code, says=says, **given)  # type: ignore[arg-type]


SOCKET = "import socket\n"

NETWORK = [
    reach("tcp", SOCKET + "attempt(socket.create_connection, ('127.0.0.1', TCP), 2)"),
    reach("tcp_by_address_0", SOCKET + "attempt(socket.create_connection, ('0.0.0.0', TCP), 2)"),
    reach("tcp_6", SOCKET + "attempt(socket.create_connection, ('::1', TCP), 2)"),
    reach("tcp_mapped", SOCKET + "attempt(socket.create_connection, ('::ffff:127.0.0.1', TCP), 2)"),
    reach("tcp_to_the_host", SOCKET + "attempt(socket.create_connection, (ADDRESS, TCP), 2)"),
    reach("tcp_to_the_world", SOCKET + "attempt(socket.create_connection, ('192.0.2.1', 80), 1)"),
    reach(
        "cloud_metadata", SOCKET + "attempt(socket.create_connection, ('169.254.169.254', 80), 1)"
    ),
    reach(
        "tcp_without_waiting",
        SOCKET
        + """
def knock():
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", TCP))
    time.sleep(0.1)
    one.send(b"out")
attempt(knock)
""",
    ),
    reach(
        "udp",
        SOCKET
        + "attempt(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP)))",
    ),
    reach(
        "udp_broadcast",
        SOCKET
        + """
def shout():
    one = socket.socket(type=socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    one.sendto(b"x", ("255.255.255.255", UDP))
attempt(shout)
""",
    ),
    reach("names", SOCKET + "attempt(socket.getaddrinfo, 'example.com', 80)"),
    reach("names_by_hand", SOCKET + "attempt(socket.gethostbyname, 'localhost.localdomain')"),
    reach(
        "unix_socket",
        SOCKET + "attempt(lambda: socket.socket(socket.AF_UNIX).connect(UNIX))",
    ),
    reach(
        "abstract_unix_socket",
        SOCKET + "attempt(lambda: socket.socket(socket.AF_UNIX).connect(ABSTRACT))",
    ),
    reach(
        "unix_datagram",
        SOCKET
        + "attempt(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', UNIX))",
    ),
    reach(
        "system_bus",
        SOCKET
        + "attempt(lambda: socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket'))",
    ),
    reach(
        "docker_socket",
        SOCKET + "attempt(lambda: socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock'))",
    ),
    reach("raw", SOCKET + "attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)"),
    reach("packets", SOCKET + "attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 768)"),
    reach("netlink", SOCKET + "attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)"),
    reach("to_the_hypervisor", SOCKET + "attempt(socket.socket, 40, socket.SOCK_STREAM)"),
    reach("kernel_crypto", SOCKET + "attempt(socket.socket, 38, socket.SOCK_SEQPACKET)"),
    reach("bluetooth", SOCKET + "attempt(socket.socket, 31, socket.SOCK_RAW, 1)"),
    reach("express_data_path", SOCKET + "attempt(socket.socket, 44, socket.SOCK_RAW)"),
    reach(
        "web_request",
        "import urllib.request\nattempt(urllib.request.urlopen, f'http://127.0.0.1:{TCP}')",
    ),
    reach(
        "shell_device",
        """
import subprocess
line = f"exec 3<>/dev/tcp/127.0.0.1/{TCP} && echo out >&3"
ran = subprocess.run(["/usr/bin/bash", "-c", line], capture_output=True, text=True)
print("refused" if ran.returncode else "ESCAPED", ran.stderr)
""",
    ),
    reach(
        "asynchronous_rings",
        "import ctypes\nattempt(system, 'io_uring_setup', 8, ctypes.create_string_buffer(120))",
    ),
]
