"""Pages that keep themselves up to date while somebody looks: charts, tables, style, script and events."""
