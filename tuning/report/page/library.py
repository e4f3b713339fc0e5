"""The JavaScript drawing the charts: Vega, Vega-Lite and Vega-Embed as one text."""

from __future__ import annotations

from functools import cache

EXPORTED = "window.vegaEmbed = vegaEmbed;"


@cache
def plotting_library() -> str:
    """The library, ready for a `<script>`; it takes some seconds to join it."""
    import vl_convert

    # Inside a script element "</script" and "<!--" would end it or change how it is read.
    return (
        str(vl_convert.javascript_bundle(EXPORTED))
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )
