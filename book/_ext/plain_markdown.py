r"""Turn the MyST of a chapter into Markdown that every notebook viewer shows.

    ```{prf:theorem} Emergent equivariance            **Theorem** `thm-emergent` (Emergent equivariance).
    :label: thm-emergent                        ->
    By {eq}`eq-mean`, $f(gx) = f(x)$.                 By (eq-mean), $f(gx) = f(x)$.
    ```

Statements and formulas are named by their labels, since numbers belong to the book.
"""

import re

FENCE = re.compile(r"^(?P<fence>:{3,}|`{3,})(?:\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)|(?P<info>[\w.+-]*))$")
OPTION = re.compile(r"^:(?P<name>[\w-]+):\s*(?P<value>.*)$")
ROLE = re.compile(r"\{(?P<role>[\w:]+)\}`(?P<text>[^`<]*?)\s*(?:<(?P<target>[^`>]*)>)?`")
# Display mathematics with a label behind it.
LABELLED = re.compile(r"(?P<formula>\$\$(?:[^$]|\$(?!\$))+)\$\$[ \t]*\((?P<label>[\w:-]+)\)")
CODE = "\0"  # stands for a block of code while the text around it is translated; no Markdown has this character
STATEMENTS = (
    "theorem lemma proposition corollary definition remark example assumption conjecture algorithm proof exercise"
).split()


def to_plain(text: str) -> str:
    """Translate one Markdown cell; fences of directives other than statements, and fenced code, stay as they are."""
    lines, opened, result, code = text.split("\n"), [], [], []
    while lines:
        line = lines.pop(0)
        match = FENCE.match(line)
        if match and match["name"]:
            heading = _heading(match["name"], match["argument"], _take_options(lines, match["name"]))
            opened.append((match["fence"], heading is not None))
            if heading is None:
                result.append(line)
            elif heading:
                result += [heading, ""]
        elif match and opened and not match["info"] and match["fence"] == opened[-1][0]:
            _, translated = opened.pop()
            result += [""] if translated else [line]
        elif match:
            # Code: copied up to its own end, and kept out of the translation below.
            end = lines.index(match["fence"]) + 1 if match["fence"] in lines else len(lines)
            code.append("\n".join([line, *lines[:end]]))
            result.append(CODE)
            del lines[:end]
        elif not re.fullmatch(r"\([\w:-]+\)=", line):
            result.append(line)
    joined = "\n".join(result)
    joined = LABELLED.sub(lambda m: f"{m['formula'].rstrip()} \\tag{{{m['label']}}}\n$$", joined)
    plain = re.sub(r"\n{3,}", "\n\n", ROLE.sub(_role, joined)).strip("\n")
    return re.sub(CODE, lambda _: code.pop(0), plain)


def _take_options(lines: list[str], name: str) -> dict[str, str]:
    options = {}
    while _kind(name) and lines and (match := OPTION.match(lines[0])):
        options[match["name"]] = match["value"]
        lines.pop(0)
    return options


def _kind(name: str) -> str | None:
    """Return the kind of statement that a directive opens, "" for one that only ends, None for any other."""
    name = name.removeprefix("prf:")
    if name in ("solution-end", "exercise-end"):
        return ""
    kind = name.removesuffix("-start")
    return kind if kind in (*STATEMENTS, "solution") else None


def _heading(name: str, argument: str, options: dict[str, str]) -> str | None:
    kind = _kind(name)
    if not kind:
        return kind
    if kind == "solution":
        return f"**Solution** of `{argument}`."
    label = f" `{options['label']}`" if "label" in options else ""
    title = f" ({argument})" if argument else ""
    return f"**{kind.title()}**{label}{title}."


def _role(match: re.Match) -> str:
    role, text, target = match["role"], match["text"], match["target"]
    if role == "eq":
        return f"({text})"
    if role.startswith("cite"):
        return f"[{text}]"
    if role == "doc" and not target:
        return f"*{text.rsplit('/', 1)[-1].replace('_', ' ')}*"
    if role in ("ref", "prf:ref", "numref") and not target:
        return f"`{text}`"
    return text if role in ("term", "doc", "ref", "prf:ref", "numref") else match[0]
