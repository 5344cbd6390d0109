"""Files written all or not at all."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def write_all(files: Mapping[Path, str]) -> None:
    """Write each content to its path; if one fails, leave everything as it was.

    Raises:
        OSError: a file could not be written.
    """
    before: dict[Path, bytes | None] = {}
    folders: list[Path] = []
    staged = {path: path.with_name(f".{path.name}.new") for path in files}
    try:
        for path, text in files.items():
            _make_folders(path.parent, folders)
            staged[path].write_text(text)
        for path, new in staged.items():
            content = path.read_bytes() if path.exists() else None
            new.replace(path)
            before[path] = content
    except BaseException:
        for path, content in before.items():
            path.unlink() if content is None else path.write_bytes(content)
        for new in staged.values():
            with suppress(OSError):
                new.unlink()
        for folder in reversed(folders):
            folder.rmdir()
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make `folder` and those above it that lack, and add them to `made`."""
    if not folder.exists():
        _make_folders(folder.parent, made)
        folder.mkdir()
        made.append(folder)
