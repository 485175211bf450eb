"""What configure found, and the programs built with it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from search.errors import EnvironmentFailure, UserError

SOURCE = Path(__file__).resolve().parent.parent
TEMPLATES = SOURCE / "templates"
PROBES = SOURCE / "probes"


def measured_sources() -> list[Path]:
    """What the measuring job is made of: times of one made of others cannot be compared."""
    files = (path for path in TEMPLATES.rglob("*") if path.suffix in (".j2", ".toml"))
    measured = sorted(path for path in files if path.parent.name != "install")
    return [*measured, *sorted(PROBES.glob("*.[ch]")), *known_collectives()]


def known_collectives() -> list[Path]:
    """How the measuring job calls and judges each collective: a file each."""
    return sorted((PROBES / "collectives").glob("*.h"))


@dataclass(frozen=True)
class Toolchain:
    """The MPI compiler and launcher, and flags for them."""

    mpicc: str
    mpiexec: str
    cflags: tuple[str, ...]
    verbose: bool = False
    version: str = ""
    """of ATALL"""

    def run(self, argv: Sequence[str], what: str) -> str:
        """Run a command; its output, or EnvironmentFailure with its first error line."""
        if self.verbose:
            print(shlex.join(argv))
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except OSError as error:
            raise EnvironmentFailure(f"{what}: cannot run {argv[0]}: {error.strerror}") from error
        if done.returncode != 0:
            lines = (done.stderr + done.stdout).strip().splitlines()
            reason = next((line for line in lines if "error" in line), (lines or ["no output"])[0])
            raise EnvironmentFailure(f"{what} failed: {reason} (command: {shlex.join(argv)})")
        return done.stdout

    def compile_job(self, source: Path, program: Path, define: Sequence[str] = ()) -> None:
        """Build the measuring job around ``source``, an emitted alltoall.c."""
        included = (word for path in known_collectives() for word in ("-include", str(path)))
        flags = ["-D_GNU_SOURCE", *(f"-D{name}" for name in define), *included]
        self._compile_around(source, PROBES / "measure.c", program, "the measuring job", flags)

    def compile_simulator(self, source: Path, program: Path) -> None:
        """Build the schedule model around ``source``."""
        self._compile_around(source, PROBES / "model" / "simulate.c", program, "the model")

    def _compile_around(
        self, source: Path, main: Path, program: Path, what: str, flags: Sequence[str] = ()
    ) -> None:
        self.run(
            [
                self.mpicc,
                "-std=gnu11",
                "-O2",
                *self.cflags,
                f"-I{source.parent}",
                f"-I{PROBES}",
                f'-DATALL_SOURCE="{source.name}"',
                *flags,
                str(main),
                "-o",
                str(program),
                "-lm",
            ],
            f"compiling {what}",
        )

    def compile_preload(self, library: Path) -> None:
        """Build the library that makes emulated hosts wait instead of spin, and end together."""
        self.run(
            [
                self.mpicc,
                "-std=gnu11",
                "-O2",
                "-shared",
                "-fPIC",
                *(str(PROBES / name) for name in ("blocking.c", "answering.c")),
                "-o",
                str(library),
                "-ldl",
            ],
            "compiling the blocking preload",
        )

    def transport(self) -> dict[str, str]:
        """Environment by which this MPICH uses plain TCP."""
        versions = Path(self.mpicc).with_name("mpichversion")
        text = self.run([str(versions)], "asking MPICH") if versions.exists() else ""
        device = next((line for line in text.splitlines() if "Device" in line), "ofi")
        if "ofi" not in device:
            return {"UCX_TLS": "tcp,self"}
        return {
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "FI_PROVIDER": "tcp",
            "FI_TCP_PREFETCH_RBUF_SIZE": "0",
        }


def read_toolchain(path: Path) -> Toolchain:
    """Read config.mk, which configure wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError("config.mk is missing: run ./configure first") from error
    values = {}
    for line in text.splitlines():
        key, equals, value = line.partition(" = ")
        if equals:
            values[key.strip()] = value.strip()
    try:
        return Toolchain(
            values["MPICC"],
            values["MPIEXEC"],
            tuple(shlex.split(values["CFLAGS"])),
            bool(os.environ.get("V")),
            values.get("VERSION", ""),
        )
    except KeyError as error:
        raise UserError(f"config.mk lacks {error}: run ./configure again") from error
    except ValueError as error:
        raise UserError(f"CFLAGS in config.mk: {error}: run ./configure again") from error
