"""Fixtures: a file of word problems, and a data set of them."""

import datasets
import pytest

from log_makers import write_lines
from prompt_sets import word_problems


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep what the library datasets prepares out of the user's cache."""
    folder = tmp_path_factory.mktemp("datasets-cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)


@pytest.fixture
def lines(tmp_path):
    return write_lines(tmp_path / "sums.jsonl", word_problems("test"))


@pytest.fixture
def splits():
    return datasets.DatasetDict(
        {
            split: datasets.Dataset.from_list(word_problems(split, count))
            for split, count in (("train", 5), ("test", 15))
        }
    )
