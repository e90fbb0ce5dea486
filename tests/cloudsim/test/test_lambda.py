#!/usr/bin/env python3
"""Lambda Cloud as cloudsim serves it. argv[1] is the program."""
import base64
import unittest

from case import PROGRAM, Base, Cloudsim
from cloudsim_proc import http


class Lambda(Base):
    options = ('--seed', '12', '--boot-ms', '50', '--terminate-ms', '100', '--no-throttle')

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sim.cloud('POST', '/ssh-keys', {'name': 'k', 'public_key': 'ssh-ed25519 AAAA'})

    def launch(self, **more):
        body = {'region_name': 'us-east-1', 'instance_type_name': 'gpu_1x_a10', 'ssh_key_names': ['k'], 'name': 'n'}
        return self.sim.cloud('POST', '/instance-operations/launch', dict(body, **more))

    def test_the_list_is_no_promise(self):
        self.sim.ctl('POST', '/stock', {'pool': 'lambda/us-east-1//gpu_1x_h100_pcie', 'count': 0, 'advertised': True})
        data = self.sim.cloud('GET', '/instance-types')[1]['data']['gpu_1x_h100_pcie']
        self.assertIn('us-east-1', [r['name'] for r in data['regions_with_capacity_available']])
        status, reply = self.launch(instance_type_name='gpu_1x_h100_pcie')
        self.assertEqual((status, reply['error']['code']), (400, 'instance-operations/launch/insufficient-capacity'))

    def test_life_and_end(self):
        _, reply = self.launch(tags=[{'key': 'brk-install', 'value': 'x'}], image={'family': 'lambda-stack-24-04'})
        i = reply['data']['instance_ids'][0]
        one = self.sim.cloud('GET', '/instances/' + i)[1]['data']
        self.assertEqual((one['status'], one.get('ip'), one['tags'][0]['value']), ('booting', None, 'x'))
        self.sim.wait('running', instance=i)
        self.assertEqual(self.sim.cloud('GET', '/instances/' + i)[1]['data']['status'], 'active')
        ended = self.sim.cloud('POST', '/instance-operations/terminate', {'instance_ids': [i]})[1]
        self.assertEqual(ended['data']['terminated_instances'][0]['status'], 'terminating')
        status, again = self.sim.cloud('POST', '/instance-operations/terminate', {'instance_ids': [i]})
        self.assertEqual((status, again['error']['code']), (500, 'global/unknown'))
        self.sim.wait('terminated', instance=i)
        status, gone = self.sim.cloud('GET', '/instances/' + i)
        self.assertEqual((status, gone['error']['code']), (404, 'global/object-does-not-exist'))
        audit = [a['action'] for a in self.sim.cloud('GET', '/audit-events')[1]['data']
                 if a['additional_details']['instance_lrn'].endswith(i)]
        self.assertEqual(audit, ['launched', 'terminated'])

    def test_file_systems(self):
        status, fs = self.sim.cloud('POST', '/filesystems', {'name': 'shared', 'region': 'us-east-1'})
        self.assertEqual((status, fs['data']['mount_point'], fs['data']['is_in_use']), (200, '/lambda/nfs/shared', False))
        for body, code in (({'name': 'shared', 'region': 'us-east-1'}, 'global/duplicate'),
                           ({'name': '9', 'region': 'us-east-1'}, 'global/invalid-parameters'),
                           ({'name': 'x', 'region': 'mars-1'}, 'global/invalid-parameters')):
            status, reply = self.sim.cloud('POST', '/filesystems', body)
            self.assertEqual((status, reply['error']['code']), (400, code))
        self.assertEqual(self.launch(file_system_names=['none'])[1]['error']['code'], 'global/object-does-not-exist')
        self.assertEqual(self.launch(file_system_names=['shared'], region_name='us-west-1')[1]['error']['code'],
                         'instance-operations/launch/file-system-in-wrong-region')
        mount = {'mount_point': '/etc', 'file_system_id': fs['data']['id']}
        self.assertEqual(self.launch(file_system_mounts=[mount])[1]['error']['code'], 'global/invalid-parameters')
        i = self.launch(file_system_names=['shared'])[1]['data']['instance_ids'][0]
        one = self.sim.cloud('GET', '/instances/' + i)[1]['data']
        self.assertEqual(one['file_system_names'], ['shared'])
        self.assertEqual(one['file_system_mounts'], [{'mount_point': '/lambda/nfs/shared', 'file_system_id': fs['data']['id']}])
        self.assertTrue(self.sim.cloud('GET', '/file-systems')[1]['data'][0]['is_in_use'])
        drop = '/filesystems/' + fs['data']['id']
        self.assertEqual(self.sim.cloud('DELETE', drop)[1]['error']['code'], 'filesystems/filesystem-in-use')
        self.sim.cloud('POST', '/instance-operations/terminate', {'instance_ids': [i]})
        self.sim.wait('terminated', instance=i)
        self.assertEqual(self.sim.cloud('DELETE', drop)[1]['data']['deleted_ids'], [fs['data']['id']])
        self.assertEqual(self.sim.cloud('DELETE', drop)[0], 404)

    def test_firewall(self):
        ssh = {'protocol': 'tcp', 'port_range': [22, 22], 'source_network': '0.0.0.0/0', 'description': 'ssh'}
        new = {'name': 'n', 'region': 'us-east-1', 'rules': [ssh]}
        for rule in (dict(ssh, protocol='sctp'), dict(ssh, port_range=[22]), dict(ssh, port_range=[23, 22]),
                     dict(ssh, protocol='icmp'), dict(ssh, extra=1)):
            status, reply = self.sim.cloud('POST', '/firewall-rulesets', dict(new, rules=[rule]))
            self.assertEqual((status, reply['error']['code']), (400, 'global/invalid-parameters'), rule)
        ruleset = self.sim.cloud('POST', '/firewall-rulesets', new)[1]['data']['id']
        self.assertEqual(self.launch(firewall_rulesets=[{'id': 'none'}])[1]['error']['code'], 'global/object-does-not-exist')
        self.assertEqual(self.launch(firewall_rulesets=[{'id': ruleset}], region_name='us-west-1')[1]['error']['code'],
                         'global/invalid-parameters')
        i = self.launch(firewall_rulesets=[{'id': ruleset}])[1]['data']['instance_ids'][0]
        one = self.sim.cloud('GET', '/firewall-rulesets/' + ruleset)[1]['data']
        self.assertEqual((one['instance_ids'], one['rules']), ([i], [ssh]))
        self.assertEqual(self.sim.cloud('GET', '/instances/' + i)[1]['data']['firewall_rulesets'], [{'id': ruleset}])
        self.assertEqual(self.sim.cloud('DELETE', '/firewall-rulesets/' + ruleset)[1]['error']['code'],
                         'firewall-rulesets/firewall-ruleset-in-use')
        self.assertEqual(self.sim.cloud('PATCH', '/firewall-rulesets/' + ruleset, {'rules': []})[1]['data']['rules'], [])
        before = self.sim.cloud('GET', '/firewall-rules')[1]['data']
        self.assertEqual(self.sim.cloud('PUT', '/firewall-rules', {'data': [ssh]})[1]['data'], [ssh])
        self.assertEqual(self.sim.cloud('GET', '/firewall-rulesets/global')[1]['data']['rules'], [ssh])
        self.sim.cloud('PATCH', '/firewall-rulesets/global', {'rules': before})
        self.assertEqual(self.sim.cloud('GET', '/firewall-rules')[1]['data'], before)

    def test_the_record_names_the_actor_of_an_end(self):
        i = self.launch()[1]['data']['instance_ids'][0]
        self.sim.wait('running', instance=i)
        self.sim.ctl('POST', '/kill', {'instance': i})
        event = [a for a in self.sim.cloud('GET', '/audit-events?resource_type=cloud.instance')[1]['data']
                 if a['additional_details']['instance_lrn'].endswith(i)][-1]
        self.assertEqual((event['action'], event['actor_lrn'], event['request_api_key_lrn']), ('terminated', None, None))
        self.assertEqual(self.sim.cloud('GET', '/audit-events?resource_type=cloud.api_key')[1]['data'], [])

    def test_invalid_launches_are_refused(self):
        for more, code in (({'region_name': 'mars-1'}, 'global/object-does-not-exist'),
                           ({'ssh_key_names': ['k', 'l']}, 'global/invalid-parameters'),
                           ({'ssh_key_names': ['nobody']}, 'global/object-does-not-exist'),
                           ({'image': {'family': 'none'}}, 'global/object-does-not-exist'),
                           ({'name': 'x' * 65}, 'global/invalid-parameters'),
                           ({'tags': [{'key': 'Brk', 'value': 'x'}]}, 'global/invalid-parameters')):
            status, reply = self.launch(**more)
            self.assertEqual((status, reply['error']['code']), (400, code), more)

    def test_odd_listings_on_command(self):
        i = self.launch(tags=[{'key': 'brk-install', 'value': 'y'}])[1]['data']['instance_ids'][0]
        self.sim.ctl('POST', '/status', {'instance': i, 'status': 'levitating'})
        self.sim.ctl('POST', '/config', {'lambda_tags': False})
        one = self.sim.cloud('GET', '/instances/' + i)[1]['data']
        self.sim.ctl('POST', '/config', {'lambda_tags': True})
        self.assertEqual((one['status'], one['tags']), ('levitating', []))
        self.sim.ctl('POST', '/status', {'instance': i, 'status': None})
        self.sim.wait('running', instance=i)
        self.sim.ctl('POST', '/unhealthy', {'instance': i})
        self.assertEqual(self.sim.cloud('GET', '/instances/' + i)[1]['data']['status'], 'unhealthy')

    def test_authentication(self):
        status, reply = self.sim.cloud('GET', '/instances', key='wrong')
        self.assertEqual((status, reply['error']['code']), (401, 'global/invalid-api-key'))
        key = self.sim.info['credentials']['lambda']['api_key']
        basic = base64.b64encode((key + ':').encode()).decode()
        status, _, _ = http('GET', self.sim.info['urls']['lambda'] + '/regions', headers={'Authorization': 'Basic ' + basic})
        self.assertEqual(status, 200)

    def test_the_limits_answer_html(self):
        self.sim.ctl('POST', '/config', {'throttle': True})
        try:
            got = [self.sim.cloud('GET', '/regions') for _ in range(3)]
        finally:
            self.sim.ctl('POST', '/config', {'throttle': False})
        self.assertEqual([g[0] for g in got], [200, 429, 429])
        self.assertIn(b'<html>', got[1][1])


if __name__ == '__main__':
    unittest.main()
