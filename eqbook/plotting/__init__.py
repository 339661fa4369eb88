"""One figure style, readable on a light and on a dark page, and figures that a reader moves.

`use_style()` sets the style and makes notebooks show figures as inline SVG whose text and axes take the colour of the
surrounding text, so that a page's dark mode reaches them. A raster copy is kept beside it for viewers that show no SVG.
`slider` puts several figures in one place, of which a reader sees one at a time.
"""

from eqbook.plotting.slider import Slider as Slider
from eqbook.plotting.slider import slider as slider
from eqbook.plotting.style import COLORS as COLORS
from eqbook.plotting.style import NEUTRAL as NEUTRAL
from eqbook.plotting.style import use_style as use_style
from eqbook.plotting.svg import to_svg as to_svg

__all__ = ["COLORS", "NEUTRAL", "Slider", "slider", "to_svg", "use_style"]
