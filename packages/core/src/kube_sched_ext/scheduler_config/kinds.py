"""What values may be, beyond their type, as `decoding` checks and tells it."""

from typing import Annotated, Final

import msgspec

from kube_sched_ext.scheduler_config.durations import EXPECTED

MAX_PLUGIN_WEIGHT: Final = 2**31 - 1
_NAME: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DOMAIN: Final = r"(?=[^/]{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/"
RESOURCE_PATTERN: Final = rf"^(?!requests\.)(?!.*kubernetes\.io/){_DOMAIN}{_NAME}\Z"
RESOURCE_ALLOWED: Final = "the name of an extended resource, such as example.com/gpu"
URL_PATTERN: Final = r"^https?://[^/\s?#]+[^\s?#]*\Z"
URL_ALLOWED: Final = "http:// or https://, a host, and a path where there is one"

Duration = Annotated[str, msgspec.Meta(extra={"kind": "duration", "allowed": EXPECTED})]
Base64 = Annotated[str, msgspec.Meta(extra={"kind": "base64", "allowed": "base64"})]
LabelKey = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^({_DOMAIN})?{_NAME}\Z",
        extra={"allowed": "a label key such as zone or example.com/zone"},
    ),
]
ResourceName = Annotated[
    str, msgspec.Meta(pattern=RESOURCE_PATTERN, extra={"allowed": RESOURCE_ALLOWED})
]
UrlPrefix = Annotated[str, msgspec.Meta(pattern=URL_PATTERN, extra={"allowed": URL_ALLOWED})]
PluginWeight = Annotated[int, msgspec.Meta(ge=1, le=MAX_PLUGIN_WEIGHT)]
ExtenderWeight = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Percentage = Annotated[int, msgspec.Meta(ge=0, le=100)]
