"""The demo: agents asked what a real kube-scheduler asked, on a recorded cluster."""


class DemoError(Exception):
    """The agents, or the recordings, are not as they should be."""
