"""Pictures as inline SVG: widths in per cent of the page and heights in pixels, so that letters never shrink."""
