"""Views of results in a Python session: a few lines, tables in a notebook, data frames, a page in the browser."""

import sys
import tempfile
import webbrowser
from abc import ABC, abstractmethod
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from zoosim.core.tables import Table

WIDTH = 80
MOST_ROWS = 12
"""Rows of a table that `repr` shows."""

HEIGHT = 800
"""Pixels of a page in a notebook."""


class TabularResult(ABC):
    """A result whose figures stand in tables."""

    @abstractmethod
    def _headline(self) -> str:
        """Say in a line what it is."""

    @abstractmethod
    def _tables(self) -> "list[Table]":
        """Return its figures as text, the main table first."""

    def to_polars(self) -> "pl.DataFrame":
        """Return the figures of the main table as a data frame."""
        import polars as pl

        table = self._tables()[0]
        heads = [" ".join(column.head.split()) for column in table.columns]
        unique = [head if heads.count(head) == 1 else f"{head} {place}" for place, head in enumerate(heads, 1)]
        return pl.DataFrame({head: list(column.cells) for head, column in zip(unique, table.columns, strict=True)})

    def to_pandas(self) -> Any:
        """Return `to_polars` as a data frame of pandas.

        Raises:
            ConfigError: pandas is not installed, which zoosim does not need.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ConfigError("to_pandas: pandas is not installed; run pip install pandas, or use to_polars") from None
        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

    def show(self) -> None:
        """Show the page about it: in a notebook below the cell, elsewhere in the browser; its address is printed."""
        page = self._page()
        if in_notebook():
            notebook: Any = import_module("IPython.display")
            frame = f'<iframe srcdoc="{escape(page)}" width="100%" height="{HEIGHT}"></iframe>'
            notebook.display(notebook.HTML(frame))
            return
        path = Path(tempfile.mkdtemp(prefix="zoosim-")) / "report.html"
        path.write_text(page, encoding="utf-8")
        print(f"Page: {path.as_uri()}")
        if sys.stdout.isatty():
            webbrowser.open(path.as_uri())

    def _page(self) -> str:
        """Return the page about it; by default its tables alone."""
        style = "body{font-family:sans-serif;margin:2em}table{border-spacing:1em .2em}"
        title = escape(self._headline())
        head = f'<meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        return f"<!doctype html><html><head>{head}</head><body>{self._repr_html_()}</body></html>"

    def _repr_html_(self) -> str:
        from zoosim.core.tables import table_html

        return f"<p>{escape(self._headline())}</p>{''.join(map(table_html, self._tables()))}"

    def __repr__(self) -> str:
        from zoosim.core.tables import fit_table

        lines = [self._headline()]
        tables = self._tables()
        if tables:
            table = tables[0]
            lines += fit_table(table.first(MOST_ROWS), WIDTH).lines
            if len(table.rows) > MOST_ROWS:
                lines.append(f"and {len(table.rows) - MOST_ROWS:,} more rows: to_polars() has all")
        return "\n".join(lines)


def in_notebook() -> bool:
    """Return whether the code runs in the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    session = shell.get_ipython() if shell is not None else None
    return session is not None and hasattr(session, "kernel")
