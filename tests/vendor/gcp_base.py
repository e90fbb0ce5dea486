"""Google's own Python libraries, unpatched, pointed at a cloudsim: the common part of the tests of Google Cloud."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloudsim'))
from cloudsim_proc import Cloudsim, http  # noqa: E402,F401

try:
    import google.auth  # noqa: F401
    import googleapiclient  # noqa: F401
    from google.api_core import exceptions  # noqa: F401
    from google.api_core.client_options import ClientOptions
    from google.cloud import billing_v1, compute_v1
    from google.cloud import storage  # noqa: F401
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
