"""A probe's YAML and `--set`: an answer or one line, whatever they hold."""

import copy
from functools import reduce

import yaml
from fuzzing import CASES, SCALARS, TEXTS, answer_or_one_line, nested, spoil
from hypothesis import example, given
from hypothesis import strategies as st

from mse_lab.config.probe_files import dump_probe, leaves, load_probe, parse_probe
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import load_reward
from mse_lab.estimators import find_estimators
from mse_lab.policy.policy import pick_device
from mse_lab.project import PROJECT as ROOT
from mse_lab.records.plain_text import local_path, parse_yaml
from mse_lab.run.memory import budget_bytes

VALUES = yaml.safe_load((ROOT / "probes/tiny/base.yaml").read_text(encoding="utf-8"))
WHOLE = parse_probe(VALUES, "probe").model_dump(mode="json")
KEYS = [*dict(leaves(WHOLE)), "model", "prompts", "pool", "model.adapter.rank", "no.such"]
# As text, for they are what YAML makes of it that matters.
NASTY = [
    *("2026-13-01", "2026-01-01", "0001-01-01t00:00:00+99:99", "12:30:45", "0x_", "="),
    *("9" * 5000, "0x" + "f" * 5000, "1e999", ".nan", "-.inf", "1e-320", "2147483647"),
    *("[" * 900 + "]" * 900, "{" * 60, "&a [*a]", "*a", "[[&a [1, 1], *a], *a]"),
    *("cuda:99999999999999999999", "cuda:٣", "cuda:0", "999999999999999999999GB", "٣GB"),
    *('"\\ud800"', '"\\0"', '"a\\nb"', "!!set {a, b}", "!!binary aGk=", "? [1]\n: 2", "''"),
    *("['(a+)+$', '(.*)*(.*)*z']", "['a{99999999999}']", "['(?P<a>x)(?P<a>y)']", "['(']"),
    *("['" + "(" * 500 + ")" * 500 + "']", "['(?:(?:(.*)*)*)*\\d']", "[[]]", "{}", "[{}]"),
    *(".a:b", "a..b:c", ":", "a:", "json:dumps", "x" * 5000, "a/b/c", "{<<: {a: 1}}", "~"),
    *("[{name: pass-at-k, k: 99999999999}]", "[{name: grpo, 1: 2}]", "[{name: [grpo]}]"),
    *("[{name: grpo-std, eps: [1]}]", "[{name: grpo, length: {a: b}}]", "{a: {b: 1}}"),
]  # fmt: skip

plain = nested(SCALARS | st.sampled_from(NASTY))
keys = st.sampled_from(KEYS)


def use(probe):
    """Take every setting to where it is first used."""
    answer_or_one_line(find_estimators, probe.estimators, probe.group_sizes, 8)
    answer_or_one_line(load_reward, probe.reward)
    answer_or_one_line(pick_device, probe.model.device)
    if probe.model.memory is not None:
        answer_or_one_line(budget_bytes, probe.model.memory, [])
    # Folders and names of the Hub are another door.
    source = probe.prompts.source
    found = answer_or_one_line(local_path, source, ROOT)
    if "/" not in source and not (found and found.is_dir()):
        answer_or_one_line(load_prompts, probe.prompts, ROOT)


def judge(probe):
    if probe is not None:
        assert parse_probe(parse_yaml(dump_probe(probe), "again"), "again") == probe
        use(probe)


def put(value, key):
    values = copy.deepcopy(VALUES)
    *sections, last = key.split(".")
    place = reduce(lambda at, section: at.setdefault(section, {}), sections, values)
    if isinstance(place, dict):
        place[last] = value
    return values


@given(keys, plain)
@example("model.path", "a\x85b")
@example("prompts.source", "x" * 5000)
@CASES
def test_any_value_under_any_key(key, value):
    judge(answer_or_one_line(parse_probe, put(value, key), "probe"))


@given(keys | TEXTS, st.sampled_from(NASTY) | TEXTS)
@example("prompts.source", "x" * 5000)
@example("a" + ".a" * 2000, "1")
@example("model", "1")
@example("", "")
@CASES
def test_any_text_behind_set(key, text):
    path = ROOT / "probes/tiny/base.yaml"
    judge(answer_or_one_line(load_probe, path, [f"{key}={text}"]))


@given(st.data())
@CASES
def test_a_damaged_file(tmp_path, data):
    text = (ROOT / "probes/tiny/base.yaml").read_text(encoding="utf-8")
    content = spoil(data, text, NASTY)
    path = tmp_path / "mine.yaml"
    path.write_bytes(
        content.encode("utf-8", data.draw(st.sampled_from(["replace", "surrogatepass"])))
    )
    judge(answer_or_one_line(load_probe, path))
