import pytest

from search.analysis.bench import chosen_label
from search.cluster.hosts import Placement
from search.decide.decision import (
    Cutoff,
    Decision,
    DecisionTable,
    Evidence,
    Origin,
    TreeNode,
    merge_equal,
)
from search.decide.decision_file import read_decision, write_decision
from search.errors import UserError

ROW = "schema = 2\n[[table]]\nranks = %s\nrow = [%s]\n"


def test_what_is_written_is_read_back(catalogue, tmp_path):
    ring, bruck = catalogue.variant("ring(sync=light)"), catalogue.variant("bruck(radix=3)")
    evidence = Evidence(
        64,
        0.25,
        (1.5, 1.25, 1.75, 1.5),
        "native",
        (1.1, 1.0, 1.2, 1.1),
        27,
        9,
        3,
        0.9,
        (1.0, 2.0),
        True,
        ("ring(sync=none)", "native"),
    )
    table = DecisionTable(
        8,
        (Cutoff(99, bruck, 'a "b" \\'), Cutoff(999, ring, evidence=evidence), Cutoff(None, bruck)),
    )
    tuned = Origin("L", 8, hosts=("00",), fingerprint="f")
    tree = (TreeNode(-1, 1, 0), TreeNode(0, 2, 255))
    decision = Decision((table,), tuned, tree)
    write_decision(tmp_path / "d.toml", decision)
    assert read_decision(tmp_path / "d.toml", catalogue) == decision


def test_the_nearest_table_that_fits_serves(catalogue):
    pair, ring = catalogue.variant("pair(sync=none)"), catalogue.variant("ring(sync=none)")
    tables = tuple(
        DecisionTable(ranks, (Cutoff(None, variant, "x"),))
        for ranks, variant in ((8, pair), (16, catalogue.variant("native")), (0, ring))
    )
    decision = Decision(tables)
    assert [chosen_label(decision, Placement(ranks), 9) for ranks in (8, 4, 9, 64)] == [
        "pair(sync=none)",
        "pair(sync=none)",
        "native",
        "native",
    ]


@pytest.mark.parametrize(
    ("here", "label"),
    [
        (Placement(8, 8, 1, 560.0), "bruck(radix=2)"),
        (Placement(8, 2, 4, 1280.0), "ring(sync=none,leaders=2)"),
        (Placement(8, 2, 0, 1200.0), "ring(sync=none)"),  # hosts differ: no leaders
        (Placement(8, 1, 8), "native"),  # inside a host, which was not measured
        (Placement(6, 6, 1, 400.0), "bruck(radix=2)"),
        (Placement(8, 8, 1, 1280.0), "native"),  # across a trunk
        (Placement(32, 32, 1, 2480.0), "native"),  # four times as many
        (Placement(8, 8, 1), "bruck(radix=2)"),  # hosts that are not known
    ],
)
def test_where_the_ranks_are_decides(catalogue, here, label):
    def table(label, *where):
        return DecisionTable(8, (Cutoff(None, catalogue.variant(label), "x"),), *where)

    decision = Decision(
        (
            table("ring(sync=none,leaders=2)", 2, 4, 1280.0),
            table("ring(sync=none)", 2, 4, 1280.0),
            table("bruck(radix=2)", 8, 1, 560.0),
            DecisionTable(0, (Cutoff(None, catalogue.variant("native"), "x"),)),
        )
    )
    assert chosen_label(decision, here, 9) == label


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("schema = 1", "schema = 2 is expected.*make decide emit"),
        ("schema", "d.toml"),
        ("schema = 2", "table"),
        (ROW % (8, '{most=1, variant="native"}'), "last row"),
        (ROW % (8, '{variant="native"}, {variant="native"}'), "last row"),
        (
            ROW % (8, '{most=9, variant="native"}, {most=9, variant="native"}, {variant="native"}'),
            "grow",
        ),
        (ROW % (8, '{most=0, variant="native"}, {variant="native"}'), "grow"),
        (
            ROW % (8, '{most="9", variant="native"}, {variant="native"}'),
            r"Expected `int.*row\[0\].most`",
        ),
        (ROW % (-1, '{variant="native"}'), ">= 0.*ranks"),
        (ROW % (8, '{variant="rink"}'), "no variant"),
        (ROW % (8, '{variant="pair(sync=none)"}'), "must need nothing"),
        (ROW % (6, '{variant="pair(sync=none)"}'), "cannot serve"),
        (ROW % (8, ""), "last row"),
        (ROW % (8, '{variant="native"}') + "[[tree]]\nparent = 0\nspeed = 1", "its parent"),
        (ROW % (8, '{variant="native"}') + "[[tree]]\nparent = -1\nspeed = 0", "speed"),
        (ROW % (8, '{variant="native"}') + "[[tree]]\nparent = -1", "`speed`.*tree"),
        (ROW % (8, "1"), r"Expected `object`.*row.*doc/formats.md"),
        (ROW % (8, '{variant="native", moot=1}'), "unknown field `moot`"),
        (ROW % (8, '{variant="native", evidence={block=1, seconds=1, calls=true}}'), "calls"),
        (ROW % (8, '{variant="native", evidence={block=1, seconds=1, modes=[1.0]}}'), "modes"),
    ],
)
def test_a_wrong_file_is_refused(catalogue, tmp_path, text, word):
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(UserError, match=word):
        read_decision(tmp_path / "d.toml", catalogue)


def test_equal_neighbours_are_one_row(catalogue):
    a, b = catalogue.variant("native"), catalogue.variant("ring(sync=none)")
    rows = [Cutoff(1, a, "1"), Cutoff(2, a, "2"), Cutoff(3, b, "3"), Cutoff(None, b, "4")]
    assert merge_equal(rows) == (Cutoff(2, a, "1"), Cutoff(None, b, "3"))


def test_the_evidence_is_one_line():
    text = Evidence(
        8192, 0.01, (1.5, 1.4, 1.6, 1.9), "bruck(radix=2)", (1.2, 1.1, 1.3, 1.2), 27, 9, 3, 0.9
    ).text
    assert text == (
        "at 8 KiB: 1.50 (1.40-1.60; with time-outs 1.90) x native and 1.20 (1.10-1.30) x "
        "bruck(radix=2); 90% of the bandwidth bound; 27 calls, 3 retransmissions"
    )
    assert "two modes, 10 and 210 ms" in Evidence(1, 0.01, modes=(0.01, 0.21)).text
    assert "alone" in Evidence(1, 0.01).text


def test_wrong_evidence_is_refused(catalogue, tmp_path):
    row = '{variant="native", evidence={block=1, seconds=1.0, colour="red"}}'
    (tmp_path / "d.toml").write_text(ROW % (8, row))
    with pytest.raises(UserError, match="colour"):
        read_decision(tmp_path / "d.toml", catalogue)
