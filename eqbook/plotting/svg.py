"""Figures as inline SVG whose ink is the colour of the text around them."""

import io
import itertools
import re
from html import escape
from typing import Any

INK = "#010203"  # a colour that nothing else uses, replaced by the page's own text colour
_figures = itertools.count()


def to_svg(figure: Any, alt: str = "figure", *, tight: bool = True) -> str:
    """Inline SVG of a figure, its ink drawn in `currentColor`.

    Args:
        figure: a matplotlib figure.
        alt: text for readers who do not see the figure.
        tight: whether to cut off empty margins. Without, pictures of figures of one size are of one size, and their
            coordinates are rounded to a hundredth of a point.

    Returns:
        An `<svg>` element, without XML header, with ids that no other figure of the page uses.

    Raises:
        ValueError: if `figure` is none.
    """
    import matplotlib as mpl

    check_figure("figure", figure)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "eqbook"}):  # without it, ids would differ from run to run
        metadata = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", metadata=metadata, bbox_inches="tight" if tight else None)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.S)
    if not tight:
        svg = _compact(svg)
    # All figures of a page share its ids: number them.
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>f{next(_figures)}-", svg)
    svg = svg.replace(INK, "currentColor")
    width = re.match(r'<svg [^>]*?width="([\d.]+)pt"', svg)[1]  # a style sheet may use it as a scale
    style = f'style="--width:{float(width):.0f}pt;max-width:100%;height:auto;background:none"'
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" {style} ', 1)


def check_figure(name: str, figure: Any) -> None:
    """Raise unless `figure` is one of matplotlib.

    Raises:
        ValueError: naming the argument.
    """
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        raise ValueError(f"`{name}`: expected a matplotlib figure, got {figure!r}.")


def _compact(svg: str) -> str:
    """The same picture in fewer letters: coordinates of paths and marks to two decimals, no white space between tags.

    Scales and other transforms keep their digits: those of letters are small numbers.
    """

    def rounded(attribute: re.Match) -> str:
        text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), attribute[0])
        return re.sub(r"\s+(?=[MLCQz\"])", "", text).replace("\n", " ")

    svg = re.sub(r'(?<= )(?:d|x|y)="[^"]*"', rounded, svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    return re.sub(r">\s+<", "><", svg)


def alternative_text(figure: Any) -> str:
    """What the axes say of themselves: titles and labels."""
    words = [text for axis in figure.axes for text in (axis.get_title(), axis.get_xlabel(), axis.get_ylabel()) if text]
    return re.sub(r'["<>&$\\]', "", "; ".join(words)) or "figure"
