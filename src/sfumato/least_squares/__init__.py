"""Generalised least squares: (A^T P A)^-1 with A the queries of a strategy and P the precisions of their noise.

The inverse does two things. It solves: (A^T P A)^-1 A^T P y is the unbiased estimate of least variance from noisy
answers y. It prices: trace(V (A^T P A)^-1) with V = W^T W is the squared error on a workload W, known before any data.
Each family of queries has a class that does both, `solve` and `price` (`base.LeastSquares`), in closed form where there
is one; `general` serves all others. `closed_forms.least_squares` chooses.

To add a family: write its class beside the others, add its line to `closed_forms.FORMS`, and list an example of it in
tests/least_squares/test_families.py, which compares both with the dense matrix.

`gram` has the Gram matrix V of a workload in short form, `expected_error` the error of a strategy on it.
"""
