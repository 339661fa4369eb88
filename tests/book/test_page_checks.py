"""The page checks find what they are for: each defect is put on a page of its own."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
import yaml
from browser import Browser
from bs4 import BeautifulSoup
from page_checks import (
    figures,
    inline_code,
    layout,
    links,
    mathematics,
    open_page,
    open_under_policy,
    printed,
    remote,
    remote_in_css,
)
from served import serve

ROOT = Path(__file__).resolve().parents[2]
MATHJAX = (ROOT / "book" / "vendor" / "mathjax" / "tex-svg-full.js").as_uri()


@pytest.fixture
def show(tmp_path, browser):
    """Open a page with the given body, with the book's MathJax and its configuration."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["mathjax3_config"]

    def open_body(body):
        page = tmp_path / "page.html"
        head = f"<script>window.MathJax = {json.dumps(config)}</script><script src='{MATHJAX}'></script>"
        page.write_text(f"<html><head>{head}</head><body><article>{body}</article></body></html>")
        return open_page(browser, page)

    return open_body


def formula(tex):
    return f'<span class="math notranslate nohighlight">\\({tex}\\)</span>'


def test_good_mathematics_passes(show):
    dom, asked = show(formula(r"\mathcal L = \frac12 \|f - y\|^2") + "<p><code>$HOME</code></p>")
    assert mathematics(dom) == [] and asked == [] and remote(BeautifulSoup("<p></p>", "html.parser")) == []


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        (formula(r"\undefinedmacro x"), "Undefined control sequence"),
        (formula(r"\frac{1}{2"), "not typeset once"),
        (formula(r"\begin{aligned} a"), "Missing \\end{aligned}"),
        (formula("a^b^c"), "Double exponent"),
        ("<p>costs $x$</p>", "left untypeset"),
        ("<p>see {prf:ref}`thm`</p>", "left untypeset"),
        (r"<p>\begin{aligned} a &amp;= b \end{aligned}</p>", "typeset formulas for 0"),
        ('<span class="math notranslate tex2jax_ignore">x</span>', "not typeset once"),
    ],
    ids=["macro", "brace", "environment", "exponent", "dollar", "role", "outside a formula", "no mathematics"],
)
def test_bad_mathematics_is_found(show, body, finding):
    assert any(finding in found for found in mathematics(show(body)[0]))


@pytest.mark.parametrize(
    "element",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<script src="//cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="https://example.org/a.css">',
        '<img src="http://example.org/a.png">',
        '<img src="a.png" srcset="b.png 1x, https://example.org/c.png 2x">',
        '<iframe src="https://example.org"></iframe>',
        "<style>@font-face { src: url('https://example.org/a.woff2') }</style>",
    ],
)
def test_remote_resources_are_found(element):
    assert len(remote(BeautifulSoup(element, "html.parser"))) == 1


def test_links_out_are_no_resources():
    page = '<a href="https://example.org">x</a><link rel="canonical" href="https://example.org"><img src="a.png">'
    assert remote(BeautifulSoup(page, "html.parser")) == []
    assert remote_in_css("a { background: url(data:image/png;base64,AA) } b { src: url(x.woff) }") == []
    assert remote_in_css("@import 'https://example.org/a.css';") == ["https://example.org/a.css"]


def test_a_request_of_a_script_is_found(show):
    dom, asked = show("<script>fetch('https://example.org/data.json').catch(() => 0)</script>")
    assert asked == ["https://example.org/data.json"] and remote(dom) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    page = tmp_path / "a.html"
    good = '<a href="b.html#here"></a><a href="#"></a><a href="https://example.org"></a><a href="mailto:a@b.c"></a>'
    page.write_text(good)
    assert links(page, tmp_path, {}) == []
    bad = (
        '<a href="c.html">',
        '<a href="b.html#there">',
        '<img src="d.png">',
        '<a href="#lost">',
        '<a href="../x.html">',
    )
    for element in bad:
        page.write_text(good + element)
        assert len(links(page, tmp_path, {})) == 1, element


@pytest.mark.parametrize(
    ("svg", "count"),
    [
        ('<text fill="currentColor">a</text><path stroke="currentColor" fill="none" d="M0 0L9 9"/>', 0),
        ('<text y="9">black by default</text>', 1),
        ('<text y="9" fill="#fff">white on white</text>', 1),
        ('<path stroke="#000" fill="none" d="M0 0L9 9"/>', 1),
        ('<use fill="#222" href="#f0-DejaVuSans-Oblique-3b"/>', 1),
        ('<use fill="#222" xlink:href="#Cmmi10-41"/>', 1),
        ('<use fill="#eee" href="#f0-m16998bcd3b"/>', 0),
        ('<path stroke="#3b82c4" fill="none" d="M0 0L9 9"/><path fill="#440154" d="M0 0h9v9z"/>', 0),
        ('<defs><path id="x" d="M0 0L9 9"/></defs>', 0),
    ],
    ids=["follows the page", "default", "white", "axes", "glyph", "formula", "marker", "colours", "definitions"],
)
def test_ink_that_a_theme_swallows_is_found(show, browser, svg, count):
    style = (
        "<style>:root { background: #fff; color: #222 } "
        ":root[data-theme=dark] { background: #121212; color: #ddd }</style>"
    )
    dom, _ = show(f'{style}<div class="cell_output"><svg>{svg}</svg></div>')
    assert len(figures(dom, browser)) == count


def test_raster_figures_are_found(show, browser):
    dom, _ = show('<div class="cell_output"><img src="data:image/png;base64,AA=="></div>')
    assert len(figures(dom, browser)) == 1


def test_a_table_that_a_theme_swallows_is_found(show, browser):
    style = "<style>:root { background: #fff; color: #222 } :root[data-theme=dark] { background: #121212 }</style>"
    dom, _ = show(f'{style}<div class="cell_output"><div class="output"><table><td>1</td></table></div></div>')
    assert len(figures(dom, browser)) == 1


def test_wide_formulas_and_pages_are_found(show, browser):
    style = "<style>div.math { max-width: 100% } div.math mjx-container { overflow: auto; display: block }</style>"
    display = '<div class="math notranslate nohighlight">\\[{}\\]</div>'
    show(style + display.format("a = b") + '<div style="width: 100px">narrow</div>')
    assert layout(browser) == []
    show(style + display.format(" + ".join(["x_{123456789}"] * 30)))
    assert len(layout(browser)) == 1 and "a formula is" in layout(browser)[0]
    show('<div style="width: 800px">wide</div>')
    assert len(layout(browser)) == 1 and "screen of 420" in layout(browser)[0]


def test_a_table_wider_than_its_page_is_found(show, browser):
    style = "<style>.eqbook-table > div { width: 300px; overflow-x: auto } td { min-width: 120px; padding: 0 }</style>"
    table = '<figure class="eqbook-table"><div><table>{}</table></div></figure>'
    show(style + table.format("<td>1</td><td>2</td>"))
    assert layout(browser) == []
    show(style + table.format("<td>1</td><td>2</td><td>3</td>"))
    assert len(layout(browser)) == 1 and "table 1 is" in layout(browser)[0]


def test_long_lines_of_outputs_are_found(show):
    cell = '<div class="cell {}"><div class="cell_output"><div class="output stream"><pre>{}</pre></div></div></div>'
    dom, _ = show(cell.format("", "x" * 95) + cell.format("tag_settings", "x" * 200))
    assert printed(dom) == []
    dom, _ = show(cell.format("", "short\n" + "y" * 96))
    assert printed(dom) == ["96 columns printed, 95 fit: " + "y" * 60]


@pytest.mark.parametrize(
    "element",
    [
        "<script>document.title = 'changed'</script>",
        "<img src='missing.png' onerror=\"document.title = 'changed'\">",
        "<script src='eval.js'></script>",
    ],
    ids=["script", "handler", "eval"],
)
def test_what_a_strict_policy_forbids_is_found(tmp_path, browser, element):
    (tmp_path / "eval.js").write_text("eval(\"document.title = 'changed'\")")
    (tmp_path / "page.html").write_text(f"<html><head><title>kept</title></head><body>{element}</body></html>")
    with serve(tmp_path) as address:
        dom, refused = open_under_policy(browser, f"{address}/page.html")
    assert len(refused) == 1 and dom.title.text == "kept"
    assert inline_code(BeautifulSoup(element, "html.parser")) != [] or "eval.js" in element


def test_server_ends_when_a_test_fails(tmp_path):
    before = threading.active_count()
    with pytest.raises(KeyError), serve(tmp_path):
        raise KeyError
    assert threading.active_count() == before


@pytest.mark.skipif(os.name != "posix", reason="the browser here is a shell script")
@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"], ids=["ends", "silent"])
def test_browser_that_cannot_be_driven_leaves_nothing_behind(tmp_path, monkeypatch, script):
    executable = tmp_path / "chromium"
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    (tmp_path / "profiles").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "profiles"))
    monkeypatch.setattr("browser.TIMEOUT", 0.5)
    started = []
    start = subprocess.Popen
    monkeypatch.setattr(
        "subprocess.Popen", lambda *args, **kwargs: started.append(start(*args, **kwargs)) or started[0]
    )
    with pytest.raises((RuntimeError, TimeoutError, BrokenPipeError)):
        Browser(str(executable))
    assert started[0].poll() is not None and list((tmp_path / "profiles").iterdir()) == []


def test_files_and_data_are_no_inline_code():
    page = (
        '<script src="a.js"></script><script type="application/json">{}</script><a href="b.html" data-click="x">b</a>'
    )
    assert inline_code(BeautifulSoup(page, "html.parser")) == []
