"""Places each pod by what it makes of the whole cluster."""
