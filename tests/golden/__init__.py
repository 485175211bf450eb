"""What is generated from the templates as it should be; ``write`` makes it anew."""

from pathlib import Path

HERE = Path(__file__).resolve().parent


def write() -> None:
    from search.algorithm import Catalogue
    from search.decision import read_decision
    from search.emission import emit_c, emit_h
    from search.summary import catalogue_page
    from search.toolchain import TEMPLATES
    from search.workplace import GENERIC

    catalogue = Catalogue(TEMPLATES / "alltoall")
    decision = read_decision(GENERIC, catalogue)
    (HERE / "alltoall.c").write_text(emit_c(decision, catalogue, TEMPLATES))
    (HERE / "alltoall.h").write_text(emit_h(TEMPLATES))
    (HERE.parents[1] / "doc" / "algorithms.md").write_text(catalogue_page(catalogue))
