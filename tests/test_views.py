"""A result says once what is to be seen of it; notebooks get that as HTML."""

from html.parser import HTMLParser

from vesalius.views import Cell, Table, html

NASTY = "<b>&\"'</td></table><script>alert(1)</script>"


class Read(HTMLParser):
    """What a browser would make of it: the tags, and the text of every cell."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


def test_every_text_is_escaped_wherever_it_stands():
    table = Table((NASTY,), [(NASTY,), (Cell(NASTY, NASTY, bold=True),)], title=NASTY)
    read = Read(html(NASTY, table))
    assert read.open == []
    assert read.cells == [NASTY, NASTY, NASTY + NASTY]
    assert "script" not in read.tags


def test_it_needs_no_script_no_other_file_and_no_colour_of_its_own():
    text = html("a line", Table(("a", "b"), [(1, 2)], right=(1,)))
    assert not {"script", "img", "link", "iframe"} & set(Read(text).tags)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "color: #" not in text
    assert "background: #" not in text


def test_numbers_are_aligned_on_the_right_and_spaces_are_kept():
    text = html(Table(("name", "count"), [("  part", "1,000")], right=(1,)))
    assert '<td class="right">1,000</td>' in text
    assert "<td>  part</td>" in text
    assert "white-space: pre" in text
