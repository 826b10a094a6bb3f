"""Files of probes, folders of checkpoints: found, read, changed by `--set`, or refused."""

from pathlib import Path

import pytest

from mse_lab.config.probe_files import (
    assign,
    dump_probe,
    find_checkpoints,
    known_probes,
    load_probe,
    parse_probe,
    probe_file,
    probe_name,
)
from mse_lab.errors import InputError
from mse_lab.records.plain_text import parse_json, parse_yaml, read_text

LEAST = "model: {path: x}\nprompts: {source: y}\n"


def write(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LEAST)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project, and another folder beside it where one works."""
    write(*(tmp_path / f"probes/{name}.yaml" for name in ("b", "tiny/base")))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_a_probe_is_found_by_its_name_or_path(root):
    path = root / "probes/tiny/base.yaml"
    assert known_probes(root) == ["b", "tiny/base"]
    assert probe_file("tiny/base", root) == probe_file(str(path), root) == path
    assert probe_name(path, root) == "tiny/base"
    assert probe_name(root / "elsewhere/mine.yaml", root) == "mine"
    with pytest.raises(InputError, match=r"no probe tiny/bse; did you mean tiny/base\?"):
        probe_file("tiny/bse", root)
    with pytest.raises(InputError, match=r"no probe x; write one: .* init MODEL"):
        probe_file("x", root / "nowhere")
    for file in ("...yaml", "..yaml", "probes/...yaml"):
        with pytest.raises(InputError, match="the file's name names no folder; rename it"):
            probe_name(Path(file), root)


def test_what_lies_where_one_works_goes_before_the_project_s(root):
    write(Path("mine.yaml"), Path("probes/tiny/base.yaml"), Path("probes/more.yaml"))
    Path(".hidden.yaml").touch()
    assert known_probes(root) == ["b", "mine", "more", "tiny/base"]
    for name in known_probes(root):
        assert probe_name(probe_file(name, root), root) == name
    assert probe_file("tiny/base", root) == Path("probes/tiny/base.yaml")


def test_paths_start_from_the_probe_s_folder_where_that_leads_to_something(root):
    """Not what is a template's name or a Hub's, nor what is set by the command."""
    write(Path("sub/mine.yaml"), Path("sub/x"), Path("sub/none"), Path("y"))
    Path("sub/mine.yaml").write_text(LEAST.replace("y}", "y, template: none}"))
    probe = load_probe(Path("sub/mine.yaml"))
    assert probe.model.path == "sub/x"
    assert (probe.prompts.source, probe.prompts.template) == ("y", "none")
    assert load_probe(Path("sub/mine.yaml").absolute()) == probe
    assert load_probe(Path("sub/mine.yaml"), ["model.path=x"]).model.path == "x"
    assert load_probe(Path("../probes/b.yaml")).model.path == "x"
    write(root / "probes/x")
    assert load_probe(Path("../probes/b.yaml")).model.path == str(Path("../probes/x"))


def test_a_new_source_is_not_looked_for_where_the_old_one_was(root):
    """Another one has no such subset, split and revision."""
    path = root / "probes/b.yaml"
    path.write_text(LEAST.replace("y}", "o/y, subset: main, split: test, revision: abc}"))

    def source(*changes):
        found = load_probe(path, changes).prompts
        return found.subset, found.split, found.revision

    assert source() == ("main", "test", "abc")
    assert source("prompts.source=z.jsonl") == (None, None, None)
    assert source("prompts.split=dev", "prompts.source=o/z") == (None, "dev", None)


def test_settings_are_changed_by_dotted_keys_and_written_down_again(root):
    changes = ["pool.replicate=512", "model.revision=main", "group_sizes=[2, 4]"]
    probe = load_probe(root / "probes/b.yaml", [*changes, "model.adapter={rank: 4}"])
    assert (probe.pool.replicate, probe.pool.reference) == (512, 1024)
    assert (probe.model.revision, probe.group_sizes) == ("main", [2, 4])
    adapter = probe.model.adapter
    assert (adapter.rank, adapter.alpha, adapter.target) == (4, 16.0, "all-linear")
    assert parse_probe(parse_yaml(dump_probe(probe), "again"), "again") == probe


MODEL, PROMPTS = {"path": "x", "device": "cpu"}, {"source": "y"}
# A probe's changes, in its sections, and the line after the file's name.
BAD_PROBES = [
    ({"model": {}}, "model.path is missing; add it"),
    ({"model": {"pth": "x"}}, "unknown key model.pth; did you mean path?"),
    ({"sampling": {"top_k": 50}}, "sampling.top_k; completions of another law than the p"),
    ({"group_sizes": [4, 0]}, "group_sizes.1 = 0: should be greater"),
    ({"group_sizes": [4, 6]}, "group_sizes = [4, 6]: 4 does not divide the largest, 6; us"),
    ({"pool": {"replicate": 100}}, "pool.replicate = 100: must be a multiple of the large"),
    ({"reward": "supplied"}, "reward = supplied: there is no file to read it from; set co"),
    ({"prompts": PROMPTS | {"fields": {"question": "x"}}}, "unknown key prompts.fields.qu"),
    ({"prompts": PROMPTS | {"fields": {"answer": 3}}}, "prompts.fields.answer = 3: "),
    ({"prompts": PROMPTS | {"spilt": "train"}}, "unknown key prompts.spilt; did you mean"),
    ({"model": MODEL | {"adapter": {"rank": 0}}}, "model.adapter.rank = 0: should be grea"),
    ({"model": MODEL | {"adapter": {"rnk": 4}}}, "unknown key model.adapter.rnk; did you"),
    ({"model": MODEL | {"adapter": {"target": "q"}}}, "target = 'q': should be 'all-linea"),
    ({"model": MODEL | {"adapter": {"alpha": True}}}, "alpha = True: should be a number"),
    ({"model": MODEL | {"adapter": 3}}, "model.adapter = 3: should be a valid dictionary"),
    ({"model": MODEL | {"device": "mps:0"}}, "= 'mps:0': Apple's GPUs have no float"),
    *(
        ({"model": MODEL | {"memory": one}}, f"model.memory = {one!r}: give a size")
        for one in ("much", "12 G", "-1GB", "", "1.2.3", "9" * 40, "٣GB")
    ),
    ({"model": MODEL | {"device_map": "auto"}}, "takes all devices; set model.device = au"),
    ({"model": MODEL | {"device_map": "x"}}, "model.device_map = 'x': should be 'auto'"),
    *(
        ({"parameters": [one]}, "is not a regular expression: ")
        for one in ("[a", "a{99999999999}", "(?P<a>x)(?P<a>y)", "(" * 500)
    ),
]


def probe_of(changes, name):
    return parse_probe({"model": MODEL, "prompts": PROMPTS} | changes, name)


def assigned(assignment, name):
    return assign({"seed": 1}, assignment)


BAD_ASSIGNMENTS = [
    ("pool", "not KEY=VALUE; write for example pool.replicate=128"),
    ("seed.first=1", "seed has no keys; set its value"),
    ("pool={", "not valid YAML"),
]
BAD_YAML = [
    ("a0: &a0 [x, x]\na1: &a1 [*a0, *a0]\n", "an alias (*); write its value instead"),
    ("[" * 900 + "]" * 900, "nested too deeply"),
    ("!!binary aGk=", "not valid YAML"),
    ("!!python/object/apply:os.getcwd []", "could not determine"),
    ("? [1, 2]\n: 3", "unhashable key"),
    ("a: " + "9" * 5000, "not valid YAML"),
    ("a: 0x" + "f" * 5000, "4300 digits"),
    ('a: "\\ud800"', "surrogates not allowed"),
    ('a: "\\UFFFFFFFF"', "not valid YAML"),
    ("a: 1\nb: 2\na: 3", 'the key a occurs twice in "<unicode string>", line 3'),
    ("a: {b: 1, b: 2}", "the key b occurs twice"),
    ("seed: -00", "-00 is no plain number"),
    ("a: 1:30.5", "1:30.5 is no plain number"),
    ("a: 1\n---\na: 2", "not valid YAML"),
    ("a: \x01", "not valid YAML"),
]
BAD_JSON = [
    (r'{"id": "\ud800"}', "surrogates not allowed"),
    ('{"a": ' + "[" * 2000 + "]" * 2000 + "}", "recursion"),
    ('{"id": ' + "9" * 5000 + "}", "4300 digits"),
    ('{"a": [{"b": 1, "c": 2, "b": 3}]}', "the key b occurs twice"),
    ("[1]", "not a JSON object"),
    ("{", "not valid JSON"),
    (b'{"a": "\xff"}', "not valid JSON"),
]


@pytest.mark.parametrize(
    ("read", "given", "line"),
    [
        (parse_probe, [], "mine: not a mapping of keys to values"),
        *((probe_of, *one) for one in BAD_PROBES),
        *((assigned, *one) for one in BAD_ASSIGNMENTS),
        *((parse_yaml, *one) for one in BAD_YAML),
        *((parse_json, *one) for one in BAD_JSON),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)[:30]),
)
def test_what_is_refused(read, given, line):
    with pytest.raises(InputError) as refused:
        read(given, "mine")
    assert str(refused.value).startswith(("mine: ", f"--set {given}: "))
    assert line in str(refused.value)


def test_yaml_and_json_have_the_same_values():
    """Dates are texts, whatever their time zone; a pair of surrogates is a character."""
    dates = "{x: 2026-13-01, y: 2001-12-14t21:59:43+99:99}"
    rest = "d: [null, true, 0x1f, 1_000, .inf, 0, 0.5, '010']"
    found = parse_yaml(f"b: {dates}\n{rest}", "mine.yaml")
    assert found["b"] == {"x": "2026-13-01", "y": "2001-12-14t21:59:43+99:99"}
    assert found["d"] == [None, True, 31, 1000, float("inf"), 0, 0.5, "010"]
    text = r'{"a": "😀\n", "b": [1, null], "c": "\ud83d\ude00"}'
    assert parse_json(text, "p") == {"a": "😀\n", "b": [1, None], "c": "😀"}


@pytest.mark.parametrize("content", [b"\xff", None])
def test_files_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "mine.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine.yaml: cannot be read: "):
        read_text(path)


def save(folder, *names, file="config.json"):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / file).touch()


def test_they_stand_in_the_order_of_their_steps(tmp_path):
    save(tmp_path, "checkpoint-10", "checkpoint-2")
    save(tmp_path, "seed-7/lr0.03-step-25", file="adapter_config.json")
    (tmp_path / "checkpoint-3").touch()  # a file is no checkpoint
    two, ten = tmp_path / "checkpoint-2", tmp_path / "checkpoint-10"
    pattern, last = str(tmp_path / "checkpoint-*"), tmp_path / "seed-7/lr0.03-step-25"
    # A pattern, and what a shell makes of one, with a folder named twice.
    for given in ([pattern, str(last)], [str(last), str(ten), pattern]):
        assert [*find_checkpoints(given).items()] == [(2, two), (10, ten), (25, last)]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "no such folder; give what a trainer saved"),
        (["last"], "last: no step in its name"),
        (["a-2", "b-2"], "are both of step 2; give one of them"),
        (["a-2/b"], r"a-2: neither config\.json nor adapter"),
    ],
)
def test_what_is_no_training_is_refused(names, words, tmp_path):
    save(tmp_path, *names)
    with pytest.raises(InputError, match=words):
        find_checkpoints([str(tmp_path / "*")])
