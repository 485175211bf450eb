"""What senders and receivers recorded, joined and laid out by cable."""

import pytest

from search.analysis.timeline import Message, Row, describe, draw, pair_up, rows_of
from search.cluster.topology_file import parse_conf
from search.errors import EnvironmentFailure

TREE = "SwitchName=s0 Nodes=a,b Switches=s1 LinkSpeed=100\nSwitchName=s1 Nodes=c LinkSpeed=100\n"
RECORDS = [
    # rank, receives, peer, tag, bytes, posted, complete
    [0, 0, 2, 1, 64, 0.1, 0.2],
    [2, 1, 0, 1, 64, 0.0, 0.5],
    [0, 0, 2, 1, 64, 0.3, 0.4],
    [2, 1, 0, 1, 64, 0.0, 0.4],  # the first part was only looked at after the second
    [2, 0, 1, 4, 0, 0.5, 0.5],
    [1, 1, 2, 4, 0, 0.0, 0.75],
]


def test_both_ends_are_joined():
    messages = pair_up(RECORDS)
    assert messages == [
        Message(0, 2, 64, 0.1, 0.4),
        Message(0, 2, 64, 0.3, 0.4),
        Message(2, 1, 0, 0.5, 0.75),
    ]
    with pytest.raises(EnvironmentFailure, match="one end is missing"):
        pair_up(RECORDS[:-1])


def test_cables_of_messages(tmp_path):
    messages = pair_up(RECORDS)
    rows = rows_of(messages, parse_conf(TREE, "here"), ["a", "b", "c"])
    assert {row.cable: len(row.messages) for row in rows} == {
        "a up": 2,
        "s1 down": 2,
        "c down": 2,
        "c up": 1,
        "s1 up": 1,
        "b down": 1,
    }
    assert rows[0].busy == pytest.approx(0.3)
    assert "750.0 ms, 2 messages" in describe(rows, messages)
    draw(tmp_path / "x.svg", "title", rows)
    assert (tmp_path / "x.svg").read_text().count("<path") > 5


def test_time_without_messages_is_not_busy():
    row = Row("x", (Message(0, 1, 8, 1.0, 2.0), Message(0, 1, 8, 1.5, 3.0), Message(0, 1, 8, 5, 6)))
    assert row.busy == 3.0
