"""The system calls that programs in a sandbox may not make, as a BPF program for the kernel.

It forbids calls that namespaces do not isolate: kernel keyrings, memory outside every limit (memfd,
System V, spliced pages), socket families outside network namespaces (vsock, netlink), new
namespaces, tracing, and rare calls with a history of kernel vulnerabilities.
"""

import errno
import os
import struct

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of the kernel

# name: (x86_64, aarch64); None if the architecture has no such call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # roots, mounts, namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    # keyrings: no namespace isolates the session's, and child processes inherit it
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory that is charged to no process
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "vmsplice": (278, 75),
    # calls with a history of kernel vulnerabilities
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "remap_file_pages": (216, 234),
    # the machine itself: all need rights that the program lacks; this is a second barrier
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
}
_DENIED_WITHOUT_WALLS: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "kill": (62, 129),
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "mknod": (133, None),
    "mknodat": (259, 33),
    # useful only to root, which no program should be
    "setuid": (105, 146),
    "setgid": (106, 144),
    "setreuid": (113, 145),
    "setregid": (114, 143),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "setgroups": (116, 159),
}
_SOCKETS = ((41, 198), (53, 199))  # socket, socketpair
_CLONE = (56, 220)
_CLONE3 = (435, 435)

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* that clone takes
_CLONE_THREAD = 0x10000
_AF_UNIX = 1
_X32 = 0x40000000  # a second table of calls on x86_64

_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in the kernel's seccomp_data
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE = _ERRNO | errno.EPERM

_Step = tuple[int, int, int, int]  # code, how many to skip if true, if false, operand


def system_call_filter(walled: bool) -> bytes:
    """Return the filter for this machine; b"" if its call numbers are unknown.

    `walled`: sockets within the host only, and no namespaces. Otherwise also: no connecting
    sockets, no new processes or programs, no access to other processes.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        return b""
    column = list(_ARCHITECTURES).index(machine)
    denied = _DENIED if walled else _DENIED | _DENIED_WITHOUT_WALLS
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),  # 32-bit calls have other numbers
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for numbers in denied.values():
        steps += _when(numbers[column], [(_RETURN, 0, 0, _REFUSE)])
    # Then the C library uses clone, whose flags a filter can read.
    steps += _when(_CLONE3[column], [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)])
    for sockets in _SOCKETS:
        steps += _when(sockets[column], _if_argument(_EQUAL, _AF_UNIX, _ALLOW, _REFUSE))
    threads_only = _if_argument(_ANY_BIT, _CLONE_THREAD, _ALLOW, _REFUSE)
    no_namespaces = _if_argument(_ANY_BIT, _NEW_NAMESPACES, _REFUSE, _ALLOW)
    steps += _when(_CLONE[column], no_namespaces if walled else threads_only)
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _when(number: int | None, steps: list[_Step]) -> list[_Step]:
    return [] if number is None else [(_EQUAL, 0, len(steps), number), *steps]


def _if_argument(test: int, operand: int, then: int, otherwise: int) -> list[_Step]:
    return [
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (test, 0, 1, operand),
        (_RETURN, 0, 0, then),
        (_RETURN, 0, 0, otherwise),
    ]
