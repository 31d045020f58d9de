"""Generated screens and documents: text, chats, charts, forms and the like, which differ as real ones do."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from dualshield.images.canonical import CanonicalImage
from dualshield.images.space import CANONICAL_SIZE

Colour = tuple[int, int, int]
SYLLABLES = tuple(
    first + vowel + last for first in "bdfgklmnprstvw" for vowel in "aeiou" for last in ("", "", "n", "r", "st")
)


def documents(count: int, seed: int = 0) -> Iterator[CanonicalImage]:
    """Yield so many of them; the kinds take turns, and each depends on the seed and its number only."""
    size = (CANONICAL_SIZE, CANONICAL_SIZE)
    for index in range(count):
        kind = KINDS[index % len(KINDS)]
        sheet = _DRAWN[kind](Random(f"{seed} {index}"))
        samples = np.array(sheet.image.resize(size, Image.Resampling.BILINEAR))
        pixels = torch.from_numpy(samples).permute(2, 0, 1).contiguous().float() / 255
        yield CanonicalImage(pixels, f"document-{index:03} {kind}")


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


class _Sheet:
    """A canvas with its own colours and its own dice."""

    def __init__(self, dice: Random, width: int, height: int, dark: bool = False) -> None:
        self.dice, self.width, self.height, self.dark = dice, width, height, dark
        self.ground = self.tint(0.06, 0.18) if dark else self.tint(0.92, 1.0)
        self.ink = self.tint(0.75, 0.95) if dark else self.tint(0.0, 0.25)
        self.accent = self.vivid()
        self.image = Image.new("RGB", (width, height), self.ground)
        self.draw = ImageDraw.Draw(self.image)

    def tint(self, low: float, high: float) -> Colour:
        """Return a weak colour of this brightness."""
        return _rgb(self.dice.random(), self.dice.uniform(0, 0.08), self.dice.uniform(low, high))

    def vivid(self) -> Colour:
        return _rgb(self.dice.random(), self.dice.uniform(0.5, 0.9), self.dice.uniform(0.45, 0.9))

    def shade(self, share: float) -> Colour:
        """Return a colour this far from the ground towards the ink."""
        mixed = [round(g + share * (i - g)) for g, i in zip(self.ground, self.ink, strict=True)]
        return mixed[0], mixed[1], mixed[2]

    def word(self) -> str:
        return "".join(self.dice.choices(SYLLABLES, k=self.dice.choice((1, 1, 2, 2, 3, 4))))

    def words(self, most: int, least: int = 1) -> str:
        return " ".join(self.word() for _ in range(self.dice.randint(least, most))).capitalize()

    def number(self) -> str:
        return f"{self.dice.lognormvariate(4, 2):,.{self.dice.choice((0, 1, 2))}f}"

    def text(self, x: float, y: float, text: str, size: int, fill: Colour | None = None, anchor: str = "lt") -> None:
        self.draw.text((x, y), text, fill=fill or self.ink, font=_font(size), anchor=anchor)

    def wrapped(self, width: float, size: int, words: int) -> list[list[str]]:
        """Return pseudo-words broken into lines of at most this width, with the length of a word estimated."""
        lines: list[list[str]] = [[]]
        room = width / (0.52 * size)
        for _ in range(words):
            word = self.word()
            if lines[-1] and room < len(word):
                lines.append([])
                room = width / (0.52 * size)
            lines[-1].append(word)
            room -= len(word) + 0.6
        return lines

    def paragraph(self, x: float, y: float, width: float, size: int, words: int, justified: bool = False) -> float:
        """Write pseudo-words and return the height after the last line."""
        lines = self.wrapped(width, size, words)
        for line in lines:
            if justified and line is not lines[-1]:
                lengths = [_font(size).getlength(word) for word in line]
                gap, at = (width - sum(lengths)) / max(1, len(line) - 1), x
                for word, length in zip(line, lengths, strict=True):
                    self.text(at, y, word, size, anchor="ls")
                    at += length + gap
            else:
                self.text(x, y, " ".join(line), size, anchor="ls")
            y += 1.35 * size
        return y

    def picture(self, left: float, top: float, right: float, bottom: float) -> None:
        """Draw what stands for a photo: a few coloured hills."""
        self.draw.rectangle((left, top, right, bottom), fill=self.vivid())
        for _ in range(self.dice.randint(1, 4)):
            x, y = self.dice.uniform(left, right), self.dice.uniform(top, bottom)
            points = [(x, y), (self.dice.uniform(left, x), bottom), (self.dice.uniform(x, right), bottom)]
            self.draw.polygon(points, fill=self.vivid())


def _rgb(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue, saturation, value))
    return red, green, blue


def _page(dice: Random) -> _Sheet:
    """Columns of text, with or without a title, headings, a picture and a page number."""
    sheet = _Sheet(dice, 620, dice.choice((620, 800, 877)))
    size, margin, columns = dice.choice((11, 12, 14, 17, 21)), dice.randint(30, 90), dice.choice((1, 1, 2, 3))
    justified, top, end = dice.random() < 0.4, float(margin), sheet.height - margin * dice.choice((1, 1, 1, 4))
    if dice.random() < 0.6:
        big = dice.randint(20, 44)
        top = sheet.paragraph(margin, top + big, sheet.width - 2 * margin, big, dice.randint(2, 7)) + 10
    step = (sheet.width - 2 * margin + 20) / columns
    for column in range(columns):
        x, y = margin + column * step, top + size
        while y < end:
            if dice.random() < 0.15 and end - y > 180:
                high = dice.randint(70, 160)
                sheet.picture(x, y, x + step - 20, y + high)
                y += high + 2 * size
            if dice.random() < 0.3:
                sheet.text(x, y + size / 2, sheet.words(5 - columns), size + dice.choice((0, 3, 6)), anchor="ls")
                y += 2.2 * size
            room = int((end - y) / (1.35 * size) * (step - 20) / (3.4 * size))
            y = sheet.paragraph(x, y, step - 20, size, max(1, min(room, dice.randint(10, 80))), justified)
            y += dice.choice((0.3, 1)) * size
    sheet.text(sheet.width / 2, sheet.height - 18, str(dice.randint(1, 400)), 11, anchor="mm")
    return sheet


def _chat(dice: Random) -> _Sheet:
    """Bubbles left and right, on a phone or beside a list of people."""
    sheet = _Sheet(dice, dice.choice((380, 460, 800)), 720, dark=dice.random() < 0.45)
    left = 240 if sheet.width == 800 else 0
    size, head, y = dice.randint(14, 24), dice.randint(44, 80), 0.0
    theirs, mine = sheet.shade(0.13), sheet.accent
    for row in range(12 if left else 0):
        sheet.draw.ellipse((12, head + 50 * row + 5, 48, head + 50 * row + 41), fill=sheet.vivid())
        sheet.text(60, head + 50 * row + 16, sheet.words(2), 15)
    sheet.draw.rectangle((0, 0, sheet.width, head), fill=dice.choice((mine, sheet.shade(0.08))))
    sheet.draw.ellipse((left + 14, 8, left + head - 2, head - 8), fill=sheet.vivid())
    sheet.text(left + head + 10, head / 2, sheet.words(2), 20, anchor="lm")
    y = head + dice.uniform(8, 60)
    while y < sheet.height - 70:
        lines = sheet.wrapped((sheet.width - left) * dice.uniform(0.45, 0.7), size, dice.choice((1, 2, 4, 7, 12, 22)))
        wide = max(_font(size).getlength(" ".join(line)) for line in lines) + 24
        own, high = dice.random() < 0.5, 1.3 * size * len(lines) + 16
        x = sheet.width - wide - 12 if own else left + 12
        sheet.draw.rounded_rectangle((x, y, x + wide, y + high), dice.choice((8, 14)), fill=mine if own else theirs)
        for row, line in enumerate(lines):
            fill = (255, 255, 255) if own else sheet.ink
            sheet.text(x + 12, y + 8 + 1.3 * size * row, " ".join(line), size, fill, anchor="la")
        y += high + dice.choice((4, 8, 24))
    sheet.draw.rectangle((left, sheet.height - 54, sheet.width, sheet.height), fill=sheet.shade(0.06))
    sheet.draw.rounded_rectangle((left + 14, sheet.height - 44, sheet.width - 60, sheet.height - 10), 16, sheet.ground)
    return sheet


def _chart(dice: Random) -> _Sheet:
    """Bars, lines or a pie, with a title, axes, labels and a legend."""
    sheet = _Sheet(dice, 640, dice.choice((480, 560, 640)), dark=dice.random() < 0.2)
    left, top, right, low = dice.randint(50, 90), dice.randint(50, 90), 640 - dice.randint(20, 130), sheet.height - 60
    series, places = dice.randint(1, 4), dice.randint(4, 14)
    colours = [sheet.vivid() for _ in range(max(series, places))]
    sheet.text(dice.choice((left, 200)), 20, sheet.words(6, 2), dice.randint(18, 30))
    kind = dice.choice(("bars", "lines", "pie"))
    for item in range(series):
        sheet.draw.rectangle((right + 8, top + 24 * item, right + 20, top + 24 * item + 12), fill=colours[item])
        sheet.text(right + 26, top + 24 * item, sheet.word(), 12)
    if kind == "pie":
        parts, radius = dice.randint(3, 8), dice.uniform(0.3, 0.5) * (low - top)
        cuts = sorted(dice.uniform(0, 360) for _ in range(parts))
        x, y = (left + right) / 2, (top + low) / 2
        for item, (cut, after) in enumerate(zip(cuts, [*cuts[1:], cuts[0] + 360], strict=True)):
            box = (x - radius, y - radius, x + radius, y + radius)
            sheet.draw.pieslice(box, cut, after, fill=colours[item % len(colours)], outline=sheet.ground, width=2)
            middle = math.radians((cut + after) / 2)
            at = (x + 1.2 * radius * math.cos(middle), y + 1.15 * radius * math.sin(middle))
            sheet.text(*at, f"{(after - cut) / 3.6:.0f} %", 14, anchor="mm")
        return sheet
    for item in range(6):
        y = low - (low - top) * item / 5
        sheet.draw.line((left, y, right, y), fill=sheet.shade(0.15 if item else 1), width=1 if item else 2)
        sheet.text(left - 8, y, str(item * dice.choice((5, 20, 100))), 13, anchor="rm")
    step, trend = (right - left) / places, dice.uniform(-0.6, 0.6)
    for item in range(series):
        start = dice.uniform(0.2, 0.8)
        shares = [start + trend * (k / places - 0.5) + dice.gauss(0, 0.12) for k in range(places)]
        heights = [low - (low - top) * min(1, max(0.03, share)) for share in shares]
        if kind == "lines":
            line = [(left + (k + 0.5) * step, y) for k, y in enumerate(heights)]
            sheet.draw.line(line, fill=colours[item], width=dice.choice((2, 3, 5)))
        for k, y in enumerate(heights if kind == "bars" else ()):
            x, wide = left + (k + 0.12) * step, 0.76 * step / series
            sheet.draw.rectangle((x + item * wide, y, x + (item + 0.9) * wide, low), fill=colours[item])
    for k in range(places):
        sheet.text(left + (k + 0.5) * step, low + 8, sheet.word()[: int(step / 7)], 12, anchor="mt")
    return sheet


def _form(dice: Random) -> _Sheet:
    """Labels and boxes in one or two columns, some filled in, some to tick."""
    sheet = _Sheet(dice, 600, dice.choice((600, 780)))
    size, columns, gap, y = dice.randint(11, 18), dice.choice((1, 2)), dice.randint(12, 34), float(dice.randint(24, 60))
    sheet.text(40, y, sheet.words(5, 2), dice.randint(20, 36), dice.choice((sheet.ink, sheet.accent)))
    y += 60
    while y < sheet.height - 70:
        if dice.random() < 0.2:
            sheet.draw.rectangle((40, y, 560, y + size + 10), fill=dice.choice((sheet.accent, sheet.shade(0.2))))
            sheet.text(48, y + 5, sheet.words(4), size)
            y += size + 10 + gap
        ticks, high = dice.random() < 0.3, dice.choice((1, 1, 1, 3)) * (size + 12)
        for column in range(columns):
            x, end = 40 + column * 270, 560 if columns == 1 else 290 + column * 270
            sheet.text(x, y, sheet.words(3), size)
            if ticks:
                sheet.draw.rectangle((end - 20, y, end - 4, y + 16), outline=sheet.ink, width=2)
                if dice.random() < 0.5:
                    sheet.draw.line((end - 20, y, end - 4, y + 16), fill=sheet.accent, width=3)
                continue
            sheet.draw.rectangle((x, y + size + 5, end, y + size + 5 + high), outline=sheet.shade(0.5), width=1)
            if dice.random() < 0.5:
                sheet.text(x + 8, y + size + 11, sheet.words(3), size, (30, 60, 150))
        y += size + gap if ticks else size + high + gap
    sheet.draw.rounded_rectangle((40, sheet.height - 50, 180, sheet.height - 16), 6, fill=sheet.accent)
    sheet.text(110, sheet.height - 33, sheet.word(), 16, (255, 255, 255), anchor="mm")
    return sheet


def _slide(dice: Random) -> _Sheet:
    """A title and bullets, often beside a picture, on a light or a dark ground."""
    sheet = _Sheet(dice, dice.choice((680, 900)), 510, dark=dice.random() < 0.4)
    side, size, big = dice.choice((0, 0, 1, 2)), dice.randint(18, 34), dice.randint(34, 64)
    half = sheet.width * dice.uniform(0.4, 0.6)
    left, wide = (half + 30 if side == 1 else 50), (sheet.width - 90 if not side else half - 80)
    if dice.random() < 0.5:
        sheet.draw.rectangle((0, 0, sheet.width, big + 50), fill=sheet.accent)
    if side:
        sheet.picture(*((0, 0, half, 510) if side == 1 else (half + 10, big + 70, sheet.width - 30, 470)))
    sheet.text(left, 26, sheet.words(5 if not side else 2), big)
    y = big + 60.0 + dice.uniform(10, 60)
    while y < 440:
        sheet.draw.ellipse((left, y + 4, left + 10, y + 14), fill=sheet.accent)
        y = sheet.paragraph(left + 24, y + size * 0.7, wide - 24, size, dice.randint(2, 14)) + dice.uniform(0, 40)
    sheet.text(sheet.width - 20, 490, f"{sheet.word()} {dice.randint(2, 60)}", 14, sheet.shade(0.6), anchor="rs")
    return sheet


def _terminal(dice: Random) -> _Sheet:
    """Coloured lines on a dark ground, with words in columns of equal characters."""
    sheet = _Sheet(dice, dice.choice((600, 800)), dice.choice((450, 600)), dark=True)
    size, y = dice.choice((11, 13, 15, 18)), 10.0
    if dice.random() < 0.6:
        sheet.draw.rectangle((0, 0, sheet.width, 28), fill=sheet.shade(dice.uniform(0.2, 0.6)))
        for place, colour in enumerate(((237, 106, 94), (245, 191, 79), (97, 197, 84))):
            sheet.draw.ellipse((10 + 20 * place, 8, 22 + 20 * place, 20), fill=colour)
        y = 38
    colours = [sheet.ink, sheet.ink, *(_rgb(dice.random(), dice.uniform(0.2, 0.7), 0.85) for _ in range(4))]
    prompt, stop = f"{sheet.word()}@{sheet.word()}:~$", sheet.height * dice.choice((0.5, 0.97, 0.97, 0.97))
    while y < stop:
        column, line = 0, [sheet.word() for _ in range(dice.randint(1, 3))]
        fill, rows, tab = dice.choice(colours), dice.randint(0, 9), dice.choice((0, 12, 18))
        for text, colour in ((prompt, colours[2]), *((word, sheet.ink) for word in line)):
            sheet.text(10 + column * 0.6 * size, y, text, size, colour)
            column += len(text) + 1
        for row in range(1, rows + 1):
            words = [dice.choice((sheet.word(), sheet.number())) for _ in range(dice.randint(2, 7))]
            for place, word in enumerate(words if tab else [" ".join(words)]):
                sheet.text(10 + place * tab * 0.6 * size, y + row * 1.3 * size, word, size, fill)
        y += (rows + 1) * 1.3 * size
    return sheet


def _table(dice: Random) -> _Sheet:
    """Rows and columns of names and numbers, with a header; some are spreadsheets."""
    sheet = _Sheet(dice, 700, dice.choice((500, 700)), dark=dice.random() < 0.15)
    columns, high, top = dice.randint(3, 9), dice.randint(18, 44), dice.choice((0, 60, 110))
    size, zebra, ruled, head = round(high * 0.5), dice.random() < 0.5, dice.random() < 0.6, dice.random() < 0.7
    rows = dice.randint(min(8, (sheet.height - top) // high), (sheet.height - top) // high)
    edges = [0.0, *sorted(dice.uniform(0.12, 0.95) for _ in range(columns - 1)), 1.0]
    edges = [700 * (0.6 * edge + 0.4 * place / columns) for place, edge in enumerate(edges)]
    numeric = [dice.random() < 0.6 for _ in range(columns)]
    sheet.text(12, 18, sheet.words(6, 2) if top else "", 26)
    for row in range(rows):
        y = top + row * high
        band = sheet.accent if head and not row else sheet.shade(0.08) if zebra and row % 2 else sheet.ground
        sheet.draw.rectangle((0, y, 700, y + high), fill=band, outline=sheet.shade(0.3) if ruled else None)
        for left, right, number in zip(edges, edges[1:], numeric, strict=False):
            cell = sheet.number() if number and row else sheet.words(2)
            cell = cell[: max(1, int((right - left - 8) / (0.55 * size)))] if dice.random() < 0.93 else ""
            sheet.text(right - 5 if number else left + 5, y + high / 2, cell, size, anchor="rm" if number else "lm")
    for edge in edges if ruled else ():
        sheet.draw.line((edge, top, edge, top + rows * high), fill=sheet.shade(0.3))
    return sheet


def _receipt(dice: Random) -> _Sheet:
    """A narrow strip of paper on a table: a shop, items with prices, a total, bars."""
    sheet = _Sheet(dice, dice.choice((400, 520)), 700)
    wide, size, middle = dice.randint(260, 360), dice.randint(12, 19), sheet.width / 2 + dice.uniform(-15, 15)
    left, right, y = middle - wide / 2 + 14, middle + wide / 2 - 14, float(dice.randint(10, 50))
    sheet.draw.rectangle(
        (0, 0, sheet.width, 700), fill=_rgb(dice.random(), dice.random() * 0.5, dice.uniform(0.2, 0.8))
    )
    sheet.draw.rectangle((left - 14, y - 10, right + 14, dice.randint(620, 700)), fill=sheet.ground)
    for big in (dice.randint(20, 36), size, size):
        sheet.text(middle, y, sheet.words(2), big, anchor="mt")
        y += 1.4 * big
    for _ in range(dice.randint(1, 4)):
        sheet.text(middle, y + size, "- " * int(wide / 14), size, anchor="mm")
        y += 1.8 * size
        for _ in range(dice.randint(1, 9) if y < 480 else 1):
            sheet.text(left, y, sheet.words(2)[:18], size)
            sheet.text(right, y, f"{dice.lognormvariate(2, 1):.2f}", size, anchor="rt")
            y += 1.4 * size
    sheet.text(left, y + 8, sheet.word().upper(), size + 8)
    sheet.text(right, y + 8, f"{dice.lognormvariate(4, 1):.2f}", size + 8, anchor="rt")
    x = left + 20
    while x < right - 20 and y < 560:
        bar = dice.choice((1, 2, 4))
        sheet.draw.rectangle((x, y + 50, x + bar, y + dice.choice((50, 95))), fill=sheet.ink)
        x += bar + dice.choice((2, 3, 5))
    return sheet


def _drawing(dice: Random) -> _Sheet:
    """Lines on paper: boxes with arrows, the plan of a flat, or loose curves."""
    sheet = _Sheet(dice, 560, 560)
    kind, width = dice.choice(("boxes", "plan", "curves")), dice.choice((1, 2, 3, 5))
    if kind == "plan":
        rooms = [(30, 30, 530, 530)]
        for _ in range(dice.randint(4, 11)):
            left, top, right, low = rooms.pop(max(range(len(rooms)), key=lambda k: dice.random() * _area(rooms[k])))
            x, y = (round(a + (b - a) * dice.uniform(0.3, 0.7)) for a, b in ((left, right), (top, low)))
            across = right - left > low - top
            rooms += (
                [(left, top, x, low), (x, top, right, low)]
                if across
                else [(left, top, right, y), (left, y, right, low)]
            )
        for left, top, right, low in rooms:
            sheet.draw.rectangle((left, top, right, low), outline=sheet.ink, width=width + 2)
            sheet.text((left + right) / 2, (top + low) / 2, sheet.word(), 14, anchor="mm")
            sheet.draw.arc((left - 30, top - 30, left + 30, top + 30), 0, 90, fill=sheet.ink, width=width)
    elif kind == "boxes":
        places = [(dice.randint(80, 480), dice.randint(50, 510)) for _ in range(dice.randint(3, 10))]
        sheet.draw.line(places, fill=sheet.ink, width=width)
        for x, y in places:
            w, h = dice.randint(35, 75), dice.randint(18, 40)
            shape = dice.choice((sheet.draw.rectangle, sheet.draw.ellipse))
            shape((x - w, y - h, x + w, y + h), fill=sheet.ground, outline=sheet.ink, width=width)
            sheet.text(x, y, sheet.word(), dice.randint(12, 20), anchor="mm")
    for _ in range(dice.randint(2, 9) if kind == "curves" else 0):
        x, y, size, phase = dice.randint(60, 500), dice.randint(60, 500), dice.randint(30, 260), dice.uniform(0, 6)
        first, second, turn = dice.randint(1, 4), dice.randint(1, 5), dice.uniform(2, 7)
        angles = np.linspace(0, turn, 90)
        curve = np.stack([x + size * np.sin(first * angles + phase), y + size * np.cos(second * angles)], -1)
        sheet.draw.line(curve.ravel().tolist(), fill=sheet.ink, width=width)
    return sheet


def _area(box: tuple[int, int, int, int]) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _editor(dice: Random) -> _Sheet:
    """Indented coloured words behind line numbers, with tabs and a list of files."""
    sheet = _Sheet(dice, dice.choice((640, 800)), 560, dark=dice.random() < 0.6)
    size, left, y = dice.choice((11, 13, 15, 18)), dice.choice((0, 120, 180)), 34.0
    colours = [_rgb(dice.random(), 0.5 if sheet.dark else 0.9, 0.9 if sheet.dark else 0.6) for _ in range(5)]
    sheet.draw.rectangle((0, 0, left, 560), fill=sheet.shade(dice.uniform(0.05, 0.2)))
    for row in range(dice.randint(6, 26) if left else 0):
        sheet.text(10 + dice.choice((0, 12, 24)), 34 + 19 * row, f"{sheet.word()}.{dice.choice(('py', 'c', 'md'))}", 12)
    sheet.draw.rectangle((left, 0, sheet.width, 26), fill=sheet.shade(0.12))
    for tab in range(dice.randint(1, 4)):
        sheet.text(left + 12 + 110 * tab, 7, f"{sheet.word()}.py", 13)
    indent, number = 0, dice.randint(1, 900)
    while y < 560:
        sheet.text(left + 40, y, str(number), size, sheet.shade(0.4), anchor="rt")
        x = left + 54 + indent * 2.2 * size
        for _ in range(0 if dice.random() < 0.15 else dice.randint(1, 6)):
            word = sheet.word() + dice.choice(("", "", "(", ")", " =", ":", ","))
            sheet.text(x, y, word, size, dice.choice((sheet.ink, *colours)))
            x += (len(word) + 1) * 0.58 * size
        indent = max(0, min(5, indent + dice.choice((-2, -1, 0, 0, 0, 1, 1))))
        y, number = y + 1.4 * size, number + 1
    sheet.draw.rectangle((0, 540, sheet.width, 560), fill=sheet.accent)
    return sheet


_DRAWN: dict[str, Callable[[Random], _Sheet]] = {
    "page": _page,
    "chat": _chat,
    "chart": _chart,
    "form": _form,
    "slide": _slide,
    "terminal": _terminal,
    "table": _table,
    "receipt": _receipt,
    "drawing": _drawing,
    "editor": _editor,
}
KINDS = tuple(_DRAWN)
