#!/usr/bin/env python3
"""azure-identity, azure-mgmt-compute, -network, -resource and -resourcegraph, unpatched, drive cloudsim's Azure. Each
reply of Resource Manager is also compared with the models of the SDK that read it (azure_models.py). argv[1] is the
emulator's program."""
import datetime
import json
import re
import time
import unittest

import azure_base  # first: it says when the packages are not there  # noqa: F401
import jwt
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.identity import CertificateCredential, ClientAssertionCredential, ClientSecretCredential
from azure_base import MODELS, REGION, SIZE, Base
from azure_models import complaints
from world import exchange as http
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

UTC = datetime.timezone.utc


class Login(Base):
    def test_a_wrong_secret_is_refused_with_the_vendors_code(self):
        with self.assertRaises(ClientAuthenticationError) as got:
            self.secret_credential('nope').get_token('https://management.azure.com/.default')
        self.assertIn('AADSTS7000215', str(got.exception))

    def test_an_unknown_app_is_refused(self):
        cred = ClientSecretCredential(self.keys['tenant_id'], 'c0ffee00-0000-4000-8000-000000000000', 'x',
                                      authority=self.urls['azure_tls'], disable_instance_discovery=True)
        with self.assertRaises(ClientAuthenticationError) as got:
            cred.get_token('https://management.azure.com/.default')
        self.assertIn('AADSTS700016', str(got.exception))

    def test_tokens_are_signed_by_a_key_of_the_published_set(self):
        token = self.cred.get_token('https://management.azure.com/.default').token
        _, _, text = http('GET', '%s/%s/discovery/v2.0/keys' % (self.urls['azure'], self.keys['tenant_id']))
        key = jwt.PyJWK(json.loads(text)['keys'][0])
        claims = jwt.decode(token, key.key, algorithms=['RS256'], audience='https://management.azure.com')
        self.assertEqual(claims['tid'], self.keys['tenant_id'])

    def certificate(self):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'broker')])
        now = datetime.datetime.now(UTC)
        cert = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                .serial_number(7).not_valid_before(now - datetime.timedelta(hours=1))
                .not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256()))
        pem = cert.public_bytes(serialization.Encoding.PEM)
        return key, pem, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption())

    def test_a_certificate_is_taken_once_it_is_registered(self):
        _, cert, key = self.certificate()

        def token():
            return CertificateCredential(self.keys['tenant_id'], self.keys['client_id'], certificate_data=cert + key,
                                         authority=self.urls['azure_tls'],
                                         disable_instance_discovery=True).get_token('https://management.azure.com/.default')
        with self.assertRaises(ClientAuthenticationError):
            token()
        self.sim.ctl('POST', '/azure/trust', {'certificate_pem': cert.decode()})
        self.assertGreater(token().expires_on, time.time())

    def federated(self, key, **more):
        now = int(time.time())
        claims = dict({'iss': 'https://oidc.example/cluster', 'sub': 'system:serviceaccount:spot:spotd',
                       'aud': 'api://AzureADTokenExchange', 'iat': now, 'nbf': now, 'exp': now + 600}, **more)
        text = jwt.encode(claims, key, algorithm='RS256')
        return ClientAssertionCredential(self.keys['tenant_id'], self.keys['client_id'], lambda: text,
                                         authority=self.urls['azure_tls'],
                                         disable_instance_discovery=True).get_token('https://management.azure.com/.default')

    def test_a_federated_assertion_needs_issuer_subject_audience_time_and_signature(self):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = key.public_key().public_bytes(serialization.Encoding.PEM,
                                               serialization.PublicFormat.SubjectPublicKeyInfo).decode()
        self.sim.ctl('POST', '/azure/trust', {'issuer': 'https://oidc.example/cluster',
                                              'subject': 'system:serviceaccount:spot:spotd', 'public_key_pem': public})
        self.assertTrue(self.federated(key).token)
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        for k, more, code in ((other, {}, '700027'), (key, {'sub': 'x'}, '700213'), (key, {'aud': 'x'}, '700212'),
                              (key, {'exp': int(time.time()) - 60}, '700024')):
            with self.assertRaises(ClientAuthenticationError) as got:
                self.federated(k, **more)
            self.assertIn('AADSTS' + code, str(got.exception))

    def test_an_expired_token_is_refused(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'arm'}, 'kind': 'expired_credentials', 'count': 2})
        with self.assertRaises(ClientAuthenticationError) as got:
            self.resource.resource_groups.get('shared')
        self.assertEqual(got.exception.error.code, 'ExpiredAuthenticationToken')
        self.sim.ctl('DELETE', '/fault')


class Machines(Base):
    def test_a_spot_vm_is_made_shown_listed_and_deleted_with_all_its_parts(self):
        g = self.group('life')
        vm = self.create(g, 'l-77').result()
        self.assertEqual((vm.provisioning_state, vm.priority, vm.zones), ('Succeeded', 'Spot', ['1']))
        view = self.compute.virtual_machines.get(g, 'l-77', expand='instanceView')
        self.assertIn('PowerState/running', [s.code for s in view.instance_view.statuses])
        self.assertIsNone(vm.os_profile.custom_data)
        self.assertEqual([x.name for x in self.compute.virtual_machines.list(g)], ['l-77'])
        self.assertIn('l-77', [x.name for x in self.compute.virtual_machines.list_all()])
        nic = self.network.network_interfaces.get(g, vm.network_profile.network_interfaces[0].id.split('/')[-1])
        self.assertEqual(nic.virtual_machine.id.lower(), vm.id.lower())
        pip = self.network.public_ip_addresses.get(g, nic.ip_configurations[0].public_ip_address.id.split('/')[-1])
        self.assertTrue(pip.ip_address.startswith('203.0.113.'))
        disk = self.compute.disks.get(g, vm.storage_profile.os_disk.name)
        self.assertEqual((disk.disk_state, disk.managed_by), ('Attached', vm.id))
        self.compute.virtual_machines.begin_delete(g, 'l-77', force_deletion=True).result()
        with self.assertRaises(ResourceNotFoundError):
            self.compute.virtual_machines.get(g, 'l-77')
        self.assertEqual([x.id for x in self.resource.resources.list_by_resource_group(g)], [])

    def test_the_same_put_again_changes_nothing(self):
        g = self.group('again')
        first = self.create(g, 'a').result()
        second = self.create(g, 'a').result()
        self.assertEqual(first.vm_id, second.vm_id)
        self.assertEqual(len(list(self.network.network_interfaces.list(g))), 1)
        self.fails('PropertyChangeNotAllowed', 409, self.create, g, 'a', zone='2')
        self.fails('PreconditionFailed', 412, self.compute.virtual_machines.begin_create_or_update, g, 'a', self.body(),
                   if_none_match='*')

    def test_a_shortage_in_a_zone_fails_in_the_operation_and_leaves_the_parts(self):
        g = self.group('short')
        self.sim.ctl('POST', '/stock', {'pool': 'azure/%s/2/%s/spot' % (REGION, SIZE), 'count': 0})
        with self.assertRaises(HttpResponseError) as got:
            self.create(g, 's', zone='2').result()
        self.assertEqual(got.exception.error.code, 'ZonalAllocationFailed')
        vm = self.compute.virtual_machines.get(g, 's', expand='instanceView')
        self.assertEqual(vm.provisioning_state, 'Failed')
        self.assertIn('ProvisioningState/failed/ZonalAllocationFailed', [s.code for s in vm.instance_view.statuses])
        kinds = sorted(x.type.split('/')[-1] for x in self.resource.resources.list_by_resource_group(g))
        self.assertEqual(kinds, ['disks', 'networkInterfaces', 'publicIPAddresses', 'virtualMachines'])
        self.compute.virtual_machines.begin_delete(g, 's').result()
        self.assertEqual(list(self.resource.resources.list_by_resource_group(g)), [])

    def test_a_shortage_without_a_zone_is_told_at_once(self):
        g = self.group('noroom')
        self.sim.ctl('POST', '/stock', {'pool': {'provider': 'azure', 'region': REGION, 'type': SIZE, 'market': 'spot'},
                                        'count': 0})
        self.fails('SkuNotAvailable', 409, self.create, g, 'n', zone=None)
        self.sim.ctl('POST', '/stock', {'pool': 'azure/%s/*/%s/spot' % (REGION, SIZE), 'count': None})

    def test_parts_to_be_kept_stay_and_a_failed_vms_nic_is_reserved(self):
        g = self.group('orphans')
        body = self.body(zone='3')
        body['network_profile']['network_interface_configurations'][0]['delete_option'] = 'Detach'
        body['storage_profile']['os_disk']['delete_option'] = 'Detach'
        self.sim.ctl('POST', '/azure/fail_create', {'code': 'OSProvisioningTimedOut', 'message': 'late', 'count': 1})
        with self.assertRaises(HttpResponseError):
            self.compute.virtual_machines.begin_create_or_update(g, 'o', body).result()
        nic = list(self.network.network_interfaces.list(g))[0].name
        self.fails('NicInUse', 400, self.network.network_interfaces.begin_delete, g, nic)
        self.compute.virtual_machines.begin_delete(g, 'o').result()
        self.fails('NicReservedForAnotherVm', 400, self.network.network_interfaces.begin_delete, g, nic)
        self.assertEqual([d.disk_state for d in self.compute.disks.list_by_resource_group(g)], ['Unattached'])
        left = self.sim.ctl('GET', '/books')['left']
        self.assertTrue(any(nic in x for x in left) and any('disks' in x for x in left), left)
        self.resource.resource_groups.begin_delete(g).result()
        self.assertFalse(any('/orphans/' in x for x in self.sim.ctl('GET', '/books')['left']))

    def test_quota_of_the_spot_pool_has_the_vendors_words(self):
        g = self.group('quota')
        self.sim.ctl('POST', '/quota', {'provider': 'azure', 'region': REGION, 'code': 'lowPriorityCores', 'vcpus': 30})
        e = self.fails('OperationNotAllowed', 409, self.create, g, 'q')
        self.assertRegex(e.message, r'approved LowPriorityCores quota.*Current Limit: 30, Current Usage: \d+, Additional '
                                    r'Required: 40')
        usage = {u.name.value: u.limit for u in self.compute.usage.list(REGION)}
        self.assertEqual(usage['lowPriorityCores'], 30)
        self.assertEqual(self.create(g, 'regular', spot=False).result().priority, None)
        self.sim.ctl('POST', '/quota', {'provider': 'azure', 'region': REGION, 'code': 'lowPriorityCores', 'vcpus': 100000})
        self.resource.resource_groups.begin_delete(g).result()

    def test_an_eviction_takes_the_vm_or_deallocates_it(self):
        g = self.group('evicted')
        self.create(g, 'e1').result()
        self.create(g, 'e2', eviction_policy='Deallocate').result()
        used = {u.name.value: u.current_value for u in self.compute.usage.list(REGION)}['lowPriorityCores']
        for name in ('e1', 'e2'):
            i = [x for x in self.sim.ctl('GET', '/state?live=1')['instances'] if x.get('name') == name][0]
            self.sim.ctl('POST', '/reclaim', {'instance': i['id'], 'notice_s': 0.2})
            self.sim.wait('notice', instance=i['id'])
            self.sim.wait('terminated', instance=i['id'])
        with self.assertRaises(ResourceNotFoundError):
            self.compute.virtual_machines.get(g, 'e1')
        view = self.compute.virtual_machines.instance_view(g, 'e2')
        self.assertIn('PowerState/deallocated', [s.code for s in view.statuses])
        now = {u.name.value: u.current_value for u in self.compute.usage.list(REGION)}['lowPriorityCores']
        self.assertEqual(used - now, 40)
        self.compute.virtual_machines.begin_delete(g, 'e2').result()
        self.assertEqual(list(self.compute.virtual_machines.list(g)), [])

    def test_simulated_eviction_gives_a_notice(self):
        g = self.group('simulated')
        vm = self.create(g, 'sim').result()
        self.compute.virtual_machines.simulate_eviction(g, 'sim')
        self.assertEqual(self.sim.wait('notice', instance=vm.vm_id)[0]['instance'], vm.vm_id)
        self.resource.resource_groups.begin_delete(g, force_deletion_types='Microsoft.Compute/virtualMachines').result()

    def test_tags_are_patched_and_a_vm_is_stopped_started_and_resized(self):
        group, vms = self.group('g-life'), self.compute.virtual_machines
        body = self.body(spot=False, zone=None)
        del body['storage_profile']['os_disk']  # the service makes one
        vms.begin_create_or_update(group, 'vm', body).result()

        def power():
            return [x.code for x in vms.instance_view(group, 'vm').statuses][-1]

        self.assertEqual(self.resource.resource_groups.update(group, {'tags': {'a': 'b'}}).tags, {'a': 'b'})
        self.assertEqual(vms.begin_update(group, 'vm', {'tags': {'c': 'd'}}).result().tags, {'c': 'd'})
        vms.begin_power_off(group, 'vm').result()
        self.assertEqual(power(), 'PowerState/stopped')
        vms.begin_start(group, 'vm').result()
        self.assertEqual(power(), 'PowerState/running')
        bigger = {'hardware_profile': {'vm_size': 'Standard_NC80adis_H100_v5'}}
        self.fails('OperationNotAllowed', 409, vms.begin_update, group, 'vm', bigger)
        vms.begin_deallocate(group, 'vm').result()
        self.assertEqual(power(), 'PowerState/deallocated')
        vms.begin_update(group, 'vm', bigger).result()
        vms.begin_start(group, 'vm').result()
        self.assertEqual(power(), 'PowerState/running')
        disk = self.compute.disks.begin_create_or_update(group, 'd', {
            'location': REGION, 'creation_data': {'create_option': 'Empty'}, 'disk_size_gb': 64}).result()
        self.assertEqual(disk.disk_state, 'Unattached')
        self.assertEqual(self.compute.disks.begin_update(group, 'd', {'tags': {'e': 'f'}}).result().tags, {'e': 'f'})
        self.resource.resource_groups.begin_delete(group, force_deletion_types='Microsoft.Compute/virtualMachines').result()

    def test_invalid_requests_are_refused(self):
        g = self.group('wrong')
        self.fails('EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines', 400, self.create, g, 'w', spot=False,
                   eviction_policy='Delete')
        self.fails('MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines', 400, self.create, g, 'w', spot=False,
                   billing_profile={'max_price': -1})
        self.fails('MaxPriceValueInvalid', 400, self.create, g, 'w', billing_profile={'max_price': 0})
        self.fails('SpotPriceGreaterThanProvidedMaxPrice', 409, self.create, g, 'w', billing_profile={'max_price': 0.01})
        self.fails('InvalidParameter', 400, self.create, g, 'w', hardware_profile={'vm_size': 'Standard_Nothing'})
        self.fails('AzureSpotIsNotSupportedForThisVMSize', 409, self.create, g, 'w', zone=None,
                   hardware_profile={'vm_size': 'Standard_NCC40ads_H100_v5'})
        self.fails('ResourceGroupNotFound', 404, self.create, 'nowhere', 'w')
        body = self.body()
        del body['network_profile']['network_api_version']
        self.fails('InvalidParameter', 400, self.compute.virtual_machines.begin_create_or_update, g, 'w', body)
        body = self.body()
        body['network_profile']['network_interface_configurations'][0]['ip_configurations'][0]['subnet']['id'] += 'x'
        self.fails('InvalidResourceReference', 400, self.compute.virtual_machines.begin_create_or_update, g, 'w', body)
        body = self.body()
        body['storage_profile']['image_reference']['sku'] = '1804'
        self.fails('PlatformImageNotFound', 404, self.compute.virtual_machines.begin_create_or_update, g, 'w', body)
        self.assertEqual(list(self.resource.resources.list_by_resource_group(g)), [])

    def test_a_group_goes_with_all_in_it_and_refuses_meanwhile(self):
        g = self.group('whole')
        self.create(g, 'w1').result()
        self.sim.ctl('POST', '/config', {'terminate_ms': 1500})
        poller = self.resource.resource_groups.begin_delete(g, force_deletion_types='Microsoft.Compute/virtualMachines')
        self.assertEqual(self.resource.resource_groups.get(g).properties.provisioning_state, 'Deleting')
        self.fails('ResourceGroupBeingDeleted', 409, self.create, g, 'w2')
        poller.result()
        self.sim.ctl('POST', '/config', {'terminate_ms': 50})
        with self.assertRaises(ResourceNotFoundError):
            self.resource.resource_groups.get(g)

    def test_lists_page_and_the_first_page_may_be_empty(self):
        g = self.group('pages')
        for k in range(5):
            self.create(g, 'p%d' % k).result()
        self.sim.ctl('POST', '/azure/config', {'page': 2})
        pages = [list(p) for p in self.compute.virtual_machines.list(g).by_page()]
        self.assertEqual([len(p) for p in pages], [0, 2, 2, 1])
        found = self.resource.resources.list(filter="tagName eq 'lease' and tagValue eq 'l-77'", expand='createdTime')
        rows = [r for r in found if '/pages/' in r.id]
        self.assertEqual(len(rows), 10)
        self.assertTrue(all(r.tags is None and r.created_time for r in rows))
        self.sim.ctl('POST', '/azure/config', {'page': 50})
        groups = {x.name: x.tags for x in self.resource.resource_groups.list(filter="tagName eq 'broker'")}
        self.assertEqual(groups['pages'], {'broker': 'prod-1'})
        self.resource.resource_groups.begin_delete(g).result()

    def test_sizes_are_told_by_region_with_their_traps(self):
        rows = list(self.compute.resource_skus.list(filter="location eq '%s'" % REGION))
        vms = {r.name: r for r in rows if r.resource_type == 'virtualMachines'}
        self.assertTrue(any(r.resource_type != 'virtualMachines' for r in rows))
        self.assertEqual(vms[SIZE].locations, ['EastUS2'])
        caps = {c.name: c.value for c in vms[SIZE].capabilities}
        self.assertEqual((caps['vCPUs'], caps['GPUs'], caps['LowPriorityCapable']), ('40', '1', 'True'))
        self.assertEqual({c.name: c.value for c in vms['Standard_NV6ads_A10_v5'].capabilities}['GPUs'], '1')
        self.sim.ctl('POST', '/azure/restrict', {'region': REGION, 'type': SIZE, 'zone': '3'})
        vm = [r for r in self.compute.resource_skus.list(filter="location eq '%s'" % REGION) if r.name == SIZE][0]
        self.assertEqual((vm.restrictions[0].type, vm.restrictions[0].restriction_info.zones), ('Zone', ['3']))
        self.fails('SkuNotAvailable', 409, self.create, self.group('restricted'), 'r', zone='3')
        self.sim.ctl('POST', '/azure/restrict', {'region': REGION, 'type': SIZE, 'zone': '3', 'reason': 'none'})

    def test_a_new_resource_may_be_missing_for_a_while(self):
        g = self.group('lag')
        self.sim.ctl('POST', '/config', {'lag_ms': 400})
        self.create(g, 'late')
        with self.assertRaises(ResourceNotFoundError):
            self.compute.virtual_machines.get(g, 'late')
        self.assertEqual(list(self.compute.virtual_machines.list(g)), [])
        self.sim.ctl('POST', '/config', {'lag_ms': 0})

    @classmethod
    def tearDownClass(cls):
        bad = []
        checked = set()
        for path, status, doc in cls.recorder.seen:
            for pattern, model in MODELS:
                if status < 300 and re.search(pattern, path):
                    checked.add(model.__name__)
                    bad += ['%s: %s' % (path, x) for x in complaints(model, doc)]
                    break
        assert not bad, '\n'.join(sorted(set(bad))[:40])
        assert len(checked) >= 12, checked


class Graph(Base):
    def query(self, text, **options):
        return self.graph.resources({'subscriptions': [self.sub], 'query': text,
                                     'options': dict({'resultFormat': 'objectArray'}, **options)})

    def test_eviction_rates_and_price_history(self):
        got = self.query("SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
                         "| where sku.name in~ ('%s') and location in~ ('eastus2', 'westus3') "
                         "| project sku=tostring(sku.name), location, rate=tostring(properties.evictionRate) "
                         "| order by location asc" % SIZE)
        self.assertEqual([(r['sku'], r['location']) for r in got.data], [(SIZE.lower(), 'eastus2'), (SIZE.lower(), 'westus3')])
        self.assertTrue(all(r['rate'] in ('0-5', '5-10', '10-15', '15-20', '20+') for r in got.data))
        self.assertEqual(got.result_truncated, 'false')
        got = self.query("SpotResources | where type =~ 'microsoft.compute/skuspotpricehistory/ostype/location' "
                         "| where sku.name =~ '%s' and properties.osType =~ 'linux' and location =~ '%s' "
                         "| project prices=properties.spotPrices" % (SIZE, REGION))
        self.assertEqual(len(got.data), 1)
        newest = got.data[0]['prices'][0]
        self.assertGreater(newest['priceUSD'], 0)
        self.assertGreaterEqual(newest['effectiveDate'], got.data[0]['prices'][-1]['effectiveDate'])

    def test_rows_are_ordered_by_several_columns(self):
        rows = self.graph.resources({'subscriptions': [self.sub], 'query': (
            "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
            "| project skuName = tostring(sku.name), location | order by skuName asc, location desc")}).data
        want = sorted(sorted(rows, key=lambda r: r['location'], reverse=True), key=lambda r: r['skuName'])
        self.assertEqual(rows, want)
        self.assertGreater(len({r['skuName'] for r in rows}), 1)

    def test_pages_by_skip_token(self):
        text = "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' | project id | order by id asc"
        seen, token = [], None
        while True:
            got = self.query(text, **dict({'$top': 100}, **({'$skipToken': token} if token else {})))
            seen += [r['id'] for r in got.data]
            token = got.skip_token
            if not token:
                break
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(len(seen), got.total_records)
        self.assertGreater(len(seen), 500)

    def test_resources_by_tag_and_preemptions(self):
        self.resource.resource_groups.create_or_update('graph', {'location': REGION})
        vm = self.create('graph', 'g1').result()
        got = self.query("Resources | where tags['broker'] == 'prod-1' | project id, type, tags, "
                         "created=properties.timeCreated")
        self.assertIn(vm.id, [r['id'] for r in got.data])
        self.sim.ctl('POST', '/reclaim', {'instance': vm.vm_id, 'notice_s': 0})
        self.sim.wait('terminated', instance=vm.vm_id)
        got = self.query("healthresources | where type =~ 'microsoft.resourcehealth/resourceannotations' "
                         "| where properties.annotationName == 'VirtualMachinePreempted' | project id, properties")
        self.assertEqual(len(got.data), 1)
        self.assertEqual(got.data[0]['properties']['context'], 'Platform Initiated')

    def test_a_query_that_is_none_is_refused(self):
        with self.assertRaises(HttpResponseError) as got:
            self.query('SpotResources | wheer x == 1')
        self.assertEqual(got.exception.error.code, 'BadRequest')


if __name__ == '__main__':
    unittest.main()
