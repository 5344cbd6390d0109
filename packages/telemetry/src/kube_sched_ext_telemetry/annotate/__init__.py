"""The statistics writer: what is measured and requested of nodes, as annotations on them."""
