"""An entry for the registry of deployments is valid by its rules, for every kind of release and whatever is known.

The rules are written down here as facts: which fields there are, of which type, which are required, which values are
listed. Whoever changes an entry compares it with the registry's own schema again.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import yaml

import sfumato as sf
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy, TestingEntropy
from sfumato.models import every_name, find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

STATUS = "Converted", "Draft", "Pending", "Changes Required", "Approved"
PRODUCTS = "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries"
SECTORS = "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"
VARIANTS = "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"
TEXT = str
# By field: its type, or the values that are listed, or the fields inside; those marked ! must be there.
RULES = {
    "url_slug!": TEXT,
    "status!": STATUS,
    "tier!": (1, 2, 3),
    "deployment!": {
        "basic!": {
            "name!": TEXT,
            "data_curators!": list,
            "intended_use!": TEXT,
            "data_product_type!": PRODUCTS,
            "data_product_region!": TEXT,
            "description!": TEXT,
            "publication_date!": date,
            "data_product_sector": SECTORS,
        },
        "dp_variant": {"variant_name": VARIANTS, "data_domain": TEXT, "unprotected_quantities": TEXT},
        "privacy_loss": {
            "privacy_unit": TEXT,
            "privacy_unit_details": TEXT,
            "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
            "privacy_parameters_details": TEXT,
        },
        "deployment_model": {
            "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
            "model_name_details": TEXT,
            "actors": TEXT,
            "release_type": ("One release", "Many releases"),
            "release_type_details": TEXT,
            "data_source_type": ("Static", "Dynamic"),
            "data_source_type_details": TEXT,
            "access_type": ("Interactive", "Non-interactive"),
            "access_type_details": TEXT,
        },
        "accounting": {"post_processing": TEXT, "composition": TEXT},
        "implementation": {"preprocessing_and_hyperparameter_tuning": TEXT, "mechanisms": TEXT, "justification": TEXT},
        "administrative": {"sources": TEXT, "notes": TEXT, "registry_authors!": list},
    },
}
SECOND = "dp_variant.variant_name privacy_loss.privacy_unit privacy_loss.privacy_parameters deployment_model.model_name"
THIRD = "dp_variant.data_domain dp_variant.unprotected_quantities privacy_loss.privacy_unit_details "
THIRD += "deployment_model.actors accounting.post_processing accounting.composition implementation.mechanisms "
THIRD += "implementation.preprocessing_and_hyperparameter_tuning implementation.justification"
FACTS = {
    "curator": "Office",
    "intended_use": "planning",
    "region": "Atlantis",
    "published": "2026-01-31",
    "author": "A",
}


def complaints(entry: object, rules: object = RULES, where: str = "entry") -> list[str]:
    """What the rules have against an entry."""
    if isinstance(rules, dict):
        if not isinstance(entry, dict):
            return [f"{where} has no fields"]
        known = {name.rstrip("!"): rule for name, rule in rules.items()}
        found = [f"{where}.{name} is unknown" for name in entry if name not in known]
        found += [f"{where}.{n[:-1]} is missing" for n in rules if n.endswith("!") and n[:-1] not in entry]
        inside = [complaints(value, known[name], f"{where}.{name}") for name, value in entry.items() if name in known]
        return found + [one for each in inside for one in each]
    if isinstance(rules, tuple):
        return [] if entry in rules and not isinstance(entry, bool) else [f"{where} is not listed: {entry!r}"]
    if rules is list:
        texts = isinstance(entry, list) and entry and all(isinstance(one, str) for one in entry)
        return [] if texts else [f"{where} is no list of texts"]
    if rules is float:
        return [] if isinstance(entry, int | float) and not isinstance(entry, bool) else [f"{where} is no number"]
    if rules is date:
        return [] if isinstance(entry, str) and date.fromisoformat(entry) else [f"{where} is no day"]
    return [] if isinstance(entry, str) and entry.strip() else [f"{where} is no text"]


def known(entry: dict, field: str) -> bool:
    section, name = field.split(".")
    return bool(entry["deployment"].get(section, {}).get(name))


def valid(path, **facts: str) -> dict:
    """The entry as it is printed, once it is held against the rules."""
    entry = sf.certificate(path, facts=facts).registry()
    printed = yaml.safe_load(yaml.safe_dump(entry))
    assert printed == entry and complaints(printed) == []
    assert all(known(entry, field) for field in f"{SECOND} {THIRD}".split())
    return entry


def schema_of(unit: object, **more: object) -> Schema:
    attributes = {
        "a": {"type": "integer", "lower": 0, "upper": 3},
        "b": {"type": "category", "values": ["x", "y: 'z'"]},
    }
    return Schema.from_dict({"dataset": "t", "privacy_unit": unit, "attributes": attributes, **more})


def saved(path: Path, name: str, schema: Schema, budget: Budget, entropy: Entropy) -> Path:
    """A release of twenty rows or so a cell, by a mechanism of this name."""
    mechanism = find_mechanism(name)
    mechanism = mechanism.with_options(mechanism.lab.tried_with)
    counts = (20 + np.arange(schema.domain.size) * 7 % 23).reshape(schema.domain.shape)
    sums = dict.fromkeys(list(schema.units)[1:], 0 * counts)
    curator = over_counts(
        schema, counts.reshape(-1), budget, entropy, {of: each.reshape(-1) for of, each in sums.items()}
    )
    content = mechanism.run(curator, schema, budget, None)
    guarantee = describe_guarantee(budget, schema)
    Release(content, name, guarantee, entropy.private, options=mechanism.chosen).save(path)
    return path


PERSON = {"column": "person_id", "contributions": 2}
MEASURE = {"m": {"lower": 0, "upper": 4, "step": 1}}


@pytest.mark.parametrize("name", every_name())
def test_every_mechanism_has_a_valid_entry_with_pure_and_with_gaussian_noise(name, tmp_path):
    mechanism = find_mechanism(name)
    schema = schema_of(PERSON, measures=MEASURE) if mechanism.lab.example is None else mechanism.lab.example(2)
    for budget in (Budget.pure(1), Budget.zcdp("1/8"))[: 1 + mechanism.gaussian]:
        entry = valid(saved(tmp_path / "r.sfumato", name, schema, budget, SystemEntropy()), **FACTS)
        loss, variant = entry["deployment"]["privacy_loss"]["privacy_parameters"], entry["deployment"]["dp_variant"]
        assert set(loss) == ({"epsilon"} if budget.is_pure else {"epsilon", "delta", "rho"})
        assert variant["variant_name"] == ("Pure DP" if budget.is_pure else "Zero-concentrated DP")


@pytest.mark.parametrize("unit", ["row", PERSON])
@pytest.mark.parametrize("measures", [{}, MEASURE])
def test_it_is_valid_whatever_is_known_and_its_tier_says_how_much_is(unit, measures, tmp_path):
    schema = schema_of(unit, **({"measures": measures} if measures else {}), budget={"epsilon": 3})
    path = saved(tmp_path / "r.sfumato", "cells", schema, Budget.pure(1), SystemEntropy())
    assert (
        valid(path, **FACTS)["tier"] == 3
        and valid(path, **FACTS, sector="Finance", url="https://a.example")["tier"] == 3
    )
    for unsaid in FACTS:
        entry = valid(path, **{name: fact for name, fact in FACTS.items() if name != unsaid})
        assert entry["tier"] == 1 and "To be stated by the curator" in entry["deployment"]["administrative"]["notes"]
    nothing = valid(path)
    assert nothing["status"] == "Draft" and nothing["deployment"]["basic"]["data_curators"] == [
        "Not stated by the curator."
    ]


def test_a_release_that_protects_nobody_says_so(tmp_path):
    path = saved(tmp_path / "r.sfumato", "cells", schema_of("row"), Budget.pure(1), TestingEntropy(1))
    assert "NOT PRIVATE" in valid(path)["deployment"]["administrative"]["notes"]


def test_the_rules_can_complain(tmp_path):
    entry = valid(saved(tmp_path / "r.sfumato", "cells", schema_of("row"), Budget.pure(1), SystemEntropy()))
    spoilt = deepcopy(entry)
    del spoilt["status"]
    spoilt["deployment"]["basic"]["data_curators"] = [{"data_curator_name": "Office"}]
    spoilt["deployment"]["basic"]["data_product_sector"] = "Sorcery"
    spoilt["deployment"]["implementation"]["additional_information"] = "more"
    spoilt["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] = "1"
    assert len(complaints(spoilt)) == 5
