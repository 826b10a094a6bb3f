"""Samples in a folder: not measured twice, not trusted where they are spoilt."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.results.files import write_arrays
from mse_lab.run import processes
from mse_lab.run import samples as kept
from mse_lab.run.looks import Look
from mse_lab.run.prepare import load, prepare
from mse_lab.run.samples import KeptSamples, Samples
from mse_lab.run.subject import make_subject
from pretended_processes import OfTwo

# Two blocks of each prompt.
LOOK = Look(5, 16)


def same(ones, others):
    for one, other in zip(chain(*ones), chain(*others), strict=True):
        assert (one.law_gap, one.gradient_gap) == pytest.approx(
            (other.law_gap, other.gradient_gap), nan_ok=True
        )
        for name in vars(one.sample).keys() - {"seconds"}:
            np.testing.assert_array_equal(
                getattr(one.sample, name), getattr(other.sample, name)
            )


@pytest.fixture
def context(probe, tmp_path):
    return load(prepare("small", probe, tmp_path / "advice", tmp_path), scored=16)


@pytest.fixture
def counted(monkeypatch):
    """The prompts that are sampled, in turn; one is interrupted where it is named."""
    honest, seen, ends = kept.sample_prompt, [], []

    def counting(subject, index, *given, **settings):
        if index in ends:
            raise KeyboardInterrupt
        seen.append(index)
        return honest(subject, index, *given, **settings)

    monkeypatch.setattr(kept, "sample_prompt", counting)
    return seen, ends


def nothing(drawn):
    pass


def test_in_memory_and_in_a_folder_are_the_same(context):
    shown = []
    inside, files = Samples(context.subject), KeptSamples(context)
    inside.measure(LOOK, shown.append)
    files.measure(LOOK, nothing)
    assert shown == [*range(0, 81, 8)]
    same(inside.read(LOOK), files.read(LOOK))
    # Of one block alone is the gradient compared.
    compared = [np.isfinite(one.gradient_gap) for one in chain(*inside.read(LOOK))]
    assert compared == [True] + [False] * 9


def test_what_is_there_is_gone_on_with(context, counted):
    seen, ends = counted
    whole = Samples(context.subject)
    whole.measure(LOOK, nothing)
    order = whole.order
    assert seen == order * 2
    seen.clear()
    ends.append(order[3])
    with pytest.raises(KeyboardInterrupt):
        KeptSamples(context).measure(LOOK, nothing)
    ends.clear()
    again, shown = KeptSamples(context), []
    again.measure(Look(4, 8), nothing)
    assert seen == order[:4]
    again.measure(LOOK, shown.append)
    assert seen == [*order, *order]
    assert shown == [*range(32, 81, 8)]
    same(again.read(LOOK), whole.read(LOOK))


def test_processes_share_the_prompts(context):
    """Each takes every other one, and the first reads what the second has written."""

    class Agreed(OfTwo):
        def agree(self, decide, kind=None):
            return todo

    whole = Samples(context.subject)
    todo = whole._missing(LOOK)
    whole.measure(LOOK, nothing)
    both = [
        KeptSamples(replace(context, spec=replace(context.spec, processes=Agreed(rank))))
        for rank in (1, 0)
    ]
    for one in both:
        one.measure(LOOK, nothing)
    assert len(list((context.spec.results.path / "shards").iterdir())) == 10
    same(both[1].read(LOOK), whole.read(LOOK))


def flip_rewards(path):
    arrays = dict(np.load(path))
    write_arrays(path, arrays | {"rewards_N": 1 - arrays["rewards_N"]})


def of_fewer(path):
    path.with_name(path.name.replace("-8.", "-4.")).replace(path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-99])


@pytest.mark.parametrize("spoil", [flip_rewards, of_fewer, cut])
def test_a_spoilt_sample_is_taken_again(spoil, context, counted):
    first = KeptSamples(context)
    first.measure(LOOK, nothing)
    KeptSamples(context).measure(Look(5, 4), nothing)
    counted[0].clear()
    spoil(context.spec.results.file(f"shards/{first.order[2]:06d}-0-8.npz"))
    again = KeptSamples(context)
    again.measure(LOOK, nothing)
    assert counted[0] == [first.order[2]]
    same(again.read(LOOK), first.read(LOOK))


def test_a_sample_of_another_subject_is_none_of_ours(context):
    KeptSamples(context).measure(LOOK, nothing)
    spec = replace(context.spec, probe=context.spec.probe.model_copy(update={"seed": 1}))
    subject = make_subject(spec, context.subject.policy, scored=16)
    other = replace(context, spec=spec, subject=subject)
    key = KeptSamples(context).order[0], 0, 8
    assert KeptSamples(context).has(key)
    assert not KeptSamples(other).has(key)


def test_a_sample_of_which_an_older_file_is_seen_first(context, monkeypatch):
    """Another machine has measured it again; here the file system is a moment behind."""
    KeptSamples(context).measure(LOOK, nothing)
    path = next((context.spec.results.path / "shards").iterdir())
    newer = path.read_bytes()
    path.write_bytes(b"of an earlier version")
    monkeypatch.setattr(processes.time, "sleep", lambda _: path.write_bytes(newer))
    assert KeptSamples(context).read(LOOK)


def test_a_sample_that_nobody_sees(context, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.0)
    with pytest.raises(InputError, match=r"-0-8\.npz: is gone, or cannot be seen"):
        KeptSamples(context).read(LOOK)
