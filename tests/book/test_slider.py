"""The moving figures in a browser: by keyboard, under a policy that forbids inline scripts, and without any script."""

from pathlib import Path

import matplotlib
import pytest
from page_checks import open_page, sliders

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from eqbook import plotting

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
VISIBLE = (
    "Array.from(document.querySelectorAll('.eqbook-frame')).filter(f => f.checkVisibility()).map(f => f.dataset.label)"
)
POLICY = "default-src 'none'; script-src file:; style-src 'unsafe-inline' file:"
CODES = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}


@pytest.fixture(scope="module")
def html():
    """Four frames, the third first."""
    figures = [plt.figure(figsize=(3, 2)) for _ in range(4)]
    for i, figure in enumerate(figures):
        figure.subplots().plot([0, 10**i])
    labels = [f"step {i}" for i in range(4)]
    shown = plotting.slider(figures, labels, title="training time", start=2)._repr_html_()
    plt.close("all")
    return shown


@pytest.fixture
def show(tmp_path, browser, html):
    def open_with(script=True):
        page = tmp_path / "page.html"
        scripts = f'<script src="{(STATIC / "slider.js").as_uri()}"></script>' if script else ""
        sheet = f'<link rel="stylesheet" href="{(STATIC / "book.css").as_uri()}">'
        policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        page.write_text(f"<html><head>{policy}{sheet}{scripts}</head><body>{html}</body></html>")
        return open_page(browser, page)

    return open_with


def press(browser, key):
    for kind in ("keyDown", "keyUp"):
        browser.command("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=CODES[key])


def test_a_reader_moves_it_with_the_keyboard(show, browser):
    _, asked = show()
    assert asked == []
    assert browser.evaluate(VISIBLE) == ["step 2"]
    browser.evaluate("document.querySelector('input[type=range]').focus()")
    for key, expected in (("ArrowRight", 3), ("ArrowRight", 3), ("ArrowLeft", 2), ("Home", 0), ("End", 3)):
        press(browser, key)
        assert browser.evaluate(VISIBLE) == [f"step {expected}"], key
        assert browser.evaluate("document.activeElement.getAttribute('aria-valuetext')") == f"step {expected}"
    assert browser.evaluate("document.activeElement.labels[0].textContent") == "training time"


def test_without_scripts_all_frames_can_be_read(show, browser):
    show(script=False)
    assert browser.evaluate(VISIBLE) == ["step 2"]
    browser.evaluate("document.querySelector('summary').click()")
    assert browser.evaluate(VISIBLE) == ["step 2", "step 0", "step 1", "step 3"]


def test_the_page_check_passes_and_finds_a_missing_script(show, browser):
    show()
    assert sliders(browser) == []
    show(script=False)
    assert sliders(browser) == ["slider 1: no range input: is slider.js loaded?"]


def test_the_page_check_finds_a_slider_that_does_not_move(show, browser):
    show()
    browser.evaluate("document.querySelectorAll('.eqbook-frame')[1].remove()")
    browser.evaluate("document.querySelector('.eqbook-frame').dataset.label = 'another'")
    assert sliders(browser)
