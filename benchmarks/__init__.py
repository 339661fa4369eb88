"""Benchmarks: each checks the answer first, then times `eqbook` and its peer side by side, and keeps the record.

`python -m benchmarks.kernels` runs the cases, `python -m benchmarks.scaling` measures how the cost grows. Records are
JSON files in `benchmarks/results`; the page "Performance" of the book reads them, and nothing else.
"""
