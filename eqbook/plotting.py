"""One figure style, readable on a light and on a dark page.

`use_style()` sets the style and makes notebooks show figures as inline SVG whose text and axes take the colour of the
surrounding text, so that a page's dark mode reaches them. A raster copy is kept beside it for viewers that show no SVG.
"""

import io
import itertools
import re
from typing import Any

# Eight hues with a contrast of at least 3 to 1 both on white and on a dark page, told apart without red against green.
COLORS = ("#3b82c4", "#d9722b", "#2f9e77", "#b5609f", "#8f7a1f", "#7a74d1", "#c8553d", "#5f8793")
NEUTRAL = "#808080"
_INK = "#010203"  # a colour that nothing else uses, replaced by the page's own text colour
_INK_SETTINGS = (
    "text.color",
    "axes.edgecolor",
    "axes.labelcolor",
    "xtick.color",
    "ytick.color",
    "patch.edgecolor",
    "hatch.color",
    "lines.color",
    "boxplot.boxprops.color",
    "boxplot.whiskerprops.color",
    "boxplot.capprops.color",
    "boxplot.flierprops.color",
    "boxplot.flierprops.markeredgecolor",
)
_figures = itertools.count()


def use_style() -> None:
    """Set the style of all figures that follow, and how a notebook shows them."""
    import matplotlib as mpl

    mpl.rcParams.update(
        {
            "figure.figsize": (6.4, 3.4),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "savefig.transparent": True,
            "font.size": 10,
            "axes.prop_cycle": mpl.cycler(color=COLORS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10,
            "axes.grid": True,
            "grid.color": NEUTRAL,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.6,
            "legend.frameon": False,
            "lines.linewidth": 1.6,
            "image.cmap": "viridis",
            "svg.fonttype": "path",
            **{name: _INK for name in _INK_SETTINGS},
            "axes.facecolor": "none",
            "figure.facecolor": "none",
        }
    )
    _register_display()


def to_svg(figure: Any, alt: str = "figure") -> str:
    """Inline SVG of a figure, its ink drawn in `currentColor`.

    Args:
        figure: a matplotlib figure.
        alt: text for readers who do not see the figure.

    Returns:
        An `<svg>` element, without XML header, with ids that no other figure of the page uses.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "eqbook"}):  # without it, ids would differ from run to run
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.S)
    # All figures of a page share its ids: number them.
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>f{next(_figures)}-", svg)
    svg = svg.replace(_INK, "currentColor")
    style = 'style="max-width:100%;height:auto;background:none"'
    return svg.replace("<svg ", f'<svg role="img" aria-label="{alt}" {style} ', 1)


def _register_display() -> None:
    """In IPython, show figures by `to_svg`; elsewhere do nothing."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is None:
        return
    from matplotlib.figure import Figure

    try:
        # The notebook backend is loaded with the first figure and then removes what was registered before.
        import matplotlib_inline.backend_inline  # noqa: F401
    except ImportError:
        pass
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type(
        Figure, lambda figure: f'<div class="eqbook-figure">{to_svg(figure, _alt(figure))}</div>'
    )


def _alt(figure: Any) -> str:
    """What the axes say of themselves: titles and labels."""
    words = [text for axis in figure.axes for text in (axis.get_title(), axis.get_xlabel(), axis.get_ylabel()) if text]
    return re.sub(r'["<>&$\\]', "", "; ".join(words)) or "figure"
