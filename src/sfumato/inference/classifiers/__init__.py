"""Classifiers that are made of noisy counts alone: each sorts rows into strata, and every stratum has one label."""
