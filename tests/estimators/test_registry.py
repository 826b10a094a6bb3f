"""Estimators by name: parameters, messages, and a user's own."""

from dataclasses import replace

import numpy as np
import pytest
from toy import make_groups

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator, find_estimators

GROUP = make_groups([1, 0, 0, 0])
OWN = """
import numpy as np

def halved(groups, *, by: float = 2.0):
    return groups.rewards_PRG / by

def needs_by(groups, by):
    return groups.rewards_PRG / by

def whole(groups, **kwargs):
    return groups.rewards_PRG.astype(int) * len(kwargs)

def exits(groups):
    raise SystemExit

def nothing():
    return 1

def in_place(groups):
    groups.rewards_PRG[...] = 0.5
    return groups.rewards_PRG

def by_force(groups):
    for one in vars(groups).values():
        one.flags.writeable = True
        one[...] = 3
    return groups.rewards_PRG

def odd(groups, *, kind: np.random.Generator = None):
    return groups.rewards_PRG
"""
SHAPE, FAILED = "must be finite and of the rewards' shape", ".*; its traceback is in "
# What further functions of a user return, and what is said of it.
RETURNED = {
    "groups.rewards_PRG.sum()": SHAPE,
    "groups.rewards_PRG * np.nan": SHAPE,
    "groups.rewards_PRG.astype(str)": SHAPE,
    "groups.rewards_PRG * 1j": SHAPE,
    "1 / 0": f"ZeroDivisionError{FAILED}",
    "groups.advantages": f"AttributeError{FAILED}",
    "[[1], [1, 2]]": f"ValueError{FAILED}",
}
NAMED = {f"returns_{at}": one for at, one in enumerate(RETURNED)}


@pytest.fixture
def own(tmp_path, monkeypatch):
    more = (f"\ndef {name}(groups):\n    return {one}\n" for name, one in NAMED.items())
    (tmp_path / "own_weights.py").write_text(OWN + "".join(more))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return "own_weights"


def test_a_number_written_as_yaml_reads_it():
    """YAML takes 1e-6, without a point, for text."""
    found = find_estimator({"name": "grpo-std", "eps": "1e-6"})
    assert found.name == "grpo-std(eps=1e-06)"
    assert found.weights(GROUP)[0, 0, 0] == pytest.approx(1.5 / (1 + 2e-6), rel=1e-12)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("grop", "estimators: unknown grop; did you mean grpo?"),
        ("RLOO", "estimators: unknown RLOO; here it is grpo"),
        ("Dr. GRPO", "here it is centred"),
        ("dapo", "here it is {name: grpo-std, length: token-batch}"),
        ("REINFORCE", "here it is vanilla"),
        ({"name": "pass-at-k", "K": 4}, "pass-at-k takes no K; known: k, length"),
        ({"name": "grpo-std", "epsi": 1}, "grpo-std takes no epsi; did you mean eps?"),
        ({"name": "grpo", "lenght": 1}, "grpo takes no lenght; did you mean length?"),
        ({"name": "pass-at-k", "k": 0}, "pass-at-k: k = 0: "),
        ({"name": "pass-at-k", "k": 2.5}, "pass-at-k: k = 2.5: "),
        ("affine", "affine needs alpha; add it"),
        ({"name": "affine", "alpha": 0.1}, "affine needs lambda; add it"),
        (
            {"name": "affine", "alpha": 0.1, "lambda_": 1},
            "takes no lambda_; did you mean l",
        ),
        ({"name": "affine", "alpha": "a", "lambda": 0}, "affine: alpha = 'a': "),
        ({"name": "affine", "alpha": 0, "lambda": float("nan")}, "affine: lambda = nan: "),
        ({"name": "constant", "alpha": True}, "constant: alpha = True: "),
        ({"name": "constant", "alpha": 1e30}, "constant: alpha = 1e+30: "),
        (
            {"name": "norm-weighted", "weight": "logit"},
            "weight = 'logit': should be 'score'",
        ),
        ({"name": "norm-weighted", "over": "all"}, "over = 'all': should be 'group' or"),
        ({"name": "pass-at-k", "k": True}, "pass-at-k: k = True: "),
        ({"name": "grpo-std", "eps": -1}, "grpo-std: eps = -1: "),
        ({"name": "grpo-std", "eps": float("nan")}, "grpo-std: eps = nan: "),
        ({"name": "grpo-std", "ddof": 2}, "grpo-std: ddof = 2: "),
        ({"name": "quantile", "level": 1}, "quantile: level = 1: "),
        ({"name": "grpo", "length": "word"}, "grpo: length = 'word': "),
        ("no_such_module:weights", "cannot import no_such_module"),
    ],
)
def test_wrong_entries_are_refused_in_one_line(entry, message):
    with pytest.raises(InputError) as refused:
        find_estimator(entry)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_sizes_must_suit():
    with pytest.raises(InputError, match=r"pass-at-k\(k=8\) needs groups of 8 or more"):
        find_estimators([{"name": "pass-at-k", "k": 8}], [4, 8])
    part = {"name": "affine", "alpha": 0.1, "lambda": 0.5}
    with pytest.raises(
        InputError, match=r"affine\(alpha=0.1, lambda=0.5\) needs groups of 2"
    ):
        find_estimators([part], [1, 2])
    find_estimators([part | {"lambda": 0}, {"name": "constant", "alpha": 0.1}], [1, 2])
    batch = {"name": "norm-weighted", "over": "batch"}
    assert find_estimators([batch], [1], prompts=2)
    for prompts, entry in ((2, "norm-weighted"), (1, batch), (2, "pass-at-k")):
        with pytest.raises(InputError, match=r" needs .*2.* or more"):
            find_estimators([entry], [1], prompts)
    with pytest.raises(InputError, match="grpo stands twice"):
        find_estimators(["grpo", "grpo"], [4])
    with pytest.raises(InputError, match="bnpo needs 2 prompts or more, not 1"):
        find_estimators(["bnpo"], [4], prompts=1)
    entries = ["grpo", {"name": "pass-at-k", "k": 2}, {"name": "pass-at-k", "k": 4}, "bnpo"]
    found = find_estimators(entries, [4, 8], prompts=2)
    names = [one.name for one in found]
    assert names == ["grpo", "pass-at-k(k=2)", "pass-at-k(k=4)", "bnpo"]


@pytest.mark.parametrize(
    ("function", "more", "parameters", "weight", "declared"),
    [
        ("halved", {}, "", 0.5, {}),
        ("halved", {"by": 4}, "(by=4.0)", 0.25, {"unbiased": True, "smallest_group": 3}),
        ("whole", {"a": 1, "b": 2}, "(a=1, b=2)", 2.0, {}),
        ("whole", {"a": 1, "length": "sequence"}, "(a=1, length=sequence)", 0.25, {}),
    ],
)
def test_a_users_own(own, function, more, parameters, weight, declared):
    """It counts as biased, and as looking at everything, unless its entry declares it."""
    found = find_estimator({"name": f"{own}:{function}", **more, **declared})
    weights = found.weights(make_groups([1, 0, 0, 0], lengths=[4, 1, 1, 1]))
    assert found.name == f"{own}:{function}{parameters}"
    assert weights.tolist() == [[[weight, 0, 0, 0]]]
    assert weights.dtype == np.float64
    flags = dict.fromkeys(("unbiased", "reward_only", "group_local"), False)
    flags |= {"smallest_group": 1, **declared}
    assert {name: getattr(found, name) for name in flags} == flags


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        ("halved", {"bye": 1}, "halved takes no bye; did you mean by"),
        ("halved", {"by": "x"}, "by = 'x': "),
        ("halved", {"unbiased": "yes"}, "unbiased = 'yes': "),
        ("needs_by", {}, "needs by; add it"),
        ("gone", {}, "has no function gone"),
        *((name, {}, RETURNED[one]) for name, one in NAMED.items()),
        ("exits", {}, f"SystemExit{FAILED}"),
        ("nothing", {}, f"takes 0 positional{FAILED}"),
        ("in_place", {}, f"ValueError: .*read-only{FAILED}"),
        ("odd", {"kind": 1}, f"PydanticSchema{FAILED}"),
    ],
)
def test_an_own_estimator_that_cannot_be_used(own, function, more, message):
    """Its function is named, whatever it raises or gives, and whenever."""
    with pytest.raises(InputError, match=message) as refused:
        find_estimator({"name": f"{own}:{function}", **more}).weights(GROUP)
    assert f"{own}:{function}" in str(refused.value)


def test_an_own_estimator_cannot_change_what_others_see(own):
    """By force it changes copies."""
    before = {name: one.copy() for name, one in vars(GROUP).items()}
    assert (find_estimator(f"{own}:by_force").weights(GROUP) == 3).all()
    for name, one in vars(GROUP).items():
        assert np.array_equal(one, before[name])
        assert one.flags.writeable


@pytest.mark.parametrize(
    ("entry", "coefficients", "local"),
    [
        ("vanilla", (0, 0), True),
        ("grpo", (0, 1), True),
        ({"name": "affine", "alpha": 0.2, "lambda": 0.5}, (0.2, 0.5), True),
        ({"name": "constant", "alpha": 0.2}, (0.2, 0), True),
        ({"name": "grpo", "length": "sequence"}, None, True),
        ({"name": "norm-weighted", "over": "batch"}, None, False),
        ({"name": "norm-weighted", "weight": "length"}, None, True),
    ],
    ids=str,
)
def test_what_parameters_declare(entry, coefficients, local):
    """What a law is known by, and whether prompts depend on one another."""
    found = find_estimator(entry)
    assert (found.affine, found.group_local) == (coefficients, local)


def test_norms_that_nobody_recorded_are_refused():
    logits = find_estimator({"name": "norm-weighted", "weight": "logits"})
    for norms2 in (None, np.full((1, 1, 4), np.nan)):
        groups = replace(GROUP, logit_norms2_PRG=norms2)
        with pytest.raises(InputError, match=r"not recorded; measure again with .* run"):
            logits.weights(groups)
