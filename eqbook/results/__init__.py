"""Recorded runs of the paper profile, and how a chapter sets them beside the paper's numbers and its own.

A chapter that runs with `EQBOOK_PROFILE=paper` writes `book/results/<chapter>.json` by `write`. Every later build reads
it by `read`, and `comparison` shows three columns: the paper, the recorded run, this build. The papers' own numbers are
in `book/results/papers/<chapter>.json`, each with the place in the paper that it was read from (`paper_values`).
`benchmark` reads what the benchmarks have recorded.
"""

from eqbook.results.files import ResultsError as ResultsError
from eqbook.results.files import benchmark as benchmark
from eqbook.results.files import results_dir as results_dir
from eqbook.results.paper import PaperValue as PaperValue
from eqbook.results.paper import paper_values as paper_values
from eqbook.results.quantity import Quantity as Quantity
from eqbook.results.record import Recorded as Recorded
from eqbook.results.record import read as read
from eqbook.results.record import write as write
from eqbook.results.table import Comparison as Comparison
from eqbook.results.table import Row as Row
from eqbook.results.table import Table as Table
from eqbook.results.table import comparison as comparison

__all__ = [
    "Comparison",
    "PaperValue",
    "Quantity",
    "Recorded",
    "ResultsError",
    "Row",
    "Table",
    "benchmark",
    "comparison",
    "paper_values",
    "read",
    "results_dir",
    "write",
]
