#!/usr/bin/env python3
"""Azure's SDKs, and common calls other than create, list and delete: power, run command, images, sizes, sets, subnets,
rules, providers. Every reply that has a model here is compared with it (azure_models.py). argv[1] is the emulator's
program."""
import re
import unittest

import azure_base  # first: it says when the packages are not there  # noqa: F401
from azure.core.exceptions import ResourceNotFoundError
from azure_base import MODELS, REGION, SIZE, Base, compute_models, graph_models, network_models, resource_models
from azure_models import complaints

MORE = [
    (r'/subnets/[^/]+$', network_models.Subnet), (r'/subnets$', network_models.SubnetListResult),
    (r'/securityRules/[^/]+$', network_models.SecurityRule), (r'/securityRules$', network_models.SecurityRuleListResult),
    (r'/vmSizes$', compute_models.VirtualMachineSizeListResult), (r'/versions/[^/]+$', compute_models.VirtualMachineImage),
    (r'/publishers(/|$)', None),  # bare arrays
    (r'/subscriptions/[^/]+/providers$', resource_models.ProviderListResult),
    (r'/availabilitySets$', compute_models.AvailabilitySetListResult),
    (r'/virtualMachineScaleSets$', compute_models.VirtualMachineScaleSetListResult),
    (r'/operations/[^/]+$', None), (r'/DiskOperations/[^/]+$', None),
    (r'/Microsoft.ResourceGraph/resources$', graph_models.QueryResponse),
]


class Checked(Base):
    least = 1

    @classmethod
    def tearDownClass(cls):
        bad, checked = [], set()
        for path, status, doc in cls.recorder.seen:
            for pattern, model in MORE + MODELS:
                if status < 300 and re.search(pattern, path):
                    if model:
                        checked.add(model.__name__)
                        bad += ['%s: %s' % (path, x) for x in complaints(model, doc)]
                    break
        assert not bad, '\n'.join(sorted(set(bad))[:40])
        assert len(checked) >= cls.least, checked


class Machines(Checked):
    least = 4

    def power(self, g, n):
        v = self.compute.virtual_machines.instance_view(g, n)
        return [s.code for s in v.statuses if s.code.startswith('PowerState/')][0]

    def test_power_run_command_and_redeploy(self):
        g = self.group('power')
        self.create(g, 'p-1').result()
        vms = self.compute.virtual_machines
        out = vms.begin_run_command(g, 'p-1', {'command_id': 'RunShellScript', 'script': ['true']}).result()
        self.assertEqual((out.value[0].code, out.value[0].level), ('ProvisioningState/succeeded', 'Info'))
        self.fails('RunCommandDocumentNotFound', 404, vms.begin_run_command, g, 'p-1', {'command_id': 'NoSuch'})
        vms.begin_redeploy(g, 'p-1').result()
        vms.begin_restart(g, 'p-1').result()
        vms.begin_power_off(g, 'p-1').result()
        self.assertEqual(self.power(g, 'p-1'), 'PowerState/stopped')
        self.fails('OperationNotAllowed', 409, vms.begin_run_command, g, 'p-1', {'command_id': 'RunShellScript'})
        vms.begin_start(g, 'p-1').result()
        self.assertEqual(self.power(g, 'p-1'), 'PowerState/running')
        vms.begin_deallocate(g, 'p-1').result()
        self.fails('OperationNotAllowed', 409, vms.begin_redeploy, g, 'p-1')
        self.assertIn('p-1', [v.name for v in vms.list_by_location(REGION)])
        self.assertEqual([v.name for v in vms.list_by_location('westus3')], [])
        self.assertIn(SIZE, [s.name for s in vms.list_available_sizes(g, 'p-1')])
        vms.begin_delete(g, 'p-1').result()

    def test_a_disk_of_its_own_and_what_is_in_use(self):
        g = self.group('inuse')
        self.create(g, 'u-1').result()
        disks = self.compute.disks
        disks.begin_create_or_update(g, 'd1', {'location': REGION, 'creation_data': {'create_option': 'Empty'}, 'disk_size_gb': 8}).result()
        disks.begin_delete(g, 'd1').result()
        self.assertNotIn('d1', [d.name for d in disks.list_by_resource_group(g)])
        attached = [d.name for d in disks.list_by_resource_group(g)][0]
        self.fails('OperationNotAllowed', 409, disks.begin_delete, g, attached)
        self.fails('InUseSubnetCannotBeDeleted', 400, self.network.virtual_networks.begin_delete, 'shared', 'net')
        self.fails('InUseNetworkSecurityGroupCannotBeDeleted', 400, self.network.network_security_groups.begin_delete, 'shared', 'nsg')
        put = self.compute.virtual_machines.begin_create_or_update
        etag = self.compute.virtual_machines.get(g, 'u-1').etag
        put(g, 'u-1', self.body(), headers={'If-Match': etag}).result()
        self.fails('PreconditionFailed', 412, put, g, 'u-1', self.body(), headers={'If-Match': '"another"'})
        self.fails('PreconditionFailed', 412, put, g, 'u-2', self.body(), headers={'If-Match': '*'})
        self.resource.resource_groups.begin_delete(g).result()

    def test_a_proximity_placement_group_is_in_use_while_a_machine_refers_to_it(self):
        near, g = self.group('near'), self.group('near-vm')
        groups = self.compute.proximity_placement_groups
        self.fails('InvalidParameter', 400, groups.create_or_update, near, 'p', {'location': REGION, 'proximity_placement_group_type': 'Odd'})
        made = groups.create_or_update(near, 'p', {'location': REGION, 'proximity_placement_group_type': 'Standard'})
        again = groups.create_or_update(near, 'p', {'location': REGION, 'proximity_placement_group_type': 'Standard'})
        self.assertEqual(made.id, again.id)
        self.fails('InvalidResourceReference', 400, self.create, g, 'vm0', proximity_placement_group={'id': made.id + 'x'})
        vm = self.create(g, 'vm1', proximity_placement_group={'id': made.id}).result()
        self.assertEqual(vm.proximity_placement_group.id, made.id)
        self.assertEqual([v.id.lower() for v in groups.get(near, 'p').virtual_machines], [vm.id.lower()])
        self.fails('OperationNotAllowed', 409, groups.delete, near, 'p')
        self.fails('OperationNotAllowed', 409, self.resource.resource_groups.begin_delete, near)
        self.resource.resource_groups.begin_delete(g).result()
        self.resource.resource_groups.begin_delete(near).result()
        self.assertEqual(list(groups.list_by_subscription()), [])

    def test_resource_graph_counts_and_tables(self):
        g = self.group('graph')
        self.create(g, 'q-1').result()

        def ask(query, form='objectArray'):
            return self.graph.resources({'subscriptions': [self.sub], 'query': query, 'options': {'resultFormat': form}}).data
        mine = "Resources | where resourceGroup =~ 'graph'"
        self.assertEqual(ask(mine + ' | count'), [{'Count': 4}])
        self.assertEqual(ask(mine + " and type =~ 'microsoft.compute/virtualmachines' | summarize n=count() by location"),
                         [{'location': REGION, 'n': 1}])
        self.assertEqual(ask("Resources | where name == 'nobody' | summarize count()"), [{'count_': 0}])
        self.assertEqual(ask(mine + " and name == 'q-1' | extend up=location | project up, tags.lease | take 1"),
                         [{'up': REGION, 'tags_lease': 'l-77'}])
        self.assertEqual(ask(mine + " and name == 'q-1' | project name, zones", 'table'),
                         {'columns': [{'name': 'name', 'type': 'string'}, {'name': 'zones', 'type': 'object'}], 'rows': [['q-1', ['1']]]})
        self.resource.resource_groups.begin_delete(g).result()

    def test_sizes_of_a_region(self):
        s = {x.name: x for x in self.compute.virtual_machine_sizes.list(REGION)}[SIZE]
        self.assertEqual(s.number_of_cores, 40)
        self.fails('NoRegisteredProviderFound', 400, lambda: list(self.compute.virtual_machine_sizes.list('moon')))

    def test_images(self):
        i = self.compute.virtual_machine_images
        self.assertIn('canonical', [p.name for p in i.list_publishers(REGION)])
        self.assertEqual([o.name for o in i.list_offers(REGION, 'microsoft-dsvm')], ['ubuntu-hpc'])
        self.assertIn('2204', [s.name for s in i.list_skus(REGION, 'microsoft-dsvm', 'ubuntu-hpc')])
        v = [x.name for x in i.list(REGION, 'microsoft-dsvm', 'ubuntu-hpc', '2204')]
        self.assertEqual(len(v), 1)
        one = i.get(REGION, 'microsoft-dsvm', 'ubuntu-hpc', '2204', v[0])
        self.assertEqual((one.hyper_v_generation, one.os_disk_image.operating_system), ('V2', 'Linux'))
        self.fails('NotFound', 404, i.list_offers, REGION, 'nobody')
        self.fails('NotFound', 404, i.get, REGION, 'microsoft-dsvm', 'ubuntu-hpc', '2204', '1.2.3')

    def test_sets_are_none_and_forbidden(self):
        g = self.group('sets')
        self.assertEqual(list(self.compute.availability_sets.list(g)), [])
        self.assertEqual(list(self.compute.availability_sets.list_by_subscription()), [])
        self.assertEqual(list(self.compute.virtual_machine_scale_sets.list(g)), [])
        self.assertEqual(list(self.compute.virtual_machine_scale_sets.list_all()), [])
        self.fails('RequestDisallowedByPolicy', 403, self.compute.availability_sets.create_or_update, g, 'a', {
            'location': REGION, 'sku': {'name': 'Aligned'}, 'platform_fault_domain_count': 2})
        self.fails('RequestDisallowedByPolicy', 403, self.compute.virtual_machine_scale_sets.begin_create_or_update, g, 'a', {
            'location': REGION, 'sku': {'name': SIZE, 'capacity': 2}})
        with self.assertRaises(ResourceNotFoundError):
            self.compute.availability_sets.get(g, 'a')


class Network(Checked):
    least = 5

    def test_subnets_by_their_own_address(self):
        s = self.network.subnets
        made = s.begin_create_or_update('shared', 'net', 'second', {'address_prefix': '10.1.0.0/16'}).result()
        self.assertEqual((made.name, made.address_prefix, made.provisioning_state), ('second', '10.1.0.0/16', 'Succeeded'))
        self.assertEqual({x.name for x in s.list('shared', 'net')}, {'default', 'second'})
        self.assertEqual(s.get('shared', 'net', 'second').id, made.id)
        self.assertIn('second', [x.name for x in self.network.virtual_networks.get('shared', 'net').subnets])
        g = self.group('sub')
        body = self.body()
        body['network_profile']['network_interface_configurations'][0]['ip_configurations'][0]['subnet'] = {'id': made.id}
        self.compute.virtual_machines.begin_create_or_update(g, 's-1', body).result()
        self.fails('InUseSubnetCannotBeDeleted', 400, s.begin_delete, 'shared', 'net', 'second')
        self.compute.virtual_machines.begin_delete(g, 's-1').result()
        s.begin_delete('shared', 'net', 'second').result()
        self.fails('NotFound', 404, s.get, 'shared', 'net', 'second')
        self.fails('NoAddressPrefixOrPoolProvided', 400, s.begin_create_or_update, 'shared', 'net', 'third', {})
        self.fails('ResourceNotFound', 404, s.get, 'shared', 'no-net', 'default')

    def test_security_rules_by_their_own_address(self):
        r = self.network.security_rules
        rule = {'protocol': 'Tcp', 'access': 'Allow', 'direction': 'Inbound', 'priority': 200, 'source_address_prefix': '*',
                'source_port_range': '*', 'destination_address_prefix': '*', 'destination_port_range': '22'}
        made = r.begin_create_or_update('shared', 'nsg', 'ssh', rule).result()
        self.assertEqual((made.priority, made.provisioning_state), (200, 'Succeeded'))
        self.assertEqual([x.name for x in r.list('shared', 'nsg')], ['ssh'])
        self.fails('SecurityRuleInvalidPriority', 400, r.begin_create_or_update, 'shared', 'nsg', 'bad', dict(rule, priority=1))
        r.begin_delete('shared', 'nsg', 'ssh').result()
        self.fails('NotFound', 404, r.get, 'shared', 'nsg', 'ssh')

    def test_providers(self):
        p = {x.namespace: x for x in self.resource.providers.list()}
        self.assertIn('virtualMachines', [t.resource_type for t in p['Microsoft.Compute'].resource_types])
        self.assertEqual(self.resource.providers.get('Microsoft.Network').registration_state, 'Registered')
        self.resource.providers.register('Microsoft.Compute')


if __name__ == '__main__':
    unittest.main(warnings='ignore')
