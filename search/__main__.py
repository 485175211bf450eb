"""python -m search VERB [OPTIONS]: what configure and make call."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from search.cli.options import parse_and_run
from search.errors import AtallError, EnvironmentFailure, Interrupted


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; every foreseen failure is one line on standard error and its exit code."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGHUP, _interrupt)
        parse_and_run(argv, Path.cwd())
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
