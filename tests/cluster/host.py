"""Process 1 of a host made of namespaces: what is its own on it, then waiting for what ends.

    unshare -nmuip --fork --mount-proc python3 host.py NAME FILES

binds each file below FILES over the one of the same name below /.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

OWN = ("/dev/shm", "/run")
"""What hosts of one machine would share else."""


def main(name: str, files: str) -> None:
    socket.sethostname(name)
    run("mount", "--make-rprivate", "/")
    for place in OWN:
        run("mount", "-t", "tmpfs", "tmpfs", place)
    for path in Path(files).rglob("*"):
        if path.is_file():
            run("mount", "--bind", str(path), f"/{path.relative_to(files)}")
    for place in ("/run/munge", "/run/sshd"):
        Path(place).mkdir(mode=0o755)
    run("chown", "munge:munge", "/run/munge")
    run("ip", "link", "set", "lo", "up")
    print("ready", flush=True)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.sigtimedwait([signal.SIGCHLD], 0.2)


def run(*argv: str) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
