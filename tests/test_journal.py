import gzip
import random

import pytest

from search.errors import UserError
from search.results.journal import Journal, any_journal
from search.results.record import Record
from search.results.samples import Sample
from search.results.workload import Workload

from .conftest import ROOT

RECORDS = [
    Record(
        Workload(8, 1), "native", 0, Sample((0.1, 0.2), ((3, 2), (5, 1)), 1, (1e-5, 2e-5), 0.25, 1)
    ),
    Record(Workload(8, 1), "ring(sync=none)", failure="wrong"),
    Record(Workload(4, 64), "native", 7, Sample((0.25,)), scheme="round"),
    Record(Workload(8, 1), void="host n3: a hog", rounds=(0, 2)),
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
    assert (other.records, other.foreign) == ([], 4)


def test_a_torn_tail_is_dropped_and_written_over(path):
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(True)[-1])
    for cut in range(last + 1, len(whole)):
        path.write_bytes(whole[:cut])
        journal = Journal(path, "print")
        assert journal.torn
        assert journal.records == RECORDS[:-1]
        journal.append(RECORDS[-1])
        assert Journal(path, "print").records == RECORDS


def test_reading_changes_no_file(path):
    """Not even one that was cut off: a packed one could not be mended so."""
    torn = path.read_bytes()[:-3]
    for name, data in (("j", torn), ("j.gz", gzip.compress(torn))):
        (path.parent / name).write_bytes(data)
        assert any_journal(path.parent / name).records == RECORDS[:-1]
        assert (path.parent / name).read_bytes() == data


def test_a_bad_middle_is_refused(path):
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"wrong", b"right"), *lines[2:]]))
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
        assert records in (RECORDS, RECORDS[:-1], [])


def test_any_journal_is_read_packed_or_not(path):
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert any_journal(path).records == any_journal(packed).records == RECORDS
    for wrong in (path.parent / "none", ROOT / "README.md", path.parent):
        with pytest.raises(UserError, match="not a journal"):
            any_journal(wrong)
