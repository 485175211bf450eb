"""What can go wrong, and the exit code that says whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence


class AtallError(Exception):
    """One line for the user: what was expected, where, and the cure."""

    exit_code = 2


class UserError(AtallError):
    """The user's mistake: an option, a file, a name (exit code 1)."""

    exit_code = 1


class EnvironmentFailure(AtallError):
    """The machine or the cluster does not do what is needed (exit code 2)."""

    exit_code = 2


class HostsFailed(EnvironmentFailure):
    """Hosts that cannot be used, by name; with --allow-shrink the others go on without them."""

    def __init__(self, message: str, hosts: tuple[str, ...]) -> None:
        super().__init__(message)
        self.hosts = hosts


class TooNoisy(AtallError):
    """There is interference: no decision can rest on what is measured (exit code 3)."""

    exit_code = 3


class Interrupted(AtallError):
    """Stopped before the end; running configure again goes on (exit code 4)."""

    exit_code = 4


class Outdated(AtallError):
    """What was tuned is not right any more: tune again (exit code 5)."""

    exit_code = 5


def summarised(troubles: Sequence[str]) -> str:
    """The first of several troubles, and how many more."""
    more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return troubles[0] + more
