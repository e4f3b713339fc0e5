"""The report as one HTML page that needs nothing else: its contents, its charts, its template."""
