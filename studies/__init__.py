"""Studies: questions that a comparison of policies does not answer, one folder each; `python -m studies` lists them.

Each folder has `measure(*, progress, **options)`, which returns rows, frozen records of plain data, and
`build_page(rows)`, which makes a `zoosim.report.Page` of them: a verdict, tables, drawings, terms.
"""
