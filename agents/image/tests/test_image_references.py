"""Which references name one image."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext_image.references import image_key, image_keys

DIGEST = "sha256:ebf59a00ea9e6fcf8aca47cb023bcd44eef225636746fad4d157af09151c8541"


@pytest.mark.parametrize(
    ("reference", "key"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.7.9", "docker.io/library/nginx:1.7.9"),
        ("library/nginx", "docker.io/library/nginx:latest"),
        ("docker.io/nginx:1.7.9", "docker.io/library/nginx:1.7.9"),
        ("docker.io/library/nginx:1.7.9", "docker.io/library/nginx:1.7.9"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/library/nginx:1.7.9", "docker.io/library/nginx:1.7.9"),
        ("grafana/grafana:12.0.0", "docker.io/grafana/grafana:12.0.0"),
        ("docker.io/a/b/c:1", "docker.io/a/b/c:1"),
        ("quay.io/nginx", "quay.io/nginx:latest"),
        ("registry.k8s.io/coredns/coredns:v1.12.0", "registry.k8s.io/coredns/coredns:v1.12.0"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry.example:5000/team/app:2", "registry.example:5000/team/app:2"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("localhost/app:1", "localhost/app:1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("localhost", "docker.io/library/localhost:latest"),
        ("registry:5000", "docker.io/library/registry:5000"),
        ("REGISTRY/app:1", "REGISTRY/app:1"),
        ("quay.io/app:Release-1", "quay.io/app:Release-1"),
    ],
)
def test_registry_repository_and_tag_have_defaults(reference: str, key: str) -> None:
    """The first part is a registry if it has a dot, a colon or a capital, or is localhost."""
    assert image_key(reference) == key


@pytest.mark.parametrize(
    "reference",
    [
        f"nginx@{DIGEST}",
        f"nginx:1.7.9@{DIGEST}",
        f"docker.io/library/nginx:latest@{DIGEST}",
        f"mirror.example:5000/nginx@{DIGEST}",
        f"<none>@{DIGEST}",
        f"nginx:<none>@{DIGEST}",
    ],
)
def test_digest_names_the_content_wherever_it_came_from(reference: str) -> None:
    """Registry, repository and tag beside a digest do not count."""
    assert image_key(reference) == DIGEST


@pytest.mark.parametrize(
    "reference",
    ["", "<none>", "<none>:<none>", "<none>@<none>", "nginx:<none>", "nginx@<none>", "nginx@"],
)
def test_lost_and_empty_names_name_no_image(reference: str) -> None:
    """They match nothing, each other least of all."""
    assert image_key(reference) is None


def test_bare_digest_names_no_image() -> None:
    """A digest belongs to a name; kubelets report and pods use no other form."""
    assert image_key(f"@{DIGEST}") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nginx:1.7.9", "nginx:1.8.0"),
        ("nginx", "quay.io/nginx"),
        ("nginx", "bitnami/nginx"),
        ("nginx:1.7.9", f"nginx:1.7.9@{DIGEST}"),
        ("registry:5000/app", "registry:5001/app"),
        ("app:v1", "app:V1"),
    ],
)
def test_different_images_have_different_keys(one: str, other: str) -> None:
    """Tags, registries, ports and users tell images apart, and tags have capitals."""
    assert image_key(one) != image_key(other)


@given(
    st.from_regex(
        r"([a-z]{1,5}(\.[a-z]{1,3})?(:[0-9]{1,4})?/)?([a-z]{1,5}/)?[a-z]{1,5}(:[a-z0-9]{1,4})?",
        fullmatch=True,
    )
)
def test_key_is_a_reference_to_the_same_image(reference: str) -> None:
    """Normalising once more changes nothing."""
    key = image_key(reference)
    assert key is not None
    assert image_key(key) == key


def test_names_of_one_image_have_each_key_once() -> None:
    """Aliases collapse, in the order of the names."""
    names = (f"nginx@{DIGEST}", "nginx:1.7.9", "docker.io/library/nginx:1.7.9", "<none>:<none>")
    assert image_keys(names) == (DIGEST, "docker.io/library/nginx:1.7.9")
