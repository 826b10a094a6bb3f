"""Sets of prompts to read: word problems with GSM8K's fields, in files."""

import pytest

from mse_lab.config.schema import Prompts
from mse_lab.data.prompts import load_prompts
from mse_lab.errors import InputError
from mse_lab.project import PROJECT as ROOT

FIELDS = {"problem": "question", "answer": "answer"}


def word_problems(split, count=15):
    """Rows with GSM8K's fields: a question, and a solution with `####` at its end."""
    return [
        {"question": f"{split}: {index} and 2?", "answer": f"It is\n#### {index + 2}"}
        for index in range(count)
    ]


def load(**values):
    """Read a set of prompts by the settings of a probe."""
    values["source"] = str(values["source"])
    return load_prompts(Prompts.model_validate(values), ROOT)


def refuse(line, **values):
    """Read a set of prompts that is refused with this line."""
    with pytest.raises(InputError, match=line):
        load(**values)
