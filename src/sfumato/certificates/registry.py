"""A release in the fields of the Differential Privacy Deployments Registry (OpenDP, Harvard, Oblivious, NIST).

Names, nesting and listed values are those of its schema, `deployments-registry-data`, as of 2026: basic, dp_variant,
privacy_loss, deployment_model, implementation and administrative. What a release cannot know is left out and listed, so
that nobody takes a guess for a statement.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sfumato.certificates.facts import Facts
from sfumato.kernel.budget import readable
from sfumato.plain_text import printable
from sfumato.releases.contents.content import Content
from sfumato.schema.columns import columns_of
from sfumato.schema.what_is_counted import what_is_counted

if TYPE_CHECKING:
    from sfumato.certificates.certificate import Certificate

# Fields of the registry that a file does not tell, and the fact that does.
TOLD_BY = {
    "basic.data_curators": ("curator", "curator_type"),
    "basic.intended_use": ("intended_use",),
    "basic.data_product_region": ("region",),
    "basic.data_product_sector": ("sector",),
    "basic.publication_date": ("published",),
    "administrative.registry_authors": ("author",),
}


def missing_fields(of: Certificate) -> list[str]:
    """The fields that an entry still needs from its curator."""
    unsaid = {name for name, value in vars(of.facts).items() if value is None}
    return [f"deployment.{name}" for name, facts in TOLD_BY.items() if unsaid & set(facts)]


def registry_record(of: Certificate) -> dict[str, Any]:
    """The entry, as the registry's YAML nests it."""
    promised = of.manifest.guarantee
    pure = promised.rho is None
    exact = f"epsilon {readable(promised.epsilon)}" + ("" if pure else f", delta {readable(promised.delta)}")
    parameters = {"epsilon": float(promised.epsilon)}
    if promised.rho is not None:
        parameters |= {"delta": float(promised.delta), "rho": float(promised.rho)}
        exact += f", both from rho {readable(promised.rho)} of zero-concentrated differential privacy"
    return {
        "url_slug": _slug(of),
        "deployment": {
            "basic": _basic(of),
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Zero-concentrated DP",
                "data_domain": f"Tables with the columns {_columns(of)}; any number of rows.",
                "unprotected_quantities": "None. The schema (columns, bounds, listed values, bins) is stated by the "
                "curator before the table is read, and is not protected.",
            },
            "privacy_loss": {
                "privacy_unit": printable(promised.unit),
                "privacy_unit_details": printable(promised.neighbours),
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"Exactly {exact}. {printable(promised.statement)}",
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "A curator who holds the table measures it once, with noise.",
                "release_type": "One release",
                "release_type_details": _receipt(of),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
                "access_type_details": "One file, which anyone may query for ever; that costs no further privacy.",
            },
            "implementation": _implementation(of),
            "administrative": {
                "status": "Draft",
                "tier": 2,
                **({} if of.facts.author is None else {"registry_authors": [of.facts.author]}),
            },
        },
    }


def _basic(of: Certificate) -> dict[str, Any]:
    facts: Facts = of.facts
    curators = [{"data_curator_name": facts.curator, "data_curator_type": facts.curator_type}]
    learned = type(of.content).predict is not Content.predict
    told = {
        "name": printable(of.schema.dataset),
        "data_curators": curators if facts.curator is not None else None,
        "description": printable(f"{of.content.about.extent}, released by {of.manifest.written_by}."),
        "intended_use": facts.intended_use,
        "data_product_type": "Machine learning model" if learned else "Summary statistics",
        "data_product_region": facts.region,
        "data_product_sector": facts.sector,
        "publication_date": facts.published,
    }
    return {name: value for name, value in told.items() if value is not None}


def _implementation(of: Certificate) -> dict[str, str]:
    recipe = of.recipe
    noise = f" Noise: {' and '.join(of.noises)}." if of.noises else ""
    rules = "; ".join(what_is_counted(of.schema))
    about = f"{recipe['name']}: {recipe['summary']}." if "summary" in recipe else f"{recipe['name']}."
    return {
        "preprocessing_and_hyperparameter_tuning": f"By rules of the public schema alone: {printable(rules)}."
        if rules
        else "None.",
        "mechanisms": f"{about}{noise} Noise is drawn exactly, on whole numbers, from the operating system's "
        "cryptographic source, with no floating-point value between random bits and noise.",
        "composition": "One charge for the whole release: the sum over everything that was measured, in exact "
        "fractions, cell by cell; a ledger adds up the releases of a dataset.",
        "post_processing": f"Answers follow from the noisy numbers alone: {printable(of.content.about.errors)}.",
        "additional_information": f"{of.manifest.written_by}; digest {of.digest}; known limits: {of.manifest.limits}.",
    }


def _receipt(of: Certificate) -> str:
    receipt = of.manifest.receipt
    if receipt is None:
        return "No ledger receipt."
    return printable(f"Entry {receipt.get('entry')} of ledger {receipt.get('ledger')}.")


def _columns(of: Certificate) -> str:
    shown = [f"{printable(one.name)} ({one.values})" for one in columns_of(of.schema)]
    few = shown[:30]
    return ", ".join(few) + (f" and {len(shown) - len(few)} more" if len(shown) > len(few) else "")


def _slug(of: Certificate) -> str:
    year = [] if of.facts.published is None else [of.facts.published[:4]]
    words = " ".join([of.schema.dataset, of.facts.curator or "", *year]).lower()
    return "-".join(re.findall(r"[a-z0-9]+", words)) or "release"
