"""What training feels behind random words: `python -m probes.wording.felt STUDY`.

The reward sees the number after n words alone, so a prompt's value is V = E[p(Y_1..n)], p
the probability of the right number there; what would follow it is left out. With p_i of
words that are drawn, b_i the mean of the other p,

    L(theta) = mean_i exp(log pi(words_i) - log pi_0(words_i)) (p_i - b_i)

has the Hessian of V without bias at theta_0, as in `mse_lab.scores.curvature`, where
rewards of 0 and 1 stand in the place of p. Those leave the noise of every word's score in
the curvature, and 24 words drown what is felt; p hardly depends on them, and leaves little.

Writes `felt.json` into the folder of a study that nothing has been trained for yet.
"""

import argparse

import torch
from torch import Tensor

from mse_lab.commands.command_line import RESULTS, ROOT
from mse_lab.errors import InputError
from mse_lab.formatting import with_interval
from mse_lab.measurement.directions import Multiply
from mse_lab.measurement.prompt import draw_pool
from mse_lab.measurement.subject import Subject
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.scores.curvature import differentiate_slopes, plain_attention
from mse_lab.studies.training.felt_sizes import measure_felt
from mse_lab.studies.training.files import StudyFiles
from mse_lab.studies.training.settings import arms_of, load_study, study_file

# Of a probe's `metric`.
SETTINGS = {"prompts": 60, "repeats": 4}


def surrogate(
    policy: Policy, prompt: list[int], drawn: Completions, right: int, words: int
) -> Tensor:
    """Compute L of the first words of completions; `right` is the token that is rewarded.

    Completions that end among the words have p = 0.
    """
    words_NT = torch.from_numpy(drawn.tokens_NT[:, :words])
    ids_NT = torch.cat([torch.tensor(prompt).expand(len(words_NT), -1), words_NT], 1)
    table = policy.log_probabilities(policy.model(ids_NT).logits)[:, len(prompt) - 1 :]
    length_N = torch.from_numpy(drawn.lengths_N)[:, None]
    there_NT = torch.arange(words) < length_N
    picked_NT = table[:, :words].gather(-1, words_NT[..., None])[..., 0]
    log_words_N = (picked_NT * there_NT).sum(1)
    p_N = table[:, words, right].exp() * (length_N[:, 0] > words)
    known_N = p_N.detach()
    others_N = (known_N.sum() - known_N) / (len(known_N) - 1)
    return ((log_words_N - log_words_N.detach()).exp() * (p_N - others_N)).mean()


def minus_hessian_of_answers(subject: Subject, index: int) -> Multiply:
    """Draw completions of a prompt; give what multiplies vectors by minus V's Hessian."""
    policy, count = subject.policy, range(subject.probe.metric.completions)
    drawn = draw_pool(subject, index, "metric-curvature", count).completions
    answer = str(subject.prompts[index].record["answer"])
    right = policy.tokenizer.convert_tokens_to_ids(answer)
    words = subject.probe.sampling.max_new_tokens - 2

    def multiply(vectors_KD: Tensor, products_KD: Tensor) -> None:
        with torch.enable_grad(), policy.differentiable(), plain_attention():
            value = surrogate(policy, subject.tokens[index], drawn, right, words)
            differentiate_slopes(policy, -value, vectors_KD, products_KD)

    return multiply


def main() -> None:
    """Measure what each arm's optimiser feels of the checkpoint, and write it."""
    parser = argparse.ArgumentParser(prog="probes.wording.felt", description=__doc__)
    parser.add_argument("study")
    name = parser.parse_args().study
    study, files = load_study(study_file(name, ROOT)), StudyFiles(RESULTS / name)
    if files.has_prediction():
        raise InputError(f"{files.folder}: has a prediction; what is felt comes before it")
    torch.set_num_threads(1)
    found = {
        arm.name: measure_felt(arm, SETTINGS, study.level, ROOT, minus_hessian_of_answers)
        for arm in arms_of(study)
    }
    files.write_felt(found)
    for arm, felt in found.items():
        print(f"{arm}: {with_interval(felt.best)} for held-out prompts,", end=" ")
        print(f"{with_interval(felt.best_in_training)} for those of the training")


if __name__ == "__main__":
    main()
