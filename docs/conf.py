"""The site: ``make docs`` builds it into .site, and takes every warning for an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from docutils import nodes
from pygments.lexer import inherit
from pygments.lexers.sql import PostgresLexer
from pygments.token import Keyword, Name

import howdah
from howdah import __version__
from howdah.errors import HowdahError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Howdah"
author = "Howdah's authors"
release = version = __version__

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["screens", "benchmarks", "faults", "generate", "diagrams"]
# A link may go to any heading, by the name that other readers of Markdown give to it.
myst_heading_anchors = 3
nitpicky = True
# Quotes and dots, but no dashes: they would be made of the two hyphens of an option.
smartquotes_action = "qe"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = f"Howdah {version}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
# Nobody wants to paste what a command has printed.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"


class Psql(PostgresLexer):
    """SQL with what psql adds to it."""

    tokens = {"root": [(r"\\\w+", Keyword), (r":'\w+'", Name.Variable), (r"\$\d+", Name.Variable), inherit]}  # noqa: RUF012


_ERRORS_PAGE = "reference/errors"
_ERRORS = [
    name for name in howdah.__all__ if isinstance(kind := getattr(howdah, name), type) and issubclass(kind, HowdahError)
]
_ERROR = re.compile(rf"\b({'|'.join(_ERRORS)})\b")
_SHORT = 24
"""Words of so many characters are not broken, however short the line is."""
_LONG = 80
"""Cells of so many characters ask for room."""


def mark_for_small_screens(_: Sphinx, doctree: nodes.document) -> None:
    """For custom.css, which cannot count characters."""
    for literal in doctree.findall(nodes.literal):
        if max(map(len, literal.astext().split()), default=0) <= _SHORT:
            literal["classes"].append("short")
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) >= _LONG:
            cell["classes"].append("long")


def name_rows_of_errors(app: Sphinx, doctree: nodes.document) -> None:
    if app.env.docname == _ERRORS_PAGE:
        for row in doctree.findall(nodes.row):
            if (name := row[0].astext()) in _ERRORS:
                row["ids"].append(name.lower())


def link_errors(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """An error that a page names leads to what is said of it. Docstrings name errors in plain text."""
    if page == _ERRORS_PAGE:
        return
    address = app.builder.get_relative_uri(page, _ERRORS_PAGE)
    for text in list(doctree.findall(nodes.Text)):
        place = text.parent.parent if isinstance(text.parent, nodes.literal) else text.parent
        if isinstance(place, nodes.paragraph) and _ERROR.search(text):
            text.parent.replace(text, list(_linked(text, address)))


def _linked(text: str, address: str) -> Iterator[nodes.Node]:
    for n, part in enumerate(_ERROR.split(text)):
        name = nodes.Text(part)
        # Every second part is what was searched for.
        yield nodes.reference("", "", name, refuri=f"{address}#{part.lower()}", internal=True) if n % 2 else name


def setup(app: Sphinx) -> None:
    app.add_lexer("sql", Psql)
    app.connect("doctree-read", mark_for_small_screens)
    app.connect("doctree-read", name_rows_of_errors)
    app.connect("doctree-resolved", link_errors)
