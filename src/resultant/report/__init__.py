"""The report of an analysis: figures, tables, a summary in ten lines, and the page of them all."""
