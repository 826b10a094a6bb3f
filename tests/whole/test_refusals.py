"""Bad input, through the real command line: one line that says what to do, status 2.

A row is what is typed and what the line must hold. All rows are typed in one folder that
holds a model, a probe `small.yaml` of it, prompts, and logs; no row may write in it. What
needs more than words (a full disk, two starts of a run) stands below; what a function
refuses stands in a list of its room.
"""

import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from log_makers import write_lines
from models import small_probe

PROMPTS = {
    "sums.jsonl": [{"id": n, "problem": f"1 {n}", "answer": n} for n in (1, 2, 3)],
    "odd.jsonl": [{"text": "?", "answer": 1}],
    "parts.jsonl": [{"problem": "1", "answer": [{"text": "1"}]}],
    "lists.jsonl": [{"id": n, "problem": "1", "answer": [["a"], []][n]} for n in (0, 1)],
    "words.jsonl": [{"id": n, "problem": "1", "answer": n} for n in (1, 2, "q")],
    "log.jsonl": [{"prompt": p, "reward": r} for p in "ab" for r in (0, 1)],
    "own.jsonl": [{"prompt": n, "text": "1"} for n in "123" for _ in range(24)],
}
TEXTS = {
    "empty.jsonl": "\n",
    "broken.jsonl": '{"id": 1, "problem": "1", "answer": 1}\n{"id": 2,\n',
    "there.yaml": "mine",
}

OF_A_PROBE = """
pol=1                           | unknown key pol; did you mean pool?
group_sizes=[1,4]               | grpo needs groups of 2 or more
pool.replicate=4                | pool.replicate = 4
pool.reference=2                | pool.reference = 2
model.path=no/such/folder       | no/such/folder: no such folder
model.device=tpu                | model.device = 'tpu': give auto, cpu, cuda or cuda:1
model.memory=40 gigs            | model.memory = '40 gigs': give a size such as 40GB
model.device=cuda:٣             | model.device = 'cuda:٣'
model.device=cuda:99            | cuda
reward=intger                   | reward = intger: no such reward; did you mean
parameters=[no_such]            | 'no_such' matches no parameter
sampling.temperature=0          | sampling.temperature = 0
sampling.max_new_tokens=64      | exceed the model's context of 64
prompts.source=none.jsonl       | none.jsonl: no such file
prompts.source=broken.jsonl     | line 2: not valid
prompts.source=empty.jsonl      | has no prompts
completions=no/such.jsonl       | completions = no/such.jsonl: no such file
"""

TYPED = """
drew                                           | no command drew; did you mean demo?
advice tiny/base                               | no command advice; did you mean advise?
run small.yaml --bugdet 9                      | --bugdet 9; see run_mse.py run --help
--nowhere                                      | --nowhere; see run_mse.py --help
advise small.yaml --training --beta 0 --json   | --training: takes all that follows; put
init model lists.jsonl --out a.yaml            | failed on prompt 1: ValueError: the answer
init model parts.jsonl --out a.yaml            | name one by --answer: answer.0.text,
claims smollm2/ickl                            | no finished run; did you mean smollm2/icl?
run tiny/bse                                   | no probe tiny/bse; did you mean tiny/base?
run model                                      | a checkpoint folder? write a probe:
report model                                   | a checkpoint folder? write a probe:
run small.yaml --out there.yaml                | there.yaml
run small.yaml --out=                          | '--out=': empty; give a value
figure nowhere                                 | nowhere: no finished run; known: demo, len
figure --out f.jpg                             | the suffix must be one of
figure demo --out .                            | '.' names no regular file
init model ''                                  | empty; give a value
init nowhere sums.jsonl                        | MODEL = nowhere: no such folder
init . sums.jsonl                              | MODEL = .: no config.json in it
init model empty.jsonl                         | empty.jsonl: has no prompts
init model odd.jsonl                           | no column is called problem or question or
init model sums.jsonl --out there.yaml         | there.yaml: exists
init model sums.jsonl --out link.yaml          | 'link.yaml' names no regular file
init model sums.jsonl --out no/x.yaml          | no/x.yaml: cannot be written
init model words.jsonl --reward integer        | reward failed on prompt q
init model sums.jsonl --max-tokens 0           | '0' is no number of tokens
init model sums.jsonl --from model             | unrecognized arguments: --from
advise small.yaml --budget 0                   | argument --budget:
advise small.yaml --budget 35                  | the first look takes 36 completions, 12 of
advise tiny/base smollm2/icl --fresh           | of several runs there is a line each
advise tiny/base --budget 512                  | is measured, and nothing more is drawn
advise demo --set interval.level=0.9           | is a finished run, which answers as it is
advise demo --fresh                            | is a finished run, which answers as it is
advise demo --out elsewhere                    | is a finished run, which answers as it is
advise tiny/base --G 8 --G 4                   | --G is given twice; give it once, with all
rollouts log.jsonl --fail-on silent --fail-on copies | --fail-on is given twice; give it
advise tiny/base smollm2/none                  | no probe smollm2/none
advise tiny/base probes/bonsai.yaml            | no probe probes/bonsai.yaml
advise tiny/base gsm8k/qwen-instruct           | qwen-instruct: no finished run; measure
advise tiny/base --checkpoints no-*            | --checkpoints no-*: no such folder
advise tiny/base --checkpoints x --set model.path=y | name the model; leave out --set model
advise tiny/base smollm2/icl --checkpoints x   | --checkpoints: of which probe?
run small.yaml --set prompts.source=words.jsonl  | failed on prompt q
advise small.yaml --set prompts.source=words.jsonl | failed on prompt q
advise small.yaml --config x.yaml              | x.yaml: cannot be read
advise small.yaml --set completions=own.jsonl  | an advice draws its own; measure these
advise small.yaml --training n=8               | no num_generations, the group size of TRL
advise small.yaml --trainer swift              | no trainer swift; known: trl, rloo, verl
advise small.yaml --estimator '[grpo]'         | '[grpo]' is no entry; give a name
advise small.yaml --estimator grpo             | no G, the group size of another trainer
advise small.yaml --estimator grpo --G 1       | grpo gives no gradient there; it takes 2
advise small.yaml --estimator grpo-std --G 1   | training: G = 1, estimator = grpo-std: gr
advise small.yaml --estimator '{name: pass-at-k, k: 4}' --G 3 | gradient there; it takes 4
advise small.yaml --estimator gprpo --G 4      | unknown gprpo; did you mean grpo?
advise small.yaml --trainer verl --processes 2 | --processes: the batch of verl is
advise small.yaml --training --beta 0 --mine 1 | no num_generations, the group size of TRL
rollouts log.jsonl --fail-on truncated=0.3     | these logs do not tell truncated
rollouts log.jsonl --fail-on quiet=0.5         | silent
rollouts log.jsonl --fail-on silent=2          | give a share from 0 to 1
rollouts log.jsonl --fail-on silent=much       | give a share from 0 to 1
rollouts log.jsonl --group-size 1              | group size from 2
"""

ALONE = ["actor_rollout_ref.rollout.n=1", "algorithm.adv_estimator=rloo_vectorized"]

# What a table's line cannot hold.
ODD = [
    (
        ["advise", "small.yaml", "--trainer", "verl", "--training", *ALONE],
        "rollout.n = 1, algorithm.adv_estimator = rloo_vectorized, ",
    ),
    (["advise", "x" * 5000], "x: File name too long; shorten it"),
    (["run", "small.yaml", "--set", "seed=" + "x" * 5000], "xxx ... xxx"),
    (["run", "small.yaml", "--set", f"model.memory={'9' * 99}GB"], "model.memory = '999"),
    (["advise", "small.yaml", "--budget", "9" * 5000], "argument --budget: "),
    (["run", "two\nlines.yaml"], ".yaml: the file's name holds"),
    (["run", "a\x1b[1m.yaml"], ".yaml: the file's name holds"),
    (["run", "not\udcffutf8.yaml"], ".yaml: the file's name holds"),
]


def rows(table):
    return [
        tuple(part.strip() for part in line.split(" | "))
        for line in table.strip().splitlines()
    ]


EVERY = [
    *((["run", "small.yaml", "--set", one], said) for one, said in rows(OF_A_PROBE)),
    *((shlex.split(words), said) for words, said in rows(TYPED)),
    *ODD,
]  # fmt: skip


@pytest.fixture(scope="module")
def workplace(tmp_path_factory, checkpoint):
    folder = tmp_path_factory.mktemp("workplace")
    shutil.copytree(checkpoint, folder / "model")
    for name, lines in PROMPTS.items():
        write_lines(folder / name, lines)
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    (folder / "link.yaml").symlink_to("target.yaml")
    text = yaml.safe_dump(small_probe("model", "sums.jsonl"))
    for name in ("small", "two\nlines", "a\x1b[1m", "not\udcffutf8"):
        (folder / f"{name}.yaml").write_text(text)
    return folder


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("words", "line"),
    EVERY,
    ids=lambda one: ascii(" ".join(one)[:60]) if isinstance(one, list) else "",
)
def test_what_is_refused(words, line, workplace, refused, monkeypatch):
    monkeypatch.chdir(workplace)
    before = contents(workplace)
    assert line in refused(*words)
    assert contents(workplace) == before


def test_full_disk(write_probe, tmp_path, refused, monkeypatch):
    """What was finished before the disk was full is still there."""
    path, out = write_probe(), tmp_path / "out"
    whole, written = Path.replace, []

    def replace(self, target):
        if Path(target).suffix == ".npz":
            written.append(target)
            if len(written) > 2:
                raise OSError(28, "No space left on device")
        return whole(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        assert "No space left on device" in refused("run", path, "--out", out)
    assert len(list((out / "small/shards").glob("*.npz"))) == 2


def test_two_probes_of_one_name_do_not_share_a_folder(write_probe, tmp_path, refused):
    """The second would take the place of the first."""
    first, other = write_probe(), tmp_path / "other/small.yaml"
    other.parent.mkdir()
    shutil.copy(first, other)
    message = refused("run", first, other, "--out", tmp_path / "out", "--fresh")
    assert f"{first} and {other}: both results would lie in small" in message
    assert not (tmp_path / "out").exists()
