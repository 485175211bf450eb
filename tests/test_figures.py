"""The pages that readers see, of made-up benches."""

import json

import pytest

from search.analysis.bench import headline_of
from search.analysis.figures import (
    BEGIN,
    END,
    Result,
    make_figures,
    page,
    ratios,
    table,
    with_figures,
)
from search.errors import UserError

from .conftest import ROOT


def row(block, ratio, low, high):
    return {
        "block": block,
        "native_s": 1e-3 * ratio,
        "generated_s": 1e-3,
        "ratio": ratio,
        "ratio_interval": [low, high],
        "launches": [ratio, ratio],
        "limit_s": 9e-4,
        "retransmissions": {"native": 7, "generated": 1},
        "variant": "ring(sync=none)",
    }


ROWS = [row(1, 2.0, 1.9, 2.1), row(1024, 1.0, 0.9, 1.1), row(65536, 0.5, 0.4, 0.6)]
RESULT = Result("two-switches", {"cluster": "8 ranks", "library": "MPICH", "rows": ROWS})


def test_one_sentence_tells_how_many_sizes_are_faster():
    assert headline_of(ROWS) == (
        "Of 3 sizes 1 are significantly faster than native, 1 slower (64 KiB), 1 equal: 1.00 x in "
        "the geometric mean, 0.50 x at worst (64 KiB); 2 launches."
    )


def test_the_page_names_the_commit_and_every_size():
    text = page("abc123", [RESULT])
    assert "at commit abc123" in text and "2 launches each" in text
    assert "| 64 KiB | 0.5 | 1 | 0.50 | 0.40-0.60 | 90% | 7 / 1 | ring(sync=none) |" in text
    assert table(ROWS).count("\n") == 2 + 3
    assert ratios([RESULT]) == ratios([RESULT])


def test_the_readme_keeps_what_is_not_figures():
    text = (ROOT / "README.md").read_text()
    again = with_figures(text, "abc123", [RESULT])
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    assert again.startswith(before) and again.endswith(after)
    assert "abc123" in again and "| 1 KiB |" in again
    assert with_figures(again, "abc123", [RESULT]) == again


def test_a_cluster_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match="no cluster nowhere in doc/clusters"):
        make_figures(["nowhere"], tmp_path, lambda *_: tmp_path, print)


def test_results_are_written_for_clusters_that_ran(tmp_path, monkeypatch):
    from search.analysis import figures

    for folder in ("doc/clusters", "build"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "doc/clusters/two-switches.conf").write_text("")
    (tmp_path / "README.md").write_text(f"a\n{BEGIN}\nold\n{END}\nb\n")
    monkeypatch.setattr(figures, "SOURCE", tmp_path)
    monkeypatch.setattr(figures, "CLUSTERS", tmp_path / "doc/clusters")
    monkeypatch.setattr(figures, "commit_of", lambda _: "abc123")

    def run(path, folder):
        bench = tmp_path / "bench.json"
        bench.write_text(json.dumps(RESULT.content))
        return bench

    make_figures([], tmp_path, run, lambda _: None)
    assert "abc123" in (tmp_path / "doc/results.md").read_text()
    assert (tmp_path / "doc/results.svg").read_text().startswith("<svg")
    assert "old" not in (tmp_path / "README.md").read_text()
