"""Data for specs: files as arrays, encoded, in rows and batches; the same for `dslc train` and for modules."""

from __future__ import annotations

from dslc.data.images import read_images
from dslc.data.rows import batches, permutation
from dslc.data.table import Encoding, Table, read_table

__all__ = ["Encoding", "Table", "batches", "permutation", "read_images", "read_table"]
