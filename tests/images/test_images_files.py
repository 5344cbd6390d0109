"""What images are built from, read without building any."""

import re

import pytest
from images_workspace import AGENTS, PROJECTS, ROOT, VERSION

DOCKERFILE = (ROOT / "images" / "Dockerfile").read_text()
BAKE = (ROOT / "images" / "docker-bake.hcl").read_text()
STAGES = [f"FROM {it}" for it in re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]]
LAST = STAGES[-1].replace("\\\n", " ")
TARGETS = dict(re.findall(r'^target "(\w+)" \{\n(.*?)^\}', BAKE, re.MULTILINE | re.DOTALL))


def test_there_is_a_target_for_each_agent() -> None:
    """And beside them one for several together."""
    assert sorted(TARGETS) == sorted([*AGENTS, "common", "several"])


def test_all_are_all_agents() -> None:
    """What `docker buildx bake` builds."""
    [listed] = re.findall(r'^group "all" \{\n +targets = \[(.*)\]', BAKE, re.MULTILINE)
    assert re.findall(r'"(\w+)"', listed) == AGENTS


@pytest.mark.parametrize("agent", AGENTS)
def test_a_target_puts_its_agent_into_an_image_of_its_name(agent: str) -> None:
    """As kube-sched-ext-NAME, built like the others."""
    assert f'AGENTS = "{agent}"' in TARGETS[agent]
    assert f"kube-sched-ext-{agent}:${{VERSION}}" in TARGETS[agent]
    assert '"common"' in TARGETS[agent]


def test_images_are_for_both_platforms() -> None:
    """Of the machines that clusters are made of."""
    assert '["linux/amd64", "linux/arm64"]' in TARGETS["common"]


@pytest.mark.parametrize("folder", PROJECTS)
def test_packages_are_named_as_their_folders(folder: str) -> None:
    """By which images find them; the core alone has no second name."""
    kind, _, name = folder.partition("/")
    suffix = "" if name == "core" else f"-{name}"
    assert PROJECTS[folder]["name"] == f"kube-sched-ext{suffix}", kind


def test_the_version_is_that_of_the_packages() -> None:
    """In tags and labels."""
    assert re.findall(r"^ARG VERSION=(.*)", DOCKERFILE, re.MULTILINE) == [VERSION]
    assert re.findall(r'^variable "VERSION" \{\n +default = "(.*)"', BAKE, re.MULTILINE) == [
        VERSION
    ]


def test_the_base_is_the_same_in_both_files() -> None:
    """A Python that the packages support, of one minor version."""
    [base] = re.findall(r"^ARG BASE=(.*)", DOCKERFILE, re.MULTILINE)
    assert re.findall(r'^variable "BASE" \{\n +default = "(.*)"', BAKE, re.MULTILINE) == [base]
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-\w+", base)


def test_every_stage_starts_at_the_base_or_at_another_stage() -> None:
    """Nothing comes from elsewhere."""
    known = {"${BASE}"}
    for stage in STAGES:
        start, _, name = stage.partition("\n")[0].removeprefix("FROM ").partition(" AS ")
        assert start in known
        known.add(name)
    for source in re.findall(r"from=(\w+)", DOCKERFILE):
        assert source in known


@pytest.mark.parametrize(
    "label", ["title", "description", "version", "revision", "licenses", "base.name"]
)
def test_the_image_says_what_it_is(label: str) -> None:
    """In labels of the OCI."""
    assert f'org.opencontainers.image.{label}="' in LAST


def test_the_last_stage_copies_lists_and_mounts_the_rest() -> None:
    """What builds is in no layer: no wheels, no tools, no sources."""
    copies = re.findall(r"^(?:COPY|ADD) .*", LAST, re.MULTILINE)
    assert copies
    assert all(re.fullmatch(r"COPY --from=\w+ \S+\.txt \S+", it) for it in copies)
    for step in re.findall(r"^RUN .*", LAST, re.MULTILINE):
        assert re.search(r" python3 /run/build/tools/steps\.py (harden|install \S+\.txt)$", step)


def test_credentials_come_as_secrets_only() -> None:
    """Arguments stay in the history of an image."""
    arguments = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    assert arguments == {"AGENTS", "BASE", "REVISION", "VERSION"}
    assert set(re.findall(r"type=secret,id=(\w+)", DOCKERFILE)) == {"index", "ca"}


def test_the_context_is_no_more_than_what_is_copied() -> None:
    """So that nothing else of a checkout gets into an image, or makes it build anew."""
    ignored = [it for it in (ROOT / ".dockerignore").read_text().splitlines() if it[:1] != "#"]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    sent = {it.removeprefix("!") for it in ignored if it.startswith("!")}
    assert ignored[0] == "*"
    assert {it.partition("/")[0] for line in copied for it in line.split()} == sent
