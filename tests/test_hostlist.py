import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.cluster.hostlist import Names, expand, name_hash, short_name
from search.errors import UserError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n0", ["n0"]),
        ("a,b-1", ["a", "b-1"]),
        ("n[0-3,12]", ["n0", "n1", "n2", "n3", "n12"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[0-1]n[1,3],x", ["r0n1", "r0n3", "r1n1", "r1n3", "x"]),
        ("", []),
    ],
)
def test_expands_slurm_lists(text, names):
    assert expand(text, "here") == names


@pytest.mark.parametrize(
    "text",
    [
        "n[",
        "n]",
        "n[0-",
        "n[3-1]",
        "n[a-b]",
        "n[]",
        "a,,b",
        ",a",
        "a,",
        "n[0-999999999]",
        "n[0-9999][0-9999]",
        "-oProxyCommand=x",
        "$(id)",
        "`id`",
        "a b",
        "a\nb",
        "a\0b",
        "*/",
        "??/",
        "%n",
        "{{7*7}}",
        "n[[0-1]]",
        "n[1-99999999999999999999]",
    ],
)
def test_refuses_what_is_no_list_of_names(text):
    with pytest.raises(UserError, match="^here: "):
        expand(text, "here")


@given(st.text(max_size=40))
def test_never_lets_anything_but_names_through(text):
    try:
        names = expand(text, "here")
    except UserError:
        return
    for name in names:
        assert name[0].isalnum()
        assert all(c.isalnum() or c in "._-" for c in name)
        assert name.isascii()


def test_a_host_is_known_by_its_short_lower_case_name():
    assert short_name("Node7.Cluster.org") == "node7"
    assert short_name("10.0.0.7") == "10.0.0.7"
    names = Names(["Node7.Cluster.org", "n8", "10.0.0.7", "10.0.0.8"])
    assert names.of("node7") == names.of("Node7.cluster.org") == "node7"
    assert [names.of(name) for name in ("N8.x", "10.0.0.8", "new.x")] == ["n8", "10.0.0.8", "new"]
    assert name_hash("node7") != name_hash("node8")
    assert name_hash("") == 0xCBF29CE484222325  # FNV-1a's offset basis


def test_hosts_with_the_same_short_name_are_known_in_full():
    names = Names(["n1.a.org", "n2.a.org"])
    assert names.add("N1.b.org") is None
    assert [names.of(name) for name in ("N1.A.org", "n1.b.org", "n2")] == [
        "n1.a.org",
        "n1.b.org",
        "n2",
    ]
    for again in ("n1.A.org", "n1", "N2", "n2.A.org"):
        assert names.add(again).split(".")[0] == again.split(".")[0].lower()
