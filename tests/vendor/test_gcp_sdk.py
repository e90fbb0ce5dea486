#!/usr/bin/env python3
"""Google's own Python libraries, unpatched, drive cloudsim's Google Compute Engine and billing catalog. Only the
endpoint and the credentials are ours, so the vendor's models parse every answer. argv[1] is the program."""
import json
import unittest
import uuid

from gcp_base import Base, REGION, ZONE, billing_v1, compute_v1, exceptions, http
from google.auth.transport.requests import Request


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

    def test_googles_refusals_are_ours(self):
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

    def accepted(self, name, change):
        b = self.body(name)
        change(b)
        op = self.done(self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b))
        self.assertEqual(list(op.error.errors), [])
        return self.instances.get(project=self.project, zone=ZONE, instance=name)

    def test_fields_that_googles_pages_leave_out_may_be_left_out(self):
        def spot_only(b):
            b.scheduling = compute_v1.Scheduling(provisioning_model='SPOT')
            b.network_interfaces = [compute_v1.NetworkInterface()]
            b.labels = {'\u00e9t\u00e9': '\u00fc'}

        vm = self.accepted('short-form-1', spot_only)
        self.assertEqual((vm.scheduling.automatic_restart, vm.scheduling.on_host_maintenance), (False, 'TERMINATE'))
        self.assertEqual(dict(vm.labels), {'\u00e9t\u00e9': '\u00fc'})

    def test_a_second_disk_may_be_blank(self):
        vm = self.accepted('blank-1', lambda b: b.disks.append(compute_v1.AttachedDisk(
            auto_delete=True, initialize_params=compute_v1.AttachedDiskInitializeParams(
                disk_name='blank-data', disk_size_gb=20, disk_type='zones/%s/diskTypes/pd-ssd' % ZONE))))
        self.assertEqual(len(vm.disks), 2)
        self.assertEqual(self.disks.get(project=self.project, zone=ZONE, disk='blank-data').size_gb, 20)

    def test_a_protected_vm_is_not_deleted(self):
        self.accepted('safe-1', lambda b: setattr(b, 'deletion_protection', True))
        with self.assertRaises(exceptions.BadRequest) as e:
            self.instances.delete_unary(project=self.project, zone=ZONE, instance='safe-1')
        self.assertIn('protected against deletion', e.exception.message)

    def test_a_missing_field_is_not_told_as_a_missing_credential(self):
        b = self.body('')
        with self.assertRaises(exceptions.BadRequest) as e:
            self.instances.insert_unary(project=self.project, zone=ZONE, instance_resource=b)
        self.assertEqual((e.exception.errors[0]['reason'], list(e.exception.details)), ('required', []))

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

    def test_an_unknown_target_shape_is_refused(self):
        r = compute_v1.BulkInsertInstanceResource(count=1, name_pattern='even-#', instance_properties=self.properties(),
                                                  location_policy=compute_v1.LocationPolicy(target_shape='EVEN'))
        with self.assertRaises(exceptions.BadRequest) as e:
            self.region_instances.bulk_insert_unary(project=self.project, region=REGION,
                                                    bulk_insert_instance_resource_resource=r)
        self.assertIn('targetShape', e.exception.message)

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
        one = self.accelerators.get(project=self.project, zone=ZONE, accelerator_type='nvidia-l4')
        self.assertEqual((one.name, one.maximum_cards_per_instance), ('nvidia-l4', 8))
        with self.assertRaises(exceptions.NotFound):
            self.accelerators.get(project=self.project, zone=ZONE, accelerator_type='nvidia-l5')

    def test_zones_regions_project_and_images(self):
        zones = {z.name: z.region.split('/')[-1] for z in self.zones.list(project=self.project)}
        self.assertEqual(zones['us-central1-ai1a'], 'us-central1')
        self.assertGreater(len(list(self.regions.list(project=self.project))), 30)
        self.assertEqual(self.projects.get(project=self.project).name, self.project)
        image = self.images.get_from_family(project='debian-cloud', family='debian-12')
        self.assertEqual((image.family, image.disk_size_gb), ('debian-12', 10))
        self.assertIn(image.name, [i.name for i in self.images.list(project='debian-cloud')])
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

    def test_a_price_set_by_hand_moves_its_sku_and_its_dependents(self):
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


if __name__ == '__main__':
    unittest.main()
