"""The Hub: asked once; what it refuses is one line."""

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.hub import Repository
from served_hub import ModelHub


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with ModelHub(monkeypatch, tmp_path / "cache", tmp_path) as served:
        yield served


@pytest.mark.parametrize(
    ("name", "revision", "expected"),
    [
        ("guarded/model", None, ["(GatedRepoError)", "hf auth login"]),
        ("nobody/model", None, ["(RepositoryNotFoundError); check name"]),
        ("tiny/model", "v9", ["at revision v9 (RevisionNotFoundError)", "/tiny/model;"]),
        ("empty/model", None, ["the Hub has no config.json of it"]),
        ("broken/model", None, ["503", "try again later"]),
        ("a--b/c", None, ["not a valid Hub name"]),
    ],
)
def test_what_the_hub_refuses_is_one_line(hub, name, revision, expected):
    with pytest.raises(InputError) as refused:
        Repository("model.path", name, revision).ask("config.json")
    message = str(refused.value)
    assert message.startswith(f"model.path = {name}: ")
    assert all(part in message for part in expected), message
    assert "\n" not in message


def test_a_data_set_without_a_readme_can_be_fetched(hub):
    assert Repository("prompts.source", "empty/set", None, "dataset").ask("x") == ""


def test_the_download_command_names_kind_and_revision():
    data = Repository("prompts.source", "owner/name", "v1", "dataset")
    assert data.download == "hf download owner/name --repo-type dataset --revision v1"
    assert Repository("model.path", "owner/name").download == "hf download owner/name"
