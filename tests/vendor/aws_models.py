"""Replies against the vendor's own service models (botocore's). watch(client) checks every reply that the client gets.
It fails on an element, attribute or member that the operation's output does not have, and on a missing required one."""
import json
import xml.etree.ElementTree as ET


class Unknown(AssertionError):
    pass


def local(tag):
    return tag.rsplit('}', 1)[-1]


def element_name(name, shape):
    return shape.serialization.get('name', name)


def known_list(shape, element, path, protocol):
    """Unflattened: the items are children of one element."""
    wanted = shape.member.serialization.get('name', 'item' if protocol == 'ec2' else 'member')
    for child in element:
        if local(child.tag) != wanted:
            raise Unknown('%s: <%s> is not an item of this list (<%s>)' % (path, local(child.tag), wanted))
        known_xml(shape.member, child, path + '[]', protocol)


def known_structure(shape, element, path, protocol):
    members = {element_name(n, m): m for n, m in shape.members.items()}
    for m in shape.members.values():
        if m.type_name == 'list' and m.serialization.get('flattened') and 'name' in m.member.serialization:
            members[m.member.serialization['name']] = m
    attributes = {element_name(n, m) for n, m in shape.members.items() if m.serialization.get('xmlAttribute')}
    for name in element.attrib:
        if 'xsi:' + local(name) not in attributes and local(name) not in attributes:
            raise Unknown('%s: attribute %s is not in the model' % (path, name))
    seen = set()
    for child in element:
        name = local(child.tag)
        if name not in members:
            raise Unknown('%s: <%s> is not in the model' % (path, name))
        member = members[name]
        seen.add(name)
        if member.type_name == 'list' and member.serialization.get('flattened'):
            known_xml(member.member, child, '%s.%s' % (path, name), protocol)
        else:
            known_xml(member, child, '%s.%s' % (path, name), protocol)
    for name in shape.required_members:
        if element_name(name, shape.members[name]) not in seen and 'location' not in shape.members[name].serialization:
            raise Unknown('%s: <%s> is required and missing' % (path, element_name(name, shape.members[name])))


def known_xml(shape, element, path, protocol):
    if shape.type_name == 'structure':
        known_structure(shape, element, path, protocol)
    elif shape.type_name == 'list':
        known_list(shape, element, path, protocol)
    elif len(element):
        raise Unknown('%s: a %s has elements inside' % (path, shape.type_name))


def known_json(shape, value, path):
    if shape.type_name == 'structure':
        for name in value:
            if name not in {element_name(n, m) for n, m in shape.members.items()}:
                raise Unknown('%s.%s is not in the model' % (path, name))
        for name, member in shape.members.items():
            at = element_name(name, member)
            if at in value:
                known_json(member, value[at], '%s.%s' % (path, at))
            elif name in shape.required_members:
                raise Unknown('%s.%s is required and missing' % (path, at))
    elif shape.type_name == 'list':
        for item in value:
            known_json(shape.member, item, path + '[]')
    elif shape.type_name == 'map':
        for item in value.values():
            known_json(shape.value, item, path + '{}')


def check(model, status, body):
    shape = model.output_shape
    protocol = model.service_model.metadata['protocol']
    if status >= 300 or shape is None or not body.strip():
        return False
    if protocol == 'json':
        known_json(shape, json.loads(body), model.name)
        return True
    payload = shape.serialization.get('payload')
    if payload and shape.members[payload].type_name != 'structure':
        return False  # an object's bytes
    root = ET.fromstring(body)
    if protocol == 'query':
        root = next((e for e in root if local(e.tag) == shape.serialization.get('resultWrapper')), root)
    elif protocol == 'ec2':
        for e in [e for e in root if local(e.tag) == 'requestId']:
            root.remove(e)
        if not shape.members:
            return False
        # Operations without a result answer <return>true</return>.
        for e in [e for e in root if local(e.tag) == 'return' and 'Return' not in shape.members]:
            root.remove(e)
    known_xml(shape.members[payload] if payload else shape, root, model.name, protocol)
    return True


COUNT = {}


def watch(client):
    def look(http_response, model, **_):
        if not model.has_streaming_output and check(model, http_response.status_code, http_response.content):
            COUNT[model.name] = COUNT.get(model.name, 0) + 1

    client.meta.events.register('after-call', look)
    return client
