"""Shared by the tests of Azure: the vendor's own SDKs, unpatched, call a cloudsim over TLS with the emulator's CA.
argv[1] is the emulator's program. Exit 77 (skipped) if the packages are missing."""
import base64
import json
import os
import sys
import unittest
import urllib.parse

try:
    import azure.mgmt.compute.v2021_07_01.models as sku_models
    import azure.mgmt.compute.v2024_11_01.models as compute_models
    import azure.mgmt.compute.v2025_01_02.models as disk_models
    import azure.mgmt.network.models as network_models
    import azure.mgmt.resource.resources.v2025_04_01.models as resource_models
    import azure.mgmt.resourcegraph.models as graph_models
    from azure.core.exceptions import HttpResponseError, ResponseNotReadError
    from azure.core.pipeline.policies import SansIOHTTPPolicy
    from azure.identity import ClientSecretCredential
    from azure.mgmt.compute import ComputeManagementClient
    from azure.mgmt.network import NetworkManagementClient
    from azure.mgmt.resource.resources import ResourceManagementClient
    from azure.mgmt.resourcegraph import ResourceGraphClient
    import azure.storage.blob  # noqa: F401
    import cryptography  # noqa: F401
    import jwt  # noqa: F401
except ImportError as e:
    print('no Azure SDK (%s): skipped' % e)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloudsim'))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloudsim_proc import Cloudsim  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'
SIZE = 'Standard_NC40ads_H100_v5'
REGION = 'eastus2'

# The model of each reply, by the request's path.
MODELS = [
    (r'/virtualMachines/[^/]+$', compute_models.VirtualMachine), (r'/virtualMachines$', compute_models.VirtualMachineListResult),
    (r'/instanceView$', compute_models.VirtualMachineInstanceView),
    (r'/Microsoft.Compute/locations/[^/]+/usages$', compute_models.ListUsagesResult),
    (r'/skus$', sku_models.ResourceSkusResult), (r'/disks$', disk_models.DiskList), (r'/disks/[^/]+$', disk_models.Disk),
    (r'/networkInterfaces/[^/]+$', network_models.NetworkInterface),
    (r'/networkInterfaces$', network_models.NetworkInterfaceListResult),
    (r'/publicIPAddresses/[^/]+$', network_models.PublicIPAddress),
    (r'/publicIPAddresses$', network_models.PublicIPAddressListResult),
    (r'/virtualNetworks/[^/]+$', network_models.VirtualNetwork),
    (r'/networkSecurityGroups/[^/]+$', network_models.NetworkSecurityGroup),
    (r'/resource[gG]roups/[^/]+$', resource_models.ResourceGroup), (r'/resource[gG]roups$', resource_models.ResourceGroupListResult),
    (r'/resources$', resource_models.ResourceListResult),
    (r'/Microsoft.ResourceGraph/resources$', graph_models.QueryResponse),
]


class Recorder(SansIOHTTPPolicy):
    """Keeps every reply's path, status and body."""
    def __init__(self):
        self.seen = []

    def on_response(self, request, response):
        r = response.http_response
        kind = r.headers.get('Content-Type', '')
        try:
            r.text()
        except ResponseNotReadError:  # the start of an operation: its result is read by a GET later
            return
        if kind.startswith('application/json'):
            self.seen.append((urllib.parse.urlsplit(request.http_request.url).path, r.status_code, json.loads(r.text())))


class Base(unittest.TestCase):
    options = ('--seed', '31', '--boot-ms', '50', '--terminate-ms', '50', '--no-throttle')

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)
        cls.addClassCleanup(cls.sim.stop)
        cls.keys = cls.sim.info['credentials']['azure']
        cls.urls = cls.sim.info['urls']
        os.environ['REQUESTS_CA_BUNDLE'] = cls.urls['azure_ca']
        cls.sub = cls.keys['subscription_id']
        cls.recorder = Recorder()
        cls.cred = cls.secret_credential(cls.keys['client_secret'])
        more = dict(base_url=cls.urls['azure_tls'], per_call_policies=[cls.recorder], polling_interval=0.1, retry_total=0)
        cls.compute = ComputeManagementClient(cls.cred, cls.sub, **more)
        cls.network = NetworkManagementClient(cls.cred, cls.sub, **more)
        cls.resource = ResourceManagementClient(cls.cred, cls.sub, **more)
        cls.graph = ResourceGraphClient(cls.cred, **more)
        cls.prepare()

    @classmethod
    def secret_credential(cls, secret):
        return ClientSecretCredential(cls.keys['tenant_id'], cls.keys['client_id'], secret,
                                      authority=cls.urls['azure_tls'], disable_instance_discovery=True)

    @classmethod
    def prepare(cls):
        cls.resource.resource_groups.create_or_update('shared', {'location': REGION})
        net = cls.network.virtual_networks.begin_create_or_update('shared', 'net', {
            'location': REGION, 'address_space': {'address_prefixes': ['10.0.0.0/8']},
            'subnets': [{'name': 'default', 'address_prefix': '10.0.0.0/16'}]}).result()
        cls.subnet = net.subnets[0].id
        cls.nsg = cls.network.network_security_groups.begin_create_or_update(
            'shared', 'nsg', {'location': REGION}).result().id

    def body(self, spot=True, zone='1', **more):
        out = {
            'location': REGION, 'tags': {'broker': 'prod-1', 'lease': 'l-77'},
            'hardware_profile': {'vm_size': SIZE},
            'storage_profile': {
                'image_reference': {'publisher': 'microsoft-dsvm', 'offer': 'ubuntu-hpc', 'sku': '2204', 'version': 'latest'},
                'os_disk': {'create_option': 'FromImage', 'delete_option': 'Delete', 'disk_size_gb': 128,
                            'managed_disk': {'storage_account_type': 'Premium_LRS'}}},
            'os_profile': {
                'computer_name': 'l77', 'admin_username': 'broker',
                'custom_data': base64.b64encode(b'#!/bin/sh\nexit 0\n').decode(),
                'linux_configuration': {
                    'disable_password_authentication': True,
                    'ssh': {'public_keys': [{'path': '/home/broker/.ssh/authorized_keys', 'key_data': 'ssh-ed25519 AAAA'}]}}},
            'network_profile': {
                'network_api_version': '2022-11-01',
                'network_interface_configurations': [{
                    'name': 'nic0', 'primary': True, 'delete_option': 'Delete', 'network_security_group': {'id': self.nsg},
                    'ip_configurations': [{
                        'name': 'ip0', 'primary': True, 'subnet': {'id': self.subnet},
                        'public_ip_address_configuration': {
                            'name': 'pip0', 'sku': {'name': 'Standard'}, 'delete_option': 'Delete',
                            'public_ip_allocation_method': 'Static'}}]}]}}
        if zone:
            out['zones'] = [zone]
        if spot:
            out.update(priority='Spot', eviction_policy='Delete', billing_profile={'max_price': -1})
        out.update(more)
        return out

    def group(self, name):
        self.resource.resource_groups.create_or_update(name, {'location': REGION, 'tags': {'broker': 'prod-1'}})
        return name

    def create(self, group, name, **more):
        return self.compute.virtual_machines.begin_create_or_update(group, name, self.body(**more))

    def fails(self, code, status, call, *args, **kw):
        with self.assertRaises(HttpResponseError) as got:
            call(*args, **kw)
        self.assertEqual(got.exception.error.code, code)
        self.assertEqual(got.exception.status_code, status)
        return got.exception
