"""What an earlier version had is refused in one line that names the replacement."""

import pytest

from mse_lab.removed import KEYS, WORDS


@pytest.mark.parametrize("key", KEYS)
def test_a_removed_key(key, write_probe, tmp_path, refused):
    line = refused("run", write_probe(), "--set", f"{key}=x", "--out", tmp_path / "out")
    assert f"{key}: removed; {KEYS[key]}" in line


@pytest.mark.parametrize("words", WORDS)
def test_removed_words(words, refused):
    assert f"{words}: removed; {WORDS[words]}" in refused(*words.split())
