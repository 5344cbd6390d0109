"""What is wrong with an extender's reply."""


class ExtenderError(Exception):
    """A call that kube-scheduler counts as failed."""


class MisleadingReplyError(ExtenderError):
    """A reply that kube-scheduler takes as it is, to the harm of its decision.

    It checks little: a score above 10 outweighs everything else, a node that was changed on the
    way misleads the plugins that run later. Tests should fail on these too.
    """
