"""Figures follow the page: no black ink, no clash of ids between figures, and a colour-blind-safe contrast."""

import re

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from eqbook import plotting


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
    assert "currentColor" in svg and plotting._INK not in svg
    # Matplotlib leaves out the style of black shapes, and writes it for all others.
    assert not re.search(r"(fill|stroke): ?(#000000|black)", svg)


def test_two_figures_share_no_id(style):
    first, second = (set(re.findall(r' id="([^"]+)"', plotting.to_svg(draw()))) for _ in range(2))
    assert first and not first & second


def test_alternative_text_comes_from_the_axes(style):
    fig = draw()
    svg = plotting.to_svg(fig, plotting._alt(fig))
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


def test_outside_a_notebook_nothing_is_registered(style):
    assert plotting._register_display() is None


def test_a_notebook_gets_inline_svg(style, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        plotting.use_style()
        data, _ = shell.display_formatter.format(draw())
        assert data["text/html"].startswith('<div class="eqbook-figure"><svg ')
    finally:
        InteractiveShell.clear_instance()
