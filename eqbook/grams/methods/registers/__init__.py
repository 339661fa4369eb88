r"""The recursion of `displacements` as one kernel of a GPU, which keeps every layer in registers.

For one pair of images and one displacement the recursion is one of images `[h, w]`, in which no other displacement
takes part. A thread holds one column of K and one of Theta. A filter reads rows from the thread's own registers, and
columns from those of the threads beside it. Nothing is written between the input and the pool: what is read are the
images, and the standard deviations of their pixels at each relu.

The kernel is written in Pallas, for Triton, whose arrays have sides that are powers of two.
"""

from eqbook.grams.methods.registers.kernel import kernels
from eqbook.grams.methods.registers.layout import Layout, Unit, arrange, units
from eqbook.grams.methods.registers.machine import THREADS, trusted

__all__ = ["THREADS", "Layout", "Unit", "arrange", "kernels", "trusted", "units"]
