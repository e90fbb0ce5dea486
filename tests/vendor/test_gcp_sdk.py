#!/usr/bin/env python3
"""cloudsim's Google Cloud driven by Google's own Python libraries, unpatched: only the endpoint and the credentials
are ours, so every answer is parsed by the vendor's models. Then every answer is held against Google's discovery
documents: no unknown field, right types, known enum values. argv[1] is the program."""
import base64
import glob
import hashlib
import json
import os
import sys
import time
import unittest
import urllib.parse
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'emulator'))
from cloudsim_proc import Cloudsim, http  # noqa: E402

try:
    import google.auth
    import google.auth.compute_engine
    import google.auth.transport.requests
    import google.oauth2.id_token
    import googleapiclient
    from google.api_core import exceptions
    from google.api_core.client_options import ClientOptions
    from google.auth.transport.requests import Request
    from google.cloud import billing_v1, compute_v1, storage
    from google.oauth2 import service_account
except ImportError as e:
    print('skipped: %s' % e)
    sys.exit(77)

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'
SCOPE = ['https://www.googleapis.com/auth/cloud-platform']
ZONE, REGION = 'us-central1-a', 'us-central1'
IMAGE = 'projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-amd64-with-nvidia-570'


class Base(unittest.TestCase):
    options = ('--seed', '21', '--boot-ms', '60', '--terminate-ms', '60')

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)
        cls.url = cls.sim.info['urls']['gcp']
        cls.gcp = cls.sim.info['credentials']['gcp']
        cls.project = cls.gcp['project']
        cls.creds = service_account.Credentials.from_service_account_file(cls.gcp['key_file'], scopes=SCOPE)
        o = dict(credentials=cls.creds, client_options=ClientOptions(api_endpoint=cls.url), transport='rest')
        cls.instances = compute_v1.InstancesClient(**o)
        cls.region_instances = compute_v1.RegionInstancesClient(**o)
        cls.ops = compute_v1.ZoneOperationsClient(**o)
        cls.region_ops = compute_v1.RegionOperationsClient(**o)
        cls.all_ops = compute_v1.GlobalOperationsClient(**o)
        cls.disks = compute_v1.DisksClient(**o)
        cls.types = compute_v1.MachineTypesClient(**o)
        cls.accelerators = compute_v1.AcceleratorTypesClient(**o)
        cls.zones = compute_v1.ZonesClient(**o)
        cls.regions = compute_v1.RegionsClient(**o)
        cls.projects = compute_v1.ProjectsClient(**o)
        cls.images = compute_v1.ImagesClient(**o)
        cls.advice = compute_v1.AdviceClient(**o)
        cls.catalog = billing_v1.CloudCatalogClient(**o)

    @classmethod
    def tearDownClass(cls):
        assert cls.sim.stop() == 0

    def tearDown(self):
        self.sim.ctl('DELETE', '/fault')
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})

    def body(self, name, type='g2-standard-4', spot=True, zone=ZONE, script=None, action='DELETE', **more):
        s = compute_v1.Scheduling(on_host_maintenance='TERMINATE')
        if spot:
            s.provisioning_model, s.automatic_restart, s.instance_termination_action = 'SPOT', False, action
        items = [compute_v1.Items(key='startup-script', value=script)] if script else []
        return compute_v1.Instance(
            name=name, machine_type='zones/%s/machineTypes/%s' % (zone, type), scheduling=s,
            labels={'broker': 'prod-1', 'lease': name},
            disks=[compute_v1.AttachedDisk(boot=True, auto_delete=True,
                                           initialize_params=compute_v1.AttachedDiskInitializeParams(
                                               source_image=IMAGE, disk_size_gb=100, labels={'broker': 'prod-1'}))],
            network_interfaces=[compute_v1.NetworkInterface(
                network='global/networks/default', nic_type='GVNIC',
                access_configs=[compute_v1.AccessConfig(type_='ONE_TO_ONE_NAT')])],
            service_accounts=[compute_v1.ServiceAccount(email='default', scopes=SCOPE)],
            metadata=compute_v1.Metadata(items=items), **more)

    def insert(self, name, zone=ZONE, request_id=None, **kw):
        return self.instances.insert_unary(compute_v1.InsertInstanceRequest(
            project=self.project, zone=zone, instance_resource=self.body(name, zone=zone, **kw),
            request_id=request_id))

    def done(self, op, zone=ZONE):
        for _ in range(100):
            op = self.ops.wait(project=self.project, zone=zone, operation=op.name)
            if op.status == compute_v1.Operation.Status.DONE:
                return op
        raise AssertionError('operation does not end')

    def launch(self, name, zone=ZONE, **kw):
        op = self.done(self.insert(name, zone, **kw), zone)
        self.assertEqual(list(op.error.errors), [])
        self.sim.wait('running', token=name)
        return self.instances.get(project=self.project, zone=zone, instance=name)

    def delete(self, name, zone=ZONE):
        return self.done(self.instances.delete_unary(project=self.project, zone=zone, instance=name), zone)

    def config(self, **kw):
        return self.sim.ctl('POST', '/gcp/config', kw)


class Launch(Base):
    def test_a_spot_vm_is_made_listed_and_deleted_with_its_disk(self):
        op = self.insert('life-1')
        self.assertEqual((op.operation_type, op.status), ('insert', compute_v1.Operation.Status.RUNNING))
        self.assertTrue(op.target_link.startswith('https://www.googleapis.com/compute/v1/projects/'))
        self.done(op)
        self.sim.wait('running', token='life-1')
        vm = self.instances.get(project=self.project, zone=ZONE, instance='life-1')
        self.assertEqual((vm.status, vm.scheduling.provisioning_model, vm.labels['lease'], vm.id),
                         ('RUNNING', 'SPOT', 'life-1', op.target_id))
        self.assertTrue(vm.network_interfaces[0].access_configs[0].nat_i_p)
        disks = [d for _, s in self.disks.aggregated_list(project=self.project) for d in s.disks if d.name == 'life-1']
        self.assertEqual((disks[0].size_gb, disks[0].labels['broker'], len(disks[0].users)), (100, 'prod-1', 1))
        self.assertEqual(list(self.delete('life-1').error.errors), [])
        with self.assertRaises(exceptions.NotFound):
            self.instances.get(project=self.project, zone=ZONE, instance='life-1')
        self.assertEqual([d for d in self.disks.list(project=self.project, zone=ZONE) if d.name == 'life-1'], [])

    def test_the_same_request_id_gives_the_same_operation_and_one_vm(self):
        rid = str(uuid.uuid4())
        first, second = self.insert('same-1', request_id=rid), self.insert('same-1', request_id=rid)
        self.assertEqual((first.name, first.client_operation_id), (second.name, rid))
        self.done(first)
        self.assertEqual(len([i for i in self.sim.ctl('GET', '/state')['instances'] if i['name'] == 'same-1']), 1)
        self.assertEqual(self.sim.ctl('GET', '/books')['double_launches'], [])

    def test_a_second_vm_of_a_name_is_a_conflict(self):
        self.launch('twice-1')
        with self.assertRaises(exceptions.Conflict) as e:
            self.insert('twice-1')
        self.assertEqual(e.exception.errors[0]['reason'], 'alreadyExists')

    def test_no_capacity_is_told_by_the_operation_with_zones_that_have_some(self):
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-a/g2-standard-8/spot', 'count': 0})
        op = self.done(self.insert('none-1', type='g2-standard-8'))
        e = op.error.errors[0]
        self.assertEqual((op.http_error_status_code, e.code), (503, 'ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS'))
        info = e.error_details[0].error_info
        self.assertEqual((info.reason, info.metadatas['vmType']), ('resource_availability', 'g2-standard-8'))
        self.assertIn('us-central1-b', info.metadatas['zonesAvailable'])

    def test_quota_is_told_by_the_operation(self):
        self.sim.ctl('POST', '/quota', {'provider': 'gcp', 'metric': 'PREEMPTIBLE_NVIDIA_A100_GPUS',
                                        'region': REGION, 'limit': 0})
        op = self.done(self.insert('quota-1', type='a2-highgpu-1g'))
        e = op.error.errors[0]
        self.assertEqual((op.http_error_status_code, e.code), (403, 'QUOTA_EXCEEDED'))
        self.assertEqual(e.error_details[0].quota_info.metric_name,
                         'compute.googleapis.com/preemptible_nvidia_a100_gpus')
        quotas = {q.metric: q.limit for q in self.regions.get(project=self.project, region=REGION).quotas}
        self.assertEqual(quotas['PREEMPTIBLE_NVIDIA_A100_GPUS'], 0)
        self.assertNotIn('NVIDIA_H100_GPUS', quotas)

    def test_what_google_refuses_is_refused(self):
        def refused(change, word, **kw):
            b = self.body('bad-1', **kw)
            change(b)
            with self.assertRaises(exceptions.BadRequest) as e:
                self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b)
            self.assertIn(word, e.exception.message)

        refused(lambda b: setattr(b, 'name', 'Upper'), 'name')
        refused(lambda b: setattr(b, 'machine_type', 'g2-standard-4'), 'malformed')
        refused(lambda b: setattr(b, 'machine_type', 'zones/us-central1-a/machineTypes/x9-mega'), 'does not exist')
        refused(lambda b: setattr(b.scheduling, 'automatic_restart', True), 'automaticRestart')
        refused(lambda b: setattr(b.scheduling, 'on_host_maintenance', 'MIGRATE'), 'onHostMaintenance')
        refused(lambda b: b.labels.update({'Key': 'x'}), 'abel')
        refused(lambda b: setattr(b, 'network_interfaces', []), 'network interface')
        refused(lambda b: setattr(b, 'disks', []), 'disks')
        refused(lambda b: setattr(b.scheduling, 'max_run_duration', compute_v1.Duration(seconds=5)), '30 seconds')
        refused(lambda b: b.metadata.items.append(compute_v1.Items(key='a', value='x' * 300000)), 'too large')
        refused(lambda b: setattr(b, 'guest_accelerators', [compute_v1.AcceleratorConfig(
            accelerator_type='zones/us-central1-a/acceleratorTypes/nvidia-l4', accelerator_count=1)]), 'bundled')
        refused(lambda b: setattr(b, 'machine_type', 'zones/us-central1-a/machineTypes/a3-highgpu-1g'), 'STANDARD',
                spot=False)
        refused(lambda b: setattr(b, 'machine_type', 'zones/us-central1-a/machineTypes/g4-standard-48'), 'compatible')

    def test_an_unknown_image_is_not_found(self):
        b = self.body('bad-2')
        b.disks[0].initialize_params.source_image = 'projects/ubuntu-os-cloud/global/images/family/none'
        with self.assertRaises(exceptions.NotFound):
            self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b)

    def test_n1_machines_have_their_gpus_attached(self):
        b = self.body('n1-1', type='n1-standard-8')
        b.guest_accelerators = [compute_v1.AcceleratorConfig(
            accelerator_type='zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4', accelerator_count=1)]
        op = self.done(self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b))
        self.assertEqual(list(op.error.errors), [])
        vm = self.instances.get(project=self.project, zone=ZONE, instance='n1-1')
        self.assertTrue(vm.machine_type.endswith('/n1-standard-8'))
        self.assertEqual(vm.guest_accelerators[0].accelerator_count, 1)

    def test_labels_change_only_with_the_current_fingerprint(self):
        vm = self.launch('label-1')
        want = compute_v1.InstancesSetLabelsRequest(labels={'a': 'b'}, label_fingerprint=vm.label_fingerprint)
        self.done(self.instances.set_labels_unary(project=self.project, zone=ZONE, instance='label-1',
                                                  instances_set_labels_request_resource=want))
        self.assertEqual(dict(self.instances.get(project=self.project, zone=ZONE, instance='label-1').labels), {'a': 'b'})
        with self.assertRaises(exceptions.PreconditionFailed):
            self.instances.set_labels_unary(project=self.project, zone=ZONE, instance='label-1',
                                            instances_set_labels_request_resource=want)

    def test_a_limited_run_time_ends_the_vm(self):
        b = self.body('short-1')
        b.scheduling.max_run_duration = compute_v1.Duration(seconds=30)
        self.done(self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b))
        vm = self.instances.get(project=self.project, zone=ZONE, instance='short-1')
        self.assertEqual(vm.scheduling.max_run_duration.seconds, 30)
        self.delete('short-1')


class Bulk(Base):
    def properties(self):
        b = self.body('x')
        return compute_v1.InstanceProperties(machine_type='g2-standard-4', scheduling=b.scheduling, labels=b.labels,
                                             disks=b.disks, network_interfaces=b.network_interfaces)

    def test_bulk_makes_all_and_names_them(self):
        r = compute_v1.BulkInsertInstanceResource(count=3, name_pattern='fleet-##', instance_properties=self.properties())
        op = self.done(self.instances.bulk_insert_unary(project=self.project, zone=ZONE,
                                                        bulk_insert_instance_resource_resource=r))
        self.assertEqual(list(op.error.errors), [])
        names = [i.name for i in self.instances.list(project=self.project, zone=ZONE) if i.name.startswith('fleet')]
        self.assertEqual(sorted(names), ['fleet-01', 'fleet-02', 'fleet-03'])
        status = op.instances_bulk_insert_operation_metadata.per_location_status['zones/' + ZONE]
        self.assertEqual((status.created_vm_count, status.status), (3, 'DONE'))
        children = list(self.ops.list(compute_v1.ListZoneOperationsRequest(
            project=self.project, zone=ZONE, filter='operationGroupId="%s"' % op.operation_group_id)))
        self.assertEqual(len([c for c in children if c.operation_type == 'insert']), 3)

    def test_below_the_least_count_everything_goes_again(self):
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-c/g2-standard-4/spot', 'count': 1})
        r = compute_v1.BulkInsertInstanceResource(count=3, min_count=2, name_pattern='gone-#',
                                                  instance_properties=self.properties())
        op = self.done(self.instances.bulk_insert_unary(project=self.project, zone='us-central1-c',
                                                        bulk_insert_instance_resource_resource=r), 'us-central1-c')
        self.assertEqual(op.error.errors[0].code, 'VM_MIN_COUNT_NOT_REACHED')
        child = [c for c in self.ops.list(compute_v1.ListZoneOperationsRequest(
            project=self.project, zone='us-central1-c', filter='operationGroupId=%s' % op.operation_group_id)) if c.error.errors]
        self.assertIn('ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS', [c.error.errors[0].code for c in child])
        self.sim.wait('terminated', token='gone-1')
        self.assertEqual([i.name for i in self.instances.list(project=self.project, zone='us-central1-c')], [])

    def test_a_region_takes_any_of_the_shapes_where_there_is_room(self):
        p = self.properties()
        p.machine_type = ''
        for zone in 'ac':
            self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-%s/*/spot' % zone, 'count': 0})
        r = compute_v1.BulkInsertInstanceResource(
            count=2, min_count=1, per_instance_properties={'any-a': {}, 'any-b': {}}, instance_properties=p,
            location_policy=compute_v1.LocationPolicy(target_shape='ANY'),
            instance_flexibility_policy=compute_v1.InstanceFlexibilityPolicy(instance_selections={
                'l4': compute_v1.InstanceFlexibilityPolicyInstanceSelection(
                    machine_types=['g2-standard-12', 'g2-standard-16'], rank=1)}))
        op = self.region_instances.bulk_insert_unary(project=self.project, region=REGION,
                                                     bulk_insert_instance_resource_resource=r)
        op = self.region_ops.wait(project=self.project, region=REGION, operation=op.name)
        self.assertEqual((op.status, list(op.error.errors)), (compute_v1.Operation.Status.DONE, []))
        made = {i['name']: i['zone'] for i in self.sim.ctl('GET', '/state')['instances'] if i['name'].startswith('any-')}
        self.assertEqual(set(made), {'any-a', 'any-b'})
        self.assertEqual(set(made.values()), {'us-central1-b'})


class Reclaim(Base):
    def preempted(self):
        return list(self.ops.list(compute_v1.ListZoneOperationsRequest(
            project=self.project, zone=ZONE, filter='operationType="compute.instances.preempted"')))

    def test_a_preempted_vm_is_gone_and_an_operation_of_the_system_tells(self):
        vm = self.launch('pre-1')
        self.sim.ctl('POST', '/reclaim', {'instance': str(vm.id), 'notice_s': 0.2})
        self.sim.wait('notice', token='pre-1')
        self.sim.wait('terminated', token='pre-1')
        with self.assertRaises(exceptions.NotFound):
            self.instances.get(project=self.project, zone=ZONE, instance='pre-1')
        op = [o for o in self.preempted() if o.target_id == vm.id][0]
        self.assertEqual((op.user, op.status_message), ('system', 'Instance was preempted.'))
        self.assertTrue(op.name.startswith('systemevent-'))
        both = [o for _, s in self.all_ops.aggregated_list(compute_v1.AggregatedListGlobalOperationsRequest(
            project=self.project, filter='(operationType="compute.instances.preempted") (targetLink="%s")' % op.target_link,
            order_by='creationTimestamp desc')) for o in s.operations]
        self.assertEqual([o.id for o in both], [op.id])

    def test_the_action_stop_leaves_the_vm_and_its_disk(self):
        vm = self.launch('stop-1', action='STOP')
        self.sim.ctl('POST', '/reclaim', {'instance': str(vm.id), 'notice_s': 0})
        self.sim.wait('terminated', token='stop-1')
        vm = self.instances.get(project=self.project, zone=ZONE, instance='stop-1')
        self.assertEqual((vm.status, len(vm.disks)), ('TERMINATED', 1))
        self.assertIn('gcp/disk/%s/stop-1' % ZONE, self.sim.ctl('GET', '/books')['left'])
        self.delete('stop-1')
        self.assertNotIn('gcp/disk/%s/stop-1' % ZONE, self.sim.ctl('GET', '/books')['left'])

    def test_a_simulated_maintenance_event_preempts(self):
        self.launch('maint-1')
        self.sim.ctl('POST', '/config', {'notice_ms': 100})
        self.done(self.instances.simulate_maintenance_event_unary(project=self.project, zone=ZONE, instance='maint-1'))
        self.sim.wait('terminated', token='maint-1')

    def test_disks_without_auto_delete_stay(self):
        b = self.body('keep-1')
        b.disks[0].auto_delete = False
        self.done(self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b))
        self.delete('keep-1')
        d = self.disks.get(project=self.project, zone=ZONE, disk='keep-1')
        self.assertEqual(list(d.users), [])
        self.done(self.disks.delete_unary(project=self.project, zone=ZONE, disk='keep-1'))
        self.assertEqual([x for x in self.sim.ctl('GET', '/books')['left'] if 'keep-1' in x], [])


class Lists(Base):
    def test_labels_filter_pages_and_zones_without_items(self):
        for n in range(3):
            self.launch('list-%d' % n)
        pages = list(self.instances.aggregated_list(compute_v1.AggregatedListInstancesRequest(
            project=self.project, filter='labels.broker=prod-1 AND name:list-*', max_results=2)).pages)
        names = [i.name for p in pages for s in p.items.values() for i in s.instances]
        self.assertEqual((len(pages), sorted(names)), (2, ['list-0', 'list-1', 'list-2']))
        self.assertEqual(pages[0].items['zones/us-central1-f'].warning.code, 'NO_RESULTS_ON_PAGE')
        for f, n in (('labels.lease=list-1', 1), ('labels.lease:*', 3), ('(labels.broker=prod-1) (status=RUNNING)', 3),
                     ('status!=RUNNING', 0), ('name eq "list-[01]"', 2), ('NOT labels.lease=list-2', 2),
                     ('labels.lease=list-0 OR labels.lease=list-2', 2)):
            got = list(self.instances.list(compute_v1.ListInstancesRequest(project=self.project, zone=ZONE, filter=f)))
            self.assertEqual(len(got), n, f)
        with self.assertRaises(exceptions.BadRequest):
            list(self.instances.list(compute_v1.ListInstancesRequest(project=self.project, zone=ZONE, filter='(((')))

    def test_an_unreachable_zone_is_named_and_does_not_look_empty(self):
        self.launch('far-1', zone='us-central1-b')
        self.config(unreachable='us-central1-b')
        try:
            self.creds.refresh(Request())  # the Python model of the request lacks the parameter
            _, _, text = http('GET', self.url + '/compute/v1/projects/%s/aggregated/instances?returnPartialSuccess=true' %
                              self.project, headers={'Authorization': 'Bearer ' + self.creds.token})
            page = compute_v1.InstanceAggregatedList.from_json(text.decode())
            self.assertEqual([u.split('/')[-1] for u in page.unreachables], ['us-central1-b'])
            self.assertEqual(page.items['zones/us-central1-b'].warning.code, 'UNREACHABLE')
        finally:
            self.config(unreachable='')

    def test_machine_and_accelerator_types(self):
        found = {(s.split('/')[-1], t.name): t for s, scoped in self.types.aggregated_list(project=self.project)
                 for t in scoped.machine_types}
        t = found[ZONE, 'a3-highgpu-1g']
        self.assertEqual((t.guest_cpus, t.memory_mb, t.accelerators[0].guest_accelerator_type,
                          t.bundled_local_ssds.partition_count), (26, 239616, 'nvidia-h100-80gb', 2))
        self.assertEqual(found[ZONE, 'n1-highcpu-2-d'].deprecated.state, 'DEPRECATED')
        self.assertIn(('us-central1-ai1a', 'a4-highgpu-8g'), found)
        self.assertGreater(len(found), 500)
        names = {a.name: a.maximum_cards_per_instance for a in
                 self.accelerators.list(project=self.project, zone=ZONE)}
        self.assertEqual((names['nvidia-tesla-t4'], names['nvidia-l4']), (4, 8))

    def test_zones_regions_project_and_images(self):
        zones = {z.name: z.region.split('/')[-1] for z in self.zones.list(project=self.project)}
        self.assertEqual(zones['us-central1-ai1a'], 'us-central1')
        self.assertGreater(len(list(self.regions.list(project=self.project))), 30)
        self.assertEqual(self.projects.get(project=self.project).name, self.project)
        image = self.images.get_from_family(project='debian-cloud', family='debian-12')
        self.assertEqual((image.family, image.disk_size_gb), ('debian-12', 10))
        with self.assertRaises(exceptions.NotFound):
            self.images.get_from_family(project='debian-cloud', family='debian-3')


class Advice(Base):
    def history(self, **kw):
        r = compute_v1.CapacityHistoryRequest(
            instance_properties=compute_v1.CapacityHistoryRequestInstanceProperties(
                machine_type='g2-standard-4',
                scheduling=compute_v1.CapacityHistoryRequestInstancePropertiesScheduling(provisioning_model='SPOT')),
            types=['PREEMPTION', 'PRICE'],
            location_policy=compute_v1.CapacityHistoryRequestLocationPolicy(location='zones/' + ZONE))
        return self.advice.capacity_history(project=self.project, region=REGION, capacity_history_request_resource=r)

    def test_history_has_thirty_days_at_pacific_midnight_and_the_list_price(self):
        h = self.history()
        self.assertEqual(len(h.preemption_history), 30)
        self.assertTrue(all(0 <= p.preemption_rate <= 1 for p in h.preemption_history))
        self.assertTrue(all(p.interval.start_time[11:] in ('07:00:00Z', '08:00:00Z') for p in h.preemption_history))
        self.assertEqual(h.price_history[-1].list_price.nanos, 397336000)

    def test_capacity_scores_fall_with_the_stock(self):
        def score():
            r = compute_v1.CapacityAdviceRequest(
                size=4, instance_properties=compute_v1.CapacityAdviceRequestInstanceProperties(
                    scheduling=compute_v1.CapacityAdviceRequestInstancePropertiesScheduling(provisioning_model='SPOT')),
                distribution_policy=compute_v1.CapacityAdviceRequestDistributionPolicy(target_shape='ANY'),
                instance_flexibility_policy=compute_v1.CapacityAdviceRequestInstanceFlexibilityPolicy(
                    instance_selections={'s1': compute_v1.CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection(
                        machine_types=['g2-standard-12'])}))
            return self.advice.capacity(project=self.project, region=REGION,
                                        capacity_advice_request_resource=r).recommendations[0].scores.obtainability

        high = score()
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/*/g2-standard-12/spot', 'count': 0})
        self.assertLess(score(), high)

    def test_v1_can_be_without_it(self):
        self.config(advice_v1=False)
        try:
            with self.assertRaises(exceptions.NotFound):
                self.history()
        finally:
            self.config(advice_v1=True)


class Prices(Base):
    def skus(self):
        return list(self.catalog.list_skus(parent='services/6F81-5844-456A'))

    def price(self, skus, prefix, region, spot):
        for s in skus:
            text = s.description
            is_spot = s.category.usage_type == 'Preemptible' or 'Preemptible' in text
            if is_spot != spot or region not in s.service_regions or s.category.usage_type not in ('OnDemand', 'Preemptible'):
                continue
            if any(w in text for w in ('Sole Tenancy', 'Reserved', 'Premium', 'Custom', 'suspended', 'Commitment', 'DWS',
                                       'Calendar', 'Capacity Optimized', 'VM state')):
                continue
            for mark in ('Spot Preemptible ', 'Preemptible '):
                text = text[len(mark):] if text.startswith(mark) else text
            if text.startswith(prefix):
                p = s.pricing_info[0].pricing_expression.tiered_rates[0].unit_price
                return p.units + p.nanos / 1e9
        raise AssertionError('no SKU %s in %s' % (prefix, region))

    def test_the_parts_sum_to_the_machines_price(self):
        skus = self.skus()
        for type, core, ram, gpu, n in (('g2-standard-48', 'G2 Instance Core', 'G2 Instance Ram', 'Nvidia L4 GPU', (48, 192, 4)),
                                        ('a2-highgpu-8g', 'A2 Instance Core', 'A2 Instance Ram', 'Nvidia Tesla A100 GPU', (96, 680, 8)),
                                        ('a2-megagpu-16g', 'A2 Instance Core', 'A2 Instance Ram', 'Nvidia Tesla A100 GPU', (96, 1360, 16))):
            pool = self.sim.ctl('GET', '/pools?pool=gcp/us-central1/us-central1-a/' + type)['pools'][0]
            for spot, key in ((True, 'spot_micros'), (False, 'on_demand_micros')):
                got = sum(self.price(skus, p, REGION, spot) * c for p, c in zip((core, ram, gpu), n))
                self.assertAlmostEqual(got, pool[key] / 1e6, 5, (type, spot))

    def test_a_price_set_by_hand_moves_its_sku_and_all_that_stand_on_it(self):
        before = self.price(self.skus(), 'Nvidia L4 GPU', 'europe-west4', True)
        pool = self.sim.ctl('GET', '/pools?pool=gcp/europe-west4/europe-west4-a/g2-standard-4')['pools'][0]
        self.sim.ctl('POST', '/price', {'pool': 'gcp/europe-west4/*/g2-standard-4/spot', 'usd': pool['spot_micros'] / 1e6 + 0.5})
        try:
            after = self.price(self.skus(), 'Nvidia L4 GPU', 'europe-west4', True)
            self.assertAlmostEqual(after - before, 0.5, 5)
            other = self.sim.ctl('GET', '/pools?pool=gcp/europe-west4/europe-west4-a/g2-standard-24')['pools'][0]
            self.assertGreater(other['spot_micros'], 1000000)
        finally:
            self.sim.ctl('POST', '/price', {'pool': 'gcp/europe-west4/*/g2-standard-4/spot', 'usd': None})
        self.assertAlmostEqual(self.price(self.skus(), 'Nvidia L4 GPU', 'europe-west4', True), before, 9)

    def test_pages_end_with_an_empty_token_and_the_decoys_are_there(self):
        pages = list(self.catalog.list_skus(billing_v1.ListSkusRequest(parent='services/6F81-5844-456A', page_size=500)).pages)
        self.assertEqual(pages[-1].next_page_token, '')
        self.assertGreater(len(pages), 1)
        texts = [s.description for p in pages for s in p.skus]
        for word in ('Sole Tenancy', 'Commitment v1', 'DWS', 'Calendar Mode', 'Capacity Optimized', 'VM state', 'Reserved'):
            self.assertTrue([t for t in texts if word in t], word)
        b200 = [s for p in pages for s in p.skus if s.description.startswith('Spot Preemptible A4 Nvidia B200')]
        self.assertEqual({s.category.usage_type for s in b200}, {'OnDemand'})

    def test_an_api_key_is_enough_for_prices_and_a_wrong_one_is_told(self):
        path = self.url + '/v1/services/6F81-5844-456A/skus?pageSize=1&key='
        self.assertEqual(http('GET', path + self.gcp['api_key'])[0], 200)
        status, _, text = http('GET', path + 'nonsense')
        self.assertEqual((status, json.loads(text)['error']['details'][0]['reason']), (400, 'API_KEY_INVALID'))


class Credentials(Base):
    def test_an_expired_token_is_refused_and_the_client_gets_a_new_one(self):
        from google.auth.transport.requests import AuthorizedSession
        s = AuthorizedSession(service_account.Credentials.from_service_account_file(self.gcp['key_file'], scopes=SCOPE))
        path = self.url + '/compute/v1/projects/%s/zones' % self.project
        self.assertEqual(s.get(path).status_code, 200)
        old = s.credentials.token
        self.assertGreater(self.sim.ctl('POST', '/gcp/credentials', {'action': 'expire'})['expired'], 0)
        status, _, text = http('GET', path, headers={'Authorization': 'Bearer ' + old})
        e = json.loads(text)['error']
        self.assertEqual((status, e['details'][0]['reason'], e['errors'][0]['reason']),
                         (401, 'ACCESS_TOKEN_EXPIRED', 'authError'))
        self.assertEqual(s.get(path).status_code, 200)
        self.assertNotEqual(s.credentials.token, old)

    def test_without_a_token_and_with_too_small_a_scope(self):
        status, headers, text = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project)
        e = json.loads(text)['error']
        self.assertEqual((status, e['status'], e['errors'][0]['reason']), (401, 'UNAUTHENTICATED', 'required'))
        self.assertIn('Bearer', headers['WWW-Authenticate'])
        small = service_account.Credentials.from_service_account_file(
            self.gcp['key_file'], scopes=['https://www.googleapis.com/auth/devstorage.read_only'])
        c = compute_v1.ZonesClient(credentials=small, client_options=ClientOptions(api_endpoint=self.url), transport='rest')
        with self.assertRaises(exceptions.Forbidden):
            list(c.list(project=self.project))

    def test_a_foreign_account_is_refused(self):
        with open(self.gcp['key_file']) as f:
            key = json.load(f)
        for change, word in (({'client_email': 'other@x.iam.gserviceaccount.com'}, 'account not found'),):
            c = service_account.Credentials.from_service_account_info(dict(key, **change), scopes=SCOPE)
            with self.assertRaisesRegex(google.auth.exceptions.RefreshError, word):
                c.refresh(Request())

    def test_a_jwt_of_the_key_stands_for_a_token(self):
        from google.auth import jwt
        own = jwt.Credentials.from_service_account_file(self.gcp['key_file'], audience='https://compute.googleapis.com/')
        headers = {}
        own.before_request(Request(), 'GET', self.url, headers)
        status, _, _ = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project, headers=headers)
        self.assertEqual(status, 200)

    def test_federation_gives_a_token_for_the_service_account(self):
        from google.auth import identity_pool
        token_file = os.path.join(self.sim.dir, 'oidc-token')
        with open(token_file, 'w') as f:
            f.write('eyJhbGciOiJSUzI1NiJ9.e30.c2ln')
        c = identity_pool.Credentials.from_info({
            'type': 'external_account', 'subject_token_type': 'urn:ietf:params:oauth:token-type:jwt',
            'audience': '//iam.googleapis.com/projects/415104041262/locations/global/workloadIdentityPools/p/providers/k',
            'token_url': self.url + '/v1/token', 'credential_source': {'file': token_file},
            'service_account_impersonation_url':
                self.url + '/v1/projects/-/serviceAccounts/%s:generateAccessToken' % self.gcp['email']}, scopes=SCOPE)
        c.refresh(Request())
        status, _, _ = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project,
                            headers={'Authorization': 'Bearer ' + c.token})
        self.assertEqual(status, 200)


class Rotation(Base):
    def test_an_old_key_is_refused_and_the_new_one_taken(self):
        with open(self.gcp['key_file']) as f:
            key = json.load(f)
        self.sim.ctl('POST', '/gcp/credentials', {'action': 'rotate'})
        old = service_account.Credentials.from_service_account_info(key, scopes=SCOPE)
        with self.assertRaisesRegex(google.auth.exceptions.RefreshError, 'invalid_grant'):
            old.refresh(Request())
        new = service_account.Credentials.from_service_account_file(self.gcp['key_file'], scopes=SCOPE)
        new.refresh(Request())
        self.assertTrue(new.token)


class Metadata(Base):
    def setUp(self):
        name = 'meta-%s' % hashlib.sha256(self.id().encode()).hexdigest()[:8]
        self.vm = self.launch(name, script='#!/bin/sh\necho hi\n')
        self.base = 'http://127.0.0.1:%d/%d/computeMetadata/v1/' % (self.sim.info['imds_port'], self.vm.id)

    def get(self, path, timeout=30, **headers):
        status, h, text = http('GET', self.base + path, headers=headers or {'Metadata-Flavor': 'Google'}, timeout=timeout)
        return status, h, text.decode()

    def test_googles_library_takes_a_token_and_an_identity_from_it(self):
        from google.auth.compute_engine import _metadata
        root = self.base.split('//')[1].rsplit('/computeMetadata', 1)[0]
        info = _metadata.get(Request(), 'instance/service-accounts/default/', params={'recursive': 'true'},
                             root=self.base) if hasattr(_metadata, 'get') else None
        self.assertEqual(info['email'], self.gcp['node_email'])
        token = _metadata.get(Request(), 'instance/service-accounts/default/token', root=self.base)
        status, _, _ = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project,
                            headers={'Authorization': 'Bearer ' + token['access_token']})
        self.assertEqual(status, 200, root)
        jwt = _metadata.get(Request(), 'instance/service-accounts/default/identity',
                            params={'audience': 'broker', 'format': 'full'}, root=self.base)
        certs = json.loads(http('GET', self.url + '/oauth2/v3/certs')[2])['keys'][0]
        claims = self.verified(jwt, certs)
        self.assertEqual((claims['aud'], claims['google']['compute_engine']['instance_id'],
                          claims['google']['compute_engine']['zone']), ('broker', str(self.vm.id), ZONE))

    def verified(self, jwt, key):
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives import hashes

        def raw(t):
            return base64.urlsafe_b64decode(t + '=' * (-len(t) % 4))
        n, e = (int.from_bytes(raw(key[k]), 'big') for k in 'ne')
        head, body, sig = jwt.split('.')
        self.assertEqual(json.loads(raw(head))['kid'], key['kid'])
        rsa.RSAPublicNumbers(e, n).public_key().verify(raw(sig), (head + '.' + body).encode(), padding.PKCS1v15(), hashes.SHA256())
        return json.loads(raw(body))

    def test_the_header_is_needed_both_ways_and_a_proxy_is_refused(self):
        status, h, text = self.get('instance/name')
        self.assertEqual((status, h['Metadata-Flavor'], text), (200, 'Google', self.vm.name))
        self.assertEqual(self.get('instance/name', **{'X-Other': 'x'})[0], 403)
        self.assertEqual(self.get('instance/name', **{'Metadata-Flavor': 'Google', 'X-Forwarded-For': '1.2.3.4'})[0], 403)
        self.assertEqual(self.get('instance/nothing')[0], 404)
        self.assertEqual(self.get('instance/zone')[2], 'projects/415104041262/zones/us-central1-a')
        self.assertEqual(self.get('instance/attributes/startup-script')[2], '#!/bin/sh\necho hi\n')

    def test_a_waiting_request_is_answered_by_the_preemption(self):
        import threading
        status, h, text = self.get('instance/preempted')
        self.assertEqual((status, text), (200, 'FALSE'))
        got = []
        q = 'instance/preempted?wait_for_change=true&timeout_sec=20&last_etag=' + h['ETag']
        t = threading.Thread(target=lambda: got.append(self.get(q)))
        t.start()
        self.sim.ctl('POST', '/reclaim', {'instance': str(self.vm.id), 'notice_s': 5})
        t.join(15)
        self.assertEqual((got[0][0], got[0][2]), (200, 'TRUE'))
        self.assertNotEqual(got[0][1]['ETag'], h['ETag'])
        # what changed between two questions is not lost
        self.assertEqual(self.get(q)[2], 'TRUE')

    def test_a_waiting_request_ends_with_the_same_etag_when_its_time_is_over(self):
        _, h, _ = self.get('instance/maintenance-event')
        start = time.monotonic()
        _, h2, text = self.get('instance/maintenance-event?wait_for_change=true&timeout_sec=1&last_etag=' + h['ETag'])
        self.assertEqual((text, h2['ETag']), ('NONE', h['ETag']))
        self.assertGreater(time.monotonic() - start, 0.8)

    def test_maintenance_is_told(self):
        self.sim.ctl('POST', '/maintenance', {'instance': str(self.vm.id)})
        self.assertEqual(self.get('instance/maintenance-event')[2], 'TERMINATE_ON_HOST_MAINTENANCE')


class Storage(Base):
    def setUp(self):
        self.client = storage.Client(project=self.project, credentials=self.creds,
                                     client_options=ClientOptions(api_endpoint=self.url))
        name = 'ckpt-' + hashlib.sha256(self.id().encode()).hexdigest()[:10]
        self.bucket = self.client.create_bucket(name, location='us-central1')

    def test_objects_are_put_read_in_ranges_listed_and_deleted(self):
        for name in ('a/1', 'a/2', 'b/1'):
            self.bucket.blob(name).upload_from_string(b'hello ' + name.encode(), content_type='text/plain')
        blob = self.bucket.get_blob('a/1')
        self.assertEqual((blob.size, blob.content_type), (9, 'text/plain'))
        self.assertEqual(blob.download_as_bytes(), b'hello a/1')
        self.assertEqual(blob.download_as_bytes(start=6), b'a/1')
        self.assertEqual([b.name for b in self.client.list_blobs(self.bucket, prefix='a/')], ['a/1', 'a/2'])
        it = self.client.list_blobs(self.bucket, delimiter='/')
        self.assertEqual((list(it), sorted(it.prefixes)), ([], ['a/', 'b/']))
        self.assertEqual(len(list(self.client.list_blobs(self.bucket, page_size=1))), 3)
        blob.delete()
        self.assertIsNone(self.bucket.get_blob('a/1'))
        with self.assertRaises(exceptions.NotFound):
            blob.download_as_bytes()

    def test_a_generation_is_a_condition(self):
        blob = self.bucket.blob('latest')
        blob.upload_from_string(b'1', if_generation_match=0)
        with self.assertRaises(exceptions.PreconditionFailed):
            self.bucket.blob('latest').upload_from_string(b'2', if_generation_match=0)
        self.bucket.blob('latest').upload_from_string(b'3', if_generation_match=blob.generation)

    def test_a_large_upload_is_resumable_and_keeps_its_sum(self):
        data = os.urandom(3 * 1024 * 1024 + 17)
        blob = self.bucket.blob('big', chunk_size=1024 * 1024)
        import io
        blob.upload_from_file(io.BytesIO(data), size=len(data), checksum='crc32c')
        self.assertEqual(self.bucket.blob('big').download_as_bytes(checksum='crc32c'), data)
        self.assertEqual(blob.md5_hash, base64.b64encode(hashlib.md5(data).digest()).decode())

    def session(self, name):
        return self.bucket.blob(name).create_resumable_upload_session(content_type='application/x-tar')

    def put(self, url, data, range):
        return http('PUT', url, data, {'Content-Range': range})

    def test_a_session_says_how_much_is_there(self):
        url, k = self.session('chunks'), 262144
        self.assertIn('gcp/upload/%s/chunks' % self.bucket.name, self.sim.ctl('GET', '/books')['left'])
        status, h, _ = self.put(url, b'', 'bytes */*')
        self.assertEqual((status, h['Range']), (308, None))
        status, _, text = self.put(url, b'x' * 1000, 'bytes 0-999/*')
        self.assertEqual(status, 400, text)
        status, h, _ = self.put(url, b'x' * (k + 500), 'bytes 0-%d/*' % (k + 499))
        self.assertEqual((status, h['Range']), (308, 'bytes=0-%d' % (k - 1)))
        self.assertEqual(self.put(url, b'x' * k, 'bytes %d-%d/*' % (2 * k, 3 * k - 1))[0], 400)
        self.config(keep_bytes=1000)
        status, h, _ = self.put(url, b'y' * k, 'bytes %d-%d/*' % (k, 2 * k - 1))
        self.assertEqual((status, h['Range']), (308, 'bytes=0-%d' % (k + 999)))
        self.config(keep_bytes=0)
        rest = b'y' * (k - 1000) + b'end'
        status, h, text = self.put(url, rest, 'bytes %d-%d/%d' % (k + 1000, 2 * k + 2, 2 * k + 3))
        self.assertEqual((status, json.loads(text)['size']), (200, str(2 * k + 3)))
        self.assertEqual(self.bucket.blob('chunks').download_as_bytes(), b'x' * k + b'y' * k + b'end')
        self.assertEqual(self.put(url, b'', 'bytes */*')[0], 404)
        self.assertEqual([x for x in self.sim.ctl('GET', '/books')['left'] if 'chunks' in x], [])

    def signed(self, method, name, **kw):
        return self.bucket.blob(name).generate_signed_url(version='v4', expiration=600, method=method,
                                                          api_access_endpoint=self.url, **kw)

    def test_signed_urls_are_checked_to_the_last_byte(self):
        put = self.signed('PUT', 'dir/one two.bin', content_type='application/x-tar')
        h = {'Content-Type': 'application/x-tar'}
        self.assertEqual(http('PUT', put, b'data', h)[0], 200)
        get = self.signed('GET', 'dir/one two.bin')
        status, headers, text = http('GET', get)
        self.assertEqual((status, text), (200, b'data'))
        self.assertIn('crc32c=', headers['X-Goog-Hash'])
        self.assertEqual(http('PUT', get, b'x')[0], 403)
        self.assertEqual(http('GET', get.replace('one%20two', 'one%20too'))[0], 403)
        self.assertEqual(http('PUT', put, b'x', {'Content-Type': 'text/plain'})[0], 403)
        self.assertEqual(http('PUT', put, b'x', dict(h, **{'x-goog-meta-a': 'b'}))[0], 403)
        cut = get[:-1] + ('0' if get[-1] != '0' else '1')
        status, _, text = http('GET', cut)
        self.assertEqual((status, b'<Code>SignatureDoesNotMatch</Code>' in text), (403, True))
        self.sim.ctl('POST', '/fault', {'match': {'service': 'storage'}, 'kind': 'clock_skew', 'ms': 3600000})
        status, _, text = http('GET', get)
        self.assertEqual((status, b'ExpiredToken' in text), (400, True))

    def test_a_signed_url_starts_a_resumable_upload(self):
        url = self.signed('POST', 'late', headers={'x-goog-resumable': 'start'}, content_type='application/x-tar')
        h = {'x-goog-resumable': 'start', 'Content-Type': 'application/x-tar'}
        status, headers, text = http('POST', url, b'', h)
        self.assertEqual((status, text), (201, b''))
        status, _, text = self.put(headers['Location'], b'abc', 'bytes 0-2/3')
        self.assertEqual(status, 200, text)
        self.assertEqual(self.bucket.blob('late').download_as_bytes(), b'abc')


class Faults(Base):
    options = ('--seed', '22', '--boot-ms', '60', '--terminate-ms', '60')

    def test_the_rate_limit_is_a_403_of_its_own_reason(self):
        self.config(rate_per_min=3)
        try:
            with self.assertRaises(exceptions.Forbidden) as e:
                for _ in range(10):
                    self.projects.get(project=self.project)
            self.assertEqual(e.exception.errors[0]['reason'], 'rateLimitExceeded')
        finally:
            self.config(rate_per_min=1500)

    def test_a_backend_error_is_retried_by_the_vendors_client_or_told(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'compute', 'action': 'instances.insert'}, 'kind': 'status',
                                        'status': 503})
        with self.assertRaises(exceptions.ServiceUnavailable):
            self.insert('fault-1')
        rid = str(uuid.uuid4())
        self.sim.ctl('POST', '/fault', {'match': {'action': 'instances.insert'}, 'kind': 'status', 'status': 500, 'after': True})
        with self.assertRaises(exceptions.InternalServerError):
            self.insert('fault-2', request_id=rid)
        self.assertEqual(list(self.done(self.insert('fault-2', request_id=rid)).error.errors), [])

    def test_an_unknown_field_and_an_unknown_parameter_are_refused(self):
        self.creds.refresh(Request())
        h = {'Authorization': 'Bearer ' + self.creds.token, 'Content-Type': 'application/json'}
        base = self.url + '/compute/v1/projects/%s/zones/%s/instances' % (self.project, ZONE)
        for body, word in (({'name': 'x', 'machinetype': 'y'}, b'machinetype'), ({'disks': {}}, b'disks'),
                           ({'scheduling': {'automaticRestart': 3}}, b'scheduling.automaticRestart')):
            status, _, text = http('POST', base, json.dumps(body).encode(), h)
            self.assertEqual((status, word in text), (400, True), text)
        self.assertEqual(http('POST', base, b'{', h)[0], 400)
        self.assertEqual(http('GET', base + '?maxresults=3', headers=h)[0], 400)
        self.assertEqual(http('GET', base + '?maxResults=501', headers=h)[0], 400)
        self.assertEqual(http('GET', self.url + '/compute/v1/projects/%s/nothing' % self.project, headers=h)[0], 404)


class Documents(Base):
    """Every answer against the discovery documents."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = os.path.join(os.path.dirname(googleapiclient.__file__), 'discovery_cache', 'documents')
        cls.docs = {}
        for name in ('compute.v1', 'cloudbilling.v1', 'storage.v1', 'iamcredentials.v1', 'sts.v1'):
            with open(os.path.join(folder, name + '.json')) as f:
                cls.docs[name] = json.load(f)
        cls.creds.refresh(Request())

    def find(self, doc, method):
        part = self.docs[doc]
        *path, last = method.split('.')
        for p in path:
            part = part['resources'][p]
        return part['methods'][last]

    def check(self, doc, schema, value, where):
        if '$ref' in schema:
            schema = self.docs[doc]['schemas'][schema['$ref']]
        kind = schema.get('type', 'any')
        if kind == 'any':
            return
        if kind == 'object':
            self.assertIsInstance(value, dict, where)
            if 'properties' not in schema:
                for k, v in value.items():
                    self.check(doc, schema['additionalProperties'], v, '%s[%s]' % (where, k))
                return
            for k, v in value.items():
                self.assertIn(k, schema['properties'], where)
                self.check(doc, schema['properties'][k], v, '%s.%s' % (where, k))
            if schema['properties'].get('kind', {}).get('default'):
                self.assertEqual(value.get('kind'), schema['properties']['kind']['default'], where)
        elif kind == 'array':
            self.assertIsInstance(value, list, where)
            for k, v in enumerate(value):
                self.check(doc, schema['items'], v, '%s[%d]' % (where, k))
        elif kind == 'string':
            self.assertIsInstance(value, str, where)
            if schema.get('format') in ('int64', 'uint64'):
                int(value)
            if schema.get('format') in ('google-datetime', 'date-time'):
                self.assertRegex(value, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)$', where)
            if schema.get('enum'):
                self.assertIn(value, schema['enum'], where)
        elif kind == 'integer':
            self.assertTrue(isinstance(value, int) and not isinstance(value, bool), where)
        elif kind == 'number':
            self.assertTrue(isinstance(value, (int, float)) and not isinstance(value, bool), where)
        elif kind == 'boolean':
            self.assertIsInstance(value, bool, where)

    def call(self, doc, method, path_args=None, query=None, body=None, form=None, expect=200):
        m = self.find(doc, method)
        path = m.get('flatPath', m['path']) if doc not in ('compute.v1', 'storage.v1') else m['path']
        base = {'compute.v1': '/compute/v1/', 'storage.v1': '/storage/v1/'}.get(doc, '/')
        if path.startswith('projects/') and doc == 'compute.v1':
            base = '/compute/v1/'
        for k, v in (path_args or {}).items():
            path = path.replace('{%s}' % k, urllib.parse.quote(v, safe=''))
        url = self.url + base + path + ('?' + urllib.parse.urlencode(query) if query else '')
        for k in (query or {}):
            self.assertIn(k, m.get('parameters', {}), 'the document knows the parameter')
        headers = {'Authorization': 'Bearer ' + self.creds.token}
        data = None
        if body is not None:
            data, headers['Content-Type'] = json.dumps(body).encode(), 'application/json'
        status, _, text = http(m['httpMethod'], url, data, headers)
        self.assertEqual(status, expect, (method, text))
        if expect >= 300 or not text:
            return json.loads(text) if text else None
        value = json.loads(text)
        if 'response' in m:
            self.check(doc, m['response'], value, method)
        return value

    def compute(self, method, query=None, body=None, expect=200, **args):
        return self.call('compute.v1', method, dict(args, project=self.project), query, body, expect=expect)

    def test_compute(self):
        vm = self.launch('doc-1')
        self.compute('instances.get', zone=ZONE, instance='doc-1')
        self.compute('instances.list', zone=ZONE)
        self.compute('instances.aggregatedList', query={'includeAllScopes': 'true', 'maxResults': 100})
        self.compute('instances.setLabels', zone=ZONE, instance='doc-1',
                     body={'labels': {'x': 'y'}, 'labelFingerprint': vm.label_fingerprint})
        self.compute('instances.testIamPermissions', zone=ZONE, resource='doc-1',
                     body={'permissions': ['compute.instances.delete', 'storage.objects.get']})
        self.compute('disks.get', zone=ZONE, disk='doc-1')
        self.compute('disks.list', zone=ZONE)
        self.compute('disks.aggregatedList')
        for m in ('zones', 'regions'):
            self.compute(m + '.list')
        self.compute('zones.get', zone=ZONE)
        self.compute('regions.get', region=REGION)
        self.compute('projects.get')
        self.compute('machineTypes.aggregatedList')
        self.compute('machineTypes.list', zone=ZONE)
        self.compute('machineTypes.get', zone=ZONE, machineType='a3-highgpu-8g')
        self.compute('acceleratorTypes.aggregatedList')
        self.compute('acceleratorTypes.list', zone=ZONE)
        self.call('compute.v1', 'images.getFromFamily', {'project': 'debian-cloud', 'family': 'debian-12'})
        self.call('compute.v1', 'images.get', {'project': 'debian-cloud', 'image': 'debian-12-bookworm-v20261014'})
        op = self.compute('instances.delete', zone=ZONE, instance='doc-1', query={'requestId': str(uuid.uuid4())})
        self.compute('zoneOperations.get', zone=ZONE, operation=op['name'])
        self.compute('zoneOperations.wait', zone=ZONE, operation=op['id'])
        self.compute('instances.get', zone=ZONE, instance='doc-1', expect=404)

    def test_operations_of_all_kinds(self):
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-a/g2-standard-16/spot', 'count': 0})
        self.done(self.insert('doc-none', type='g2-standard-16'))
        vm = self.launch('doc-pre')
        self.sim.ctl('POST', '/reclaim', {'instance': str(vm.id), 'notice_s': 0})
        self.sim.wait('terminated', token='doc-pre')
        body = {'count': '2', 'minCount': '1', 'namePattern': 'doc-bulk-#', 'instanceProperties': {
            'machineType': 'g2-standard-4', 'scheduling': {'provisioningModel': 'SPOT', 'automaticRestart': False},
            'disks': [{'boot': True, 'autoDelete': True, 'initializeParams': {'sourceImage': IMAGE}}],
            'networkInterfaces': [{'network': 'global/networks/default'}]}}
        op = self.compute('regionInstances.bulkInsert', region=REGION, body=body)
        self.compute('regionOperations.wait', region=REGION, operation=op['name'])
        self.compute('regionOperations.list', region=REGION)
        self.compute('zoneOperations.list', zone=ZONE)
        self.compute('globalOperations.aggregatedList', query={'orderBy': 'creationTimestamp desc'})
        self.compute('advice.capacityHistory', region=REGION, body={
            'instanceProperties': {'machineType': 'a2-highgpu-1g', 'scheduling': {'provisioningModel': 'SPOT'}},
            'types': ['PREEMPTION', 'PRICE']})
        self.compute('advice.capacity', region=REGION, body={
            'size': 2, 'instanceProperties': {'scheduling': {'provisioningModel': 'SPOT'}},
            'distributionPolicy': {'targetShape': 'ANY', 'zones': [{'zone': 'zones/' + ZONE}]},
            'instanceFlexibilityPolicy': {'instanceSelections': {'s': {'machineTypes': ['g2-standard-12']}}}})

    def test_billing(self):
        self.call('cloudbilling.v1', 'services.list')
        self.call('cloudbilling.v1', 'services.skus.list', {'servicesId': '6F81-5844-456A'}, {'pageSize': 5000})

    def test_storage(self):
        name = 'doc-bucket-1'
        self.call('storage.v1', 'buckets.insert', query={'project': self.project}, body={'name': name, 'location': 'EU'})
        self.call('storage.v1', 'buckets.list', query={'project': self.project})
        self.call('storage.v1', 'buckets.get', {'bucket': name})
        storage.Client(project=self.project, credentials=self.creds, client_options=ClientOptions(
            api_endpoint=self.url)).bucket(name).blob('a/b').upload_from_string(b'1')
        self.call('storage.v1', 'objects.get', {'bucket': name, 'object': 'a/b'})
        self.call('storage.v1', 'objects.list', {'bucket': name}, {'delimiter': '/'})
        self.call('storage.v1', 'objects.compose', {'destinationBucket': name, 'destinationObject': 'c'},
                  body={'sourceObjects': [{'name': 'a/b'}, {'name': 'a/b'}]})
        self.call('storage.v1', 'objects.delete', {'bucket': name, 'object': 'c'}, expect=204)

    def test_iam(self):
        sa = self.gcp['email']
        got = self.call('iamcredentials.v1', 'projects.serviceAccounts.generateAccessToken',
                        {'projectsId': '-', 'serviceAccountsId': sa}, body={'scope': SCOPE, 'lifetime': '3600s'})
        self.assertTrue(got['accessToken'])
        self.call('iamcredentials.v1', 'projects.serviceAccounts.signBlob',
                  {'projectsId': '-', 'serviceAccountsId': sa}, body={'payload': base64.b64encode(b'x').decode()})


if __name__ == '__main__':
    unittest.main()
