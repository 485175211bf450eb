from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.cluster.topology import Link, Topology, bandwidth_bound
from search.cluster.topology_file import parse_conf, parse_yaml, read_topology
from search.errors import UserError

CLUSTERS = Path(__file__).resolve().parent.parent / "doc" / "clusters"


@pytest.mark.parametrize(
    ("name", "switches", "hosts"),
    [
        ("two-switches", 2, 8),
        ("paper-a", 1, 16),
        ("paper-b", 2, 32),
        ("paper-c-star", 4, 32),
        ("paper-c-chain", 4, 32),
        ("chain", 3, 11),
    ],
)
def test_shipped_clusters(name, switches, hosts):
    tree = read_topology(CLUSTERS / f"{name}.conf")
    assert (len(tree.switches), len(tree.hosts)) == (switches, hosts)
    assert len(tree.links) == switches + hosts - 1


def test_keys_are_case_insensitive_and_lines_continue():
    tree = parse_conf("switchname=a NODES=n[0-1] \\\n  linkspeed=10 # fast\n\n", "f")
    assert tree == Topology(("n0", "n1"), ("a",), (Link("a", "n0", 10), Link("a", "n1", 10)))


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("", "f:", "no switch"),
        ("Nodes=n0", "f:1", "SwitchName="),
        ("SwitchName=a Nodes=n0\nnonsense", "f:2", "nonsense"),
        ("SwitchName=a Nodes=n0 Nodes=n1", "f:1", "twice"),
        ("SwitchName=a Nodes=n0 LinkSpeed=fast", "f:1", "fast"),
        ("SwitchName=a Nodes=n0 LinkSpeed=-1", "f:1", "-1"),
        ("SwitchName=a Nodes=n0\nSwitchName=a Nodes=n1", "f:2", "defined twice"),
        ("SwitchName=a Nodes=n0\nSwitchName=b Nodes=n0 Switches=a", "f:2", "n0"),
        ("SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1", "f:2", "not connected"),
        ("SwitchName=a Nodes=n0 Switches=b\nSwitchName=b Nodes=n1 Switches=a", "f:1", "cycle"),
        (
            "SwitchName=r Nodes=n0\nSwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a",
            "f:2",
            "cycle",
        ),
        ("SwitchName=a Nodes=n0 Switches=b", "f:1", "not defined"),
        ("SwitchName=a Nodes=n0 Switches=b\nSwitchName=b", "f:2", "no host"),
        ("SwitchName=a Nodes=a", "f:1", "names a switch and a host"),
        ("SwitchName=a Nodes=n0,N0.x", "f:", "may be one host"),
    ],
)
def test_what_is_no_tree_is_refused_with_line_and_reason(text, place, word):
    with pytest.raises(UserError) as error:
        parse_conf(text, "f")
    assert str(error.value).startswith(place)
    assert word in str(error.value)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_topology(tmp_path / "none.conf")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a text file"):
        read_topology(tmp_path / "binary")


@st.composite
def trees(draw):
    """Random trees: each switch but the first hangs off an earlier one."""
    switches = draw(st.integers(1, 5))
    links = [
        Link(f"s{draw(st.integers(0, i - 1))}", f"s{i}", draw(st.sampled_from([10, 100])))
        for i in range(1, switches)
    ]
    hosts = []
    for i in range(switches):
        for _ in range(draw(st.integers(1, 3))):
            hosts.append(f"n{len(hosts)}")
            links.append(Link(f"s{i}", hosts[-1], draw(st.sampled_from([10, 100]))))
    return Topology(tuple(hosts), tuple(f"s{i}" for i in range(switches)), tuple(links))


def path(tree, a, b):
    """The directed links from a to b, by walking up from both."""
    above = {link.lower: link for link in tree.links}

    def up(name):
        walk = []
        while name in above:
            walk.append(above[name])
            name = above[name].upper
        return walk

    mine, theirs = up(a), up(b)
    shared = set(mine) & set(theirs)
    return [(x, "up") for x in mine if x not in shared] + [
        (x, "down") for x in theirs if x not in shared
    ]


@given(trees(), st.data())
def test_limit_is_the_busiest_directed_link_of_all_messages(tree, data):
    ranks_on = {host: data.draw(st.integers(0, 3)) for host in tree.hosts}
    block, seconds = 1000, {}
    for a, b in permutations(tree.hosts, 2):
        for link, way in path(tree, a, b):
            amount = ranks_on[a] * ranks_on[b] * block * 8 / (link.mbit * 1e6)
            seconds[link, way] = seconds.get((link, way), 0) + amount
    assert bandwidth_bound(tree, [ranks_on], block, share=1.0) == pytest.approx(
        max(seconds.values(), default=0)
    )


def test_limit_is_unknown_where_a_speed_is():
    tree = parse_conf("SwitchName=a Nodes=n[0-1]", "f")
    assert bandwidth_bound(tree, [{"n0": 1, "n1": 1}], 10) is None


YAML = """
- topology: other
  flat: true
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[0-1]
        link_speed: 10000
      - switch: s0
        nodes: node[01-02]
      - switch: s1
        nodes: node[03-04]
        link_speed: 1000
"""


def test_yaml_tells_the_same_tree(tmp_path):
    conf = parse_conf(
        "SwitchName=root Switches=s[0-1] LinkSpeed=10000\nSwitchName=s0 Nodes=node[01-02]\n"
        "SwitchName=s1 Nodes=node[03-04] LinkSpeed=1000\n",
        "f",
    )
    path = tmp_path / "topology.yaml"
    path.write_text(YAML)
    assert read_topology(path) == conf


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("", "f:", "a list with"),
        ("- topology: [", "f:1", "not YAML"),
        ("topology: x", "f:", "a list with"),
        ("- topology: x\n  flat: true", "f:", "one tree"),
        ("- tree: {switches: []}", "f:", "no list of switches"),
        ("- tree: {switches: [{switch: a, nodes: n1}]}\n" * 2, "f:", "cluster_default"),
        ("- tree:\n    switches:\n    - nodes: n1", "f:3", "switch: NAME"),
        ("- tree:\n    switches:\n    - {switch: a, node: n1}", "f:3", "'node'"),
        ("- tree:\n    switches:\n    - {switch: a, nodes: n1, link_speed: x}", "f:3", "LinkSpeed"),
        ("- tree: {switches: [{switch: a, nodes: n1},\n  {switch: b, nodes: n1}]}", "f:2", "n1"),
        ("- tree: {switches: [{switch: '$(x)', nodes: n1}]}", "f:1", "not a name"),
    ],
)
def test_bad_yaml_is_refused_with_its_place(text, place, word):
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "f")
    assert str(caught.value).startswith(place)
    assert word in str(caught.value)
