"""The report as one self-contained HTML page: its contents, its charts, its template."""
