"""The small Sphinx extensions, piece by piece."""

import code_links
import pytest
from docstring_math import process_signature, to_rest


@pytest.mark.parametrize(
    ("docstring", "rest"),
    [
        ("With $\\alpha_1$.", "With :math:`\\alpha_1`."),
        ("The $n$th, `x$y$`, ``$z$``.", "The :math:`n`\\ th, `x$y$`, ``$z$``."),
        ("$$a\n  = b$$", ":math:`a = b`"),
        ("Over $|G|$ and |G| elements.", "Over :math:`|G|` and \\|G\\| elements."),
        ("So::\n\n    cost = $5 | $6\n\nAnd $x$.", "So::\n\n    cost = $5 | $6\n\nAnd :math:`x`."),
        (">>> f('$x$')\n'|'", ">>> f('$x$')\n'|'"),
    ],
    ids=["formula", "letter and code", "two lines", "bars", "literal block", "doctest"],
)
def test_docstrings_are_read_as_written(docstring, rest):
    assert to_rest(docstring) == rest


def test_signatures_name_public_types():
    before = ("(x: Float[jaxlib._jax.Array, 'n'], y: jaxlib._jax.Array | None)", None)
    after = ("(x: Float[jax.Array, 'n'], y: jax.Array | None)", None)
    assert process_signature(None, "function", "f", None, None, *before) == after


def test_functions_are_mapped_to_the_names_they_are_documented_under():
    names = code_links.documented_names()
    assert names["eqbook.grams.gram.gram"] == "eqbook.grams.gram"
    assert names["eqbook.groups.augmentation.augment"] == "eqbook.groups.augment"
    assert all(home != name for home, name in names.items())
