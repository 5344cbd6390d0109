"""What kube-scheduler refuses of extenders taken together."""

from collections.abc import Iterator, Sequence

from kube_sched_ext.scheduler_config.scheduler_configuration import Extender, TlsConfig


def extender_problems(extenders: Sequence[Extender]) -> list[str]:
    """Return what is wrong with `extenders`, by path."""
    problems = []
    binder = -1
    managed: dict[str, int] = {}
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and not extender.weight:
            problems.append(f"{path}.weight: is 0; with a prioritizeVerb it must be at least 1")
        if extender.bind_verb:
            if binder >= 0:
                problems.append(
                    f"{path}.bindVerb: {extender.bind_verb!r} is a second one beside "
                    f"extenders[{binder}]; only one extender may bind"
                )
            binder = index
        for place, resource in enumerate(extender.managed_resources):
            if resource.name in managed:
                problems.append(
                    f"{path}.managedResources[{place}].name: {resource.name!r} is managed by "
                    f"extenders[{managed[resource.name]}] already; one extender only may manage it"
                )
            managed.setdefault(resource.name, index)
        if extender.tls_config is not None:
            problems += [
                f"{path}.tlsConfig: {problem}" for problem in _tls_problems(extender.tls_config)
            ]
    return problems


def _tls_problems(tls: TlsConfig) -> Iterator[str]:
    if tls.insecure and (tls.ca_file or tls.ca_data):
        yield "has a CA and is insecure; it must be one of the two"
    if bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
        yield "has a client certificate or its key; it must be both or neither"
