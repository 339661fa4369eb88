"""Benchmarks: a comparison checks that both sides give one answer, then times them in turn, and keeps the record.

`python -m benchmarks.kernels` runs the cases, `python -m benchmarks.scaling` measures how the cost of `eqbook` grows.
Records are JSON files in `benchmarks/results`; the page "Performance" of the book reads them, and nothing else.
"""
