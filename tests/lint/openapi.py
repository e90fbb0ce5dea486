#!/usr/bin/env python3
"""Each schema of the API and each of its properties has a description in plain English.

A description ends with a full stop, and no sentence has a forbidden opening or more words than the limit of
english.py. The description of a number names the unit of its name: `_micros` is micro-dollars. The description
of a value that may be null says when it is."""
import json
import re
import sys

import english
import prose
import tree

# The end of a name, and the unit that the description must name.
UNITS = (('_micros', 'micro-dollars'), ('_usd', 'US dollars'), ('_us', 'microseconds'), ('_ms', 'milliseconds'),
         ('_gb_s', 'GB per second'), ('_s', 'seconds'), ('_mib', 'MiB'), ('_gib', 'GiB'), ('_mw', 'milliwatts'),
         ('_pm', 'per mille'), ('_pct', 'percent'), ('bytes', 'bytes'), ('_hours', 'hours'), ('_h', 'hour'))


def is_null_allowed(schema):
    kinds = schema.get('type', '')
    return 'null' in kinds if isinstance(kinds, list) else any(s.get('type') == 'null' for s in schema.get('anyOf', []))


def is_number(schema):
    kinds = schema.get('type', '')
    return bool({'integer', 'number'} & set(kinds if isinstance(kinds, list) else [kinds]))


def faults(name, schema):
    """Yields the faults of one description. name: of the property; empty for a schema."""
    text = schema.get('description', '')
    if not text:
        yield 'has no description'
        return
    if not text.endswith('.'):
        yield 'its description does not end with a full stop'
    for words in prose.sentences(text):
        if english.is_forbidden(words):
            yield f'its description begins a sentence with {words[0]}'
        if len(words) > english.LONG:
            yield f'its description has a sentence of {len(words)} words, at most {english.LONG}'
    unit = next((u for end, u in UNITS if name.endswith(end)), None) if is_number(schema) else None
    if unit and unit.lower() not in text.lower():
        yield f"its description lacks the unit '{unit}'"
    if name and is_null_allowed(schema) and not re.search(r'\bnull\b', text, re.I):
        yield 'its description does not say when it is null'


def check_schema(where, schema, report):
    """Checks the properties of a schema, and those of its parts."""
    for name, value in schema.get('properties', {}).items():
        for fault in faults(name, value):
            report.fail(f'{where}.{name}', fault)
        check_schema(f'{where}.{name}', value, report)
    for part in [schema.get('items')] + schema.get('anyOf', []):
        if part:
            check_schema(where, part, report)


def check(root, report):
    for path in tree.files(root):
        if not path.endswith('schemas.json') or not path.startswith('src/'):
            continue
        try:
            schemas = json.loads(tree.read(root, path))
        except ValueError as e:
            report.fail(path, f'is no JSON: {e}')
            continue
        for name, schema in schemas.items():
            for fault in faults('', schema):
                report.fail(f'{path}: {name}', fault)
            check_schema(f'{path}: {name}', schema, report)


def _tree(properties, description='One job.'):
    schema = {'type': 'object', 'properties': properties}
    if description:
        schema['description'] = description
    return {'src/api/a/schemas.json': json.dumps({'Job': schema})}


def _one(name, description, kind='string'):
    return _tree({name: {'type': kind, 'description': description}})


CASES = [
    ('described', _tree({'id': {'type': 'string', 'description': 'Id of the job.'}}), [], []),
    ('a schema without', _tree({}, ''), ['Job: has no description'], []),
    ('a property without', _tree({'id': {'type': 'string'}}), ['Job.id: has no description'], []),
    ('a reference without', _tree({'pool': {'$ref': '#/components/schemas/Pool'}}), ['Job.pool: has no'], []),
    ('a property of a list', _tree({'l': {'type': 'array', 'description': 'A list.', 'items': {
        'type': 'object', 'properties': {'id': {'type': 'string'}}}}}), ['Job.l.id: has no'], []),
    ('a property of an alternative', _tree({'q': {'description': 'A place; null if none.', 'anyOf': [
        {'type': 'object', 'properties': {'id': {'type': 'string'}}}, {'type': 'null'}]}}), ['Job.q.id: has no'], []),
    ('a property named like a keyword', _tree({'properties': {'type': 'string', 'description': 'A list.'}}), [], []),
    ('no full stop', _one('id', 'Id of the job'), ['full stop'], []),
    ('a forbidden opening', _one('owner', 'Who submitted it.'), ['with Who'], []),
    ('a long sentence', _one('id', 'Id ' + 'of it ' * 13 + 'all.'), ['28 words'], []),
    ('no unit', _one('cost_micros', 'Cost of the job.', 'integer'), ["unit 'micro-dollars'"], []),
    ('a unit', _one('age_s', 'Seconds since then.', 'integer'), [], []),
    ('a word that ends like a unit', _one('class_s', 'Classes of the job.', 'string'), [], []),
    ('null is not explained', _one('node', 'Id of the node.', ['string', 'null']), ['when it is null'], []),
    ('null is explained', _one('node', 'Id of the node; null before a start.', ['string', 'null']), [], []),
    ('no JSON', {'src/api/a/schemas.json': '{'}, ['is no JSON'], []),
    ('another tree', {'tests/schemas.json': '{'}, [], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
