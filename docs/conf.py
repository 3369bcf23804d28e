"""The site: ``make docs`` builds it into .site, and treats every warning as an error."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from pygments.lexer import inherit
from pygments.lexers.sql import PostgresLexer
from pygments.token import Keyword, Name

import howdah
import howdah.encryption
import howdah.sse
import howdah.testing
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
templates_path = ["_templates"]
# A link may go to any heading, by the anchor that GitHub gives it.
myst_heading_anchors = 3
nitpicky = True
# Quotes and dots, but no dashes: Sphinx would make one of the two hyphens of an option.
smartquotes_action = "qe"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = f"Howdah {version}"
html_context = {
    "project_urls": tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["urls"]
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "project.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
# No copy button for output.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"


class Psql(PostgresLexer):
    """SQL with the commands and variables of psql."""

    tokens = {"root": [(r"\\\w+", Keyword), (r":'\w+'", Name.Variable), (r"\$\d+", Name.Variable), inherit]}  # noqa: RUF012


_PYTHON_PAGE = "reference/python"
_ERRORS_PAGE = "reference/errors"
_ERRORS = [
    name for name in howdah.__all__ if isinstance(kind := getattr(howdah, name), type) and issubclass(kind, HowdahError)
]
_ERROR = re.compile(rf"\b({'|'.join(_ERRORS)})\b")
_SHORT = 24
"""Words of up to so many characters are not broken, however short the line is."""
_LONG = 80
"""Cells of at least so many characters get more room."""


def mark_for_small_screens(_: Sphinx, doctree: nodes.document) -> None:
    """Add classes for custom.css, which cannot count characters."""
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
                _note(app, f"howdah.{name}", getattr(howdah, name), name.lower())


def name_python_objects(app: Sphinx, doctree: nodes.document) -> None:
    """Enter every class, function and member into objects.inv, so that other projects can link to them."""
    if app.env.docname != _PYTHON_PAGE:
        return
    for section in doctree.findall(nodes.section):
        title = section[0].astext()
        name = title if title.startswith("howdah.") else f"howdah.{title}"
        if (thing := _imported(name)) is not None:
            anchor = section["ids"][-1]
            _note(app, name, thing, anchor)
            # The async form of a verb is described with it.
            owner, _, verb = name.rpartition(".")
            if isinstance(_imported(owner), type) and (twin := _imported(f"{owner}.a{verb}")) is not None:
                _note(app, f"{owner}.a{verb}", twin, anchor)


def _imported(name: str) -> Any:
    """The object of a dotted name; None if there is none."""
    if name in sys.modules:
        return sys.modules[name]
    owner, _, last = name.rpartition(".")
    return getattr(_imported(owner), last, None) if owner else None


def _note(app: Sphinx, name: str, thing: Any, anchor: str) -> None:
    domain = app.env.domains.python_domain
    if inspect.ismodule(thing):
        domain.note_module(name, anchor, inspect.getdoc(thing).splitlines()[0], "", deprecated=False)
    elif isinstance(thing, type):
        domain.note_object(name, "exception" if issubclass(thing, Exception) else "class", anchor)
        # Where it is defined: the name by which other projects' generated pages look for it.
        if (defined := f"{thing.__module__}.{thing.__qualname__}") != name:
            domain.note_object(defined, "class", anchor, aliased=True)
        for member in _members(thing):
            domain.note_object(f"{name}.{member}", "attribute", anchor)
    elif callable(thing):
        is_method = isinstance(_imported(name.rpartition(".")[0]), type)
        domain.note_object(name, "method" if is_method else "function", anchor)
    else:
        domain.note_object(name, "data", anchor)


def _members(kind: type) -> Iterator[str]:
    fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    properties = [name for name, value in vars(kind).items() if isinstance(value, property)]
    yield from (name for name in dict.fromkeys((*fields, *properties)) if not name.startswith("_"))


def link_errors(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link the names of errors to their descriptions. Docstrings have them in plain text."""
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
        # Every second part is the name of an error.
        yield nodes.reference("", "", name, refuri=f"{address}#{part.lower()}", internal=True) if n % 2 else name


def setup(app: Sphinx) -> None:
    app.add_lexer("sql", Psql)
    app.connect("doctree-read", mark_for_small_screens)
    app.connect("doctree-read", name_rows_of_errors)
    app.connect("doctree-read", name_python_objects)
    app.connect("doctree-resolved", link_errors)
