"""kube-scheduler's configuration: made for agents, or of the Policy of an old scheduler.

Text is parsed into structs at the edge (`documents`, `decoding`); what a Policy becomes is pure
(`conversion`, with its tables in `mapping`); `rendering` and `legacy` print.
"""
