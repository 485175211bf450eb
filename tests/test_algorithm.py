import pytest

from search.catalogue.algorithm import COST_TERMS
from search.catalogue.catalogue import Catalogue
from search.catalogue.expression import as_c, evaluate
from search.errors import UserError

MATTER = '{#\nname = "%s"\ntitle = "t"\ncite = "c"\ncost = "p"\n%s#}\n'


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 16, 33])
def test_labels_and_variants_are_one_to_one(catalogue, ranks):
    variants = catalogue.variants(ranks, legacy=True)
    labels = [variant.label for variant in variants]
    assert len(set(labels)) == len(labels)
    assert [catalogue.variant(label) for label in labels] == variants
    assert labels[0] == "native"


def test_needs_keep_variants_out(catalogue):
    assert not [v for v in catalogue.variants(6) if "power_of_two" in v.requires]
    assert [v for v in catalogue.variants(8) if v.requires == {"power_of_two"}]


def test_numbers_range_from_least_to_most(catalogue):
    def values(ranks, name):
        found = {
            dict(v.values)[name]
            for v in catalogue.variants(ranks)
            if name in dict(v.values) and v.body.algorithm.name in ("ring", "bruck")
        }
        return sorted(found)

    assert values(16, "barriers") == [1, 2, 4, 8, 14]
    assert values(9, "radix") == [2, 4, 8, 9]
    assert values(2, "barriers") == []
    values = dict(catalogue.variant("ring(sync=barrier,barriers=5)").values)
    assert {name: value for name, value in values.items() if value} == {"barriers": 5}


def test_names_of_numbers_stand_in_labels(catalogue):
    plain, other = (catalogue.variant(f"ring(sync=none{r})") for r in ("", ",ranking=switch"))
    assert catalogue.variant("ring(sync=none,ranking=index)") == plain
    assert plain.label == "ring(sync=none)"
    assert other.label == "ring(sync=none,ranking=switch)"
    assert (plain.named("ranking"), other.named("ranking")) == ("index", "switch")
    assert catalogue.variant("native").named("ranking") is None


def test_what_a_shorter_label_means_too_is_not_searched(catalogue):
    assert "bruck(radix=4,first=4)" not in {v.label for v in catalogue.variants(16)}
    near = {v.label for v in catalogue.variant("bruck(radix=4,first=3)").near(16)}
    assert "bruck(radix=3,first=3)" not in near
    assert "bruck(radix=2,first=3)" in near


def test_what_is_kept_for_the_record_is_not_searched(catalogue):
    kept = "bruck(posts=in_turn,radix=2)"
    assert kept not in {v.label for v in catalogue.variants(8)}
    assert kept in {v.label for v in catalogue.variants(8, legacy=True)}
    assert kept not in {v.label for v in catalogue.variant("bruck(radix=2)").near(8)}


def test_a_few_are_the_first_of_each(catalogue):
    few = {variant.label for variant in catalogue.variants(16, few=True)}
    assert {"bruck(radix=2)", "bruck(radix=4)", "ring(sync=none)"} <= few
    assert not any("radix=8" in label or "ranking" in label for label in few)


@pytest.mark.parametrize(
    "label",
    [
        "",
        "none",
        "ring",
        "ring(sync=none",
        "ring(sync=loud)",
        "ring(sync=barrier)",
        "bruck(radix=1)",
        "ring(sync=none,barriers=1)",
        "bruck(radix=x)",
        "bruck(radix=2,radix=3)",
        "ring(sync=none,ranking=random)",
        "bruck(radix=-2)",
        "native()",
        "simple(order=index);",
    ],
)
def test_what_is_no_label_is_refused(catalogue, label):
    if label == "native()":
        assert catalogue.variant(label).label == "native"
        return
    with pytest.raises(UserError, match="no variant|is a number|is one of"):
        catalogue.variant(label)


def test_only_keeps_native(catalogue):
    names = {v.body.algorithm.name for v in catalogue.variants(8, ("ring",))}
    assert names == {"native", "ring"}
    with pytest.raises(UserError, match="no algorithm 'rink'"):
        catalogue.variants(8, ("rink",))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("int x;", "front matter"),
        (MATTER % ("other", ""), "not the file's"),
        ('{#\nname = "a"\n#}', "missing required field `title`"),
        (MATTER % ("a", "legasy = true\n"), "unknown field `legasy`"),
        (MATTER % ("a", 'shared = ["sunk"]\n'), "cannot read .*shared.toml"),
        (MATTER % ("a", '[params.x]\nabout = "y"\nmin = 1\n'), "candidates is missing"),
        (
            MATTER % ("a", '[params.x]\nabout = "y"\ncandidates = "up"\nmin = 1\nmax = "p"\n'),
            "doubling",
        ),
        (MATTER % ("a", 'requires = ["luck"]\n'), "luck"),
        ("{#\nname = \n#}", "a.c.j2"),
    ],
)
def test_front_matter_is_checked(tmp_path, text, word):
    (tmp_path / "collective.toml").write_text('function = "MPI_Alltoall"')
    (tmp_path / "a.c.j2").write_text(text)
    with pytest.raises(UserError, match=word):
        Catalogue(tmp_path)


def test_every_cost_is_a_formula(catalogue):
    values = {"p": 8, "n": 100, "phases": 16, **dict.fromkeys(COST_TERMS, 1)}
    for body in catalogue.bodies():
        numbers = {number.name: 2 for number in body.numbers}
        assert evaluate(body.cost, {**values, **numbers}) > 0


def test_formulas_run_no_code():
    assert evaluate("2*(p-1)/ceil(n)", {"p": 5, "n": 1.5}) == 4
    for text in ("__import__('os')", "p.real", "q", "p if p else 1", "[p]", "p +", "1/0"):
        with pytest.raises(UserError):
            evaluate(text, {"p": 5})
    assert as_c("3*p*n + 1", []) == "3 * p * n + 1"
    assert as_c("2*p*n*(width>0)", ["width"]) == "2 * p * n * (values->width > 0)"
    assert [evaluate("2*(w>0)", {"w": w}) for w in (0, 7)] == [0, 2]
    with pytest.raises(UserError):
        as_c("p; system()", ["p"])


def test_near_is_one_step_in_one_parameter(catalogue):
    near = {v.label for v in catalogue.variant("simple(order=sliding,window=4)").near(16)}
    assert {f"simple(order=sliding,window={w})" for w in (2, 3, 6, 8)} <= near
    assert {"simple(order=index)", "simple(order=shifted)"} <= near
    assert "simple(order=sliding,window=4,ranking=interleaved)" in near
    phased = catalogue.variant("phased(sync=receiver,segment=4096,depth=1)")
    labels = {v.label for v in phased.near(16)}
    assert "phased(sync=sender,segment=4096,depth=1)" in labels
    assert "phased(sync=receiver,segment=0,depth=1)" in labels
    for ranks in (1, 2, 3, 16):
        for variant in catalogue.variants(ranks):
            for other in variant.near(ranks):
                assert catalogue.variant(other.label) == other
                assert other != variant
