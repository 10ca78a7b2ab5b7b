"""Checking all pages of an LMDB file before the C library sees them."""

from __future__ import annotations

from storage.lmdb_pages import View


def check_pages(view: View) -> None:
    """Raises IntegrityError naming the first page that is not as LMDB writes it."""
