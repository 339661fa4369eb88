"""Gram matrices: the one place where a kernel for one pair of inputs becomes a matrix over batches."""

from eqbook.grams.gram import Gram as Gram
from eqbook.grams.gram import gram as gram

__all__ = ["Gram", "gram"]
