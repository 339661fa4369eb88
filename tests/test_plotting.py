"""Figures follow the page: no black ink, no clash of ids, a colour-blind-safe contrast; what a slider is made of."""

import io
import re
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from eqbook import plotting
from eqbook.plotting.svg import INK, alternative_text


@pytest.fixture
def style():
    with matplotlib.rc_context():
        plotting.use_style()
        yield
    plt.close("all")


def draw():
    fig, axes = plt.subplots(1, 3)
    axes[0].plot([1, 2], [3, 4], "o-", label="a line")
    axes[0].set(title="title", xlabel="$x_0$", ylabel="y < 1 & more")
    axes[0].legend()
    axes[0].fill_between([1, 2], [2, 3], [4, 5], alpha=0.2)
    axes[0].annotate("here", (1, 3), (1.5, 3.5), arrowprops={"arrowstyle": "->"})
    axes[1].boxplot([np.arange(5), np.arange(9)])
    axes[1].bar([1, 2], [1, 2])
    axes[2].errorbar([1, 2], [1, 2], yerr=0.1)
    axes[2].imshow(np.eye(3))
    return fig


def test_ink_is_the_page_s_text_colour(style):
    svg = plotting.to_svg(draw())
    assert svg.startswith("<svg ") and svg.rstrip().endswith("</svg>")
    assert "currentColor" in svg and INK not in svg
    assert not re.search(r"(fill|stroke): ?(#000000|black)", svg)
    # Of black text matplotlib writes no fill at all.
    texts = re.findall(r'<g id="[^"]*text_\d+">\s*<!--.*?-->\s*<g ([^>]*)>', svg, re.S)
    assert len(texts) == len(re.findall(r'id="[^"]*text_\d+"', svg)) > 20
    assert all("fill: currentColor" in style for style in texts)


def test_two_figures_share_no_id(style):
    first, second = (set(re.findall(r' id="([^"]+)"', plotting.to_svg(draw()))) for _ in range(2))
    assert first and not first & second


def test_alternative_text_comes_from_the_axes(style):
    fig = draw()
    svg = plotting.to_svg(fig, alternative_text(fig))
    assert 'aria-label="title; x_0; y  1  more"' in svg


def luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("background", ["#ffffff", "#121212"])
@pytest.mark.parametrize("color", [*plotting.COLORS, plotting.NEUTRAL])
def test_contrast_of_graphics_is_at_least_three(color, background):
    """WCAG 2.1, criterion 1.4.11."""
    low, high = sorted([luminance(color), luminance(background)])
    assert (high + 0.05) / (low + 0.05) >= 3


def test_the_style_needs_no_ipython(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)  # importing it fails
    with matplotlib.rc_context():
        plotting.use_style()
        assert matplotlib.rcParams["text.color"] == INK


def test_a_notebook_gets_inline_svg(style, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        plotting.use_style()
        data, _ = shell.display_formatter.format(draw())
        assert data["text/html"].startswith('<div class="eqbook-figure"><svg ')
    finally:
        InteractiveShell.clear_instance()


def curves(n, **kwargs):
    figures = []
    for i in range(n):
        fig, axis = plt.subplots(**kwargs)
        axis.plot(np.linspace(0, 1, 50), np.linspace(0, 10**i, 50))  # tick labels of different widths
        axis.set(xlabel="x", title=f"frame {i}")
        figures.append(fig)
    return figures


def test_slider_frames_share_their_size_and_no_id(style):
    html = plotting.slider(curves(4), list("abcd"), title="time", start=1)._repr_html_()
    sizes = re.findall(r'<svg [^>]*?width="([^"]+)"[^>]*?', html)
    assert len(sizes) == 4 == len(set(re.findall(r'data-index="(\d)"', html))) and len(set(sizes)) == 1
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'"#([^"]+)"', html)) <= set(ids)


def test_slider_is_a_still_figure_without_scripts(style):
    """The first frame stands outside of the list that is folded; nothing in it is a script or a style sheet."""
    html = plotting.slider(curves(3), ["0 < 1", "b", "c"], title="time & tide", start=2)._repr_html_()
    before, folded = html.split("<details>")
    assert before.count("<svg ") == 1 and 'data-index="2"' in before and folded.count("<svg ") == 2
    assert "2 more pictures" in folded and "time &amp; tide: 0 &lt; 1" in folded
    assert not re.search(r"<script|<style[ >]| on[a-z]+=|javascript:", html.replace('<style type="text/css">', ""))


def numbers(text):
    return np.array(re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text), float)


def test_compact_frames_draw_the_same_picture(style):
    """Coordinates to a hundredth of a point, everything else as it was, letter for letter."""
    fig = draw()
    fig.canvas.draw()
    fig.set_layout_engine("none")  # it would move the axes a little each time the figure is drawn
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg")
    exact, compact = buffer.getvalue(), plotting.to_svg(fig, tight=False)
    assert len(compact) < 0.9 * len(exact)
    for attribute in (r"\sd", r"\sx", r"\sy"):
        pairs = [re.findall(rf'{attribute}="([^"]*)"', svg) for svg in (exact, compact)]
        assert len(pairs[0]) == len(pairs[1]) > 0
        for one, other in zip(*pairs, strict=True):
            assert re.sub(r"[^A-Za-z]", "", one) == re.sub(r"[^A-Za-z]", "", other)
            np.testing.assert_allclose(numbers(one), numbers(other), atol=0.00501, rtol=0)
    for attribute in ("transform", "viewBox", "width", "height"):
        one, other = (re.findall(rf'\s{attribute}="([^"]*)"', svg) for svg in (exact, compact))
        assert one == other != []


def test_slider_says_little_of_itself(style):
    assert repr(plotting.slider(curves(2), ["a", "b"], title="t")) == "Slider('t', 2 frames from 'a' to 'b')"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plotting.slider(curves(1), ["a"], title="t"), "`figures`: expected at least two, got 1"),
        (lambda: plotting.slider(curves(2), ["a"], title="t"), "`labels`: expected 2, one for each figure, got 1"),
        (lambda: plotting.slider(curves(2), "ab", title="t", start=2), "`start`: expected 0 to 1, got 2"),
        (lambda: plotting.slider(curves(2), "ab", title="t", start=1.0), "`start`: expected 0 to 1, got 1.0"),
        (
            lambda: plotting.slider([*curves(1), *curves(1, figsize=(2, 2))], "ab", title="t"),
            "`figures`: expected one size",
        ),
    ],
    ids=["one", "labels", "start", "start of another kind", "sizes"],
)
def test_slider_refuses(style, make, message):
    with pytest.raises(ValueError, match=message):
        make()
