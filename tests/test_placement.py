"""Placements: how users say them, which ranks they mean, and tables for them on a real job."""

import pytest

from search.analysis.findings import Findings, points_of
from search.cli.configured import make_cluster
from search.cli.options import parser
from search.cli.verbs.configure import make_settings
from search.cluster.hosts import Cluster, Host
from search.cluster.placement import Placement, ranges, ranks_at
from search.cluster.site import Site
from search.cluster.topology_file import parse_conf
from search.decide.decision import Cutoff, Decision, DecisionTable, Origin, hashed_tree
from search.emit.emission import emit_c, emit_h
from search.errors import UserError
from search.results.cell import Cell
from search.results.samples import Sample
from search.results.workload import Team, Workload
from search.toolchain import TEMPLATES

TREE = """\
SwitchName=s0 Nodes=n[0-1] Switches=s1 LinkSpeed=50
SwitchName=s1 Nodes=n[2-3] LinkSpeed=50
"""
HOSTS = [("n0", 4), ("n1", 4), ("n2", 1)]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("2x4", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("3x1", (0, 4, 8)),
        ("1x3", (0, 1, 2)),
        ("1+3", (0, 4, 5, 6)),
        ("n1x2", (4, 5)),
        ("n[0-1]x2", (0, 1, 4, 5)),
        ("n[1-2]", (4, 8)),
    ],
)
def test_a_placement_means_ranks(text, ranks):
    assert ranks_at(text, HOSTS) == ranks


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("4x1", "4 hosts are wanted, there are 3"),
        ("3x2", "2 ranks are wanted on n2, which takes 1"),
        ("1x5", "5 ranks are wanted on n0"),
        ("n7x2", "no host n7"),
        ("1x1", "two ranks"),
        ("x2", "no host x2"),
        ("2x", "2x4"),
        ("0+2", "2x4"),
        ("", "2x4"),
    ],
)
def test_what_is_no_placement_is_refused(text, why):
    with pytest.raises(UserError, match=f"--placement=.*{why}"):
        ranks_at(text, HOSTS)


def test_what_is_shown_of_a_table_was_measured_at_its_place(catalogue):
    """Not on as many ranks elsewhere."""
    native, ring = catalogue.variant("native"), catalogue.variant("ring(sync=none)")

    def cell(placement, seconds):
        times = {n: {0: Sample((s,))} for n, s in ((native, seconds), (ring, 1.0))}
        return Cell(Workload(4, 64, placement=placement), times)

    cells = {cell.workload: cell for cell in (cell("4x1", 2.0), cell("2x2", 3.0))}
    bench = [
        {"ranks": 4, "block": 9, "placement": "1x4", "ratio": 5.0, "ratio_interval": (4.0, 6.0)}
    ]
    bench[0].update(limit_s=None, generated_s=1.0, native_s=5.0)
    rows = (Cutoff(None, ring),)
    tables = [DecisionTable(4, rows, placement=p) for p in ("4x1", "2x2", "1x4")]
    findings = Findings("", cells, [], Decision(tuple(tables)), None, bench, lambda workload: None)
    shown = [[p.ratio[0] for p in points_of(findings, table)[0]] for table in tables]
    assert shown == [[2.0], [3.0], [5.0]]


def test_ranges():
    assert ranges((0, 1, 2, 5, 7, 8)) == "0-2,5-5,7-8"


def test_a_cluster_knows_how_its_ranks_lie(tmp_path):
    (tmp_path / "tree").write_text(
        "SwitchName=a Nodes=n[0-1] LinkSpeed=100\nSwitchName=b Nodes=n[2-3] LinkSpeed=100\n"
        "SwitchName=c Switches=a,b LinkSpeed=50\n"
    )
    options = parser().parse_args(
        ["configure", f"--emulate={tmp_path}/tree", "--emulate-slots=2", "--placement=4x1"]
        + ["--placement=2x2", "--placement=1+2", "--placement=1x2"]
    )
    cluster, _ = make_cluster(options, {})
    settings = make_settings(options, cluster)
    assert [team.ranks for team in settings.teams] == [4, 4, 3, 2]
    assert [cluster.placement(team) for team in settings.teams] == [
        Placement(4, 4, 1, 4 * 160.0),  # across the trunk
        Placement(4, 2, 2, 4 * 80.0),  # two hosts on one switch
        Placement(3, 2, 0, 2 * 80.0),
        Placement(2, 1, 2, 0.0),
    ]
    assert cluster.placement(Team(8)) == Placement(8, 4, 2, 16 * 160.0)
    assert cluster.hosts_of(Team(3, "1+2")) == ["n0", "n1", "n1"]


def test_the_file_chooses_by_where_the_ranks_are(
    tools, emulation, catalogue, tmp_path, monkeypatch
):
    """As Python says that it does, on hosts of an emulation."""
    monkeypatch.setenv("ATALL_VERBOSE", "1")
    tree = parse_conf(TREE, "here")
    cluster = Cluster("emulated", tuple(Host(h, 2) for h in tree.hosts), 8, tree, buffer=32768)

    def table(label, *teams):
        rows = (Cutoff(None, catalogue.variant(label), label),)
        wheres = [cluster.placement(team) for team in teams]
        return [DecisionTable(w.ranks, rows, w.hosts, w.each, w.load) for w in wheres]

    decision = Decision(
        (
            *table("ring(sync=none,leaders=1)", Team(4, "2x2")),
            *table("phased(sync=none)", Team(4, "4x1")),
            *table("bruck(radix=2)", Team(4, "2x2")),
            *table("simple(order=index)", Team(2, "1x2")),
            *table("native", Team(0)),
        ),
        Origin("MPICH", 8),
        hashed_tree(cluster.topology),
    )
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    (tmp_path / "alltoall.c").write_text(emit_c(decision, catalogue, TEMPLATES))
    tools.compile_job(tmp_path / "alltoall.c", tmp_path / "measure")
    with Site(cluster, tools, tmp_path) as site:
        job = site.start_job(tmp_path / "measure")
        for place in ("2x2", "4x1", "1x2", "2+1", "1+2", "2x1", "n[2-3]x2", "n[1-2]x2", "3x2"):
            team = Team(len(cluster.members(Team(0, place))), place)
            job.choose_team(team)
            assert job.ask("verify generated 64").get("verdict") == "ok"
            here = cluster.placement(team)
            chosen = decision.table(here)
            words = f"table for {chosen.ranks} ranks on {chosen.hosts} host(s)"
            said = (tmp_path / "job.log").read_text().splitlines()[-1]
            where = f"communicator of {team.ranks} ranks on {here.hosts} host(s): "
            assert where + (words if chosen.ranks else "far from all that was tuned") in said, place
        job.close()


def test_the_load_and_the_bound_know_hosts_by_either_name():
    tree = parse_conf(TREE, "here")
    short = tuple(Host(name, 1) for name in tree.hosts)
    full = tuple(Host(f"{name}.cluster.org", 1) for name in tree.hosts)
    one, other = (Cluster("ssh", hosts, 4, tree) for hosts in (short, full))
    assert one.placement(Team(4)) == other.placement(Team(4)) == Placement(4, 4, 1, 4 * 160.0)
    assert one.limit(Workload(4, 64)) == other.limit(Workload(4, 64)) > 0
