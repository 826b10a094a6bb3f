"""The family that writes its working: what it is trained on and asked."""

import numpy as np
import pytest

from mse_lab.config.probe_files import load_probe
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import integer
from mse_lab.policy.policy import load_policy
from mse_lab.project import PROJECT as ROOT
from probes.making.train import make
from probes.making.words import END_OF_TEXT, TURN_END
from probes.prompts.arithmetic import WORKED, draw_expression
from probes.prompts.make import SETS, lines_of_set
from probes.prompts.steps import TINY, evaluate, work_out, write
from probes.worked import corpus
from probes.worked.train import FAMILY


def read_working(problem, working):
    """Put each step's result in the step's place: (operation, result), and what is left."""
    steps, _, last = working.partition(" . ")
    left, found = problem.removesuffix(" ="), []
    for step in steps.split(" , "):
        operation, result = step.split(" = ")
        if f"({operation})" in left:
            left = left.replace(f"({operation})", result, 1)
        else:
            assert left.startswith(operation)
            left = result + left.removeprefix(operation)
        found.append((operation, int(result)))
    assert left == last == result
    return found


@pytest.fixture
def expressions():
    rng = np.random.default_rng(0)
    return [draw_expression(TINY, rng, WORKED)[0] for _ in range(300)]


def test_a_careful_working_is_right(expressions):
    for one in expressions:
        steps = read_working(write(one), work_out(one))
        assert all(eval(operation) == result for operation, result in steps)
        assert steps[-1][1] == eval(write(one)) == evaluate(one)


def test_a_slip_is_carried_on_and_its_rate_is_the_author_s(expressions):
    """Errors of 1 or 2, in a share of some 700 steps within four standard errors."""
    author, wrong = corpus.author(0.35, np.random.default_rng(1)), []
    for one in expressions:
        working = work_out(one, author)
        steps = read_working(write(one), working)
        wrong += [abs(result - eval(operation)) for operation, result in steps]
        right = integer(working, {"answer": evaluate(one)})
        assert right == (steps[-1][1] == eval(write(one)))
    assert set(wrong) == {0, 1, 2}
    error = np.sqrt(0.35 * 0.65 / len(wrong))
    assert np.mean(np.array(wrong) > 0) == pytest.approx(0.35, abs=4 * error)


def test_demonstrations_are_right():
    lines = corpus.FEW_SHOT.split("Examples:\n")[1].split("\n\nNow")[0].splitlines()
    for problem, working in zip(lines[::2], lines[1::2], strict=True):
        steps = read_working(problem, working)
        assert all(eval(operation) == result for operation, result in steps)


@pytest.mark.parametrize("name", SETS)
def test_prompt_sets_are_those_that_the_script_writes(name):
    written = (ROOT / f"probes/prompts/{name}.jsonl").read_text(encoding="utf-8")
    assert lines_of_set(name) == written


@pytest.mark.parametrize("name", ["base", "icl"])
def test_a_probe_asks_as_the_training_text_does(name):
    probe = load_probe(ROOT / f"probes/worked/{name}.yaml")
    template = corpus.FEW_SHOT if name == "icl" else corpus.PLAIN
    for prompt in load_prompts(probe.prompts, ROOT):
        assert prompt.text == template.format(problem=prompt.record["problem"])


def test_both_checkpoints_are_made(tmp_path):
    """Two steps of each phase on few texts."""
    documents, _ = FAMILY.pretraining
    turns, _ = FAMILY.finetuning
    family = FAMILY._replace(
        folder=tmp_path,
        pretraining=([(draw, 1) for draw, _ in documents], 2),
        finetuning=([(draw, 1) for draw, _ in turns], 2),
    )
    make(family, seed=0)
    for name, checkpoint in (("base", "base"), ("icl", "instruct")):
        changes = [f"model.path={tmp_path / checkpoint}"]
        policy = load_policy(load_probe(ROOT / f"probes/worked/{name}.yaml", changes), ROOT)
        assert {*policy.end_texts.values()} == {END_OF_TEXT, TURN_END}
