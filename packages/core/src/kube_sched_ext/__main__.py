"""python -m kube_sched_ext: the command line."""

from kube_sched_ext.cli import main

main(prog_name="kube-sched-ext")
