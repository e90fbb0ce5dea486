#!/usr/bin/env python3
"""Second opinion by the vendor's own OpenAPI document (openapi.json; README.md says where it is from): every golden request and
reply, every request that the provider sends in the live conformance suite, and every reply of cloudsim's Lambda front must
fit, with no unknown field and no missing one. argv: cloudsim's program, the conformance program. Exit 77: no jsonschema."""
import copy
import http.client
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

try:
    import jsonschema
except ImportError as e:
    print('no jsonschema (%s): skipped' % e)
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / 'cloudsim'))
from cloudsim_proc import Cloudsim  # noqa: E402

PROGRAM, CONFORM = sys.argv[1:3]
del sys.argv[1:3]
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICN+lJwsONkwrdsSnQsu1ydUkIuIg5oOC+Eslvmtt60T x'


def strict(o):
    """The document lets objects have more fields than it names; ours may not, nor may we read what it does not name."""
    if isinstance(o, dict):
        if 'properties' in o and isinstance(o['properties'], dict) and o.get('type') == 'object':
            o.setdefault('additionalProperties', False)
        for v in o.values():
            strict(v)
    elif isinstance(o, list):
        for v in o:
            strict(v)


SPEC = json.loads((HERE / 'openapi.json').read_text())
strict(SPEC['components']['schemas'])
strict(SPEC['paths'])


def route(path):
    """The document's path for a concrete one: the one with the fewest parameters."""
    for name in sorted(SPEC['paths'], key=lambda p: p.count('{')):
        if re.fullmatch(re.sub(r'\{[^}]*\}', '[^/]+', name), path):
            return SPEC['paths'][name]
    return None


def fits(schema, doc):
    """Complaints, as texts."""
    root = dict(schema, components=SPEC['components'])
    checker = jsonschema.Draft202012Validator(root, format_checker=jsonschema.FormatChecker())
    return ['%s: %s' % ('/'.join(str(x) for x in e.absolute_path), e.message[:300]) for e in checker.iter_errors(doc)]


def check_request(method, target, body):
    u = urllib.parse.urlsplit(target)
    op = (route(u.path) or {}).get(method.lower())
    if op is None:
        return ['no operation %s %s' % (method, u.path)]
    known = {p['name'] for p in op.get('parameters', []) if p['in'] == 'query'}
    wrong = ['unknown query parameter %s' % k for k in dict(urllib.parse.parse_qsl(u.query, keep_blank_values=True))
             if k not in known]
    if 'requestBody' not in op:
        return wrong + (['a body where none is'] if body else [])
    return wrong + fits(op['requestBody']['content']['application/json']['schema'], json.loads(body))


def check_reply(method, target, status, body):
    op = (route(urllib.parse.urlsplit(target).path) or {}).get(method.lower())
    if op is None:
        # An unknown path: the envelope of "not found" is all there is to it.
        return [] if status == 404 else ['no operation %s %s' % (method, target)]
    if str(status) not in op['responses']:
        return ['%s %s never answers %d' % (method, target, status)]
    return fits(op['responses'][str(status)]['content']['application/json']['schema'], json.loads(body))


# ---- the provider's requests, from the wire ------------------------------------------------------

# Stands in for cloudsim's program: the real one, and a relay before its Lambda port that writes down what clients send.
RELAY = r'''#!{python}
import asyncio, json, os, signal, sys
real = sys.argv[sys.argv.index('--dir') + 1]
hidden = real + '/relayed'
os.makedirs(hidden)
args = [hidden if a == real else a for a in sys.argv[1:]]

async def pump(reader, writer, log):
    try:
        while True:
            data = await reader.read(65536)
            if not data:
                break
            if log:
                log.write(data)
                log.flush()
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()

async def main():
    child = await asyncio.create_subprocess_exec({program!r}, *args)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, child.terminate)
    while not os.path.exists(hidden + '/cloudsim.json'):
        if child.returncode is not None:
            return child.returncode
        await asyncio.sleep(0.01)
    info = json.load(open(hidden + '/cloudsim.json'))
    count = 0

    async def relay(reader, writer):
        nonlocal count
        count += 1
        there, back = await asyncio.open_connection('127.0.0.1', info['port'])
        with open('%s/%d-%d' % ({record!r}, os.getpid(), count), 'wb') as log:
            await asyncio.gather(pump(reader, back, log), pump(there, writer, None))
            back.close()
            writer.close()

    server = await asyncio.start_server(relay, '127.0.0.1', 0)
    port = server.sockets[0].getsockname()[1]
    info['urls']['lambda'] = info['urls']['lambda'].replace(':%d' % info['port'], ':%d' % port)
    with open(real + '/new', 'w') as f:
        json.dump(info, f)
    os.rename(real + '/new', real + '/cloudsim.json')
    return await child.wait()

sys.exit(asyncio.run(main()))
'''


def requests_of(data):
    """(method, target, body) of each whole request in what one client sent."""
    f = io.BytesIO(data)
    while True:
        line = f.readline().decode('latin-1').split()
        if len(line) != 3:
            return
        headers = http.client.parse_headers(f)
        body = f.read(int(headers.get('Content-Length') or 0))
        if len(body) < int(headers.get('Content-Length') or 0):
            return
        yield line[0], line[1], body


class Golden(unittest.TestCase):
    def request(self, name):
        head, _, body = (HERE / name).read_text().partition('\n\n')
        method, url = head.split('\n')[0].split(' ')
        u = urllib.parse.urlsplit(url)
        return method, u.path + ('?' + u.query if u.query else ''), body.strip()

    def test_requests(self):
        for f in sorted(HERE.glob('*_request.txt')):
            self.assertEqual(check_request(*self.request(f.name)), [], f.name)

    def test_replies(self):
        for name, path in (('instance_types', 'instance-types'), ('instances', 'instances'), ('regions', 'regions')):
            wrong = check_reply('GET', '/api/v1/' + path, 200, (HERE / (name + '.json')).read_text())
            # A field and a status that nobody knows are there on purpose: readers must not mind.
            self.assertEqual([w for w in wrong if "'new_field' was unexpected" not in w and "'hibernating'" not in w], [],
                             name)

    def test_a_misspelt_field_fails(self):
        method, path, body = self.request('launch_request.txt')
        doc = json.loads(body)
        for key in doc:
            wrong = copy.deepcopy(doc)
            wrong[key + 'x'] = wrong.pop(key)
            self.assertNotEqual(check_request(method, path, json.dumps(wrong)), [], key)
        self.assertNotEqual(check_request('GET', '/api/v1/audit-events?strat=2026-01-01T00:00:00Z', ''), [])
        self.assertNotEqual(check_request('POST', path + 'x', body), [])
        reply = json.loads((HERE / 'instances.json').read_text())
        for key in ('id', 'region', 'tags'):
            wrong = copy.deepcopy(reply)
            wrong['data'][0][key + 'x'] = wrong['data'][0].pop(key)
            self.assertNotEqual(check_reply('GET', '/api/v1/instances', 200, json.dumps(wrong)), [], key)


class Provider(unittest.TestCase):
    def test_every_request_of_the_conformance_suite(self):
        with tempfile.TemporaryDirectory() as tmp:
            record = os.path.join(tmp, 'record')
            os.mkdir(record)
            relay = os.path.join(tmp, 'relay')
            with open(relay, 'w') as f:
                f.write(RELAY.replace('{python}', sys.executable).replace('{program!r}', repr(PROGRAM))
                        .replace('{record!r}', repr(record)))
            os.chmod(relay, 0o755)
            # A misspelt member fails the run, too; its name is printed first.
            code = subprocess.run([CONFORM, relay, 'lambda'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=240).returncode
            seen = set()
            for name in os.listdir(record):
                with open(os.path.join(record, name), 'rb') as f:
                    for method, target, body in requests_of(f.read()):
                        self.assertEqual(check_request(method, target, body), [], (method, target, body))
                        seen.add('%s %s' % (method, urllib.parse.urlsplit(target).path.replace('/api/v1', '')))
        self.assertEqual(code, 0, 'the conformance run itself: tests/run conformance tells more')
        for wanted in ('GET /instance-types', 'GET /regions', 'GET /instances', 'POST /instance-operations/launch',
                       'POST /instance-operations/terminate', 'GET /ssh-keys', 'GET /images',
                       'GET /firewall-rulesets/global', 'GET /file-systems', 'GET /audit-events'):
            self.assertIn(wanted, seen)


class Emulator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, '--seed', '31', '--boot-ms', '20', '--terminate-ms', '20', '--no-throttle')

    @classmethod
    def tearDownClass(cls):
        cls.sim.stop()

    def call(self, method, path, body=None, status=200, key=None, odd=False):
        """odd: the request is wrong on purpose."""
        if not odd:
            self.assertEqual(check_request(method, '/api/v1' + path, json.dumps(body) if body is not None else ''), [])
        got, reply = self.sim.cloud(method, path, body, key)
        self.assertEqual(got, status, (method, path, reply))
        self.assertEqual(check_reply(method, '/api/v1' + path, got, json.dumps(reply)), [], (method, path, reply))
        return reply

    def launch(self, status=200, odd=False, **more):
        body = {'region_name': 'us-east-1', 'instance_type_name': 'gpu_1x_a10', 'ssh_key_names': ['k']}
        return self.call('POST', '/instance-operations/launch', dict(body, **more), status, odd=odd)

    def test_reads_match_the_description(self):
        for path in ('/instance-types', '/regions', '/images', '/instances', '/ssh-keys', '/file-systems',
                     '/firewall-rulesets', '/firewall-rulesets/global', '/firewall-rules', '/audit-events',
                     '/audit-events?start=2026-01-01T00:00:00Z&resource_type=cloud.instance'):
            self.call('GET', path)
            self.call('GET', path, status=401, key='wrong')

    def test_a_life(self):
        key = self.call('POST', '/ssh-keys', {'name': 'k', 'public_key': KEY})['data']['id']
        self.call('POST', '/ssh-keys', {'name': 'k', 'public_key': KEY}, 400)
        self.call('POST', '/ssh-keys', {'name': 'made'})
        fs = self.call('POST', '/filesystems', {'name': 'shared', 'region': 'us-east-1'})['data']['id']
        self.call('POST', '/filesystems', {'name': 'shared', 'region': 'us-east-1'}, 400)
        rule = {'protocol': 'tcp', 'port_range': [22, 22], 'source_network': '0.0.0.0/0', 'description': ''}
        fw = self.call('POST', '/firewall-rulesets', {'name': 'n', 'region': 'us-east-1', 'rules': [rule]})['data']['id']
        i = self.launch(name='n', hostname='h', user_data='#!/bin/sh\n', tags=[{'key': 'brk-install', 'value': 'x'}],
                        image={'family': 'lambda-stack-24-04'}, file_system_names=['shared'],
                        firewall_rulesets=[{'id': fw}])['data']['instance_ids'][0]
        for path in ('/instances', '/instances/' + i, '/file-systems', '/firewall-rulesets', '/firewall-rulesets/' + fw):
            self.call('GET', path)
        self.sim.wait('running', instance=i)
        self.call('GET', '/instances/' + i)
        self.call('POST', '/instances/' + i, {'name': 'm'})
        self.call('POST', '/instance-operations/restart', {'instance_ids': [i]})
        self.sim.ctl('POST', '/unhealthy', {'instance': i})
        self.call('GET', '/instances/' + i)
        self.call('DELETE', '/filesystems/' + fs, status=400)
        self.call('DELETE', '/firewall-rulesets/' + fw, status=400)
        self.sim.ctl('POST', '/config', {'terminate_ms': 2000})  # time enough to be refused while it ends
        self.call('POST', '/instance-operations/terminate', {'instance_ids': [i]})
        self.sim.ctl('POST', '/config', {'terminate_ms': 20})
        self.call('GET', '/instances')
        self.call('POST', '/instance-operations/restart', {'instance_ids': [i]}, 409)
        self.sim.wait('terminated', instance=i)
        self.call('POST', '/instance-operations/terminate', {'instance_ids': [i]}, 404)
        self.call('GET', '/instances/' + i, status=404)
        self.call('GET', '/audit-events')
        self.call('PATCH', '/firewall-rulesets/' + fw, {'rules': []})
        self.call('DELETE', '/firewall-rulesets/' + fw)
        self.call('DELETE', '/filesystems/' + fs)
        self.call('DELETE', '/filesystems/' + fs, status=404)
        self.call('PUT', '/firewall-rules', {'data': [rule]})
        self.call('PATCH', '/firewall-rulesets/global', {'rules': [rule]})
        self.call('DELETE', '/ssh-keys/' + key)

    def test_refusals(self):
        self.call('POST', '/ssh-keys', {'name': 'k', 'public_key': KEY})
        for more in ({'region_name': 'mars-1'}, {'ssh_key_names': ['nobody']}, {'image': {'family': 'none'}},
                     {'ssh_key_names': ['k', 'l']}, {'file_system_names': ['none']}, {'firewall_rulesets': [{'id': 'x'}]}):
            self.launch(400, **more)
        self.launch(400, odd=True, name='x' * 65)
        self.launch(400, odd=True, region='us-east-1')
        self.sim.ctl('POST', '/stock', {'pool': 'lambda/*/*/gpu_1x_a10', 'count': 0})
        self.launch(400)
        self.sim.ctl('POST', '/stock', {'pool': 'lambda/*/*/gpu_1x_a10', 'count': None})
        self.sim.ctl('POST', '/fault', {'kind': 'status', 'status': 400, 'code': 'global/quota-exceeded', 'message': 'm',
                                         'match': {'service': 'lambda', 'action': 'POST /instance-operations/launch'}})
        self.launch(400)
        self.call('POST', '/instance-operations/launch', {}, 400, odd=True)
        self.call('GET', '/nothing', status=404, odd=True)


if __name__ == '__main__':
    unittest.main()
