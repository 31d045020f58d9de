"""The style sheet of the report's page: light, dark, phone and print. No scripts, no fonts from elsewhere."""

from __future__ import annotations

from dualshield.evaluation.report._plot_style import COLOURS, GRID, INK, MUTED, OTHER_COLOUR, PAGE

# Colours of plots, and the variables that stand for them on the page.
THEMED = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAGE: "--page",
    OTHER_COLOUR: "--other",
    **{colour: f"--{variant}" for variant, colour in COLOURS.items()},
}
DARK = {
    "--ink": "#e7e9ec",
    "--muted": "#9ba4ae",
    "--grid": "#2b3138",
    "--page": "#101317",
    "--other": "#dfa0c4",
    "--original": "#a3a7ae",
    "--smoothing": "#f0883e",
    "--hardening": "#35c598",
    "--both": "#5ab0ec",
}
_LIGHT_ONLY = (
    "--raised:#f7f8f9;--published:#faf6ec;--published-ink:#7a6320;--warn:#fff6e0;--warn-line:#d9a400;--best:#e8f2f9;"
)
_DARK_ONLY = (
    "--raised:#171b20;--published:#1d1a12;--published-ink:#c9b27a;--warn:#241d0c;--warn-line:#a37d12;--best:#15293a;"
)

_RULES = """
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,"Liberation Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums lining-nums}
a{color:var(--both);text-underline-offset:.18em}
.shell{max-width:78rem;margin:0 auto;padding:0 1.5rem;display:grid;grid-template-columns:11.5rem minmax(0,1fr);
column-gap:3.5rem}
header,footer{grid-column:1/-1}
header{padding:4.5rem 0 2.25rem;border-bottom:1px solid var(--grid)}
.kicker{margin:0 0 .6rem;color:var(--muted);font-size:.8rem;letter-spacing:.09em;text-transform:uppercase}
h1{margin:0;font-size:clamp(1.7rem,4vw,2.5rem);line-height:1.15;letter-spacing:-.022em;font-weight:650;
overflow-wrap:anywhere}
.meta{display:flex;flex-wrap:wrap;gap:.3rem 1.8rem;margin:1.1rem 0 0;color:var(--muted);font-size:.92rem}
.meta b{color:var(--ink);font-weight:550}
nav{position:sticky;top:0;align-self:start;padding:2.6rem 0;max-height:100vh;overflow:auto;font-size:.88rem}
nav ol{list-style:none;margin:0;padding:0}
nav a{display:block;padding:.28rem 0 .28rem .9rem;border-left:2px solid var(--grid);color:var(--muted);
text-decoration:none}
nav a:hover{color:var(--ink);border-color:var(--both)}
section{padding:2.6rem 0 1.4rem;scroll-margin-top:.5rem}
section+section{border-top:1px solid var(--grid)}
h2{margin:0 0 .5rem;font-size:1.45rem;line-height:1.25;letter-spacing:-.012em;font-weight:640}
h3{margin:2.2rem 0 .6rem;font-size:1.02rem;font-weight:620;overflow-wrap:anywhere}
p.lead{margin:0 0 1.5rem;max-width:46rem;color:var(--muted)}
.notes{margin:0 0 1.8rem;padding:.9rem 1.1rem .9rem 2.2rem;background:var(--warn);border-left:3px solid
var(--warn-line);border-radius:0 .4rem .4rem 0;font-size:.93rem}
.notes li+li{margin-top:.3rem}
.missing{padding:.9rem 1.1rem;border:1px dashed var(--muted);border-radius:.4rem;color:var(--muted)}
.from{margin:0 0 .5rem;color:var(--muted);font-size:.84rem}
.tiles{display:grid;grid-template-columns:repeat(3,1fr);margin:0 0 2.2rem;border:1px solid var(--grid);
border-radius:.6rem;overflow:hidden}
.tile{padding:1rem 1.25rem 1.05rem;box-shadow:0 0 0 .5px var(--grid)}
.tile dt{color:var(--muted);font-size:.82rem;line-height:1.35}
.tile dd{margin:.35rem 0 0;font-size:1.5rem;font-weight:620;letter-spacing:-.015em;white-space:nowrap}
.tile dd small{font-size:.95rem;font-weight:450;color:var(--muted)}
.scroll{margin:0 0 1.9rem;overflow-x:auto;-webkit-overflow-scrolling:touch}
.scroll:focus-visible{outline:2px solid var(--both);outline-offset:3px}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:.89rem;line-height:1.35}
caption{padding:0 0 .55rem;text-align:left;font-weight:600;font-size:.95rem}
caption small{font-weight:400;color:var(--muted)}
th,td{padding:.42rem .75rem;text-align:right;vertical-align:top;white-space:nowrap;border-bottom:1px solid var(--grid)}
thead th{color:var(--muted);font-weight:550;border-bottom:1px solid var(--muted);vertical-align:bottom}
thead tr.over th{border-bottom:1px solid var(--grid);text-align:center;font-size:.78rem;letter-spacing:.06em;
text-transform:uppercase;font-weight:500}
th:first-child{padding-left:0;text-align:left;position:sticky;left:0;background:var(--page);z-index:1}
tbody th{font-weight:450}
tr.group th{padding-top:1.15rem;font-weight:650}
tbody:first-of-type tr.group th{padding-top:.6rem}
td .interval{display:block;color:var(--muted);font-size:.76rem;line-height:1.3}
td.best .value{font-weight:680}
td.best{background:var(--best)}
.words{text-align:left}
td.heat .interval{display:inline;margin-right:.7rem}
td.absent{color:var(--muted)}
.published{background:var(--published);color:var(--published-ink);font-style:italic}
thead th.published{font-style:normal}
td.published+td.published{border-left:0}
td.heat{background:color-mix(in srgb,var(--smoothing) calc(var(--heat)*55%),transparent)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr));gap:1.6rem 2.2rem;
margin:.4rem 0 2rem}
figure{margin:0;min-width:0}
figure.wide{grid-column:1/-1;overflow-x:auto}
figure svg{display:block;width:100%;max-width:35rem;height:auto}
figure.wide svg{max-width:52rem;min-width:38rem}
svg *{stroke-linejoin:round;stroke-linecap:butt}
.exhibit{display:grid;grid-template-columns:repeat(4,1fr);gap:1.1rem .9rem;margin:0 0 1.5rem}
.exhibit img{display:block;width:100%;height:auto;border-radius:.3rem;background:var(--grid)}
figcaption{margin:.4rem 0 0;font-size:.8rem;line-height:1.4}
figcaption span{display:block;color:var(--muted)}
.prose{max-width:46rem}
.prose li+li{margin-top:.5rem}
.facts th,.facts td{text-align:left;white-space:normal;overflow-wrap:anywhere}
.facts th{width:38%;color:var(--muted)}
.facts td{padding-right:0}
.listing{max-height:22rem;overflow:auto;margin:0 0 1.8rem;padding-left:1.3rem;font-size:.86rem;overflow-wrap:anywhere}
footer{padding:2.2rem 0 4rem;border-top:1px solid var(--grid);color:var(--muted);font-size:.86rem}
@media (max-width:62rem){
.shell{display:block;padding:0 1.1rem}
header{padding:2.4rem 0 1.5rem;border:0}
nav{padding:0;margin:0 -1.1rem;background:var(--page);border-block:1px solid var(--grid);z-index:3;overflow-x:auto}
nav ol{display:flex;padding:0 .6rem}
nav a{padding:.7rem .55rem;border:0;white-space:nowrap}
section{padding:2.1rem 0 .8rem;scroll-margin-top:3.2rem}
.tiles,.exhibit{grid-template-columns:repeat(2,1fr)}
.tile{padding:.8rem .95rem}
th:first-child{white-space:normal;min-width:7.2rem}
th,td{padding-inline:.55rem}
}
@media (max-width:30rem){
table{font-size:.8rem}
th,td{padding-inline:.3rem}
th:first-child{min-width:5.4rem}
td .interval{font-size:.64rem}
td.heat .interval{display:block;margin:0}
}
@media print{
body{font-size:10pt}
.shell{display:block;max-width:none;padding:0}
header{padding:0 0 1rem}
nav{display:none}
section{padding:1.2rem 0 .4rem}
.scroll,figure.wide,.listing{overflow:visible;max-height:none}
figure.wide svg{min-width:0}
figure,tr,.tile{break-inside:avoid}
h2,h3,caption{break-after:avoid}
th,td{padding:.2rem .4rem}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
"""


def style_sheet() -> str:
    """Everything between the style tags."""
    light = "".join(f"{name}:{colour};" for colour, name in THEMED.items()) + _LIGHT_ONLY
    dark = "".join(f"{name}:{colour};" for name, colour in DARK.items()) + _DARK_ONLY
    root = f":root{{color-scheme:light dark;{light}}}"
    # Paper is white: only screens are dark.
    return f"{root}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"
