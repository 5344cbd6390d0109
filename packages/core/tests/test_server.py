"""Listening sockets."""

import errno
import socket

import pytest

from kube_sched_ext import server
from kube_sched_ext.errors import ConfigurationError


def test_all_interfaces_are_those_of_ipv6_and_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one socket for both, where there is IPv6."""
    asked: list[tuple[object, object]] = []

    def note(address: tuple[str, int], *, dualstack_ipv6: bool, **_: object) -> socket.socket:
        asked.append((address, dualstack_ipv6))
        return socket.socket()

    monkeypatch.setattr(socket, "create_server", note)
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: True)
    server.bind("", 80, "HTTP_PORT").close()
    assert asked == [(("::", 80), True)]


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_all_interfaces_are_those_of_ipv4(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A network namespace may have IPv6 switched off."""
    create = socket.create_server

    def refuse(address: tuple[str, int], *, family: int, **_: object) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "no IPv6")
        assert address == ("0.0.0.0", 0)  # noqa: S104
        return create(("127.0.0.1", 0))

    monkeypatch.setattr(socket, "create_server", refuse)
    with server.bind("", 0, "HTTP_PORT") as listener:
        assert listener.family == socket.AF_INET


def test_a_port_that_may_not_be_bound_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As below 1024 without the right to."""

    def refuse(*_: object, **__: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(ConfigurationError) as caught:
        server.bind("", 80, "HTTP_PORT")
    assert str(caught.value) == "HTTP_PORT: 80 on all interfaces cannot be bound: Permission denied"
