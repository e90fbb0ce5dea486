#!/usr/bin/env python3
"""cloudsim's Google Cloud by itself, without Google's libraries: control API, faults, limits, metadata of a running
program. argv[1] is the program."""
import base64
import json
import os
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import uuid

import case
from support.wait import until
from world import exchange as http

ZONE = 'us-central1-a'
IMAGE = 'projects/debian-cloud/global/images/family/debian-12'


def b64url(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b'=')


class Base(case.Base):
    options = ('--seed', '31', '--boot-ms', '40', '--terminate-ms', '40')

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = cls.sim.info['urls']['gcp']
        cls.gcp = cls.sim.info['credentials']['gcp']
        cls.base = cls.url + '/compute/v1/projects/' + cls.gcp['project']
        cls.token = cls.sim.ctl('POST', '/gcp/credentials', {'action': 'token'})['access_token']

    def call(self, method, path, body=None, token=None):
        status, headers, text = http(method, self.base + path, None if body is None else json.dumps(body).encode(),
                                     {'Authorization': 'Bearer ' + (token or self.token),
                                      'Content-Type': 'application/json'})
        return status, json.loads(text) if headers.get('Content-Type', '').startswith('application/json') else text

    def body(self, name, type='g2-standard-4', zone=ZONE, script=None, **more):
        b = {'name': name, 'machineType': 'zones/%s/machineTypes/%s' % (zone, type), 'labels': {'broker': 'x'},
             'scheduling': {'provisioningModel': 'SPOT', 'automaticRestart': False, 'onHostMaintenance': 'TERMINATE',
                            'instanceTerminationAction': 'DELETE'},
             'disks': [{'boot': True, 'autoDelete': True, 'initializeParams': {'sourceImage': IMAGE, 'diskSizeGb': '50'}}],
             'networkInterfaces': [{'network': 'global/networks/default'}],
             'serviceAccounts': [{'email': 'default', 'scopes': ['https://www.googleapis.com/auth/cloud-platform']}]}
        if script:
            b['metadata'] = {'items': [{'key': 'startup-script', 'value': script}]}
        b.update(more)
        return b

    def insert(self, name, zone=ZONE, rid=None, **kw):
        return self.call('POST', '/zones/%s/instances%s' % (zone, '?requestId=' + rid if rid else ''),
                         self.body(name, zone=zone, **kw))

    def wait_op(self, op, zone=ZONE):
        status, op = self.call('POST', '/zones/%s/operations/%s/wait' % (zone, op['name']))
        self.assertEqual((status, op['status']), (200, 'DONE'))
        return op

    def running(self, name, **kw):
        status, op = self.insert(name, **kw)
        self.assertEqual(status, 200, op)
        self.sim.wait('running', token=name)
        return [i for i in self.sim.ctl('GET', '/state?provider=gcp')['instances'] if i['name'] == name][0]['id']


class Control(Base):
    def test_the_market_is_loaded_and_obeys(self):
        p = self.sim.ctl('GET', '/pools?pool=gcp/us-central1/us-central1-a/a2-highgpu-1g')['pools'][0]
        self.assertEqual((p['spot_micros'], p['on_demand_micros']), (1928020, 3673385))
        a4 = self.sim.ctl('GET', '/pools?pool=gcp/us-central1/us-central1-ai1a/a4-highgpu-8g')['pools'][0]
        self.assertEqual((a4['on_demand_micros'], a4['spot_micros']), (None, 34236800))

    def test_a_frozen_feed_tells_what_was(self):
        pool = 'gcp/us-central1/us-central1-b/g2-standard-4'

        def told():
            prices, page = {}, ''
            while page is not None:
                status, _, text = http('GET', '%s/v1/services/6F81-5844-456A/skus?pageToken=%s' % (self.url, page), None,
                                       {'Authorization': 'Bearer ' + self.token})
                self.assertEqual(status, 200, text)
                doc = json.loads(text)
                for k in doc['skus']:
                    rate = k['pricingInfo'][0]['pricingExpression']['tieredRates'][-1]['unitPrice']
                    prices[k['skuId']] = int(rate.get('units', 0)) * 10 ** 9 + rate.get('nanos', 0)
                page = doc.get('nextPageToken') or None
            return prices

        def set_price(usd):
            self.sim.ctl('POST', '/price', {'pool': pool + '/spot', 'usd': usd})

        set_price(0.31)
        before = told()
        self.sim.ctl('POST', '/feed', {'cloud': 'gcp', 'frozen': True})
        set_price(0.52)
        self.assertEqual(told(), before)
        self.assertEqual(self.sim.ctl('GET', '/pools?pool=' + pool)['pools'][0]['spot_micros'], 520000)
        self.sim.ctl('POST', '/feed', {'cloud': 'gcp', 'frozen': False})
        self.assertEqual([n - before[k] for k, n in told().items() if n != before[k]], [210000000])
        self.sim.ctl('POST', '/price', {'pool': pool + '/spot', 'usd': None})

    def test_stock_bounds_what_runs_and_launches_are_recorded(self):
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-b/g2-standard-8/spot', 'count': 1})
        self.wait_op(self.insert('stock-1', zone='us-central1-b', type='g2-standard-8')[1], 'us-central1-b')
        op = self.wait_op(self.insert('stock-2', zone='us-central1-b', type='g2-standard-8')[1], 'us-central1-b')
        self.assertEqual(op['httpErrorStatusCode'], 503)
        codes = {x['token']: x['code'] for x in self.sim.ctl('GET', '/state')['launches']}
        self.assertEqual(codes['stock-2'], 'ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS')
        self.assertIsNone(codes['stock-1'])

    def test_a_vm_is_billed_while_it_runs_at_the_price_in_force(self):
        i = self.running('bill-1')
        self.call('DELETE', '/zones/%s/instances/bill-1' % ZONE)
        self.sim.wait('terminated', instance=i)
        line = [x for x in self.sim.ctl('GET', '/books')['instances'] if x['instance'] == i][0]
        self.assertEqual((line['provider'], line['segments'][0]['usd_micros_per_hour']), ('gcp', 397336))
        self.assertGreater(line['to_us'], line['from_us'])

    def test_a_bad_control_request_says_what_is_wrong(self):
        for path, body in (('/gcp/config', {'x': 1}), ('/gcp/quota', {'metric': 'CPUS'}), ('/gcp/nothing', {}),
                           ('/gcp/credentials', {'action': 'x'}), ('/quota', {'provider': 'nobody', 'limit': 1})):
            self.assertIn('error', self.sim.ctl('POST', path, body, ok=False), path)

    def test_a_host_that_fails_leaves_an_operation(self):
        i = self.running('host-1')
        self.sim.ctl('POST', '/kill', {'instance': i})
        self.sim.wait('terminated', instance=i)
        _, ops = self.call('GET', '/zones/%s/operations?filter=%s' % (ZONE, urllib.parse.quote(
            'operationType="compute.instances.hostError"')))
        self.assertEqual([o['targetId'] for o in ops['items']], [i])

    def test_a_preemption_before_the_vm_runs_fails_its_insert(self):
        self.sim.ctl('POST', '/config', {'boot_ms': 3000})
        try:
            _, op = self.insert('early-1')
            i = [x for x in self.sim.ctl('GET', '/state')['instances'] if x['name'] == 'early-1'][0]['id']
            self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 0})
            op = self.wait_op(op)
            self.assertEqual(op['error']['errors'][0]['code'], 'UNSUPPORTED_OPERATION')
        finally:
            self.sim.ctl('POST', '/config', {'boot_ms': 40})

    def test_a_project_without_the_notice_field_says_so(self):
        b = self.body('notice-1')
        b['scheduling']['preemptionNoticeDuration'] = {'seconds': '120'}
        self.sim.ctl('POST', '/gcp/config', {'notice_field': False})
        status, e = self.call('POST', '/zones/%s/instances' % ZONE, b)
        self.sim.ctl('POST', '/gcp/config', {'notice_field': True})
        self.assertEqual((status, e['error']['errors'][0]['reason']), (400, 'invalid'))
        self.assertEqual(self.call('POST', '/zones/%s/instances' % ZONE, b)[0], 200)
        _, vm = self.call('GET', '/zones/%s/instances/notice-1' % ZONE)
        self.assertEqual(vm['scheduling']['preemptionNoticeDuration'], {'seconds': '120'})

    def test_a_new_vm_is_invisible_for_the_lag(self):
        self.sim.ctl('POST', '/config', {'lag_ms': 60000})
        self.insert('lag-1')
        self.sim.ctl('POST', '/config', {'lag_ms': 0})
        self.assertEqual(self.call('GET', '/zones/%s/instances/lag-1' % ZONE)[0], 404)


class Faults(Base):
    def test_a_lost_answer_is_found_again_by_the_request_id(self):
        rid = str(uuid.uuid4())
        self.sim.ctl('POST', '/fault', {'match': {'service': 'compute', 'action': 'instances.insert'}, 'kind': 'reset_after'})
        with self.assertRaises(Exception):
            self.insert('lost-1', rid=rid)
        status, op = self.insert('lost-1', rid=rid)
        self.assertEqual((status, op['clientOperationId']), (200, rid))
        self.assertEqual(self.insert('lost-1')[0], 409)
        self.assertEqual(len([i for i in self.sim.ctl('GET', '/state')['instances'] if i['name'] == 'lost-1']), 1)

    def test_an_operation_ends_well_and_nothing_was_made_or_ended(self):
        fault = {'match': {'service': 'compute', 'action': 'instances.*'}, 'kind': 'pretend'}
        self.sim.ctl('POST', '/fault', fault)
        self.assertNotIn('error', self.wait_op(self.insert('pretended')[1]))
        self.assertEqual(self.call('GET', '/zones/%s/instances/pretended' % ZONE)[0], 404)
        self.assertEqual([x for x in self.sim.ctl('GET', '/books')['left'] if 'pretended' in x], [])
        self.running('unended')
        self.sim.ctl('POST', '/fault', fault)
        self.assertNotIn('error', self.wait_op(self.call('DELETE', '/zones/%s/instances/unended' % ZONE)[1]))
        self.assertEqual(self.call('GET', '/zones/%s/instances/unended' % ZONE)[1]['status'], 'RUNNING')

    def test_services_are_told_apart(self):
        for service, path, want in (('billing', '/v1/services?pageSize=1', 'error'), ('oauth2', '/token', 'error'),
                                    ('storage', '/storage/v1/b?project=x', 'error')):
            self.sim.ctl('POST', '/fault', {'match': {'service': service}, 'kind': 'status', 'status': 503})
            status, _, text = http('POST' if service == 'oauth2' else 'GET', self.url + path, b'' if service == 'oauth2' else None,
                                   {'Authorization': 'Bearer ' + self.token})
            self.assertEqual(status, 503, service)
            self.assertIn(want, json.loads(text))

    def test_a_status_fault_speaks_googles_words(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'compute'}, 'kind': 'status', 'status': 429})
        status, e = self.call('GET', '/zones')
        self.assertEqual((status, e['error']['errors'][0]['reason'], e['error']['status']),
                         (429, 'rateLimitExceeded', 'RESOURCE_EXHAUSTED'))
        self.sim.ctl('POST', '/fault', {'match': {'service': 'compute'}, 'kind': 'status', 'status': 403,
                                        'code': 'quotaExceeded', 'message': 'no'})
        _, e = self.call('GET', '/zones')
        self.assertEqual(e['error']['errors'][0], {'domain': 'usageLimits', 'message': 'no', 'reason': 'quotaExceeded'})

    def test_expired_credentials_and_skew_for_one_request(self):
        for kind in ('expired_credentials', 'clock_skew'):
            self.sim.ctl('POST', '/fault', {'match': {'service': 'compute'}, 'kind': kind, 'ms': 7200000})
            self.assertEqual(self.call('GET', '/zones')[0], 401, kind)
            self.assertEqual(self.call('GET', '/zones')[0], 200)

    def test_malformed_and_cut_bodies(self):
        self.sim.ctl('POST', '/fault', {'match': {'action': 'zones.list'}, 'kind': 'malform'})
        with self.assertRaises(ValueError):
            self.call('GET', '/zones')
        self.sim.ctl('POST', '/fault', {'match': {'action': 'zones.list'}, 'kind': 'truncate'})
        with self.assertRaises(Exception):
            self.call('GET', '/zones')

    def test_the_rate_limit_is_per_group_and_counted(self):
        self.sim.ctl('POST', '/gcp/config', {'rate_per_min': 2})
        try:
            got = [self.call('GET', '/zones/' + ZONE)[0] for _ in range(5)]
            self.assertIn(403, got)
            self.assertEqual(self.call('GET', '/zones')[0], 200)
        finally:
            self.sim.ctl('POST', '/gcp/config', {'rate_per_min': 1500})
        counted = {r['action'] for r in self.sim.ctl('GET', '/state')['requests'] if r['code'] == 'rateLimitExceeded'}
        self.assertEqual({action for action in counted if action.startswith('zones.')}, {'zones.get'})

    def test_ten_bulk_operations_run_at_a_time(self):
        props = {k: v for k, v in self.body('x').items() if k != 'name'}
        props['machineType'] = 'g2-standard-4'
        self.sim.ctl('POST', '/config', {'boot_ms': 5000})
        try:
            got = [self.call('POST', '/zones/%s/instances/bulkInsert' % ZONE,
                             {'count': '1', 'perInstanceProperties': {'ten-%d' % k: {}}, 'instanceProperties': props})
                   for k in range(11)]
        finally:
            self.sim.ctl('POST', '/config', {'boot_ms': 40})
        self.assertEqual([status for status, _ in got], [200] * 10 + [403], got[0])
        self.assertEqual(got[10][1]['error']['errors'][0]['reason'], 'rateLimitExceeded')

    def test_a_wait_is_held_no_longer_than_its_limit(self):
        self.sim.ctl('POST', '/config', {'boot_ms': 90000})
        self.sim.ctl('POST', '/gcp/config', {'wait_ms': 200})
        try:
            _, op = self.insert('wait-1')
            start = time.monotonic()
            status, op = self.call('POST', '/zones/%s/operations/%s/wait' % (ZONE, op['name']))
            self.assertEqual((status, op['status']), (200, 'RUNNING'))
            self.assertLess(time.monotonic() - start, 60)  # by itself it would be held for two minutes
        finally:
            self.sim.ctl('POST', '/config', {'boot_ms': 40})
            self.sim.ctl('POST', '/gcp/config', {'wait_ms': 120000})


class Tokens(Base):
    def post(self, form):
        status, _, text = http('POST', self.url + '/token', urllib.parse.urlencode(form).encode(),
                               {'Content-Type': 'application/x-www-form-urlencoded'})
        return status, json.loads(text)

    def assertion(self, **claims):
        with open(self.gcp['key_file']) as f:
            key = json.load(f)
        now = int(time.time())
        c = dict({'iss': key['client_email'], 'aud': key['token_uri'], 'iat': now, 'exp': now + 3600,
                  'scope': 'https://www.googleapis.com/auth/compute'}, **claims)
        text = b64url(json.dumps({'alg': 'RS256', 'typ': 'JWT', 'kid': key['private_key_id']}).encode()) + b'.' + \
            b64url(json.dumps(c).encode())
        with tempfile.NamedTemporaryFile() as f:
            f.write(key['private_key'].encode())
            f.flush()
            sig = subprocess.run(['openssl', 'dgst', '-sha256', '-sign', f.name], input=text, capture_output=True,
                                 check=True).stdout
        return (text + b'.' + b64url(sig)).decode()

    def exchange(self, **claims):
        return self.post({'grant_type': 'urn:ietf:params:oauth:grant-type:jwt-bearer', 'assertion': self.assertion(**claims)})

    def test_a_signed_assertion_is_exchanged(self):
        status, t = self.exchange()
        self.assertEqual((status, t['token_type'], t['expires_in']), (200, 'Bearer', 3599))
        self.assertEqual(self.call('GET', '/zones', token=t['access_token'])[0], 200)
        status, e = self.call('GET', '/nothing-like-this', token=t['access_token'])
        self.assertEqual(status, 404)

    def test_every_claim_is_checked(self):
        now = int(time.time())
        for claims, word in (({'aud': 'https://example.com/'}, 'audience'), ({'exp': now - 10}, 'short-lived'),
                             ({'exp': now + 7200}, 'short-lived'), ({'iat': now + 3000, 'exp': now + 6000}, 'short-lived'),
                             ({'iss': 'x@y'}, 'account not found')):
            status, e = self.exchange(**claims)
            self.assertEqual((status, e['error']), (400, 'invalid_grant'), claims)
            self.assertIn(word, e['error_description'])
        self.assertEqual(self.exchange(scope='')[1]['error'], 'invalid_scope')
        bad = self.assertion()
        bad = bad[:-4] + ('AAAA' if bad[-4:] != 'AAAA' else 'BBBB')
        status, e = self.post({'grant_type': 'urn:ietf:params:oauth:grant-type:jwt-bearer', 'assertion': bad})
        self.assertEqual((status, e['error_description']), (400, 'Invalid JWT Signature.'))
        self.assertEqual(self.post({'grant_type': 'password'})[1]['error'], 'unsupported_grant_type')

    def test_the_key_file_is_private(self):
        self.assertEqual(os.stat(self.gcp['key_file']).st_mode & 0o777, 0o600)


class Programs(Base):
    options = ('--seed', '32', '--boot-ms', '40', '--terminate-ms', '40', '--agents')

    def console(self, i):
        with open(os.path.join(self.sim.dir, 'instances', i, 'console.log')) as f:
            return f.read()

    def test_a_startup_script_finds_its_metadata_server(self):
        i = self.running('run-1', script='#!/bin/sh\ncurl -s -H "Metadata-Flavor: Google" '
                         '"http://$GCE_METADATA_HOST/computeMetadata/v1/instance/name"\n')
        self.sim.wait('agent_started', instance=i)
        until('the script has printed its name', 60, lambda: 'run-1' in self.console(i), trouble=lambda: '\n' + self.console(i))

    def test_a_guest_that_powers_off_is_terminated_and_keeps_its_disk(self):
        i = self.running('off-1', script='#!/bin/sh\nshutdown -h now\n')
        self.sim.wait('stopped', instance=i)
        _, vm = self.call('GET', '/zones/%s/instances/off-1' % ZONE)
        self.assertEqual((vm['status'], len(vm['disks'])), ('TERMINATED', 1))

    def test_a_program_dies_with_its_vm(self):
        i = self.running('die-1', script='#!/bin/sh\nsleep 600\n')
        self.sim.wait('agent_started', instance=i)
        self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 0.1})
        self.sim.wait('agent_ended', instance=i)
        self.sim.wait('terminated', instance=i)


if __name__ == '__main__':
    unittest.main()
