"""Which of three layers a test is in: `make test`, `make test-full` or `make test-engines`.

A test is in `make test` unless a line here, or a mark of its own, says otherwise. Every line has its reason. What tells
of privacy by arithmetic and not by chance stays in `make test`, however long it takes: exact audits, and mutants that a
deterministic check finds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest

NAMES = ("test", "full", "engines")
STATED = "[MariaDB]"  # a server that the environment names and no package brings: without one its tests are skipped

# Beginnings of test names, as regular expressions, and what each needs that the extra `dev` does not bring.
ENGINES = {
    r"tests/lab/audit/mutants/test_adapters.py::test_every_broken_adapter": "PostgreSQL and Spark",
    r"tests/lab/audit/reading/test_attack.py::\w+\[(PostgreSQL|Spark|ClickHouse|MariaDB|polars)\]": "that source",
    r"tests/lab/audit/reading/test_attack.py::\w+\[linked tables, (PostgreSQL|Spark)\]": "that source",
    r"tests/serve/web/test_openapi.py": "schemathesis",
    r"tests/serve/web/test_serving_browser.py": "a browser",
    r"tests/serve/pgwire/catalogue/test_database.py": "PostgreSQL",
    r"tests/serve/pgwire/test_extended.py": "asyncpg",
    r"tests/serve/pgwire/test_r.py": "R and ODBC, which are no packages of Python",
    r"tests/fire/test_noise.py::test_opendp": "OpenDP",
    r"tests/kernel/sampling/test_noise.py::test_opendp": "OpenDP",
    r"tests/kernel/reading/engines/other/test_engine.py": "ClickHouse",
    r"tests/kernel/reading/engines/postgres/test_": "PostgreSQL",
    r"tests/kernel/reading/engines/spark/test_(engine|sessions).py": "Spark",
    r"tests/kernel/reading/engines/spark/test_java.py::test_the_wheels_java": "a Java of its own",
    r"tests/kernel/reading/formats/test_frames.py": "polars",
    r"tests/kernel/reading/test_table.py::test_a_hundred_attributes": "polars",
    r"tests/kernel/reading/test_(recoding|people).py::test_(postgresql|spark)": "that source",
    r"tests/publishing/test_discover.py::test_(postgresql|spark)": "that source",
    r"tests/answers/test_frames.py": "polars",
    r"tests/answers/test_plot.py": "matplotlib",
    r"tests/public/report/test_page_browser.py": "a browser",
    r"tests/test_cookbook.py": "a document that runs",
    r"tests/test_house.py::test_the_examples_of_every_page_are_true\[python\]": "polars",
    r"tests/test_house.py::test_the_readme_works": "a document that runs",
    r"tests/test_pipelines.py::test_the_nightly": "a document that runs",
    r"tests/test_site.py": "mkdocs",
    r"tests/test_tutorials.py::test_it_can_be_followed": "a document that runs",
    r"tests/test_wheel.py": "build and twine",
}

# As above, and why it takes longer than the three seconds that a test of `make test` may take.
FULL = {
    r"tests/answers/test_parts.py::test_intervals_of_sums_over_months": "coverage",
    r"tests/publishing/test_noisy_bounds.py::test_the_intervals?_of": "coverage",
    r"tests/cli/test_discover.py::test_a_draft_becomes_a_schema": "a handful of commands",
    r"tests/releases/file/test_series.py::test_every_byte_counts": "hundreds of broken files",
    r"tests/cli/test_series.py::test_a_series_from_its_first": "a dozen commands",
    r"tests/public/test_combine.py::test_intervals_hold": "coverage",
    r"tests/lab/audit/attacks/test_descents.py::test_the_mechanism_as_a_whole": "replays in full",
    r"tests/lab/audit/attacks/test_replay.py::test_shipped_mechanisms_pass_on_(all|drawn)": "replays in full",
    r"tests/lab/audit/attacks/test_sampling.py::test_(plain_laplace_reaches|a_noise_shortfall)": "millions of runs",
    r"tests/lab/audit/calibration/test_breaking.py::test_what_is_guaranteed": "hundreds of releases of each mechanism",
    r"tests/lab/audit/mutants/test_registry.py::test_(what_is_caught_by_a_check|controls)": "audits by sampling",
    r"tests/lab/audit/reading/test_attack.py::test_no_unit_moves_more_than_is_charged_by": "120 pairs of each source",
    r"tests/lab/audit/statements/test_run.py::test_(statements_are|mistakes_are)": "hundreds of statements each",
    r"tests/lab/audit/subjects/test_registry.py::test_(no_violation|quick_subjects)": "audits by sampling",
    r"tests/models/margins/test_zeros.py::test_(intervals_of|rows_are_never)": "24 releases, and rows of them",
    r"tests/lab/audit/test_report.py::test_every_mechanism": "every attack on every mechanism",
    r"tests/fire/test_canaries.py::test_(every_command|forced_failures|a_process)": "every command, every failure",
    r"tests/fire/test_files.py::test_mutants_end": "1,500 files",
    r"tests/fire/test_floats.py::test_whole_releases": "300 releases of each mechanism",
    r"tests/fire/test_ledger.py::test_(kills|many_spenders|a_disk|flipped_bits)": "processes killed at every step",
    r"tests/models/calibration/test_counted_first.py::test_(with_next_to_no_noise|single_values_are)": "over 4 s each",
    r"tests/models/margins/test_workload.py::test_what_was_named_has_less": "errors of many releases",
    r"tests/lab/papers/bayes/test_bayes.py::test_its_intervals_hold": "coverage",
    r"tests/lab/papers/mldp/test_mldp.py::test_(intervals_of|where_few)": "coverage, and errors of many releases",
    r"tests/lab/papers/pac/test_pac.py::test_the_error_is_covered": "coverage",
    r"tests/models/base/test_mechanism_contract.py::test_intervals_hold": "coverage: 100 releases of each mechanism",
    r"tests/lab/reproduce/(\w+/test_|test_\w+_study)": "the studies of papers again",
    r"tests/answers/test_survival.py::test_intervals_hold": "coverage",
    r"tests/answers/test_(formulas|functions|spreads).py::test_(gaps|the_difference|intervals_of_dev)": "coverage",
    r"tests/answers/test_fieller.py::test_a_(share_is|linear_answer_with_a_cut_bin_is)_covered": "coverage",
    r"tests/answers/test_answers_intervals_together.py::test_overlapping_ranges_hold": "coverage",
    r"tests/answers/test_row_forms.py::test_max_and_min_are_held": "coverage",
    r"tests/answers/test_selection.py::test_(each_interval_is_as_sure|so_they_do_where_cells)": "coverage",
    r"tests/kernel/reading/test_statement.py::test_whole_numbers_need_no_doubles": "3 s",
    r"tests/kernel/verbs/test_(partitioning|sparse_vector).py::test_it_follows_its_law": "laws by many draws",
    r"tests/kernel/verbs/test_exponential.py::test_a_million_candidates": "a million candidates",
    # Checks on what is sound, beside the mutants that they find; what is shipped passes the same audits in `make test`.
    r"tests/lab/audit/mutants/test_registry.py::test_checks_do_not_complain": "some sixty audits once more",
    r"tests/lab/audit/mutants/test_registry.py::test_is_caught\[a confidence for each of several bounds\]": "coverage",
    r"tests/lab/cli/test_reproduce.py::test_one_paper": "a study of a paper as a process",
    r"tests/lab/papers/(bayes|blr|pac)/test_\w+.py::test_from_the_command_line": "processes",
    r"tests/lab/papers/blr/test_blr.py::test_intervals_hold": "coverage",
    r"tests/lab/papers/sq/test_classifier.py::test_intervals_of": "coverage",
    r"tests/models/partition/test_ispe.py::test_intervals_hold": "coverage",
    r"tests/models/test_init.py::test_no_(word_with_another_meaning|mechanism_is_named)": "every line of the source",
    r"tests/models/tree/test_messages.py::test_(sparse_and_even|slices_serve)": "errors of many releases",
    r"tests/models/tree/test_sfumato.py::test_sparse_and_dense_tables": "errors of many releases",
    r"tests/models/margins/test_nested.py::test_intervals_hold": "coverage of releases, 25 s each",
    r"tests/models/margins/test_mechanisms_margins.py::test_three_way_tables_beat": "errors of many releases",
    r"tests/models/weights/test_mwem.py::test_intervals_hold": "coverage",
    r"tests/planner/test_forecast.py::test_a_hot_cell_is_explained": "over 10 s",
    r"tests/public/test_compare.py::test_where_nothing_differs": "how often it errs, in many releases",
    r"tests/queries/test_base_laws.py::test_(columns_of_whole_queries_exactly|floating)": "hundreds of drawn queries",
    r"tests/serve/web/test_pool.py::test_(where_nothing_is_forked|others_are_answered|a_slow_question_gets)": "servers",
    r"tests/sql/test_predicates.py::test_conditions_mean_what_they_mean_in_duckdb": "hundreds of drawn conditions",
    r"tests/test_house.py::test_the_examples_of_every_page_are_true\[margins\]": "a document that runs, 16 s",
}


def layer_of(item: pytest.Item) -> str:
    """The layer of a test, which has no two."""
    found = {name for name in NAMES[1:] if item.get_closest_marker(name)}
    for name, rules in (("engines", ENGINES), ("full", FULL)):
        if any(re.match(rule, item.nodeid) for rule in rules):
            found.add(name)
    return "engines" if "engines" in found else "full" if found else "test"


def mark_layers(items: Iterable[pytest.Item]) -> Counter[str]:
    """Mark every test with its layer, one mark at most; how many there are of each, to be checked by `--layers`."""
    counted: Counter[str] = Counter()
    for item in items:
        layer = layer_of(item)
        item.own_markers = [mark for mark in item.own_markers if mark.name not in NAMES]
        if layer != "test":
            item.add_marker(layer)
        counted[layer] += 1
    return counted
