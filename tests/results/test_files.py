"""What is written can be read by people and programs, the same bytes everywhere."""

import pandas as pd

from mse_lab.results.files import write_json, write_table


def test_letters_of_any_language_stand_in_json_as_they_are(tmp_path):
    write_json(tmp_path / "one.json", {"name": "Müller √2"})
    assert (tmp_path / "one.json").read_bytes() == '{\n  "name": "Müller √2"\n}\n'.encode()


def test_tables_have_ten_digits_and_the_same_bytes_everywhere(tmp_path):
    write_table(tmp_path / "one.csv", pd.DataFrame({"é": [1 / 3, 2.0], "n": [1, 2]}))
    expected = "é,n\n0.3333333333,1\n2,2\n".encode()
    assert (tmp_path / "one.csv").read_bytes() == expected
