"""Runs whose completions cannot be scored in whole groups: laws, and no replicates."""

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from scipy import stats

import run_mse
from claimed_runs import DESIGNS, PROMPTS, draw, evidence_of, verdicts
from mse_lab.answers.claims import judge_run
from mse_lab.answers.corollary_5_baseline import PROMPT_ONLY, judge_baselines
from mse_lab.answers.lemma_1_u_statistic import judge_u_statistic
from mse_lab.answers.section_5_1_figure_4 import judge_order_of_runs
from mse_lab.estimators import ESTIMATORS, find_estimators
from mse_lab.estimators.leave_one_out import centred
from mse_lab.measurement import memory
from mse_lab.measurement import prompt as measure
from mse_lab.mse.curves import Curves, measure_curves
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.reference_noise import covariance_square_trace, draw_reference_noise
from mse_lab.mse.replicates import measure_errors
from mse_lab.report.advice_report import advice_text
from mse_lab.report.drawing import Style, collect_handles, draw_line
from mse_lab.report.figure_4 import MSE, SCALE_FREE, compose, draw_companion
from mse_lab.results.finished_run import read_tables
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.integrity import read_arrays
from mse_lab.results.warnings import warn_of_norms_only
from mse_lab.scores.score_block import Scoring, score_block
from simulated import analysed, make_design

NAMES = ["vanilla", "grpo", "oracle", "grpo-std", "opo"]
SIZES = [2, 4, 8]
PROBLEMS = {"1 2 3": 33, "3 1": 33, "1": 33, "3 3 2 1": 23, "1 3": 33}
BLOCKS = 4
LAWS = ["vanilla", "grpo", "oracle"]
LEAST = {"model": {"path": "none"}, "prompts": {"source": "none"},
         "interval": {"resamples": 100}}  # fmt: skip
UNTESTED = {
    "Theorem 2 (exact law)",
    "Theorem 2 (intercept)",
    "Theorem 2 (slope)",
    "Proposition 3",
    "Theorem 7 (best group size)",
}


def norms_only(pools, prompts=slice(None)):
    """Forget the products between completions of some prompts."""
    gram = pools.gram_PKGG.copy()
    index = np.arange(gram.shape[-1])
    gram[prompts] = np.nan
    gram[..., index, index] = pools.gram_PKGG[..., index, index]
    return replace(pools, gram_PKGG=gram)


def in_halves(patched):
    """Let no whole block ever fit."""
    patched.setattr(memory, "ways_of_scoring", lambda *_: [Scoring(SIZES[-1] // 2)])


def out_of_memory_at_last(patched):
    """Let memory run out once, at the third block of the last prompt."""
    called = []

    def score(*given, how, **options):
        called.append(how)
        if len(called) == len(PROBLEMS) * BLOCKS - 1:
            raise MemoryError
        return score_block(*given, how=how, **options)

    ways = [Scoring(SIZES[-1]), Scoring(SIZES[-1] // 2)]
    patched.setattr(memory, "ways_of_scoring", lambda *_: ways)
    patched.setattr(measure, "score_block", score)


PREPARED = {"whole": lambda _: None, "none": in_halves, "last": out_of_memory_at_last}
WITHOUT = ["none", "last"]


def write_probe(root, checkpoint, names, **prompts):
    """Write prompts and a probe of some estimators."""
    records = [
        {"id": f"p{index}", "problem": problem, "answer": answer}
        for index, (problem, answer) in enumerate(PROBLEMS.items())
    ]
    (root / "prompts.jsonl").write_text("\n".join(map(json.dumps, records)))
    source = {"source": str(root / "prompts.jsonl"), "template": "none", **prompts}
    path = root / "small.yaml"
    path.write_text(
        f"model: {{path: '{checkpoint}', device: cpu, dtype: float64}}\n"
        f"prompts: {json.dumps(source)}\nsampling: {{max_new_tokens: 2}}\n"
        f"pool: {{reference: 256, replicate: {BLOCKS * SIZES[-1]}}}\n"
        f"group_sizes: {SIZES}\nestimators: {names}\ninterval: {{resamples: 200}}\n"
    )
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory, checkpoint):
    """One probe, run whole, without products, and without the last prompt's."""
    root = tmp_path_factory.mktemp("norms")
    path = write_probe(root, checkpoint, NAMES)
    for kind, prepare in PREPARED.items():
        with pytest.MonkeyPatch.context() as patched:
            prepare(patched)
            assert run_mse.main(["run", str(path), "--out", str(root / kind)]) == 0
    return {kind: root / kind / "small" for kind in PREPARED}


def read(folder, name, *index):
    return pd.read_csv(folder / name).set_index([*index, "estimator", "group_size"])


def warnings_of(folder):
    return [
        one
        for one in ResultsFolder(folder).read_checks().warnings
        if one.startswith("norms only")
    ]


@pytest.mark.parametrize("kind", WITHOUT)
def test_the_law_is_that_of_the_whole_run(folders, kind):
    whole, found = (read(folders[one], "mse.csv") for one in ("whole", kind))
    assert list(found.columns) == list(whole.columns)
    assert whole["law"].notna().sum() == 12
    np.testing.assert_allclose(found["law"], whole["law"], rtol=1e-9)
    columns = found.columns.drop(["probe", "replicates", "law", "law_low", "law_high"])
    assert found[columns].isna().all(axis=None)
    assert (found["replicates"] == 0).all()
    assert (whole["replicates"] > 0).all()
    width, before = (one["law_high"] - one["law_low"] for one in (found, whole))
    assert (width[before.notna()] / before.dropna()).between(0.95, 1.2).all()


@pytest.mark.parametrize("kind", WITHOUT)
def test_what_needs_norms_only_stays(folders, kind):
    whole, found = folders["whole"], folders[kind]
    for table, index in (("laws.csv", []), ("by_prompt.csv", ["prompt"])):
        before, after = (read(folder, table, *index) for folder in (whole, found))
        names = ["law", "slope"] + ["bias2", "cosine"] * ("law_low" in before)
        for name in names:
            np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12)
    assert after["mse"].isna().all()
    # Where there is a law, u(x) = slope(x) g(x); opo has none.
    own = after.index.get_level_values("estimator") != "opo"
    np.testing.assert_allclose(after["bias2"][own], before["bias2"][own], rtol=1e-9)
    assert after["law"][own].notna().all()
    assert after["slope"][~own].notna().any()
    before, after = (pd.read_csv(folder / "prompts.csv") for folder in (whole, found))
    pd.testing.assert_frame_equal(before, after, rtol=1e-9)


@pytest.mark.parametrize("kind", WITHOUT)
def test_the_run_says_so_and_is_finished(folders, kind, capsys):
    folder = folders[kind]
    assert not read_arrays(folder / "errors.npz")
    assert ResultsFolder(folder).is_complete()
    [warning] = warnings_of(folder)
    for words in ("model.memory", "a smaller largest group size", "no law for opo"):
        assert words in warning
    count = 5 if kind == "none" else 1
    assert f"on {count} of 5 prompts a block of 8" in warning
    assert not warnings_of(folders["whole"])
    path = folder.parents[1] / "small.yaml"
    assert run_mse.main(["run", str(path), "--out", str(folder.parent)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "finished before" in printed
    assert f"warning: {warning}" in " ".join(printed.split())


def test_the_mean_score_is_checked_where_it_can_be(folders):
    made = {
        kind: {check.name: check.ok for check in ResultsFolder(folder).read_checks().checks}
        for kind, folder in folders.items()
    }
    assert made["none"]["mean score zero"] is None
    assert made["last"]["mean score zero"]
    assert made["whole"]["mean score zero"]


def test_answers_by_the_law(folders, capsys):
    """Claims and advice answer, and say in a line what they cannot; no NaN anywhere."""
    folder = folders["none"]
    for word in ("claims", "advise"):
        assert run_mse.main([word, str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "Norms only, so nothing tests the law: small" in printed
    claims = pd.read_csv(folder / "claims.csv", keep_default_na=False)
    whole = claims[(claims["group_size"] == "") & (claims["verdict"] == "undecided")]
    untested = whole[whole["reason"].str.contains("Without replicates")]
    assert set(untested["statement"]) >= UNTESTED
    assert printed.count("warning: norms only: on") == 1
    assert not re.search(r"\b(nan|NaN|None)\b", printed)


def test_the_page_by_the_law(folders, tmp_path):
    output = tmp_path / "report.html"
    assert run_mse.main(["report", str(folders["last"]), "--out", str(output)]) == 0
    page = output.read_text(encoding="utf-8")
    assert not re.search(r">[^<]*\b(nan|NaN|inf|None)\b", page)
    # Figure 4, ratios, ranking, advice.
    for words in (
        "law only, no replicates",
        "GRPO-type / oracle, law",
        "opo: no law, and there are no replicates",
        "norms only: on",
    ):
        assert words in page, words


@pytest.mark.parametrize("quantity", [MSE, SCALE_FREE], ids=["figure", "companion"])
def test_laws_are_drawn_as_lines_with_bands(folders, quantity):
    above, below = compose([read_tables(folders["none"])], quantity).axes
    curves = 3 if quantity is MSE else 4
    assert "law only" in above.get_title()
    assert (len(above.collections), len(below.collections)) == (curves, 0)
    # Below the oracle's is the line at one.
    for panel, count in ((above, curves), (below, curves - 1)):
        assert not [one for one in panel.containers if isinstance(one, ErrorbarContainer)]
        lines = [one for one in panel.lines if len(one.get_xdata()) == 3]
        assert len(lines) == count
        assert all(line.get_marker() == "None" for line in lines)


def test_points_are_drawn_where_there_are_replicates(folders):
    """Negative control."""
    above, below = compose([read_tables(folders["whole"])]).axes
    assert "law only" not in above.get_title()
    assert (len(above.containers), len(below.containers)) == (3, 2)


def test_a_figure_of_both_kinds(folders, tmp_path):
    """Each estimator once in the legend, with its mark."""
    runs = [str(folders[kind]) for kind in ("none", "whole")]
    assert run_mse.main(["figure", *runs, "--out", str(tmp_path / "f.svg")]) == 0
    assert (tmp_path / "f-scale-free.svg").stat().st_size > 5000
    figure = compose([read_tables(folders[kind]) for kind in ("none", "whole")])
    named = collect_handles(figure.axes)
    assert list(named) == ["Vanilla", "GRPO-type", "Oracle"]
    assert all(isinstance(handle, ErrorbarContainer) for handle in named.values())


@pytest.fixture
def panel():
    return Figure().add_subplot()


def test_one_group_size_is_seen(panel):
    draw_line(panel, [4], np.array([[2.0, 1.0, 3.0]]), Style("0.5", "", "one"))
    assert panel.lines[0].get_marker() == "_"
    draw_line(panel, [4], np.full((1, 3), np.nan), Style("0.5", "", "none"))
    assert panel.get_legend_handles_labels()[1] == ["one"]


def sample(seed=0, prompts=60, reference=256, blocks=4, largest=16):
    """A design of simulated prompts, and the pools of a run."""
    rng = np.random.default_rng(seed)
    design = make_design(rng, prompts=prompts)
    return design, design.draw(rng, reference, blocks, largest)


def test_there_are_no_replicates():
    _, pools = sample()
    assert pools.has_cross_products
    for known in (norms_only(pools), norms_only(pools, slice(3, 4))):
        assert not known.has_cross_products
        errors = measure_errors(known, find_estimators(["grpo"], SIZES), SIZES)
        assert [one.shape for one in errors.values()] == [(60, 0)] * 3
        found = measure_curves(
            Curves(known, draw_reference_noise(known, 100, np.random.default_rng(0))),
            find_estimators(["grpo"], SIZES),
            errors,
        )
        assert all(one is None and law is not None for one, law in found.values())
        [warning] = warn_of_norms_only(known, found)
        assert "there is no law" not in warning
    assert known.has_cross_products_P.sum() == 59


def test_the_bound_on_the_noise_of_the_reference():
    """Where products are not known, (E eps^2 ||W||^2)^2; elsewhere as ever."""
    _, pools = sample()
    exact = covariance_square_trace(pools)
    found = covariance_square_trace(norms_only(pools, slice(0, 20)))
    np.testing.assert_array_equal(found[20:], exact[20:])
    residuals = pools.rewards_PN - pools.value_P[:, None]
    by_hand = (residuals**2 * pools.norms2_PN).mean(-1) ** 2
    np.testing.assert_allclose(found[:20], by_hand[:20], rtol=1e-12)
    # Six dimensions share the noise: at most six times too large, up to noise.
    assert (found[:20] >= 0.9 * exact[:20]).all()
    assert found[:20].sum() < 6 * exact[:20].sum()


def law_intervals(pools, seed):
    """Intervals of the laws at G = 4."""
    curves = Curves(pools, draw_reference_noise(pools, 200, np.random.default_rng(seed)))
    return {name: curves.by_law(ESTIMATORS[name], 4).interval("mse", 0.95) for name in LAWS}


@pytest.mark.parametrize("prompts", [4, 60])
def test_coverage_of_laws_with_norms_only(prompts):
    """Of 200 runs; a false alarm of 1e-3 each where coverage is 0.95, below about 0.90."""
    rng, trials = np.random.default_rng(1), 200
    design, inside = make_design(rng, prompts=prompts), dict.fromkeys(LAWS, 0)
    for trial in range(trials):
        pools = norms_only(design.draw(rng, 256, 8, 4))
        for name, (_, low, high) in law_intervals(pools, trial).items():
            inside[name] += low <= design.mse(name, 4) <= high
    for name in LAWS:
        covered = stats.binomtest(inside[name], trials, 0.95, alternative="less").pvalue
        assert covered > 1e-3, (name, inside[name] / trials)


@pytest.mark.parametrize("prompts", [4, 60])
def test_intervals_of_laws_are_not_absurd(prompts):
    """On average over 20 runs at most a tenth wider than with the products."""
    rng = np.random.default_rng(1)
    design, widths = make_design(rng, prompts=prompts), []
    for trial in range(20):
        pools = design.draw(rng, 256, 8, 4)
        found, whole = (law_intervals(one, trial) for one in (norms_only(pools), pools))
        assert all(found[name].value == whole[name].value for name in LAWS)
        widths += [
            [one[name].high - one[name].low for name in LAWS] for one in (found, whole)
        ]
    ratio = np.mean(widths[::2], axis=0) / np.mean(widths[1::2], axis=0)
    assert (ratio < 1.1).all()


def test_a_run_of_which_nothing_is_known(tmp_path, checkpoint, monkeypatch, capsys):
    """No replicates and no law: every command ends well, and tables have their heads."""
    path, folder = write_probe(tmp_path, checkpoint, ["opo"], limit=2), tmp_path / "small"
    in_halves(monkeypatch)
    assert run_mse.main(["run", str(path), "--out", str(tmp_path)]) == 0
    assert "scale_free_mse" in pd.read_csv(folder / "laws.csv")
    drawing = tmp_path / "f.svg"
    assert run_mse.main(["figure", str(folder), "--out", str(drawing)]) == 0
    assert "law only" in drawing.read_text()
    assert not draw_companion([folder], tmp_path / "g.svg")
    assert run_mse.main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r">[^<]*\b(nan|NaN|inf|None)\b", page)


def test_advice_needs_no_products():
    pools = sample(blocks=2)[1]
    whole, found = (analysed(one, [4]).advise() for one in (pools, norms_only(pools)))
    by_law = [one for one in whole.alternatives if one.estimator != "best-constant-loo"]
    other = {"law_only": True, "warnings": found.warnings, "alternatives": tuple(by_law)}
    assert found == replace(whole, **other)
    assert "warning: norms only" in advice_text(found)
    assert "warning: norms only" not in advice_text(whole)


@cache
def small(kind="fair", seed=1):
    """A run of two group sizes."""
    pools = DESIGNS[kind].draw(np.random.default_rng(seed), 256, 4, 8)
    return evidence_of(f"{kind}-{seed}", pools, (4, 8), level=0.99, draws=300)


def by_law(evidence):
    return replace(evidence, pools=norms_only(evidence.pools))


@pytest.mark.parametrize("kind", ["fair", "quiet", "loud", "common"])
def test_claims_by_the_law(kind):
    """What replicates decide the law does not contradict; what tests the law is open."""
    whole, found = (verdicts(judge_run(one)) for one in (small(kind), by_law(small(kind))))
    assert list(found) == list(whole)
    assert set(found) > UNTESTED
    assert all(found[name] == "undecided" for name in UNTESTED)
    for name in set(found) - UNTESTED:
        assert {found[name], whole[name]} != {"holds", "fails"}, name
    assert found["Lemma 1"] == "holds"


def test_claims_are_decided_by_the_law():
    fair, quiet = (
        verdicts(judge_baselines(by_law(draw(kind)))) for kind in ("fair", "quiet")
    )
    assert set(fair.values()) == {"holds"}
    assert set(quiet.values()) == {"fails", "premise fails"}


def test_a_bound_on_a_distance_refutes_nothing():
    [claim, *_] = judge_u_statistic(by_law(small()), centred)
    assert claim.verdict == "undecided"
    assert "at most" in claim.measured


def test_the_best_constant_is_no_better_for_being_fitted():
    """At most 2 of 20 fair runs are refused: false alarm 1e-3 if 1% are.

    Negative control: without the cost of learning it has been fitted to the moments, and
    would be found better than the oracle in most of such runs.
    """
    refused = fitted = 0
    for seed in range(20):
        evidence = by_law(small(seed=seed))
        refused += verdicts(judge_baselines(evidence))[PROMPT_ONLY.name] == "fails"
        moments = evidence.moments
        least = moments.constant_baseline(moments.best_baseline).sum() / PROMPTS**2
        best = evidence.law_of("best-constant", 1)
        gain = (evidence.law_of("oracle", 1) - best) + Statistic(best.value - least, {}, {})
        fitted += gain.p_not_zero() < 1 - evidence.level
    assert refused <= 2
    assert fitted >= 8


def test_runs_with_and_without_replicates_are_compared():
    claims = judge_order_of_runs([small(), replace(by_law(small("small")), name="b")])
    assert claims[0].verdict == "holds"
    assert "By the law alone, for want of replicates: b." in claims[0].reason
