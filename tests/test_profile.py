"""What a program called, read again to tune for it."""

import pytest

from search.errors import UserError
from search.results.journal import any_journal
from search.results.workload import Workload
from search.strategy.profile import MOST_BLOCKS, read_profile
from search.toml import load_toml

from .test_configure import TINY, configure

TEXT = """\
# ATALL: rank 0's calls of MPI_Alltoall
# ranks bytes-to-each-peer calls seconds served-by
8 65536 100 0.421000 phased(sync=receiver,segment=0,depth=1)
4 12 7 0.000100 in place
8 0 3 0.000001 no data, or erroneous
1 64 3 0.000001 bruck(radix=2)
8 64 1 0.000400 native
"""


def written(tmp_path, text):
    path = tmp_path / "calls"
    path.write_text(text)
    return path


def test_a_profile_gives_blocks_by_ranks(tmp_path):
    assert read_profile(written(tmp_path, TEXT), 8) == {4: (12,), 8: (64, 65536)}


def test_of_many_blocks_the_dearest_stay(tmp_path):
    lines = [f"8 {block} 1 {block % 97}.5 x" for block in range(1, 1001)]
    (blocks,) = read_profile(written(tmp_path, "\n".join(lines)), 8).values()
    assert len(blocks) == MOST_BLOCKS
    assert {1, 1000, 96} <= set(blocks)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("8 64 ten 0.1 x\n", ":1: 'ranks bytes calls seconds served-by' is expected"),
        (TEXT + "99 64 1 0.1 x\n", "99 ranks were used, but the cluster has 8 slots"),
        ("# nothing\n", "no call with data"),
        ("1 64 1 0.1 x\n", "no call with data"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, word):
    with pytest.raises(UserError) as caught:
        read_profile(written(tmp_path, text), 8)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="cannot read profile"):
        read_profile(tmp_path / "none", 8)


@pytest.mark.full
def test_what_a_program_called_is_tuned(tools, emulation, tmp_path):
    """A sub-communicator's calls too; and the tables hold the sizes of each."""
    (tmp_path / "tiny.conf").write_text(TINY)
    written(tmp_path, "4 64 10 0.5 native\n4 2000 3 0.1 native\n2 300 5 0.2 native\n")
    options = ["--emulate=tiny.conf", "--profile=calls", "--effort=quick", "--only=ring"]
    done = configure(tools, tmp_path, *options, "--accept-noise")
    assert done.returncode == 0, done.stderr
    tables = load_toml(tmp_path / "generated" / "decision.toml")["table"]
    assert {table["ranks"] for table in tables} == {2, 4}
    records = any_journal(tmp_path / "build" / "measurements.jsonl").records
    places = {record.workload for record in records if record.sample}
    assert places >= {Workload(4, 64), Workload(4, 2000), Workload(2, 300)}
    assert Workload(4, 300) not in places
