#!/usr/bin/env python3
"""cloudsim's Azure by plain HTTP: control calls, faults, limits, the price list's traps, the metadata service and the
programs of VMs. Standard library only; the vendor's SDKs have their own test (tests/vendor/test_azure_sdk.py)."""
import base64
import copy
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cloudsim_proc import Cloudsim, http  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'
SIZE = 'Standard_NC40ads_H100_v5'
REGION = 'eastus2'
COMPUTE = '2024-07-01'
KEYS = '/home/%s/.ssh/authorized_keys' % 'azureuser'


class Base(unittest.TestCase):
    options = ('--seed', '41', '--boot-ms', '40', '--terminate-ms', '40', '--no-throttle')

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)
        cls.addClassCleanup(cls.sim.stop)
        cls.keys = cls.sim.info['credentials']['azure']
        cls.url = cls.sim.info['urls']['azure']
        cls.sub = '/subscriptions/' + cls.keys['subscription_id']
        cls.token = cls.login(cls.keys['client_secret'])[1]['access_token']
        cls.arm('PUT', cls.sub + '/resourcegroups/shared', '2021-04-01', {'location': REGION})
        net = cls.sub + '/resourceGroups/shared/providers/Microsoft.Network/'
        cls.arm('PUT', net + 'virtualNetworks/net', '2024-05-01', {'location': REGION, 'properties': {
            'addressSpace': {'addressPrefixes': ['10.0.0.0/8']},
            'subnets': [{'name': 'default', 'properties': {'addressPrefix': '10.0.0.0/16'}}]}})
        cls.subnet = net + 'virtualNetworks/net/subnets/default'

    @classmethod
    def login(cls, secret, scope='https://management.azure.com/.default'):
        body = urllib.parse.urlencode({'client_id': cls.keys['client_id'], 'client_secret': secret, 'scope': scope,
                                       'grant_type': 'client_credentials'}).encode()
        status, _, text = http('POST', '%s/%s/oauth2/v2.0/token' % (cls.url, cls.keys['tenant_id']), body)
        return status, json.loads(text)

    @classmethod
    def raw(cls, method, path, version, body=None, headers=None):
        url = path if path.startswith('http') else cls.url + path
        if version:
            url += ('&' if '?' in url else '?') + 'api-version=' + version
        return http(method, url, None if body is None else json.dumps(body).encode(),
                    dict({'Authorization': 'Bearer ' + cls.token, 'Content-Type': 'application/json'}, **(headers or {})))

    @classmethod
    def arm(cls, *args, **kw):
        status, headers, text = cls.raw(*args, **kw)
        return status, headers, json.loads(text) if text else None

    def vm(self, script='#!/bin/sh\nexit 0\n', spot=True, zone='1', **more):
        p = {'hardwareProfile': {'vmSize': SIZE},
             'storageProfile': {'imageReference': {'publisher': 'microsoft-dsvm', 'offer': 'ubuntu-hpc', 'sku': '2204',
                                                   'version': 'latest'},
                                'osDisk': {'createOption': 'FromImage', 'deleteOption': 'Delete'}},
             'osProfile': {'computerName': 'vm', 'adminUsername': 'azureuser',
                           'customData': base64.b64encode(script.encode()).decode(),
                           'linuxConfiguration': {'disablePasswordAuthentication': True, 'ssh': {
                               'publicKeys': [{'path': KEYS, 'keyData': 'ssh-ed25519 AAAA'}]}}},
             'networkProfile': {'networkApiVersion': '2022-11-01', 'networkInterfaceConfigurations': [
                 {'name': 'nic', 'properties': {'primary': True, 'deleteOption': 'Delete', 'ipConfigurations': [
                     {'name': 'ip', 'properties': {'subnet': {'id': self.subnet}}}]}}]}}
        if spot:
            p.update(priority='Spot', evictionPolicy='Delete')
        p.update(more)
        return dict({'location': REGION, 'tags': {'lease': 'x'}, 'properties': p}, **({'zones': [zone]} if zone else {}))

    def group(self, name):
        self.assertIn(self.arm('PUT', self.sub + '/resourcegroups/' + name, '2021-04-01', {'location': REGION})[0], (200, 201))
        return '%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/' % (self.sub, name)

    def launched(self, where, name, **more):
        status, _, doc = self.arm('PUT', where + name, COMPUTE, self.vm(**more))
        self.assertEqual(status, 201, doc)
        self.sim.wait('running', instance=doc['properties']['vmId'])
        return doc['properties']['vmId']

    def refused(self, code, status, got):
        self.assertEqual((got[0], got[2]['error']['code']), (status, code), got[2])
        return got[2]['error']['message']


class Api(Base):
    def test_api_versions_are_checked_by_type(self):
        g = self.group('versions')
        self.refused('MissingApiVersionParameter', 400, self.arm('GET', self.sub + '/resourcegroups', None))
        self.refused('NoRegisteredProviderFound', 400, self.arm('GET', g + 'x', '2021-04-02'))
        self.refused('InvalidApiVersionParameter', 400, self.arm('GET', self.sub + '/resourcegroups', '2024-05-01'))
        self.refused('InvalidResourceType', 404, self.arm('GET', self.sub + '/providers/Microsoft.Compute/nothings', COMPUTE))
        self.refused('SubscriptionNotFound', 404, self.arm('GET', '/subscriptions/x/resourcegroups', '2021-04-01'))

    def test_the_subscription_and_its_locations_are_told(self):
        self.assertEqual(self.arm('GET', self.sub, '2022-12-01')[2]['state'], 'Enabled')
        found = {x['name']: x for x in self.arm('GET', self.sub + '/locations', '2022-12-01')[2]['value']}
        self.assertEqual(found[REGION]['displayName'], 'East US 2')
        self.assertEqual(len(found[REGION]['availabilityZoneMappings']), 3)
        path = '%s/providers/Microsoft.Compute/locations/%s/placementScores/spot' % (self.sub, REGION)
        self.assertEqual(self.arm('GET', path, '2025-06-05')[0], 200)

    def test_members_that_no_model_has_are_refused(self):
        g = self.group('members')
        for change, path in ((lambda d: d['properties'].update(foo=1), 'properties.foo'),
                             (lambda d: d['properties']['hardwareProfile'].update(size='x'), 'properties.hardwareProfile.size'),
                             (lambda d: d['properties']['networkProfile']['networkInterfaceConfigurations'][0].update(
                                 tags={'a': 'b'}), 'networkInterfaceConfigurations.tags')):
            body = copy.deepcopy(self.vm())
            change(body)
            self.assertIn(path, self.refused('BadRequest', 400, self.arm('PUT', g + 'm', COMPUTE, body)))
        status, _, _ = self.arm('PUT', g + 'm', '2025-04-01', body)
        self.assertEqual(status, 201)

    def test_a_wrong_audience_or_no_token_is_told_apart(self):
        other = self.login(self.keys['client_secret'], 'https://storage.azure.com/.default')[1]['access_token']
        for headers, code in (({'Authorization': 'Bearer ' + other}, 'InvalidAuthenticationTokenAudience'),
                              ({'Authorization': ''}, 'AuthenticationFailed'),
                              ({'Authorization': 'Bearer x.y.z'}, 'InvalidAuthenticationToken')):
            got = self.arm('GET', self.sub + '/resourcegroups', '2021-04-01', headers=headers)
            self.refused(code, 401, got)
            self.assertIn('Bearer', got[1]['WWW-Authenticate'])

    def test_faults_reach_each_service_in_its_own_words(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'login'}, 'kind': 'status', 'status': 503,
                                        'code': 'temporarily_unavailable'})
        status, doc = self.login('x')
        self.assertEqual((status, doc['error']), (503, 'temporarily_unavailable'))
        self.sim.ctl('POST', '/fault', {'match': {'service': 'arm', 'action': 'LIST resourceGroups'}, 'kind': 'status',
                                        'status': 429, 'code': 'TooManyRequests'})
        got = self.arm('GET', self.sub + '/resourcegroups', '2021-04-01')
        self.refused('TooManyRequests', 429, got)
        self.assertEqual(got[1]['Retry-After'], '1')
        self.sim.ctl('POST', '/fault', {'match': {'service': 'prices'}, 'kind': 'truncate'})
        with self.assertRaises(Exception):
            http('GET', self.url + '/api/retail/prices')

    def test_pretended_effects_are_undone_and_the_operation_ends_well(self):
        where = self.group('pretend')
        self.sim.ctl('POST', '/fault', {'match': {'service': 'arm', 'action': 'PUT virtualMachines'}, 'kind': 'pretend'})
        status, headers, _ = self.arm('PUT', where + 'vm', COMPUTE, self.vm())
        self.assertEqual(status, 201)
        self.assertEqual(self.arm('GET', headers['Azure-AsyncOperation'], None)[2]['status'], 'Succeeded')
        self.assertEqual(self.arm('GET', where + 'vm', COMPUTE)[0], 404)
        self.assertEqual([r for r in self.sim.ctl('GET', '/azure/resources')['resources'] if '/pretend/' in r['id']], [])
        self.launched(where, 'vm')
        group = self.sub + '/resourceGroups/pretend'
        self.sim.ctl('POST', '/fault', {'match': {'service': 'arm', 'action': 'DELETE resourceGroups'}, 'kind': 'pretend'})
        status, headers, _ = self.arm('DELETE', group, '2021-04-01')
        self.assertEqual((status, self.arm('GET', headers['Location'], None)[0]), (202, 200))
        self.assertEqual(self.arm('GET', group, '2021-04-01')[2]['properties']['provisioningState'], 'Succeeded')
        self.assertEqual(self.arm('GET', where + 'vm', COMPUTE)[0], 200)

    def test_credentials_can_be_rotated_and_tokens_ended(self):
        old = self.keys['client_secret']
        new = self.sim.ctl('POST', '/azure/credentials', {'action': 'rotate'})['azure']['client_secret']
        self.assertEqual(self.login(old)[1]['error'], 'invalid_client')
        self.assertEqual(self.login(new)[0], 200)
        type(self).keys = dict(self.keys, client_secret=new)

    def test_an_operations_end_is_told_with_status_200(self):
        g = self.group('operation')
        self.sim.ctl('POST', '/azure/fail_create', {'code': 'OSProvisioningTimedOut', 'message': 'too late'})
        _, headers, doc = self.arm('PUT', g + 'f', COMPUTE, self.vm())
        self.assertEqual(doc['properties']['provisioningState'], 'Creating')
        while True:
            status, _, op = self.arm('GET', headers['Azure-AsyncOperation'], None)
            self.assertEqual(status, 200)
            if op['status'] != 'InProgress':
                break
        self.assertEqual((op['status'], op['error']['code']), ('Failed', 'OSProvisioningTimedOut'))
        self.assertEqual(self.sim.ctl('GET', '/state')['launches'][-1]['code'], 'OSProvisioningTimedOut')

    def test_placement_scores_follow_the_stock(self):
        path = '%s/providers/Microsoft.Compute/locations/%s/placementScores/spot/generate' % (self.sub, REGION)
        body = {'desiredLocations': [REGION], 'desiredSizes': [{'sku': SIZE}], 'desiredCount': 2, 'availabilityZones': True}
        self.sim.ctl('POST', '/stock', {'pool': 'azure/%s/2/%s/spot' % (REGION, SIZE), 'count': 2})
        self.sim.ctl('POST', '/stock', {'pool': 'azure/%s/3/%s/spot' % (REGION, SIZE), 'count': 0})
        _, _, doc = self.arm('POST', path, '2025-06-05', body)
        self.assertEqual({s['availabilityZone']: s['score'] for s in doc['placementScores']},
                         {'1': 'High', '2': 'Medium', '3': 'Low'})
        self.sim.ctl('POST', '/stock', {'pool': 'azure/*', 'count': None})
        body['desiredSizes'] *= 6
        self.refused('BadRequest', 400, self.arm('POST', path, '2025-06-05', body))


class Prices(Base):
    def rows(self, filter):
        url = '%s/api/retail/prices?%s' % (self.url, urllib.parse.urlencode({
            'api-version': '2023-01-01-preview', 'currencyCode': "'USD'", '$filter': filter}))
        out = []
        while url:
            status, _, text = http('GET', url)
            self.assertEqual(status, 200, text)
            doc = json.loads(text)
            out += doc['Items']
            url = doc['NextPageLink']
            if url:  # the query comes unencoded
                self.assertIn("$filter=serviceName eq '", url)
                self.assertRegex(url, r'^http://[^/]+:\d+/')
                head, query = url.split('?', 1)
                url = head + '?' + urllib.parse.quote(query, safe='=&$')
        return out

    def test_true_prices_stand_among_rows_to_leave_out(self):
        rows = self.rows("serviceName eq 'Virtual Machines' and armRegionName eq '%s'" % REGION)
        mine = [r for r in rows if r['armSkuName'] == SIZE]
        words = ' '.join(r['productName'] + r['meterName'] for r in mine)
        for trap in (' Win', ' Low Priority', 'CloudServices', 'Dedicated Host'):
            self.assertIn(trap, words)
        self.assertTrue({'Consumption', 'DevTestConsumption', 'Reservation'} <= {r['type'] for r in mine})
        self.assertTrue(any(r['retailPrice'] == 0 for r in mine))
        self.assertTrue(any(not r['isPrimaryMeterRegion'] for r in mine))
        self.assertTrue(any(r['effectiveStartDate'] > '2026-11' for r in mine))
        self.sim.ctl('POST', '/price', {'pool': {'provider': 'azure', 'region': REGION, 'type': SIZE, 'market': 'spot'},
                                        'usd': 1.25})
        spot = self.rows("serviceName eq 'Virtual Machines' and armRegionName eq '%s' and armSkuName eq '%s' and "
                         "priceType eq 'Consumption' and contains(meterName,'Spot')" % (REGION, SIZE))
        self.assertIn(1.25, [r['retailPrice'] for r in spot])

    def test_a_frozen_feed_tells_what_was(self):
        pool = {'provider': 'azure', 'region': REGION, 'type': SIZE, 'market': 'spot'}

        def told():
            return {r['retailPrice'] for r in self.rows(
                "serviceName eq 'Virtual Machines' and armRegionName eq '%s' and armSkuName eq '%s' and "
                "priceType eq 'Consumption' and contains(meterName,'Spot')" % (REGION, SIZE))}

        self.sim.ctl('POST', '/price', {'pool': pool, 'usd': 1.5})
        before = told()
        self.assertIn(1.5, before)
        self.sim.ctl('POST', '/feed', {'cloud': 'azure', 'frozen': True})
        self.sim.ctl('POST', '/price', {'pool': pool, 'usd': 1.75})
        self.assertEqual(told(), before)
        self.assertEqual({p['spot_micros'] for p in self.sim.ctl('GET', '/pools?pool=azure/%s/*/%s' % (REGION, SIZE))['pools']}, {1750000})
        self.sim.ctl('POST', '/feed', {'cloud': 'azure', 'frozen': False})
        self.assertIn(1.75, told())
        self.assertNotIn(1.5, told())

    def test_a_filter_that_is_none_is_refused(self):
        status, _, text = http('GET', self.url + '/api/retail/prices?$filter=' + urllib.parse.quote("colour eq 'red'"))
        self.assertEqual((status, json.loads(text)['error']['code']), (400, 'BadRequest'))


class Limits(Base):
    options = ('--seed', '42', '--boot-ms', '40', '--terminate-ms', '40')

    def test_the_front_door_counts_reads_and_answers_429_as_json_and_as_text(self):
        seen = set()
        for _ in range(600):
            status, headers, _ = self.raw('GET', self.sub + '/resourcegroups/shared', '2021-04-01')
            if status == 200:
                left = int(headers['x-ms-ratelimit-remaining-subscription-reads'])
                self.assertLess(left, 250)
            if status == 429:
                self.assertLess(left, 5)
                self.assertGreaterEqual(int(headers['Retry-After']), 1)
                seen.add(headers['Content-Type'].split(';')[0])
            if len(seen) == 2:
                break
        self.assertEqual(seen, {'application/json', 'text/plain'})


class Metadata(Base):
    options = ('--seed', '43', '--boot-ms', '40', '--terminate-ms', '40', '--no-throttle', '--agents')

    def meta(self, vm_id, path, headers=None, method='GET', body=None):
        url = 'http://127.0.0.1:%d/%s%s' % (self.sim.info['imds_port'], vm_id, path)
        status, _, text = http(method, url, body, dict({'Metadata': 'true'}, **(headers or {})))
        return status, json.loads(text) if text[:1] in (b'{', b'[') else text.decode()

    def test_the_program_runs_from_custom_data_and_finds_its_metadata(self):
        g = self.group('program')
        vm = self.launched(g, 'p', script='#!/bin/sh\necho "$AZURE_POD_IDENTITY_AUTHORITY_HOST" > "$HOME/tmp"\n'
                                           'mv "$HOME/tmp" "$HOME/host"\n')
        self.sim.wait('agent_started', instance=vm)
        home = self.sim.state(vm)['agent']['home']
        end = time.monotonic() + 60
        while not os.path.exists(os.path.join(home, 'host')):
            self.assertLess(time.monotonic(), end)
            select.select([], [], [], 0.01)
        with open(os.path.join(home, 'host')) as f:
            host = f.read().strip()
        status, _, text = http('GET', host + '/metadata/instance/compute?api-version=2021-02-01', None, {'Metadata': 'true'})
        doc = json.loads(text)
        self.assertEqual((status, doc['vmId'], doc['name'], doc['priority'], doc['zone']), (200, vm, 'p', 'Spot', '1'))

    def test_a_vm_that_powers_itself_off_is_stopped_and_still_billed(self):
        g = self.group('off')
        vm = self.launched(g, 'o', script='#!/bin/sh\npoweroff\n')
        self.sim.wait('stopped', instance=vm)
        _, _, doc = self.arm('GET', g + 'o/instanceView', COMPUTE)
        self.assertIn('PowerState/stopped', [s['code'] for s in doc['statuses']])
        self.assertIn(vm, self.sim.ctl('GET', '/books')['left'])

    def test_requests_without_the_header_or_through_a_proxy_are_refused(self):
        vm = self.launched(self.group('header'), 'h')
        path = '/metadata/instance?api-version=2021-02-01'
        self.assertEqual(self.meta(vm, path, {'Metadata': 'no'})[0], 400)
        self.assertEqual(self.meta(vm, path, {'X-Forwarded-For': '10.0.0.1'})[0], 403)
        self.assertEqual(self.meta(vm, '/metadata/instance')[0], 400)
        self.assertEqual(self.meta(vm, '/metadata/instance/compute/name?api-version=2021-02-01&format=text'), (200, 'h'))

    def test_a_preemption_shows_as_an_event_that_can_be_started(self):
        vm = self.launched(self.group('events'), 'e')
        path = '/metadata/scheduledevents?api-version=2020-07-01'
        _, first = self.meta(vm, path)
        self.assertEqual(first['Events'], [])
        self.sim.ctl('POST', '/reclaim', {'instance': vm, 'notice_s': 60})
        _, doc = self.meta(vm, path)
        self.assertGreater(doc['DocumentIncarnation'], first['DocumentIncarnation'])
        event = doc['Events'][0]
        self.assertEqual((event['EventType'], event['EventStatus'], event['Resources']), ('Preempt', 'Scheduled', ['e']))
        self.assertRegex(event['NotBefore'], r'^\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT$')
        self.assertEqual(self.meta(vm, path, method='POST', body=b'{"x"')[0], 400)
        body = json.dumps({'StartRequests': [{'EventId': event['EventId']}]}).encode()
        self.assertEqual(self.meta(vm, path, method='POST', body=body)[0], 200)
        _, doc = self.meta(vm, path)
        self.assertEqual((doc['Events'][0]['EventStatus'], doc['Events'][0]['NotBefore']), ('Started', ''))
        self.sim.wait('terminated', instance=vm)

    def test_the_attested_document_is_signed_below_the_ca_and_has_the_nonce(self):
        vm = self.launched(self.group('attested'), 'a')
        _, doc = self.meta(vm, '/metadata/attested/document?api-version=2021-02-01&nonce=1234567890')
        with tempfile.TemporaryDirectory() as tmp:
            name = os.path.join(tmp, 'p7')
            with open(name, 'wb') as f:
                f.write(base64.b64decode(doc['signature']))
            out = subprocess.run(['openssl', 'cms', '-verify', '-inform', 'DER', '-in', name, '-CAfile',
                                  self.sim.info['urls']['azure_ca'], '-purpose', 'any', '-binary'],
                                 capture_output=True, check=True).stdout
        inner = json.loads(out)
        self.assertEqual((inner['nonce'], inner['vmId'], inner['subscriptionId']),
                         ('1234567890', vm, self.keys['subscription_id']))
        self.assertTrue(re.match(r'\d\d/\d\d/\d\d [\d:]{8} -0000$', inner['timeStamp']['expiresOn']))

    def test_a_managed_identitys_token_has_texts_for_numbers_and_no_rights_in_arm(self):
        g = self.group('identity')
        ids = self.sub + '/resourceGroups/identity/providers/Microsoft.ManagedIdentity/userAssignedIdentities/agent'
        self.arm('PUT', ids, '2023-01-31', {'location': REGION})
        body = dict(self.vm(), identity={'type': 'UserAssigned', 'userAssignedIdentities': {ids: {}}})
        vm = self.arm('PUT', g + 'i', COMPUTE, body)[2]['properties']['vmId']
        self.sim.wait('running', instance=vm)
        path = '/metadata/identity/oauth2/token?api-version=2018-02-01&resource='
        status, doc = self.meta(vm, path + urllib.parse.quote('https://management.azure.com/', safe=''))
        self.assertEqual((status, doc['expires_in'], type(doc['expires_on'])), (200, '86399', str))
        got = self.arm('GET', self.sub + '/resourcegroups', '2021-04-01',
                       headers={'Authorization': 'Bearer ' + doc['access_token']})
        self.refused('AuthorizationFailed', 403, got)
        bare = self.launched(g, 'bare')
        self.assertEqual(self.meta(bare, path + 'x')[0], 400)


if __name__ == '__main__':
    unittest.main()
