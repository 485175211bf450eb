import random

import pytest

from search.errors import UserError
from search.measure.journal import Journal, Record
from search.measure.samples import Sample

RECORDS = [
    Record("native", 1, Sample(0.1, 2, 1)),
    Record("ring(sync=none)", 1, None, "wrong"),
    Record("native", 64, Sample(0.25)),
]


@pytest.fixture
def path(tmp_path):
    journal = Journal(tmp_path / "j", "print")
    for record in RECORDS:
        journal.append(record)
    return tmp_path / "j"


def test_what_is_appended_is_read_back(path):
    assert Journal(path, "print").records == RECORDS
    other = Journal(path, "other")
    assert (other.records, other.foreign) == ([], 3)


def test_a_torn_tail_is_dropped_and_written_over(path):
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(True)[-1])
    for cut in range(last + 1, len(whole)):
        path.write_bytes(whole[:cut])
        journal = Journal(path, "print")
        assert journal.torn
        assert journal.records == RECORDS[:2]
        journal.append(RECORDS[2])
        assert Journal(path, "print").records == RECORDS


def test_a_bad_middle_is_refused(path):
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(lines[0] + lines[1].replace(b"wrong", b"right") + lines[2])
    with pytest.raises(UserError, match="j:2: damaged"):
        Journal(path, "print")


def test_no_bit_flip_goes_unnoticed(path):
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(2000):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            records = Journal(path, "print").records
        except UserError:
            continue
        assert records in (RECORDS, RECORDS[:2], [])
