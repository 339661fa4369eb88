"""The small Sphinx extensions, piece by piece."""

import code_links
import pytest
import status_words
from docstring_math import process_signature, to_rest
from inline_scripts import move_scripts
from math_punctuation import keep_together
from plain_markdown import to_plain


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


@pytest.mark.parametrize(
    ("myst", "plain"),
    [
        (
            "```{prf:theorem} Main\n:label: thm-a\n\nBy {eq}`eq-a`, {term}`the kernel <NTK>` is $K$.\n```\nSo.",
            "**Theorem** `thm-a` (Main).\n\nBy (eq-a), the kernel is $K$.\n\nSo.",
        ),
        (":::{prf:proof}\n{prf:ref}`thm-a` and {cite:p}`x2020`.\n:::", "**Proof**.\n\n`thm-a` and [x2020]."),
        ("$$\na = b\n$$ (eq-a)\n", "$$\na = b \\tag{eq-a}\n$$"),
        ("````{exercise-start}\n:label: ex-a\n````\nDo.\n````{exercise-end}\n````", "**Exercise** `ex-a`.\n\nDo."),
        ("```{solution-start} ex-a\n:class: dropdown\n```", "**Solution** of `ex-a`."),
        ("(here)=\n## Title, {doc}`../theory/infinite_width`", "## Title, *infinite width*"),
        ("```bash\n:x: {eq}\n```\nEnd.", "```bash\n:x: {eq}\n```\nEnd."),
        ("```bash\nls\n```\n\n(here)=\n## On {eq}`a`", "```bash\nls\n```\n\n## On (a)"),
        ("```text\n{eq}`a`\n\n\n(x)=\n```\nBy {eq}`a`.", "```text\n{eq}`a`\n\n\n(x)=\n```\nBy (a)."),
        (":::{prf:proof}\n```c++\n{eq}`a`\n```\n{eq}`a`\n:::", "**Proof**.\n\n```c++\n{eq}`a`\n```\n(a)"),
        (":::{note}\n:class: tip\nText.\n:::", ":::{note}\n:class: tip\nText.\n:::"),
    ],
    ids=[
        *("theorem", "proof", "formula", "gated exercise", "gated solution", "target", "code"),
        *("text behind code", "roles in code", "code in a proof", "other directive"),
    ],
)
def test_notebooks_are_readable_without_myst(myst, plain):
    assert to_plain(myst) == plain


def test_status_marks_become_words():
    from docutils import nodes

    cells = [nodes.paragraph("", "", nodes.Text(text)) for text in ("✅", "❌", "a ✅ in a sentence")]
    document = nodes.container("", *cells)
    status_words.replace_emoji(None, document, "page")
    assert [cell.astext() for cell in document.children] == ["passed", "failed", "a ✅ in a sentence"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["so ", "$x", ", and ", "$y", "."], "so [$x,] and [$y.]"),
        (["if (", "$x", "; ", "$y", ") so"], "if [($x;] [$y)] so"),
        (["$x", ",", "$y"], "[$x,]$y"),
        (["the ", "$n", "th of ", "$C", "-invariant"], "the $nth of $C-invariant"),
        (["$x"], "$x"),
        (["$x", None, "."], "$x<>."),
    ],
    ids=["behind", "around", "between", "letters and hyphens stay", "alone", "another element follows"],
)
def test_formulas_keep_their_punctuation(parts, expected):
    from docutils import nodes

    def node(part):
        if part is None:
            return nodes.image()
        return nodes.math(part, part) if part.startswith("$") else nodes.Text(part)

    def shown(one):
        if isinstance(one, nodes.inline):
            assert one["classes"] == ["nowrap"]
            return f"[{''.join(map(shown, one.children))}]"
        return "<>" if isinstance(one, nodes.image) else one.astext()

    paragraph = nodes.paragraph("", "", *map(node, parts))
    before = paragraph.astext()
    keep_together(None, nodes.container("", paragraph), "page")
    assert "".join(map(shown, paragraph.children)) == expected
    assert paragraph.astext() == before


def test_inline_scripts_become_files_and_handlers_data(tmp_path):
    page = (
        '<script>let a = "1";</script><script src="b.js"></script><script type="application/json">{}</script>'
        '<script data-x="1">let a = "1";</script><script>const THEBE_JS_URL = "https://elsewhere"</script>'
        '<button title="t" onclick="window.print()">p</button><pre>&lt;script&gt;c&lt;/script&gt;</pre>'
    )
    moved = move_scripts(page, "../", tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == 'let a = "1";\n'
    address = f'src="../_static/inline/{file.name}"'
    assert moved.split("\n") == [
        f"<script {address}></script>",
        '<script src="b.js"></script><script type="application/json">{}</script>'
        f'<script data-x="1" {address}></script>',
        '<button title="t" data-click="window.print">p</button><pre>&lt;script&gt;c&lt;/script&gt;</pre>',
    ]
    assert move_scripts(moved, "../", tmp_path) == moved
