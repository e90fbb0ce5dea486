#!/usr/bin/env python3
"""Google's own libraries, and calls that people use beside insert, list and delete. These are stop and start, metadata,
tags, templates, the default network, disks, copies of objects. argv[1] is the program."""
import unittest
import uuid

import test_gcp_services as services  # argv is read there too
from gcp_base import Base, ClientOptions, IMAGE, REGION, ZONE, compute_v1, exceptions, http, storage


class More(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        o = dict(credentials=cls.creds, client_options=ClientOptions(api_endpoint=cls.url), transport='rest')
        cls.networks, cls.subnetworks = compute_v1.NetworksClient(**o), compute_v1.SubnetworksClient(**o)
        cls.firewalls, cls.disk_types = compute_v1.FirewallsClient(**o), compute_v1.DiskTypesClient(**o)
        cls.templates = compute_v1.InstanceTemplatesClient(**o)

    def at(self, name):
        return dict(project=self.project, zone=ZONE, instance=name)

    def get(self, name):
        return self.instances.get(**self.at(name))


class FlexStart(More):
    """By the pages about Flex-start VMs and the life of an instance."""

    def order(self, name, wait_s=7200, run_s=86400, type='g2-standard-4', affinity='NO_RESERVATION', action='DELETE'):
        body = self.body(name, type, spot=False, reservation_affinity=compute_v1.ReservationAffinity(consume_reservation_type=affinity),
                         params=compute_v1.InstanceParams(request_valid_for_duration=compute_v1.Duration(seconds=wait_s)))
        body.scheduling.provisioning_model, body.scheduling.instance_termination_action = 'FLEX_START', action
        body.scheduling.max_run_duration = compute_v1.Duration(seconds=run_s)
        return self.instances.insert_unary(compute_v1.InsertInstanceRequest(project=self.project, zone=ZONE, instance_resource=body))

    def test_an_order_waits_runs_and_is_deleted_at_its_end(self):
        self.config(flex_queue_ms=-1)
        op = self.order('flex-1')
        vm = self.get('flex-1')
        self.assertEqual((vm.status, vm.scheduling.provisioning_model), ('PENDING', 'FLEX_START'))
        self.assertNotEqual(op.status, compute_v1.Operation.Status.DONE)
        self.config(flex_queue_ms=0)
        self.sim.wait('running', token='flex-1')
        self.assertEqual(list(self.done(op).error.errors), [])
        vm = self.get('flex-1')
        self.assertEqual(vm.status, 'RUNNING')
        self.assertGreater(vm.resource_status.scheduling.termination_timestamp, vm.last_start_timestamp)
        self.config(flex_run_ms=1)
        self.sim.wait('terminated', token='flex-1')
        self.config(flex_run_ms=0)
        with self.assertRaises(exceptions.NotFound):
            self.get('flex-1')

    def test_a_wait_that_ends_deletes_the_vm(self):
        self.config(flex_queue_ms=-1, flex_wait_ms=1)
        op = self.done(self.order('flex-2'))
        self.assertEqual(op.error.errors[0].code, 'ZONE_RESOURCE_POOL_EXHAUSTED')
        self.sim.wait('terminated', token='flex-2')
        self.config(flex_queue_ms=0, flex_wait_ms=0)

    def test_what_the_pages_forbid_is_refused(self):
        for more in ({'wait_s': 89}, {'wait_s': 7201}, {'run_s': 599}, {'run_s': 604801}, {'affinity': 'ANY_RESERVATION'}, {'action': ''}):
            with self.assertRaises(exceptions.BadRequest, msg=more):
                self.order('flex-3', **more)


class Power(More):
    def test_stop_and_start(self):
        self.launch('stop-1', spot=False)
        op = self.instances.stop_unary(**self.at('stop-1'))
        self.assertEqual(op.operation_type, 'stop')
        self.assertEqual(self.get('stop-1').status, 'STOPPING')
        self.assertEqual(list(self.done(op).error.errors), [])
        vm = self.get('stop-1')
        self.assertEqual(vm.status, 'TERMINATED')
        self.assertTrue(vm.last_stop_timestamp)
        self.assertEqual(list(vm.network_interfaces[0].access_configs), [])
        self.done(self.instances.start_unary(**self.at('stop-1')))
        self.sim.wait('running', token='stop-1', count=2)
        self.assertEqual(self.get('stop-1').status, 'RUNNING')
        self.done(self.instances.reset_unary(**self.at('stop-1')))
        self.done(self.instances.stop_unary(**self.at('stop-1')))
        with self.assertRaises(exceptions.BadRequest):
            self.instances.reset_unary(**self.at('stop-1'))
        self.delete('stop-1')
        with self.assertRaises(exceptions.NotFound):
            self.get('stop-1')
        self.assertEqual(self.sim.ctl('GET', '/books')['left'], [])

    def test_a_preempted_vm_that_stays_can_be_started_when_there_is_room(self):
        self.launch('again-1', action='STOP')
        self.sim.ctl('POST', '/reclaim', {'pool': 'gcp', 'notice_s': 0})
        self.sim.wait('terminated', token='again-1')
        self.assertEqual(self.get('again-1').status, 'TERMINATED')
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-a/g2-standard-4/spot', 'count': 0})
        op = self.done(self.instances.start_unary(**self.at('again-1')))
        self.assertEqual(op.error.errors[0].code, 'ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS')
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})
        self.done(self.instances.start_unary(**self.at('again-1')))
        self.sim.wait('running', token='again-1', count=2)
        self.delete('again-1')

    def test_local_disks_need_a_word_before_a_stop(self):
        self.launch('ssd-1', type='a3-highgpu-8g')
        with self.assertRaises(exceptions.BadRequest) as e:
            self.instances.stop_unary(**self.at('ssd-1'))
        self.assertIn('discard-local-ssd', e.exception.message)
        self.done(self.instances.stop_unary(compute_v1.StopInstanceRequest(discard_local_ssd=True, **self.at('ssd-1'))))
        self.delete('ssd-1')

    def test_metadata_and_tags_change_by_their_fingerprints(self):
        vm = self.launch('meta-1')
        body = compute_v1.Metadata(fingerprint=vm.metadata.fingerprint, items=[compute_v1.Items(key='a', value='1')])
        self.done(self.instances.set_metadata_unary(metadata_resource=body, **self.at('meta-1')))
        self.assertEqual([(i.key, i.value) for i in self.get('meta-1').metadata.items], [('a', '1')])
        with self.assertRaises(exceptions.PreconditionFailed):
            self.instances.set_metadata_unary(metadata_resource=body, **self.at('meta-1'))
        tags = compute_v1.Tags(fingerprint=vm.tags.fingerprint, items=['web'])
        self.done(self.instances.set_tags_unary(tags_resource=tags, **self.at('meta-1')))
        self.assertEqual(list(self.get('meta-1').tags.items), ['web'])
        with self.assertRaises(exceptions.PreconditionFailed):
            self.instances.set_tags_unary(tags_resource=tags, **self.at('meta-1'))
        labels = compute_v1.InstancesSetLabelsRequest(labels={'x': 'y'}, label_fingerprint=vm.label_fingerprint)
        self.done(self.instances.set_labels_unary(instances_set_labels_request_resource=labels, **self.at('meta-1')))
        self.assertEqual(dict(self.get('meta-1').labels), {'x': 'y'})
        self.delete('meta-1')

    def test_protection_is_put_on_and_taken_off(self):
        self.assertFalse(self.launch('guard-1').deletion_protection)
        where = dict(project=self.project, zone=ZONE, resource='guard-1')
        self.done(self.instances.set_deletion_protection_unary(compute_v1.SetDeletionProtectionInstanceRequest(**where)))
        self.assertTrue(self.get('guard-1').deletion_protection)
        with self.assertRaises(exceptions.BadRequest):
            self.instances.delete_unary(**self.at('guard-1'))
        self.done(self.instances.set_deletion_protection_unary(
            compute_v1.SetDeletionProtectionInstanceRequest(deletion_protection=False, **where)))
        self.delete('guard-1')

    def test_filters_look_into_repeated_fields(self):
        vm = self.launch('filter-1')
        names = lambda f: [i.name for i in self.instances.list(compute_v1.ListInstancesRequest(project=self.project, zone=ZONE, filter=f))]
        for f in ('networkInterfaces.networkIP="%s"' % vm.network_interfaces[0].network_i_p, 'networkInterfaces.accessConfigs.natIP:*',
                  'disks.boot=true', 'serviceAccounts.email eq defaul.', 'disks.boot=true AND NOT disks.boot=false'):
            self.assertEqual(names(f), ['filter-1'], f)
        for f in ('networkInterfaces.networkIP="10.99.99.99"', 'disks.boot!=true', 'serviceAccounts.email ne default', 'tags.items=web'):
            self.assertEqual(names(f), [], f)
        self.delete('filter-1')

    def test_an_insert_with_contradictions_is_refused(self):
        def insert(change):
            body = self.body('much-1')
            change(body)
            self.instances.insert_unary(compute_v1.InsertInstanceRequest(project=self.project, zone=ZONE, instance_resource=body))

        def both(b):
            b.scheduling.max_run_duration = compute_v1.Duration(seconds=3600)
            b.scheduling.termination_time = '2030-01-01T00:00:00Z'
        with self.assertRaises(exceptions.BadRequest):
            insert(both)
        with self.assertRaises(exceptions.NotFound):
            insert(lambda b: setattr(b.disks[0].initialize_params, 'disk_type', 'zones/%s/diskTypes/pd-nonsense' % ZONE))

    def test_the_guests_output_is_shown(self):
        self.launch('serial-1')
        out = self.instances.get_serial_port_output(**self.at('serial-1'))
        self.assertIn('Linux version', out.contents)
        more = self.instances.get_serial_port_output(compute_v1.GetSerialPortOutputInstanceRequest(
            start=out.next, **self.at('serial-1')))
        self.assertEqual((more.contents, more.next), ('', out.next))
        with self.assertRaises(exceptions.NotFound):
            self.instances.get_guest_attributes(compute_v1.GetGuestAttributesInstanceRequest(
                query_path='hostkeys/', **self.at('serial-1')))
        self.delete('serial-1')


class Around(More):
    def test_networks_and_firewalls(self):
        self.assertEqual([n.name for n in self.networks.list(project=self.project)], ['default'])
        n = self.networks.get(project=self.project, network='default')
        self.assertTrue(any(REGION in s for s in n.subnetworks))
        s = self.subnetworks.get(project=self.project, region=REGION, subnetwork='default')
        self.assertRegex(s.ip_cidr_range, r'^10\.\d+\.\d+\.0/20$')
        self.assertEqual(len(list(self.subnetworks.list(project=self.project, region=REGION))), 1)
        ranges = [x.ip_cidr_range for _, l in self.subnetworks.aggregated_list(project=self.project) for x in l.subnetworks]
        self.assertEqual(len(ranges), len(set(ranges)))
        rules = {f.name for f in self.firewalls.list(project=self.project)}
        self.assertIn('default-allow-ssh', rules)
        self.assertEqual(self.firewalls.get(project=self.project, firewall='default-allow-ssh').allowed[0].ports, ['22'])
        for call in (lambda: self.networks.get(project=self.project, network='none'),
                     lambda: self.firewalls.get(project=self.project, firewall='none'),
                     lambda: self.subnetworks.get(project=self.project, region=REGION, subnetwork='none')):
            with self.assertRaises(exceptions.NotFound):
                call()

    def test_disks_and_their_types(self):
        self.assertIn('pd-balanced', [t.name for t in self.disk_types.list(project=self.project, zone=ZONE)])
        t = self.disk_types.get(project=self.project, zone=ZONE, disk_type='pd-ssd')
        self.assertEqual(t.valid_disk_size, '10GB-65536GB')
        op = self.disks.insert_unary(project=self.project, zone=ZONE, disk_resource=compute_v1.Disk(
            name='data-1', size_gb=200, type_=t.self_link, labels={'a': 'b'}))
        self.done(op)
        d = self.disks.get(project=self.project, zone=ZONE, disk='data-1')
        self.assertEqual((d.size_gb, d.type_, dict(d.labels), list(d.users)), (200, t.self_link, {'a': 'b'}, []))
        self.assertIn('gcp/disk/%s/data-1' % ZONE, self.sim.ctl('GET', '/books')['left'])
        with self.assertRaises(exceptions.Conflict):
            self.disks.insert_unary(project=self.project, zone=ZONE, disk_resource=compute_v1.Disk(name='data-1'))
        with self.assertRaises(exceptions.NotFound):
            self.disks.insert_unary(project=self.project, zone=ZONE, disk_resource=compute_v1.Disk(
                name='data-2', type_='zones/%s/diskTypes/no-such' % ZONE))
        self.done(self.disks.delete_unary(project=self.project, zone=ZONE, disk='data-1'))

    def test_a_template_is_made_used_and_deleted(self):
        b = self.body('x')
        b.scheduling.instance_termination_action = 'DELETE'
        props = compute_v1.InstanceProperties(
            machine_type='g2-standard-4', scheduling=b.scheduling, labels={'from': 'template'}, disks=[compute_v1.AttachedDisk(
                boot=True, auto_delete=True, initialize_params=compute_v1.AttachedDiskInitializeParams(
                    source_image=IMAGE, disk_type='pd-ssd', disk_size_gb=50))], network_interfaces=b.network_interfaces)
        t = compute_v1.InstanceTemplate(name='tpl-1', description='of a test', properties=props)
        op = self.templates.insert_unary(project=self.project, instance_template_resource=t)
        self.assertEqual(self.all_ops.wait(project=self.project, operation=op.name).status, compute_v1.Operation.Status.DONE)
        self.assertEqual(self.all_ops.get(project=self.project, operation=op.name).operation_type, 'insert')
        self.assertEqual(self.templates.get(project=self.project, instance_template='tpl-1').properties.machine_type, 'g2-standard-4')
        self.assertEqual([x.name for x in self.templates.list(project=self.project)], ['tpl-1'])
        with self.assertRaises(exceptions.Conflict):
            self.templates.insert_unary(project=self.project, instance_template_resource=t)
        self.done(self.instances.insert_unary(compute_v1.InsertInstanceRequest(
            project=self.project, zone=ZONE, source_instance_template='global/instanceTemplates/tpl-1',
            instance_resource=compute_v1.Instance(name='from-tpl-1', labels={'own': 'label'}))))
        self.sim.wait('running', token='from-tpl-1')
        vm = self.get('from-tpl-1')
        self.assertEqual((vm.scheduling.provisioning_model, dict(vm.labels)), ('SPOT', {'own': 'label'}))
        self.assertTrue(vm.machine_type.endswith('zones/%s/machineTypes/g2-standard-4' % ZONE))
        self.delete('from-tpl-1')
        self.templates.delete_unary(project=self.project, instance_template='tpl-1')
        with self.assertRaises(exceptions.NotFound):
            self.templates.get(project=self.project, instance_template='tpl-1')
        with self.assertRaises(exceptions.NotFound):
            self.instances.insert_unary(compute_v1.InsertInstanceRequest(
                project=self.project, zone=ZONE, source_instance_template='global/instanceTemplates/tpl-1',
                instance_resource=compute_v1.Instance(name='from-tpl-2')))


class Objects(More):
    def test_objects_are_copied_rewritten_and_changed(self):
        c = storage.Client(project=self.project, credentials=self.creds, client_options=ClientOptions(api_endpoint=self.url))
        b = c.create_bucket('changes')
        blob = b.blob('a/one')
        blob.metadata = {'k': 'v', 'drop': 'me'}
        blob.upload_from_string(b'hello', content_type='text/plain')
        copy = b.copy_blob(blob, b, 'a/two')
        self.assertEqual((copy.download_as_bytes(), copy.content_type), (b'hello', 'text/plain'))
        third = b.blob('a/three')
        token, done, size = third.rewrite(blob)
        self.assertEqual((token, done, size), (None, 5, 5))
        self.assertEqual(b.blob('a/three').download_as_bytes(), b'hello')
        blob.metadata = {'k': 'w', 'drop': None}
        blob.content_type = 'text/html'
        blob.patch()
        blob = b.get_blob('a/one')
        self.assertEqual((blob.metadata, blob.content_type, blob.metageneration), ({'k': 'w'}, 'text/html', 2))
        with self.assertRaises(exceptions.PreconditionFailed):
            blob.patch(if_metageneration_match=1)
        blob.metadata = {'only': 'this'}
        blob.update()
        self.assertEqual(b.get_blob('a/one').metadata, {'only': 'this'})
        moved = b.rename_blob(blob, 'a/moved')
        self.assertEqual(moved.download_as_bytes(), b'hello')
        self.assertIsNone(b.get_blob('a/one'))
        with self.assertRaises(exceptions.NotFound):
            b.copy_blob(b.blob('no'), b, 'x')


class Replies(More):
    """The answers of these methods against Google's discovery documents, as test_gcp_services.py does for the others."""
    find, check, call, compute = (getattr(services.Documents, n) for n in ('find', 'check', 'call', 'compute'))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        services.Documents.load(cls)

    def test_replies_are_those_of_the_documents(self):
        vm = self.launch('doc-1', spot=False)
        here = dict(zone=ZONE, instance='doc-1')
        op = self.compute('instances.setMetadata', body={'fingerprint': vm.metadata.fingerprint, 'items': []}, **here)
        self.assertEqual(op['operationType'], 'setMetadata')
        self.compute('instances.setTags', body={'fingerprint': vm.tags.fingerprint, 'items': ['a']}, **here)
        self.compute('instances.getSerialPortOutput', query={'port': 1}, **here)
        self.compute('instances.reset', **here)
        self.compute('instances.stop', query={'requestId': str(uuid.uuid4())}, **here)
        self.compute('instances.get', **here)
        self.compute('disks.insert', zone=ZONE, body={'name': 'doc-data', 'sizeGb': '20'})
        self.compute('disks.delete', zone=ZONE, disk='doc-data')
        for method, more in (('networks', {}), ('firewalls', {}), ('instanceTemplates', {}), ('subnetworks', {'region': REGION}),
                             ('diskTypes', {'zone': ZONE})):
            self.compute(method + '.list', **more)
        self.compute('subnetworks.aggregatedList')
        self.compute('networks.get', network='default')
        self.compute('firewalls.get', firewall='default-allow-icmp')
        self.compute('subnetworks.get', region=REGION, subnetwork='default')
        self.compute('diskTypes.get', zone=ZONE, diskType='pd-standard')
        op = self.compute('instanceTemplates.insert', body={'name': 'doc-t', 'properties': {'machineType': 'g2-standard-4'}})
        self.compute('globalOperations.get', operation=op['name'])
        self.compute('globalOperations.wait', operation=op['name'])
        self.compute('globalOperations.list')
        self.compute('instanceTemplates.get', instanceTemplate='doc-t')
        self.compute('instanceTemplates.list')
        self.compute('instanceTemplates.delete', instanceTemplate='doc-t')
        self.compute('instanceTemplates.insert', body={'name': 'doc-t', 'propertys': {}}, expect=400)
        self.delete('doc-1')

    def test_replies_about_objects_too(self):
        self.call('storage.v1', 'buckets.insert', query={'project': self.project}, body={'name': 'doc-bucket'})
        http('POST', self.url + '/upload/storage/v1/b/doc-bucket/o?uploadType=media&name=one', b'x',
             {'Authorization': 'Bearer ' + self.creds.token, 'Content-Type': 'text/plain'})
        at = {'sourceBucket': 'doc-bucket', 'sourceObject': 'one', 'destinationBucket': 'doc-bucket', 'destinationObject': 'two'}
        self.call('storage.v1', 'objects.copy', at, body={})
        self.call('storage.v1', 'objects.rewrite', at, body={})
        self.call('storage.v1', 'objects.patch', {'bucket': 'doc-bucket', 'object': 'one'}, body={'metadata': {'a': 'b'}})
        self.call('storage.v1', 'objects.update', {'bucket': 'doc-bucket', 'object': 'one'}, body={'contentType': 'text/x'})


if __name__ == '__main__':
    unittest.main(warnings='ignore')
