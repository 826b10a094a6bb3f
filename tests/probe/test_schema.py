"""The schema: what a probe may say, and the one line where it may not."""

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.probe_files import load_probe, parse_probe


def parse(**model):
    values = {"path": "x", "device": "cpu", **model}
    return parse_probe({"model": values, "prompts": {"source": "x"}}, "probe")


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"fields": {"question": "x"}}, "unknown key prompts.fields.question; "),
        ({"shots": {"cuont": 4}}, "unknown key prompts.shots.cuont; did you mean count?"),
        ({"shots": {"split": "train"}}, "split is set without count; add count: 4"),
        ({"shots": {"count": -1}}, "prompts.shots.count = -1: "),
        ({"spilt": "train"}, "unknown key prompts.spilt; did you mean split?"),
        ({"fields": {"answer": 3}}, "prompts.fields.answer = 3: "),
    ],
    ids=["field", "shot", "no count", "negative", "split", "no name"],
)
def test_a_bad_configuration(prompts, message):
    with pytest.raises(InputError) as caught:
        parse_probe(
            {"model": {"path": "x"}, "prompts": {"source": "x"} | prompts}, "p.yaml"
        )
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"adapter": {"rank": 0}}, "model.adapter.rank = 0: should be greater"),
        ({"adapter": {"rnk": 4}}, "unknown key model.adapter.rnk; did you mean rank?"),
        ({"adapter": {"target": "q_proj"}}, "target = 'q_proj': should be 'all-linear'"),
        ({"adapter": {"alpha": -1}}, "model.adapter.alpha = -1: should be greater"),
        ({"adapter": {"alpha": True}}, "model.adapter.alpha = True: should be a number"),
        ({"adapter": 3}, "model.adapter = 3: should be a valid dictionary"),
        ({"device_map": "auto"}, "takes all devices; set model.device = auto, not cpu"),
        ({"device_map": "balanced"}, "model.device_map = 'balanced': should be 'auto'"),
        ({"adaptor": "x"}, "unknown key model.adaptor; did you mean adapter?"),
    ],
    ids=[
        "rank",
        "misspelt",
        "target",
        "alpha",
        "truth",
        "kind",
        "device",
        "map",
        "adapter",
    ],
)
def test_a_model_section_that_cannot_be_used_is_refused(model, expected):
    with pytest.raises(InputError) as refused:
        parse(**model)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_fresh_adapter_has_defaults():
    adapter = parse(adapter={}).model.adapter
    assert (adapter.rank, adapter.alpha, adapter.target) == (8, 16.0, "all-linear")
    assert parse(adapter="owner/name").model.adapter == "owner/name"
    assert parse().model.adapter is None


def test_rewards_need_a_file(write_probe):
    with pytest.raises(InputError, match="there is no file to read it from"):
        load_probe(write_probe(reward="supplied"))


@pytest.mark.parametrize("pattern", ["[a", "a{99999999999}", "(?P<a>x)(?P<a>y)", "(" * 500])
def test_a_parameter_pattern_that_is_not_a_regular_expression(write_probe, pattern):
    with pytest.raises(InputError, match=r"parameters.* is not a regular expression: "):
        load_probe(write_probe(parameters=[pattern]))
