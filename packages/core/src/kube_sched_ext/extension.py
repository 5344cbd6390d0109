"""What runs beside the verbs without the core knowing of it: a source of nodes, further paths.

Extensions are found by entry points in the group `kube_sched_ext.extensions`. Each that is
installed is started; its settings decide what it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import msgspec

from kube_sched_ext.calls import Call
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.health import Health
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.table import NodeTable
from kube_sched_ext.verbs import Verbs

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Host:
    """The process that an extension is part of."""

    settings: CoreSettings
    table: NodeTable
    verbs: Verbs
    instruments: Instruments
    health: Health


class Extension(Generic[SettingsT]):
    """Base of all extensions."""

    name: ClassVar[str]
    settings_type: ClassVar[type[msgspec.Struct]]

    def __init__(self, settings: SettingsT, host: Host) -> None:
        """Take part in `host`; nothing runs yet.

        Raises:
            ConfigurationError: what keeps the extension from doing what its settings ask for.
        """
        self.settings = settings
        self.host = host

    def calls(self) -> Sequence[Call]:
        """Return what is served beside the verbs."""
        return ()

    async def run(self) -> None:
        """Do what there is to do in the background, until cancelled.

        What it raises ends the process: whoever runs it starts it again, and sees why.
        """
