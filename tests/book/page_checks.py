"""What must be true of a built page, as functions from a page to a list of findings.

The DOM is the page after its scripts ran in a browser; the checks that need no script read the file.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from browser import Browser, file_url
from bs4 import BeautifulSoup, Tag

# Elements through which a page loads something by itself; a link that a reader must click is not among them.
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
VERBATIM = ("pre", "code", "script", "style", "svg", "textarea", "mjx-container", "mjx-assistive-mml")
# What is left in the text when MyST or MathJax did not take it up.
UNTYPESET = re.compile(r"\$|\\begin\{|\\end\{|:::|\{(?:eq|ref|doc|numref|cite(?::\w+)?|prf:\w+|term)\}")

# Text is read at a contrast of 3 or more to 1 (WCAG, large text and graphics); pure black is what matplotlib draws
# when nobody told it the page's colour. Matplotlib draws letters as copies of glyphs, "#DejaVuSans-41", and markers as
# copies of paths, "#m0b1c2d".
INK_PROBE = """
(theme => {
  const root = document.documentElement;
  root.dataset.theme = theme; root.dataset.mode = theme;
  const channels = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = rgb => {
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.slice(0, 3).map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(channels(one)), luminance(channels(other))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const visible = colour => colour.startsWith("rgb") && (channels(colour)[3] ?? 1) > 0;
  const background = element => {
    for (let node = element; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (visible(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const glyph = /^#(\\w+-)?[A-Z]\\w*(-[A-Za-z]+)*-[0-9a-f]+$/;
  const found = [];
  const report = (what, colour, behind) => found.push(`${what}: ${colour} on ${behind} (${theme})`);
  document.querySelectorAll(".cell_output svg").forEach((figure, number) => {
    const behind = background(figure);
    figure.querySelectorAll("text, use, path, line").forEach(mark => {
      if (mark.closest("defs, clipPath")) return;
      const style = getComputedStyle(mark);
      const address = mark.getAttribute("href") || mark.getAttribute("xlink:href") || "";
      const isText = mark.tagName === "text" || glyph.test(address);
      for (const property of ["fill", "stroke"]) {
        const colour = style[property];
        if (!visible(colour) || parseFloat(style[property + "Opacity"]) === 0) continue;
        const black = channels(colour).slice(0, 3).every(v => v === 0);
        if ((isText && contrast(colour, behind) < 3) || (black && contrast(colour, behind) < 1.5))
          report(`figure ${number + 1}: ${property} of <${mark.tagName}>`, colour, behind);
      }
    });
  });
  document.querySelectorAll(":is(td, th, pre):is(.cell_output .output *)").forEach(box => {
    const [colour, behind] = [getComputedStyle(box).color, background(box)];
    if (contrast(colour, behind) < 4.5) report(`<${box.tagName.toLowerCase()}> of an output`, colour, behind);
  });
  return [...new Set(found)];
})
"""
# At the given width: the page does not scroll sideways; at the width of a desktop, nor does a formula or a table.
LAYOUT_PROBE = """
(desktop => {
  const found = [];
  const page = document.documentElement;
  if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} wide on a screen of ${innerWidth}`);
  if (desktop) document.querySelectorAll(".eqbook-table > div").forEach((box, number) => {
    if (box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
      found.push(`table ${number + 1} is ${box.scrollWidth} wide in ${box.clientWidth}`);
  });
  if (desktop) document.querySelectorAll("div.math mjx-container").forEach(box => {
    if (box.scrollWidth > box.clientWidth + 1) {
      const tex = MathJax.startup.document.getMathItemsWithin(box.parentElement)[0].math;
      found.push(`a formula is ${box.scrollWidth} wide in ${box.clientWidth}: ${tex.trim().slice(0, 60)}`);
    }
  });
  return found;
})
"""
# A reader moves each slider to each of its places: one frame is seen, a different one each time, of one height.
SLIDER_PROBE = """
(() => {
  const found = [];
  document.querySelectorAll(".eqbook-slider").forEach((box, number) => {
    const report = what => found.push(`slider ${number + 1}: ${what}`);
    const frames = box.querySelectorAll(".eqbook-frame"), input = box.querySelector("input[type=range]");
    if (!input) return report("no range input: is slider.js loaded?");
    if (!input.labels.length || !input.labels[0].textContent) report("the input has no label");
    const seen = new Set(), heights = new Set();
    for (let place = 0; place < frames.length; place++) {
      input.value = place;
      input.dispatchEvent(new Event("input"));
      const visible = Array.from(frames).filter(frame => frame.checkVisibility());
      if (visible.length !== 1) return report(`${visible.length} frames are visible at place ${place}`);
      seen.add(visible[0]);
      heights.add(visible[0].getBoundingClientRect().height);
      if (input.getAttribute("aria-valuetext") !== visible[0].dataset.label) report(`place ${place} is not named`);
    }
    if (seen.size !== frames.length) report(`${seen.size} of ${frames.length} frames were seen`);
    if (heights.size !== 1) report("the page jumps: frames differ in height");
  });
  return found;
})
"""
WIDTHS = {"wide": 1400, "narrow": 420}
COLUMNS = 95  # of monospaced text that the page has room for


def mathematics(dom: BeautifulSoup) -> list[str]:
    """Every formula is typeset, none with an error, and no TeX or MyST is left in the text."""
    formulas = dom.select(".math.notranslate")
    found = [f"not typeset once: {_short(f)}" for f in formulas if len(f.find_all("mjx-container")) != 1]
    containers = dom.find_all("mjx-container")
    if len(containers) != len(formulas):
        found.append(f"{len(containers)} typeset formulas for {len(formulas)} formulas of the source")
    errors = dom.select("mjx-container [data-mjx-error], mjx-container [data-mml-node=merror], mjx-merror, merror")
    found += [f"TeX error: {error.get('data-mjx-error') or _short(error)}" for error in errors]
    article = dom.select_one("article, main, body")
    for text in article.find_all(string=UNTYPESET):
        if not text.find_parent(VERBATIM):
            found.append(f"left untypeset: {_short(text)}")
    return found


def remote(dom: BeautifulSoup) -> list[str]:
    """The page loads nothing from elsewhere: no script, style sheet, font, image or frame."""
    found = []
    for name, attribute in LOADING.items():
        for element in dom.find_all(name):
            # <link rel="canonical"> and the like name an address without loading it.
            loads = name != "link" or {"stylesheet", "preload", "icon", "modulepreload"} & set(element.get("rel", []))
            addresses = [element.get(attribute) or "", *(element.get("srcset") or "").split(",")]
            found += [f"<{name}> loads {a.strip()}" for a in addresses if loads and _is_remote(a)]
    for element in dom.find_all("style"):
        found += [f"<style> loads {address}" for address in remote_in_css(element.text)]
    return found


def remote_in_css(css: str) -> list[str]:
    """Return the remote addresses that a style sheet loads."""
    addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", css)
    return [a for a in ("".join(pair).strip() for pair in addresses) if _is_remote(a)]


def inline_code(dom: BeautifulSoup) -> list[str]:
    """The page holds no script and no handler itself; only files do, which a strict policy allows."""
    scripts = [s for s in dom.find_all("script") if s.get("type", "module") in ("", "text/javascript", "module")]
    found = [f"inline script: {_short(s)}" for s in scripts if not s.get("src") and s.text.strip()]
    for element in dom.find_all(True):
        found += [f"inline handler: {name}={code}" for name, code in element.attrs.items() if name.startswith("on")]
        if str(element.get("href", "")).strip().startswith("javascript:"):
            found.append(f"inline handler: href={element['href']}")
    return found


class Anchors(HTMLParser):
    """What a page names: addresses, each with the name of its element, and places that a link may name."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[tuple[str, str]] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if tag in ("a", "img", "script", "link"):
            self.addresses.append((tag, held.get("href") or held.get("src") or ""))
        self.ids |= {held[name] for name in ("id", "name") if held.get(name) and (name == "id" or tag == "a")}


def links(page: Path, html: Path, read: dict[Path, Anchors]) -> list[str]:
    """Every internal link, image and file exists; so does the place on the page that a link names.

    Args:
        page: A built page.
        html: The folder of the built book.
        read: Pages already read; filled here.
    """
    found = []
    for name, address in _anchors(page.resolve(), read).addresses:
        parts = urlsplit(address)
        if not address or parts.scheme or parts.netloc or address == "#":
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
        if target.is_dir():
            target /= "index.html"
        if not target.is_relative_to(html.resolve()) or not target.is_file():
            found.append(f"<{name}> {address}: no such file in the book")
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _anchors(target, read).ids:
            found.append(f"<{name}> {address}: no such place on that page")
    return found


def figures(dom: BeautifulSoup, browser: Browser) -> list[str]:
    """Figures of cells are inline SVG, and what is drawn in them shows on a light and on a dark page.

    The page must be the one that is open in `browser`.
    """
    rasters = dom.select(".cell_output img")
    found = [f"raster figure {image.get('src', '')[:60]}: call `plotting.use_style()`" for image in rasters]
    for theme in ("light", "dark"):
        found += browser.evaluate(f"({INK_PROBE})('{theme}')")
    return found


def printed(dom: BeautifulSoup) -> list[str]:
    """What cells print fits the page, but for commands, and for the settings, one long line that is wrapped."""
    found = []
    for output in dom.select(".cell_output .output.stream pre"):
        if not output.find_parent(class_=["tag_settings", "tag_commands"]):
            lines = [line for line in output.get_text().splitlines() if len(line) > COLUMNS]
            found += [f"{len(line)} columns printed, {COLUMNS} fit: {line[:60]}" for line in lines]
    return found


def sliders(browser: Browser) -> list[str]:
    """Each slider of the open page shows one frame, and another one when it is moved to another place."""
    return browser.evaluate(f"({SLIDER_PROBE})()")


def layout(browser: Browser) -> list[str]:
    """The open page fits a desktop and a telephone; its formulas and tables fit the desktop."""
    found = []
    for name, width in WIDTHS.items():
        browser.resize(width)
        found += browser.evaluate(f"({LAYOUT_PROBE})({str(name == 'wide').lower()})")
    browser.resize(WIDTHS["wide"])
    return found


def open_page(browser: Browser, page: Path, query: str = "") -> tuple[BeautifulSoup, list[str]]:
    """Open a page; return its DOM and the addresses it asked for that are not local files."""
    events = browser.open(file_url(page) + query)
    asked = [e["params"]["request"]["url"] for e in events if e.get("method") == "Network.requestWillBeSent"]
    return BeautifulSoup(browser.dom(), "html.parser"), [url for url in asked if _is_remote(url)]


def open_under_policy(browser: Browser, address: str) -> tuple[BeautifulSoup, list[str]]:
    """Open a page of a server that sends a policy; return its DOM and what the browser refused because of it."""
    listen = "addEventListener('securitypolicyviolation', e => (window.refused ??= []).push(e.violatedDirective))"
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=listen)
    browser.open(address)
    # The events are tasks of their own, behind the load.
    refused = browser.evaluate("new Promise(done => setTimeout(() => done(window.refused ?? []), 100))")
    browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
    return BeautifulSoup(browser.dom(), "html.parser"), refused


def _is_remote(address: str) -> bool:
    return address.strip().startswith(("http://", "https://", "//", "ws://", "wss://"))


def _anchors(page: Path, read: dict[Path, Anchors]) -> Anchors:
    if page not in read:
        read[page] = Anchors(page)
    return read[page]


def _short(element: Tag | str) -> str:
    text = element if isinstance(element, str) else element.get_text()
    return " ".join(text.split())[:80]
