"""Parts of a page as HTML. Whatever is put into them is escaped unless it is markup already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

EMPTY = Markup("")
"""No markup at all: what a section without anything to say returns."""

Cell = str | Markup


def section(title: str, *parts: Markup, ident: str) -> Markup:
    """Return a section with a heading; nothing where no part has content."""
    content = joined(parts)
    if not content:
        return EMPTY
    return Markup('<section id="{}"><h2>{}</h2>\n{}</section>\n').format(ident, title, content)


def joined(parts: Iterable[Markup]) -> Markup:
    """Return parts one after another."""
    return Markup("").join(parts)


def prose(sentence: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    parts: list[Markup] = []
    for number, part in enumerate(sentence.split("`")):
        in_code = number % 2 == 1
        parts.append(Markup("<code>{}</code>").format(part) if in_code else escape(part))
    return joined(parts)


def paragraph(sentence: str, *, style: str = "") -> Markup:
    """Return a paragraph."""
    if style:
        return Markup('<p class="{}">{}</p>\n').format(style, prose(sentence))
    return Markup("<p>{}</p>\n").format(prose(sentence))


def subheading(text: str) -> Markup:
    """Return the heading of a part of a section."""
    return Markup("<h3>{}</h3>\n").format(text)


def bullets(sentences: Iterable[str]) -> Markup:
    """Return a list with a bullet for each sentence; nothing where there is none."""
    items = [Markup("<li>{}</li>\n").format(prose(sentence)) for sentence in sentences]
    return Markup("<ul>\n{}</ul>\n").format(joined(items)) if items else EMPTY


def table(
    rows: Iterable[Sequence[Cell]], *, heading: Sequence[str] = (), style: str = "facts"
) -> Markup:
    """Return a table whose rows start with their names; nothing where there is no row."""
    lines = [_row(cells) for cells in rows]
    if not lines:
        return EMPTY
    head = EMPTY
    if heading:
        cells = joined(Markup('<th scope="col">{}</th>').format(name) for name in heading)
        head = Markup("<thead><tr>{}</tr></thead>\n").format(cells)
    return Markup('<table class="{}">\n{}<tbody>\n{}</tbody></table>\n').format(
        style, head, joined(lines)
    )


def details(summary: str, *parts: Markup, is_open: bool = False) -> Markup:
    """Return parts that can be folded away; nothing where there are none."""
    content = joined(parts)
    if not content:
        return EMPTY
    opened = Markup(" open") if is_open else EMPTY
    return Markup("<details{}><summary>{}</summary>\n{}</details>\n").format(
        opened, summary, content
    )


def beside(picture: Markup, *parts: Markup) -> Markup:
    """Return a picture with what is said of it, side by side where there is room."""
    return Markup('<div class="beside">\n{}<div>{}</div>\n</div>\n').format(picture, joined(parts))


def box(title: str, *parts: Markup, style: str = "box") -> Markup:
    """Return parts in a frame with a heading."""
    return Markup('<div class="{}">{}{}</div>\n').format(style, subheading(title), joined(parts))


def _row(cells: Sequence[Cell]) -> Markup:
    name, *others = cells
    rest = joined(Markup("<td>{}</td>").format(_content(cell)) for cell in others)
    return Markup('<tr><th scope="row">{}</th>{}</tr>\n').format(_content(name), rest)


def _content(cell: Cell) -> Markup:
    return cell if isinstance(cell, Markup) else prose(cell)
