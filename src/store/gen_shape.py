"""The shape of a statement's rows as JSON: reads the `json:` header and writes a struct shape.

gen_sql.py calls it. The head comment there says what an item looks like."""
import re

ITEM = re.compile(r"\s*([a-z][a-z0-9_]*|(?=@))(\{|#[a-z]|@age|@|\$|%|\*|)")
BY_TYPE = {"int8": "I64", "int4": "I64", "float8": "F64", "bool": "BOOL", "jsonb": "JSONB"}
INTEGERS = ("int8", "int4")


class Bad(Exception):
    pass


class Step:
    def __init__(self, kind, col=0, key="", second="", letter=""):
        self.kind, self.col, self.key, self.second, self.letter = kind, col, key, second, letter
        self.skip = 0


class Reader:
    def __init__(self, text, cols):
        self.text, self.cols, self.at, self.col, self.steps = text, cols, 0, 0, []

    def expect(self, chars):
        m = re.compile(r"\s*(.?)").match(self.text, self.at)
        self.at = m.end()
        if m.group(1) not in chars:
            raise Bad("'%s' at '%s'" % (m.group(1), self.text[max(0, m.start() - 20):self.at]))
        return m.group(1)

    def items(self, ends):
        while True:
            self.item()
            if self.expect((",",) + ends) != ",":
                return

    def item(self):
        start = self.at
        if re.compile(r"\s*-").match(self.text, self.at):
            self.expect(("-",))
            self.column("-")
            self.col += 1
            return
        m = ITEM.match(self.text, self.at)
        if not m:
            raise Bad("no item at '%s'" % self.text[start:start + 20])
        self.at = m.end()
        if m.group(2) == "{":
            self.group(m.group(1))
        else:
            self.field(m.group(1), m.group(2))

    def group(self, name):
        opened = Step("OPEN", self.col, name)
        self.steps.append(opened)
        at = len(self.steps)
        self.items(("}",))
        self.steps.append(Step("CLOSE"))
        opened.skip = len(self.steps) - at

    def column(self, name):
        if self.col >= len(self.cols):
            raise Bad("no column for '%s'" % name)
        return self.cols[self.col]

    def field(self, name, mark):
        c = self.column(name)
        if mark in ("@", "@age", "$", "%") or mark.startswith("#"):
            if c.type not in INTEGERS:
                raise Bad("'%s%s' needs an integer, the column %s is %s" % (name, mark, c.name, c.type))
        if mark == "":
            step = Step(BY_TYPE.get(c.type, "TEXT"), self.col, name)
            if c.type == "bytea":
                raise Bad("'%s': bytes have no form in JSON" % name)
        elif mark == "*":
            if c.type != "text":
                raise Bad("'%s*' needs a text" % name)
            step = Step("JSON", self.col, name)
        elif mark.startswith("#"):
            step = Step("ID", self.col, name, letter=mark[1])
        elif mark == "%":
            step = Step("MILLI", self.col, name)
        elif mark == "$":
            step = Step("MONEY", self.col, name + "_micros", name + "_usd")
        else:
            step = Step("TIME", self.col, name + "_at" if name else "at")
            if mark == "@age":
                step.kind, step.second = "AGE", "age_s"
        self.steps.append(step)
        self.col += 1


def steps_read(text, cols):
    r = Reader(text, cols)
    r.items(("",))
    if r.col != len(cols):
        raise Bad("%d columns, %d items" % (len(cols), r.col))
    return r.steps


def c_text(name, steps):
    o = ["static const struct shape_step steps_%s[] = {" % name]
    for s in steps:
        parts = [".kind = SHAPE_" + s.kind, ".col = %d" % s.col]
        if s.kind != "CLOSE":
            parts.append(".key = " + c_lit(s.key))
        if s.second:
            parts.append(".second = " + c_lit(s.second))
        if s.letter:
            parts.append(".letter = '%s'" % s.letter)
        if s.skip:
            parts.append(".skip = %d" % s.skip)
        o.append("\t{ %s }," % ", ".join(parts))
    o += ["};", "const struct shape q_shape_%s = { .stmt = \"%s\", .steps = steps_%s, .n = %d };" % (
        name, name, name, len(steps))]
    return "\n".join(o)


def c_lit(word):
    """A struct str of the name with quotes and colon, as it stands in the reply."""
    return '{ "\\"%s\\":", %d }' % (word, len(word) + 3)
