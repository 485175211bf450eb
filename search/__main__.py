"""python -m search STAGE [OPTIONS]: one stage, or the whole way of configure."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from search.cli.verbs import JOURNALS, STAGES, STRATEGIES
from search.cluster.backends import LAUNCHERS
from search.cluster.hosts import PLACEMENTS
from search.errors import AtallError, EnvironmentFailure, Interrupted, UserError


def size(text: str) -> int:
    """Bytes, with K or M for 1024 and 1048576: ``64K``."""
    match = re.fullmatch(r"(\d{1,12})([kKmM]?)(?:i?B)?", text)
    value = int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2].lower()] if match else 0
    if not 1 <= value <= 1 << 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 256, 8K or 1M")
    return value


def sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({size(item) for item in text.split(",")}))


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({count(item) for item in text.split(",")}))


def grid(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not match or match[0] == "1x1":
        raise argparse.ArgumentTypeError(f"{text!r} is not rows and columns, such as 4x8")
    return int(match[1]), int(match[2])


class _Parser(argparse.ArgumentParser):
    """Errors in one line, with the exit code of a user's mistake."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UserError(message.replace("argument ", "", 1) + " (--help shows what there is)")


def parser() -> argparse.ArgumentParser:
    """The options of all stages; configure --help documents those of configure."""
    top = _Parser(prog="search", allow_abbrev=False)
    top.add_argument("stage", choices=STAGES)
    top.add_argument("journals", metavar="JOURNAL", nargs="*", help="of a tuning, to read")
    top.add_argument("--emulate", metavar="FILE")
    top.add_argument("--emulate-buffer", dest="buffer", type=size, default=32768)
    top.add_argument("--emulate-slots", dest="slots", type=count, default=1)
    top.add_argument("--hostfile", metavar="FILE")
    top.add_argument("--launcher", choices=LAUNCHERS)
    top.add_argument("--np", type=counts)
    top.add_argument("--grid", type=grid, metavar="ROWSxCOLUMNS")
    top.add_argument("--topology", metavar="FILE")
    top.add_argument("--placement", choices=PLACEMENTS, default="switch")
    top.add_argument("--strategy", choices=STRATEGIES, default="racing")
    top.add_argument("--timing", choices=("isolated", "loop"), default="isolated")
    top.add_argument("--effort", choices=("quick", "normal", "thorough"))
    top.add_argument("--time-limit", type=count, metavar="SECONDS")
    top.add_argument("--sizes", type=sizes)
    top.add_argument("--profile", metavar="FILE")
    top.add_argument("--only", type=names, default=())
    top.add_argument("--preset", choices=("mpich", "lam"), default="mpich")
    top.add_argument("--accept-noise", action="store_true")
    top.add_argument("--allow-shrink", action="store_true")
    made = top.add_argument_group("make", "what make's stages pass on, as BLOCK= and so on")
    made.add_argument("--block", type=size, default=65536)
    made.add_argument("--variant", metavar="LABEL")
    made.add_argument("--competitors", action="store_true")
    made.add_argument("--launches", type=count)
    made.add_argument("--cold", action="store_true")
    made.add_argument("--prefix", metavar="DIRECTORY", default="/usr/local")
    made.add_argument("--destdir", metavar="DIRECTORY", default="")
    resume = top.add_mutually_exclusive_group()
    resume.add_argument("--resume", dest="fresh", action="store_false", default=False)
    resume.add_argument("--fresh", dest="fresh", action="store_true")
    top.add_argument("-q", "--quiet", action="store_true")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a stage; every foreseen failure is one line on standard error and its exit code."""
    try:
        options = parser().parse_args(argv)
        if options.grid and options.np:
            raise UserError("--grid says how many ranks there are: leave out --np")
        if options.journals and options.stage not in JOURNALS:
            raise UserError(f"unknown argument: {options.journals[0]} (--help shows what there is)")
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGHUP, _interrupt)
        from search.cli import stages  # needs packages: after the options are known to be good

        stages.run(options, Path.cwd())
    except AtallError as error:
        print(f"atall: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # the last resort: what is foreseen says it better
        print(f"atall: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return EnvironmentFailure.exit_code
    except KeyboardInterrupt:
        print("atall: interrupted; run the same command again to go on", file=sys.stderr)
        return Interrupted.exit_code
    return 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
