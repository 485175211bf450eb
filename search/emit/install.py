"""The install stage: library, header and what compilers, modules and people look for, below a
prefix; and the same taken away again, or tried out."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from search.emit.c_text import fill_template
from search.errors import EnvironmentFailure, UserError
from search.files import write_whole
from search.toolchain import SOURCE, TEMPLATES, Toolchain

SONAME = "libatall.so.0"
LIBRARY_FLAGS = ("-std=c11", "-O2", "-fPIC", "-DATALL_OVERRIDE", "-DATALL_WRAP")
SHARED_FLAGS = ("-DATALL_SHARED", "-shared", f"-Wl,-soname,{SONAME}")
UMBRELLA = '#include "atall/alltoall.h"\n'
CMAKE_PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(transpose C)
find_package(ATALL REQUIRED)
add_executable(transpose {source})
target_link_libraries(transpose ATALL::alltoall)
"""


@dataclass(frozen=True)
class Layout:
    """Where things go: ``prefix`` as files name it, below ``destdir`` on disk."""

    prefix: str
    destdir: str = ""

    def path(self, *parts: str) -> Path:
        """Where something is put now."""
        return Path(self.destdir + self.prefix, *parts)


def checked_layout(prefix: str, destdir: str) -> Layout:
    """UserError unless the prefix can stand in the files that name it."""
    if not re.fullmatch(r"/[A-Za-z0-9_./+@-]*", prefix):
        raise UserError(
            f"PREFIX={prefix}: an absolute path of letters, digits and _./+@- is expected"
        )
    return Layout(prefix.rstrip("/"), destdir.rstrip("/"))


def build_library(tools: Toolchain, generated: Path, build: Path) -> None:
    """Compile build/libatall.a and the shared library."""
    item, archive = build / "libatall.o", build / "libatall.a"
    source = str(generated / "alltoall.c")
    compiler = [tools.mpicc, *LIBRARY_FLAGS, *tools.cflags]
    tools.run([*compiler, "-c", source, "-o", str(item)], "compiling the library")
    archive.unlink(missing_ok=True)
    tools.run(["ar", "rcs", str(archive), str(item)], "making the archive")
    tools.run(
        [*compiler, *SHARED_FLAGS, source, "-o", str(build / SONAME)],
        "making the shared library",
    )


def contents(root: Path, layout: Layout, version: str) -> dict[Path, Path | str]:
    """What is installed where: a file to copy, or its text."""
    usage = subprocess.run(
        [str(SOURCE / "configure"), "--help"], capture_output=True, text=True, check=True
    ).stdout
    values = {
        "prefix": layout.prefix,
        "version": version,
        "soname": SONAME,
        "checkout": "" if layout.destdir else shlex.quote(str(root)),
        "usage": usage.replace("\\", "\\e").replace("-", "\\-").rstrip(),
    }

    def made(name: str) -> str:
        return fill_template(TEMPLATES / "install" / f"{name}.j2", values)

    share = layout.path("share", "atall")
    manual = layout.path("share", "man")
    generated = root / "generated"
    found: dict[Path, Path | str] = {
        layout.path("include", "atall.h"): UMBRELLA,
        layout.path("include", "atall", "alltoall.h"): generated / "alltoall.h",
        layout.path("lib", "libatall.a"): root / "build" / "libatall.a",
        layout.path("lib", SONAME): root / "build" / SONAME,
        layout.path("lib", "pkgconfig", "atall.pc"): made("atall.pc"),
        layout.path("bin", "atall-info"): made("atall-info"),
        share / "modulefiles" / "atall.lua": made("atall.lua"),
        share / "modulefiles" / "atall": made("atall.tcl"),
        manual / "man7" / "atall.7": made("atall.7"),
        manual / "man1" / "atall-info.1": made("atall-info.1"),
        manual / "man1" / "atall-configure.1": made("atall-configure.1"),
    }
    for name in ("ATALLConfig.cmake", "ATALLConfigVersion.cmake"):
        found[layout.path("lib", "cmake", "ATALL", name)] = made(name)
    for path in (generated / "alltoall.c", generated / "alltoall.h", generated / "decision.toml"):
        found[share / path.name] = path
    report = root / "build" / "report.html"
    if report.exists():
        found[share / report.name] = report
    return found


def install(root: Path, layout: Layout, version: str, say: Callable[[str], None]) -> None:
    """Put everything where it belongs."""
    items = contents(root, layout, version)
    try:
        for path, source in items.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, str):
                write_whole(path, source)
            else:
                shutil.copyfile(source, path)
            path.chmod(0o755 if path.parent.name == "bin" or path.name == SONAME else 0o644)
        link = layout.path("lib", "libatall.so")
        link.unlink(missing_ok=True)
        link.symlink_to(SONAME)
    except OSError as error:
        raise EnvironmentFailure(f"cannot install {error.filename}: {error.strerror}") from error
    say(f"installed in {layout.path()}: link with -latall, or preload lib/{SONAME}")


def uninstall(root: Path, layout: Layout, version: str, say: Callable[[str], None]) -> None:
    """Take away what install puts there, and directories that it leaves empty."""
    share = layout.path("share", "atall")
    paths = [*contents(root, layout, version), layout.path("lib", "libatall.so")]
    for path in [*paths, share / "report.html"]:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        while folder != layout.path() and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
    say(f"nothing of ATALL is left in {layout.path()}")


def check_installed(tools: Toolchain, layout: Layout, say: Callable[[str], None]) -> None:
    """Build the example against what is installed, through pkg-config and through CMake, and run
    it; ask atall-info. EnvironmentFailure if any of it does not work."""
    example = SOURCE / "doc" / "examples" / "transpose.c"
    for tool in ("pkg-config", "cmake"):
        if not shutil.which(tool):
            raise EnvironmentFailure(f"installcheck needs {tool}: install it")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        path = f"PKG_CONFIG_PATH={layout.path('lib', 'pkgconfig')}"
        prefix = f"--define-variable=prefix={layout.path()}"  # below DESTDIR
        asked = ["env", path, "pkg-config", prefix, "--cflags", "--libs", "atall"]
        flags = tools.run(asked, "pkg-config").split()
        rpath = f"-Wl,-rpath,{layout.path('lib')}"
        program = place / "by-pkg-config"
        tools.run([tools.mpicc, str(example), *flags, rpath, "-o", str(program)], "pkg-config")
        _run_example(tools, program, say)
        (place / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(source=example))
        tools.run(
            [
                "cmake",
                "-S",
                str(place),
                "-B",
                str(place / "build"),
                f"-DCMAKE_PREFIX_PATH={layout.path()}",
                f"-DMPI_C_COMPILER={tools.mpicc}",
            ],
            "cmake",
        )
        tools.run(["cmake", "--build", str(place / "build")], "cmake --build")
        _run_example(tools, place / "build" / "transpose", say)
    said = tools.run(
        [str(layout.path("bin", "atall-info")), str(layout.path("lib", SONAME))], "atall-info"
    )
    say(f"atall-info: {said.splitlines()[0]}")


def _run_example(tools: Toolchain, program: Path, say: Callable[[str], None]) -> None:
    argv = [tools.mpiexec, "-n", "4", "env", "ATALL_STATS=1", str(program)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "rank 0's calls" not in done.stderr:
        raise EnvironmentFailure(f"{program.name} does not run: {done.stdout}{done.stderr}")
    say(f"{program.name}: {done.stdout.strip().splitlines()[-1]}")
