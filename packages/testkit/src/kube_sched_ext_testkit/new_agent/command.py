"""`kube-sched-ext new-agent`."""

import sys
from pathlib import Path
from typing import Final

import click

from kube_sched_ext_testkit.new_agent.errors import NewAgentError
from kube_sched_ext_testkit.new_agent.standalone import make_package

_MISUSED: Final = 2


@click.command("new-agent")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def new_agent(folder: Path) -> None:
    """Make DIR a package with an agent, called as DIR's last part, for you to change.

    It accepts every node and scores each 1, as foo does, from which it is made; it is tested, and
    found through its entry point once it is installed. Exit code 2: nothing has been written.
    """
    folder = folder.absolute()
    try:
        name = make_package(folder)
    except (NewAgentError, OSError) as error:
        click.echo(f"kube-sched-ext: new-agent: {error}", err=True)
        sys.exit(_MISUSED)
    click.echo(f"agent {name.text} is in {folder}; next:")
    click.echo(f"  pip install -e '{folder}[test]'")
    click.echo(f"  pytest {folder}")
    click.echo(f"  kube-sched-ext serve {name.text} --http-port 8080")
