"""Reports as self-contained HTML pages, and their figures: of runs, worlds, evaluations and studies."""
