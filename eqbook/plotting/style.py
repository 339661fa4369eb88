"""The style of all figures, and how a notebook shows them."""

from typing import Any

from eqbook.plotting.svg import INK, alternative_text, to_svg

# Eight hues with a contrast of at least 3 to 1 both on white and on a dark page, told apart without red against green.
COLORS = ("#3b82c4", "#d9722b", "#2f9e77", "#b5609f", "#8f7a1f", "#7a74d1", "#c8553d", "#5f8793")
NEUTRAL = "#808080"
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


def use_style() -> None:
    """Set the style of all figures that follow, and how a notebook shows them.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # here, not above: an optional dependency, and slow to load
    except ImportError as error:
        raise ImportError("figures need matplotlib; install it, or eqbook with the extra `plot`.") from error

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
            **{name: INK for name in _INK_SETTINGS},
            "axes.facecolor": "none",
            "figure.facecolor": "none",
        }
    )
    register_display()


def register_display() -> None:
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
    shell.display_formatter.formatters["text/html"].for_type(Figure, _to_html)


def _to_html(figure: Any) -> str:
    return f'<div class="eqbook-figure">{to_svg(figure, alternative_text(figure))}</div>'
