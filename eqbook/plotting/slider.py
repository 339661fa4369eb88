"""Several figures in one place, moved by a slider."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from eqbook.plotting.svg import alternative_text, check_figure, to_svg

_sliders = itertools.count()


@dataclass(frozen=True, repr=False)
class Slider:
    """Frames of a moving figure, drawn once; a notebook and the book show it as HTML.

    The HTML has no script. In the book, `_static/slider.js` finds it and adds a range input. Everywhere else, or where
    scripts are off, it is the first frame and a fold-out list of all others: elements that every browser knows, so
    that a notebook needs neither widgets, nor a kernel, nor trust in scripts.

    Args:
        frames: SVG of each frame.
        labels: what the slider says at each frame.
        title: name of what the slider changes.
        start: index of the frame that is shown first.
    """

    frames: tuple[str, ...]
    labels: tuple[str, ...]
    title: str
    start: int = 0

    def __repr__(self) -> str:
        return f"Slider({self.title!r}, {len(self.frames)} frames from {self.labels[0]!r} to {self.labels[-1]!r})"

    def _repr_html_(self) -> str:
        name = f"eqbook-slider-{next(_sliders)}"
        figures = [
            f'<figure class="eqbook-frame" data-index="{index}" data-label="{escape(label)}">{frame}'
            f"<figcaption>{escape(self.title)}: {escape(label)}</figcaption></figure>"
            for index, (frame, label) in enumerate(zip(self.frames, self.labels, strict=True))
        ]
        first = figures.pop(self.start)
        return (
            f'<div class="eqbook-figure eqbook-slider" id="{name}" data-title="{escape(self.title)}">{first}'
            f"<details><summary>{len(figures)} more pictures like this one</summary>{''.join(figures)}</details></div>"
        )


def slider(figures: Sequence[Any], labels: Sequence[str], *, title: str, start: int = 0) -> Slider:
    """One figure that a reader moves, from figures drawn beforehand.

    Args:
        figures: matplotlib figures of one size, at least two.
        labels: a text for each, such as the time that it shows.
        title: name of what changes, such as "training time".
        start: index of the figure that is shown first.

    Returns:
        An object that a notebook shows. Let it be the last expression of a cell.

    Raises:
        ValueError: if there are fewer than two figures, they differ in size, there is not one label for each, or
            `start` is not the index of one.
    """
    for name, given in (("figures", figures), ("labels", labels)):
        if not isinstance(given, Iterable):
            raise ValueError(f"`{name}`: expected a list, one for each figure, got {given!r}.")
    if not isinstance(title, str):
        raise ValueError(f"`title`: expected a text, got {title!r}.")
    figures, labels = list(figures), [str(label) for label in labels]
    if len(figures) < 2:
        raise ValueError(f"`figures`: expected at least two, got {len(figures)}; show a single one as it is.")
    if len(labels) != len(figures):
        raise ValueError(f"`labels`: expected {len(figures)}, one for each figure, got {len(labels)}.")
    for figure in figures:
        check_figure("figures", figure)
    sizes = {tuple(map(float, figure.get_size_inches())) for figure in figures}
    if len(sizes) > 1:
        raise ValueError(f"`figures`: expected one size, got {sorted(sizes)} inches; give all the same `figsize`.")
    if not isinstance(start, int | np.integer) or start not in range(len(figures)):
        raise ValueError(f"`start`: expected 0 to {len(figures) - 1}, got {start!r}.")
    frames = tuple(
        to_svg(figure, f"{title}: {label}; {alternative_text(figure)}", tight=False)
        for figure, label in zip(figures, labels, strict=True)
    )
    return Slider(frames, tuple(labels), title, start)
