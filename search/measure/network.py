"""What single messages cost: the point-to-point parameters of models of collective operations.

one_way (their os_g_or), o_r (or), o_s (os_start), gap and the pattern of Isends are those of
Vadhiyar, Fagg and Dongarra, section 4.3; one way against both ways at once those of Thakur,
Rabenseifner and Gropp, section 3; the split of start-ups and copies with contention those of Liu,
Wang and Prasanna, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search.results.samples import Interval

MODES = ("immediate", "blocking", "delivered", "rendezvous")


@dataclass(frozen=True)
class MessageTimes:
    """One size of message. All times are seconds with their intervals.

    ``one_way`` is from the start of a send to the end of its receive; ``o_r`` a receive that finds
    its message there; ``o_s`` an Isend after a pause; ``gap`` what is left
    of one_way; ``both_ways`` an exchange between two ranks, ``all_at_once`` one of every rank with
    its neighbours; ``each`` one of many messages in a row.

    ``all_with_all`` is an exchange of every rank with every other, up to FULL_FRAME bytes where all
    hosts share the processors of this machine; 0 elsewhere.

    ``work`` is seconds of processors for one message, both sides and whatever is between them,
    where all hosts share those of this machine; 0 elsewhere.

    ``mode`` says when a send is over. immediate: when the library has it; blocking: when it has
    arrived, and the start of the send takes that long; delivered: when the library of the receiver
    has taken it in;
    rendezvous: when it has arrived, which it does not before the receive has begun.

    Of Isends in a row the first ``initial_interval`` take o_s. Then, if ``mid_interval`` is
    not 0, one of ``o_s_spike`` comes after so many of ``o_s_mid``.
    """

    bytes: int
    one_way: Interval
    o_r: Interval
    o_s: Interval
    gap: Interval
    both_ways: Interval
    all_at_once: Interval
    all_with_all: Interval
    each: Interval
    work: float
    mode: str
    initial_interval: int
    o_s_spike: float
    mid_interval: float
    o_s_mid: float


@dataclass(frozen=True)
class Burst:
    """``senders`` ranks send ``bytes`` each to one at once: seconds, and segments lost a call."""

    senders: int
    bytes: int
    seconds: Interval
    resent: float


@dataclass(frozen=True)
class Copy:
    """Copying in memory, seconds a byte: by one rank, and by all at once."""

    bytes: int
    alone: Interval
    together: Interval


@dataclass(frozen=True)
class Network:
    """All parameters of a cluster.

    ``barriers`` are seconds by kind; ``token`` is a message without contents, from an Isend to the
    end of its receive. ``alpha`` and ``beta`` are start-up (seconds) and seconds a byte of an
    exchange of both ways at once, ``alpha_uni`` and ``beta_uni`` of a message one way.
    ``start_send`` and ``start_receive`` split a start-up, ``copy_send`` and ``copy_receive``
    (seconds a byte) are between user and interface. ``rates`` are bytes of payload a second from
    each rank to the next.
    """

    messages: tuple[MessageTimes, ...]
    barriers: Mapping[str, Interval]
    token: Interval
    alpha: float
    beta: float
    alpha_uni: float
    beta_uni: float
    start_send: float
    start_receive: float
    copy_send: float
    copy_receive: float
    copies: tuple[Copy, ...]
    bursts: tuple[Burst, ...]
    rates: tuple[float, ...]

    def quiet_senders(self, size: int) -> int:
        """How many ranks can send so many bytes each to one at once without a loss; -1: all that
        were tried."""
        mine = sorted((b for b in self.bursts if b.bytes == size), key=lambda b: b.senders)
        lossy = [burst.senders for burst in mine if burst.resent > 0]
        return max((b.senders for b in mine if b.senders < lossy[0]), default=0) if lossy else -1


def changes(messages: Sequence[MessageTimes]) -> list[MessageTimes]:
    """The first message of each mode in a row."""
    pairs = zip([None, *messages], messages)
    return [message for before, message in pairs if before is None or before.mode != message.mode]
