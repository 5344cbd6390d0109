"""How pages are read, and that what is wrong on one is found."""

import os
from pathlib import Path

import pytest
from documentation_pages import PAGES, ROOT, blocks, run_block

KINDS = {"sh", "text", "python", "yaml", "json", "toml", "promql", "markdown"}

PAGE = """\
# A page

    formula = 1

Then

    pip install something

<!-- not run: needs luck -->

    LUCK=yes kubectl get pods

Type

```sh
echo one; echo two  three
```

```text
... three
```

`a/model.py`:

````markdown
```sh
not a command of this page
```
````

    $ no command: it begins with no program
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("documentation_pages.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


def test_commands_are_found_and_nothing_else_is(page: Path) -> None:
    """Indented or marked, excepted or not, with what they print."""
    found = [(it.text, it.not_run, it.output) for it in blocks(page) if it.kind == "sh"]
    assert found == [
        ("pip install something", "", ""),
        ("LUCK=yes kubectl get pods", "needs luck", ""),
        ("echo one; echo two  three", "", "... three"),
    ]


def test_files_are_found(page: Path) -> None:
    """By the path before them."""
    [file] = [it for it in blocks(page) if it.file]
    assert (file.file, file.text) == ("a/model.py", "```sh\nnot a command of this page\n```")


@pytest.mark.parametrize(
    ("text", "output", "words"),
    [
        ("false\ntrue", "", "exit code 1 of page.md"),
        ("false | true", "", "exit code 1"),
        ("echo one", "two", "no 'two' from page.md"),
        ("echo one; echo two", "two\none", "no 'one' from page.md"),
    ],
)
def test_what_does_not_do_as_the_page_says_fails(
    page: Path, tmp_path: Path, text: str, output: str, words: str
) -> None:
    """With the place, the commands and what they printed."""
    page.write_text(f"```sh\n{text}\n```\n\n```text\n{output}\n```\n")
    [block] = blocks(page)
    with pytest.raises(AssertionError, match=words):
        run_block(block, tmp_path, os.environ)


def test_what_does_so_passes(page: Path, tmp_path: Path) -> None:
    """Lines between those that the page shows may be left out."""
    [*_, block] = [it for it in blocks(page) if it.kind == "sh"]
    run_block(block, tmp_path, os.environ)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page: Path) -> None:
    """In a way that the tests here know: commands are sh."""
    assert [it.place for it in blocks(page) if it.kind not in KINDS] == []
