#!/usr/bin/env python3
"""cloudsim by itself: control API, lifecycle, metadata, faults, replay. argv[1] is the program."""
import base64
import json
import os
import select
import subprocess
import tempfile
import unittest
import urllib.request

from case import PROGRAM, Base, Cloudsim
from support.cloudsim import find, find_all
from world import exchange as http

HERE = os.path.dirname(os.path.abspath(__file__))


def text64(text):
    return base64.b64encode(text.encode()).decode()


class Documentation(unittest.TestCase):
    def test_control_md_is_what_the_route_tables_print(self):
        printed = subprocess.run([PROGRAM, '--control-doc'], stdout=subprocess.PIPE, text=True, check=True).stdout
        with open(os.path.join(os.path.dirname(HERE), 'CONTROL.md')) as f:
            self.assertEqual(f.read(), printed, 'run cloudsim --control-doc > tests/cloudsim/CONTROL.md')


class Routes(Base):
    def calls(self):
        printed = subprocess.run([PROGRAM, '--control-doc'], stdout=subprocess.PIPE, text=True, check=True).stdout
        return [line.split()[1:] for line in printed.splitlines() if line.startswith('### ')]

    def test_every_documented_call_is_served(self):
        url = self.sim.info['urls']['control']
        for method, path in self.calls():
            if path in ('/quit', '/wait') or path.endswith('...'):
                continue  # they end the program, hold the request, or stand for many paths
            status, _, body = http(method, url + path, b'[]' if method == 'POST' else None)
            self.assertNotIn(b'no such control call', body, (method, path))
            self.assertNotEqual(status, 405, (method, path))

    def test_a_call_that_nobody_documents_is_refused(self):
        url = self.sim.info['urls']['control']
        self.assertEqual(http('POST', url + '/nothing', b'{}')[0], 404)
        self.assertEqual(http('GET', url + '/aws/nothing')[0], 404)
        self.assertEqual(http('DELETE', url + '/state')[0], 405)


class Market(Base):
    def pool(self, path):
        return self.sim.ctl('GET', '/pools?pool=' + path)['pools'][0]

    def test_a_launch_of_several_takes_what_the_quota_allows(self):
        def launch(token):
            status, x = self.sim.run(token, region='us-west-2', zone='us-west-2c', type='g5.xlarge', MinCount='1', MaxCount='5')
            return status, find_all(x, 'instanceId'), find(x, 'Code')
        quota = {'provider': 'aws', 'region': 'us-west-2', 'code': '*'}
        self.sim.ctl('POST', '/quota', dict(quota, vcpus=10))
        try:
            status, ids, _ = launch('part')
            self.assertEqual((status, len(ids)), (200, 2))
            self.assertEqual(launch('part')[1], ids)
            self.assertEqual(launch('more')[::2], (400, 'MaxSpotInstanceCountExceeded'))
        finally:
            self.sim.ctl('POST', '/quota', dict(quota, vcpus=1000))

    def test_a_price_set_by_hand_is_in_force_and_in_the_history(self):
        self.sim.ctl('POST', '/price', {'pool': 'aws/us-west-2/us-west-2c/g5.xlarge/spot', 'usd': 0.7654})
        self.assertEqual(self.pool('aws/us-west-2/us-west-2c/g5.xlarge')['spot_micros'], 765400)
        _, x = self.sim.ec2('DescribeSpotPriceHistory', 'us-west-2', {'InstanceType.1': 'g5.xlarge',
                            'AvailabilityZone': 'us-west-2c', 'ProductDescription.1': 'Linux/UNIX'})
        self.assertEqual(find_all(x, 'spotPrice')[0], '0.765400')

    def test_a_frozen_feed_tells_what_was(self):
        def told():
            _, x = self.sim.ec2('DescribeSpotPriceHistory', 'us-west-2', {'InstanceType.1': 'g5.xlarge',
                                'AvailabilityZone': 'us-west-2b', 'ProductDescription.1': 'Linux/UNIX'})
            return find_all(x, 'spotPrice')[0]

        def set_price(usd):
            self.sim.ctl('POST', '/price', {'pool': 'aws/us-west-2/us-west-2b/g5.xlarge/spot', 'usd': usd})

        set_price(0.4321)
        self.sim.ctl('POST', '/feed', {'cloud': 'aws', 'frozen': True})
        set_price(0.8765)
        self.assertEqual(told(), '0.432100')
        self.assertEqual(self.pool('aws/us-west-2/us-west-2b/g5.xlarge')['spot_micros'], 876500)
        self.sim.ctl('POST', '/feed', {'cloud': 'aws', 'frozen': False})
        self.assertEqual(told(), '0.876500')

    def test_no_spot_price_is_above_on_demand_at_the_start(self):
        pools = [p for p in self.sim.ctl('GET', '/pools?pool=aws')['pools'] if p['spot_micros'] and p['on_demand_micros']]
        above = [p for p in pools if p['spot_micros'] > p['on_demand_micros']]
        self.assertGreater(len(pools), 2000)
        self.assertEqual([p['type'] for p in above], [])

    def test_stock_bounds_what_runs_and_an_end_gives_it_back(self):
        self.sim.ctl('POST', '/stock', {'pool': {'provider': 'aws', 'zone': 'use1-az6', 'market': 'spot'}, 'count': 1})
        first = self.sim.launched('stock-1', zone='us-east-1b')
        status, x = self.sim.run('stock-2', zone='us-east-1b')
        self.assertEqual((status, find(x, 'Code')), (500, 'InsufficientInstanceCapacity'))
        self.sim.ec2('TerminateInstances', params={'InstanceId.1': first})
        self.assertEqual(self.sim.run('stock-2', zone='us-east-1b')[0], 200)

    def test_a_bad_control_request_says_what_is_wrong(self):
        for path, body in (('/stock', {'pool': 'aws'}), ('/price', {'pool': 'aws', 'usd': -1}), ('/config', {'x': 1}),
                           ('/fault', {'kind': 'nonsense'}), ('/reclaim', {'instance': 'i-none'})):
            self.assertIn('error', self.sim.ctl('POST', path, body, ok=False), path)

    def test_the_advisor_document_has_the_vendors_shape(self):
        _, _, text = http('GET', self.sim.info['urls']['advisor'])
        doc = json.loads(text)
        self.assertEqual([r['index'] for r in doc['ranges']], [0, 1, 2, 3, 4])
        self.assertIn(doc['spot_advisor']['us-east-1']['Linux']['g5.xlarge']['r'], range(5))


class Life(Base):
    def test_an_instance_goes_through_its_states(self):
        i = self.sim.launched('life-1')
        self.sim.wait('running', instance=i)
        self.sim.ec2('TerminateInstances', params={'InstanceId.1': i})
        self.sim.wait('terminated', instance=i)
        s = self.sim.state(i)
        self.assertEqual((s['state'], s['ended_by'], s['reason_code'], s['spot_status']),
                         ('gone', 'api', 'Client.UserInitiatedShutdown', 'instance-terminated-by-user'))
        self.assertLess(s['launched_us'], s['running_us'])

    def test_a_reclaim_flips_the_request_at_once_and_ends_the_instance_later(self):
        i = self.sim.launched('reclaim-1')
        self.sim.wait('running', instance=i)
        self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 0.3, 'rebalance_s_before': 0.1})
        self.sim.wait('rebalance', instance=i)
        self.sim.wait('notice', instance=i)
        _, x = self.sim.ec2('DescribeSpotInstanceRequests', params={'Filter.1.Name': 'instance-id', 'Filter.1.Value.1': i})
        self.assertEqual((find(x, 'state'), find(x, 'code')), ('closed', 'instance-terminated-no-capacity'))
        _, x = self.sim.ec2('DescribeInstances', params={'InstanceId.1': i})
        self.assertIn('running', find_all(x, 'name'))
        self.sim.wait('terminated', instance=i)
        s = self.sim.state(i)
        self.assertEqual(s['reason_code'], 'Server.SpotInstanceTermination')
        self.assertGreaterEqual(s['billed_to_us'], s['action_us'])

    def test_a_kill_without_notice_ends_it_at_once(self):
        i = self.sim.launched('reclaim-2')
        self.sim.wait('running', instance=i)
        self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 0})
        self.sim.wait('shutting_down', instance=i)
        self.assertNotIn('notice_us', self.sim.state(i))

    def test_a_price_above_the_cap_takes_the_instance_back_by_price(self):
        i = self.sim.launched('cap-1', zone='us-east-1c', **{'InstanceMarketOptions.SpotOptions.MaxPrice': '2.5'})
        self.sim.ctl('POST', '/price', {'pool': 'aws/us-east-1/us-east-1c/p3.2xlarge/spot', 'usd': 2.9})
        self.sim.wait('notice', instance=i)
        self.assertEqual(self.sim.state(i)['spot_status'], 'instance-terminated-by-price')
        self.sim.ctl('POST', '/price', {'pool': 'aws/us-east-1/us-east-1c/p3.2xlarge/spot', 'usd': 0.9})

    def test_a_new_instance_is_invisible_for_the_lag(self):
        self.sim.ctl('POST', '/config', {'lag_ms': 60000})
        i = self.sim.launched('lag-1')
        self.sim.ctl('POST', '/config', {'lag_ms': 0})
        status, x = self.sim.ec2('DescribeInstances', params={'InstanceId.1': i})
        self.assertEqual((status, find(x, 'Code')), (400, 'InvalidInstanceID.NotFound'))
        _, x = self.sim.ec2('DescribeInstances', params={'Filter.1.Name': 'client-token', 'Filter.1.Value.1': 'lag-1'})
        self.assertIsNone(find(x, 'instanceId'))

    def test_the_terminated_are_forgotten_after_an_hour_of_replay_time(self):
        i = self.sim.launched('old-1')
        self.sim.ec2('TerminateInstances', params={'InstanceId.1': i})
        self.sim.wait('terminated', instance=i)
        self.assertEqual(self.sim.ec2('DescribeInstances', params={'InstanceId.1': i})[0], 200)
        self.sim.ctl('POST', '/advance', {'seconds': 3601})
        self.assertEqual(self.sim.ec2('DescribeInstances', params={'InstanceId.1': i})[0], 400)

    def test_the_bill_is_the_price_in_force_times_the_time(self):
        pool = 'aws/us-east-1/us-east-1d/p3.2xlarge/spot'
        self.sim.ctl('POST', '/price', {'pool': pool, 'usd': 36})
        i = self.sim.launched('bill-1', zone='us-east-1d')
        self.sim.wait('running', instance=i)
        self.sim.ctl('POST', '/price', {'pool': pool, 'usd': 72})
        self.sim.ec2('TerminateInstances', params={'InstanceId.1': i})
        self.sim.wait('terminated', instance=i)
        line = [b for b in self.sim.ctl('GET', '/books')['instances'] if b['instance'] == i][0]
        self.assertEqual([s['usd_micros_per_hour'] for s in line['segments']], [36000000, 72000000])
        want = sum(((s['to_us'] - s['from_us']) * s['usd_micros_per_hour'] * 2 + 3600000000) // 7200000000
                   for s in line['segments'])
        self.assertEqual(line['cost_micros'], want)
        self.assertEqual(line['segments'][0]['to_us'], line['segments'][1]['from_us'])
        self.assertTrue(line['terminated'])


class Faults(Base):
    def fault(self, kind, **more):
        return self.sim.ctl('POST', '/fault', dict(more, kind=kind))

    def describe(self):
        return self.sim.ec2('DescribeRegions')

    def test_status_comes_without_effect_and_only_as_often_as_told(self):
        self.fault('status', match={'action': 'DescribeRegions'}, status=503, code='RequestLimitExceeded', count=2)
        self.assertEqual([self.describe()[0] for _ in range(3)], [503, 503, 200])

    def test_a_reset_after_leaves_the_effect(self):
        self.fault('reset_after', match={'action': 'RunInstances'})
        with self.assertRaises(Exception):
            self.sim.run('reset-1')
        _, x = self.sim.ec2('DescribeInstances', params={'Filter.1.Name': 'client-token', 'Filter.1.Value.1': 'reset-1'})
        self.assertEqual(len(find_all(x, 'instanceId')), 1)
        again = self.sim.launched('reset-1')
        self.assertEqual(again, find(x, 'instanceId'))

    def test_a_reset_before_leaves_none(self):
        self.fault('reset_before', match={'action': 'RunInstances'})
        with self.assertRaises(Exception):
            self.sim.run('reset-2')
        _, x = self.sim.ec2('DescribeInstances', params={'Filter.1.Name': 'client-token', 'Filter.1.Value.1': 'reset-2'})
        self.assertIsNone(find(x, 'instanceId'))

    def test_a_body_is_cut_or_broken(self):
        self.fault('truncate', match={'action': 'DescribeRegions'})
        with self.assertRaises(Exception):
            self.describe()
        self.fault('malform', match={'action': 'DescribeRegions'})
        with self.assertRaises(Exception):
            self.describe()
        self.assertEqual(self.describe()[0], 200)

    def test_a_hang_never_answers(self):
        self.fault('hang', match={'service': 'ec2'})
        with self.assertRaises(Exception):
            body = b'Action=DescribeRegions&Version=2016-11-15'
            urllib.request.urlopen(urllib.request.Request(self.sim.url, data=body), timeout=0.3)
        self.assertEqual(self.describe()[0], 200)

    def test_a_duplicate_is_served_twice(self):
        self.sim.cloud('POST', '/ssh-keys', {'name': 'dup'})
        self.fault('duplicate', match={'service': 'lambda', 'action': 'POST /instance-operations/launch'})
        status, _ = self.sim.cloud('POST', '/instance-operations/launch', {
            'region_name': 'us-east-1', 'instance_type_name': 'gpu_1x_a10', 'ssh_key_names': ['dup'], 'name': 'twice'})
        self.assertEqual(status, 200)
        named = [i for i in self.sim.cloud('GET', '/instances')[1]['data'] if i['name'] == 'twice']
        self.assertEqual(len(named), 2)
        self.assertEqual([d['token'] for d in self.sim.ctl('GET', '/books')['double_launches']], ['twice'])

    def test_a_duplicate_with_a_token_makes_one(self):
        self.fault('duplicate', match={'action': 'RunInstances'})
        i = self.sim.launched('dup-token')
        _, x = self.sim.ec2('DescribeInstances', params={'Filter.1.Name': 'client-token', 'Filter.1.Value.1': 'dup-token'})
        self.assertEqual(find_all(x, 'instanceId'), [i])

    def test_a_pretended_launch_never_was(self):
        self.fault('pretend', match={'action': 'RunInstances'})
        i = self.sim.launched('pretended')
        self.assertEqual(self.sim.ec2('DescribeInstances', params={'InstanceId.1': i})[0], 400)
        self.assertNotIn(i, [x['instance'] for x in self.sim.ctl('GET', '/books')['instances']])
        again = self.sim.launched('pretended')
        self.assertNotEqual(again, i)
        self.assertNotIn('pretended', [d['token'] for d in self.sim.ctl('GET', '/books')['double_launches']])
        self.sim.wait('running', instance=again)

    def test_a_pretended_end_is_none(self):
        i = self.sim.launched('unended')
        self.sim.wait('running', instance=i)
        self.fault('pretend', match={'action': 'TerminateInstances'})
        status, x = self.sim.ec2('TerminateInstances', params={'InstanceId.1': i})
        self.assertEqual((status, find_all(x, 'name')), (200, ['shutting-down', 'running']))
        self.assertEqual(self.sim.state(i)['state'], 'running')
        self.assertIn(i, self.sim.ctl('GET', '/books')['left'])
        self.sim.ec2('TerminateInstances', params={'InstanceId.1': i})
        self.sim.wait('terminated', instance=i)

    def test_lambda_pretends_too(self):
        self.sim.cloud('POST', '/ssh-keys', {'name': 'pretend'})
        body = {'region_name': 'us-east-1', 'instance_type_name': 'gpu_1x_a10', 'ssh_key_names': ['pretend'], 'name': 'pretended-1'}
        self.fault('pretend', match={'service': 'lambda', 'action': 'POST /instance-operations/*'})
        status, reply = self.sim.cloud('POST', '/instance-operations/launch', body)
        self.assertEqual(status, 200)
        self.assertEqual(self.sim.cloud('GET', '/instances/' + reply['data']['instance_ids'][0])[0], 404)
        i = self.sim.cloud('POST', '/instance-operations/launch', body)[1]['data']['instance_ids'][0]
        self.sim.wait('running', instance=i)
        self.fault('pretend', match={'service': 'lambda', 'action': 'POST /instance-operations/*'})
        status, reply = self.sim.cloud('POST', '/instance-operations/terminate', {'instance_ids': [i]})
        self.assertEqual((status, reply['data']['terminated_instances'][0]['status']), (200, 'terminating'))
        self.assertEqual(self.sim.cloud('GET', '/instances/' + i)[1]['data']['status'], 'active')

    def test_a_clock_that_is_off_is_told_in_the_date(self):
        self.fault('clock_skew', match={'service': 'ec2'}, ms=3600 * 1000)
        status, x = self.describe()
        self.assertEqual((status, find(x, 'Code')), (400, 'RequestExpired'))
        self.fault('clock_skew', match={'service': 'ec2'}, ms=3600 * 1000)
        _, h, _ = self.sim.call('ec2', b'Action=DescribeRegions&Version=2016-11-15')
        self.assertEqual(len(h.get_all('Date')), 1)

    def test_expired_credentials_are_named_by_each_protocol(self):
        self.fault('expired_credentials', count=2)
        self.assertEqual(find(self.describe()[1], 'Code'), 'RequestExpired')
        _, _, text = self.sim.call('ssm', b'{}', {'x-amz-target': 'AmazonSSM.GetParameter'})
        self.assertEqual(json.loads(text)['__type'], 'ExpiredTokenException')

    def test_a_delay_answers_late_and_may_act_early(self):
        self.fault('delay', match={'action': 'RunInstances'}, ms=200, after=True)
        i = self.sim.launched('late-1')
        at = self.sim.state(i)['launched_us']
        self.assertGreater(self.sim.ctl('GET', '/state')['now_us'] - at, 150000)


class Metadata(Base):
    options = Base.options + ('--agents',)

    def boot(self, token, script, **params):
        i = self.sim.launched(token, **dict({'UserData': text64(script)}, **params))
        self.sim.wait('agent_started', instance=i)
        return i

    def imds(self, i, path, method='GET', headers=None, token=True):
        base = 'http://127.0.0.1:%d/%s' % (self.sim.info['imds_port'], i)
        h = dict(headers or {})
        if token:
            _, _, t = http('PUT', base + '/latest/api/token', headers={'X-aws-ec2-metadata-token-ttl-seconds': '60'})
            h['X-aws-ec2-metadata-token'] = t.decode()
        status, _, body = http(method, base + path, headers=h)
        return status, body.decode()

    def test_version_two_only(self):
        i = self.sim.launched('imds-1', **{'MetadataOptions.HttpTokens': 'required'})
        self.assertEqual(self.imds(i, '/latest/meta-data/instance-id', token=False)[0], 401)
        self.assertEqual(self.imds(i, '/latest/meta-data/instance-id'), (200, i))
        ttl = {'X-aws-ec2-metadata-token-ttl-seconds': '60'}
        self.assertEqual(self.imds(i, '/latest/api/token', 'PUT', dict(ttl, **{'X-Forwarded-For': '10.0.0.1'}), False)[0], 403)
        self.assertEqual(self.imds(i, '/latest/api/token', 'PUT', {'X-aws-ec2-metadata-token-ttl-seconds': '0'}, False)[0], 400)
        self.assertEqual(self.imds(i, '/latest/meta-data/iam/security-credentials/')[0], 404)

    def test_the_documents(self):
        i = self.sim.launched('imds-2', **{'MetadataOptions.InstanceMetadataTags': 'enabled', 'UserData': text64('hello'),
                              'TagSpecification.1.ResourceType': 'instance', 'TagSpecification.1.Tag.1.Key': 'k',
                              'TagSpecification.1.Tag.1.Value': 'v'})
        for path, want in (('meta-data/instance-life-cycle', 'spot'), ('meta-data/placement/availability-zone', 'us-east-1a'),
                           ('meta-data/placement/availability-zone-id', 'use1-az4'), ('meta-data/placement/region', 'us-east-1'),
                           ('meta-data/tags/instance/k', 'v'), ('meta-data/tags/instance', 'k'), ('user-data', 'hello'),
                           ('meta-data/events/maintenance/scheduled', '[]')):
            self.assertEqual(self.imds(i, '/latest/' + path), (200, want), path)
        doc = json.loads(self.imds(i, '/latest/dynamic/instance-identity/document')[1])
        self.assertEqual((doc['instanceId'], doc['availabilityZone']), (i, 'us-east-1a'))

    def test_the_identity_signature_verifies(self):
        i = self.sim.launched('imds-3')
        with tempfile.TemporaryDirectory() as d:
            def put(name, data):
                with open(os.path.join(d, name), 'wb') as f:
                    f.write(data)
            put('doc', self.imds(i, '/latest/dynamic/instance-identity/document')[1].encode())
            put('p7', base64.b64decode(self.imds(i, '/latest/dynamic/instance-identity/pkcs7')[1]))
            put('pem', http('GET', self.sim.control + '/identity-certificate')[2])
            out = subprocess.run(['openssl', 'smime', '-verify', '-inform', 'DER', '-in', 'p7', '-CAfile', 'pem', '-certfile',
                                  'pem', '-purpose', 'any'], cwd=d, capture_output=True)
            self.assertEqual(out.returncode, 0, out.stderr)
            with open(os.path.join(d, 'doc'), 'rb') as f:
                self.assertEqual(out.stdout, f.read())

    def test_the_notice_is_there_when_given_and_not_before(self):
        i = self.sim.launched('imds-4')
        self.sim.wait('running', instance=i)
        self.assertEqual(self.imds(i, '/latest/meta-data/spot/instance-action')[0], 404)
        self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 60, 'rebalance_s_before': 0.2})
        self.assertIn('noticeTime', self.imds(i, '/latest/meta-data/events/recommendations/rebalance')[1])
        self.assertEqual(self.imds(i, '/latest/meta-data/spot/instance-action')[0], 404)
        self.sim.wait('notice', instance=i)
        action = json.loads(self.imds(i, '/latest/meta-data/spot/instance-action')[1])
        self.assertEqual(action['action'], 'terminate')
        self.assertRegex(action['time'], r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$')

    def test_a_scheduled_event(self):
        i = self.sim.launched('imds-5')
        self.sim.ctl('POST', '/maintenance', {'instance': i, 'code': 'system-reboot', 'in_s': 600})
        event = json.loads(self.imds(i, '/latest/meta-data/events/maintenance/scheduled')[1])[0]
        self.assertEqual((event['Code'], event['State']), ('system-reboot', 'active'))
        self.assertRegex(event['NotBefore'], r'^\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$')

    def test_user_data_runs_with_nothing_but_its_own_environment(self):
        os.environ['AWS_SECRET_ACCESS_KEY'] = 'must-not-be-seen'
        i = self.boot('env-1', '#!/bin/sh\nenv | cut -d= -f1 | sort > env.txt\n'
                               'curl -s -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" '
                               '"${AWS_EC2_METADATA_SERVICE_ENDPOINT}latest/api/token" > token.txt\nmv token.txt done.txt\n')
        home = self.sim.state(i)['agent']['home']
        for _ in range(2000):
            if os.path.exists(home + '/done.txt'):
                break
            self.sim.ctl('GET', '/healthz')
        with open(home + '/env.txt') as f:
            names = set(f.read().split()) - {'PWD', 'OLDPWD', 'SHLVL', '_'}
        self.assertEqual(names, {'HOME', 'PATH', 'SPOT_AGENT_DIR', 'AWS_EC2_METADATA_SERVICE_ENDPOINT'})
        self.assertGreater(os.path.getsize(home + '/done.txt'), 40)

    def test_a_reboot_ends_the_programs_and_runs_the_user_data_again(self):
        i = self.boot('reboot-1', '#!/bin/sh\necho $$ >> pids\nexec tail -f /dev/null\n')
        self.sim.wait('agent_started', instance=i)
        home = self.sim.state(i)['agent']['home']

        def pids(n):
            for _ in range(5000):
                if os.path.exists(home + '/pids'):
                    with open(home + '/pids') as f:
                        got = [int(p) for p in f.read().split()]
                    if len(got) == n:
                        return got
                self.sim.ctl('GET', '/healthz')
            self.fail('the program did not start')
        first = pids(1)[0]
        self.sim.ctl('POST', '/kill', {'instance': i, 'what': 'reboot'})
        self.sim.wait('agent_started', instance=i, count=2)
        self.assertNotEqual(pids(2)[1], first)
        self.assertFalse(os.path.exists('/proc/%d' % first))
        self.assertEqual(self.sim.state(i)['state'], 'running')

    def test_the_whole_process_tree_dies_with_the_instance(self):
        i = self.boot('tree-1', '#!/bin/sh\nsetsid sh -c "setsid sh -c \'echo \\$\\$ >> pids; exec tail -f /dev/null\' & '
                                'echo \\$\\$ >> pids; exec tail -f /dev/null" &\necho $$ >> pids\ntouch up\nexec tail -f /dev/null\n')
        home = self.sim.state(i)['agent']['home']

        def pids():
            try:
                with open(home + '/pids') as f:
                    return [int(p) for p in f.read().split()]
            except OSError:
                return []
        for _ in range(5000):
            if len(pids()) == 3:
                break
            self.sim.ctl('GET', '/healthz')
        before = pids()
        self.assertEqual(len(before), 3)
        self.sim.ctl('POST', '/kill', {'instance': i})
        self.sim.wait('terminated', instance=i)
        self.assertEqual([p for p in before if os.path.exists('/proc/%d' % p)], [])

    def test_a_guest_that_powers_off_ends_as_it_was_told_at_launch(self):
        i = self.boot('off-1', '#!/bin/sh\nshutdown -h now\nexec tail -f /dev/null\n',
                      InstanceInitiatedShutdownBehavior='terminate')
        self.sim.wait('terminated', instance=i)
        self.assertEqual(self.sim.state(i)['reason_code'], 'Client.InstanceInitiatedShutdown')
        j = self.boot('off-2', '#!/bin/sh\npoweroff\nexec tail -f /dev/null\n')
        self.sim.wait('stopped', instance=j)


class Replay(Base):
    # The supply falls to nothing within the first hours; the tests move the replay clock themselves.
    options = ('--seed', '13', '--boot-ms', '10', '--terminate-ms', '10', '--notice-ms', '50', '--no-throttle',
               '--supply', 'aws-02-15-2023', '--supply-unit', '2')

    def tearDown(self):
        pass

    def test_a_recorded_supply_limits_and_reclaims(self):
        i = self.sim.launched('replay-1', zone='us-east-1a')
        got = []
        for _ in range(48):
            self.sim.ctl('POST', '/advance', {'seconds': 1800})
            got = self.sim.ctl('GET', '/events?event=notice&instance=' + i)['events']
            if got:
                break
        self.assertEqual(got[0]['zone'], 'use1-az4')
        self.sim.wait('terminated', instance=i)
        self.assertEqual(self.sim.state(i)['ended_by'], 'reclaim')

    def test_recorded_prices_move(self):
        self.sim.ctl('POST', '/advance', {'seconds': 20 * 86400})
        _, x = self.sim.ec2('DescribeSpotPriceHistory', params={'InstanceType.1': 'p3.2xlarge', 'AvailabilityZone': 'us-east-1c',
                            'ProductDescription.1': 'Linux/UNIX', 'StartTime': '2020-01-01T00:00:00Z'})
        self.assertGreater(len(set(find_all(x, 'spotPrice'))), 20)


class Start(unittest.TestCase):
    def test_a_market_file_is_applied_and_a_bad_one_ends_the_start(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'market.json')
            with open(path, 'w') as f:
                json.dump([{'post': '/stock', 'body': {'pool': 'aws/us-east-1//p3.2xlarge/spot', 'count': 7}}], f)
            sim = Cloudsim(PROGRAM, '--market', path)
            self.assertEqual({p['spot_stock'] for p in sim.ctl('GET', '/pools?pool=aws/us-east-1//p3.2xlarge')['pools']}, {7})
            self.assertEqual(sim.stop(), 0)
            with open(path, 'w') as f:
                json.dump([{'post': '/stock', 'body': {}}], f)
            out = subprocess.run([PROGRAM, '--dir', d, '--market', path], capture_output=True, timeout=30)
            self.assertEqual(out.returncode, 1)
            self.assertIn(b'market.json', out.stderr)

    def test_no_program_of_an_instance_outlives_a_killed_emulator(self):
        sim = Cloudsim(PROGRAM, '--agents', '--boot-ms', '10', '--no-throttle')
        i = sim.launched('orphan', UserData=text64('#!/bin/sh\necho $$ > pid.tmp\nmv pid.tmp pid\nexec tail -f /dev/null\n'))
        sim.wait('agent_started', instance=i)
        path = sim.state(i)['agent']['home'] + '/pid'
        for _ in range(5000):
            if os.path.exists(path):
                break
            sim.ctl('GET', '/healthz')
        with open(path) as f:
            pid = int(f.read())
        fd = os.pidfd_open(pid)
        sim.proc.kill()
        self.assertTrue(select.select([fd], [], [], 20)[0], 'the program still runs')
        os.close(fd)
        sim.stop()


class Scale(Base):
    options = ('--seed', '14', '--boot-ms', '5', '--terminate-ms', '5', '--no-throttle')

    def test_ten_thousand_instances_are_held_and_listed(self):
        for k in range(10):
            status, _ = self.sim.run('scale-%d' % k, type='g4dn.xlarge', MinCount='1000', MaxCount='1000')
            self.assertEqual(status, 200)
        seen, token = set(), None
        while True:
            p = {'MaxResults': '1000', 'Filter.1.Name': 'instance-state-name', 'Filter.1.Value.1': 'pending',
                 'Filter.1.Value.2': 'running'}
            if token:
                p['NextToken'] = token
            _, x = self.sim.ec2('DescribeInstances', params=p)
            seen.update(find_all(x, 'instanceId'))
            token = find(x, 'nextToken')
            if not token:
                break
        self.assertEqual(len(seen), 10000)
        with open('/proc/%d/status' % self.sim.proc.pid) as f:
            rss = [int(line.split()[1]) for line in f if line.startswith('VmRSS')][0]
        self.assertLess(rss, 900 * 1024)


if __name__ == '__main__':
    unittest.main(warnings='ignore')
