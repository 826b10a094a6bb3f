"""Layout: a template of `templates/` and its context -> text.

On pages every text is escaped, whatever its source. In `.md`, which may hold HTML, no text
begins a tag, but for what is marked as safe; `.txt` is left as it is.
"""

import math
from inspect import getmembers, isfunction
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from mse_lab import formatting

TEMPLATES = Environment(
    loader=PackageLoader("mse_lab.report"),
    autoescape=select_autoescape((), ("txt", "md"), default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def _without_tags(value: Any) -> Any:
    plain = isinstance(value, str) and not isinstance(value, Markup)
    return value.replace("<", "&lt;") if plain else value


TEMPLATES.filters |= dict(getmembers(formatting, isfunction))
TEMPLATES.tests["unknown"] = math.isnan
MARKDOWN = TEMPLATES.overlay(finalize=_without_tags)


def lay_out(template: str, **context: Any) -> str:
    """Fill a template in."""
    environment = MARKDOWN if template.endswith(".md") else TEMPLATES
    return environment.get_template(template).render(context)
