"""Compares JSON documents with the vendor's model classes. Finds members that a model does not have, members of another
type, and required members that the document lacks."""
import re
import sys

SCALARS = {'str': str, 'int': int, 'bool': bool, 'iso-8601': str, 'duration': str}


def lookup(cls, name):
    return getattr(sys.modules[cls.__module__], name, None)


def expand(attribute_map):
    """The nested form of "properties.x" keys: {member: (type, required) or {...}}."""
    out = {}
    for m in attribute_map:
        parts = re.split(r'(?<!\\)\.', m[0])
        at = out
        for p in parts[:-1]:
            at = at.setdefault(p, {})
        at[parts[-1].replace('\\.', '.')] = m[1:]
    return out


def members(cls):
    rules = getattr(cls, '_validation', {})
    return expand([(m['key'], m['type'], rules.get(a, {}).get('required', False)) for a, m in cls._attribute_map.items()])


def check_value(cls, kind, value, path, found):
    if value is None or kind == 'object':
        return
    if kind.startswith('['):
        if not isinstance(value, list):
            found.append('%s: no list' % path)
            return
        for k, v in enumerate(value):
            check_value(cls, kind[1:-1], v, '%s[%d]' % (path, k), found)
    elif kind.startswith('{'):
        if not isinstance(value, dict):
            found.append('%s: no map' % path)
            return
        for k, v in value.items():
            check_value(cls, kind[1:-1], v, '%s.%s' % (path, k), found)
    elif kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (kind == 'int' and isinstance(value, bool)):
            found.append('%s: %r is no %s' % (path, value, kind))
    elif kind == 'float':
        if not isinstance(value, (int, float)):
            found.append('%s: %r is no number' % (path, value))
    else:
        model = lookup(cls, kind)
        if model is not None and hasattr(model, '_attribute_map'):
            check_object(model, members(model), value, path, found)
        elif not isinstance(value, str):
            found.append('%s: %r is no %s' % (path, value, kind))


def check_object(cls, shape, doc, path, found):
    if not isinstance(doc, dict):
        found.append('%s: no object' % path)
        return
    for name, value in doc.items():
        inner = shape.get(name)
        if inner is None:
            found.append('%s.%s: not a member of %s' % (path, name, cls.__name__))
        elif isinstance(inner, dict):
            check_object(cls, inner, value, '%s.%s' % (path, name), found)
        else:
            check_value(cls, inner[0], value, '%s.%s' % (path, name), found)
    for name, inner in shape.items():
        if isinstance(inner, tuple) and inner[1] and doc.get(name) is None:
            found.append('%s.%s: required by %s and absent' % (path, name, cls.__name__))


def complaints(cls, doc):
    """Returns the errors of doc as a cls; [] = none."""
    found = []
    check_object(cls, members(cls), doc, cls.__name__, found)
    return found
